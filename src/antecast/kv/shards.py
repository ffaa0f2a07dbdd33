"""A history in shards, for histories that do not fit into one process.

Who wrote what a read returned is a matter of one key, so keys are resolved apart from each other: a shard has
all operations on some keys (`resolve_shard`). What is left of it is numbers, some 20 bytes per operation: who
read from whom, and who wrote what. These make one graph of transactions (`antecast.kv.assembly`). Sessions are
then judged apart from each other, from the graph and the positions f of all sessions (see `causality`), both in
files that all processes map into memory (`Stored`): what a process holds by itself does not grow with the number
of sessions or keys.

With all of f at hand, demands that causality fulfils already are left out at once; few remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.kv.causality import Graph, first_places
from antecast.kv.history import INITIAL_CODE, UNKNOWN_CODE, History, IntArray, LongArray, Status
from antecast.kv.memory import SessionOrder, judge_session
from antecast.kv.resolve import Misread, resolve
from antecast.kv.tables import codes

EXAMPLES = 50
"""Operations that are anomalies by themselves, of each kind and shard, that are remembered."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Some keys, resolved: transactions have their numbers in the whole history, keys those of the shard."""

    keys: int
    operations: int
    arrays: Mapping[str, NDArray[Any] | str]
    """The arrays of `Resolved` by name, and `r_pos` and `d_pos`, the places of reads in their transactions: the
    array, or the file that holds it."""
    misreads: LongArray
    """How many reads have each anomaly of `Misread`."""
    examples: tuple[tuple[int, ...], ...]
    """Transactions that it takes to see the first of them."""
    older: int
    """`OlderReads.breaks`."""
    unknown: int
    open: int

    def stored(self, folder: str) -> Shard:
        """The same with its arrays in files of a folder."""
        files = {name: str(Path(folder) / f"{name}-{uuid4().hex}.npy") for name in self.arrays}
        for name, file in files.items():
            np.save(file, self.column(name))
        return replace(self, arrays=files)

    def column(self, name: str) -> NDArray[Any]:
        """An array; that of a file is mapped into memory."""
        held = self.arrays[name]
        found: NDArray[Any] = np.load(held, mmap_mode="c").view(np.ndarray) if isinstance(held, str) else held
        return found


def resolve_shard(rows: pa.Table, start: LongArray, initial: object = None) -> Shard:
    """Resolve all operations on some keys: rows of node, pos, kind, key, value, initial and status.

    A read from an indeterminate transaction is open: what else that one wrote may be in other shards.
    """
    node, pos = rows["node"].to_numpy(), rows["pos"].to_numpy()
    order = np.lexsort((pos, node))
    node, pos = node[order], pos[order]
    nodes, txn = np.unique(node, return_inverse=True)
    keys, key = codes(rows["key"])
    values, value = codes(rows["value"])
    status = np.zeros(len(nodes), np.int8)
    status[txn] = rows["status"].to_numpy()[order]
    value = np.where(value < 0, UNKNOWN_CODE, value)
    value = np.where(rows["initial"].to_numpy(), INITIAL_CODE, value)[order]
    given = (
        next((code for code, each in enumerate(values) if each == initial), None) if initial is not None else None
    )
    history = History(
        txn.astype(np.int32),
        rows["kind"].to_numpy()[order].astype(np.int8),
        key[order].astype(np.int32),
        value,
        np.zeros(len(order), np.int64),
        np.zeros(len(order), np.int32),
        (np.searchsorted(start, nodes, side="right") - 1).astype(np.int32),
        status,
        range(len(keys)),
        None,
        range(len(start) - 1),
        initial=given,
    )
    found = resolve(history)
    number = nodes[found.node_txn].astype(np.int32)
    wrong = found.misread
    examples = []
    for kind in Misread:
        for at in np.flatnonzero(wrong == kind)[:EXAMPLES]:
            ops = [op for op in (found.m_op[at], found.m_write[at]) if op >= 0]
            examples.append(tuple({int(nodes[txn[op]]) for op in ops}))
    arrays = {
        "r_node": number[found.r_node],
        "r_pos": pos[found.r_op],
        "r_key": found.r_key,
        "r_from": np.where(found.r_from >= 0, number[found.r_from], -1).astype(np.int32),
        "d_node": number[found.d_node],
        "d_from": number[found.d_from],
        "d_pos": pos[found.d_op],
        "o_node": number[found.older.node],
        "o_key": found.older.key,
        "o_from": np.where(found.older.source >= 0, number[found.older.source], -1).astype(np.int32),
        "o_pos": pos[found.older.op],
        "w_key": found.w_key,
        "w_node": number[found.w_node],
    }
    counts = np.bincount(wrong, minlength=len(Misread))
    doubtful = status[found.node_txn] == Status.INDETERMINATE
    opened = len(found.open) + int(doubtful[found.r_from[found.r_from >= 0]].sum())
    return Shard(
        len(keys), len(history), arrays, counts, tuple(examples), found.older.breaks, len(found.unknown), opened
    )


