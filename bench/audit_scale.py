"""The auditor on Spark against moving the same rows, and against a join; its time and memory as logs grow.

The log. 500 nodes stand at random points of a city and broadcast in random order; a message reaches each node
after a time that grows with the length of the way along the streets. Ways obey the triangle inequality: what
reached the origin of m before m was broadcast reaches every node before m does. So the log is causal by
geometry, no node waits for anything, and the events of a stretch of time can be made without those before.
At any time 20 messages are under way to the average node, which leaves some 6 direct dependencies per message
(7 after the one round of reduction that the auditor makes). The files are as Antecast writes them: rows in
the order of time, all nodes mixed.

    sort    a plain Spark job: the same columns, repartitioned by node, each node's rows sorted by position
    audit   the auditor, on the same files
    local   the command `antecast audit --engine local` on the same files: one process, its start included
    join    a plain Spark SQL query that compares each delivery with the direct dependencies of its message,
            and is not even exact where nodes miss messages; at a size that it can bear

`--alone` measures `local` only, without Spark, with CPU seconds of the process and its largest resident size;
`--memory` is then what it may use for events (default: half of what is free). A billion deliveries, once:
`python -m bench.audit_scale --size 1e9 --alone --memory 2GB --folder DIR` writes about 6 GB to DIR, which stays
there, and needs 20 GB more for temporary files.

Memory is the largest resident size, in MB, seen while the audit ran: of the driver's JVM, which is all of Spark
in local mode and as large as its heap may be, of the driver's Python, and of the largest Python worker.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.history.schema import EVENTS, KINDS, Kind
from antecast.spark.audit import TASK_ROWS, audit
from antecast.spark.session import spark_session
from antecast.text.sizes import parse_size
from bench.processes import watched
from bench.table import report

NODES = 500
UNDER_WAY = 20
SIDE = 1_000_000
FILE_ROWS = 10_000_000
SLICE_ROWS = 1_000_000
READ = ("run", "node", "pos", "kind", "origin", "seq")
WARM_UP = 2_000_000

_HERE = """
import resource, sys
from antecast import audit
options = {"memory": int(sys.argv[2])} if len(sys.argv) > 2 else {}
outcome = audit(sys.argv[1], engine="local", **options).outcome
used = resource.getrusage(resource.RUSAGE_SELF)
print(outcome, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""

JOIN = """
WITH numbered AS (
    SELECT *, sum(int(kind = 'broadcast')) OVER (PARTITION BY node ORDER BY pos) AS epoch FROM log
), broadcasts AS (
    SELECT node AS origin, seq, epoch FROM numbered WHERE kind = 'broadcast'
), seen AS (
    SELECT node, epoch + 1 AS epoch, origin, max(seq) AS seq FROM numbered GROUP BY node, epoch, origin
), dependencies AS (
    SELECT m.origin, m.seq, seen.origin AS past_origin, seen.seq AS past_seq
    FROM seen JOIN broadcasts m ON seen.node = m.origin AND seen.epoch = m.epoch
), deliveries AS (
    SELECT node, pos, origin, seq FROM log WHERE kind = 'deliver'
)
SELECT count(*) AS wrong
FROM deliveries m
JOIN dependencies d ON m.origin = d.origin AND m.seq = d.seq
JOIN deliveries x ON x.node = m.node AND x.origin = d.past_origin AND x.seq = d.past_seq
WHERE x.pos > m.pos
"""


def write_log(folder: Path, deliveries: int, seed: int = 1) -> int:
    """A causal log of so many deliveries, a stretch of time after the other; the number of its rows."""
    draw = np.random.default_rng(seed)
    messages = max(1, deliveries // NODES)
    places = draw.integers(0, SIDE, (NODES, 2))
    way = np.abs(places[:, None] - places[None]).sum(axis=2)
    sent = np.cumsum(draw.exponential(way.mean() / UNDER_WAY, messages)).astype(np.int64)
    origin = draw.integers(0, NODES, messages)
    by_origin = np.argsort(origin, kind="stable")
    seq = np.empty(messages, np.int64)
    seq[by_origin] = 1 + np.arange(messages) - np.searchsorted(origin[by_origin], origin[by_origin])
    history = np.zeros(NODES, np.int64)
    bounds = [0, *sent[:: SLICE_ROWS // NODES][1:].tolist(), int(sent[-1] + way.max() + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    writer: Any = None
    written = total = 0
    for begin, end in pairwise(bounds):
        low, high = np.searchsorted(sent, [begin - way.max(), end])
        arrival = sent[low:high, None] + way[origin[low:high]]
        message, node = np.nonzero((arrival >= begin) & (arrival < end))
        t = arrival[message, node]
        message += low
        own = node == origin[message]  # broadcast, then delivered at once
        message, node, t = (np.repeat(column, 1 + own) for column in (message, node, t))
        kind = np.full(len(t), Kind.DELIVER, np.int32)
        kind[np.cumsum(1 + own)[own] - 2] = Kind.BROADCAST
        order = np.argsort(t, kind="stable")  # of equal times, the older message first: as it must be
        message, node, t, kind = message[order], node[order], t[order], kind[order]
        grouped = np.argsort(node.astype(np.int16), kind="stable")
        counts = np.bincount(node, minlength=NODES)
        pos = np.empty(len(t), np.int64)
        pos[grouped] = np.arange(len(t)) + np.repeat(history - (np.cumsum(counts) - counts), counts)
        history += counts
        if writer is None or written >= FILE_ROWS:
            if writer is not None:
                writer.close()
            name = folder / f"events-{total // FILE_ROWS:03}.parquet"
            writer = pq.ParquetWriter(name, EVENTS, compression="zstd", compression_level=1)
            written = 0
        writer.write_batch(_batch(node, pos, t, kind, origin[message], seq[message]))
        written += len(t)
        total += len(t)
    writer.close()
    return total


def _batch(node: Any, pos: Any, t: Any, kind: Any, origin: Any, seq: Any) -> pa.RecordBatch:
    size = len(t)
    columns = {
        "run": pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), ["bench"]),
        "node": node.astype(np.int32),
        "pos": pos,
        "t": t,
        "kind": pa.DictionaryArray.from_arrays(pa.array(kind), KINDS),
        "origin": origin.astype(np.int32),
        "seq": seq,
        "peer": pa.nulls(size, pa.int32()),
        "bytes": np.zeros(size, np.int64),
    }
    return pa.RecordBatch.from_pydict(columns, schema=EVENTS)


def sort_rows(spark: Any, log: Path, parts: int) -> float:
    """Seconds for Spark to bring the rows of each node together and into order."""
    begin = time.perf_counter()
    rows = spark.read.parquet(str(log)).select(*READ)
    ordered = rows.repartition(parts, "node").sortWithinPartitions("node", "pos")
    ordered.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def audit_rows(spark: Any, log: Path) -> float:
    begin = time.perf_counter()
    verdict = audit(spark.read.parquet(str(log)))
    assert verdict.outcome == "causal", verdict
    return time.perf_counter() - begin


def join_rows(spark: Any, log: Path) -> float:
    begin = time.perf_counter()
    spark.read.parquet(str(log)).select(*READ).createOrReplaceTempView("log")
    (row,) = spark.sql(JOIN).collect()
    assert row["wrong"] == 0
    return time.perf_counter() - begin


def audit_here(log: Path, memory: int | None = None) -> dict[str, Any]:
    """Seconds and memory of one process that audits the log, read from its own lips."""
    command = [sys.executable, "-c", _HERE, str(log), *([] if memory is None else [str(memory)])]
    begin = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, (outcome, cpu, peak) = time.perf_counter() - begin, done.stdout.split()
    assert outcome == "causal", done.stdout
    return {"local s": seconds, "local CPU s": float(cpu), "local MB": round(int(peak) / 1e3)}


def measure_alone(root: Path, deliveries: int, *, reuse: bool, memory: int | None) -> dict[str, Any]:
    log = root / f"log-{deliveries}"
    if not (reuse and log.is_dir()):
        write_log(log, deliveries)
    found = audit_here(log, memory)
    if not reuse:
        shutil.rmtree(log)
    return {"deliveries": deliveries, "messages": deliveries // NODES, **found}


def measure(
    spark: Any, root: Path, deliveries: int, *, join: bool, reuse: bool, sort: bool = True, local: bool = False
) -> dict[str, Any]:
    log = root / f"log-{deliveries}"
    if not (reuse and log.is_dir()):
        write_log(log, deliveries)
    try:
        with watched() as peak:
            audited = audit_rows(spark, log)
        parts = max(int(spark.conf.get("spark.sql.shuffle.partitions")), deliveries // TASK_ROWS)
        sorted_ = sort_rows(spark, log, parts) if sort else None
        here = audit_here(log) if local else {}
        joined = join_rows(spark, log) if join else None
    finally:
        if not reuse:
            shutil.rmtree(log)
    return {
        "deliveries": deliveries,
        "messages": deliveries // NODES,
        "sort s": sorted_ if sorted_ is not None else "",
        "audit s": audited,
        "audit / sort": audited / sorted_ if sorted_ is not None else "",
        "million/s": deliveries / audited / 1e6,
        "join s": joined if joined is not None else "",
        "join / audit": joined / audited if joined is not None else "",
        **{name: round(size) for name, size in peak.items()},
        **here,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The auditor on Spark, at scale.")
    parser.add_argument("--size", type=float, default=1e7, help="deliveries (default 1e7; the full size is 1e8)")
    parser.add_argument("--linear", action="store_true", help="also a quarter and a half of the size")
    parser.add_argument("--join-size", type=float, default=1e6, help="deliveries for the join; 0 leaves it out")
    parser.add_argument("--folder", type=Path, help="keep the logs here, and use those that are there")
    parser.add_argument("--heap", default="1g", help="heap of the driver's JVM (default 1g, as Spark's)")
    parser.add_argument("--alone", action="store_true", help="one process only, without Spark")
    parser.add_argument("--memory", help="what one process may use for events, such as 2GB, with --alone")
    parser.add_argument(
        "--no-sort", action="store_true", help="leave out the sort that the audit is compared with"
    )
    parser.add_argument("--local", action="store_true", help="also audit the largest size in one process")
    options = parser.parse_args()
    sizes = [int(options.size / part) for part in ((4, 2, 1) if options.linear else (1,))]
    with tempfile.TemporaryDirectory() as temporary:
        root, reuse = options.folder or Path(temporary), options.folder is not None
        if options.alone:
            memory = None if options.memory is None else parse_size(options.memory)
            rows = [measure_alone(root, size, reuse=reuse, memory=memory) for size in sizes]
            held = "half of what is free" if memory is None else options.memory
            note = f"One process, start included; memory for events: {held}."
            report("audit_scale", f"Auditing {NODES} nodes in one process", rows, note=note, part="alone")
            return
        settings = {"spark.driver.memory": options.heap, "spark.local.dir": str(root / "spark")}
        with spark_session("audit scale", settings=settings) as spark:
            for _ in range(2):  # Java compiles what it has seen often enough
                measure(spark, root, WARM_UP, join=False, reuse=reuse)
            rows = []
            if options.join_size:
                rows.append(measure(spark, root, int(options.join_size), join=True, reuse=reuse))
            for size in sizes:
                last = options.local and size == sizes[-1]
                rows.append(
                    measure(spark, root, size, join=False, reuse=reuse, sort=not options.no_sort, local=last)
                )
    cores = os.cpu_count()
    note = (
        f"local[{cores}], one run each after two of {WARM_UP:,} to warm up. "
        "Goals: audit / sort at most 1.5, join / audit at least 10, time linear, memory flat."
    )
    report("audit_scale", f"Auditing {NODES} nodes", rows, note=note)


if __name__ == "__main__":
    main()
