"""Partial views: the arcs that each process holds, and the connections that they need.

An arc from p to q is p's knowledge of q. Views are multisets, as in Spray: it is the *number* of arcs that
tells the size of the network, so an arc is never dropped because there is another one to the same process.
A connection exists while an arc, in either direction, or a hold needs it. A *hold* keeps a connection open
that somebody else's ping phase runs over.

`first_views` makes the views of the start: processes join one after the other through a random contact, as
published; after each join the newcomer and a random process exchange, so that views grow evenly; and all
exchange a few rounds more. All that happens at once and without a network. The mean view is then about ln n
arcs: a join adds one arc and as many as its contact has, so the expected number of arcs per process is
H(n) − H(core) + core − 1.
"""

from __future__ import annotations

from collections import Counter

from antecast.core import NodeId
from antecast.sim.streams import Stream
from antecast.sim.topology import Spray


class Arc:
    """One entry of a view."""

    __slots__ = ("age", "lent", "peer")

    def __init__(self, peer: NodeId, age: int = 0) -> None:
        self.peer = peer
        self.age = age
        self.lent = False
        """Promised to another process, and kept until that one can do without."""

    def __repr__(self) -> str:
        return f"Arc({self.peer}, age={self.age}{', lent' if self.lent else ''})"


class Connections:
    """How many arcs and holds need each connection."""

    def __init__(self) -> None:
        self._arcs: Counter[tuple[NodeId, NodeId]] = Counter()
        self._holds: Counter[tuple[NodeId, NodeId]] = Counter()

    def need(self, a: NodeId, b: NodeId) -> None:
        self._arcs[_pair(a, b)] += 1

    def drop(self, a: NodeId, b: NodeId) -> bool:
        """One arc less; whether nothing needs the connection any more."""
        return self._less(self._arcs, _pair(a, b))

    def hold(self, a: NodeId, b: NodeId) -> None:
        self._holds[_pair(a, b)] += 1

    def release(self, a: NodeId, b: NodeId) -> bool:
        """One hold less; whether nothing needs the connection any more."""
        return self._less(self._holds, _pair(a, b))

    def held(self, a: NodeId, b: NodeId) -> bool:
        return _pair(a, b) in self._holds

    def needed(self, a: NodeId, b: NodeId) -> bool:
        return _pair(a, b) in self._arcs or _pair(a, b) in self._holds

    def pairs(self) -> list[tuple[NodeId, NodeId]]:
        """Those that arcs need, sorted."""
        return sorted(self._arcs)

    def _less(self, counter: Counter[tuple[NodeId, NodeId]], pair: tuple[NodeId, NodeId]) -> bool:
        counter[pair] -= 1
        if not counter[pair]:
            del counter[pair]
        return not self.needed(*pair)


def _pair(a: NodeId, b: NodeId) -> tuple[NodeId, NodeId]:
    return (a, b) if a < b else (b, a)


def oldest(arcs: list[Arc]) -> Arc:
    """The arc that has waited longest; the first of them."""
    return max(arcs, key=lambda arc: arc.age)


def choose(arcs: list[Arc], k: int, stream: Stream) -> list[Arc]:
    """k of the arcs at random, or all if there are fewer, in the order drawn."""
    left = list(arcs)
    chosen = []
    for _ in range(min(k, len(left))):
        index = stream.below(len(left))
        chosen.append(left[index])
        left[index] = left[-1]
        left.pop()
    return chosen


def exchange_at_once(views: list[list[Arc]], streams: list[Stream], p: NodeId) -> None:
    """One exchange of p with its oldest neighbour, where no connection takes time to open."""
    mine = views[p]
    for arc in mine:
        arc.age += 1
    if not mine:
        return
    partner = oldest(mine)
    q = partner.peer
    theirs = views[q]
    given = choose([arc for arc in mine if arc is not partner], (len(mine) + 1) // 2 - 1, streams[p])
    taken = choose(theirs, (len(theirs) + 1) // 2, streams[q])
    views[p] = mine = [arc for arc in mine if arc is not partner]
    theirs.append(Arc(p))
    for lender, borrower, arcs in ((p, q, given), (q, p, taken)):
        for arc in arcs:
            views[lender].remove(arc)
            views[borrower].append(Arc(lender) if arc.peer == borrower else arc)


def first_views(topology: Spray, n: int, seed: int, streams: list[Stream]) -> list[list[Arc]]:
    """The views of n processes at the start."""
    if topology.arcs is not None:
        views = [_random_view(p, n, topology.arcs, Stream(seed, "spray/start", p)) for p in range(n)]
    else:
        core = min(topology.core, n)
        views = [[Arc(q) for q in range(core) if q != p] for p in range(core)]
        for p in range(core, n):
            stream = Stream(seed, "spray/join", p)
            contact = stream.below(p)
            for arc in views[contact]:
                views[arc.peer].append(Arc(p))
            if not views[contact]:
                views[contact].append(Arc(p))
            views.append([Arc(contact)])
            exchange_at_once(views, streams, p)
            exchange_at_once(views, streams, stream.below(p + 1))
    for _ in range(topology.settle):
        for p in range(n):
            exchange_at_once(views, streams, p)
    return views


def _random_view(p: NodeId, n: int, arcs: float, stream: Stream) -> list[Arc]:
    """As many arcs as asked for, to different processes; the fraction of the number by chance."""
    count = min(n - 1, int(arcs) + (stream.uniform() < arcs - int(arcs)))
    return [Arc(q if q < p else q + 1) for q in stream.sample(n - 1, count)]
