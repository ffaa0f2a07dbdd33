"""`antecast check` on a cluster: the worlds of one depth are looked into by tasks, the seen set is a table.

Worlds are told by the ways that lead to them (`checking.ways`). Each depth is one job: tasks look into the worlds
that wait, and what they reach is joined with what has been seen, by fingerprint, so that each partition of the
shuffle holds the part of the seen set with its hashes. Nothing but counts, local states and violations comes to
the driver. As long as few worlds wait, the driver looks into them itself.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecast.checking.limits import Progress
from antecast.checking.search import Found
from antecast.checking.ways import Explorer, LocalFrontier, Looked, Order, Way, explore_ways
from antecast.protocols.outside import Packed, unpack
from antecast.protocols.registry import pack
from antecast.spark.session import job_description

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = "key long, way binary, note binary"
_PER_TASK = 2_000
"""Worlds that a task looks into: below that, a further task costs more than it brings."""

_explorers: dict[bytes, Explorer] = {}
"""The last order that this process has worked on: what it has learnt of local states serves the next task."""


def check_on_spark(
    spark: SparkSession, order: Order, *, here: int = _PER_TASK, progress: Progress | None = None
) -> Found:
    """Search all worlds of an order on a cluster, from the depth on at which more than `here` wait."""
    packed = pack([order.protocol])

    def begin(order: Order, key: int, way: Way) -> SparkFrontier:
        return SparkFrontier(spark, packed, LocalFrontier(order, key, way), here)

    return explore_ways(order, begin, progress=progress)


class SparkFrontier:
    """Worlds that wait, worlds that have been seen, as tables."""

    def __init__(self, spark: SparkSession, packed: Packed, local: LocalFrontier, here: int) -> None:
        self._spark, self._packed = spark, packed
        self._local: LocalFrontier | None = local
        self._here = here
        self._waiting: Any = None
        self._seen: Any = None
        self._reached: Any = None
        self._counts = (1, 1)
        self._depth = 0

    def _hand_over(self, local: LocalFrontier) -> None:
        rows = [(_signed(key), bytearray(way)) for key, way in local.waiting.items()]
        self._waiting = self._spark.createDataFrame(rows, "key long, way binary")
        self._seen = self._spark.createDataFrame([(_signed(key),) for key in local.seen], "key long")
        local.close()
        self._local = None

    def look(self, order: Order) -> Looked:
        if self._local is not None:
            if len(self._local.waiting) <= self._here:
                return self._local.look(order)
            self._hand_over(self._local)
        tasks = max(1, math.ceil(self._counts[0] / _PER_TASK))
        with job_description(self._spark, f"check {order.protocol}: depth {self._depth}"):
            spread = self._waiting.repartitionByRange(tasks, "way")
            self._reached = spread.mapInArrow(_task(order, self._packed), _ROW).localCheckpoint()
            notes = self._reached.where("note is not null").select("note").collect()
        seen = Looked()
        for row in notes:
            seen.add(pickle.loads(bytes(row["note"])))
        return seen

    def advance(self) -> tuple[int, int]:
        from pyspark.sql import functions as f

        if self._local is not None:
            self._depth += 1
            self._counts = self._local.advance()
            return self._counts
        with job_description(self._spark, f"check: what is new at depth {self._depth}"):
            reached = self._reached.where("note is null").groupBy("key").agg(f.min("way").alias("way"))
            self._waiting = reached.join(self._seen, "key", "left_anti").localCheckpoint()
            new = self._waiting.count()
            self._seen = self._seen.union(self._waiting.select("key"))
            if self._depth % 8 == 7:  # a plan of many unions takes longer to read than to run
                self._seen = self._seen.localCheckpoint()
        self._depth += 1
        self._counts = (new, self._counts[1] + new)
        return self._counts

    def close(self) -> None:
        self._reached = self._seen = self._waiting = None


def _task(order: Order, packed: Packed) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    name = pickle.dumps(order)

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        explorer = _explorers.get(name)
        if explorer is None:
            unpack(packed)
            _explorers.clear()
            explorer = _explorers[name] = Explorer(order)
        ways: list[Any] = [way for batch in batches for way in batch.column("way").to_pylist()]
        done = explorer.look(ways)
        reached, done.reached = done.reached, {}
        yield _rows([(_signed(key), way, None) for key, way in reached.items()])
        yield _rows([(0, b"", pickle.dumps(done))])

    return look


def _rows(rows: list[tuple[int, Way, bytes | None]]) -> pa.RecordBatch:
    schema = pa.schema([("key", pa.int64()), ("way", pa.binary()), ("note", pa.binary())])
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def _signed(key: int) -> int:
    """A fingerprint as a column holds it."""
    return key - (1 << 64) if key >> 63 else key
