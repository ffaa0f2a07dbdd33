"""Names to numbers: dense codes for nodes and messages, so that everything after runs on int32 arrays.

A node is named by (run, node); logs without a `run` column have run None. The messages of a source get
consecutive numbers in the order of its broadcasts, which is the order that counts: for two messages
of one source, the smaller number came first, whatever their `seq` says. Where messages have names of their own
(`message`), their `seq` is made here: 1, 2, 3 in that order. Sources are numbered by name, so
the messages of a run stand together, and no dependency leads out of their range.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from antecast.core.compiled import compiled
from antecast.history.names import UNKNOWN, Nodes
from antecast.history.rows import (
    Batches,
    BoolArray,
    BrokenLog,
    IntArray,
    LongArray,
    Rows,
    read_rows,
)

MOST_MESSAGES = np.iinfo(np.int32).max
"""Messages have numbers of 32 bits."""


@dataclass(frozen=True)
class Types:
    """Arrow types of the names, so that results come back as the log had them."""

    run: pa.DataType | None = None
    node: pa.DataType = field(default_factory=pa.int64)
    origin: pa.DataType = field(default_factory=pa.int64)
    message: pa.DataType | None = None

    @classmethod
    def of(cls, rows: Rows) -> Types:
        def plain(column: pa.Array) -> pa.DataType:
            return column.type.value_type if pa.types.is_dictionary(column.type) else column.type

        run, message = (None if each is None else plain(each) for each in (rows.run, rows.message))
        return cls(run, plain(rows.node), plain(rows.origin), message)


@dataclass(frozen=True, eq=False)
class MessageIndex:
    """All messages of a log, numbered source by source in the order of broadcast."""

    nodes: Nodes
    """The sources; their codes index `offsets`."""
    offsets: LongArray
    """The messages of source s are `offsets[s]` up to `offsets[s + 1]`."""
    runs: dict[object, tuple[int, int]]
    """The messages of a run are those from the first of these numbers up to the second."""
    origin: IntArray
    seq: LongArray
    pos: LongArray
    """Position of the broadcast at its origin."""
    t: LongArray | None
    types: Types
    _seqs: LongArray
    """The seqs of each source in ascending order, and in `_by_seq` the messages they belong to."""
    _by_seq: IntArray
    _contiguous: BoolArray
    """Sources whose seqs count up by one in the order of broadcast: looked up by subtraction."""
    ids: Nodes | None = None
    """The messages' own names, by run, where they have some; `_id_of` and `_by_id` lead there and back."""
    _id_of: IntArray = field(default_factory=lambda: np.empty(0, np.int32))
    _by_id: IntArray = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.seq)

    @classmethod
    def read(cls, batches: Batches, *, timed: bool = False) -> MessageIndex:
        """Build the index from the broadcasts in the batches. Memory: some 40 bytes per message."""
        nodes, ids, types, count = Nodes(), Nodes(), Types(), 0
        no_numbers = np.empty(0, np.int64)
        columns = [(np.empty(0, np.int32), no_numbers, no_numbers, no_numbers)]
        for batch in batches:
            rows = read_rows(batch, ("broadcast",), timed=timed)
            types = Types.of(rows)
            node = nodes.encode(rows.run, rows.node, add=True)
            origin = nodes.encode(rows.run, rows.origin, add=True)
            foreign = np.flatnonzero(node != origin)
            if len(foreign):
                i = foreign[0]
                run, name = nodes.names[node[i]]
                owner, seq = nodes.names[origin[i]].node, int(rows.seq[i])
                problem = f"broadcasts {owner}:{seq}, which is not its own message"
                raise BrokenLog(problem, run=run, node=name, pos=int(rows.pos[i]), origin=owner, seq=seq)
            numbers = rows.seq
            if rows.message is not None:
                numbers = ids.encode(rows.run, rows.message, add=True).astype(np.int64)
            columns.append((node, numbers, rows.pos, rows.pos if rows.t is None else rows.t))
            count += len(node)
            if count > MOST_MESSAGES:
                raise BrokenLog(f"more than {MOST_MESSAGES:,} messages; audit the log in periods or by runs")
        origins, seqs, pos, t = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        times = t if timed else None
        if types.message is None:
            return cls._build(nodes, origins, seqs, pos, times, types)
        return cls._build_named(nodes, ids, origins, seqs.astype(np.int32), pos, times, types)

    @classmethod
    def _build_named(
        cls,
        nodes: Nodes,
        ids: Nodes,
        origin: IntArray,
        code: IntArray,
        pos: LongArray,
        t: LongArray | None,
        types: Types,
    ) -> MessageIndex:
        """The index of messages with names of their own."""
        order = np.lexsort((pos, origin))
        by_code = np.lexsort((pos, code))
        twice = np.flatnonzero(np.diff(code[by_code]) == 0)
        if len(twice):
            first, second = by_code[twice[0]], by_code[twice[0] + 1]
            (run, name), message = nodes.names[origin[second]], ids.names[code[first]].node
            where = f"the first time was at node {nodes.names[origin[first]].node}, position {pos[first]}"
            problem = f"broadcasts {message} a second time; {where}"
            raise BrokenLog(problem, run=run, node=name, pos=int(pos[second]), message=message)
        starts = np.searchsorted(origin[order], np.arange(len(nodes)))
        seq = np.empty(len(order), np.int64)
        seq[order] = np.arange(len(order)) - starts[origin[order]] + 1
        index = cls._build(nodes, origin, seq, pos, t, types)
        renamed = index.nodes.codes(nodes.names)
        by_id = np.full(len(ids), UNKNOWN, np.int32)
        by_id[code] = index.find(renamed[origin] if len(origin) else origin, seq)
        id_of = np.empty(len(index), np.int32)
        id_of[by_id[code]] = code
        return replace(index, ids=ids, _id_of=id_of, _by_id=by_id)

    @classmethod
    def _build(
        cls, nodes: Nodes, origin: IntArray, seq: LongArray, pos: LongArray, t: LongArray | None, types: Types
    ) -> MessageIndex:
        by_name = nodes.names.order()
        nodes = Nodes(nodes.names.take(by_name))
        rank = np.empty(len(nodes), np.int32)
        rank[by_name] = np.arange(len(nodes), dtype=np.int32)
        origin = rank[origin]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(origin, minlength=len(nodes)))))
        order = _grouped(origin, offsets)
        _sort_each(offsets, pos, order)
        origin, seq, pos = origin[order], seq[order], pos[order]
        in_order = np.arange(len(order))
        _sort_each(offsets, seq, in_order)
        by_seq, seqs = in_order.astype(np.int32), seq[in_order]
        twice = np.flatnonzero((np.diff(seqs) == 0) & (np.diff(origin[by_seq]) == 0))
        if len(twice):
            first, second = by_seq[twice[0]], by_seq[twice[0] + 1]
            run, name = nodes.names[origin[first]]
            problem = f"broadcasts {name}:{seq[first]} a second time; the first was at position {pos[first]}"
            raise BrokenLog(problem, run=run, node=name, pos=int(pos[second]), origin=name, seq=int(seq[first]))
        first = np.flatnonzero(np.diff(nodes.names.run, prepend=-1))
        bounds = offsets[np.append(first, len(nodes))].tolist()
        runs = {
            nodes.names[place].run: both
            for place, both in zip(first.tolist(), itertools.pairwise(bounds), strict=True)
        }
        steps = (np.diff(seq) == 1) | (np.diff(origin) != 0)
        contiguous = np.ones(len(nodes), np.bool_)
        contiguous[origin[1:][~steps]] = False
        t = None if t is None else t[order]
        return cls(nodes, offsets, runs, origin, seq, pos, t, types, seqs, by_seq, contiguous)

    def find(self, origin: IntArray, seq: LongArray) -> IntArray:
        """Numbers of the messages named by origin codes and seqs, UNKNOWN where there is no broadcast."""
        found = np.empty(len(seq), np.int32)
        _find(origin, seq, self.offsets, self._seqs, self._by_seq, self._contiguous, found)
        return found

    def find_rows(self, rows: Rows) -> IntArray:
        """Numbers of the messages of rows, UNKNOWN where there is no broadcast."""
        if rows.message is None or self.ids is None:
            return self.find(self.nodes.encode(rows.run, rows.origin), rows.seq)
        codes = self.ids.encode(rows.run, rows.message)
        known = self._by_id[codes] if len(self._by_id) else codes
        found: IntArray = np.where(codes == UNKNOWN, UNKNOWN, known).astype(np.int32)
        return found

    def id_name(self, message: int) -> object:
        """The message's own name, or None where messages have none."""
        return None if self.ids is None else self.ids.names[self._id_of[message]].node

    def keys(self, message: int) -> dict[str, Any]:
        """What names a message in the rows of the log."""
        if self.ids is not None:
            return {"message": self.id_name(message)}
        return {"origin": self.origin_name(message), "seq": int(self.seq[message])}

    def origin_name(self, message: int) -> object:
        return self.nodes.names[self.origin[message]].node

    def name(self, message: int) -> str:
        """The message as people write it, such as `3:12`; its own name if it has one."""
        if self.ids is not None:
            return str(self.id_name(message))
        return f"{self.origin_name(message)}:{self.seq[message]}"


