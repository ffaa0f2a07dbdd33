"""Nodes wired back to back: the test bench of the disseminations."""

from collections import deque

from antecast.core import Deliver, Discard, Send, SetTimer
from antecast.protocols import specification


class Wires:
    """Nodes whose frames travel in order and at once, unless they are dropped."""

    def __init__(self, *nodes, protocol="vector", **settings):
        spec = specification(protocol)
        self.spec, self.settings = spec, spec.configure(settings)
        self.nodes = {node: spec.make(node, self.settings) for node in nodes}
        self.flying = deque()
        self.delivered = {node: [] for node in nodes}
        self.discarded = {node: [] for node in nodes}
        self.timers = {node: {} for node in nodes}
        self.now = 0

    def perform(self, node, effects):
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    self.flying.append((node, to, frame))
                case Deliver(message=message):
                    self.delivered[node].append((message.origin, message.seq))
                case Discard(id=name):
                    self.discarded[node].append(tuple(name))
                case SetTimer(token=token, at=at):
                    self.timers[node][token] = at

    def link(self, a, b):
        self.perform(a, self.nodes[a].link_up(b, self.now))
        self.perform(b, self.nodes[b].link_up(a, self.now))

    def unlink(self, a, b):
        self.perform(a, self.nodes[a].link_down(b, self.now))
        self.perform(b, self.nodes[b].link_down(a, self.now))

    def meet(self, a, b):
        """A contact long enough for everything to be exchanged."""
        self.link(a, b)
        travelled = self.transfer()
        self.unlink(a, b)
        return travelled

    def broadcast(self, node, payload=b"x", **options):
        self.perform(node, self.nodes[node].broadcast(payload, self.now, **options))

    def transfer(self):
        """Let everything in flight arrive, and what it causes; the frames that travelled."""
        travelled = []
        while self.flying:
            sender, to, frame = self.flying.popleft()
            travelled.append((sender, to, frame))
            self.perform(to, self.nodes[to].receive(frame, sender, self.now))
        return travelled

    def drop(self):
        dropped = list(self.flying)
        self.flying.clear()
        return dropped

    def fire(self, node, token):
        self.perform(node, self.nodes[node].timer(token, self.timers[node].pop(token)))

    def pass_time(self, until):
        """Let the clock run, firing timers on the way, in their order."""
        while due := [(at, node, token) for node, timers in self.timers.items() for token, at in timers.items()]:
            at, node, token = min(due)
            if at > until:
                break
            self.now = at
            self.fire(node, token)
        self.now = until
