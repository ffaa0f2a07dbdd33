"""PC-broadcast with a neighbour that sends what it likes: every type of frame, with values that are valid one by
one and absurd together, at any time, copies of what it was sent included.

What must hold: a refused frame has changed nothing; what a process sends can be read; nothing grows without bound;
and afterwards the honest processes deliver everything among themselves. While the hostile one lies about itself
and about what it has, causal order and completeness hold for all that the honest ones broadcast. Once it sends in
the name of others, which only signatures could tell, that much is lost to those others, and no more.
"""

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
SMALL = 6
"""How far the hostile one counts where it is believed."""

small = st.integers(0, SMALL)
absurd = st.sampled_from([10**6, 2**32, 2**62, LARGEST - 1, LARGEST])
counts = st.one_of(small, absurd)
honest = st.integers(0, HONEST - 1)
strangers = st.sampled_from(STRANGERS)
anyone = st.one_of(honest, strangers)


def clocks(source, count):
    return st.dictionaries(source, count, max_size=5)


def births(source):
    return st.dictionaries(source, st.tuples(anyone, counts.map(lambda n: max(n, 1))), max_size=5)


def seqs(count):
    return count.map(lambda n: max(n, 1))


def entries(forged):
    """Messages and notices. In the name of an honest process they are far ahead of it, unless they may be
    forged."""
    names = st.one_of(
        st.tuples(strangers, seqs(counts)), st.tuples(honest, seqs(counts) if forged else seqs(absurd))
    )
    message = names.map(lambda name: Message(*name, b"?", None))
    return message | st.builds(lambda name, *rest: Notice(*name, *rest), names, anyone, st.booleans())


def pings():
    """A ping of one honest process to another, which the hostile one has not passed on but invented, is out: it
    says that everything has arrived, and nobody can tell that it is a lie."""
    hops = st.sampled_from([0, 1, 2, 255])
    return st.builds(Ping, strangers, anyone, counts, hops) | st.builds(Ping, honest, anyone, absurd, hops)


def starts(forged):
    base = clocks(anyone, small) if forged else clocks(strangers, counts)
    return st.builds(Start, base, births(anyone), st.lists(anyone, max_size=4), st.booleans())


def frames(forged):
    return st.one_of(
        entries(forged),
        pings(),
        st.builds(Pong, counts),
        st.builds(Hello),
        st.builds(Sync, clocks(anyone, counts), births(anyone), st.booleans(), st.booleans()),
        st.builds(Refuse, clocks(anyone, counts), st.none() | anyone),
        starts(forged),
        st.builds(Ask),
        st.builds(Known),
        st.builds(
            Part,
            clocks(anyone, small) if forged else clocks(strangers, counts),
            births(anyone),
            st.lists(strangers, max_size=4),
        ),
        st.builds(Gap),
        st.builds(Anew),
        st.builds(Claim, seqs(counts)),
        st.builds(Disown, counts),
    )


def steps(forged):
    to = honest
    return st.lists(
        st.one_of(
            st.tuples(st.just("frame"), to, frames(forged)),
            st.tuples(st.just("frame"), to, frames(forged)),
            st.tuples(st.just("frames"), to, st.lists(frames(forged), max_size=6)),
            st.tuples(st.just("replay"), to, st.integers(0, 1000)),
            st.tuples(st.just("link"), to, st.booleans()),
            st.tuples(st.just("broadcast"), to, st.none()),
            st.tuples(st.just("toggle"), to, st.none()),
            st.tuples(st.just("crash"), to, st.none()),
            st.tuples(st.just("wait"), to, st.sampled_from([0.001, 0.1, 1, 3, 12, 40])),
        ),
        max_size=60,
    )


class Attacked(Restless):
    """Honest processes in a ring, and one that is linked to them as it likes."""

    def __init__(self, seed, **settings):
        self.linked, self.told, self.lies = set(), [], 0
        super().__init__(seed, nodes=HONEST, spread=1.0, stray=False, founders=HONEST + 1, **settings)
        for a in range(HONEST):
            self.open(a, (a + 1) % HONEST)

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
            self.lies += 1
            return
        assert node in self.linked
        assert len(effects) <= 40 + 4 * protocol.gauges()["log"]
        self.perform(node, effects)

    def step(self, kind, node, what):
        match kind:
            case "frame":
                self.attack(node, what)
            case "frames":
                for frame in what:
                    self.attack(node, frame)
            case "replay" if self.told:
                frame = self.told[what % len(self.told)]
                if not isinstance(frame, Ping):
                    self.attack(node, frame)
            case "link" if node in self.nodes:
                (self.linked.add if what else self.linked.discard)(node)
                change = self.nodes[node].link_up if what else self.nodes[node].link_down
                self.perform(node, change(HOSTILE, self.now))
            case "broadcast":
                self.broadcast(node)
            case "toggle":
                peer = (node + 1) % HONEST
                (self.close if (node, peer) in self.wires else self.open)(node, peer)
            case "crash":
                if node in self.saved:
                    self.recover(node)
                elif node in self.nodes:
                    self.linked.discard(node)
                    self.crash(node, memory=True)
            case "wait":
                self.run(self.now + round(what * SECOND))

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


def attacked(todo, seed, **settings):
    net = Attacked(seed, **settings)
    for each in todo:
        net.step(*each)
        net.assert_bounded()
    net.end()
    return net


seeds = st.integers(0, 2**32)
settings = pytest.mark.parametrize("retain", [0, 3, 10_000])


@given(todo=steps(forged=False), seed=seeds, lag=st.sampled_from([0, 1.0]))
def test_lies_of_one_about_itself_cost_the_others_nothing(todo, seed, lag):
    net = attacked(todo, seed, lag=lag)
    net.assert_all_goes_on()
    net.assert_order()
    mine = {name for name in net.bit if name[0] < HONEST}
    for node in range(HONEST):
        assert mine <= set(net.delivered[node])


@settings
@given(todo=steps(forged=True), seed=seeds)
def test_lies_in_the_name_of_others_cost_no_more_than_their_messages(retain, todo, seed):
    net = attacked(todo, seed, retain=retain, patience="2s")
    net.assert_all_goes_on()
