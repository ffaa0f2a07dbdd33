"""Nodes, and links whose two ends come up and go down at moments of their own: a driver that keeps the contract of
`core.protocol` to the letter and does nothing more.

Every frame is encoded and decoded on its way, so whatever a receiver would refuse for its size or shape shows at
once. State is saved after every call, as bytes.
"""

import heapq
from collections import Counter, defaultdict
from itertools import count
from random import Random

import msgspec

from antecast.core import Alert, CancelTimer, Deliver, Discard, RemoteFault, Send, SetTimer
from antecast.protocols import specification

MS, SECOND = 10**6, 10**9


class Link:
    """One life of a link. At each end it is `coming`, `up` or `gone`; frames wait while an end is coming."""

    def __init__(self, a, b):
        self.state = {a: "coming", b: "coming"}
        self.waiting = {a: [], b: []}


class Shaky:
    def __init__(self, nodes, *, protocol, seed=0, delay=20 * MS, skew=50 * MS, loss=0.0, **settings):
        self.spec = specification(protocol)
        self.settings = self.spec.configure(settings)
        self.random = Random(seed)
        self.delay, self.skew, self.loss = delay, skew, loss
        self.now = 0
        self._events, self._order = [], count()
        self.nodes, self.saved, self.timers = {}, {}, {}
        self.links = {}
        self.current = defaultdict(dict)
        self.delivered = defaultdict(list)
        self.discarded = defaultdict(list)
        self.past = {}
        self.numbers = Counter()
        self.alerts = []
        self.faults = Counter()
        for node in range(nodes):
            self.join(node)

    # Time.

    def at(self, time, action, *arguments):
        heapq.heappush(self._events, (time, next(self._order), action, arguments))

    def run(self, span):
        until = self.now + span
        while self._events and self._events[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        self.now = until

    def moment(self):
        return self.now + self.random.randrange(self.skew + 1)

    # Nodes.

    def join(self, node):
        protocol = self.nodes[node] = self.spec.make(node, self.settings)
        self.saved[node] = msgspec.msgpack.encode(protocol.snapshot())
        self.timers[node] = {}
        for other in list(self.nodes):
            if other != node:
                self.open(node, other)

    def crash(self, node):
        """The state as saved last is all that is left; the others notice one by one."""
        if self.nodes.pop(node, None) is None:
            return
        self.timers[node] = {}
        for link in list(self.current[node].values()):
            link.state[node] = "gone"
        self.current[node].clear()
        for other in list(self.nodes):
            self.close(node, other)

    def recover(self, node):
        if node in self.nodes or node not in self.saved:
            return
        protocol = self.nodes[node] = self.spec.make(node, self.settings)
        protocol.restore(msgspec.msgpack.decode(self.saved[node], strict=False))
        self.perform(node, protocol.resume(self.now))
        for other in list(self.nodes):
            if other != node:
                self.open(node, other)

    def leave(self, node):
        """Gone for good, and its state with it."""
        self.crash(node)
        self.saved.pop(node, None)

    def broadcast(self, node, payload=b""):
        if node in self.nodes:
            past = set(self.delivered[node])
            effects = self.nodes[node].broadcast(payload, self.now)
            (own,) = [each.message for each in effects if isinstance(each, Deliver)]
            assert (own.origin, own.seq) == (node, self.numbers[node] + 1), "numbers follow one another"
            self.numbers[node] = own.seq
            self.past[own.origin, own.seq] = past
            self.perform(node, effects)
            return own.origin, own.seq
        return None

    # Links.

    def open(self, a, b):
        """A new link between two nodes: each end hears of it at a moment of its own, and it may be that the end of
        the old one was never noticed."""
        link = self.links[frozenset((a, b))] = Link(a, b)
        for node, peer in ((a, b), (b, a)):
            self.at(self.moment(), self._come_up, link, node, peer)

    def close(self, a, b):
        link = self.links.get(frozenset((a, b)))
        if link is not None:
            for node, peer in ((a, b), (b, a)):
                self.at(self.moment(), self._go_down, link, node, peer)

    def _come_up(self, link, node, peer):
        if node not in self.nodes or link is not self.links[frozenset((node, peer))]:
            link.state[node] = "gone"
        elif link.state[node] == "coming":
            old = self.current[node].get(peer)
            if old is not None:
                old.state[node] = "gone"
            link.state[node] = "up"
            self.current[node][peer] = link
            self.perform(node, self.nodes[node].link_up(peer, self.now))
            waiting, link.waiting[node] = link.waiting[node], []
            for data in waiting:
                self._arrive(link, peer, node, data)

    def _go_down(self, link, node, peer):
        was_up, link.state[node] = link.state[node] == "up", "gone"
        if was_up and self.current[node].get(peer) is link:
            del self.current[node][peer]
            if node in self.nodes:
                self.perform(node, self.nodes[node].link_down(peer, self.now))

    def _send(self, node, to, data):
        link = self.current[node].get(to)
        if link is not None and self.random.random() >= self.loss:
            self.at(self.now + self.random.randrange(self.delay + 1), self._arrive, link, node, to, data)

    def _arrive(self, link, sender, node, data):
        if link.state[node] == "coming":
            link.waiting[node].append(data)
        elif link.state[node] == "up" and node in self.nodes:
            self.receive(node, self.nodes[node].codec.decode(data), sender)

    # Calls and effects.

    def receive(self, node, frame, sender):
        """Hand a frame to a node; whether it took it. A refusal must leave no trace."""
        protocol = self.nodes[node]
        try:
            effects = protocol.receive(frame, sender, self.now)
        except RemoteFault:
            self.faults[node] += 1
            assert msgspec.msgpack.encode(protocol.snapshot()) == self.saved[node]
            return False
        self.perform(node, effects)
        return True

    def perform(self, node, effects):
        protocol = self.nodes[node]
        self.saved[node] = msgspec.msgpack.encode(protocol.snapshot())
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    assert to in self.current[node], f"node {node} sends to {to} without a link"
                    self._send(node, to, protocol.codec.encode(frame))
                case Deliver(message=message):
                    name = message.origin, message.seq
                    assert name not in self.delivered[node], f"node {node} delivers {name} twice"
                    self.delivered[node].append(name)
                case Discard(id=name):
                    self.discarded[node].append(tuple(name))
                case SetTimer(token=token, at=at):
                    self.timers[node][token] = at
                    self.at(max(at, self.now), self._fire, node, token, at)
                case CancelTimer(token=token):
                    self.timers[node].pop(token, None)
                case Alert(text=text):
                    self.alerts.append((node, text))

    def _fire(self, node, token, at):
        if self.timers[node].get(token) == at and node in self.nodes:
            del self.timers[node][token]
            self.perform(node, self.nodes[node].timer(token, self.now))

    # Judgement.

    def assert_causal(self):
        """No node delivers a message before one of its causal past that it delivers too."""
        for node, delivered in self.delivered.items():
            position = {name: index for index, name in enumerate(delivered)}
            for name in delivered:
                for earlier in self.past.get(name, ()):
                    assert position.get(earlier, -1) < position[name], f"{node}: {name} before {earlier}"

    def assert_alive(self, patience, nodes=None):
        """After a while without change, what any of these nodes broadcasts next is delivered by all of them."""
        self.run(4 * patience)
        nodes = sorted(self.nodes) if nodes is None else nodes
        fresh = [self.broadcast(node) for node in nodes]
        self.run(4 * patience)
        for node in nodes:
            missing = [name for name in fresh if name not in self.delivered[node]]
            assert not missing, f"node {node} never delivers {missing}"
