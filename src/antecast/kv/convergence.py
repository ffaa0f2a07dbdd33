"""Causal convergence (CCv): one order of all transactions that explains every read.

Theory of operation. Bouajjani et al. (CyclicCF) and Biswas and Enea (Causal): a read of key x by t
from w demands that every other transaction u that wrote x and is in the causal past of t comes before w. The
history is CCv exactly if these demands and causality together have no cycle. Of each group of writers only the
last one in the past of t is demanded: the others precede it in their session. Demands on one write from many
readers are merged, the last writer of each group again speaking for all: at most one edge per write and group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.kv.causality import Graph, first_places
from antecast.kv.history import IntArray, LongArray

BLOCK_BYTES = 256 << 20
"""Memory for the positions f of a block of sessions."""


@dataclass(frozen=True, eq=False)
class Demands:
    """What reads demand of the order of transactions: `before` comes before `after`."""

    before: IntArray
    after: IntArray
    stale_initial: LongArray
    """Reads of the initial state with a write to their key in their past, and one such write each."""
    overwriter: IntArray
    seen: IntArray
    """How many writers of its key each read has in its past."""


def blocks(graph: Graph) -> list[tuple[int, int]]:
    """Sessions in blocks whose positions fit into memory, and into rows that caches like."""
    width = max(1, min(16, BLOCK_BYTES // max(1, 4 * len(graph))))
    return [(first, min(first + width, graph.sessions)) for first in range(0, graph.sessions, width)]


def demands(graph: Graph, order: IntArray) -> Demands:
    """All demands of all reads, merged; `order` is a topological order of causality."""
    groups = np.diff(graph.key_groups)[graph.w_key]
    slot_at = np.concatenate(([0], np.cumsum(groups))).astype(np.int64)
    slots = np.full(int(slot_at[-1]), -1, np.int32)
    overwriter = np.full(len(graph.r_key), -1, np.int32)
    seen = np.zeros(len(graph.r_key), np.int32)
    pointer = np.zeros(len(graph.group_session), np.int64)
    stamp = np.full(len(graph.group_session), -1, np.int32)
    for first, last in blocks(graph):
        f = first_places(graph, order, first, last)
        _demand(
            graph.start,
            graph.session,
            graph.read_at,
            graph.r_key,
            graph.r_entry,
            graph.w_node,
            graph.group_at,
            graph.group_session,
            graph.key_groups,
            first,
            f,
            pointer,
            stamp,
            slot_at,
            slots,
            overwriter,
            seen,
        )
    asked = np.flatnonzero(slots >= 0)
    entry = np.searchsorted(slot_at, asked, side="right") - 1
    stale = np.flatnonzero(overwriter >= 0)
    return Demands(slots[asked], graph.w_node[entry], stale, overwriter[stale], seen)


@compiled
def _demand(
    start: LongArray,
    session: IntArray,
    read_at: LongArray,
    r_key: IntArray,
    r_entry: LongArray,
    w_node: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
    first: int,
    f: NDArray[np.int32],
    pointer: LongArray,
    stamp: IntArray,
    slot_at: LongArray,
    slots: IntArray,
    overwriter: IntArray,
    seen: IntArray,
) -> None:
    for column in range(f.shape[1]):
        p = first + column
        for t in range(start[p], start[p + 1]):
            place = t - start[p]
            for r in range(read_at[t], read_at[t + 1]):
                key, entry = r_key[r], r_entry[r]
                for g in range(key_groups[key], key_groups[key + 1]):
                    if stamp[g] != p:
                        stamp[g] = p
                        pointer[g] = group_at[g]
                    at, end = pointer[g], group_at[g + 1]
                    if group_session[g] == p:
                        while at < end and w_node[at] < t:
                            at += 1
                    else:
                        while at < end and f[w_node[at], column] <= place:
                            at += 1
                    pointer[g] = at
                    seen[r] += at - group_at[g]
                    if at == group_at[g]:
                        continue
                    u = w_node[at - 1]
                    if entry < 0:
                        overwriter[r] = u
                        continue
                    w = w_node[entry]
                    if u != w and not (session[u] == session[w] and u < w):
                        slot = slot_at[entry] + g - key_groups[key]
                        if u > slots[slot]:
                            slots[slot] = u
