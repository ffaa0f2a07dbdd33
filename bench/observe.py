"""The observer on Spark: rows per second against stateful operators that only pass rows on.

One input of Parquet files, one micro-batch a file, three queries over it in one session, taken in turns: the
observer; an operator that packs rows, keeps as many in a state of the same layout and lets them go unordered
(*pass-through*); and, for scale, the same as one would write it without packing, a row at a time as Spark hands
them over (*plain*). All write to Spark's sink for benchmarks (`noop`). First the observer alone, without Spark.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.observer import BatchObserver, Bounds, Carried, Observer, Policy, Stamps
from bench.processes import cpu_seconds
from bench.table import report

EPSILON, DELTA = 10, 100
FILES = 4
WAITING = 64
"""Rows that pass-through keeps of a group, about as many as wait at the observer."""


def rows(size: int, groups: int, seed: int = 1) -> pa.Table:
    """Rows of hybrid clocks, a tick apart, that arrive after a random delay within δ."""
    draw = np.random.default_rng(seed)
    sent = np.arange(size, dtype=np.int64)
    order = np.argsort(sent + draw.integers(0, DELTA, size), kind="stable")
    table = pa.table(
        {
            "g": pa.array(sent % groups),
            "r": pa.array(sent),
            "c": pa.array(draw.integers(0, EPSILON, size)),
            "counter": pa.array(draw.integers(0, 5, size)),
            "source": pa.array(draw.integers(0, 50, size)),
            "text": pa.array([f"what happened at {each}" for each in range(size)]),
        }
    ).take(order)
    return table.append_column("n", pa.array(np.arange(size)))


def alone(table: pa.Table, *, single: bool) -> float:
    """Rows per CPU second of the observer itself."""
    policy = Policy(bounds=Bounds(epsilon=EPSILON, delta=DELTA), percent=60, stamps="hybrid")
    r, c, counter, source = (table.column(name).to_numpy() for name in ("r", "c", "counter", "source"))
    stamps = Stamps.make(r, source, c=c, kn=counter)
    started = time.process_time()
    if single:
        observer: Observer[int] = Observer(policy, clock="rows")
        for row in range(len(r)):
            observer.receive(row, stamps.at(row), int(source[row]))
    else:
        batches, carried = BatchObserver(policy=policy), Carried.nothing(policy)
        for start in range(0, len(r), 10_000):
            carried = batches.observe(carried, stamps.take(slice(start, start + 10_000))).carried
    return len(r) / (time.process_time() - started)


def queries(spark: Any, folder: Path) -> dict[str, Any]:
    """Functions that start the three queries."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import BinaryType, StructField, StructType

    from antecast.spark.observe import causal_order
    from antecast.spark.observe_rows import RowFormat, pack, read_stream, unpack, write_stream

    schema = spark.read.parquet(str(folder)).schema
    columns = {"r": "r", "c": "c", "counter": "counter", "source": "source", "arrival": "n"}
    policy = Policy(bounds=Bounds(epsilon=EPSILON, delta=DELTA), percent=60, stamps="hybrid")
    form = RowFormat(policy=policy, key=("g",), columns=columns, tick=10**6)

    class Base(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("group", "waiting long, data binary")

        def close(self) -> None:
            pass

        def exchange(self, new: pa.Table) -> pa.Table:
            """Keep the last rows, in the observer's layout, and give those before them."""
            kept = self.state.get()
            if kept is not None:
                new = pa.concat_tables([read_stream(bytes(kept[1])), new]).combine_chunks()
            edge = max(0, len(new) - WAITING)
            self.state.update((len(new) - edge, write_stream(new.slice(edge))))
            return new.slice(0, edge)

    class PassThrough(Base):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            import pandas as pd

            blobs = [read_stream(blob) for frame in rows for blob in frame["rows"]]
            yield pd.DataFrame({"rows": [write_stream(self.exchange(pa.concat_tables(blobs)))]})

    class Plain(Base):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            import pandas as pd

            new = pa.Table.from_pandas(pd.concat(list(rows)), preserve_index=False)
            yield self.exchange(new).to_pandas()

    def stream() -> Any:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))

    def pass_through() -> Any:
        types = to_arrow_schema(schema)

        def packing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return pack(batches, form)

        def unpacking(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return unpack(batches, types)

        packed = stream().mapInArrow(packing, StructType([schema["g"], StructField("rows", BinaryType())]))
        passed = packed.groupBy("g").transformWithStateInPandas(
            PassThrough(), StructType([StructField("rows", BinaryType())]), "Append", "None"
        )
        return passed.mapInArrow(unpacking, schema)

    return {
        "observer": lambda: causal_order(
            stream(), key="g", epsilon=EPSILON, delta=DELTA, c=60, stamps="hybrid", arrival="n"
        ),
        "pass-through": pass_through,
        "plain": lambda: stream().groupBy("g").transformWithStateInPandas(Plain(), schema, "Append", "None"),
    }


def run(frame: Any, checkpoint: Path) -> float:
    """CPU seconds of a query over all files."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    before = cpu_seconds()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spent = cpu_seconds() - before
    shutil.rmtree(checkpoint)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description="The observer on Spark.")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a micro-batch (default 100 000)")
    parser.add_argument("--groups", type=int, nargs="*", default=[10, 200])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    from antecast.spark.session import spark_session

    table = rows(options.rows * FILES, 1)
    alone(table.slice(0, 20_000), single=False)  # compiled
    figures = {"arrays": alone(table, single=False), "single": alone(table.slice(0, 50_000), single=True)}
    result: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary, spark_session("bench observe") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
        for groups in options.groups:
            folder = Path(temporary) / f"in-{groups}"
            folder.mkdir()
            whole = rows(options.rows * FILES, groups)
            for number in range(FILES):
                pq.write_table(whole.slice(number * options.rows, options.rows), folder / f"{number}.parquet")
            seconds: dict[str, float] = {}
            for turn in range(-1, options.rounds):  # the first warms up Java and the workers
                for name, start in queries(spark, folder).items():
                    took = run(start(), Path(temporary) / f"{name}-{groups}-{turn}")
                    if turn >= 0:
                        seconds[name] = min(took, seconds.get(name, took))
            rate = {name: FILES * options.rows / took for name, took in seconds.items()}
            row: dict[str, Any] = {"groups": groups}
            row |= {f"{name} rows/s": round(value) for name, value in rate.items()}
            row["observer / pass-through"] = rate["observer"] / rate["pass-through"]
            row["observer / plain"] = rate["observer"] / rate["plain"]
            result.append(row)
    note = (
        f"Rows per CPU second of driver, Java and workers together; {FILES} micro-batches of {options.rows:,} "
        f"rows, the best of {options.rounds} rounds after one to warm up. Without Spark the observer does "
        f"{figures['arrays']:,.0f} rows per CPU second on arrays and {figures['single']:,.0f} one at a time. "
        "Goal: observer / pass-through at least 0.5."
    )
    report("observe", "Causal order on Spark, hybrid clocks, cbd at 60 %", result, note=note)


if __name__ == "__main__":
    main()
