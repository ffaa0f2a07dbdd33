"""What reads of lists tell beyond their last elements.

A list is the appends of some transactions, one after the other: all that a transaction appended to the key, in its
order, in one piece; at the end, what the reader itself has appended so far. A list that is not of this form was
never there (`Torn`). Without the reader's own part, it is a read of the last element of another transaction, and
it tells in which order the transactions came and how many there were.

In a history, the elements of a list before the last are operations of their own (`Kind.OBSERVE`), right before the
read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.kv.history import History, IntArray, Kind, LongArray

NO_OP = -1


class Pieces(NamedTuple):
    """The lists of a history, operation by operation."""

    more: NDArray[np.bool_]
    """Whether the next operation is the next element of the same list."""
    begin: LongArray
    """The first element of the list."""
    end: LongArray
    """The last one, the read."""


class Torn(NamedTuple):
    """For each read of a list, an append that it should show; `NO_OP` where nothing is wrong."""

    missing: LongArray
    own: NDArray[np.bool_]
    """Whether it is of the reader itself."""
    outside: LongArray
    """The last append of another transaction that the list shows."""
    whole: NDArray[np.bool_]
    """Whether the writer of every element is known."""


def pieces(history: History) -> Pieces:
    n = len(history)
    more = np.zeros(n, np.bool_)
    more[:-1] = (history.kind[:-1] == Kind.OBSERVE) & (history.txn[1:] == history.txn[:-1])
    more[:-1] &= (history.key[1:] == history.key[:-1]) & (history.kind[1:] != Kind.WRITE)
    starts, ends = np.ones(n, np.bool_), ~more
    starts[1:] = ~more[:-1]
    place = np.arange(n)
    begin = np.maximum.accumulate(np.where(starts, place, 0))
    end = np.minimum.accumulate(np.where(ends, place, n)[::-1])[::-1]
    return Pieces(more, begin, end)


def torn_lists(history: History, writer: LongArray, own_last: LongArray) -> Torn:
    """Look at every list; `writer` and `own_last` are those of each operation."""
    n, txn = len(history), history.txn
    more, begin, end = pieces(history)
    appends = np.flatnonzero(history.kind == Kind.WRITE)
    group = txn[appends].astype(np.int64) * max(1, len(history.keys)) + history.key[appends]
    appends = appends[np.argsort(group, kind="stable")]
    group = np.sort(group)
    first = np.searchsorted(group, group, side="left")
    place, rank, last = (np.full(n + 1, NO_OP, np.int64) for _ in range(3))
    place[appends] = np.arange(len(appends))
    rank[appends] = np.arange(len(appends)) - first
    last[appends] = np.searchsorted(group, group, side="right") - 1 - first

    def beside(write: LongArray, step: int) -> LongArray:
        return appends[np.clip(place[write] + step, 0, len(appends) - 1)]

    element, known = history.kind != Kind.WRITE, writer >= 0
    mine = known & (txn[writer] == txn)
    own_before = np.where(own_last >= 0, rank[own_last] + 1, 0)
    missing = np.full(n, NO_OP, np.int64)
    own = np.zeros(n, np.bool_)

    def note(elements: LongArray, append: LongArray) -> None:
        missing[end[elements]] = append
        own[end[elements]] = txn[append] == txn[elements]

    if len(appends):
        heads = np.flatnonzero(element & known & (begin == np.arange(n)) & (rank[writer] > 0))
        note(heads, beside(writer[heads], -1))
        pairs = np.flatnonzero(more[:-1] & known[:-1] & known[1:])
        a, b = writer[pairs], writer[pairs + 1]
        same = txn[a] == txn[b]
        for wrong, append in (
            (~same & (rank[b] > 0), beside(b, -1)),
            (~same & (rank[a] < last[a]) & ~mine[pairs], beside(a, 1)),
            (~same & mine[pairs], a),
            (same & (rank[b] != rank[a] + 1), np.where(rank[a] < last[a], beside(a, 1), b)),
        ):
            note(pairs[wrong], append[wrong])
        tails = np.flatnonzero((history.kind == Kind.READ) & mine & (rank[writer] + 1 < own_before))
        note(tails, beside(writer[tails], 1))
    broken = element & ~known & (more | (begin < np.arange(n)))
    whole = np.ones(n, np.bool_)
    whole[end[broken]] = False
    missing[~whole] = NO_OP
    before = end - own_before
    outside = np.where(before >= begin, writer[np.maximum(before, 0)], NO_OP)
    return Torn(missing, own, np.where(own_before > 0, outside, writer), whole)


def shown_order(history: History, source: LongArray, node_of: LongArray) -> tuple[IntArray, IntArray, IntArray]:
    """Which transaction appended just before which, as pairs, and how many of others each list shows."""
    n, own = len(history), node_of[history.txn]
    more, begin, _ = pieces(history)
    pairs = np.flatnonzero(more)
    first, then = source[pairs], source[pairs + 1]
    real = (first >= 0) & (then >= 0) & (first != then)
    packed = np.unique(first[real] * len(node_of) + then[real])
    changes = (source[:n] >= 0) & (source[:n] != own)
    changes[pairs] &= first != then
    total = np.cumsum(changes)
    shown = total - total[begin] + changes[begin]
    return (
        (packed // max(1, len(node_of))).astype(np.int32),
        (packed % max(1, len(node_of))).astype(np.int32),
        shown.astype(np.int32),
    )
