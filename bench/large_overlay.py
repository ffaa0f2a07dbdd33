"""A large world of PC-broadcast over Spray: links and processes that come and go for ten minutes, and the verdict
on its order.

    python -m bench.large_overlay [PROCESSES]...

Every process exchanges once per minute, so links change all the time; a hundred messages are broadcast, delays are
10 to 200 ms. Spread over the ten minutes one process in a thousand crashes, as many leave and as many join. Links
are made safe by syncs (`tries = 0`): a flooded ping for each link without an introducer would be a flood of its
own. The verdict is computed from what each process delivered, and in which order. Each size runs in a process of
its own, for its peak of memory; the engine is loaded before the clock starts. Default: 10,000 and 100,000
processes; 1,000,000 make two thousand million events, in some twenty minutes.
"""

from __future__ import annotations

import resource
import time
from concurrent.futures import ProcessPoolExecutor
from math import log
from multiprocessing import get_context
from typing import Any

from antecast.sim.overlay.compiled import simulate
from antecast.sim.scenario import Scenario, make_scenario
from bench.table import progress, report, sizes_asked

SIZES = (10_000, 100_000)
BROADCASTS, SECONDS = 100, 600
PER_CHANGE = 1_000
"""Processes of whom one crashes, one leaves, and to whom one comes."""


def world(processes: int, broadcasts: int, seconds: int) -> Scenario:
    every = seconds / (broadcasts + 1)
    changes = max(1, processes // PER_CHANGE)
    faults = [
        {"kind": kind, "at": f"{round(1e6 * seconds * (k + shift) / changes)}us", "node": node}
        for k in range(changes)
        for shift, kind, node in (
            (0.2, "crash", (104_729 * k + 1) % processes),
            (0.5, "leave", (104_729 * k + 2) % processes),
            (0.8, "join", processes + k),
        )
    ]
    sent = [{"t": f"{round(1000 * every * k)}ms", "node": 7919 * k % processes} for k in range(1, broadcasts + 1)]
    return make_scenario(
        {
            "nodes": processes,
            "duration": f"{seconds}s",
            "drain": "30s",
            "protocol": {"name": "pc-broadcast", "tries": 0},
            "network": {
                "topology": {"kind": "spray", "arcs": 7.5, "every": "60s"},
                "fifo": True,
                "delay": {"kind": "uniform", "low": "10ms", "high": "200ms"},
            },
            "workload": [{"kind": "at", "broadcasts": sent}],
            "faults": faults,
            "log": {"sample": "0s", "events": "order"},
        }
    )


def measured(processes: int) -> dict[str, Any]:
    """One size, in a process of its own."""
    simulate(world(50, 3, 60)).order()
    said = progress(f"{processes:,} processes")
    found = simulate(world(processes, BROADCASTS, SECONDS), on_progress=said)
    begun = time.process_time()
    order = found.order()
    judging = time.process_time() - begun
    return {
        "processes": processes,
        "crash, leave and join": 3 * max(1, processes // PER_CHANGE),
        "events": found.events,
        "links opened": found.counts["opened"],
        "CPU s": found.cpu,
        "events per CPU second": found.events / found.cpu,
        "deliveries": order.deliveries,
        "missed": order.missed,
        "order": f"{order.outcome}, {order.early} early",
        "judging, CPU s": judging,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    sizes = sizes_asked(__doc__, SIZES)
    rows = []
    for processes in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows.append(alone.submit(measured, processes).result())
    note = "What a process missed: messages while it was not there, and those on their way when the run ended."
    if len(rows) > 1:
        growth = log(rows[-1]["CPU s"] / rows[0]["CPU s"]) / log(rows[-1]["events"] / rows[0]["events"])
        note += f" CPU time grows with the events to the power of {growth:.2f}."
    report("large_overlay", "PC-broadcast over Spray, 100 broadcasts in 10 minutes", rows, note=note)


if __name__ == "__main__":
    main()
