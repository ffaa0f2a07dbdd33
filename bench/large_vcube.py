"""A large world of VCube: every node broadcasts once, to all others, in the network of the paper's section 5.

    python -m bench.large_vcube [NODES]...

Without aggregation n messages take n (n - 1) packets; each node keeps a clock of n entries. The log is not kept,
but the order of its deliveries is judged as it is written. Each size runs in a process of its own, for its peak of
memory; the engine is loaded before the clock starts. Default: 1,024, 2,048 and 4,096 nodes; the largest is 16,384.
"""

from __future__ import annotations

import resource
from concurrent.futures import ProcessPoolExecutor
from math import log
from multiprocessing import get_context
from typing import Any

import msgspec

from antecast.history.log import DiscardSink
from antecast.papers.vcube.experiment import scenario
from antecast.sim import RunResult, run
from bench.order import OrderSink
from bench.table import progress, report, sizes_asked

SIZES = (1024, 2048, 4096)


def made(nodes: int) -> tuple[RunResult, OrderSink]:
    chosen = scenario(nodes, "calibrated", 1, aggregate=False, log="order")
    # In simulated time the packets come late: the rows of the log say better how far the run has come.
    said, rows = progress(f"{nodes:,} nodes"), nodes * (nodes + 1)
    order = OrderSink(nodes, nodes, DiscardSink())
    result = run(
        msgspec.structs.replace(chosen, engine="compiled"),
        sinks=(order, DiscardSink()),
        on_progress=lambda so_far: said(so_far.events, rows),
    )
    return result, order


def measured(nodes: int) -> dict[str, Any]:
    """One size, in a process of its own."""
    made(8)
    (found, order), packets = made(nodes), nodes * (nodes - 1)
    assert found.logged >= packets + nodes, "some messages were not delivered everywhere"
    return {
        "nodes": nodes,
        "packets": packets,
        "rows of the log": found.logged,
        "CPU s": found.cpu - order.cpu,
        "packets per CPU second": packets / (found.cpu - order.cpu),
        "order": order.verdict,
        "judging, CPU s": order.cpu,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    sizes = sizes_asked(__doc__, SIZES)
    rows = []
    for nodes in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows.append(alone.submit(measured, nodes).result())
    note = "Every message was delivered everywhere."
    if len(rows) > 1:
        growth = log(rows[-1]["CPU s"] / rows[0]["CPU s"]) / log(rows[-1]["packets"] / rows[0]["packets"])
        note += f" CPU time grows with the packets to the power of {growth:.2f}."
    report("large_vcube", "VCube, each node broadcasts once", rows, note=note)


if __name__ == "__main__":
    main()
