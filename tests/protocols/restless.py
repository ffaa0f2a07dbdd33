"""A network that does not sit still: the test bench of the protocols that care about links.

Small, quick and merciless: links open and close, each end at a moment of its own; processes crash with and without
memory, join and leave, the network parts and heals, delays differ by orders of magnitude from one direction of a
link to the next, pings and pongs get lost. Everything is drawn from one seed. Causal order and integrity are
judged as messages are delivered, completeness once everything has come to rest, liveness by what is broadcast
then.

It is a driver as `antecast.core.protocol` wants it: what is sent over a connection before its other end is up
waits for that, what arrives after this end went down is dropped, and a connection that takes the place of another
may come up without a word about the end of that other.
"""

import heapq
from itertools import combinations, count, pairwise
from random import Random

import msgspec

from antecast.core import Alert, CancelTimer, Deliver, LinkSafety, LocalMisuse, Send, SetTimer
from antecast.protocols import specification
from antecast.protocols.preventive.frames import Ping, Pong

MS = 10**6
SECOND = 10**9
STORM = 10**6
"""Frames that no run of this size sends, unless something goes round in circles."""


class Wire:
    """One direction of a connection: in order, with a delay of its own."""

    def __init__(self, random, spread):
        self.scale = MS * 10 ** random.choice([0, spread, random.uniform(0, spread)])
        self.last = 0


class Connection:
    """Two wires and two ends. Each end is coming, up or down, and once down stays so."""

    def __init__(self, random, spread, a, b):
        self.wires = {(a, b): Wire(random, spread), (b, a): Wire(random, spread)}
        self.ends = {a: "coming", b: "coming"}
        self.held = {a: [], b: []}
        """What has arrived before the end was up."""


