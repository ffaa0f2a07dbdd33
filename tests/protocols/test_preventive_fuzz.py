"""PC-broadcast with a neighbour that sends what it likes: every type of frame, with values that are valid one by
one and absurd together, at any time, copies of what it was sent included.

What must hold: a refused frame has changed nothing; what a process sends can be read; nothing grows without bound;
and afterwards the honest processes deliver everything among themselves. While the hostile one lies about itself
and about what it has, causal order and completeness hold for all that the honest ones broadcast. Once it sends in
the name of others, which only signatures could tell, that much is lost to those others, and no more.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from restless import SECOND, Restless

from antecast.core import Message, RemoteFault
from antecast.protocols.preventive.frames import (
    Anew,
    Ask,
    Claim,
    Disown,
    Gap,
    Hello,
    Known,
    Notice,
    Part,
    Ping,
    Pong,
    Refuse,
    Start,
    Sync,
)

HONEST = 3
HOSTILE = HONEST
"""A founder like the others."""
STRANGERS = (HOSTILE, 7, 8, 9, 2**32 - 1)
LARGEST = 2**63 - 1
ABSURD = [10**6, 2**32, 2**62, LARGEST - 1, LARGEST]
SMALL = 6
"""How far the hostile one counts where it is believed."""


class Liar:
    """Makes frames: of every type, each field valid by itself, near to what is true or far from it."""

    def __init__(self, random, *, forged):
        self.random = random
        self.forged = forged
        self.kinds = [value for name, value in sorted(vars(Liar).items()) if name.startswith("a_")]

    def frame(self, protocol):
        self.vector = protocol.snapshot()["past"]["vector"]
        self.pings = list(protocol._links[HOSTILE].pings) if HOSTILE in protocol._links else []
        return self.random.choice(self.kinds)(self)

    # Values.

    def count(self):
        return self.random.choice([self.random.randint(0, SMALL)] * 3 + ABSURD)

    def seq(self):
        return max(1, self.count())

    def honest(self):
        return self.random.randrange(HONEST)

    def stranger(self):
        return self.random.choice(STRANGERS)

    def anyone(self):
        return self.random.choice([self.honest, self.stranger])()

    def several(self, make):
        return [make() for _ in range(self.random.choice([0, 1, 1, 2, 5]))]

    def clock(self):
        return {source: self.count() for source in self.several(self.anyone)}

    def believed(self):
        """What a base says: about others too only if it may say anything in their name."""
        if self.forged:
            return {source: self.random.randint(0, SMALL) for source in self.several(self.anyone)}
        return {source: self.count() for source in self.several(self.stranger)}

    def births(self):
        return {source: (self.anyone(), self.seq()) for source in self.several(self.anyone)}

    def name(self):
        """Of a message: the next of its source, one near it, or any."""
        origin = self.anyone()
        if origin < HONEST and not self.forged:
            # What is no copy of a message of an honest process is far ahead of it.
            return origin, self.random.choice([self.vector.get(origin, 0) or LARGEST, *ABSURD])
        near = self.vector.get(origin, 0) + self.random.choice([0, 1, 1, 1, 2])
        return origin, self.random.choice([max(1, near)] * 3 + [self.seq()])

    # Frames.

    def a_message(self):
        return Message(*self.name(), b"?", None)

    def a_notice(self):
        return Notice(*self.name(), self.anyone(), self.random.random() < 0.5)

    def a_ping(self):
        """A ping of one honest process to another, which the hostile one has not passed on but invented, is out:
        it says that everything has arrived, and nobody can tell that it is a lie."""
        hops = self.random.choice([0, 1, 2, 255])
        if self.random.random() < 0.5:
            return Ping(self.stranger(), self.anyone(), self.count(), hops)
        return Ping(self.honest(), self.anyone(), self.random.choice(ABSURD), hops)

    def a_pong(self):
        return Pong(self.random.choice([self.count(), *self.pings]))

    def a_sync(self):
        return Sync(self.clock(), self.births(), self.random.random() < 0.5, self.random.random() < 0.5)

    def a_refusal(self):
        return Refuse(self.clock(), self.random.choice([None, self.anyone()]))

    def a_start(self):
        return Start(self.believed(), self.births(), self.several(self.anyone), self.random.random() < 0.5)

    def a_part(self):
        return Part(self.believed(), self.births(), self.several(self.stranger))

    def a_word(self):
        return self.random.choice([Hello, Ask, Known, Gap, Anew])()

    def a_number(self):
        return self.random.choice([Claim(self.seq()), Disown(self.count())])


class Attacked(Restless):
    """Honest processes in a ring, and one that is linked to them as it likes."""

    def __init__(self, seed, **settings):
        self.linked, self.told, self.refused, self.taken = set(), [], 0, Counter()
        super().__init__(seed, nodes=HONEST, spread=1.0, stray=False, founders=HONEST + 1, **settings)
        for a in range(HONEST):
            self.open(a, (a + 1) % HONEST)
            self.link(a, up=True)

    def send(self, node, to, frame):
        codec = self.nodes[node].codec
        assert codec.decode(codec.encode(frame)) == frame
        if to == HOSTILE:
            assert node in self.linked, "it sends without a link"
            self.told.append(frame)
        else:
            super().send(node, to, frame)

    def deliver(self, node, message):
        name = (message.origin, message.seq)
        if name not in self.bit or message.payload == b"?":
            assert (node, name) not in self.duplicates
            assert name not in self.delivered[node]
            self.delivered[node].append(name)
            return False
        return super().deliver(node, message)

    def broadcast(self, node):
        if node in self.nodes:
            super().broadcast(node)

    def attack(self, node, frame):
        if node not in self.nodes:
            return
        protocol = self.nodes[node]
        before = protocol.snapshot(), protocol.gauges()
        try:
            effects = protocol.receive(frame, HOSTILE, self.now)
        except RemoteFault:
            assert (protocol.snapshot(), protocol.gauges()) == before
            self.refused += 1
            return
        assert node in self.linked
        self.taken[type(frame).__name__] += 1
        assert len(effects) <= 40 + 4 * protocol.gauges()["log"]
        self.perform(node, effects)

    def step(self, liar):
        """One thing happens: mostly a frame of the hostile one."""
        random = self.random
        node = random.randrange(HONEST)
        match random.choice(
            ["frame"] * 12 + ["broadcast"] * 2 + ["replay", "link", "toggle", "crash", "wait", "wait"]
        ):
            case "frame" if node in self.nodes:
                for _ in range(random.choice([1, 1, 3, 8])):
                    self.attack(node, liar.frame(self.nodes[node]))
            case "replay" if self.told:
                frame = random.choice(self.told)
                if not isinstance(frame, Ping):
                    self.attack(node, frame)
            case "link" if node in self.nodes:
                self.link(node, up=random.random() < 0.7)
            case "broadcast":
                self.broadcast(node)
            case "toggle":
                peer = (node + 1) % HONEST
                (self.close if (node, peer) in self.wires else self.open)(node, peer)
            case "crash":
                if node in self.saved:
                    self.recover(node)
                    self.link(node, up=True)
                elif node in self.nodes:
                    self.linked.discard(node)
                    self.crash(node, memory=True)
            case "wait":
                self.run(self.now + round(random.choice([0.001, 0.1, 1, 3, 12, 40]) * SECOND))

    def link(self, node, *, up):
        (self.linked.add if up else self.linked.discard)(node)
        change = self.nodes[node].link_up if up else self.nodes[node].link_down
        self.perform(node, change(HOSTILE, self.now))

    def assert_bounded(self):
        for protocol in self.nodes.values():
            gauges = protocol.gauges()
            assert gauges["sources"] <= HONEST + len(STRANGERS) and gauges["forgotten"] <= len(STRANGERS)
            assert gauges["outstanding"] <= 2 * (HONEST + 1)

    def end(self):
        """The hostile one goes, and the others come to rest."""
        for node in sorted(self.linked):
            self.linked.discard(node)
            if node in self.nodes:
                self.perform(node, self.nodes[node].link_down(HOSTILE, self.now))
        self.settle()
        for a, b in self.wires:
            assert self.nodes[a].safe(b), f"the link from {a} to {b} never became safe"

    def assert_all_goes_on(self):
        """Each process broadcasts until it is past what was sent in its name; from there on all have
        everything."""
        self.answers = 0
        for node in range(HONEST):
            known = max(each.snapshot()["past"]["vector"].get(node, 0) for each in self.nodes.values())
            while self.nodes[node].snapshot()["seq"] <= known:
                self.broadcast(node)
            self.come_to_rest()
            last = self.nodes[node].snapshot()["seq"]
            assert last <= known + 1
            for other in range(HONEST):
                assert self.delivered[other][-1] == (node, last), f"node {other} never got the last of {node}"


def attacked(seed, *, forged, steps=60, **settings):
    net = Attacked(seed, **settings)
    liar = Liar(net.random, forged=forged)
    for _ in range(steps):
        net.step(liar)
        net.assert_bounded()
    net.end()
    return net


seeds = st.integers(0, 2**48)


@pytest.mark.parametrize("lag", [0, 1.0])
@given(seed=seeds)
def test_lies_of_one_about_itself_cost_the_others_nothing(lag, seed):
    net = attacked(seed, forged=False, lag=lag)
    net.assert_all_goes_on()
    net.assert_order()
    for node in range(HONEST):
        assert net.bit.keys() <= set(net.delivered[node])


@pytest.mark.parametrize("retain", [0, 3, 10_000])
@given(seed=seeds)
def test_lies_in_the_name_of_others_cost_no_more_than_their_messages(retain, seed):
    attacked(seed, forged=True, retain=retain, patience="2s").assert_all_goes_on()


def test_the_attack_gets_through():
    """Every type of frame is taken now and then, and refused now and then."""
    taken, refused = Counter(), 0
    for seed in range(30):
        net = attacked(seed, forged=True, retain=3, patience="2s")
        taken += net.taken
        refused += net.refused
    every = (Message, Notice, Ping, Pong, Hello, Sync, Refuse, Start, Ask, Known, Part, Gap, Anew, Claim, Disown)
    assert all(taken[kind.__name__] > 5 for kind in every) and refused > 100, (taken, refused)
