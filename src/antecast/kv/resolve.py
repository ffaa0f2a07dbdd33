"""Who wrote what each read returned: the first step of every check.

Theory of operation. A value that one write alone put under a key names its writer, so that a read of it tells
where it comes from (histories of this kind are called differentiated, or of unique values). What comes out is a
history of transactions in the sense of Biswas and Enea: each transaction has the reads that it took from others
and the last write of each key. On the way, reads that no order of transactions could explain are found: they are
anomalies by themselves.

- A read after a write of its own transaction must return the last of these (*not my own write*, *not my last
  write*).
- A list must show all that a transaction appended to it, or nothing (`lists`).
- A read must not return what its transaction writes later (*future read*), what another one overwrote itself
  (*intermediate read*), what an aborted one wrote (*aborted read*), or what nobody wrote (*thin-air read*).

Transactions that are indeterminate count as committed if a committed one has read from them, and as aborted if
not: the second adds no constraint, so it never makes a difference to what can be explained. Their reads count for
nothing. A value written by several transactions, indeterminate ones included, leaves a read with several
candidates, see `Resolved.open`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.kv.history import INITIAL_CODE, UNKNOWN_CODE, History, IntArray, Kind, LongArray, Status
from antecast.kv.lists import NO_OP, shown_order, torn_lists

FROM_INITIAL = -1
"""The source of a read that found the initial state."""


YOUR_WRITES, READS, WRITES, FOLLOW = 1, 2, 4, 8
"""The session guarantees as bits."""

_NONE = np.zeros(0, np.int32)


class Misread(IntEnum):
    """Anomalies of one read by itself, in the order of their class."""

    THIN_AIR = 0
    ABORTED = 1
    FUTURE = 2
    NOT_MY_OWN = 3
    NOT_MY_LAST = 4
    INTERMEDIATE = 5


class OlderReads(NamedTuple):
    """Reads that are anomalies by themselves and may also be older than what their session has seen."""

    node: IntArray
    key: IntArray
    source: IntArray
    """The writer, or `FROM_INITIAL`."""
    op: LongArray
    breaks: int
    """Session guarantees, as bits, that they break by what their writer itself wrote later."""


@dataclass(frozen=True, eq=False)
class Resolved:
    """Committed transactions as nodes, numbered by session and place in it, and what they took from each other."""

    history: History
    node_txn: LongArray
    start: LongArray
    """The nodes of session s are `start[s]:start[s + 1]`."""
    session: IntArray
    """The session of each node."""
    r_node: IntArray
    """The reader of each read that came from another transaction, ascending, in program order within it."""
    r_key: IntArray
    r_from: IntArray
    """The writer, or `FROM_INITIAL`."""
    r_op: LongArray
    d_node: IntArray
    """Further dependencies: `d_node` has seen something of `d_from` that is not judged as a read."""
    d_from: IntArray
    d_op: LongArray
    l_before: IntArray
    """The order of transactions that lists show: `l_before` appended just before `l_after`."""
    l_after: IntArray
    r_shown: IntArray
    """How many transactions the list of each read shows; empty if the history has no lists."""
    w_key: IntArray
    """The last write of each transaction to a key, by key and node."""
    w_node: IntArray
    w_op: LongArray
    misread: NDArray[np.int8]
    """Reads that are anomalies by themselves, and the write in question or `NO_OP`."""
    m_op: LongArray
    m_write: LongArray
    unknown: LongArray
    """Reads without a known result."""
    writer: LongArray
    """The write that each operation returned, `NO_OP` if there is none."""
    older: OlderReads
    open: Mapping[int, tuple[int, ...]]
    """Reads whose value has several writers: the candidates, as operations, `NO_OP` for the initial state."""

    def __len__(self) -> int:
        return len(self.node_txn)

    @property
    def sessions(self) -> int:
        return len(self.start) - 1


def resolve(history: History, choices: Mapping[int, int] | None = None) -> Resolved:
    """Find the writer of every read; `choices` settles reads that have several candidates."""
    kind, value, txn = history.kind, history.value, history.txn
    n_values = int(value.max(initial=0)) + 1
    pair = history.key.astype(np.int64) * n_values + value

    status = history.status[txn]
    counted = (status == Status.COMMITTED) | ((status == Status.INDETERMINATE) & (kind == Kind.WRITE))
    ops = np.flatnonzero(counted)
    own_last, final = _within_transactions(history, ops)

    writes = ops[kind[ops] == Kind.WRITE]
    writes = writes[np.argsort(pair[writes], kind="stable")]
    reads = ops[kind[ops] != Kind.WRITE]
    unknown = reads[value[reads] == UNKNOWN_CODE]
    reads = reads[value[reads] != UNKNOWN_CODE]
    low = np.searchsorted(pair[writes], pair[reads], "left")
    high = np.searchsorted(pair[writes], pair[reads], "right")
    starts_so = value[reads] == INITIAL_CODE
    high[starts_so] = low[starts_so]
    writer = np.full(len(reads), NO_OP, np.int64)
    some = high > low
    writer[some] = writes[low[some]]
    initial = starts_so.copy()
    if history.initial is not None:
        initial |= value[reads] == history.initial

    several = (high - low) + (initial & some) > 1
    open_: dict[int, tuple[int, ...]] = {}
    dropped = np.zeros(len(reads), np.bool_)
    for index in np.flatnonzero(several):
        op = int(reads[index])
        own = int(own_last[op])
        if own >= 0 and value[own] == value[op]:
            writer[index] = own
            continue
        candidates = _candidates(history, op, writes[low[index] : high[index]], bool(initial[index]), final)
        if len(candidates) > 1 and choices is not None and op in choices:
            candidates = (choices[op],)
        if len(candidates) > 1:
            open_[op] = candidates
            dropped[index] = True
        writer[index] = candidates[0]
    keep = ~dropped
    reads, writer, initial = reads[keep], writer[keep], initial[keep]
    initial &= writer == NO_OP
    alive = history.status == Status.COMMITTED
    alive[txn[writer[writer >= 0]]] = True
    writes = writes[alive[txn[writes]]]

    misread, m_write = _misreads(history, reads, writer, initial, own_last, final, alive, n_values)
    node_of, node_txn, start = _nodes(history, alive)

    judged = (kind[reads] == Kind.READ) & (own_last[reads] < 0)
    source = np.where(writer >= 0, node_of[txn[writer]], FROM_INITIAL)
    taken = source
    if history.lists:
        writer_of = np.full(len(history), NO_OP, np.int64)
        writer_of[reads] = writer
        torn = torn_lists(history, writer_of, own_last)
        lacks = (kind[reads] == Kind.READ) & (torn.missing[reads] >= 0) & (misread < 0)
        misread[lacks] = np.where(torn.own[reads[lacks]], Misread.NOT_MY_OWN, Misread.INTERMEDIATE)
        m_write[lacks] = torn.missing[reads[lacks]]
        outside = torn.outside[reads]
        taken = np.where(outside >= 0, node_of[txn[outside]], FROM_INITIAL)
        judged = (kind[reads] == Kind.READ) & torn.whole[reads]
    judged &= misread < 0
    r_reads = np.flatnonzero(judged)
    r_reads = r_reads[np.argsort(node_of[txn[reads[r_reads]]], kind="stable")]
    r_node, r_key, r_from = node_of[txn[reads[r_reads]]], history.key[reads[r_reads]], taken[r_reads]
    seen = ~judged & (writer >= 0) & (txn[writer] != txn[reads])
    source_of = np.full(len(history) + 1, FROM_INITIAL, np.int64)
    source_of[reads] = source
    l_before, l_after, shown = (_NONE, _NONE, _NONE)
    if history.lists:
        l_before, l_after, shown = shown_order(history, source_of, node_of)
    final_ops = writes[final[writes]]
    w_node = node_of[txn[final_ops]]
    w_order = np.lexsort((w_node, history.key[final_ops]))
    wrong = misread >= 0
    older = np.isin(misread, (Misread.INTERMEDIATE, Misread.NOT_MY_OWN)) & ((writer >= 0) | initial)
    older &= not history.lists
    writer_of = np.full(len(history), NO_OP, np.int64)
    writer_of[reads] = np.where(misread == Misread.ABORTED, m_write, writer)
    return Resolved(
        history,
        node_txn,
        start,
        history.session[node_txn].astype(np.int32),
        r_node.astype(np.int32),
        r_key,
        r_from.astype(np.int32),
        reads[r_reads],
        node_of[txn[reads[seen]]].astype(np.int32),
        source[seen].astype(np.int32),
        reads[seen],
        l_before,
        l_after,
        shown[reads[r_reads]] if history.lists else _NONE,
        history.key[final_ops][w_order],
        w_node[w_order].astype(np.int32),
        final_ops[w_order],
        misread[wrong],
        reads[wrong],
        m_write[wrong],
        unknown,
        writer_of,
        OlderReads(
            node_of[txn[reads[older]]].astype(np.int32),
            history.key[reads[older]],
            source[older].astype(np.int32),
            reads[older],
            _overwritten(history, reads, writer, older, final),
        ),
        open_,
    )


def _overwritten(
    history: History, reads: LongArray, writer: LongArray, older: NDArray[np.bool_], final: NDArray[np.bool_]
) -> int:
    """What reads break that return what their writer overwrote itself: its session has written the later value, or
    their session has read it."""
    older = older & (writer >= 0) & ~final[writer]
    if not older.any():
        return 0
    txn, session = history.txn, history.session
    breaks = YOUR_WRITES if (session[txn[writer]] == session[txn[reads]])[older].any() else 0
    near = (writer >= 0) & (txn[writer] != txn[reads])
    reads, writer = reads[near], writer[near]
    groups = (history.key[reads], txn[writer], session[txn[reads]])
    order = np.lexsort((reads, *groups))
    back = writer[order][1:] < writer[order][:-1]
    for group in groups:
        back &= group[order][1:] == group[order][:-1]
    return breaks | (READS if back.any() else 0)


def _nodes(history: History, alive: NDArray[np.bool_]) -> tuple[LongArray, LongArray, LongArray]:
    """Numbers of the transactions that count, by session and place; -1 for the others."""
    txns = np.flatnonzero(alive)
    txns = txns[np.argsort(history.session[txns], kind="stable")]
    node_of = np.full(len(alive), -1, np.int64)
    node_of[txns] = np.arange(len(txns))
    counts = np.bincount(history.session[txns], minlength=len(history.sessions))
    return node_of, txns, np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _within_transactions(history: History, ops: LongArray) -> tuple[LongArray, NDArray[np.bool_]]:
    """For each operation the last write before it to its key in its transaction, and which writes are the last."""
    own_last = np.full(len(history), NO_OP, np.int64)
    final = np.zeros(len(history), np.bool_)
    group = history.txn[ops].astype(np.int64) * max(1, len(history.keys)) + history.key[ops]
    order = np.argsort(group, kind="stable")
    _walk_groups(ops[order], group[order], history.kind, own_last, final)
    return own_last, final


@compiled
def _walk_groups(
    ops: LongArray, group: LongArray, kind: NDArray[np.int8], own_last: LongArray, final: NDArray[np.bool_]
) -> None:
    last = -1
    for i in range(len(ops)):
        if i == 0 or group[i] != group[i - 1]:
            if last >= 0:
                final[last] = True
            last = -1
        own_last[ops[i]] = last
        if kind[ops[i]] == 1:
            last = ops[i]
    if last >= 0:
        final[last] = True


def _candidates(
    history: History, op: int, writes: LongArray, initial: bool, final: NDArray[np.bool_]
) -> tuple[int, ...]:
    """Where a value that was written more than once may come from: final writes of others before anything else."""
    others = [int(each) for each in writes if history.txn[each] != history.txn[op]]
    lasting = [each for each in others if final[each]]
    found = lasting if lasting or initial else others
    by_txn = {int(history.txn[each]): each for each in found}
    candidates = [NO_OP] * initial + list(by_txn.values())
    return tuple(candidates) or (int(writes[-1]),)


def _misreads(
    history: History,
    reads: LongArray,
    writer: LongArray,
    initial: NDArray[np.bool_],
    own_last: LongArray,
    final: NDArray[np.bool_],
    alive: NDArray[np.bool_],
    n_values: int,
) -> tuple[NDArray[np.int8], LongArray]:
    """The anomaly of each read, -1 if it has none, and the write in question."""
    txn, value = history.txn, history.value
    misread = np.full(len(reads), -1, np.int8)
    question = writer.copy()
    found, judged = writer >= 0, history.kind[reads] == Kind.READ
    own = found & (txn[writer] == txn[reads])
    after_own = (own_last[reads] >= 0) & judged
    right = after_own & (value[own_last[reads]] == value[reads])
    misread[found & ~own & ~final[writer] & ~after_own & judged] = Misread.INTERMEDIATE
    misread[after_own & ~right & own] = Misread.NOT_MY_LAST
    misread[after_own & ~right & ~own & (found | initial)] = Misread.NOT_MY_OWN
    misread[own & (writer > reads)] = Misread.FUTURE
    misread[right] = -1
    lost = np.flatnonzero(~found & ~initial)
    if len(lost):
        dead = np.flatnonzero(~alive[txn] & (history.kind == Kind.WRITE))
        pair = history.key.astype(np.int64) * n_values + value
        dead = dead[np.argsort(pair[dead], kind="stable")]
        at = np.searchsorted(pair[dead], pair[reads[lost]])
        hit = at < len(dead)
        hit[hit] = pair[dead[at[hit]]] == pair[reads[lost[hit]]]
        misread[lost] = np.where(hit, Misread.ABORTED, Misread.THIN_AIR)
        question[lost[hit]] = dead[at[hit]]
    mine = after_own & ~right & (misread == Misread.NOT_MY_OWN)
    question[mine] = np.where(found[mine], writer[mine], own_last[reads[mine]])
    return misread, question
