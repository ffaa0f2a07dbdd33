"""`python -m bench.peers`: one line for each simulator."""

from __future__ import annotations

import argparse
from typing import Any

from bench.peers import apart
from bench.peers.ours import antecast
from bench.peers.simpy_peer import simpy_epidemic
from bench.peers.the_one import problem, the_one
from bench.peers.work import Outcome, Work, compare, make_work
from bench.table import report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--contacts", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=200)
    options = parser.parse_args()
    if options.messages > options.nodes:
        parser.error("--messages: at most one per node")
    antecast(make_work(nodes=10, contacts=20, messages=2), "compiled")  # the engine is compiled or loaded

    work = make_work(**vars(options))
    ours = antecast(work, "compiled")
    rows = [
        _row("Antecast, compiled", ours, ours),
        _row("Antecast, reference", antecast(work, "reference"), ours),
        _row("SimPy", simpy_epidemic(work), ours),
        _apart("ns-3", "ns3", "ns3_peer", work, ours),
        _the_one(work, ours),
    ]
    report("peers", "Epidemic exchange by other simulators", rows, note=_note(work))

    brief = make_work(**vars(options), brief=True)
    ours = antecast(brief, "compiled")
    rows = [
        _row("Antecast, compiled", ours, ours),
        _row("Antecast, reference", antecast(brief, "reference"), ours),
        _apart("dtnsim", "dtnsim", "dtnsim_peer", brief, ours),
    ]
    report("peers", "Epidemic exchange in brief contacts", rows, note=_note(brief), part="brief")


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


def _the_one(work: Work, ours: Outcome) -> dict[str, Any]:
    why = problem()
    return {"simulator": f"The ONE: {why}"} if why else _row("The ONE", the_one(work), ours)


def _apart(name: str, package: str, module: str, work: Work, ours: Outcome) -> dict[str, Any]:
    why = apart.problem(package)
    return {"simulator": f"{name}: {why}"} if why else _row(name, apart.run(module, work), ours)


def _note(work: Work) -> str:
    return (
        f"{len(work.contacts):,} contacts of {work.nodes} nodes, {len(work.broadcasts)} messages. CPU seconds with"
        " reading the work; without compiling, and for peers in Python without starting. The ONE makes a step each"
        " 0.1 s of simulated time, dtnsim one each 30 s."
    )


if __name__ == "__main__":
    main()
