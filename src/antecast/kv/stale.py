"""Reads that are stale by causality alone, and what else the weaker levels forbid.

It is looked at only where causal convergence is violated: it implies all levels here.

A read by t of key x from w is *stale* if some u wrote x as well, w is causally before u, and u is in the causal
past of t (WriteCORead and WriteCOInitRead of Bouajjani et al.). Which guarantee is broken depends on how u comes
to be in the past of t:

| u | broken |
|---|---|
| is of the same session | read-your-writes |
| was read in the session before, by t itself or by an earlier transaction | monotonic-reads |
| precedes in its session something that t reads | monotonic-writes |
| was read in a session before that session wrote something that t reads | writes-follow-reads |
| is read by t before x | read-committed |
| is read by t, or is of the same session | read-atomic |

CC allows each transaction an order of its past of its own. A transaction with several reads may be *torn*: each
read taken alone has an order, and all together have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled, part
from antecast.kv.causality import Graph
from antecast.kv.history import IntArray, Kind, LongArray
from antecast.kv.resolve import Resolved

COMMITTED, ATOMIC = 16, 32
"""What a stale read breaks beside session guarantees, as bits; CC is broken by all."""


@dataclass(frozen=True, eq=False)
class Stale:
    """Reads that are stale, what each of them breaks, and the newest write in question for each."""

    reads: LongArray
    breaks: NDArray[np.int8]
    newer: IntArray
    torn: IntArray
    """Transactions whose reads have no common order, though none of them is stale."""


@part
def seen_before(known: NDArray[np.int32], start: LongArray, session: IntArray, first: int, then: int) -> bool:
    """Whether a transaction is in the past of another, or is it."""
    s = session[first]
    return bool(known[then, s] > first - start[s])


@part
def last_seen(
    known: NDArray[np.int32],
    start: LongArray,
    w_node: IntArray,
    begin: int,
    end: int,
    s: int,
    reader: int,
) -> int:
    """The end of the prefix of a group (of session s) that a reader has in its past, itself excluded."""
    bound = start[s] + known[reader, s]
    left, right = begin, end
    while left < right:
        middle = (left + right) // 2
        if w_node[middle] < bound and w_node[middle] != reader:
            left = middle + 1
        else:
            right = middle
    return left


def stale_reads(graph: Graph, known: NDArray[np.int32], resolved: Resolved) -> Stale:
    """All stale reads and torn transactions; `known` are the vector clocks."""
    breaks, newer = _judge_reads(
        graph, known, resolved, resolved.r_node, resolved.r_key, graph.r_entry, resolved.r_op
    )
    reads = np.flatnonzero(breaks >= 0)
    torn = np.zeros(len(graph), np.bool_)
    _find_torn(
        graph.start,
        graph.session,
        graph.read_at,
        graph.r_key,
        graph.r_entry,
        graph.w_node,
        graph.group_at,
        graph.group_session,
        graph.key_groups,
        known,
        breaks,
        torn,
    )
    return Stale(reads, breaks[reads], newer[reads], np.flatnonzero(torn).astype(np.int32))


def broken_by_misreads(graph: Graph, known: NDArray[np.int32], resolved: Resolved) -> int:
    """The session guarantees, as bits, that reads break which are anomalies by themselves."""
    reads = resolved.older
    if not len(reads.node):
        return 0
    packed = graph.w_key.astype(np.int64) * len(graph) + graph.w_node
    entry = np.searchsorted(packed, reads.key.astype(np.int64) * len(graph) + reads.source)
    entry = np.where(reads.source >= 0, entry, -1)
    breaks, _ = _judge_reads(graph, known, resolved, reads.node, reads.key, entry, reads.op)
    return reads.breaks | int(np.bitwise_or.reduce(breaks[breaks >= 0], initial=0))


def _judge_reads(
    graph: Graph,
    known: NDArray[np.int32],
    resolved: Resolved,
    node: IntArray,
    key: IntArray,
    entry: LongArray,
    op: LongArray,
) -> tuple[NDArray[np.int8], IntArray]:
    """What each read breaks, -1 if it is not stale, and the newest write in question."""
    breaks, newer = np.full(len(node), -1, np.int8), np.full(len(node), -1, np.int32)
    wrong_at, wrong_from, wrong_op = _wrong_reads(resolved)
    _find_stale(
        node,
        key,
        entry,
        op,
        graph.start,
        graph.session,
        graph.succ_at,
        graph.succ,
        graph.pred_at,
        graph.pred,
        graph.read_at,
        graph.r_entry,
        graph.w_node,
        graph.group_at,
        graph.group_session,
        graph.key_groups,
        known,
        wrong_at,
        wrong_from,
        wrong_op,
        resolved.r_op,
        breaks,
        newer,
    )
    return breaks, newer


def _wrong_reads(resolved: Resolved) -> tuple[LongArray, IntArray, LongArray]:
    """Reads that are anomalies by themselves, by transaction: later ones must not miss what they have seen."""
    chosen = np.arange(len(resolved.d_node))
    if resolved.history.lists:  # what a list shows before its last element is no read of its own
        chosen = np.flatnonzero(resolved.history.kind[resolved.d_op] == Kind.READ)
    chosen = chosen[np.argsort(resolved.d_node[chosen], kind="stable")]
    at = np.searchsorted(resolved.d_node[chosen], np.arange(len(resolved) + 1))
    return at, resolved.d_from[chosen], resolved.d_op[chosen]


@compiled
def _find_stale(
    node: IntArray,
    keys: IntArray,
    entries: LongArray,
    op: LongArray,
    start: LongArray,
    session: IntArray,
    succ_at: LongArray,
    succ: IntArray,
    pred_at: LongArray,
    pred: IntArray,
    read_at: LongArray,
    r_entry: LongArray,
    w_node: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
    known: NDArray[np.int32],
    wrong_at: LongArray,
    wrong_from: IntArray,
    wrong_op: LongArray,
    r_op: LongArray,
    breaks: NDArray[np.int8],
    newer: IntArray,
) -> None:
    for r in range(len(node)):
        t, key, entry = node[r], keys[r], entries[r]
        p = session[t]
        for g in range(key_groups[key], key_groups[key + 1]):
            begin = group_at[g]
            at = last_seen(known, start, w_node, begin, group_at[g + 1], group_session[g], t)
            while at > begin:
                at -= 1
                u = w_node[at]
                if entry >= 0:
                    w = w_node[entry]
                    if u == w or not seen_before(known, start, session, w, u):
                        break
                found = 0
                s = session[u]
                if s == p:
                    found |= 1 | 32
                for e in range(succ_at[u], succ_at[u + 1]):
                    reader = succ[e]
                    if session[reader] == p and reader < t:
                        found |= 2
                    for d in range(pred_at[t], pred_at[t + 1]):
                        if session[pred[d]] == session[reader] and pred[d] >= reader:
                            found |= 8
                for d in range(pred_at[t], pred_at[t + 1]):
                    if session[pred[d]] == s and pred[d] > u:
                        found |= 4
                    if pred[d] == u:
                        found |= 32
                for other in range(read_at[t], read_at[t + 1]):
                    if r_op[other] < op[r] and r_entry[other] >= 0 and w_node[r_entry[other]] == u:
                        found |= 2 | 16
                for e in range(wrong_at[t], wrong_at[t + 1]):
                    if wrong_from[e] == u and wrong_op[e] < op[r]:
                        found |= 2
                # The write that is shown is one that breaks the weakest level.
                if breaks[r] < 0 or (found & 48) > (breaks[r] & 48):
                    newer[r] = u
                breaks[r] = found if breaks[r] < 0 else breaks[r] | found


@compiled
def _find_torn(
    start: LongArray,
    session: IntArray,
    read_at: LongArray,
    r_key: IntArray,
    r_entry: LongArray,
    w_node: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
    known: NDArray[np.int32],
    breaks: NDArray[np.int8],
    torn: NDArray[np.bool_],
) -> None:
    for t in range(len(session)):
        low, high = read_at[t], read_at[t + 1]
        k = high - low
        if k < 2:
            continue
        # Reads of one writer are one node: the first of them.
        node = np.empty(k, np.int64)
        stale = False
        for i in range(k):
            stale = stale or breaks[low + i] >= 0
            node[i] = i
            if r_entry[low + i] >= 0:
                for j in range(i):
                    if r_entry[low + j] >= 0 and w_node[r_entry[low + j]] == w_node[r_entry[low + i]]:
                        node[i] = j
                        break
        if stale:
            continue
        edge = np.zeros((k, k), np.bool_)
        for j in range(k):
            key, entry = r_key[low + j], r_entry[low + j]
            if entry < 0:
                continue
            for g in range(key_groups[key], key_groups[key + 1]):
                begin = group_at[g]
                at = last_seen(known, start, w_node, begin, group_at[g + 1], group_session[g], t)
                if at == begin:
                    continue
                u = w_node[at - 1]
                for i in range(k):
                    if r_entry[low + i] < 0 or node[i] != i or i == node[j]:
                        continue
                    if seen_before(known, start, session, w_node[r_entry[low + i]], u):
                        edge[i, node[j]] = True
        waits = np.zeros(k, np.int64)
        for i in range(k):
            for j in range(k):
                if edge[i, j]:
                    waits[j] += 1
        queue = np.empty(k, np.int64)
        done = 0
        for i in range(k):
            if waits[i] == 0:
                queue[done] = i
                done += 1
        at = 0
        while at < done:
            i = queue[at]
            at += 1
            for j in range(k):
                if edge[i, j]:
                    waits[j] -= 1
                    if waits[j] == 0:
                        queue[done] = j
                        done += 1
        torn[t] = done < k
