"""All engines on one page: events per CPU second, memory, and how the cost grows.

Each workload is run at three sizes by each engine that takes it, in a process of its own, so that its peak of
memory is its own. Events are the rows of the run's full log: what was broadcast, sent, received, delivered; for
PC-broadcast over Spray they are steps of the engine. Before and after the run the same process measures
timeouts of SimPy and a bare `heapq` loop with a callback: how fast the machine is just then. Where both engines
make a run, their logs must be equal; of PC-broadcast, whose compiled engine keeps no log of frames (a part of its
lead), the numbers of frames and deliveries. The exponent is that of CPU time over events, over the three sizes: 1
is linear.

    flooding        vector clocks over flooding, nodes at random
    vcube           the network of "A Communication-Efficient Causal Broadcast Protocol", without aggregation
    epidemic        pedestrians for some time, contacts at 50 m; likewise barrier, and delta with a lifetime
    pc-broadcast    over Spray, delays that grow
    cells           stations and hosts that stand
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.table import report

SIZES: dict[str, tuple[int, int, int]] = {
    "flooding": (16, 32, 64),
    "vcube": (64, 128, 256),
    "epidemic": (15, 30, 60),
    "barrier": (15, 30, 60),
    "delta": (15, 30, 60),
    "pc-broadcast": (250, 500, 1000),
    "cells": (10, 20, 40),
}
"""Nodes; minutes for those of pedestrians; simulated seconds for cells."""

WHAT = {"epidemic": "minutes", "barrier": "minutes", "delta": "minutes", "cells": "seconds"}


def scenario(workload: str, size: int, engine: str, folder: Path) -> dict[str, Any]:
    common = {"log": {"events": "all", "sample": 0}, "engine": engine}
    if workload == "flooding":
        return common | {
            "nodes": size,
            "duration": "20s",
            "protocol": "vector",
            "network": {"delay": {"kind": "exponential", "mean": "50ms"}},
            "workload": [{"kind": "poisson", "rate": 0.5}],
        }
    if workload == "pc-broadcast":
        spray = {"kind": "spray", "arcs": 8.4}
        return common | {
            "nodes": size,
            "duration": "60s",
            "drain": "30s",
            "protocol": {"name": "pc-broadcast", "timeout": "1000s"},
            "network": {
                "topology": spray,
                "fifo": True,
                "delay": {"kind": "growing", "low": "10ms", "high": "2s", "until": "60s"},
            },
            "workload": [
                {"kind": "at", "broadcasts": [{"t": f"{t}s", "node": 7 * t % size} for t in range(5, 60, 5)]}
            ],
        }
    if workload == "cells":
        return common | {
            "nodes": 70,
            "duration": f"{size}s",
            "drain": "5s",
            "protocol": "cellular",
            "network": {"topology": {"kind": "cells", "stations": 7}},
            "workload": [{"kind": "poisson", "rate": 25 / 70}],
        }
    protocol = {"name": workload} | ({"lifetime": "5min"} if workload == "delta" else {})
    files = {"file": str(folder / "contacts.parquet"), "presence": str(folder / "moving.parquet")}
    topology = {"kind": "contacts"} | files
    return common | {
        "protocol": protocol,
        "network": {"topology": topology},
        "workload": [{"kind": "periodic", "every": "2min", "after_arrival": "20s", "payload": 64}],
    }


def one_run(workload: str, size: int, engine: str) -> dict[str, Any]:
    """In a process of its own: one run and the machine's speed around it."""
    import resource

    import msgspec
    import pyarrow.parquet as pq

    from antecast.core.errors import AntecastError
    from antecast.sim import run
    from antecast.sim.overlay.compiled import simulate
    from antecast.sim.scenario import make_scenario
    from bench.scheduler import EVENTS, bare, simpy_timeouts

    def rate(contestant: Any) -> float:
        begun = time.process_time()
        contestant()
        return EVENTS / (time.process_time() - begun)

    def chosen(minor: int, folder: Path) -> Any:
        if workload == "vcube":
            from antecast.papers.vcube.experiment import scenario as vcube

            return msgspec.structs.replace(
                vcube(minor, "calibrated", 1, aggregate=False, log="all"), engine=engine
            )
        if workload in ("epidemic", "barrier", "delta"):
            from antecast.core.settings import read_settings
            from antecast.sim.mobility import Pedestrians, pedestrians
            from antecast.traces.contact_detection import find_contacts

            settings = {"duration": f"{minor}min", "walkers": 7.0 * minor}
            moving = pedestrians(7, read_settings(settings, Pedestrians))
            folder.mkdir(exist_ok=True)
            pq.write_table(moving, folder / "moving.parquet")
            pq.write_table(find_contacts(moving, 50.0), folder / "contacts.parquet")
        by_name = "reference" if workload == "pc-broadcast" else engine  # it has an engine of its own
        return make_scenario(scenario(workload, minor, by_name, folder))

    with tempfile.TemporaryDirectory() as name:
        try:
            few = chosen(SIZES[workload][0] // 4, Path(name) / "warm")
            simulate(few) if workload == "pc-broadcast" else run(few)  # kernels are compiled or loaded
            wanted = chosen(size, Path(name) / "run")
            simpy, heap = rate(simpy_timeouts), rate(bare)
            if workload == "pc-broadcast" and engine == "compiled":
                made = simulate(wanted)
                events, cpu = made.events, made.cpu
                log = f"{made.counts['frames']} frames, {made.order().deliveries} deliveries"
            else:
                result = run(wanted)
                rows = result.events
                steps = workload == "pc-broadcast"  # what its compiled engine counts
                events, cpu = result.steps if steps else len(rows), result.cpu
                log = _tally(rows) if steps else _fingerprint(rows)
        except AntecastError as refusal:
            return {"refused": str(refusal)}
        simpy, heap = max(simpy, rate(simpy_timeouts)), max(heap, rate(bare))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"events": events, "cpu": cpu, "peak": peak, "simpy": simpy, "heap": heap, "log": log}


