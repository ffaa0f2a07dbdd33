"""The rate of a sweep on all cores against the same runs in one plain Python process.

Both make the very same runs with the very same function (simulate, audit, measure, publish), each round into a
fresh folder, and the logs must be equal byte by byte. The plain process is one of its own. Spark's start is
told apart: it is paid once per sweep, however many runs follow.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from antecast.sim.study import Study, make_study, plan
from antecast.spark.folder import SweepFolder
from antecast.spark.session import spark_session
from antecast.spark.sweep import sweep
from antecast.spark.task import Limits, make_run
from bench.table import report

ROUNDS = 2


def the_study() -> Study:
    """Runs of about a second: shorter than those of most studies, so that what a task costs would show."""
    return make_study(
        {
            "name": "throughput",
            "scenario": {
                "nodes": 24,
                "duration": "15s",
                "network": {
                    "topology": {"kind": "random", "degree": 6},
                    "delay": {"kind": "uniform", "low": "5ms", "high": "80ms"},
                },
                "workload": [{"kind": "poisson", "rate": 4.0}],
            },
            "grid": {"protocol.name": ["vector", "fifo"], "network.loss": [0.0, 0.01, 0.02]},
            "seeds": 16,
        }
    )


def plain(folder: Path) -> float:
    """Seconds for all runs, one after the other, in this process."""
    study, place = the_study(), SweepFolder(folder)
    planned = plan(study)
    begin = time.perf_counter()
    with place.claimed(study):
        for each in planned:
            outcome = make_run(study, each.index, each.run, place, Limits(), 1)
            assert outcome == "finished", place.row(each.run)
        place.assemble(study, planned)
    return time.perf_counter() - begin


def spark(folder: Path) -> tuple[float, float]:
    """Seconds for all runs on Spark, and for its start."""
    begin = time.perf_counter()
    with spark_session("throughput") as session:
        ready = time.perf_counter()
        result = sweep(the_study(), out=folder, spark=session)
        assert result.complete
        return time.perf_counter() - ready, ready - begin


def same(one: Path, other: Path) -> bool:
    names = sorted(path.relative_to(one) for path in one.glob("runs/*/*.parquet"))
    return bool(names) and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def main() -> None:
    runs = len(the_study())
    alone, together, starts = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as root:
            one, other = Path(root) / "plain", Path(root) / "spark"
            command = [sys.executable, "-m", "bench.sweep_throughput", str(one)]
            alone.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            seconds, start = spark(other)
            assert same(one, other), "the two made different runs"
            together.append(seconds)
            starts.append(start)
    times = {"one plain process": min(alone), f"Spark, local[{os.cpu_count()}]": min(together)}
    rows = [
        {"made by": name, "seconds": best, "runs per second": runs / best, "against plain": min(alone) / best}
        for name, best in times.items()
    ]
    started = f"Spark started in {max(starts):.1f} s, once per sweep"
    note = f"{runs} runs, best of {ROUNDS}; {started}. Goal: 1.8 times on two cores."
    report("sweep_throughput", "A sweep on Spark against a loop", rows, note=note)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(plain(Path(sys.argv[1])))
    else:
        main()