class Restless:
    def __init__(
        self,
        seed,
        *,
        protocol="pc-broadcast",
        make=None,
        nodes=5,
        spread=3.0,
        loss=0.0,
        stray=True,
        answers=0.5,
        lag=0.0,
        nested=True,
        **settings,
    ):
        self.random = Random(seed)
        self.spec = specification(protocol)
        self.settings = self.spec.fit(self.spec.configure(settings), nodes)
        self.make = make or self.spec.make
        self.spread, self.loss, self.stray, self.answers = spread, loss, stray, answers
        self.lag, self.nested = lag, nested
        self.now, self.heap, self.order = 0, [], count().__next__
        self.nodes, self.saved, self.timers = {}, {}, {}
        self.wires = {}
        """Who is to be linked, by the connection."""
        self.up = {}
        """For each end that is up, the connection."""
        self.moments = {}
        self.bit, self.past = {}, {}
        self.seen, self.pasts, self.delivered, self.alerts = {}, {}, {}, {}
        self.violations, self.duplicates = [], []
        self.leaving, self.silent = set(), set()
        """Those who are leaving, and those who have gone without a word that was heard."""
        self.heard_by = {}
        """For each that has left, who heard it say so."""
        self.retired = set()
        self.founders = nodes
        self.next_id = nodes
        self.frames = 0
        for node in range(nodes):
            self.start(node)

    # Processes.

    def start(self, node):
        self.nodes[node] = self.make(node, self.settings)
        self.timers[node] = {}
        self.delivered[node], self.seen[node], self.pasts[node], self.alerts[node] = [], 0, 0, []

    def crash(self, node, *, memory):
        protocol = self.nodes.pop(node)
        if memory:
            self.saved[node] = msgspec.msgpack.encode(protocol.snapshot())
        else:
            self.silent.add(node)
        self.timers[node] = {}
        for connection in [each for (end, _), each in self.up.items() if end == node]:
            self._end(connection, node)
        for a, b in [pair for pair in self.wires if node in pair]:
            if (a, b) in self.wires:
                self.close(a, b)

    def recover(self, node):
        protocol = self.make(node, self.settings)
        protocol.restore(msgspec.msgpack.decode(self.saved.pop(node), strict=False))
        self.nodes[node] = protocol
        self.perform(node, protocol.resume(self.now))

    def join(self, peers):
        node = self.next_id
        self.next_id += 1
        self.start(node)
        for peer in peers:
            self.open(node, peer)
        return node

    def leave(self, node, patience=None):
        """Say so; the process goes once the others have let it, or when the driver has waited long enough."""
        self.leaving.add(node)
        self.perform(node, self.nodes[node].leave(self.now))
        self.let_go(node)
        if patience is not None:
            self.at(self.now + round(patience * SECOND), self.go, node)

    def let_go(self, node):
        if node in self.leaving and node in self.nodes and self.nodes[node].left:
            protocol = self.nodes[node]
            self.heard_by[node] = {peer for peer in protocol._links if protocol._links[peer].farewell == 0}
            self.go(node)
            self.silent.discard(node)

    def lost(self, node):
        """Whether nobody is left who has what a process had when it went."""
        return node in self.silent or (
            node in self.heard_by and all(self.lost(peer) for peer in self.heard_by[node] if peer != node)
        )

    def go(self, node):
        if node in self.leaving:
            self.leaving.discard(node)
            self.silent.add(node)
            if node in self.nodes:
                self.crash(node, memory=False)
            self.saved.pop(node, None)

    # Links.

    def notice(self, node, peer, action, argument):
        """One end of a link notices something, at a moment of its own, and one thing after the other."""
        lag = round(self.random.choice([0, self.random.uniform(0, self.lag)]) * SECOND) if self.lag else 0
        moment = self.moments[node, peer] = max(self.now + lag, self.moments.get((node, peer), 0))
        if moment > self.now:
            self.at(moment, action, argument)
        else:
            action(argument)

    def open(self, a, b, by=None):
        if a == b or (a, b) in self.wires or a not in self.nodes or b not in self.nodes:
            return
        connection = Connection(self.random, self.spread, a, b)
        self.wires[a, b] = self.wires[b, a] = connection
        for one, other in ((a, b), (b, a)):
            self.notice(one, other, self._link_up, (connection, one, other, by))

    def close(self, a, b):
        connection = self.wires.pop((a, b), None)
        if connection is not None:
            del self.wires[b, a]
            for one, other in ((a, b), (b, a)):
                self.notice(one, other, self._link_down, (connection, one, other))

    def _link_up(self, what):
        connection, node, peer, by = what
        if node not in self.nodes or connection.ends[node] != "coming":
            return
        before = self.up.get((node, peer))
        if before is not None:
            before.ends[node] = "down"  # without a link_down: a link_up says it all
        connection.ends[node] = "up"
        self.up[node, peer] = connection
        protocol = self.nodes[node]
        if by is not None and isinstance(protocol, LinkSafety):
            protocol.introduce(peer, by)
        self.perform(node, protocol.link_up(peer, self.now))
        while connection.held[node] and connection.ends[node] == "up":
            self.hand_over(connection.held[node].pop(0), peer, node)

    def _link_down(self, what):
        connection, node, peer = what
        if self.lag and self.wires.get((node, peer), connection) is not connection and self.random.random() < 0.5:
            return  # it will hear of the next one first
        was_up = self._end(connection, node)
        if node in self.nodes and (was_up or (node, peer) not in self.up):
            self.perform(node, self.nodes[node].link_down(peer, self.now))

    def _end(self, connection, node):
        was_up, connection.ends[node] = connection.ends[node] == "up", "down"
        for pair in [pair for pair, each in self.up.items() if each is connection and pair[0] == node]:
            del self.up[pair]
        return was_up

    def peers(self, node):
        return [b for a, b in self.wires if a == node]

    # Messages.

    def broadcast(self, node):
        if node not in self.nodes or node in self.leaving:
            return
        try:
            effects = self.nodes[node].broadcast(b"", self.now)
        except LocalMisuse as error:
            assert "has left" in str(error) and node in self.retired, error
            return
        message = next(each.message for each in effects if isinstance(each, Deliver))
        name = (message.origin, message.seq)
        self.bit[name] = 1 << len(self.bit)
        self.past[name] = self.seen[node] | self.pasts[node]
        self.perform(node, effects)

    def deliver(self, node, message):
        name = (message.origin, message.seq)
        bit = self.bit[name]
        if self.seen[node] & bit:
            self.duplicates.append((node, name))
        if self.pasts[node] & bit:
            self.violations.append((node, name))
        self.seen[node] |= bit
        self.pasts[node] |= self.past[name]
        self.delivered[node].append(name)
        return message.origin != node and self.random.random() * len(self.nodes) < self.answers

    def perform(self, node, effects):
        answers = 0
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    self.send(node, to, frame)
                case Deliver(message=message):
                    if self.deliver(node, message):
                        # Some drivers broadcast an answer at once, where the contract asks for it a bit later.
                        if self.nested:
                            self.broadcast(node)
                        else:
                            answers += 1
                case Alert(text=text):
                    self.alerts[node].append(text)
                case SetTimer(token=token, at=at):
                    self.timers[node][token] = number = self.order()
                    self.at(at, self.fire, (node, token, number))
                case CancelTimer(token=token):
                    self.timers[node].pop(token, None)
        for _ in range(answers):
            self.broadcast(node)
        if node in self.leaving:
            self.let_go(node)

    def send(self, node, to, frame):
        self.frames += 1
        connection = self.up.get((node, to))
        assert connection is not None, f"node {node} sends to {to}, without a link"
        if self.loss and isinstance(frame, Ping | Pong) and self.random.random() < self.loss:
            return
        if self.stray and isinstance(frame, Pong):
            # Pongs may come by any way there is: they outlive the link, and are in no order with anything.
            after = round(MS * 10 ** self.random.uniform(0, self.spread + 0.5))
            self.at(self.now + after, self.stray_pong, (node, to, frame))
            return
        wire = connection.wires[node, to]
        wire.last = max(wire.last, self.now + round(wire.scale * self.random.uniform(0.1, 1)))
        self.at(wire.last, self.arrive, (connection, node, to, frame))

    def arrive(self, what):
        connection, node, to, frame = what
        if connection.ends[to] == "coming" or connection.held[to]:
            connection.held[to].append(frame)
        elif connection.ends[to] == "up":
            self.hand_over(frame, node, to)

    def hand_over(self, frame, node, to):
        self.perform(to, self.nodes[to].receive(frame, node, self.now))

    def stray_pong(self, what):
        node, to, frame = what
        if (to, node) in self.up:
            self.hand_over(frame, node, to)

    def fire(self, what):
        node, token, number = what
        if self.timers[node].get(token) == number and node in self.nodes:
            del self.timers[node][token]
            self.perform(node, self.nodes[node].timer(token, self.now))

    # Time.

    def at(self, time, action, argument):
        heapq.heappush(self.heap, (time, self.order(), action, argument))

    def run(self, until):
        while self.heap and self.heap[0][0] <= until:
            self.now, _, action, argument = heapq.heappop(self.heap)
            action(argument)
            assert self.frames < STORM, "it does not come to rest"
        self.now = until

    def settle(self, seconds=600):
        """Everybody comes back, all are linked, and the rest takes its course."""
        self.run(self.now + 5 * SECOND)
        for node in list(self.saved):
            self.recover(node)
            for peer in self.random.sample(sorted(self.nodes), min(2, len(self.nodes))):
                self.open(node, peer)
        self.come_to_rest(seconds)

    def come_to_rest(self, seconds=600):
        """Until nothing moves; those who stay when others leave are linked again."""
        ring, deadline = None, self.now
        while self.now <= deadline and (self.heap or ring != sorted(self.nodes)):
            if ring != sorted(self.nodes):
                ring, deadline = sorted(self.nodes), self.now + seconds * SECOND
                for a, b in pairwise(ring):
                    self.open(a, b)
            elif self.heap[0][0] <= deadline:
                self.run(self.heap[0][0])
            else:
                break
        assert not self.heap, "it does not come to rest"

    # Verdicts.

    def assert_order(self):
        assert not self.violations, f"delivered too late: {self.violations[:3]}"
        assert not self.duplicates, f"delivered twice: {self.duplicates[:3]}"

    def assert_complete(self):
        """At rest all have the same, every link is safe, and nobody lacks what it was not told to skip."""
        pasts = {node: self._vector(node) for node in self.nodes}
        first = next(iter(pasts.values()), {})
        for node, vector in pasts.items():
            assert vector == first, f"node {node} has {vector}, another {first}"
        for a, b in self.wires:
            assert self.nodes[a].safe(b), f"the link from {a} to {b} never became safe"
        everything = 0
        for node in self.nodes:
            everything |= self.seen[node]
        for node, protocol in self.nodes.items():
            if not protocol.snapshot()["past"]["given"]:
                missing = [
                    name for name, bit in self.bit.items() if everything & bit and not self.seen[node] & bit
                ]
                assert not missing, f"node {node} never delivered {missing[:3]}"

    def assert_live(self):
        """What is broadcast now, by anybody, reaches everybody."""
        for node in sorted(self.nodes.keys() - self.leaving - self.retired):
            names = len(self.bit)
            self.answers = 0
            self.broadcast(node)
            self.come_to_rest()
            fresh = [name for name, bit in self.bit.items() if bit >> names]
            assert fresh and fresh[0][0] == node
            for other in self.nodes:
                assert self.seen[other] & self.bit[fresh[0]], f"node {other} never got {fresh[0]}"

    def assert_forgotten(self):
        """Nobody knows a source that has left."""
        for node in self.nodes:
            known = self.nodes[node].snapshot()["past"]["vector"].keys()
            departed = {each for each in known if each >= self.founders} - self.nodes.keys()
            departed = {each for each in departed if not self.lost(each)}
            assert not departed, f"node {node} still knows {departed}"

    def retire_the_silent(self):
        """Somebody says for those who went without a word that they will not come back."""
        silent = {each for each in range(self.founders, self.next_id) if self.lost(each)}
        for source in sorted(silent - self.nodes.keys()):
            self.perform(0, self.nodes[0].retire(source, self.now))
        self.silent, self.heard_by = set(), {}
        self.come_to_rest()

    def _vector(self, node):
        return {source: n for source, n in self.nodes[node].snapshot()["past"]["vector"].items() if n}


