"""What the papers left open, found by `antecast check` from the printed rules alone.

    python tools/holes.py [--cpu SECONDS] [NAME ...]

Writes docs/results/holes.json, keeping what it says of holes that are not named; `python tools/blocks.py` puts it
into docs/checking.md. Each hole is looked for with what may happen growing one by one, or, where that takes too
long, by random walks.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antecast.checking.check import BY_WALK, WALKS, Checked, Strategy, check
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope, described
from antecast.core.settings import read_settings
from antecast.protocols import Guarantee, specification

FILE = Path(__file__).parents[1] / "docs" / "results" / "holes.json"

_SAFETY = frozenset({Guarantee.INTEGRITY, Guarantee.FIFO, Guarantee.CAUSAL})


@dataclass(frozen=True, kw_only=True)
class Hole:
    name: str
    protocol: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    promises: frozenset[Guarantee] | None = None
    """What the paper promises, where the protocol as printed is registered with less."""
    strategy: Strategy = "growing"
    quick: bool = False
    """Whether it is found within a second or so."""
    note: str = ""
    """What to know about what is found."""
    beyond: str = ""
    """Why it is not to be found in this way."""

    def look(self, limits: Limits | None = None) -> Checked:
        scope = read_settings(self.scope, Scope, path="scope")
        spec, promises = specification(self.protocol), self.promises
        options: dict[str, Any] = {"promises": promises, "strategy": self.strategy, "limits": limits}
        return check(spec, scope, settings=self.settings, **options)


def _delta(name: str, settings: dict[str, Any], scope: dict[str, Any], *, strategy: Strategy = "growing") -> Hole:
    paper = {"rule": "paper"} | settings
    return Hole(name=name, protocol="delta", settings=paper, scope=scope, strategy=strategy)


def _cell(name: str, *, quick: bool = False, strategy: Strategy = "growing", **scope: int) -> Hole:
    settings = {"published": [name], "evict": "0s"}
    return Hole(
        name=name,
        protocol="cellular",
        settings=settings,
        scope=scope | {"answers": 0},
        quick=quick,
        strategy=strategy,
    )


def _order(name: str, *, quick: bool = False, strategy: Strategy = "growing", settings: Any, **scope: Any) -> Hole:
    return Hole(
        name=name,
        protocol="pc-broadcast-paper",
        settings=settings,
        scope=scope | {"topology": "line"},
        promises=_SAFETY,
        quick=quick,
        strategy=strategy,
    )


_SHORTER = "a shorter way to the same end than the story's"


def _use(
    name: str,
    *,
    quick: bool = False,
    strategy: Strategy = "growing",
    note: str = _SHORTER,
    settings: Any,
    **scope: int,
) -> Hole:
    """A link that never comes into use."""
    wanted = scope | {"topology": "line", "safe_links": True}
    promises = frozenset({Guarantee.INTEGRITY})
    return Hole(
        name=name,
        protocol="pc-broadcast-paper",
        settings=settings,
        scope=wanted,
        promises=promises,
        quick=quick,
        strategy=strategy,
        note=note,
    )


_OBSERVER = "about the order in which one observer sorts timestamps, not about a protocol of nodes"

HOLES = (
    _delta(
        "mixed-lifetimes",
        {"lifetime": "20s"},
        {"nodes": 3, "broadcasts": 3, "breaks": 1, "ticks": 1, "tick": "7s", "lifetimes": ["20s", "5s"]},
        strategy="walk",
    ),
    _delta(
        "clock-ahead",
        {"lifetime": "10s", "clock_bound": "2s"},
        {"nodes": 4, "broadcasts": 4, "ticks": 1, "tick": "11s", "clocks": ["2s"]},
    ),
    _cell("take-always", nodes=2, stations=1, broadcasts=1, joins=1, quick=True),
    _cell(
        "ack-always", nodes=2, stations=2, broadcasts=2, moves=1, timeouts=1, probes=False, strategy="overtaking"
    ),
    _cell(
        "mark-copies", nodes=2, stations=2, broadcasts=2, moves=1, probes=False, strategy="overtaking", quick=True
    ),
    _cell("send-always", nodes=2, stations=2, broadcasts=1, joins=1, moves=1),
    _cell("accept-early", nodes=2, stations=2, broadcasts=1, moves=2, timeouts=1, strategy="overtaking"),
    _cell("accept-late", nodes=2, stations=2, broadcasts=1, moves=1, quick=True),
    _cell("no-lock", nodes=2, stations=2, broadcasts=1, moves=2, quick=True),
    _cell("one-request", nodes=2, stations=3, broadcasts=1, moves=2),
    _cell("catch-up-first", nodes=2, stations=2, broadcasts=1, moves=1, losses=1, timeouts=1),
    _cell("list-all", nodes=3, stations=2, broadcasts=1, moves=1, crashes=1, timeouts=1, probes=False),
    _cell("any-session", nodes=2, stations=1, broadcasts=1, crashes=2),
    _cell("no-floor", nodes=2, stations=2, broadcasts=1, joins=1, moves=1),
    _cell("keep-stale", nodes=2, stations=2, broadcasts=1, joins=1, moves=2, strategy="walk"),
    _cell("silent-rejoin", nodes=2, stations=2, broadcasts=1, joins=1, moves=2),
    _cell("leave-if-known", nodes=3, stations=2, broadcasts=1, moves=1, leaves=1),
    _cell("save-with-acks", nodes=2, stations=1, broadcasts=1, crashes=1, quick=True),
    *(Hole(name=name, beyond=_OBSERVER) for name in ("c-is-epsilon", "modulus", "end-of-tick", "bad-row")),
    Hole(
        name="reply",
        beyond="an answer is the next call here (rule 1 of the contract), so none comes between the two lines",
    ),
    Hole(
        name="first-cluster",
        protocol="antecast.papers.vcube.printed:ALGORITHM_2",
        scope={"nodes": 4, "broadcasts": 1, "probes": False},
        quick=True,
    ),
    Hole(
        name="order-in-packet", beyond="about how soon a message is delivered, not about whether or in which order"
    ),
    Hole(name="arrivals", beyond="about the figures of an experiment"),
    _order(
        "stale-pong",
        settings={"algorithm": 2},
        nodes=3,
        broadcasts=3,
        appears=1,
        breaks=1,
        unsteady=[[0, 2]],  # else `only-link` is found, which is shorter
        probes=False,
        strategy="breadth",
    ),
    _use(
        "stale-acknowledgement",
        settings={"algorithm": 3, "ids": "checked", "buffer": 1},
        nodes=3,
        broadcasts=2,
        appears=1,
        breaks=1,
        timeouts=1,
    ),
    _use("lost-ping", settings={"algorithm": 3}, nodes=3, broadcasts=1, appears=1, breaks=1, quick=True),
    _order("only-link", settings={"algorithm": 2}, nodes=3, broadcasts=2, appears=1, breaks=1),
    _order("set-as-buffer", settings={"algorithm": 2, "buffers": "set"}, nodes=3, broadcasts=3, appears=1),
    _use(
        "impatient",
        settings={"algorithm": 3, "ids": "checked", "retries": 2},
        nodes=3,
        broadcasts=1,
        appears=1,
        timeouts=2,
    ),
    _use("small-buffer", settings={"algorithm": 3, "buffer": 0, "retries": 1}, nodes=3, broadcasts=3, appears=1),
    _use("route-cut", note="", settings={"algorithm": 2}, nodes=3, broadcasts=1, appears=1, breaks=1, quick=True),
)


def told(hole: Hole, cpu: float) -> dict[str, object]:
    row: dict[str, object] = {"name": hole.name, "protocol": hole.protocol, "beyond": hole.beyond or None}
    if hole.beyond:
        return row
    done = hole.look(Limits(cpu=cpu))
    found = done.found
    return row | {
        "how": "random walk" if hole.strategy in WALKS or BY_WALK in found.reduction else hole.strategy,
        "scope": described(done.scope),
        "verdict": found.verdict,
        "property": None if found.problem is None else found.problem.property,
        "words": None if found.problem is None else found.problem.words,
        "steps": found.calm,
        "cpu": round(found.seconds, 1),
        "why": found.why or None,
        "note": hole.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", type=float, default=60.0)
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    for hole in HOLES:
        if chosen.names and hole.name not in chosen.names:
            continue
        row = told(hole, chosen.cpu)
        rows = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
        rows = [old for old in rows if old["name"] != hole.name] + [row]
        rows.sort(key=lambda each: [hole.name for hole in HOLES].index(each["name"]))
        FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(*row.values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
