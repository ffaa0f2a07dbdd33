"""A protocol made for testing overlays: flooding over safe links, made safe by a ping through the introducer.

It has no buffers, no retries and no catch-up: all it does is to take three hops to make a link safe, and to refuse
a ping that would travel over a link that is not safe, which an overlay must never make it do.
"""

from contextlib import contextmanager

from antecast.core import Codec, Deliver, Frame, Message, Protocol, Send
from antecast.core.settings import Settings
from antecast.history.log import DiscardSink, EventWriter, SampleWriter
from antecast.protocols import Specification, registry
from antecast.sim.engine import Engine
from antecast.sim.scenario import make_scenario


class Ping(Frame, frozen=True, array_like=True, tag=1):
    source: int
    target: int
    number: int


class Pong(Frame, frozen=True, array_like=True, tag=2):
    number: int


class Pinging(Protocol):
    codec = Codec([Message[None], Ping, Pong])

    def __init__(self, node, settings):
        self.node = node
        self.seq = 0
        self.numbers = 0
        self.seen = set()
        self.links = {}
        self.by = {}
        self.unsafe_legs = 0

    def introduce(self, peer, by):
        self.by[peer] = by

    def safe(self, peer):
        return self.links.get(peer) is True

    def link_up(self, peer, now):
        by = self.by.pop(peer, None)
        if by is None:
            self.links[peer] = True
            return []
        self.numbers += 1
        self.links[peer] = self.numbers
        return self._over(by, Ping(self.node, peer, self.numbers))

    def _over(self, peer, frame):
        if not self.safe(peer):
            self.unsafe_legs += peer in self.links
            return []
        return [Send(peer, frame)]

    def link_down(self, peer, now):
        del self.links[peer]
        return []

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        return self._pass_on(Message(self.node, self.seq, payload, None), None)

    def receive(self, frame, sender, now):
        if isinstance(frame, Message):
            return self._pass_on(frame, sender)
        if isinstance(frame, Pong):
            if self.links[sender] is not True and self.links[sender] == frame.number:
                self.links[sender] = True
            return []
        if frame.target != self.node:
            return self._over(frame.target, frame)
        return [Send(frame.source, Pong(frame.number))]

    def _pass_on(self, message, sender):
        if message.id in self.seen:
            return []
        self.seen.add(message.id)
        return [*(Send(p, message) for p in self.links if p != sender and self.safe(p)), Deliver(message)]

    def timer(self, token, now):
        return []

    def snapshot(self):
        return {"seq": self.seq, "numbers": self.numbers}

    def restore(self, state):
        self.seq, self.numbers = state["seq"], state["numbers"]

    def gauges(self):
        return {}


SPECIFICATION = Specification(
    name="pinging",
    title="for tests",
    reference="",
    guarantees=frozenset(),
    needs=lambda settings: frozenset(),
    control="",
    memory="",
    delivery="",
    settings=Settings,
    make=Pinging,
)


@contextmanager
def registered():
    """The protocol has a name here, and only here: the conformance suite must not find it."""
    registry._registry["pinging"] = SPECIFICATION
    try:
        yield
    finally:
        del registry._registry["pinging"]


def make_engine(**values):
    """An engine that writes no log."""
    with registered():
        scenario = make_scenario(
            {"protocol": {"name": "pinging"}, "log": {"sample": 0, "events": "order"}} | values
        )
        sink = DiscardSink()
        return Engine(scenario, EventWriter("run", sink), SampleWriter("run", sink))
