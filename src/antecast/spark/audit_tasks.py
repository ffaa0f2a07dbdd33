"""What the tasks of an audit do: Arrow batches in, parcels out. No Spark in here.

A parcel is a row with a few kilobytes to a megabyte of bytes in it. To Spark a row costs a few hundred
nanoseconds at every step, whatever is in it; packed by the thousand, events cost next to nothing to shuffle,
to keep and to hand to Python again.

    events        rows of the nodes of one block, as an Arrow stream; `size` is their number
    runs          rows of the runs of one block, the same way, where there are many runs
    broadcasts    rows of broadcasts, the same way
    sizes         a task's number of events in each block: of nodes, then of runs
    histories     of a task's nodes, without positions
    positions     of their events: half of the bytes, for which only violations ask
    dependencies  of the messages of a task's nodes
    findings      counts and violations
    error         a broken log: an exception in a task would only fail the job

The last five are pickled values in pieces of a megabyte: the rows of a value have the same number in `block`, and
its bytes in `size`. So no row is too large for Spark, for Arrow or for Connect, however large a part is.

Tasks share what has a size in the order of the number of messages, and hold the events of their own nodes.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as default
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.history.blocks import blocks, check_block
from antecast.history.dependencies import Dependencies, Ordered, reduce, sketch
from antecast.history.histories import EXAMPLES, Clock, Histories, read_histories
from antecast.history.joints import with_joints
from antecast.history.messages import MessageIndex
from antecast.history.names import Name
from antecast.history.rows import Batches, BrokenLog, IntArray, LongArray
from antecast.history.violations import Tallies, Tally, add_tallies, merge_violations
from antecast.spark.batching import groups, settle_in
from antecast.spark.shared import Shared

PARCELS = "what string, block int, size long, body binary"
"""The schema of parcels, for Spark."""

BLOCKS = 256
"""Groups of nodes or runs that the first stage tells apart; the second joins them to as many parts as it needs, or
spreads them where it needs more."""

_MANY_RUNS = 64
"""Runs among events packed together from which on these are packed by run. The nodes of a run have the same
messages: in one part they are looked up, and checked, together."""

_PACKED_ROWS = 1 << 20
"""Events packed together: 30 MB, and 4 096 events per parcel where nodes are even."""

_READ_ROWS = 1 << 18
"""Events read together; with fewer, the cost of a batch shows."""

_PIECE = 1 << 20
"""Bytes of a piece of a value: the JVM handles many of these better than a few large ones."""

_KINDS = pa.array(["broadcast", "deliver"])

T = TypeVar("T")

_SCHEMA = pa.schema([("what", pa.string()), ("block", pa.int32()), ("size", pa.int64()), ("body", pa.binary())])


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known of some nodes."""

    tally: Tally
    violations: pa.Table
    unknown_examples: tuple[str, ...] = ()
    runs: Tallies = default(default_factory=dict)

    def add(self, other: Findings, limit: int) -> Findings:
        """Both together, within the limit."""
        tables = [each for each in (self.violations, other.violations) if len(each)]
        return Findings(
            self.tally + other.tally,
            merge_violations(tables, limit) if tables else self.violations,
            tuple(sorted(self.unknown_examples + other.unknown_examples)[:EXAMPLES]),
            add_tallies(self.runs, other.runs),
        )


