"""Runs in cells: 7 stations, 70 hosts, 300 simulated seconds, the sizes of the cellular study.

At 25 broadcasts per second hosts stand still, and with `cellular` they also walk (`tcp-flooding` does not support
movement). At the paper's lighter load of 5.6 they stand still. The CPU time is that of a run with its log and
samples in memory; an event is one that the scheduler ran.
"""

from __future__ import annotations

import time
from typing import Any

from antecast.papers.cellular.experiment import CALM, WALKING, scenario
from antecast.sim.run import run
from bench.table import report

SECONDS = 300
GOAL = 120
"""CPU seconds that a study run of this size may take."""
POINTS = (
    ("cellular", CALM, False),
    ("cellular", WALKING, False),
    ("cellular", WALKING, True),
    ("tcp-flooding", CALM, False),
    ("tcp-flooding", WALKING, False),
)


def measured(protocol: str, rate: float, walks: bool) -> dict[str, Any]:
    chosen = scenario(protocol, rate, SECONDS, 1, walks=walks, drain=10)
    begun = time.process_time()
    result = run(chosen)
    cpu = time.process_time() - begun
    return {
        "protocol": protocol,
        "broadcasts per second": rate,
        "hosts": "walk" if walks else "stand",
        "CPU seconds": cpu,
        "simulated over CPU time": result.ended / 1e9 / cpu,
        "events per CPU second": result.steps / cpu,
        "rows of the log": result.logged,
        "below the goal": "yes" if cpu < GOAL else "no",
    }


def main() -> None:
    rows = [measured(*point) for point in POINTS]
    note = f"Goal: {SECONDS} simulated seconds at 25 broadcasts per second in less than {GOAL} s of one core."
    report("cells", f"7 stations and 70 hosts, {SECONDS} simulated seconds", rows, note=note)


if __name__ == "__main__":
    main()
