"""Contact detection: its time grows with segments and contacts, not with the square of the nodes.

Vehicles drive for an hour along the streets of a square city, 500 m from junction to junction, and wait at every
third. One row of the table after the other doubles the nodes, at first in a city that grows with them (contacts
double), then in one of 20 × 20 km (contacts grow fourfold). Last, the largest city once more on Spark, and with
`--large` one of 100 000 nodes, of which no process holds more than a part.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.traces.contact_detection import (
    LOCAL_PART,
    find_contacts,
    make_plan,
    read_segments,
    search,
    survey,
)
from antecast.traces.schema import TRAJECTORIES
from bench.processes import cpu_seconds, watched
from bench.table import report

HOUR = 3600
REACH = 200.0
BLOCK = 500.0
SIDE = 20_000.0
NODES = (1250, 2500, 5000, 10_000)


def city(nodes: int, side: float, seed: int = 1, first: int = 0) -> pa.Table:
    """Trajectories of vehicles for an hour, a segment a street."""
    draw = np.random.default_rng(seed)
    streets = round(side / BLOCK)
    legs = 120
    heading = draw.integers(0, 4, (nodes, legs))
    steps = np.stack([[1, 0, -1, 0], [0, 1, 0, -1]], axis=1)[heading]  # a junction on
    steps *= (np.arange(legs) % 3 != 2)[None, :, None]  # or none: waiting
    start = draw.integers(0, streets, (nodes, 1, 2))
    walked = np.concatenate([start, start + np.cumsum(steps, axis=1)], axis=1)
    walked = streets - np.abs(streets - walked % (2 * streets))  # turned back at the edge of the city
    speed = draw.uniform(6.0, 14.0, (nodes, 1))
    took = np.where(steps.any(axis=2), BLOCK / speed, draw.uniform(5, 40, (nodes, legs)))
    ends = np.concatenate([np.zeros((nodes, 1)), np.cumsum(took, axis=1)], axis=1)
    t = np.round(ends * 1e9).astype(np.int64)
    x, y = np.moveaxis(walked * BLOCK, 2, 0)
    keep = ends[:, 1:] <= HOUR
    names = pa.array([f"v{first + number}" for number in range(nodes)])
    codes = np.repeat(np.arange(nodes, dtype=np.int32), legs)[keep.ravel()]
    columns = [(each[:, :-1][keep], each[:, 1:][keep]) for each in (t, x, y)]
    begins, finishes = ([column[end] for column in columns] for end in (0, 1))
    return pa.table([pa.DictionaryArray.from_arrays(codes, names), *begins, *finishes], schema=TRAJECTORIES)


def in_one_process(kind: str, nodes: int, side: float) -> dict[str, Any]:
    table = city(nodes, side)
    begin = time.process_time()
    found = len(find_contacts(table, REACH))
    seconds = time.process_time() - begin
    segments = read_segments(table)
    parts = list(search(segments, make_plan(REACH, survey(segments), a_part=LOCAL_PART)))
    return {
        "city": kind,
        "nodes": nodes,
        "segments": len(table),
        "contacts": found,
        "compared": sum(each.compared for each in parts),
        "solved exactly": sum(each.doubtful for each in parts),
        "seconds": seconds,
        **_rate(len(table), found, seconds),
        "against one process": "",
        "worker MB": "",
    }


def on_spark(kind: str, nodes: int, side: float, same: dict[str, Any] | None) -> dict[str, Any]:
    """A city on Spark: CPU time of driver, Java and workers; it must find as many contacts as one process.

    What it is compared with is one process that reads the same file and writes its contacts to another.
    """
    from antecast.spark.contacts import contacts
    from antecast.spark.session import spark_session

    with tempfile.TemporaryDirectory() as folder, spark_session("bench contacts") as spark:
        moving, out = Path(folder) / "moving.parquet", Path(folder) / "out"
        segments = write_city(moving, nodes, side)
        for warm in ("first", "second"):  # Spark, its compiler and its workers are warm
            few = Path(folder) / f"{warm}.parquet"
            pq.write_table(city(1000, SIDE / 4), few)
            contacts(spark.read.parquet(str(few)), REACH, a_part=40_000).write.parquet(str(Path(folder) / warm))
        before = cpu_seconds()
        with watched() as peak:
            contacts(spark.read.parquet(str(moving)), REACH).write.parquet(str(out))
        seconds = cpu_seconds() - before
        found = spark.read.parquet(str(out)).count()
        here = 0.0
        if same is not None:
            begin = time.process_time()
            pq.write_table(find_contacts(pq.read_table(moving), REACH), Path(folder) / "here.parquet")
            here = time.process_time() - begin
    assert same is None or found == same["contacts"]
    row = {"city": kind, "nodes": nodes, "segments": segments, "contacts": found}
    row |= {"compared": "", "solved exactly": "", "seconds": seconds} | _rate(segments, found, seconds)
    return row | {
        "against one process": seconds / here if same else "",
        "worker MB": round(peak["worker MB"]),
    }


def write_city(path: Path, nodes: int, side: float) -> int:
    """A city as a file, ten thousand vehicles at a time."""
    segments = 0
    with pq.ParquetWriter(path, TRAJECTORIES) as writer:
        for first in range(0, nodes, 10_000):
            some = city(min(10_000, nodes - first), side, seed=1 + first, first=first)
            segments += len(some)
            writer.write_table(some)
    return segments


def _rate(segments: int, contacts: int, seconds: float) -> dict[str, float]:
    return {"µs each": 1e6 * seconds / (segments + contacts)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Contact detection, in one process and on Spark.")
    parser.add_argument("--large", action="store_true", help="also 100,000 nodes, on Spark alone")
    options = parser.parse_args()
    find_contacts(city(10, 1000.0), REACH)  # compiled
    rows = [in_one_process("grows", nodes, SIDE * sqrt(nodes / NODES[-1])) for nodes in NODES]
    rows += [in_one_process("20 km", nodes, SIDE) for nodes in NODES]
    rows.append(on_spark("20 km, Spark", NODES[-1], SIDE, rows[-1]))
    if options.large:
        rows.append(on_spark("grows, Spark", 100_000, SIDE * sqrt(10), None))
    note = (
        "CPU seconds, on Spark of driver, Java and workers together, once these are warm. µs each: per segment or "
        "contact. One process, to compare with, reads and writes the same files as Spark. Goals: a time that "
        "follows segments and contacts, not the square of the nodes; on Spark at most 1.5 times one process."
    )
    report("contacts", f"Contacts at {REACH:g} m in an hour of city traffic", rows, note=note)


if __name__ == "__main__":
    main()
