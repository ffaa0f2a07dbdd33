"""`python -m bench.peers.peersim`: two lines for each number of processes."""

from __future__ import annotations

import sys
from typing import Any

from bench.peers.peersim.run import Flooded, ours, peersim, problem
from bench.table import report

SIZES = (1_000, 10_000)


def main() -> None:
    why = problem()
    if why is not None:
        raise SystemExit(why)
    ours(50, 8.0)  # the engine is compiled or loaded
    rows = []
    for processes in [int(each) for each in sys.argv[1:]] or SIZES:
        theirs = peersim(processes)
        mine = ours(processes, theirs.arcs)
        rows += [_row("PeerSim", theirs, theirs), _row("Antecast, compiled", mine, theirs)]
    report(
        "peersim",
        "PC-broadcast over Spray in PeerSim and in ours",
        rows,
        note="Measured in turn in one run. Frames are those of broadcasts and of making links safe.",
    )


def _row(name: str, found: Flooded, theirs: Flooded) -> dict[str, Any]:
    return {
        "simulator": name,
        "processes": found.processes,
        "deliveries": found.deliveries,
        "missed": found.missed,
        "neighbours": found.neighbours,
        "mean latency s": found.latency,
        "frames": found.frames,
        "CPU s": found.cpu,
        "frames per CPU second": found.frames / found.cpu,
        "against PeerSim": found.frames / found.cpu / (theirs.frames / theirs.cpu),
        "CPU time for the same work": found.cpu / theirs.cpu,
    }


if __name__ == "__main__":
    main()
