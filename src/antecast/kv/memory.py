"""Causal memory (CM): each session has an order of its past that explains all of its reads.

Theory of operation. Bouajjani et al. (CyclicHB, WriteHBInitRead): for a session p let HB begin as causality among
what p ever has in its past. A read of key x by p from w, with another writer u of x that is HB-before the read,
puts u before w, and so on until nothing changes. The history is CM exactly if no session has a cycle in its HB, or
a read of the initial state with a writer HB-before it. The last transaction of p has the largest HB, so one per
session is enough.

What p has HB-before its transaction at place i is {t : f(t) <= i}, as with causality (see `causality`), where f is
the least that satisfies f(u) <= f(w) for every edge u → w. A new edge can only lower f behind u. So one number per
transaction is the whole state, and lowering is done along the edges backwards, from where it begins.

A cycle in HB has the same f all along it. Where every new edge goes to a larger f there is none; otherwise
the transactions are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.kv.causality import Graph, first_places, make_graph, order_of
from antecast.kv.convergence import blocks
from antecast.kv.history import IntArray, LongArray
from antecast.kv.resolve import Resolved


@dataclass(frozen=True, eq=False)
class SessionOrder:
    """Why one session has no order that explains its reads."""

    session: int
    before: IntArray
    """The edges of its HB beyond causality."""
    after: IntArray
    reads: LongArray
    """The read that each edge comes from."""
    stale_initial: int
    """A read of the initial state with a writer HB-before it, or -1; the cycle is elsewhere then."""
    overwriter: int
    cyclic: bool


def keeps_lists(resolved: Resolved) -> bool:
    """Whether a history of lists is sure to be CM.

    The order that lists show is taken as causal for all, though each session may have its own, and no list may
    lack what its session has before it. Where this fails, the history may be CM all the same.
    """
    d_node = np.concatenate((resolved.d_node, resolved.l_after))
    d_from = np.concatenate((resolved.d_from, resolved.l_before))
    graph = make_graph(replace(resolved, d_node=d_node, d_from=d_from))
    order = order_of(graph)
    return len(order) == len(graph) and not broken_sessions(graph, order, most=1, shown=resolved.r_shown)


def broken_sessions(
    graph: Graph, order: IntArray, *, most: int | None = None, shown: IntArray | None = None
) -> list[SessionOrder]:
    """The sessions for which there is no such order, at most so many of them.

    `shown` is how many writers each read accounts for, where reads are of lists.
    """
    found: list[SessionOrder] = []
    heads = np.full(len(graph), -1, np.int64)
    for first, last in blocks(graph):
        columns = first_places(graph, order, first, last)
        for p in range(first, last):
            broken = judge_session(graph, p, np.ascontiguousarray(columns[:, p - first]), heads, shown)
            if broken is not None:
                found.append(broken)
                if most is not None and len(found) >= most:
                    return found
    return found


def judge_session(
    graph: Graph, p: int, f: IntArray, heads: LongArray, shown: IntArray | None
) -> SessionOrder | None:
    """Why session p has no such order, or None. `f` is lowered; `heads` is -1 all over, before and after."""
    low, high = int(graph.read_at[graph.start[p]]), int(graph.read_at[graph.start[p + 1]])
    if low == high:
        return None
    widths = np.diff(graph.key_groups)[graph.r_key[low:high]]
    slot_at = np.concatenate(([0], np.cumsum(widths))).astype(np.int64)
    slots = np.full(int(slot_at[-1]), -1, np.int32)
    stale, overwriter, level = _saturate(
        graph.start,
        graph.session,
        graph.pred_at,
        graph.pred,
        graph.read_at,
        graph.r_key,
        graph.r_entry,
        graph.w_node,
        graph.group_at,
        graph.group_session,
        graph.key_groups,
        p,
        f,
        slot_at,
        slots,
        heads,
    )
    if shown is not None and stale < 0:
        stale, overwriter = _lacking(
            graph.start, graph.read_at, graph.r_key, graph.w_node, graph.group_at, graph.key_groups, p, f, shown
        )
    if stale < 0 and not level:
        return None
    asked = np.flatnonzero(slots >= 0)
    reads = low + np.searchsorted(slot_at, asked, side="right") - 1
    before, after = slots[asked], graph.w_node[graph.r_entry[reads]]
    cyclic = bool(len(asked)) and len(order_of(graph, before, after)) < len(graph)
    if stale < 0 and not cyclic:
        return None
    return SessionOrder(p, before, after, reads, int(stale), int(overwriter), cyclic)


@compiled
def _saturate(
    start: LongArray,
    session: IntArray,
    pred_at: LongArray,
    pred: IntArray,
    read_at: LongArray,
    r_key: IntArray,
    r_entry: LongArray,
    w_node: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
    p: int,
    f: NDArray[np.int32],
    slot_at: LongArray,
    slots: IntArray,
    heads: LongArray,
) -> tuple[int, int, bool]:
    """Lowers f to its fixpoint. A stale read of the initial state, its overwriter, and whether edges lie level."""
    low, high = read_at[start[p]], read_at[start[p + 1]]
    # Reads of one writer as a linked list, so that the new edges into it are found when f is lowered there.
    after = np.empty(high - low, np.int64)
    for r in range(low, high):
        after[r - low] = -1
        if r_entry[r] >= 0:
            w = w_node[r_entry[r]]
            after[r - low] = heads[w]
            heads[w] = r
    stack = np.empty(1024, np.int32)
    stale, overwriter = -1, -1
    changed = True
    while changed and stale < 0:
        changed = False
        for t in range(start[p], start[p + 1]):
            place = t - start[p]
            for r in range(read_at[t], read_at[t + 1]):
                key = r_key[r]
                for g in range(key_groups[key], key_groups[key + 1]):
                    slot = slot_at[r - low] + g - key_groups[key]
                    begin, end = group_at[g], group_at[g + 1]
                    # The last writer of the group with f(u) <= place, but for t itself: f grows along the group.
                    left, right = begin, end
                    while left < right:
                        middle = (left + right) // 2
                        u = w_node[middle]
                        seen = u < t if group_session[g] == p else f[u] <= place
                        if seen:
                            left = middle + 1
                        else:
                            right = middle
                    if left == begin:
                        continue
                    u = w_node[left - 1]
                    if r_entry[r] < 0:
                        stale, overwriter = r, u
                        continue
                    w = w_node[r_entry[r]]
                    if u == w or (session[u] == session[w] and u < w):
                        continue
                    slots[slot] = u
                    if f[w] < f[u]:
                        changed = True
                        f[u] = f[w]
                        stack[0] = u
                        size = 1
                        while size > 0:
                            size -= 1
                            v = stack[size]
                            behind = pred_at[v + 1] - pred_at[v] + 1
                            h = heads[v]
                            while h >= 0:
                                behind += slot_at[h - low + 1] - slot_at[h - low]
                                h = after[h - low]
                            if size + behind > len(stack):
                                larger = np.empty(2 * (size + behind), np.int32)
                                larger[:size] = stack[:size]
                                stack = larger
                            if v > start[session[v]] and f[v - 1] > f[v]:
                                f[v - 1] = f[v]
                                stack[size] = v - 1
                                size += 1
                            for e in range(pred_at[v], pred_at[v + 1]):
                                if f[pred[e]] > f[v]:
                                    f[pred[e]] = f[v]
                                    stack[size] = pred[e]
                                    size += 1
                            h = heads[v]
                            while h >= 0:
                                for s in range(slot_at[h - low], slot_at[h - low + 1]):
                                    if slots[s] >= 0 and f[slots[s]] > f[v]:
                                        f[slots[s]] = f[v]
                                        stack[size] = slots[s]
                                        size += 1
                                h = after[h - low]
    level = False
    for r in range(low, high):
        if r_entry[r] >= 0:
            w = w_node[r_entry[r]]
            heads[w] = -1
            for s in range(slot_at[r - low], slot_at[r - low + 1]):
                if slots[s] >= 0 and f[slots[s]] >= f[w]:
                    level = True
    return stale, overwriter, level


@compiled
def _lacking(
    start: LongArray,
    read_at: LongArray,
    r_key: IntArray,
    w_node: IntArray,
    group_at: LongArray,
    key_groups: LongArray,
    p: int,
    f: NDArray[np.int32],
    shown: IntArray,
) -> tuple[int, int]:
    """A read of a list that shows fewer writers than its session has before it, and the last of these; or -1."""
    for t in range(start[p], start[p + 1]):
        for r in range(read_at[t], read_at[t + 1]):
            count, last = 0, -1
            for e in range(group_at[key_groups[r_key[r]]], group_at[key_groups[r_key[r] + 1]]):
                if w_node[e] != t and f[w_node[e]] <= t - start[p]:
                    count += 1
                    last = w_node[e]
            if count > shown[r]:
                return r, last
    return -1, -1
