"""`python -m bench.peers`: one line for each simulator."""

from __future__ import annotations

import argparse
from typing import Any

from bench.peers.ours import antecast
from bench.peers.simpy_peer import simpy_epidemic
from bench.peers.the_one import problem, the_one
from bench.peers.work import Outcome, Work, compare, make_work
from bench.table import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--contacts", type=int, default=2_000)
    parser.add_argument("--messages", type=int, default=20)
    options = parser.parse_args()
    if options.messages > options.nodes:
        parser.error("--messages: at most one per node")
    work = make_work(nodes=options.nodes, contacts=options.contacts, messages=options.messages)
    antecast(make_work(nodes=10, contacts=20, messages=2), "compiled")  # the engine is compiled or loaded
    ours = antecast(work, "compiled")
    rows = [
        _row("Antecast, compiled", ours, ours),
        _row("Antecast, reference", antecast(work, "reference"), ours),
        _row("SimPy", simpy_epidemic(work), ours),
        _others(work, ours),
    ]
    report("peers", "Epidemic exchange by other simulators", rows, note=_note(work))


def _row(name: str, found: Outcome, ours: Outcome) -> dict[str, Any]:
    difference = compare(found, ours)
    return {
        "simulator": name,
        "arrivals": len(found.arrivals),
        "only in one": difference.only_one,
        "latest by s": difference.latest,
        "CPU s": found.cpu,
        "arrivals per CPU second": len(found.arrivals) / found.cpu,
    }


def _others(work: Work, ours: Outcome) -> dict[str, Any]:
    why = problem()
    return {"simulator": f"The ONE: {why}"} if why else _row("The ONE", the_one(work), ours)


def _note(work: Work) -> str:
    return (
        f"{len(work.contacts):,} contacts of {work.nodes} nodes, {len(work.broadcasts)} messages. CPU seconds with"
        " starting and reading the work; without compiling. The ONE makes a step each 0.1 s of simulated time."
    )


if __name__ == "__main__":
    main()
