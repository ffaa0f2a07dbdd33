"""Links whose two ends come up and go down at moments of their own, nodes that crash and resume, and neighbours
that send whatever they like: the test bench of the contract (`antecast.core.protocol`)."""

from random import Random

import msgspec

from antecast.core import Alert, CancelTimer, Deliver, RemoteFault, Send, SetTimer
from antecast.protocols import Guarantee, specification

SECOND = 10**9


class Link:
    """One life of a connection. Each end is `new`, `up` or `gone`; frames wait for an end that is new."""

    def __init__(self, number, a, b):
        self.number = number
        self.end = {a: "new", b: "new"}
        self.flying = []

    def other(self, node):
        return next(each for each in self.end if each != node)


class TwoEnded:
    def __init__(self, seed, *, protocol, nodes, offsets=0, **settings):
        self.random = Random(seed)
        self.spec = specification(protocol)
        self.settings = self.spec.configure(settings)
        self.nodes = {node: self.spec.make(node, self.settings) for node in range(nodes)}
        self.offset = {node: self.random.randint(0, offsets) for node in range(nodes)}
        self.causal = Guarantee.CAUSAL in self.spec.guarantees
        self.links, self.current, self.opened = [], {}, 0
        self.timers = {node: {} for node in self.nodes}
        self.saved = {}
        self.now = 0
        self.delivered = {node: [] for node in self.nodes}
        self.past, self.seen = {}, {node: set() for node in self.nodes}
        self.alerts, self.faults, self.discarded = [], 0, []
        self.honest_faults = []

    def clock(self, node):
        return self.now + self.offset.get(node, 0)

    # Effects.

    def perform(self, node, effects):
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    link = self.current.get((node, to))
                    assert link is not None and link.end[node] == "up", "sent to a peer without a link"
                    link.flying.append((node, to, frame))
                case Deliver(message=message):
                    self.deliver(node, message)
                case SetTimer(token=token, at=at):
                    self.timers[node][token] = at
                case CancelTimer(token=token):
                    self.timers[node].pop(token, None)
                case Alert(text=text):
                    self.alerts.append((node, text))

    def deliver(self, node, message):
        name = (message.origin, message.seq)
        assert name not in self.seen[node], f"node {node} delivered {name} twice"
        if self.causal and name in self.past:
            for later in self.delivered[node]:
                assert name not in self.past.get(later, ()), f"node {node} delivered {name} after {later}"
        self.seen[node].add(name)
        self.delivered[node].append(name)

    def broadcast(self, node):
        if node not in self.nodes:
            return
        effects = self.nodes[node].broadcast(b"x", self.clock(node))
        message = next(effect.message for effect in effects if isinstance(effect, Deliver))
        name = (message.origin, message.seq)
        self.past[name] = {past for each in self.delivered[node] for past in {each} | self.past.get(each, set())}
        self.perform(node, effects)

    # Links.

    def open(self, a, b):
        self.opened += 1
        link = Link(self.opened, a, b)
        self.links.append(link)
        return link

    def end_up(self, link, node):
        if link.end[node] != "new" or node not in self.nodes:
            return
        peer = link.other(node)
        old = self.current.get((node, peer))
        if old is not None and old.end[node] == "up":
            if old.number > link.number:
                link.end[node] = "gone"  # it has noticed a later life of the connection already
                return
            old.end[node] = "gone"
            if self.random.random() < 0.5:  # or else the new link comes up without a word about the old one
                self.perform(node, self.nodes[node].link_down(peer, self.clock(node)))
        link.end[node] = "up"
        self.current[node, peer] = link
        self.perform(node, self.nodes[node].link_up(peer, self.clock(node)))

    def end_down(self, link, node):
        up = link.end[node] == "up"
        link.end[node] = "gone"
        if up and node in self.nodes:
            self.perform(node, self.nodes[node].link_down(link.other(node), self.clock(node)))

    def arrive(self, link, index):
        sender, to, frame = link.flying[index]
        if link.end[to] == "new":
            return
        del link.flying[index]
        if link.end[to] == "up" and to in self.nodes:
            self.receive(to, frame, sender)

    def receive(self, node, frame, sender, *, honest=True):
        """A frame over the wire. A refused one must have changed nothing."""
        protocol = self.nodes[node]
        frame = protocol.codec.decode(protocol.codec.encode(frame))
        before = protocol.snapshot()
        try:
            self.perform(node, protocol.receive(frame, sender, self.clock(node)))
        except RemoteFault as fault:
            assert protocol.snapshot() == before
            self.faults += 1
            if honest:
                self.honest_faults.append(str(fault))

    # Crashes.

    def crash(self, node):
        self.saved[node] = msgspec.msgpack.encode(self.nodes.pop(node).snapshot())
        self.timers[node] = {}
        for link in self.links:
            if node in link.end:
                link.end[node] = "gone"

    def recover(self, node):
        protocol = self.nodes[node] = self.spec.make(node, self.settings)
        protocol.restore(msgspec.msgpack.decode(self.saved.pop(node), strict=False))
        self.perform(node, protocol.resume(self.clock(node)))

    # Time.

    def pass_time(self, until):
        while due := sorted(
            (at - self.offset[node], node, token)
            for node, timers in self.timers.items()
            for token, at in timers.items()
            if at - self.offset[node] <= until
        ):
            at, node, token = due[0]
            self.now = max(self.now, at)
            del self.timers[node][token]
            self.perform(node, self.nodes[node].timer(token, self.clock(node)))
            yield
        self.now = until

    def step(self):
        """Something happens to one end of one link, to one frame, or to a node."""
        random = self.random
        match random.choice(
            ["broadcast"] * 3 + ["open"] * 2 + ["end"] * 6 + ["frame"] * 12 + ["crash", "recover"]
        ):
            case "broadcast" if self.nodes:
                self.broadcast(random.choice(sorted(self.nodes)))
            case "open" if len(self.nodes) > 1:
                self.open(*random.sample(sorted(self.nodes), 2))
            case "end" if self.links:
                link = random.choice(self.links[-8:])
                node = random.choice(sorted(link.end))
                (self.end_up if link.end[node] == "new" or random.random() < 0.7 else self.end_down)(link, node)
            case "frame" if flying := [link for link in self.links if link.flying]:
                link = random.choice(flying)
                self.arrive(link, random.randrange(len(link.flying)))
            case "crash" if len(self.nodes) > 2:
                self.crash(random.choice(sorted(self.nodes)))
            case "recover" if self.saved:
                self.recover(random.choice(sorted(self.saved)))

    def run(self, steps, pace=SECOND):
        for _ in range(steps):
            self.step()
            for _ in self.pass_time(self.now + self.random.randrange(pace)):
                pass
            self.links = [link for link in self.links if set(link.end.values()) != {"gone"}]

    def settle(self, seconds=120):
        """Everybody comes back, all old links end, everyone meets everyone, and all that follows arrives."""
        for node in sorted(self.saved):
            self.recover(node)
        for link in self.links:
            for node in link.end:
                self.end_down(link, node)
        self.links = []
        nodes = sorted(self.nodes)
        for a, b in ((a, b) for a in nodes for b in nodes if a < b):
            link = self.open(a, b)
            for node in (a, b):
                self.end_up(link, node)
        self.drain()
        for _ in self.pass_time(self.now + seconds * SECOND):
            self.drain()

    def drain(self):
        while flying := [link for link in self.links if link.flying]:
            self.arrive(flying[0], 0)
