"""Contacts on Spark: movement in, contacts out, as DataFrames.

    from antecast.spark.contacts import contacts

    found = contacts(spark.read.parquet("trajectories.parquet"), 200.0)

One pass over the trajectories measures them and makes a plan (`antecast.traces.contact_detection`): slabs of
time and, for very many nodes, blocks of space. Then every segment is sent to the parts it matters to, each
part is searched by the compiled kernel, and the intervals of a pair are joined across parts. What is collected
are the names of the nodes, since their order is that of the result, and some thousand segments of each task. All
the rest moves as numbers, packed (`antecast.spark.contact_tasks`), and needs no sort by Spark: contacts go to
ranges of time by their start, and each range is sorted by its task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from antecast.spark.contact_tasks import PARCELS, Finish, Join, Measure, Measured, Search, Send
from antecast.spark.session import job_description
from antecast.traces.contact_detection import BrokenTrajectories, make_plan
from antecast.traces.schema import TRAJECTORIES
from antecast.traces.statistics import ContactStatistics, MovementStatistics, Spread

SPARK_PART = 1 << 18
"""About how many segments a part holds: some 20 megabytes on the way, a few hundred while it is searched."""

TOGETHER = 1 << 16
"""Segments of a part that are searched together."""


def contacts(trajectories: DataFrame, reach: float, *, a_part: int = SPARK_PART) -> DataFrame:
    """All contacts at a range in metres: `a`, `b`, `start`, `end`, sorted as the schema `CONTACTS` says.

    The columns are those of the schema `TRAJECTORIES`; others are ignored. Measuring them runs a Spark job at
    once, the rest runs when the result is used.
    """
    measured = measure(trajectories)
    survey = measured.survey()
    plan = make_plan(reach, survey, a_part=a_part)
    names = pa.array(measured.sorted_names(), pa.string())
    tasks = max(1, ceil(survey.segments / a_part))
    ranges = survey.instants(tasks)
    moments = survey.instants(ceil(survey.segments / max(TOGETHER, survey.at_once)))

    sent = _motion(trajectories).mapInArrow(Send(plan, names, tasks), PARCELS)
    found = sent.repartitionById(tasks, "part").mapInArrow(Search(plan, tasks, ranges, moments), PARCELS)
    whole = found.repartitionById(tasks, "part").mapInArrow(Join(tasks, ranges), PARCELS)
    in_order = whole.repartitionById(len(ranges) + 1, "part")
    return in_order.mapInArrow(Finish(names), "a string, b string, start long, end long")


def measure(trajectories: DataFrame) -> Measured:
    """Measure trajectories for their plan, in one pass; refuse those that cannot be used."""
    missing = [name for name in TRAJECTORIES.names if name not in trajectories.columns]
    if missing:
        raise BrokenTrajectories(f"no column {missing[0]!r}; there are {', '.join(trajectories.columns)}")
    total = Measured()
    with job_description(trajectories.sparkSession, "contacts: measure the trajectories"):
        for row in _motion(trajectories).mapInArrow(Measure(), PARCELS).collect():
            total.add(pickle.loads(row.body))
    if total.problem is not None:
        raise BrokenTrajectories(total.problem)
    return total


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
