"""Shards joined to one graph of transactions, in files: what the process that joins them holds does not grow
with operations.

Every array of the graph has its file, mapped into memory while it is filled, a shard at a time, and then let go.
Beside these pages, which the system takes back as it needs them, there are a few numbers per transaction and key.
Reads go to the places of their transaction, found by counting, and are put in program order there; who read from
whom becomes rows of a sparse matrix the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from antecast.core.compiled import compiled
from antecast.kv.causality import Graph
from antecast.kv.history import History, IntArray, LongArray
from antecast.kv.resolve import OlderReads, Resolved
from antecast.kv.shards import Shard, Stored

_FEW = 16
"""Reads of a transaction that are sorted by insertion."""


def assemble(shards: Sequence[Shard], start: LongArray, store: Stored) -> tuple[Resolved, Graph]:
    """All shards as one: what is resolved, with places in transactions instead of operations, and the graph."""
    n = int(start[-1])
    firsts = np.concatenate(([0], np.cumsum([each.keys for each in shards]))).astype(np.int64)
    session = store.new("session", np.int32, n)
    session[:] = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    np.save(store.file("start"), start)
    _join_reads(shards, firsts, n, store)
    _join_writes(shards, firsts, store)
    for name, kind in (("d_node", np.int32), ("d_from", np.int32), ("d_pos", np.int64)):
        _join(shards, name, store, kind=kind)
    _join_edges(n, store)
    graph = store.graph()
    none, long_none = np.zeros(0, np.int32), np.zeros(0, np.int64)
    history = History(
        none,
        np.zeros(0, np.int8),
        none,
        long_none,
        long_none,
        none,
        graph.session,
        np.zeros(n, np.int8),
        range(int(firsts[-1])),
        None,
        range(len(start) - 1),
    )
    resolved = Resolved(
        history,
        np.arange(n),
        start,
        graph.session,
        store.mapped("r_node"),
        graph.r_key,
        store.mapped("r_from"),
        store.mapped("r_pos"),
        store.mapped("d_node"),
        store.mapped("d_from"),
        store.mapped("d_pos"),
        none,
        none,
        none,
        graph.w_key,
        graph.w_node,
        store.mapped("w_op"),
        np.zeros(0, np.int8),
        long_none,
        long_none,
        long_none,
        long_none,
        _older_reads(shards, firsts),
        {},
    )
    return resolved, graph


def _older_reads(shards: Sequence[Shard], firsts: LongArray) -> OlderReads:
    node, source, op = (
        np.concatenate([each.column(name) for each in shards]) for name in ("o_node", "o_from", "o_pos")
    )
    keys = [each.column("o_key") + np.int32(first) for each, first in zip(shards, firsts.tolist(), strict=False)]
    breaks = reduce(or_, (each.older for each in shards), 0)
    return OlderReads(node, np.concatenate(keys), source, op, breaks)


def _join(
    shards: Sequence[Shard],
    name: str,
    store: Stored,
    firsts: LongArray | None = None,
    kind: type[np.generic] = np.int32,
) -> IntArray:
    """An array of all shards, one after the other; numbers of keys move by the first key of the shard."""
    whole: IntArray = store.new(name, kind, sum(len(each.column(name)) for each in shards))
    at = 0
    for number, each in enumerate(shards):
        part = each.column(name)
        whole[at : at + len(part)] = part if firsts is None else part + np.int32(firsts[number])
        at += len(part)
    return whole


def _join_reads(shards: Sequence[Shard], firsts: LongArray, n: int, store: Stored) -> None:
    """The reads by transaction, in program order."""
    read_at = np.zeros(n + 1, np.int64)
    for each in shards:
        _count(each.column("r_node"), read_at)
    np.cumsum(read_at, out=read_at)
    np.save(store.file("read_at"), read_at)
    count = int(read_at[-1])
    pos = store.new("r_pos", np.int64, count)
    node, key, source = (store.new(name, np.int32, count) for name in ("r_node", "r_key", "r_from"))
    cursor = read_at[:-1].copy()
    for each, first in zip(shards, firsts.tolist(), strict=False):
        reads = each.column("r_node"), each.column("r_pos"), each.column("r_key"), each.column("r_from")
        _place_reads(*reads, first, cursor, node, pos, key, source)
    _sort_reads(read_at, pos, key, source)


def _join_writes(shards: Sequence[Shard], firsts: LongArray, store: Stored) -> None:
    """The writes by key and transaction, which shards have in order; their groups, and the write of each read."""
    w_key, w_node = _join(shards, "w_key", store, firsts), _join(shards, "w_node", store)
    session, keys = store.mapped("session"), int(firsts[-1])
    count = _groups(w_key, w_node, session, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64))
    group_at, group_session = (
        store.new("group_at", np.int64, count + 1),
        store.new("group_session", np.int32, count),
    )
    key_groups = store.new("key_groups", np.int64, keys + 1)
    _groups(w_key, w_node, session, group_at, group_session, key_groups)
    key_at = np.zeros(keys + 1, np.int64)
    _count(w_key, key_at)
    np.cumsum(key_at, out=key_at)
    r_key, r_from = store.mapped("r_key"), store.mapped("r_from")
    _entries(r_key, r_from, key_at, w_node, store.new("r_entry", np.int64, len(r_key)))
    store.new("w_op", np.int64, len(w_key))[:] = np.arange(len(w_key))


def _join_edges(n: int, store: Stored) -> None:
    """Who read from whom, both ways."""
    r_node, r_from, d_node, d_from = (store.mapped(name) for name in ("r_node", "r_from", "d_node", "d_from"))
    for name, reads, further in (
        ("succ", (r_from, r_node), (d_from, d_node)),
        ("pred", (r_node, r_from), (d_node, d_from)),
    ):
        at = np.zeros(n + 1, np.int64)
        _count_edges(reads[0], r_from, at)
        _count(further[0], at)
        np.cumsum(at, out=at)
        np.save(store.file(f"{name}_at"), at)
        out = store.new(name, np.int32, int(at[-1]))
        _fill_edges(*reads, r_from, at, out)
        _fill_edges(*further, d_from, at, out)


@compiled
def _count(values: IntArray, at: LongArray) -> None:
    """Counts, each behind its place, so that their sums are where rows begin."""
    for i in range(len(values)):
        at[values[i] + 1] += 1


@compiled
def _count_edges(source: IntArray, writer: IntArray, at: LongArray) -> None:
    for i in range(len(source)):
        if writer[i] >= 0:
            at[source[i] + 1] += 1


@compiled
def _fill_edges(source: IntArray, target: IntArray, writer: IntArray, at: LongArray, out: IntArray) -> None:
    for i in range(len(source)):
        if writer[i] >= 0:
            out[at[source[i]]] = target[i]
            at[source[i]] += 1


@compiled
def _place_reads(
    r_node: IntArray,
    r_pos: LongArray,
    r_key: IntArray,
    r_from: IntArray,
    first: int,
    cursor: LongArray,
    node: IntArray,
    pos: LongArray,
    key: IntArray,
    source: IntArray,
) -> None:
    for i in range(len(r_node)):
        at = cursor[r_node[i]]
        cursor[r_node[i]] = at + 1
        node[at] = r_node[i]
        pos[at] = r_pos[i]
        key[at] = r_key[i] + first
        source[at] = r_from[i]


@compiled
def _sort_reads(read_at: LongArray, pos: LongArray, key: IntArray, source: IntArray) -> None:
    """Put the reads of each transaction in order; those at one position stay as they are."""
    for t in range(len(read_at) - 1):
        low, high = read_at[t], read_at[t + 1]
        if high - low > _FEW:
            order = np.argsort(pos[low:high], kind="mergesort")
            pos[low:high] = pos[low:high][order]
            key[low:high] = key[low:high][order]
            source[low:high] = source[low:high][order]
            continue
        for i in range(low + 1, high):
            some_pos, some_key, some_source = pos[i], key[i], source[i]
            k = i
            while k > low and pos[k - 1] > some_pos:
                pos[k], key[k], source[k] = pos[k - 1], key[k - 1], source[k - 1]
                k -= 1
            pos[k], key[k], source[k] = some_pos, some_key, some_source


@compiled
def _groups(
    w_key: IntArray,
    w_node: IntArray,
    session: IntArray,
    group_at: LongArray,
    group_session: IntArray,
    key_groups: LongArray,
) -> int:
    """How many groups of writes there are; if there is room, where each begins, and those of each key."""
    count = 0
    key = 0
    for i in range(len(w_key)):
        if i == 0 or w_key[i] != w_key[i - 1] or session[w_node[i]] != session[w_node[i - 1]]:
            while key < len(key_groups) and key <= w_key[i]:
                key_groups[key] = count
                key += 1
            if count < len(group_session):
                group_at[count] = i
                group_session[count] = session[w_node[i]]
            count += 1
    while key < len(key_groups):
        key_groups[key] = count
        key += 1
    if len(group_at):
        group_at[count] = len(w_key)
    return count


@compiled
def _entries(r_key: IntArray, r_from: IntArray, key_at: LongArray, w_node: IntArray, entry: LongArray) -> None:
    """The write that each read returned, -1 for the initial state."""
    for i in range(len(r_key)):
        entry[i] = -1
        if r_from[i] >= 0:
            low, high = key_at[r_key[i]], key_at[r_key[i] + 1]
            while low < high:
                middle = (low + high) // 2
                if w_node[middle] < r_from[i]:
                    low = middle + 1
                else:
                    high = middle
            entry[i] = low