def _tally(rows: Any) -> str:
    """Frames received, and deliveries."""
    kinds = rows["kind"].cast("string").to_pylist()
    return f"{kinds.count('receive')} frames, {kinds.count('deliver')} deliveries"


def _fingerprint(rows: Any) -> str:
    """A hash of every column of a log."""
    import hashlib

    import pyarrow as pa
    import pyarrow.compute as pc

    found = hashlib.sha256()
    for column in rows.columns:
        plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for each in pc.fill_null(plain, "" if pa.types.is_string(plain.type) else -1).chunks:
            found.update(b"".join(bytes(buffer) for buffer in each.buffers() if buffer is not None))
    return found.hexdigest()


def measured(workload: str, size: int, engine: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.engines", "--one", workload, str(size), engine]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=1, help="times the sizes (default: 1)")
    parser.add_argument("--workload", action="append", choices=SIZES, help="only this workload")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        workload, size, engine = options.one
        print(json.dumps(one_run(workload, int(size), engine)))
        return
    rows = []
    for workload in options.workload or SIZES:
        sizes = [size * options.scale for size in SIZES[workload]]
        reference = [measured(workload, size, "reference") for size in sizes]
        for engine in ("reference", "compiled"):
            found = reference if engine == "reference" else [measured(workload, size, engine) for size in sizes]
            if "refused" in found[0]:
                continue
            for size, run, other in zip(sizes, found, reference, strict=True):
                if run["log"] != other["log"]:
                    raise RuntimeError(
                        f"{workload}, {size} {WHAT.get(workload, 'nodes')}: the engines' logs differ"
                    )
                speed = run["events"] / run["cpu"]
                rows.append(
                    {
                        "workload": workload,
                        "engine": engine,
                        "size": f"{size} {WHAT.get(workload, 'nodes')}",
                        "events": run["events"],
                        "CPU s": run["cpu"],
                        "events per CPU second": round(speed),
                        "against the reference": other["cpu"] / run["cpu"],
                        "against SimPy": speed / run["simpy"],
                        "against a bare heap": speed / run["heap"],
                        "peak MiB": round(run["peak"]),
                        "exponent": exponent(found),
                    }
                )
    note = "Goal: an exponent that stays near 1, since n log n in events is the most that any engine may take."
    report("engines", "Engines by workload", rows, note=note)


def exponent(found: list[dict[str, Any]]) -> float:
    """The slope of CPU time over events, in logarithms, by least squares."""
    x, y = ([math.log(each[name]) for each in found] for name in ("events", "cpu"))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((each - mean_x) ** 2 for each in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


if __name__ == "__main__":
    main()