def parcels(what: str, bodies: Iterable[tuple[int, int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Parcels of one kind from (block, size, body)."""
    rows = [(what, *each) for each in bodies]
    if rows:
        columns = [
            pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), _SCHEMA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def contents(table: pa.Table | pa.RecordBatch, what: str) -> list[memoryview]:
    """The bodies of the parcels of one kind, without a copy."""
    chosen = table.filter(pc.equal(table.column("what"), what)).column("body")
    return [memoryview(body.as_buffer()) for body in chosen]


@dataclass(frozen=True)
class Pack:
    """Events into parcels, a block each; beside them parcels with the broadcasts, and one with the sizes.

    Batches have the columns of the log, and for `kind` whether it is a delivery.
    """

    blocks: int = BLOCKS
    many_runs: int = _MANY_RUNS
    packed_rows: int = _PACKED_ROWS

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        total = np.zeros((2, self.blocks), np.int64)
        for rows in _joined(batches, self.packed_rows):
            rows = pa.RecordBatch.from_pydict({name: _compact(rows.column(name)) for name in rows.schema.names})
            by_run = "run" in rows.schema.names and _distinct(rows.column("run")) >= self.many_runs
            names = [rows.column("run")] if by_run else names_of(rows)
            block = (scattered(names) % np.uint64(self.blocks)).astype(np.uint8)
            block = np.broadcast_to(block, len(rows))
            order = pa.array(np.argsort(block, kind="stable"))  # by counting, since these are small numbers
            rows = rows.take(order)
            counts = np.bincount(block, minlength=self.blocks)
            total[int(by_run)] += counts
            starts = np.cumsum(counts) - counts
            yield from parcels(
                "runs" if by_run else "events",
                (
                    (each, int(counts[each]), _stream(rows.slice(int(starts[each]), int(counts[each]))))
                    for each in np.flatnonzero(counts).tolist()
                ),
            )
            broadcasts = rows.filter(pc.invert(rows.column("kind")))
            if len(broadcasts):
                yield from parcels("broadcasts", [(-1, len(broadcasts), _stream(broadcasts))])
        if total.any():
            yield from parcels("sizes", [(-1, int(total.sum()), total.tobytes())])


@dataclass(frozen=True)
class Spread:
    """Parcels of blocks into parcels of parts, by the names of nodes: a large block goes to several parts, and the
    nodes of runs that were packed together go where those of others go."""

    shares: Mapping[int, range]
    """The parts of each block of nodes."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        first = np.array([self.shares[block].start for block in range(len(self.shares))], np.int64)
        count = np.array([len(self.shares[block]) for block in range(len(self.shares))], np.uint64)
        for batch in batches:
            spread = (self._spread(parcel, first, count) for parcel in batch.to_pylist())
            yield from parcels("events", chain.from_iterable(spread))

    def _spread(
        self, parcel: dict[str, Any], first: LongArray, count: NDArray[np.uint64]
    ) -> Iterator[tuple[int, int, bytes]]:
        if parcel["what"] == "events" and count[parcel["block"]] == 1:
            yield int(first[parcel["block"]]), parcel["size"], parcel["body"]
            return
        blocks = np.uint64(len(first))
        for rows in pa.ipc.open_stream(pa.py_buffer(parcel["body"])):
            name = scattered(names_of(rows))
            block = (name % blocks).astype(np.int64)
            slot = first[block] + (name // blocks % count[block]).astype(np.int64)
            order = np.argsort(slot, kind="stable")
            parts, starts = np.unique(slot[order], return_index=True)
            for part, (start, end) in zip(parts.tolist(), pairwise([*starts.tolist(), len(order)]), strict=True):
                yield part, end - start, _stream(rows.take(pa.array(order[start:end])))


def names_of(rows: pa.RecordBatch) -> list[pa.Array]:
    """The columns that name a node."""
    return [rows.column(name) for name in ("run", "node") if name in rows.schema.names]


def scattered(columns: Iterable[pa.Array]) -> NDArray[np.uint64]:
    """A number for each row that depends on its names alone, not on how a batch holds them."""
    total: NDArray[np.uint64] = np.zeros(1, np.uint64)
    for column in columns:
        if pa.types.is_dictionary(column.type):
            numbers = _hashed(column.dictionary)[column.indices.fill_null(0).to_numpy()]
        else:
            numbers = _hashed(column)
        total = (total ^ numbers) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(32)
    return total


def _hashed(column: pa.Array) -> NDArray[np.uint64]:
    if pa.types.is_integer(column.type):
        numbers: NDArray[np.uint64] = column.fill_null(0).to_numpy().astype(np.int64).view(np.uint64)
        return numbers
    from pandas.util import hash_array

    hashed: NDArray[np.uint64] = hash_array(column.fill_null("").to_numpy(zero_copy_only=False), categorize=False)
    return hashed


def _distinct(column: pa.Array) -> int:
    found: int = (
        len(column.dictionary) if pa.types.is_dictionary(column.type) else pc.count_distinct(column).as_py()
    )
    return found


def _compact(column: pa.Array) -> pa.Array:
    """The same values in fewer bytes: shorter numbers, and texts as numbers where few recur."""
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.to_numpy()
        low, high = numbers.min(), numbers.max()
        fits = (
            kind
            for kind in (np.int8, np.int16, np.int32)
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
        )
        return pa.array(numbers.astype(next(fits, numbers.dtype), copy=False))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encoded = column.dictionary_encode()
        if len(encoded.dictionary) * BLOCKS // 4 <= len(column):  # each parcel has the dictionary in it
            return encoded
    return column


def _stream(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def unpack(bodies: Iterable[memoryview], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as the auditor reads them, from parcels of events or broadcasts; `schema` is what Spark's rows had."""

    def restored() -> Iterator[pa.RecordBatch]:
        for body in bodies:
            for rows in pa.ipc.open_stream(pa.py_buffer(body)):
                columns = []
                for field, column in zip(schema, rows.columns, strict=True):
                    if field.name == "kind":
                        column = pa.DictionaryArray.from_arrays(column.cast(pa.int8()), _KINDS)
                    elif not pa.types.is_integer(column.type):
                        column = column.dictionary_encode()
                        _refuse_nul(field.name, column)
                    columns.append(column.cast(field.type) if pa.types.is_integer(field.type) else column)
                yield pa.RecordBatch.from_arrays(columns, names=schema.names)

    yield from _joined(restored(), _READ_ROWS)


def _refuse_nul(name: str, column: pa.DictionaryArray) -> None:
    bad = column.dictionary.filter(pc.match_substring(column.dictionary, "\0"))
    if len(bad):
        raise BrokenLog(f"{name} has a NUL byte in it: {bad[0].as_py()!r}")


def _joined(batches: Batches, rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least so many."""
    return map(_as_one, groups(batches, rows))


def _as_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return batch


@dataclass(frozen=True)
class Read:
    """Parcels of events into histories, a first sketch of the dependencies, and what is wrong already."""

    index: Shared[MessageIndex]
    schema: pa.Schema
    clock: Clock
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        index = self.index.value
        bodies = (body for batch in batches for what in ("events", "runs") for body in contents(batch, what))
        try:
            reading = read_histories(unpack(bodies, self.schema), index, clock=self.clock, limit=self.limit)
        except BrokenLog as error:
            yield from _pickled("error", error)
            return
        if len(reading.histories):
            yield from _pickled("dependencies", sketch(reading.histories, index))
            yield from _pickled(
                "findings", Findings(reading.tally, reading.violations, reading.unknown_examples, reading.runs)
            )
            yield from _pickled("histories", replace(reading.histories, pos=np.empty(0, np.int32)))
            yield from _pickled("positions", reading.histories.pos)
        settle_in()


@dataclass(frozen=True)
class Reduce:
    """One more round of dependencies, for the messages of a task's nodes; with joints if this may be the last."""

    index: Shared[MessageIndex]
    matrix: Shared[Dependencies]
    joints: bool

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        histories = _unpickled(list(batches))
        if histories is not None:
            reduced = reduce(histories, self.index.value, self.matrix.value)
            yield from _pickled(
                "dependencies", with_joints(reduced, histories, self.index.value) if self.joints else reduced
            )


@dataclass(frozen=True)
class Check:
    """Violations at a task's nodes, with those that were found when they were read. Without positions they are
    counted, and not listed."""

    index: Shared[MessageIndex]
    ordered: Shared[Ordered]
    pairs: bool
    limit: int
    memory: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        histories = _unpickled(kept)
        findings = next(loaded(kept, "findings", Findings), None)
        if histories is None or findings is None:
            return
        index, limit = self.index.value, self.limit if len(histories.pos) else 0
        ordered = self.ordered.value
        for block in blocks(histories, index, ordered, self.memory):
            check = check_block(block, index, ordered, pairs=self.pairs, limit=limit)
            findings = findings.add(Findings(check.tally, check.violations, (), check.runs), self.limit)
        yield from _pickled("findings", findings)


@dataclass(frozen=True)
class ListAll:
    """Every violation at a task's nodes as a row, however many there are."""

    check: Check
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for found in loaded(self.check(batches), "findings", Findings):
            yield from found.violations.cast(self.schema).to_batches(max_chunksize=_PACKED_ROWS)


@dataclass(frozen=True)
class Merge:
    """All findings as one, so that the driver gets no more of them than it will show."""

    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        total = self.all(batches)
        if total is not None:
            yield from _pickled("findings", total)

    def all(self, batches: Batches) -> Findings | None:
        total: Findings | None = None
        for findings in loaded(batches, "findings", Findings):
            total = findings if total is None else total.add(findings, self.limit)
        return total


@dataclass(frozen=True)
class Pick:
    """The histories of a few nodes, or what they have of a few messages."""

    names: frozenset[Name]
    messages: IntArray | None = None

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        histories = _unpickled(list(batches))
        for row, name in enumerate(() if histories is None else histories.names):
            if histories is not None and name in self.names:
                block = histories.block(row, row + 1)
                yield from _pickled("histories", block if self.messages is None else block.only(self.messages))


def _pickled(what: str, value: object) -> Iterator[pa.RecordBatch]:
    body = memoryview(pickle.dumps(value, protocol=5))
    number = uuid.uuid4().int & 0x7FFFFFFF
    for start in range(0, len(body), _PIECE):
        yield from parcels(what, [(number, len(body), bytes(body[start : start + _PIECE]))])


def loaded(batches: Iterable[pa.RecordBatch], what: str, kind: type[T]) -> Iterator[T]:
    """The values of one kind among parcels, each when its last piece is there."""
    waiting: dict[int, list[memoryview]] = {}
    for batch in batches:
        rows = batch.filter(pc.equal(batch.column("what"), what))
        for number, size, body in zip(
            rows.column("block").to_pylist(), rows.column("size").to_pylist(), rows.column("body"), strict=True
        ):
            pieces = waiting.setdefault(number, [])
            pieces.append(memoryview(body.as_buffer()))
            if sum(map(len, pieces)) == size:
                value = pickle.loads(b"".join(waiting.pop(number)))
                assert isinstance(value, kind)
                yield value
    assert not waiting, f"{what}: pieces are missing"


def _unpickled(batches: list[pa.RecordBatch]) -> Histories | None:
    """The histories that `Read` left in this partition, with their positions if these are here."""
    histories = next(loaded(batches, "histories", Histories), None)
    pos = next(loaded(batches, "positions", np.ndarray), None)
    return histories if histories is None or pos is None else replace(histories, pos=pos)
