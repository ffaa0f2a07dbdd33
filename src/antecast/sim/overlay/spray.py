"""Spray: an overlay close to a random graph whose views follow the size of the network (Nédélec, Tanke, Frey,
Molli and Mostéfaoui, "An adaptive peer-sampling protocol for building networks of browsers").

- *Join.* A newcomer knows one contact; the contact tells each of its neighbours, and each takes an arc to the
  newcomer. So n processes hold about n ln n arcs, and no one counts n.
- *Exchange.* Every `every`, a process and its oldest neighbour swap half of their views. The arc between them
  turns round. No arc is made or lost, so large and small views even out.
- *Unreachable.* An arc to a process that cannot be reached is given up; a copy of another arc takes its place
  with probability 1 − 1/|view|. So a process that goes takes away as many arcs as its join brought.
- *Lost and found.* Whoever gives up arcs remembers some of those they led to, tries one of them at each exchange,
  and has the arc back when that one answers (`memory`). So the parts of an overlay that was split find each other.

Published Spray closes an arc's connection the moment the arc is given away. A causal broadcast that brings links
into use by a ping phase needs the old path while the new one is being opened, so arcs are lent here, then given:

1. A process exchanges only over a connection that is safe both ways and with an arc that is not lent.
2. It gives only arcs whose connection is safe both ways and neither lent nor pinned.
3. The lender u keeps its arc to y, and the connection, until the borrower v and y are safe with each other both
   ways. Then v gets the arc. So the number of arcs is the same at every instant, and so is who can reach whom.
4. The connection u–v, over which both pings go (v → u → y and y → u → v), is pinned until then.
5. After `patience` without success v–y is dropped, and u keeps its arc.

With a protocol whose links are safe at once this is published Spray. Departures: an exchange is one event (its
own few frames take no time); rules 1 to 5; the memory of the lost; a process that knows nobody, and of those it
remembers reaches nobody, asks for a random contact, as a browser would ask its signalling server again.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from antecast.core import NodeId
from antecast.sim.overlay.memory import Memory
from antecast.sim.overlay.overlay import Network, Overlay
from antecast.sim.overlay.views import Arc, Connections, choose, first_views, oldest
from antecast.sim.streams import Stream
from antecast.sim.topology import Spray


class Introduction:
    """A connection being opened between two neighbours of `by`."""

    __slots__ = ("arc", "borrower", "by", "open", "peer")

    def __init__(self, by: NodeId, borrower: NodeId, peer: NodeId, arc: Arc | None) -> None:
        self.by = by
        self.borrower = borrower
        self.peer = peer
        self.arc = arc
        """The arc that is lent; None where a newcomer is introduced, for whom a new one is made."""
        self.open = True


class SprayOverlay(Overlay):
    """All processes' sides of Spray."""

    def __init__(self, topology: Spray, n: int, seed: int, until: int, network: Network) -> None:
        self.views: defaultdict[NodeId, list[Arc]] = defaultdict(list)
        self.connections = Connections()
        self.exchanges: Counter[NodeId] = Counter()
        self.dropped = 0
        """Connections given up because they did not become safe in time."""
        self.found = 0
        """Processes that were lost and have been found again."""
        self._topology = topology
        self._n = n
        self._seed = seed
        self._until = until
        self._network = network
        self._streams = [Stream(seed, "spray", p) for p in range(n)]
        self._opening: dict[tuple[NodeId, NodeId], Introduction] = {}
        self._joining: set[tuple[NodeId, NodeId]] = set()
        """Newcomers and the contacts they are not safe with yet."""
        self._memories: defaultdict[NodeId, Memory] = defaultdict(Memory)

    def start(self) -> list[tuple[NodeId, NodeId]]:
        for p, view in enumerate(first_views(self._topology, self._n, self._seed, self._streams)):
            self.views[p] = view
            for arc in view:
                self.connections.need(p, arc.peer)
        for p in range(self._n):
            self._tick_later(p, Stream(self._seed, "spray/phase", p).below(max(1, self._topology.every or 1)))
        return self.connections.pairs()

    def _tick_later(self, p: NodeId, at: int) -> None:
        if self._topology.every and at < self._until:
            self._network.at(at, self._tick, p)

    # Exchanges.

    def _tick(self, p: NodeId) -> None:
        assert self._topology.every
        self._tick_later(p, self._network.now + self._topology.every)
        if self._network.up(p):
            self._forget_unreachable(p)
            self._look_for_the_lost(p)
            if not self.views[p] and not self._network.links(p):
                self._seek(p, None, forward=False)
            self._exchange(p)

    def _exchange(self, p: NodeId) -> None:
        mine = self.views[p]
        for arc in mine:
            arc.age += 1
        partners = [arc for arc in mine if not arc.lent and self._network.safe(p, arc.peer)]
        if not partners:
            return
        self.exchanges[p] += 1
        partner = oldest(partners)
        q = partner.peer
        given = choose(self._may_give(p, partner), (len(mine) + 1) // 2 - 1, self._streams[p])
        taken = choose(self._may_give(q), (len(self.views[q]) + 1) // 2, self._streams[q])
        mine.remove(partner)
        self.views[q].append(Arc(p))
        for lender, borrower, arcs in ((p, q, given), (q, p, taken)):
            for arc in arcs:
                self._give(lender, borrower, arc)

    def _may_give(self, p: NodeId, partner: Arc | None = None) -> list[Arc]:
        held, safe = self.connections.held, self._network.safe
        return [
            arc
            for arc in self.views[p]
            if arc is not partner and not arc.lent and not held(p, arc.peer) and safe(p, arc.peer)
        ]

    def _give(self, u: NodeId, v: NodeId, arc: Arc) -> None:
        """u gives an arc to v: at once where v can use it already, else when the new connection is safe."""
        y = arc.peer
        if y == v:
            self.views[u].remove(arc)
            self.views[v].append(Arc(u))
        elif self._network.safe(v, y):
            self._move(u, v, arc)
        elif not self._network.linked(v, y):
            self._introduce(Introduction(u, v, y, arc))

    def _move(self, u: NodeId, v: NodeId, arc: Arc) -> None:
        if arc in self.views[u]:  # not if u has left meanwhile
            self.views[u].remove(arc)
            self._drop(u, arc.peer)
        arc.lent = False
        self._take(v, arc)

    def _take(self, p: NodeId, arc: Arc) -> None:
        self.views[p].append(arc)
        self.connections.need(p, arc.peer)

    def _drop(self, a: NodeId, b: NodeId) -> None:
        if self.connections.drop(a, b):
            self._network.disconnect(a, b)

    # Introductions: connections on the way to being safe.

    def _introduce(self, what: Introduction) -> bool:
        """Open a connection and see it through; whether it came up."""
        u, v, y = what.by, what.borrower, what.peer
        if not self._network.connect(v, y, u):
            self._network.disconnect(v, y)
            return False
        if what.arc is not None:
            what.arc.lent = True
        self.connections.hold(u, v)
        self.connections.hold(u, y)
        self._opening[v, y] = self._opening[y, v] = what
        if self._network.safe(v, y):
            self._succeed(what)
        else:
            self._network.watch(v, y, self.became_safe)
            self._network.at(self._network.now + self._topology.patience, self._give_up, what)
        return True

    def became_safe(self, a: NodeId, b: NodeId) -> None:
        if not self._network.safe(a, b):
            return
        if (a, b) in self._opening:
            self._succeed(self._opening[a, b])
        for node, contact in ((a, b), (b, a)):
            if (node, contact) in self._joining:
                self._joining.remove((node, contact))
                self._forward(node, contact)

    def _succeed(self, what: Introduction) -> None:
        self._end(what)
        if what.arc is None:
            self._take(what.borrower, Arc(what.peer))
        else:
            self._move(what.by, what.borrower, what.arc)
        self._release(what)

    def _give_up(self, what: Introduction) -> None:
        if not what.open:
            return
        self.dropped += 1
        self._end(what)
        v, y = what.borrower, what.peer
        if what.arc is not None:
            what.arc.lent = False
        else:
            self._stand_in(what.by, y)
        if not self.connections.needed(v, y):
            self._network.disconnect(v, y)
        self._release(what)

    def _end(self, what: Introduction) -> None:
        what.open = False
        v, y = what.borrower, what.peer
        del self._opening[v, y], self._opening[y, v]
        self._network.unwatch(v, y)

    def _release(self, what: Introduction) -> None:
        for end in (what.borrower, what.peer):
            if self.connections.release(what.by, end):
                self._network.disconnect(what.by, end)

    # Processes come, go and break.

    def join(self, node: NodeId, contact: NodeId | None) -> None:
        if node >= len(self._streams):
            self._streams += [Stream(self._seed, "spray", p) for p in range(len(self._streams), node + 1)]
        phase = Stream(self._seed, "spray/phase", node).below(max(1, self._topology.every or 1))
        self._tick_later(node, self._network.now + phase)
        self._seek(node, contact, forward=True)

    def _seek(self, node: NodeId, contact: NodeId | None, *, forward: bool) -> None:
        """Link with a contact, a random one by default; the contact then tells others of a newcomer."""
        if contact is None or not self._network.up(contact):
            others = [other for other in self._network.present() if other != node]
            if not others:
                return
            contact = others[self._streams[node].below(len(others))]
        if not self._open(node, contact):
            if forward:
                self._memories[node].lose(contact, owed=1)
            return
        self._take(node, Arc(contact))
        if self._memories[node].owed:
            self._memories[node].surplus += 1  # what it had will come back too
        if not forward:
            return
        if self._network.safe(node, contact):
            self._forward(node, contact)
        else:
            self._joining.add((node, contact))
            self._network.watch(node, contact, self.became_safe)

    def _forward(self, node: NodeId, contact: NodeId) -> None:
        """The contact tells each of its neighbours of the newcomer, and stands in for those it cannot tell."""
        told = [arc.peer for arc in self.views[contact]]
        for x in told or [node]:
            tellable = x != node and self._network.safe(contact, x) and not self._network.linked(x, node)
            if not tellable or not self._introduce(Introduction(contact, x, node, None)):
                self._stand_in(contact, node)

    def _stand_in(self, p: NodeId, peer: NodeId) -> None:
        if self._network.up(p) and self._network.linked(p, peer):
            self._take(p, Arc(peer))

    def _open(self, p: NodeId, peer: NodeId) -> bool:
        """Try to open a connection that nobody introduces; whether the two are linked now."""
        if not self._network.up(peer):
            return False
        if self._network.connect(p, peer):
            return True
        if not self.connections.needed(p, peer):  # else the other's arc still waits for it
            self._network.disconnect(p, peer)
        return False

    def leave(self, node: NodeId) -> None:
        self._memories.pop(node, None)
        for arc in self.views.pop(node, []):
            self.connections.drop(node, arc.peer)

    def broke(self, a: NodeId, b: NodeId) -> None:
        if (a, b) in self._opening:
            self._give_up(self._opening[a, b])
        by_a_fault = self.connections.needed(a, b)
        for node, contact in ((a, b), (b, a)):
            if by_a_fault:
                self._memories[node].recall()
            else:
                self._memories[node].part(contact)
            if (node, contact) in self._joining:
                self._joining.remove((node, contact))
                if self._network.up(node):  # the contact is gone: the newcomer needs another
                    self._lose(node, [arc for arc in self.views[node] if arc.peer == contact])
                    self._seek(node, None, forward=True)
            elif self._network.up(node) and not self.views[node] and not self._network.links(node):
                self._memories[node].lose(contact, owed=0)  # its last neighbour, to whom it had no arc

    def _forget_unreachable(self, p: NodeId) -> None:
        view, network, stream = self.views[p], self._network, self._streams[p]
        lost = [arc for arc in view if not arc.lent and not network.linked(p, arc.peer)]
        if not lost:
            return
        size = len(view)
        self._lose(p, lost)
        known = list(view)
        memory = self._memories[p]
        for arc in lost:
            owed = 0
            if memory.surplus:
                memory.surplus -= 1
            elif known and stream.uniform() > 1 / size:
                self._take(p, Arc(known[stream.below(len(known))].peer))
            else:
                owed = 1
            memory.lose(arc.peer, owed=owed)

    def _look_for_the_lost(self, p: NodeId) -> None:
        """Try one of those that p has lost; if it has no neighbour left, all of them, until one is there."""
        memory = self._memories.get(p)
        for _ in range(0 if not memory else 1 if self._network.links(p) else len(memory)):
            assert memory is not None
            peer = memory.turn()
            linked = self._network.linked(p, peer)
            if not memory.owed_to(peer) and (linked or self._close(p, peer)):
                memory.find(peer)  # there is a way to it already
                break
            if linked or self._open(p, peer):
                self.found += 1
                owed = memory.find(peer)
                memory.surplus += not owed
                for _ in range(max(1, owed)):
                    self._take(p, Arc(peer))
                break

    def _close(self, p: NodeId, peer: NodeId) -> bool:
        """Whether the two have a process in common among themselves, neighbours and neighbours' neighbours."""
        links = self._network.links
        mine, theirs = ({q, *links(q), *(z for y in links(q) for z in links(y))} for q in (p, peer))
        return not mine.isdisjoint(theirs)

    def _lose(self, p: NodeId, arcs: list[Arc]) -> None:
        for arc in arcs:
            self.views[p].remove(arc)
            self._drop(p, arc.peer)

    def gauges(self, node: NodeId) -> dict[str, int]:
        links = self._network.links(node)
        return {
            "links": len(links),
            "unsafe_links": sum(not self._network.link_safe(node, peer) for peer in links),
            "arcs": len(self.views[node]),
            "lent_links": sum(arc.lent for arc in self.views[node]),
            "exchanges": self.exchanges[node],
        }