LINKS = ["broadcast"] * 8 + ["toggle"] * 8 + ["move", "introduce"]
"""What can happen while all processes stay."""

EVERYTHING = [*LINKS, "crash", "recover", "recover", "join", "leave", "die", "part"]


def restless_run(seed, *, protocol="pc-broadcast", steps=80, kinds=None, rest=True, **settings):
    """One run with everything that can happen, drawn from a seed, and left to come to rest unless told not to."""
    random = Random(seed ^ 0x5EED)
    nodes = random.randint(2, 7)
    kept = {frozenset((a, (a + 1) % nodes)) for a in range(nodes)} if random.random() < 0.5 else set()
    net = Restless(
        seed,
        protocol=protocol,
        nodes=nodes,
        spread=random.choice([0.5, 2.0, 3.5, 3.5]),
        loss=random.choice([0, 0, 0.3]),
        answers=random.choice([0, 0.5, 0.8]),
        stray=random.random() < 0.5,
        **{"lag": random.choice([0, 0.1, 3]), "nested": random.random() < 0.5} | settings,
    )
    for a, b in combinations(range(nodes), 2):
        if b == a + 1 or frozenset((a, b)) in kept or random.random() < 0.3:
            net.open(a, b)
    kinds = kinds or EVERYTHING
    pace = random.choice([0.02, 0.05, 0.2, 1.0])
    for _ in range(steps):
        net.run(net.now + round(random.expovariate(1 / pace) * SECOND))
        alive = sorted(net.nodes.keys() - net.leaving)
        match random.choice(kinds):
            case "broadcast":
                net.broadcast(random.choice(alive))
            case "toggle" if len(alive) > 1:
                a, b = random.sample(alive, 2)
                if (a, b) not in net.wires:
                    net.open(a, b)
                elif frozenset((a, b)) not in kept:
                    net.close(a, b)
            case "move" if len(alive) > 2 and not kept:
                node, to = random.sample(alive, 2)
                for peer in net.peers(node):
                    net.close(node, peer)
                net.open(node, to)
            case "introduce":
                by = random.choice(alive)
                if len(peers := net.peers(by)) > 1:
                    net.open(*random.sample(peers, 2), by=by)
            case "crash" if len(alive) > 1:
                net.crash(random.choice(alive), memory=True)
            case "recover" if net.saved:
                back = random.choice(sorted(net.saved))
                net.recover(back)
                for peer in random.sample(alive, min(2, len(alive))):
                    net.open(back, peer)
            case "join":
                net.join(random.sample(alive, min(random.randint(1, 3), len(alive))))
            case "leave" if len(alive) > 2 and (old := [node for node in alive if node >= nodes]):
                net.leave(random.choice(old), patience=random.choice([2, 30, 300]))
            case "die" if len(alive) > 3 and (mortal := [node for node in alive if node]):
                net.crash(random.choice(mortal), memory=False)  # all but one founder
            case "part" if len(alive) > 3:
                group = set(random.sample(alive, len(alive) // 2))
                cut = [(a, b) for a, b in net.wires if a < b and (a in group) != (b in group)]
                for pair in cut:
                    net.close(*pair)
                net.at(net.now + round(random.uniform(0, 20) * SECOND), _heal, (net, cut))
    if rest:
        net.settle()
    return net


def _heal(what):
    net, cut = what
    for pair in cut:
        net.open(*pair)
