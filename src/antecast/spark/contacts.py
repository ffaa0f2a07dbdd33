"""Contacts on Spark: movement in, contacts out, as DataFrames.

    from antecast.spark.contacts import contacts

    found = contacts(spark.read.parquet("trajectories.parquet"), 200.0)

One pass over the trajectories measures them and makes a plan (`antecast.traces.contact_detection`): slabs of
time and, for very many nodes, blocks of space. Then every segment is sent to the parts it matters to, each
part is searched by the compiled kernel, and the intervals of a pair are joined across parts. Nothing that is
collected grows with the trace but the borders of at most a thousand slabs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from antecast.traces.contact_detection import (
    QUANTILES,
    BrokenTrajectories,
    Plan,
    Survey,
    make_plan,
    place,
    read_motion,
    read_segments,
    search_part,
)
from antecast.traces.schema import TRAJECTORIES, node_order
from antecast.traces.statistics import ContactStatistics, MovementStatistics, Spread

SPARK_PART = 1 << 17
"""About how many segments a part holds: some ten megabytes on the way, a hundred while it is searched."""

_MOTION = "node string, t0 long, x0 double, y0 double, t1 long, x1 double, y1 double"
_PART = pa.schema([("slab", pa.int64()), ("bx", pa.int64()), ("by", pa.int64())])
_FOUND = pa.schema(
    [("a", pa.string()), ("b", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("pair", pa.string())]
)


def contacts(trajectories: DataFrame, reach: float, *, a_part: int = SPARK_PART) -> DataFrame:
    """All contacts at a range in metres: `a`, `b`, `start`, `end`, sorted as the schema `CONTACTS` says.

    The columns are those of the schema `TRAJECTORIES`; others are ignored. Measuring them runs a Spark job at
    once, the rest runs when the result is used.
    """
    plan = make_plan(reach, survey(trajectories), a_part=a_part)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            rows, parts = place(read_motion(table), plan)
            sent = table.take(pa.array(rows))
            for number, name in enumerate(_PART.names):
                sent = sent.append_column(name, pa.array(parts[:, number]))
            yield from sent.to_batches()

    def search(key: tuple[pa.Scalar, ...], part: pa.Table) -> pa.Table:
        return _search(plan, part, *(each.as_py() for each in key))

    sent = _motion(trajectories).mapInArrow(send, _MOTION + ", slab long, bx long, by long")
    found = sent.groupBy(*_PART.names).applyInArrow(
        search, "a string, b string, start long, end long, pair string"
    )
    if plan.slabs or plan.block:  # a contact may last from one slab, or from one block, into the next
        found = _join(found)
    return found.orderBy("start", "end", "pair").select("a", "b", "start", "end")


def _search(plan: Plan, part: pa.Table, slab: int, bx: int, by: int) -> pa.Table:
    segments = read_segments(part)
    rows = search_part(segments, plan, slab, bx, by).intervals
    keys = pa.array([sort_text(name) for name in segments.names], pa.string())
    names = pa.array(segments.names, pa.string())
    a, b = (pa.array(rows[:, each]) for each in (0, 1))
    pair = pc.binary_join_element_wise(keys.take(a), keys.take(b), "")
    columns = [names.take(a), names.take(b), pa.array(rows[:, 2]), pa.array(rows[:, 3]), pair]
    return pa.Table.from_arrays(columns, schema=_FOUND)


def _join(found: DataFrame) -> DataFrame:
    """One interval for those of a pair that touch."""
    in_order = Window.partitionBy("pair").orderBy("start")
    before = F.max("end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    fresh = found.withColumn("_fresh", F.when(F.col("start") <= before, 0).otherwise(1))
    numbered = fresh.withColumn("_contact", F.sum("_fresh").over(in_order))
    return numbered.groupBy("pair", "_contact").agg(
        F.first("a").alias("a"), F.first("b").alias("b"), F.min("start").alias("start"), F.max("end").alias("end")
    )


def sort_text(name: str) -> str:
    """A text whose order among texts is that of its name among nodes.

    >>> sorted(["bus10", "bus9", "2", "10", "bus"], key=sort_text)
    ['2', '10', 'bus', 'bus9', 'bus10']
    """
    parts = [
        f"1{text}\0" if kind else f"0{chr(len(str(number)))}{number}" for kind, number, text in node_order(name)
    ]
    return "".join([*parts, "\0", name, "\0"])


def survey(trajectories: DataFrame) -> Survey:
    """Measure trajectories for their plan, in one pass; refuse those that cannot be used."""
    missing = [name for name in TRAJECTORIES.names if name not in trajectories.columns]
    if missing:
        raise BrokenTrajectories(f"no column {missing[0]!r}; there are {', '.join(trajectories.columns)}")
    motion = _motion(trajectories)
    places = [F.col(name) for name in ("x0", "y0", "x1", "y1")]
    fractions = [each / QUANTILES for each in range(QUANTILES + 1)]
    inner = [F.percentile_approx(name, [0.05, 0.95]).alias(f"{name}_inner") for name in ("x0", "y0")]
    lost = reduce(or_, (F.col(name).isNull() for name in TRAJECTORIES.names))
    astray = reduce(or_, (F.isnan(each) | (F.abs(each) == float("inf")) for each in places))
    wrong = (
        F.when(lost, "a value is missing")
        .when(F.col("t1") < F.col("t0"), "the segment ends before it starts")
        .when(astray, "the segment has no finite coordinates")
    )
    row = motion.agg(
        F.count("*").alias("segments"),
        F.sum(F.hypot(F.col("x1") - F.col("x0"), F.col("y1") - F.col("y0"))).alias("travelled"),
        F.sum((F.col("t1") - F.col("t0")).cast("double")).alias("lasted"),
        F.max(F.greatest(*(F.abs(each) for each in places))).alias("furthest"),
        F.percentile_approx("t0", fractions).alias("starts"),
        *inner,
        F.min(
            F.when(wrong.isNotNull(), F.concat(F.lit("node "), F.coalesce("node", F.lit("?")), F.lit(": "), wrong))
        ),
    ).collect()[0]
    if row[-1] is not None:
        raise BrokenTrajectories(row[-1])
    if not row.segments:
        return Survey(0, 0.0, 0.0, 0.0, (), 0.0)
    wide = max(high - low for low, high in (row.x0_inner, row.y0_inner))
    return Survey(row.segments, row.travelled, row.lasted, row.furthest, row.starts, wide)


def movement_statistics(trajectories: DataFrame) -> MovementStatistics:
    """The same as `antecast.traces.statistics.movement_statistics`."""
    lasting = _motion(trajectories).filter(F.col("t1") > F.col("t0"))
    nodes = lasting.groupBy("node").agg(
        F.sum(F.col("t1") - F.col("t0")).alias("stay"), F.min("t0").alias("t0"), F.max("t1").alias("t1")
    )
    row = nodes.agg(
        F.count("*").alias("n"), F.min("t0").alias("start"), F.max("t1").alias("end"), *_spread("stay")
    )
    found = row.collect()[0]
    return MovementStatistics(
        found.n, _most_at_once(lasting, "t0", "t1"), found.start or 0, found.end or 0, _as_spread(found)
    )


def contact_statistics(found: DataFrame) -> ContactStatistics:
    """The same as `antecast.traces.statistics.contact_statistics`."""
    length = found.select((F.col("end") - F.col("start")).alias("length"))
    row = length.agg(F.count("*").alias("n"), *_spread("length")).collect()[0]
    return ContactStatistics(row.n, _as_spread(row))


def _most_at_once(intervals: DataFrame, start: str, end: str) -> int:
    """The most intervals that hold one instant: a running sum, taken apart by ranges of time."""
    steps = intervals.select(F.col(start).alias("t"), F.lit(1).alias("step")).unionAll(
        intervals.select(F.col(end).alias("t"), F.lit(-1).alias("step"))
    )
    net = steps.groupBy("t").agg(F.sum("step").alias("step")).filter(F.col("step") != 0)

    def climb(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first, level, most = None, 0, 0
        for batch in batches:
            if not batch.num_rows:
                continue
            first = batch["t"][0].as_py() if first is None else first
            heights = level + np.cumsum(batch["step"].to_numpy())
            level, most = int(heights[-1]), max(most, int(heights.max()))
        if first is not None:
            yield pa.RecordBatch.from_pydict({"t": [first], "climbed": [level], "most": [most]})

    ordered = net.repartitionByRange("t").sortWithinPartitions("t")
    level = most = 0
    for row in sorted(ordered.mapInArrow(climb, "t long, climbed long, most long").collect()):
        most = max(most, level + row.most)
        level += row.climbed
    return most


def _motion(trajectories: DataFrame) -> DataFrame:
    return trajectories.select(
        F.col("node").cast("string"),
        *(F.col(name).cast("long" if name in ("t0", "t1") else "double") for name in TRAJECTORIES.names[1:]),
    )


def _spread(column: str) -> list[Column]:
    return [
        each(column).alias(f"_{name}")
        for name, each in (("min", F.min), ("max", F.max), ("mean", F.mean), ("stdev", F.stddev_pop))
    ]


def _as_spread(row: Any) -> Spread:
    return Spread(*(float(row[f"_{name}"] or 0.0) for name in ("min", "max", "mean", "stdev")))