@compiled
def _grouped(origin: IntArray, offsets: LongArray) -> LongArray:
    """The messages source by source, otherwise as they came."""
    order = np.empty(len(origin), np.int64)
    cursor = offsets[:-1].copy()
    for i in range(len(origin)):
        order[cursor[origin[i]]] = i
        cursor[origin[i]] += 1
    return order


@compiled
def _sort_each(offsets: LongArray, values: LongArray, order: LongArray) -> None:
    """Put the messages of each source into the order of their values; most logs have them so already."""
    for source in range(len(offsets) - 1):
        own = order[offsets[source] : offsets[source + 1]]
        for k in range(1, len(own)):
            if values[own[k]] < values[own[k - 1]]:
                own[:] = own[np.argsort(values[own], kind="mergesort")]
                break


@compiled
def _find(
    origin: IntArray,
    seq: LongArray,
    offsets: LongArray,
    seqs: LongArray,
    by_seq: IntArray,
    contiguous: BoolArray,
    found: IntArray,
) -> None:
    for i in range(len(seq)):
        found[i] = UNKNOWN
        source = origin[i]
        if source < 0 or source >= len(contiguous):
            continue
        low, high = offsets[source], offsets[source + 1]
        if low == high:
            continue
        if contiguous[source]:
            step = seq[i] - seqs[low]
            if 0 <= step < high - low:
                found[i] = low + step
            continue
        end = high
        while low < high:
            middle = (low + high) // 2
            if seqs[middle] < seq[i]:
                low = middle + 1
            else:
                high = middle
        if low < end and seqs[low] == seq[i]:
            found[i] = by_seq[low]
