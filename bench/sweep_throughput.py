"""What a sweep costs beside its runs: CPU time and seconds of everything against the runs alone.

The runs are of about a tenth of a second, thousands of them: what a task, a file or a listing costs would show.
One plain process simulates, audits and measures them in a loop and keeps nothing. A sweep on Spark makes the very
same runs into a folder, Spark's start, driver, workers and merging all counted, and so does `--no-spark`; the
events must be equal byte by byte. Then `read_sweep` opens the folder, and pandas reads one run and one value of
it.

    python -m bench.sweep_throughput              300 runs
    python -m bench.sweep_throughput --runs 10000
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from antecast.sim.study import Study, make_study, plan
from bench.processes import cpu_seconds
from bench.table import report

_PR_SET_CHILD_SUBREAPER = 36


def the_study(runs: int) -> Study:
    """Runs of about a tenth of a second."""
    return make_study(
        {
            "name": "throughput",
            "scenario": {
                "nodes": 12,
                "duration": "6s",
                "network": {
                    "topology": {"kind": "random", "degree": 6},
                    "delay": {"kind": "uniform", "low": "5ms", "high": "80ms"},
                },
                "workload": [{"kind": "poisson", "rate": 4.0}],
            },
            "grid": {"protocol.name": ["vector", "fifo"], "network.loss": [0.0, 0.01, 0.02, 0.03, 0.04]},
            "seeds": max(1, runs // 10),
        }
    )


def alone(runs: int) -> None:
    """The runs in a loop: simulate, audit, measure, and throw away."""
    from antecast.history.parts import TABLES, Spill
    from antecast.sim.run import run
    from antecast.spark.task import _measure, _warm_up

    study = the_study(runs)
    _warm_up()
    planned = plan(study)
    begin = time.process_time()
    for each in planned:
        scenario = study.scenario_of(each.index)
        events, samples = (Spill(schema, Path("unused")) for schema in TABLES.values())
        run(scenario, sinks=(events, samples))
        _measure(events, scenario)
    print(time.process_time() - begin)


def swept(runs: int, folder: Path, *, local: bool) -> None:
    from antecast.spark.sweep import sweep

    result = sweep(the_study(runs), out=folder, local=local)
    assert result.complete


def opened(folder: Path) -> None:
    """Seconds to open the sweep's tables with Spark, once Spark is there."""
    from antecast.spark.session import spark_session
    from antecast.spark.sweep import read_sweep

    with spark_session("throughput") as spark:
        spark.range(1).count()
        begin = time.perf_counter()
        tables = read_sweep(spark, folder)
        tables.events.limit(1).count()
        print(time.perf_counter() - begin)


def measured(*arguments: str) -> tuple[float, float, str]:
    """CPU seconds and seconds of a process with all below it, and what it printed.

    Java and its workers outlive the process that started them by a moment. Whoever loses its parent becomes a
    child of this process, which waits for it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, begin = cpu_seconds(), time.perf_counter()
    command = [sys.executable, "-m", "bench.sweep_throughput", *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return cpu_seconds() - before, time.perf_counter() - begin, printed


def reading(folder: Path, **filters: Any) -> float:
    begin = time.perf_counter()
    pq.read_table(folder / "events", filters=[(key, "=", value) for key, value in filters.items()] or None)
    return time.perf_counter() - begin


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "events").iterdir()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--swept", type=Path)
    parser.add_argument("--opened", type=Path)
    parser.add_argument("--local", action="store_true")
    asked = parser.parse_args()
    if asked.alone:
        alone(asked.runs)
    elif asked.swept:
        swept(asked.runs, asked.swept, local=asked.local)
    elif asked.opened:
        opened(asked.opened)
    else:
        compared(asked.runs)


def compared(runs: int) -> None:
    count = ["--runs", str(runs)]
    with tempfile.TemporaryDirectory() as root:
        here, there = Path(root) / "here", Path(root) / "there"
        own = float(measured(*count, "--alone")[2])
        rows = [{"made by": "the runs alone", "CPU seconds": own, "against alone": 1.0, "seconds": own}]
        for name, folder, options in (("--no-spark", here, ["--local"]), ("Spark", there, [])):
            cpu, seconds, _ = measured(*count, "--swept", str(folder), *options)
            rows.append({"made by": name, "CPU seconds": cpu, "against alone": cpu / own, "seconds": seconds})
        assert bytes_of(here) == bytes_of(there), "the two made different runs"
        files = [file.stat().st_size for file in (there / "events").iterdir()]
        row = pq.read_table(there / "runs.parquet").slice(0, 1).to_pylist()[0]
        notes = [
            f"{len(the_study(runs)):,} runs; {len(files)} files of events, the largest {max(files) / 1e6:.1f} MB",
            f"read_sweep and a first row: {float(measured('--opened', str(there))[2]):.1f} s",
            f"one run read in {reading(there, run=row['run']):.2f} s",
            f"one value in {reading(there, network_loss=0.01):.2f} s",
            f"all in {reading(there):.2f} s. CPU seconds are of all processes, their start included. Goal: 1.3",
        ]
    report("sweep_throughput", "A sweep against its runs", rows, note="; ".join(notes))


if __name__ == "__main__":
    main()
