"""Short cycles of causality and further edges, with all the transactions that it takes to see each.

An edge beyond causality goes from u to w because a reader of w has u before it. So a cycle shows nothing without
the reader of each of its edges, and the way from u to that reader. In the order of one session (causal memory)
that way may need such edges itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from antecast.kv.causality import Graph, order_of
from antecast.kv.engine import Analysis, precedes
from antecast.kv.history import IntArray, LongArray

_STARTS = 100
"""Edges at which a cycle is looked for."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Demands: `before` comes before `after`, because of a read, or -1 if it is not known which."""

    before: IntArray
    after: IntArray
    reads: LongArray

    def only(self, chosen: NDArray[np.bool_]) -> Edges:
        return Edges(self.before[chosen], self.after[chosen], self.reads[chosen])

    @cached_property
    def number(self) -> dict[tuple[int, int], int]:
        """The number of each edge."""
        return {pair: n for n, pair in enumerate(zip(self.before.tolist(), self.after.tolist(), strict=True))}

    @cached_property
    def successors(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for u, w in zip(self.before.tolist(), self.after.tolist(), strict=True):
            found.setdefault(u, []).append(w)
        return found


NO_EDGES = Edges(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))


def short_cycles(analysis: Analysis, edges: Edges, most: int) -> Iterator[tuple[list[int], set[int]]]:
    """Cycles, and all transactions that each takes; one that is found loses its edges before the next."""
    graph = analysis.graph
    for _ in range(most):
        order = order_of(graph, edges.before, edges.after)
        if len(order) == len(graph):
            return
        left = np.ones(len(graph), np.bool_)
        left[order] = False
        inside = edges.only(left[edges.before] & left[edges.after])
        starts = list(inside.number)[:_STARTS] or [
            (a, b) for a in np.flatnonzero(left).tolist() for b in readers(graph, a) if left[b]
        ]
        best: list[int] | None = None
        for a, b in starts[:_STARTS]:
            path = shortest_path(graph, b, a, inside.successors, left)
            if path is not None and (best is None or len(path) < len(best)):
                best = path
        if best is None:
            return
        pairs = list(zip(best, [*best[1:], best[0]], strict=True))
        yield best, {*best, *_support(analysis, edges, pairs)}
        used = [edges.number[pair] for pair in pairs if pair in edges.number]
        if not used:
            return
        keep = np.ones(len(edges.before), np.bool_)
        keep[used] = False
        edges = edges.only(keep)


def way_before(analysis: Analysis, edges: Edges, u: int, reader: int) -> set[int]:
    """The transactions by which u comes to be before a reader, in an order with such edges."""
    path = shortest_path(analysis.graph, u, reader, edges.successors, None) or []
    return {*path, *_support(analysis, edges, list(pairwise(path)))}


def _support(analysis: Analysis, edges: Edges, pairs: list[tuple[int, int]]) -> set[int]:
    """The readers that demand the edges among some pairs, and how each has the first of the pair before it."""
    graph, resolved = analysis.graph, analysis.resolved
    nodes: set[int] = set()
    seen: set[tuple[int, int]] = set()
    waiting = list(pairs)
    while waiting:
        pair = waiting.pop()
        if pair in seen or pair not in edges.number:
            continue
        seen.add(pair)
        u, w = pair
        read = int(edges.reads[edges.number[pair]])
        reader = int(resolved.r_node[read]) if read >= 0 else _reader(analysis, u, w)
        path = shortest_path(graph, u, reader, {}, None)
        if path is None:
            others = edges.successors | {u: [each for each in edges.successors.get(u, ()) if each != w]}
            path = shortest_path(graph, u, reader, others, None) or []
        nodes |= {reader, *path}
        waiting += pairwise(path)
    return nodes


def _reader(analysis: Analysis, u: int, w: int) -> int:
    """A reader of w that has u in its past: whose demand the edge from u to w is.

    That is w itself if it has read a list and appended to it.
    """
    resolved = analysis.resolved
    keys = np.intersect1d(resolved.w_key[resolved.w_node == u], resolved.w_key[resolved.w_node == w])
    found = resolved.r_node[(resolved.r_from == w) & np.isin(resolved.r_key, keys)]
    found = np.concatenate((found, resolved.d_node[resolved.d_from == w]))
    knowing = found[precedes(analysis, np.full(len(found), u, np.int32), found)]
    return int(knowing[0]) if len(knowing) else w


def readers(graph: Graph, node: int) -> list[int]:
    found: list[int] = graph.succ[graph.succ_at[node] : graph.succ_at[node + 1]].tolist()
    return found


def shortest_path(
    graph: Graph, first: int, last: int, extra: dict[int, list[int]], within: NDArray[np.bool_] | None
) -> list[int] | None:
    """The fewest transactions that lead from one to another; a session leads to all that is later in it."""
    came: dict[int, int] = {first: -1}
    covered = graph.start[1:].copy()  # all from here on has been reached by way of the session
    queue = deque([first])
    while queue:
        node = queue.popleft()
        if node == last:
            path = [node]
            while came[path[-1]] >= 0:
                path.append(came[path[-1]])
            return path[::-1]
        s = graph.session[node]
        later = range(node + 1, int(covered[s]))
        covered[s] = min(covered[s], node + 1)
        nexts: Iterable[int] = (*later, *readers(graph, node), *extra.get(node, ()))
        for each in nexts:
            if each not in came and (within is None or within[each]):
                came[each] = node
                queue.append(each)
    return None
