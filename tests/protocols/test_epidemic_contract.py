"""Opportunistic protocols under the whole contract: links with two ends, crashes, liars among the neighbours."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_ended import SECOND, TwoEnded

from antecast.core import MalformedFrame, Message
from antecast.protocols.contact import Again, Offer, Request
from antecast.protocols.delta import Stamp

FAR = (1 << 63) - 1
LIAR = 90
PROTOCOLS = ["epidemic", "barrier", "epidemic-vector", "delta"]


def settings_of(protocol, draw_from):
    settings = {"patience": "2s", "early": draw_from.choice([0, 500, 3000, 1 << 24])}
    settings["order"] = draw_from.choice(["random", "newest", "oldest"])
    if protocol == "delta":
        settings |= {"lifetime": "1h", "clock_bound": "3s"}
    return settings


def make(seed, protocol):
    random = Random(seed)
    offsets = 3 * SECOND if protocol == "delta" else 0
    return TwoEnded(
        seed, protocol=protocol, nodes=random.randint(2, 4), offsets=offsets, **settings_of(protocol, random)
    )


def assert_all_have_all(net):
    for node, seen in net.seen.items():
        assert net.past.keys() <= seen, f"node {node} never delivered {sorted(net.past.keys() - seen)[:3]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(seed=st.integers(0, 2**32))
def test_links_with_two_ends_and_crashes_lose_nothing(protocol, seed):
    net = make(seed, protocol)
    net.run(120)
    net.settle()
    assert_all_have_all(net)
    assert not net.honest_faults
    assert not net.alerts


class Liar:
    """Sends frames that decode and make no sense, or too much of it. What no protocol can know it leaves out: it
    signs with the number of an honest node only far ahead, and gives one name to one message only."""

    def __init__(self, net, protocol):
        self.net, self.random, self.protocol = net, net.random, protocol
        self.deltas = [-SECOND, 0, 1, SECOND, 3600 * SECOND, 3603 * SECOND, 3607 * SECOND, 10**6 * SECOND]

    def number(self):
        random = self.random
        return random.choice([1, 2, 3, random.randint(1, 50), 10**6 + random.randint(0, 9), 1 << 60, FAR - 1, FAR])

    def source(self):
        return self.random.choice([*self.net.nodes, LIAR, 50, 51, 2**32 - 1])

    def spans(self):
        spans = {}
        for _ in range(self.random.choice([0, 1, 3, 20])):
            runs = sorted({self.number() for _ in range(self.random.choice([2, 2, 4, 8]))})
            if self.random.random() < 0.9:
                runs = runs[: len(runs) // 2 * 2]
            spans[self.source()] = tuple(runs)
        return spans

    def tag(self):
        return max(-(1 << 62), min(self.net.now + self.random.choice(self.deltas), 1 << 62))

    def stamp(self):
        if self.protocol == "epidemic":
            return None
        count = self.random.choice([0, 1, 1, 3])
        if self.protocol == "delta":
            return Stamp(
                self.tag(), {self.source(): self.tag() - self.random.choice([0, 1]) for _ in range(count)}
            )
        return {self.source(): self.number() for _ in range(count)}

    def message(self):
        origin, seq = self.source(), self.number()
        if origin in self.net.seen:
            if self.protocol == "delta":  # where a number far ahead is as good as any
                origin = LIAR
            seq = max(seq, 10**6)
        return self.net.lies.setdefault((origin, seq), Message(origin, seq, b"lie", self.stamp()))

    def speak(self):
        random = self.random
        for _ in range(random.choice([1, 3, 10])):
            kind = random.choice(["message"] * 3 + ["offer", "request", "again"])
            if kind == "message":
                frame = self.message()
            else:
                frame = {"offer": Offer, "request": Request}[kind](self.spans()) if kind != "again" else Again()
            node = random.choice(sorted(self.net.nodes))
            with suppress(MalformedFrame):
                self.net.receive(node, frame, LIAR, honest=False)


class Lied(TwoEnded):
    """A liar is in contact with everyone, all the time."""

    def step(self):
        if self.random.random() < 0.5:
            super().step()
        else:
            node = self.random.choice(sorted(self.nodes))
            if self.random.random() < 0.2 or (node, LIAR) not in self.current:
                self.end_up(self.open(node, LIAR), node)
            Liar(self, self.spec.name).speak()

    def crash(self, node):
        super().crash(node)
        self.current.pop((node, LIAR), None)


def lied(seed, protocol):
    made = make(seed, protocol)
    made.__class__ = Lied
    made.lies = {}
    return made


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_neighbour_says_the_honest_go_on_among_themselves(protocol, seed):
    net = lied(seed, protocol)
    net.run(100)
    net.links = [link for link in net.links if LIAR not in link.end]
    net.settle(240)
    assert_all_have_all(net)
    assert not net.honest_faults
    for node in net.nodes.values():
        assert node.gauges()["pending"] < 1000
