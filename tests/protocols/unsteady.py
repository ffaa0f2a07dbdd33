"""A bench for networks that are never at rest: both ends of a link come up and go down at moments of their own,
frames overtake each other, nodes crash and come back with their state, and others join. It judges order as it
goes, and can be asked whether everybody still reaches everybody once the network is whole."""

from random import Random

from antecast.core import CancelTimer, Deliver, Send, SetTimer
from antecast.protocols import specification

SECOND = 10**9


class Connection:
    """One link between two nodes. An end is None before it comes up, then True, then False."""

    def __init__(self, a, b):
        self.ends = {a: None, b: None}
        self.queues = {a: [], b: []}  # by receiver
        self.broken = False

    def other(self, node):
        (peer,) = self.ends.keys() - {node}
        return peer


class Unsteady:
    def __init__(self, protocol, nodes, *, seed=0, fifo=False, patience="10s", **settings):
        self.spec = specification(protocol)
        self.settings = self.spec.configure({"patience": patience} | settings)
        self.random = Random(seed)
        self.fifo = fifo
        self.patience = self.settings.patience
        self.now = 0
        self.nodes = {}
        self.down = {}  # the saved state of nodes that have crashed
        self.timers = {}
        self.delivered = {}
        self.past = {}
        self.connections = []
        for node in range(nodes):
            self.join(node)

    # What happens at a node.

    def join(self, node):
        self.nodes[node] = self.spec.make(node, self.settings)
        self.timers[node], self.delivered[node] = {}, []

    def crash(self, node):
        self.down[node] = self.nodes.pop(node).snapshot()
        self.timers[node] = {}
        for connection in self.connections:
            if node in connection.ends:
                connection.ends[node] = False

    def recover(self, node):
        protocol = self.nodes[node] = self.spec.make(node, self.settings)
        protocol.restore(self.down.pop(node))
        self.perform(node, protocol.resume(self.now))

    def broadcast(self, node):
        self.perform(node, self.nodes[node].broadcast(b"", self.now))
        return self.delivered[node][-1]

    def perform(self, node, effects):
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    current = self.current(node, to)
                    assert current is not None, "sent without a link"
                    current.queues[to].append(frame)
                case Deliver(message=message):
                    self.deliver(node, (message.origin, message.seq))
                case SetTimer(token=token, at=at):
                    self.timers[node][token] = at
                case CancelTimer(token=token):
                    self.timers[node].pop(token, None)

    def deliver(self, node, name):
        seen = self.delivered[node]
        assert name not in seen, f"{name} is delivered twice by {node}"
        if name[0] == node:
            self.past[name] = set(seen)
        for earlier in seen:
            guarantees = {each.value for each in self.spec.guarantees}
            if "causal" in guarantees:
                assert name not in self.past[earlier], f"{node} delivers {name} after {earlier}, which it precedes"
            if "fifo" in guarantees:
                assert earlier[0] != name[0] or earlier[1] < name[1], f"{node} delivers {name} after {earlier}"
        seen.append(name)

    # What happens on links.

    def current(self, node, peer):
        """The link to a peer that is up at this end."""
        found = [each for each in self.connections if each.ends.keys() == {node, peer} and each.ends[node]]
        return found[-1] if found else None

    def connect(self, a, b):
        """A new link, which neither end has noticed yet. The one before it is gone."""
        for connection in self.connections:
            if connection.ends.keys() == {a, b}:
                connection.broken = True
                for end, state in connection.ends.items():
                    if state is None:
                        connection.ends[end] = False
                connection.queues = {a: [], b: []} if self.random.random() < 0.5 else connection.queues
        self.connections.append(Connection(a, b))

    def up(self, connection, node):
        """One end comes up; if an older link is still up there, without a word about its end."""
        if connection.ends[node] is not None or node not in self.nodes:
            return
        for older in self.connections:
            if older is not connection and older.ends.keys() == connection.ends.keys() and older.ends[node]:
                older.ends[node] = False
        connection.ends[node] = True
        self.perform(node, self.nodes[node].link_up(connection.other(node), self.now))

    def drop(self, connection, node):
        """One end goes down."""
        if connection.ends[node]:
            connection.ends[node] = False
            self.perform(node, self.nodes[node].link_down(connection.other(node), self.now))
        elif connection.ends[node] is None:
            connection.ends[node] = False

    def carry(self, connection, node):
        """One frame arrives at an end."""
        queue = connection.queues[node]
        if not queue or connection.ends[node] is None:
            return False
        frame = queue.pop(0 if self.fifo else self.random.randrange(len(queue)))
        if connection.ends[node]:
            self.perform(node, self.nodes[node].receive(frame, connection.other(node), self.now))
        return True

    def lose(self, connection, node):
        """A frame gets lost, where the protocol bears that."""
        if connection.queues[node] and self.settings.repair is not None:
            connection.queues[node].pop(self.random.randrange(len(connection.queues[node])))

    def carry_all(self):
        moved = True
        while moved:
            moved = False
            for connection in list(self.connections):
                for node in connection.ends:
                    while self.carry(connection, node):
                        moved = True

    def wait(self, time):
        """Let time pass; timers fire in their order, frames stay where they are."""
        until = self.now + time
        while due := [(at, node, token) for node, timers in self.timers.items() for token, at in timers.items()]:
            at, node, token = min(due)
            if at > until:
                break
            self.now = max(self.now, at)
            del self.timers[node][token]
            self.perform(node, self.nodes[node].timer(token, self.now))
        self.now = until

    # A run.

    def step(self, choice):
        """Something happens; `choice` says what."""
        draw, up = self.random, sorted(self.nodes)
        if choice == "broadcast":
            self.broadcast(draw.choice(up))
        elif choice == "connect":
            a, b = draw.sample(sorted(self.nodes | self.down), 2)
            self.connect(a, b)
        elif choice in ("up", "drop", "carry", "lose") and self.connections:
            connection = draw.choice(self.connections[-12:])
            getattr(self, choice)(connection, draw.choice(sorted(connection.ends)))
        elif choice == "flow":
            self.carry_all()
        elif choice == "wait":
            self.wait(draw.choice([self.patience // 10, self.patience // 2, 2 * self.patience]))
        elif choice == "crash" and len(up) > 1:
            self.crash(draw.choice(up))
        elif choice == "recover" and self.down:
            self.recover(draw.choice(sorted(self.down)))
        elif choice == "join" and len(self.delivered) < 6:
            self.join(len(self.delivered))

    def heal(self):
        """Everybody is up, links that are broken or up at one end only are gone, and a tree joins all."""
        for node in list(self.down):
            self.recover(node)
        for connection in self.connections:
            if connection.broken or list(connection.ends.values()) != [True, True]:
                for node in connection.ends:
                    self.drop(connection, node)
        nodes = sorted(self.nodes)
        for index, node in enumerate(nodes[1:], 1):
            peer = nodes[self.random.randrange(index)]
            if not self.current(node, peer):
                self.connect(node, peer)
                for end in (node, peer):
                    self.up(self.connections[-1], end)
        self.rest()

    def rest(self):
        """Nothing happens for long enough: a few times patience, for each hop."""
        for _ in range(4 * len(self.nodes)):
            self.carry_all()
            self.wait(self.patience)
        self.carry_all()

    def everyone_reaches_everyone(self, *, at_once):
        for node in sorted(self.nodes):
            name = self.broadcast(node)
            if at_once:
                self.carry_all()
            else:
                self.rest()
            lacking = [each for each in self.nodes if name not in self.delivered[each]]
            assert not lacking, f"nodes {lacking} do not deliver {name}"
