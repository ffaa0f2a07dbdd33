"""PC-broadcast over Spray: the compiled engine, the reference, and one flood over a million processes.

The engine's run is that of the paper's experiment: 10 000 processes, an exchange a minute each, delays growing
to 5 s, a broadcast every 10 s; alone, and with every message also flooded by R-broadcast. The reference makes
the same run with a thousand processes for a tenth of the time. Kernels are compiled afresh and run once before
they are measured; what that takes is said below the table. Each line is a process of its own, so that its peak of
memory is its own; the snapshots of the floods are built, and timed, in another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.table import report

COMMON = """
import json, resource, sys, time
import numpy as np
from antecast.core.settings import Duration
from antecast.sim import run
from antecast.sim.delays import Constant, Uniform
from antecast.sim.overlay.compiled import Snapshot, flood, simulate, spray_snapshot
from antecast.sim.scenario import make_scenario
from antecast.sim.topology import Spray

def scenario(nodes, seconds):
    return make_scenario({
        "nodes": nodes, "duration": f"{seconds}s", "drain": "60s",
        "protocol": {"name": "pc-broadcast", "timeout": "1000s"},
        "network": {
            "topology": {"kind": "spray", "arcs": 8.4}, "fifo": True,
            "delay": {"kind": "growing", "low": "10ms", "high": "5s", "until": f"{seconds}s"},
        },
        "workload": [{"kind": "at", "broadcasts": [
            {"t": f"{t}s", "node": 7 * t % nodes} for t in range(5, seconds, 10)]}],
        "log": {"sample": 0, "events": "order"},
    })

def done(**found):
    print(json.dumps(found | {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""

ENGINE = """
beside = sys.argv[1] == "beside"
begun = time.process_time()
simulate(scenario(50, 60), beside=beside)
warm = time.process_time() - begun
found = simulate(scenario(10_000, 600), beside=beside)
done(events=found.events, cpu=found.cpu, warm=warm)
"""

REFERENCE = """
found = run(scenario(1000, 60))
done(events=found.steps, cpu=found.cpu)
"""

BUILD = """
nodes, arcs, settle, folder = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
topology = Spray(arcs=arcs, settle=settle)
spray_snapshot(topology, 100, 1)
begun = time.process_time()
found = spray_snapshot(topology, nodes, 1)
cpu = time.process_time() - begun
np.save(folder + "/offsets.npy", found.offsets)
np.save(folder + "/targets.npy", found.targets)
done(cpu=cpu)
"""

FLOOD = """
folder, kind = sys.argv[1:]
constant = Constant(value=Duration(10**9))
model = constant if kind == "constant" else Uniform(low=Duration(10**6), high=Duration(10**8))
begun = time.process_time()
flood(Snapshot.of(3, [(0, 1), (1, 2)]), 0, model=model)
warm = time.process_time() - begun
snapshot = Snapshot(np.load(folder + "/offsets.npy"), np.load(folder + "/targets.npy"))
best = 1e9
for source in range(3):
    begun = time.process_time()
    found = flood(snapshot, source, model=model)
    best = min(best, time.process_time() - begun)
done(events=snapshot.links - snapshot.nodes + 1, cpu=best, warm=warm, hops=found.mean_hops,
     unreached=found.unreached, links=snapshot.links / snapshot.nodes)
"""


def measure(code: str, *args: object) -> dict[str, Any]:
    command = [sys.executable, "-c", COMMON + code, *map(str, args)]
    with tempfile.TemporaryDirectory() as cache:  # empty, so that kernels are compiled
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    rows, notes = [], []

    def add(what: str, processes: int, found: dict[str, Any]) -> None:
        rows.append(
            {
                "run": what,
                "processes": processes,
                "events": found["events"],
                "CPU s": found["cpu"],
                "events per CPU second": found["events"] / found["cpu"],
                "peak MiB": found["peak"],
            }
        )

    add("reference engine, 60 s", 1000, measure(REFERENCE))
    for name, option in (("compiled engine, 600 s", "alone"), ("the same, R-broadcast beside", "beside")):
        found = measure(ENGINE, option)
        add(name, 10_000, found)
        notes.append(f"{found['warm']:.0f} s")
    for nodes in (100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            build = measure(BUILD, nodes, 7.5, 5, Path(folder))
            for kind in ("constant", "uniform"):
                found = measure(FLOOD, folder, kind)
                what = f"one flood, {kind} delays, {found['links']:.0f} links, {found['hops']:.2f} hops"
                add(what, nodes, found)
            notes.append(f"{build['cpu']:.1f} s and {build['peak']:,.0f} MiB for {nodes:,} processes")
    report(
        "overlay",
        "PC-broadcast over Spray, and floods",
        rows,
        note=(
            f"Compiling and warming up took {notes[0]} and {notes[1]} (once: machine code is cached); building the"
            f" snapshots of the floods {notes[2]}, {notes[3]}. A flood's events are its frames. Goal: a flood over"
            " 1,000,000 processes in under 3 s and 1 GiB."
        ),
    )


if __name__ == "__main__":
    main()
