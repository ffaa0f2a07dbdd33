"""A large world of opportunistic exchange: as many nodes as wanted over a day's contacts, by the compiled engine.

    python -m bench.large_opportunistic [NODES [PROTOCOL]]

Nodes live on a circle. In a day each has twenty contacts of up to ten minutes, three of four with one of the
hundred nearest, the others with anyone. Two hundred nodes broadcast a message each in the first hour. The log goes
to a file, with what the order needs, and its order is judged on the way. Each size runs in a process of its own,
for its peak of memory; the engine is loaded before the clock starts.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from math import log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.history.log import DiscardSink, ParquetSink
from antecast.history.schema import EVENTS
from antecast.sim import run
from antecast.sim.compiled.choice import prepare
from antecast.sim.scenario import make_scenario
from antecast.traces.schema import CONTACTS
from bench.order import OrderSink
from bench.table import progress, report

SIZES = (25_000, 50_000, 100_000)
CONTACTS_EACH = 20
BROADCASTS = 200
DAY, SECOND = 86_400, 10**9


def lay_out(file: Path, nodes: int) -> int:
    """Write a day's contacts; how many there are."""
    draw = np.random.default_rng(nodes)
    count = nodes * CONTACTS_EACH // 2
    a = draw.integers(0, nodes, count)
    near = (a + draw.integers(1, 51, count) * draw.choice((-1, 1), count)) % nodes
    b = np.where(draw.random(count) < 0.75, near, draw.integers(0, nodes, count))
    start = draw.integers(0, DAY - 600, count) * SECOND
    end = start + draw.integers(30, 601, count) * SECOND
    one, other = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((start, other, one))
    one, other, start, end = (column[order] for column in (one, other, start, end))
    again = np.concatenate([[False], (one[1:] == one[:-1]) & (other[1:] == other[:-1])])
    kept = (one != other) & ~again  # a pair meets once
    names = pa.array(list(map(str, range(nodes))))
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(each[kept].astype(np.int32)), names) for each in (one, other)
    ]
    types = [CONTACTS.field(name).type for name in ("a", "b")]
    arrays = [each.cast(kind) for each, kind in zip(columns, types, strict=True)]
    table = pa.table([*arrays, start[kept], end[kept]], schema=CONTACTS)
    pq.write_table(table.sort_by([("start", "ascending"), ("end", "ascending")]), file)
    return int(kept.sum())


def world(nodes: int, protocol: str) -> dict[str, Any]:
    """One size, in a process of its own."""
    prepare(protocol)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contacts = lay_out(folder / "contacts.parquet", nodes)
        step = nodes // BROADCASTS
        broadcasts = [{"t": f"{18 * each}s", "node": each * step} for each in range(BROADCASTS)]
        begun = time.process_time()
        scenario = make_scenario(
            {
                "engine": "compiled",
                "protocol": {"name": protocol} | ({"lifetime": "24h"} if protocol == "delta" else {}),
                "network": {"topology": {"kind": "contacts", "file": str(folder / "contacts.parquet")}},
                "workload": [{"kind": "at", "broadcasts": broadcasts}],
                "log": {"events": "order", "sample": 0},
            }
        )
        loaded = time.process_time() - begun
        said = progress(f"{protocol}, {nodes:,} nodes")
        order = OrderSink(nodes, BROADCASTS, ParquetSink(folder / "events.parquet", EVENTS))
        result = run(
            scenario,
            sinks=(order, DiscardSink()),
            on_progress=lambda so_far: said(so_far.now, so_far.horizon),
        )
        delivered = result.logged - BROADCASTS - 4 * contacts
    return {
        "protocol": protocol,
        "nodes": nodes,
        "contacts": contacts,
        "deliveries": delivered,
        "events": result.steps,
        "reading the trace, CPU s": loaded,
        "CPU s": result.cpu - order.cpu,
        "events per CPU second": result.steps / (result.cpu - order.cpu),
        "order": order.verdict,
        "judging, CPU s": order.cpu,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="?", type=int, help=f"{BROADCASTS} or more (default: {SIZES})")
    parser.add_argument("protocol", nargs="?", help="default: epidemic, and then delta")
    asked = parser.parse_args()
    sizes = SIZES if asked.nodes is None else (asked.nodes,)
    protocols = [asked.protocol] if asked.protocol else ["epidemic", "delta"]
    rows = []
    for protocol in protocols:
        for nodes in sizes:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                rows.append(alone.submit(world, nodes, protocol).result())
    note = "Epidemic exchange promises no order; what a node missed, nobody brought it that day. "
    if len(sizes) > 1:
        first, last = rows[0], rows[len(sizes) - 1]
        growth = log(last["CPU s"] / first["CPU s"]) / log(last["events"] / first["events"])
        note += f"{protocols[0]}: CPU time grows with the events to the power of {growth:.2f}."
    report("large_opportunistic", "Opportunistic exchange over a day's contacts", rows, note=note)


if __name__ == "__main__":
    main()
