"""Packets of VCube, from every node to every other: the network of the paper's section 5 with 1024 nodes.

Without aggregation each of 1024 messages takes 1023 packets, 1 047 552 in all: each stamped, sized from its
encoding where it is new, queued, delayed by a draw of its own link, held or delivered by its clock, and logged.
The work for a packet should not grow with the number of nodes or of pending messages; what it does grow with
is the distance to memory, as the clocks of all nodes together leave the caches.
"""

from __future__ import annotations

import sys

from antecast.history import metrics
from antecast.papers.vcube.experiment import scenario
from antecast.sim import run
from bench.table import report

SIZES = (64, 256, 1024)


def packets(nodes: int, *, aggregate: bool, log: str) -> dict[str, object]:
    """One run of the fitted model; packets and messages handed over per CPU second."""
    result = run(scenario(nodes, "calibrated", 1, aggregate=aggregate, log=log))
    hops = nodes * (nodes - 1)
    # A run that logs no packets delivers as many messages; the other one counts the packets.
    count = metrics.overhead(result.events).frames if log == "all" else hops if not aggregate else None
    return {
        "nodes": nodes,
        "aggregation": "yes" if aggregate else "no",
        "log": log,
        "packets": count if count is not None else "",
        "packets per CPU second": count / result.cpu if count is not None else "",
        "messages received per CPU second": hops / result.cpu,
    }


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or SIZES
    rows = [
        packets(nodes, aggregate=aggregate, log=log)
        for nodes in sizes
        for aggregate, log in ((False, "order"), (False, "all"), (True, "all"))
    ]
    report(
        "vcube",
        "Packets of VCube",
        rows,
        note="Goal: 60,000 packets per CPU second with 1024 nodes and no aggregation.",
    )


if __name__ == "__main__":
    main()
