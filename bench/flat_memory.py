"""Peak memory of driver and workers on Spark, from a million events on: it must not grow with the events.

Each figure is of a process of its own with two workers, from the first job to the last, on tables that are made
piece by piece: an audit, metrics, contacts, the causal order of a finished log, and a sweep.

    python -m bench.flat_memory                      10^6 and 10^7 events
    python -m bench.flat_memory --events 1e6 1e8     other sizes
    python -m bench.flat_memory --only audit
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.contacts import REACH, SIDE, write_city
from bench.processes import watched
from bench.table import report

NODES = 100
PIECE = 1_000_000
HEAP = "1g"
"""Of Java, which uses what it may before it collects garbage: what does not fit ends the job."""


def write_log(path: Path, events: int) -> None:
    """Broadcasts of a hundred nodes in turn, each delivered everywhere in that order; a file for each piece."""
    path.mkdir()
    each = NODES + 1
    for number, first in enumerate(range(0, events // each, PIECE // each)):
        message = np.arange(first, min(first + PIECE // each, events // each), dtype=np.int64)
        node = np.concatenate([(message % NODES)[:, None], np.tile(np.arange(NODES), (len(message), 1))], axis=1)
        deliver = np.tile(np.arange(each) > 0, len(message))
        # A node's broadcast stands right before its own delivery of it.
        pos = np.concatenate([2 * message[:, None], np.repeat(2 * message[:, None] + 1, NODES, axis=1)], axis=1)
        columns = {
            "run": pa.array(["one"] * len(deliver)).dictionary_encode(),
            "node": node.ravel(),
            "pos": pos.ravel(),
            "t": np.repeat(message * 1000, each) + deliver * (node.ravel() + 1),
            "kind": pa.array(np.where(deliver, "deliver", "broadcast")),
            "origin": np.repeat(message % NODES, each),
            "seq": np.repeat(message // NODES + 1, each),
            "bytes": np.zeros(len(deliver), dtype=np.int64),
        }
        pq.write_table(pa.table(columns), path / f"{number:05}.parquet")


def audited(spark: Any, folder: Path, events: int) -> None:
    from antecast.spark.audit import audit

    write_log(folder / "log", events)
    assert audit(spark.read.parquet(str(folder / "log"))).outcome != "violated"


def measured(spark: Any, folder: Path, events: int) -> None:
    from antecast.spark import metrics

    write_log(folder / "log", events)
    log = spark.read.parquet(str(folder / "log"))
    assert metrics.summarise(metrics.delivery_latency(log), "latency", by=["run"]).collect()
    assert metrics.cdf(metrics.delivery_latency(log), "latency", by=[], points=50).collect()


def met(spark: Any, folder: Path, events: int) -> None:
    from antecast.spark.contacts import contacts

    nodes = max(100, events // 100)
    write_city(folder / "moving.parquet", nodes, SIDE * sqrt(nodes / 10_000))
    contacts(spark.read.parquet(str(folder / "moving.parquet")), REACH).write.parquet(str(folder / "met"))


def observed(spark: Any, folder: Path, events: int) -> None:
    from antecast.spark import causal_order

    rows = spark.range(0, events, 1, max(2, events // PIECE)).selectExpr(
        "id div 1000 as key",  # groups of a thousand rows that come backwards in pairs
        "(id div 1000) * 1000 + (id % 1000 ^ 1) as id",
        "array((id div 1000) * 1000 + ((id % 1000 ^ 1) - 1)) as needs",
        "id as line",
    )
    rows = rows.selectExpr("key", "id", "if(id % 1000 = 0, array(), needs) as needs", "line")
    ordered = causal_order(rows, id="id", needs="needs", key="key", arrival="line")
    ordered.write.parquet(str(folder / "ordered"))
    assert spark.read.parquet(str(folder / "ordered")).filter("position is not null").count() == events


def swept(spark: Any, folder: Path, events: int) -> None:
    from antecast.spark.sweep import sweep
    from bench.sweep_throughput import the_study

    a_run = 15_000  # events, about
    assert sweep(the_study(max(10, events // a_run)), out=folder / "swept", spark=spark).complete


SUBJECTS: dict[str, Callable[[Any, Path, int], None]] = {
    "sweep": swept,
    "audit": audited,
    "metrics": measured,
    "contacts": met,
    "observe": observed,
}


def one(subject: str, events: int) -> None:
    """One figure, in this process; printed as JSON."""
    from antecast.spark.session import spark_session

    settings = {"spark.driver.memory": HEAP}
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session("flat memory", master="local[2]", settings=settings) as spark,
    ):
        with watched() as peak:
            SUBJECTS[subject](spark, Path(folder), events)
        print(json.dumps(peak))


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of driver and workers, by the number of events.")
    parser.add_argument("--events", nargs="+", type=float, default=[1e6, 1e7])
    parser.add_argument("--only", choices=SUBJECTS, nargs="+", default=list(SUBJECTS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sizes = [int(each) for each in asked.events]
    if asked.one:
        one(asked.one, sizes[0])
        return
    rows = []
    for subject in asked.only:
        for events in sizes:
            command = [sys.executable, "-m", "bench.flat_memory", "--one", subject, "--events", str(events)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            rows.append({"what": subject, "events": events, **json.loads(done.stdout)})
    note = (
        f"The JVM grows as far as it may before it collects garbage (here spark.driver.memory = {HEAP}), and the "
        "tables are made in the driver's Python a million rows at a time. For contacts, events are segments of "
        "movement, of which three times as many contacts come. Goal: the same at every size."
    )
    report("flat_memory", "Peak memory on Spark", rows, note=note)


if __name__ == "__main__":
    main()