class Judged(NamedTuple):
    """What some sessions demand of the order of transactions, and those that break causal memory."""

    before: IntArray
    after: IntArray
    stale_initial: LongArray
    overwriter: IntArray
    broken: list[SessionOrder]


@dataclass(frozen=True)
class Stored:
    """A graph and the positions f of all sessions, in a folder that all processes see."""

    folder: str

    def new(self, name: str, kind: type[np.generic], size: int) -> Any:
        """An array in a file of its own, to be filled; it is let go with the last name for it."""
        if not size:
            np.save(self.file(name), np.zeros(0, kind))
            return np.zeros(0, kind)
        return np.lib.format.open_memmap(self.file(name), mode="w+", dtype=kind, shape=(size,)).view(np.ndarray)

    def write_order(self, order: IntArray, sessions: int) -> None:
        """Keep a topological order, and make room for positions."""
        np.save(self.file("order"), order)
        shape = (sessions, len(order))
        np.lib.format.open_memmap(self.file("first"), mode="w+", dtype=np.int32, shape=shape).flush()

    def graph(self) -> Graph:
        return Graph(*(self.mapped(each.name) for each in fields(Graph)))

    def place(self, first: int, last: int) -> None:
        """Compute f for some sessions."""
        found = first_places(self.graph(), self.mapped("order"), first, last)
        target = np.load(self.file("first"), mmap_mode="r+")
        target[first:last] = found.T
        target.flush()

    def judge(self, first: int, last: int) -> Judged:
        """Demands of some sessions that causality does not fulfil, and whether each has an order of its own."""
        graph, places = self.graph(), self.mapped("first")
        heads = np.full(len(graph), -1, np.int64)
        pointer = np.zeros(len(graph.group_session), np.int64)
        overwriter = np.full(len(graph.r_key), -1, np.int32)
        edges: list[NDArray[np.int32]] = []
        broken = []
        for p in range(first, last):
            room = 1 << 16
            while True:
                pairs = np.empty((room, 2), np.int32)
                pointer[:] = graph.group_at[:-1]
                count = _demand(
                    graph.start,
                    graph.session,
                    graph.read_at,
                    graph.r_key,
                    graph.r_entry,
                    graph.w_node,
                    graph.group_at,
                    graph.group_session,
                    graph.key_groups,
                    p,
                    places,
                    pointer,
                    pairs,
                    overwriter,
                )
                if count <= room:
                    break
                room = count
            edges.append(np.unique(pairs[:count], axis=0))
            found = judge_session(graph, p, places[p].copy(), heads, None)
            broken += [] if found is None else [found]
        pairs = np.concatenate([np.zeros((0, 2), np.int32), *edges])
        stale = np.flatnonzero(overwriter >= 0)
        return Judged(pairs[:, 0].copy(), pairs[:, 1].copy(), stale, overwriter[stale], broken)

    def file(self, name: str) -> str:
        return str(Path(self.folder) / f"{name}.npy")

    def mapped(self, name: str) -> Any:
        """An array of a file; pages are read as they are needed, and what is written to it stays here."""
        return np.load(self.file(name), mmap_mode="c").view(np.ndarray)


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
    p: int,
    places: NDArray[np.int32],
    pointer: LongArray,
    pairs: NDArray[np.int32],
    overwriter: IntArray,
) -> int:
    """The demands of session p that causality does not fulfil; how many there are, also if room is short."""
    count = 0
    for t in range(start[p], start[p + 1]):
        for r in range(read_at[t], read_at[t + 1]):
            key, entry = r_key[r], r_entry[r]
            for g in range(key_groups[key], key_groups[key + 1]):
                at, end = pointer[g], group_at[g + 1]
                if group_session[g] == p:
                    while at < end and w_node[at] < t:
                        at += 1
                else:
                    while at < end and places[p, w_node[at]] <= t - start[p]:
                        at += 1
                pointer[g] = at
                if at == group_at[g]:
                    continue
                u = w_node[at - 1]
                if entry < 0:
                    overwriter[r] = u
                    continue
                w = w_node[entry]
                s = session[w]
                if u == w or places[s, u] <= w - start[s]:
                    continue
                if count < len(pairs):
                    pairs[count, 0] = u
                    pairs[count, 1] = w
                count += 1
    return count
