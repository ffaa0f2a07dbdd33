"""What the tasks of a check of key-value histories do: Arrow batches in, parcels out. No Spark in here.

Parcels are those of `audit_tasks`: a row with many operations, or with a pickled result, in it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from antecast.history.rows import Batches, LongArray
from antecast.kv.shards import Stored, resolve_shard
from antecast.spark.audit_tasks import contents, parcels
from antecast.spark.batching import groups

BUCKETS = 256
"""Groups of keys that the first stage tells apart."""

_PACKED_ROWS = 1 << 20


@dataclass(frozen=True)
class PackKeys:
    """Operations into parcels, a bucket of keys each."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for held in groups(batches, _PACKED_ROWS):
            yield from _packed(held)


def _packed(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    bucket = rows["bucket"].to_numpy().astype(np.uint8)
    order = pa.array(np.argsort(bucket, kind="stable"))
    rows = rows.drop_columns(["bucket"]).take(order).combine_chunks()
    counts = np.bincount(bucket, minlength=BUCKETS)
    starts = np.cumsum(counts) - counts

    def bodies() -> Iterable[tuple[int, int, bytes]]:
        for each in np.flatnonzero(counts).tolist():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows.slice(int(starts[each]), int(counts[each])))
            yield each, int(counts[each]), sink.getvalue().to_pybytes()

    yield from parcels("operations", bodies())


@dataclass(frozen=True)
class ResolveKeys:
    """All operations on some keys into a shard, whose arrays go to files."""

    start: LongArray
    initial: object
    folder: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        tables = [
            pa.ipc.open_stream(pa.py_buffer(body)).read_all()
            for batch in batches
            for body in contents(batch, "operations")
        ]
        if tables:
            shard = resolve_shard(pa.concat_tables(tables), self.start, self.initial).stored(self.folder)
            yield from parcels("shard", [(-1, shard.operations, pickle.dumps(shard, protocol=5))])


@dataclass(frozen=True)
class PlaceSessions:
    """The positions f of a block of sessions, written to the store."""

    store: Stored
    width: int
    sessions: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for first in _firsts(batches, self.width):
            self.store.place(first, min(first + self.width, self.sessions))
            yield from parcels("placed", [(first, 1, b"")])


@dataclass(frozen=True)
class JudgeSessions:
    """What a block of sessions demands, and whether each has an order of its own."""

    store: Stored
    width: int
    sessions: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for first in _firsts(batches, self.width):
            judged = self.store.judge(first, min(first + self.width, self.sessions))
            yield from parcels("judged", [(first, 1, pickle.dumps(judged, protocol=5))])


def _firsts(batches: Batches, width: int) -> Iterator[int]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield number * width
