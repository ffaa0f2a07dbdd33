"""Read committed and read atomic: what reads demand of the order of transactions at these levels.

Biswas and Enea: there is one order of all transactions that extends causality, and in which w comes after u
whenever t reads key x from w, u wrote x too, and
- read committed: t has read from u before it reads x;
- read atomic: t reads from u, or u is earlier in the session of t. The demands are edges; the level holds if
  they and causality have no cycle. (Liu et al., *Plume*, leave out of read committed the case that x was read
  from u itself; that is their non-repeatable read, which breaks read atomic.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from antecast.core.compiled import compiled
from antecast.kv.causality import Graph
from antecast.kv.history import IntArray, LongArray


@dataclass(frozen=True, eq=False)
class Edges:
    """Demands of reads: `before` comes before the writer of read `read`; those on the initial state are apart."""

    before: IntArray
    after: IntArray
    read: LongArray
    stale_initial: LongArray
    overwriter: IntArray


def isolation_edges(graph: Graph, *, atomic: bool) -> Edges:
    """The demands of read atomic, or of read committed."""
    count, stale_count = _count(graph, atomic)
    before, after = np.empty(count, np.int32), np.empty(count, np.int32)
    read = np.empty(count, np.int64)
    stale, overwriter = np.empty(stale_count, np.int64), np.empty(stale_count, np.int32)
    _walk_graph(graph, atomic, before, after, read, stale, overwriter)
    return Edges(before, after, read, stale, overwriter)


def _count(graph: Graph, atomic: bool) -> tuple[int, int]:
    none, long_none = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return _walk_graph(graph, atomic, none, none, long_none, long_none, none)


def _walk_graph(
    graph: Graph,
    atomic: bool,
    before: IntArray,
    after: IntArray,
    read: LongArray,
    stale: LongArray,
    overwriter: IntArray,
) -> tuple[int, int]:
    return _walk(
        graph.start,
        graph.session,
        graph.read_at,
        graph.r_key,
        graph.r_entry,
        graph.w_node,
        graph.group_at,
        graph.group_session,
        graph.key_groups,
        atomic,
        before,
        after,
        read,
        stale,
        overwriter,
    )


@compiled
def _walk(
    start: LongArray,
    session: IntArray,
    read_at: LongArray,
    r_key: IntArray,
    r_entry: LongArray,
    w_node: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
    atomic: bool,
    before: IntArray,
    after: IntArray,
    read: LongArray,
    stale: LongArray,
    overwriter: IntArray,
) -> tuple[int, int]:
    """Writes the demands; with empty arrays it only counts them."""
    count, stale_count = 0, 0
    for t in range(len(session)):
        low, high = read_at[t], read_at[t + 1]
        for r in range(low, high):
            key, entry = r_key[r], r_entry[r]
            first_group, last_group = key_groups[key], key_groups[key + 1]
            # Writers in question: the sources of the reads of t (a range of reads), then those of its session.
            for other in range(low, high + 1):
                u = -1
                if other == high:
                    if not atomic:
                        continue
                    for g in range(first_group, last_group):
                        if group_session[g] == session[t]:
                            left, right = group_at[g], group_at[g + 1]
                            while left < right:
                                middle = (left + right) // 2
                                if w_node[middle] < t:
                                    left = middle + 1
                                else:
                                    right = middle
                            if left > group_at[g]:
                                u = w_node[left - 1]
                elif (atomic or other < r) and other != r and r_entry[other] >= 0:
                    source = w_node[r_entry[other]]
                    for g in range(first_group, last_group):
                        if group_session[g] == session[source]:
                            left, right = group_at[g], group_at[g + 1]
                            while left < right:
                                middle = (left + right) // 2
                                if w_node[middle] < source:
                                    left = middle + 1
                                else:
                                    right = middle
                            if left < group_at[g + 1] and w_node[left] == source:
                                u = source
                if u < 0:
                    continue
                if entry < 0:
                    if len(stale):
                        stale[stale_count] = r
                        overwriter[stale_count] = u
                    stale_count += 1
                elif w_node[entry] != u:
                    if len(before):
                        before[count] = u
                        after[count] = w_node[entry]
                        read[count] = r
                    count += 1
    return count, stale_count
