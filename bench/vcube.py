"""Packets of VCube, from every node to every other: the network of the paper's section 5 with 1024 nodes.

Without aggregation each of 1024 messages takes 1023 packets, 1 047 552 in all: each stamped, sized from its
encoding where it is new, queued, delayed by a draw of its own link, held or delivered by its clock, and logged.
The work for a packet should not grow with the number of nodes or of pending messages; what it does grow with
is the distance to memory, as the clocks of all nodes together leave the caches.

Both engines make each run, one after the other, and their logs are compared. Timeouts of SimPy in the same process
say how fast the machine is at the time; as many of them wait as packets of 1024 nodes are on their way.
"""

from __future__ import annotations

import time

import msgspec

from antecast.history import metrics
from antecast.papers.vcube.experiment import scenario
from antecast.sim import RunResult, run
from antecast.sim.compiled.choice import prepare
from bench.scheduler import EVENTS, simpy_timeouts
from bench.table import report, sizes_asked

SIZES = (64, 256, 1024)
ENGINES = ("compiled", "reference")
ON_THE_WAY = 100_000


def packets(nodes: int, *, aggregate: bool, log: str) -> list[dict[str, object]]:
    """One run of the fitted model by each engine; packets and messages handed over per CPU second."""
    chosen = scenario(nodes, "calibrated", 1, aggregate=aggregate, log=log)
    results: dict[str, RunResult] = {}
    simpy = 0.0
    for engine in ENGINES:
        simpy = max(simpy, simpy_rate())
        results[engine] = run(msgspec.structs.replace(chosen, engine=engine))
    if not results["compiled"].events.equals(results["reference"].events):
        raise RuntimeError(f"{nodes} nodes, aggregation {aggregate}: the engines' logs differ")
    hops = nodes * (nodes - 1)
    # A run that logs no packets delivers as many messages; the other one counts the packets.
    events = results["compiled"].events
    count = metrics.overhead(events).frames if log == "all" else hops if not aggregate else None
    return [
        {
            "nodes": nodes,
            "aggregation": "yes" if aggregate else "no",
            "log": log,
            "engine": engine,
            "packets": count if count is not None else "",
            "packets per CPU second": count / result.cpu if count is not None else "",
            "messages received per CPU second": hops / result.cpu,
            "against the reference": results["reference"].cpu / result.cpu,
            "packets per timeout of SimPy": count / result.cpu / simpy if count is not None else "",
        }
        for engine, result in results.items()
    ]


def simpy_rate() -> float:
    """Timeouts per CPU second."""
    begin = time.process_time()
    simpy_timeouts(ON_THE_WAY)
    return (EVENTS + ON_THE_WAY) / (time.process_time() - begin)


def main() -> None:
    sizes = sizes_asked(__doc__, SIZES)
    prepare("vcube")
    rows = [
        row
        for nodes in sizes
        for aggregate, log in ((False, "order"), (False, "all"), (True, "all"))
        for row in packets(nodes, aggregate=aggregate, log=log)
    ]
    note = (
        "Goals, with 1024 nodes and no aggregation: 60,000 packets per CPU second by the reference; the compiled"
        " engine 8 times as many, and 2.7 packets per timeout of SimPy (600,000 where SimPy makes 225,000)."
    )
    report("vcube", "Packets of VCube", rows, note=note)


if __name__ == "__main__":
    main()
