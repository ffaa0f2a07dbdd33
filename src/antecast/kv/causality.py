"""The causal order of transactions, as positions rather than as a matrix of pairs.

Theory of operation. CO is the transitive closure of session order and of who read from whom. For a session p let
f(t) be the place in p of the first transaction that has t in its causal past (itself included); it is infinite
if there is none. The past of the transaction at place i of p is then {t : f(t) <= i}. One pass against a
topological order gives f: f(t) is the least of the f of what follows t directly. It is the pass of the auditor
of broadcasts, with sessions in place of nodes. It needs one number per transaction and session, and sessions are
independent, so memory is a matter of how many are done at a time.

Writes are kept by key and then by session (a *group*), in session order. f grows along a group, so that what p has
seen of it is a prefix, and its last member speaks for all: the others precede it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.kv.history import IntArray, LongArray
from antecast.kv.resolve import Resolved

NEVER = np.iinfo(np.int32).max
"""f of a transaction that a session never has in its past."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Direct causality between transactions, and the writes by key and session."""

    start: LongArray
    session: IntArray
    succ_at: LongArray
    """Readers of transaction t: `succ[succ_at[t]:succ_at[t + 1]]`."""
    succ: IntArray
    pred_at: LongArray
    pred: IntArray
    read_at: LongArray
    """Reads of transaction t: those from `read_at[t]` to `read_at[t + 1]`."""
    r_key: IntArray
    r_entry: LongArray
    """The write that a read returned, as an index into the writes; -1 for the initial state."""
    w_node: IntArray
    w_key: IntArray
    group_at: LongArray
    """Writes of group g: `group_at[g]:group_at[g + 1]`."""
    group_session: IntArray
    key_groups: LongArray
    """Groups of key k: `key_groups[k]:key_groups[k + 1]`."""

    def __len__(self) -> int:
        return len(self.session)

    @property
    def sessions(self) -> int:
        return len(self.start) - 1

    def entry(self, key: int, node: int) -> int:
        """The index of a transaction's last write to a key, -1 if it has none."""
        low, high = np.searchsorted(self.w_key, [key, key + 1])
        at = int(low + np.searchsorted(self.w_node[low:high], node))
        return at if at < high and self.w_node[at] == node else -1


def make_graph(resolved: Resolved) -> Graph:
    n, n_keys = len(resolved), len(resolved.history.keys)
    taken = resolved.r_from >= 0
    source = np.concatenate((resolved.r_from[taken], resolved.d_from))
    target = np.concatenate((resolved.r_node[taken], resolved.d_node))
    succ_at, succ = _rows(source, target, n)
    pred_at, pred = _rows(target, source, n)
    w_key, w_node = resolved.w_key, resolved.w_node
    packed = w_key.astype(np.int64) * max(1, n) + w_node
    wanted = resolved.r_key.astype(np.int64) * max(1, n) + resolved.r_from
    entry = np.where(taken, np.searchsorted(packed, wanted), -1)
    w_session = resolved.session[w_node]
    first = np.ones(len(w_key), np.bool_)
    first[1:] = (w_key[1:] != w_key[:-1]) | (w_session[1:] != w_session[:-1])
    begins = np.flatnonzero(first)
    return Graph(
        resolved.start,
        resolved.session,
        succ_at,
        succ,
        pred_at,
        pred,
        np.searchsorted(resolved.r_node, np.arange(n + 1)),
        resolved.r_key,
        entry,
        w_node,
        w_key,
        np.append(begins, len(w_key)),
        w_session[begins].astype(np.int32),
        np.searchsorted(w_key[begins], np.arange(n_keys + 1)),
    )


def _rows(source: IntArray, target: IntArray, n: int) -> tuple[LongArray, IntArray]:
    """Edges as rows of a sparse matrix."""
    at = np.concatenate(([0], np.cumsum(np.bincount(source, minlength=n)))).astype(np.int64)
    out = np.empty(len(source), np.int32)
    _fill(source.astype(np.int32), target.astype(np.int32), at.copy(), out)
    return at, out


