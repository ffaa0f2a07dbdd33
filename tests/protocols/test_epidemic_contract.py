"""Opportunistic protocols under the whole contract: links with two ends, crashes, liars among the neighbours."""

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwise import SECOND, Stepwise

from antecast.core import MalformedFrame, Message
from antecast.protocols.contact import Again, Offer, Request
from antecast.protocols.delta import Stamp
from antecast.testing import Bench

FAR = (1 << 63) - 1
LIAR = 90
PROTOCOLS = ["epidemic", "barrier", "epidemic-vector", "delta"]
FIFO = PROTOCOLS[1:]


def settings_of(protocol, draw_from):
    settings = {"patience": "2s", "early": draw_from.choice([0, 500, 3000, 1 << 24])}
    settings["order"] = draw_from.choice(["random", "newest", "oldest"])
    if protocol == "delta":
        settings |= {"lifetime": "1h", "clock_bound": "3s"}
    return settings


def make(seed, protocol):
    random = Random(seed)
    nodes = random.randint(2, 4)
    offsets = {node: random.randint(0, 3 * SECOND) if protocol == "delta" else 0 for node in range(nodes)}
    settings = settings_of(protocol, random)
    bench = Bench(
        protocol, nodes=nodes, strangers=[LIAR], offsets=offsets, seed=seed, settings=settings, watch=True
    )
    return Stepwise(bench)


STEPS = ["broadcast"] * 3 + ["open"] * 2 + ["up"] * 4 + ["down"] * 2 + ["frame"] * 12 + ["crash", "recover"]


def play(network, steps, lie=lambda: None):
    """Steps, and a lie between two of them, if there is a liar; then all meet."""
    random, bench = network.random, network.bench
    for _ in range(steps):
        if not lie():
            network.step(random.choice(STEPS))
        network.wait(random.randrange(SECOND))
    for node in bench.nodes:
        bench.unlink(node, LIAR)
    network.heal(complete=True)
    bench.run(240 * SECOND)


def assert_all_have_all(network):
    bench = network.bench
    everything = {event.id for event in bench.log if event.kind == "broadcast"}
    for node in bench.nodes:
        missing = everything - set(bench.delivered[node])
        assert not missing, f"node {node} never delivered {sorted(missing)[:3]}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(seed=st.integers(0, 2**32))
def test_links_with_two_ends_and_crashes_lose_nothing(protocol, seed):
    network = make(seed, protocol)
    play(network, 120)
    assert_all_have_all(network)
    network.assert_order(fifo=protocol in FIFO, causal=protocol != "epidemic")
    assert not any(network.bench.alerts.values())


class Liar:
    """Sends frames that decode and make no sense, or too much of it. What no protocol can know it leaves out: it
    signs with the number of an honest node only far ahead, and gives one name to one message only."""

    def __init__(self, bench, protocol):
        self.bench, self.random, self.protocol = bench, bench.random, protocol
        self.honest = set(bench.nodes)
        self.lies = {}
        self.deltas = [-SECOND, 0, 1, SECOND, 3600 * SECOND, 3603 * SECOND, 3607 * SECOND, 10**6 * SECOND]

    def number(self):
        random = self.random
        return random.choice([1, 2, 3, random.randint(1, 50), 10**6 + random.randint(0, 9), 1 << 60, FAR - 1, FAR])

    def source(self):
        return self.random.choice([*sorted(self.bench.nodes), LIAR, 50, 51, 2**32 - 1])

    def spans(self):
        spans = {}
        for _ in range(self.random.choice([0, 1, 3, 20])):
            runs = sorted({self.number() for _ in range(self.random.choice([2, 2, 4, 8]))})
            if self.random.random() < 0.9:
                runs = runs[: len(runs) // 2 * 2]
            spans[self.source()] = tuple(runs)
        return spans

    def tag(self):
        return max(-(1 << 62), min(self.bench.now + self.random.choice(self.deltas), 1 << 62))

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
        if origin in self.honest:
            if self.protocol == "delta":  # where a number far ahead is as good as any
                origin = LIAR
            seq = max(seq, 10**6)
        return self.lies.setdefault((origin, seq), Message(origin, seq, b"lie", self.stamp()))

    def speak(self):
        """Whether it has said something, in contact with a node."""
        random, bench = self.random, self.bench
        if random.random() < 0.5:
            return False
        node = random.choice(sorted(bench.nodes))
        if random.random() < 0.2 or LIAR not in bench.links[node]:
            bench.link(node, LIAR)
        for _ in range(random.choice([1, 3, 10])):
            kind = random.choice(["message"] * 3 + ["offer", "request", "again"])
            if kind == "message":
                frame = self.message()
            else:
                frame = {"offer": Offer, "request": Request}[kind](self.spans()) if kind != "again" else Again()
            node = random.choice(sorted(bench.nodes))
            codec = bench.nodes[node].codec
            with suppress(MalformedFrame):
                bench.inject(LIAR, node, codec.decode(codec.encode(frame)))
        return True


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(seed=st.integers(0, 2**32))
def test_whatever_a_neighbour_says_the_honest_go_on_among_themselves(protocol, seed):
    network = make(seed, protocol)
    play(network, 100, Liar(network.bench, protocol).speak)
    assert_all_have_all(network)
    for node in network.bench.nodes.values():
        assert node.gauges()["pending"] < 1000
