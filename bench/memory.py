"""Peak memory of a run at two lengths: the log grows ten times, the memory must not.

Each run is a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.table import report

ONE_RUN = """
import json, resource, sys, tempfile
from antecast.sim import run
from antecast.sim.scenario import make_scenario
scenario = make_scenario({
    "nodes": 32, "duration": sys.argv[1], "drain": "10s",
    "protocol": {"name": "vector", "retain": 1000},
    "network": {"topology": {"kind": "random", "degree": 6}, "delay": {"kind": "exponential", "mean": "20ms"}},
    "workload": [{"kind": "poisson", "rate": 2.0}],
})
with tempfile.TemporaryDirectory() as folder:
    result = run(scenario, out=folder + "/run")
print(json.dumps({"rows": result.logged, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def measure(duration: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", ONE_RUN, duration], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    short, long = measure("30s"), measure("300s")
    rows = [
        {
            "run": name,
            "events logged": each["rows"],
            "peak MiB": each["peak"],
            "against the short run": each["peak"] / short["peak"],
        }
        for name, each in (("30 s", short), ("300 s", long))
    ]
    report("memory", "Peak memory of a run", rows, note="Goal: the same memory for ten times the log.")


if __name__ == "__main__":
    main()