@compiled
def _fill(source: IntArray, target: IntArray, at: LongArray, out: IntArray) -> None:
    for i in range(len(source)):
        out[at[source[i]]] = target[i]
        at[source[i]] += 1


def order_of(graph: Graph, extra_from: IntArray | None = None, extra_to: IntArray | None = None) -> IntArray:
    """A topological order of causality and further edges; shorter than the graph if there are cycles."""
    n = len(graph)
    none = np.zeros(0, np.int32)
    extra_at, extra = _rows(none if extra_from is None else extra_from, none if extra_to is None else extra_to, n)
    return _sort(graph.start, graph.session, graph.succ_at, graph.succ, extra_at, extra)


@compiled
def _sort(
    start: LongArray, session: IntArray, succ_at: LongArray, succ: IntArray, extra_at: LongArray, extra: IntArray
) -> IntArray:
    n = len(session)
    waits = np.zeros(n, np.int32)
    for t in range(n):
        if t > start[session[t]]:
            waits[t] += 1
    for e in range(len(succ)):
        waits[succ[e]] += 1
    for e in range(len(extra)):
        waits[extra[e]] += 1
    order = np.empty(n, np.int32)
    done = 0
    for t in range(n):
        if waits[t] == 0:
            order[done] = t
            done += 1
    at = 0
    while at < done:
        t = order[at]
        at += 1
        if t + 1 < start[session[t] + 1]:
            waits[t + 1] -= 1
            if waits[t + 1] == 0:
                order[done] = t + 1
                done += 1
        for e in range(succ_at[t], succ_at[t + 1]):
            waits[succ[e]] -= 1
            if waits[succ[e]] == 0:
                order[done] = succ[e]
                done += 1
        for e in range(extra_at[t], extra_at[t + 1]):
            waits[extra[e]] -= 1
            if waits[extra[e]] == 0:
                order[done] = extra[e]
                done += 1
    return order[:done]


def first_places(graph: Graph, order: IntArray, first: int, last: int) -> NDArray[np.int32]:
    """f for the sessions from `first` up to `last`, a column each."""
    f = np.full((len(graph), last - first), NEVER, np.int32)
    _pass_back(graph.start, graph.session, graph.succ_at, graph.succ, order, first, f)
    return f


@compiled
def _pass_back(
    start: LongArray,
    session: IntArray,
    succ_at: LongArray,
    succ: IntArray,
    order: IntArray,
    first: int,
    f: NDArray[np.int32],
) -> None:
    width = f.shape[1]
    for i in range(len(order) - 1, -1, -1):
        t = order[i]
        s = session[t]
        if t + 1 < start[s + 1]:
            for c in range(width):
                f[t, c] = f[t + 1, c]
        for e in range(succ_at[t], succ_at[t + 1]):
            u = succ[e]
            for c in range(width):
                if f[u, c] < f[t, c]:
                    f[t, c] = f[u, c]
        if first <= s < first + width:
            f[t, s - first] = t - start[s]


def clocks(graph: Graph, order: IntArray) -> NDArray[np.int32]:
    """Vector clocks: how many of each session are in the past of a transaction, itself included."""
    known = np.zeros((len(graph), graph.sessions), np.int32)
    _pass_on(graph.start, graph.session, graph.pred_at, graph.pred, order, known)
    return known


@compiled
def _pass_on(
    start: LongArray,
    session: IntArray,
    pred_at: LongArray,
    pred: IntArray,
    order: IntArray,
    known: NDArray[np.int32],
) -> None:
    width = known.shape[1]
    for i in range(len(order)):
        t = order[i]
        s = session[t]
        if t > start[s]:
            for c in range(width):
                known[t, c] = known[t - 1, c]
        for e in range(pred_at[t], pred_at[t + 1]):
            u = pred[e]
            for c in range(width):
                if known[u, c] > known[t, c]:
                    known[t, c] = known[u, c]
        known[t, s] = t - start[s] + 1
