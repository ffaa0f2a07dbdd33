"""The auditor on Spark against moving the same rows, on logs of different shapes.

    city          500 nodes broadcast at random times, as in `bench.audit_scale`
    rounds        500 nodes all broadcast in every round, and hear of a round in any order before the next
    one origin    all messages come from one of 500 nodes
    half at one   one node hears of everything, and has half of all events
    many nodes    up to a million nodes that hear of ten messages each
    many runs     10,000 runs of ten nodes

`sort` is a plain Spark job: the same columns, repartitioned by node, each node's rows sorted by position. CPU
time is that of driver, Java and workers together; memory is the largest resident size while the audit ran.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from antecast.spark.audit import TASK_ROWS, audit
from antecast.spark.session import spark_session
from bench.audit_scale import write_log
from bench.processes import cpu_seconds, watched
from bench.table import report

Numbers: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = tuple[Numbers, Numbers, NDArray[np.bool_], Numbers, Numbers]
"""Run, node, whether it is a delivery, origin and seq, in the order of each node's history."""

NODES = 500
READ = ("run", "node", "pos", "kind", "origin", "seq")
FILE_ROWS = 2_000_000


def rounds(deliveries: int, draw: np.random.Generator) -> Columns:
    """Each node broadcasts, then hears of the round of all others in an order of its own."""
    count = max(1, deliveries // (NODES * (NODES - 1)))
    heard = np.argsort(draw.random((count, NODES, NODES)), axis=2)  # node by node, the order of origins
    node, number = np.arange(NODES)[None, :, None], np.arange(count)[:, None, None]
    others = heard[heard != np.broadcast_to(node, heard.shape)].reshape(count, NODES, NODES - 1)
    origin = np.concatenate([np.broadcast_to(node, (count, NODES, 1)), others], axis=2)
    delivered = np.ones(origin.shape, np.bool_)
    delivered[:, :, 0] = False
    seq = np.broadcast_to(number + 1, origin.shape)
    return _flat(np.zeros_like(origin), np.broadcast_to(node, origin.shape), delivered, origin, seq)


def one_origin(deliveries: int, draw: np.random.Generator) -> Columns:
    count = max(1, deliveries // NODES)
    node, number = (each.ravel() for each in np.meshgrid(np.arange(NODES), np.arange(count) + 1, indexing="ij"))
    return np.zeros_like(node), node, node != 0, np.zeros_like(node), number


def half_at_one(deliveries: int, draw: np.random.Generator) -> Columns:
    """Nodes broadcast in turn; one hears of everything, each other one of a few."""
    count = deliveries // 2
    origin = 1 + np.arange(count) % NODES
    seq = 1 + np.arange(count) // NODES
    everything = (np.zeros(count, np.int64), np.ones(count, np.bool_), origin, seq)
    sent = (origin, np.zeros(count, np.bool_), origin, seq)
    other = 1 + origin % NODES
    heard = (other, np.ones(count, np.bool_), origin, seq)
    node, delivered, origin, seq = (np.concatenate(each) for each in zip(everything, sent, heard, strict=True))
    when = np.concatenate([3 * np.arange(count) + kind for kind in (2, 0, 1)])
    order = np.argsort(when, kind="stable")
    return np.zeros(len(node), np.int64), node[order], delivered[order], origin[order], seq[order]


def many_nodes(deliveries: int, draw: np.random.Generator) -> Columns:
    """Twenty nodes broadcast in turn; each of the others hears of ten messages in a row."""
    sources, count, each = 20, 1000, 10
    nodes = max(20, min(1_000_000, deliveries // each))
    message = np.concatenate(
        [np.arange(count), (draw.integers(0, count - each, (nodes, 1)) + np.arange(each)).ravel()]
    )
    node = np.concatenate([np.arange(count) % sources, sources + np.repeat(np.arange(nodes), each)])
    delivered = np.arange(len(node)) >= count
    return np.zeros(len(node), np.int64), node, delivered, message % sources, 1 + message // sources


def many_runs(deliveries: int, draw: np.random.Generator) -> Columns:
    runs, nodes = 10_000, 10
    count = max(1, deliveries // (runs * nodes * nodes))
    run, number, node, place = np.meshgrid(
        np.arange(runs), np.arange(count), np.arange(nodes), np.arange(nodes), indexing="ij"
    )
    origin = (node + place) % nodes
    return _flat(run, node, place > 0, origin, number + 1)


def _flat(*columns: NDArray[Any]) -> Columns:
    run, node, delivered, origin, seq = (np.ascontiguousarray(each).reshape(-1) for each in columns)
    return run, node, delivered, origin, seq


SHAPES: dict[str, Callable[[int, np.random.Generator], Columns]] = {
    "rounds": rounds,
    "one origin": one_origin,
    "half at one": half_at_one,
    "many nodes": many_nodes,
    "many runs": many_runs,
}


def write_shape(folder: Path, shape: str, deliveries: int) -> None:
    if shape == "city":
        write_log(folder, deliveries)
        return
    run, node, delivered, origin, seq = SHAPES[shape](deliveries, np.random.default_rng(1))
    order = np.lexsort((np.arange(len(node)), node, run))
    first = np.concatenate(([True], (np.diff(node[order]) != 0) | (np.diff(run[order]) != 0)))
    starts = np.flatnonzero(first)
    pos = np.empty(len(node), np.int64)
    pos[order] = np.arange(len(node)) - np.repeat(starts, np.diff(np.append(starts, len(node))))
    kind = pa.DictionaryArray.from_arrays(pa.array(delivered.astype(np.int8)), ["broadcast", "deliver"])
    table = pa.table({"run": run, "node": node, "pos": pos, "kind": kind, "origin": origin, "seq": seq})
    folder.mkdir()
    for first_row in range(0, len(table), FILE_ROWS):
        pq.write_table(table.slice(first_row, FILE_ROWS), folder / f"{first_row:012}.parquet")


def measure(spark: Any, log: Path, shape: str) -> dict[str, Any]:
    rows = spark.read.parquet(str(log)).select(*READ)
    events = rows.count()
    cpu, begin = cpu_seconds(), time.perf_counter()
    parts = max(2, events // TASK_ROWS)
    ordered = rows.repartition(parts, "run", "node").sortWithinPartitions("run", "node", "pos")
    ordered.write.format("noop").mode("overwrite").save()
    sort, sort_cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    cpu, begin = cpu_seconds(), time.perf_counter()
    with watched() as peak:
        verdict = audit(rows)
    audited, audit_cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    assert verdict.outcome == "causal", verdict
    return {
        "shape": shape,
        "events": events,
        "messages": verdict.messages,
        "sort s": sort,
        "audit s": audited,
        "audit / sort": audited / sort,
        "in CPU time": audit_cpu / sort_cpu,
        **{name: round(size) for name, size in peak.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The auditor on Spark, on logs of different shapes.")
    parser.add_argument("--size", type=float, default=2e6, help="deliveries (default: 2e6; large: 2e7)")
    parser.add_argument("--shape", action="append", choices=["city", *SHAPES], help="only this shape")
    options = parser.parse_args()
    shapes = options.shape or ["city", *SHAPES]
    with tempfile.TemporaryDirectory() as root, spark_session("audit shapes") as spark:
        for number in range(2):  # Java compiles what it has seen often enough
            write_shape(Path(root) / f"warm {number}", "city", 500_000)
            measure(spark, Path(root) / f"warm {number}", "city")
        rows = []
        for shape in shapes:
            write_shape(Path(root) / shape, shape, int(options.size))
            rows.append(measure(spark, Path(root) / shape, shape))
    report("audit_shapes", "Auditing logs of different shapes", rows, note="Goal: audit / sort at most 1.5.")


if __name__ == "__main__":
    main()
