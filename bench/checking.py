"""How fast `antecast check` goes through the worlds of a protocol, what reduction spares, and what sharing brings.

The full search of three nodes and three broadcasts (less where that takes too long) gives the transitions per CPU
second, and how many there are per call of a protocol object: the others are looked up. Where a space is small, as
that of `vcube` is, most of the time goes into those calls; and as its trees send each message once and depend
on the numbers of nodes, there is nothing to reduce. The reduced search of the same scope gives the factor in
states, and what is left of the time.

A shared search is compared with that of one process side by side. The machine may be busy, so what counts is CPU
time: that of the search alone, over that of the busiest process of the shared one.

    python -m bench.checking [PROTOCOL ...]
    python -m bench.checking --shared [PROTOCOL ...]
"""

from __future__ import annotations

import sys

from antecast.checking.check import check
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope
from antecast.protocols import specification
from bench.table import report

SCOPES = {
    "vector": Scope(nodes=3, broadcasts=3, fifo=True, probes=False),
    "pc-broadcast": Scope(nodes=3, broadcasts=3, probes=False),
    "vcube": Scope(nodes=3, broadcasts=3, fifo=True, probes=False),
    "vcube, 4 nodes": Scope(nodes=4, broadcasts=3, fifo=True, probes=False),
    "barrier": Scope(nodes=3, broadcasts=2, fifo=True, probes=False),
}

SHARED = {
    "vector": Scope(nodes=3, broadcasts=1, answers=2, crashes=1),
    "pc-broadcast": Scope(nodes=3, broadcasts=1, answers=2, crashes=1),
}


def measured(name: str, states: int | None) -> dict[str, object]:
    """The full search, as far as so many states, and the reduced one."""
    spec, scope = specification(name.partition(",")[0]), SCOPES[name]
    full = check(spec, scope, reduce=False, limits=Limits(states=states)).found
    reduced = check(spec, scope).found
    whole = full.verdict == "exhausted"
    return {
        "protocol": name,
        "broadcasts": scope.broadcasts,
        "transitions per CPU second": full.transitions / full.seconds,
        "transitions per protocol call": full.transitions / full.calls,
        "states, full": full.states if whole else f"more than {states:,}",
        "states, reduced": reduced.states,
        "times fewer": full.states / reduced.states if whole else f"more than {full.states / reduced.states:,.0f}",
        "CPU seconds, full": full.seconds if whole else "",
        "CPU seconds, reduced": reduced.seconds,
    }


def shared(name: str, jobs: int, states: int) -> dict[str, object]:
    """The same search by one process and by several."""
    spec, limits = specification(name), Limits(states=states)
    alone = check(spec, SHARED[name], limits=limits)
    several = check(spec, SHARED[name], limits=limits, jobs=jobs, share_from=2_000)
    rates = [each.found.transitions / each.found.busiest for each in (alone, several)]
    return {
        "protocol": name,
        "processes": jobs,
        "states, alone": alone.found.states,
        "states, shared": several.found.states,
        "transitions per CPU second, alone": rates[0],
        "transitions per CPU second of the busiest process": rates[1],
        "times faster": rates[1] / rates[0],
        "wall seconds, alone": alone.wall,
        "wall seconds, shared": several.wall,
    }


def main() -> None:
    if "--shared" in sys.argv:
        rows = [shared(name, 2, 250_000) for name in SHARED if name in sys.argv or not sys.argv[2:]]
        note = "A wall time means something on a machine with nothing else to do, and a core for each process."
        report(
            "checking", "A shared frontier: three nodes, three broadcasts, a crash", rows, note=note, part="shared"
        )
        return
    names = [name for name in SCOPES if not sys.argv[1:] or name.partition(",")[0] in sys.argv[1:]]
    report(
        "checking",
        "Worlds of a protocol: three nodes",
        [measured(name, 400_000) for name in names],
        note="Goals: 50,000 transitions per CPU second for vector, and 5 times fewer states with reduction.",
    )


if __name__ == "__main__":
    main()
