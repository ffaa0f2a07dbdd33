"""The levels of a history whose reads are resolved, from the strongest down.

Causal convergence implies all levels but causal memory, so the weaker ones are looked at only where it is
violated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from antecast.kv.causality import Graph, clocks, make_graph, order_of
from antecast.kv.convergence import Demands, demands
from antecast.kv.history import IntArray, LongArray
from antecast.kv.isolation import Edges, isolation_edges
from antecast.kv.levels import LEVELS, SESSION, Level
from antecast.kv.memory import SessionOrder, broken_sessions
from antecast.kv.resolve import FOLLOW, READS, WRITES, YOUR_WRITES, Misread, Resolved
from antecast.kv.stale import Stale, broken_by_misreads, stale_reads

_BITS: dict[Level, int] = {
    "read-your-writes": YOUR_WRITES,
    "monotonic-reads": READS,
    "monotonic-writes": WRITES,
    "writes-follow-reads": FOLLOW,
}


@dataclass(eq=False)
class Analysis:
    """What was found, step by step; what was not needed is None."""

    resolved: Resolved
    graph: Graph
    order: IntArray
    violated: set[Level] = field(default_factory=set)
    demands: Demands | None = None
    known: NDArray[np.int32] | None = None
    stale: Stale | None = None
    committed: Edges | None = None
    atomic: Edges | None = None
    broken: list[SessionOrder] = field(default_factory=list)
    lost: LongArray = field(default_factory=lambda: np.zeros(0, np.int64))
    """Reads of lists that lack something of their past."""

    @property
    def cyclic(self) -> bool:
        """Whether causality itself has a cycle, so that no level has an order to speak of."""
        return len(self.order) < len(self.graph)


def analyse(resolved: Resolved, *, memory: bool = True, every: bool = False) -> Analysis:
    """Judge all levels; without `memory`, all but causal memory. With `every`, list all sessions that break it."""
    graph = make_graph(resolved)
    analysis = Analysis(resolved, graph, order_of(graph))
    if len(resolved.misread):
        analysis.violated |= {"read-committed", "read-atomic", "CC", "CCv", "CM"}
        own = (Misread.NOT_MY_OWN, Misread.NOT_MY_LAST)
        if np.isin(resolved.misread, own).any():
            analysis.violated.add("read-your-writes")
    if analysis.cyclic:
        analysis.violated |= set(LEVELS)
        return analysis
    asked = demands(graph, analysis.order)
    if resolved.history.lists:
        before = np.concatenate((asked.before, resolved.l_before))
        asked = replace(asked, before=before, after=np.concatenate((asked.after, resolved.l_after)))
        analysis.lost = np.flatnonzero(asked.seen > resolved.r_shown)
    analysis.demands = asked
    converges = len(order_of(graph, asked.before, asked.after)) == len(graph) and not len(asked.stale_initial)
    converges &= not len(analysis.lost)
    if not converges:
        analysis.violated.add("CCv")
        judge_weaker(analysis)
    elif len(resolved.older.node):
        judge_weaker(analysis)
    if memory:
        analysis.broken = broken_sessions(graph, analysis.order, most=None if every else 1)
        if analysis.broken:
            analysis.violated.add("CM")
    return analysis


def precedes(analysis: Analysis, first: IntArray, then: IntArray) -> NDArray[np.bool_]:
    """Whether the first of each pair is in the past of the second."""
    assert analysis.known is not None
    session = analysis.graph.session[first]
    seen: NDArray[np.bool_] = analysis.known[then, session] > first - analysis.graph.start[session]
    return seen


def judge_weaker(analysis: Analysis) -> None:
    """The levels below causal convergence."""
    graph = analysis.graph
    analysis.known = clocks(graph, analysis.order)
    analysis.stale = found = stale_reads(graph, analysis.known, analysis.resolved)
    listed = analysis.resolved
    backwards = precedes(analysis, listed.l_after, listed.l_before).any()
    if len(found.reads) or len(found.torn) or len(analysis.lost) or backwards:
        analysis.violated |= {"CC", "CM"}
    broken = int(np.bitwise_or.reduce(found.breaks, initial=0))
    broken |= broken_by_misreads(graph, analysis.known, listed)
    analysis.violated |= {level for level in SESSION if broken & _BITS[level]}
    analysis.committed = isolation_edges(graph, atomic=False)
    analysis.atomic = isolation_edges(graph, atomic=True)
    for level, edges in (("read-committed", analysis.committed), ("read-atomic", analysis.atomic)):
        if len(edges.stale_initial) or len(order_of(graph, edges.before, edges.after)) < len(graph):
            analysis.violated.add(level)  # type: ignore[arg-type]
