"""How fast `antecast check` goes through the worlds of a protocol, and how many reduction spares it.

The full search of three nodes and three broadcasts (less where that takes too long) gives the transitions a CPU
second. The reduced search of the same scope gives the factor in states, and what is left of the time: the calls of
the protocol itself, and the verification of the assumptions.
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
    "barrier": Scope(nodes=3, broadcasts=2, fifo=True, probes=False),
}


def measured(name: str, states: int | None) -> dict[str, object]:
    """The full search, as far as so many states, and the reduced one."""
    spec, scope = specification(name), SCOPES[name]
    full = check(spec, scope, reduce=False, limits=Limits(states=states)).found
    reduced = check(spec, scope).found
    whole = full.verdict == "exhausted"
    return {
        "protocol": name,
        "broadcasts": scope.broadcasts,
        "transitions a CPU second": full.transitions / full.seconds,
        "states, full": full.states if whole else f"more than {states:,}",
        "states, reduced": reduced.states,
        "times fewer": full.states / reduced.states if whole else f"more than {full.states / reduced.states:,.0f}",
        "CPU seconds, full": full.seconds if whole else "",
        "CPU seconds, reduced": reduced.seconds,
    }


def main() -> None:
    names = sys.argv[1:] or list(SCOPES)
    report(
        "checking",
        "Worlds of a protocol: three nodes",
        [measured(name, 400_000) for name in names],
        note="Goals: 50,000 transitions a CPU second for vector, and 5 times fewer states with reduction.",
    )


if __name__ == "__main__":
    main()
