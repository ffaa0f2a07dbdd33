"""Check every causal protocol at the scopes of docs/checking.md, and write what came of it.

    python tools/checking.py [--large] [--missing] [--cpu SECONDS] [--jobs N] [PROTOCOL ...]

Writes docs/results/checking.json, keeping the rows of protocols that are not named; `python tools/blocks.py` puts
them into the page. With more CPU seconds per scope (default: 10) more of them are exhausted.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from antecast.checking.check import check
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope, described, fitting
from antecast.protocols import Guarantee, specification, specifications

FILE = Path(__file__).parents[1] / "docs" / "results" / "checking.json"

THREE = {"nodes": 3, "broadcasts": 1, "answers": 2}
TWO = {"nodes": 2, "broadcasts": 1, "answers": 1}
IN_LINE = {"barrier": ("crashes", "breaks")}
"""Faults that are looked at in a line, too: three nodes that all have links take too long there."""
_ANY = ("crashes", "breaks", "partitions", "joins")
AT_REST = {"barrier": _ANY, "epidemic-vector": _ANY, "delta": (*_ANY, "timeouts")}
"""Faults that are looked at once the first greetings have arrived, too: six of them multiply all by up to 64."""
FAULTS = ("crashes", "breaks", "partitions", "joins", "leaves", "moves", "losses", "timeouts")


def scopes(name: str, *, large: bool) -> list[Scope]:
    """Three nodes and three broadcasts, two of them answers, undisturbed; two nodes with one fault of each kind.
    In the large setting three nodes with one fault of each kind alone, and with all of them; some from rest or in
    a line."""
    spec = specification(name)
    settings = spec.configure({})
    wanted = [Scope(**THREE), *(Scope(**TWO, **{fault: 1}) for fault in FAULTS)]  # type: ignore[arg-type]
    if large:
        wanted += [Scope(**THREE, **{fault: 1}) for fault in FAULTS]  # type: ignore[arg-type]
        at_rest = AT_REST.get(name, ())
        wanted += [Scope(**THREE, at_rest=True, **{fault: 1}) for fault in at_rest]  # type: ignore[arg-type]
        in_line = IN_LINE.get(name, ())
        wanted += [Scope(**THREE, topology="line", **{fault: 1}) for fault in in_line]  # type: ignore[arg-type]
        wanted.append(Scope(**THREE, **dict.fromkeys(FAULTS, 1)))  # type: ignore[arg-type]
    fitted = [fitting(spec, settings, scope) for scope in wanted]
    plain = fitting(spec, settings, Scope(**TWO))  # type: ignore[arg-type]
    return [scope for place, scope in enumerate(fitted) if scope not in (*fitted[:place], plain)]


def row(name: str, scope: Scope, cpu: float) -> dict[str, object]:
    found = check(specification(name), scope, limits=Limits(cpu=cpu)).found
    return {
        "protocol": name,
        "scope": described(scope),
        "verdict": found.verdict,
        "states": found.states,
        "transitions": found.transitions,
        "depth": found.depth,
        "frontier": found.frontier,
        "cpu": round(found.seconds, 1),
        "words": None if found.problem is None else found.problem.words,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--missing", action="store_true", help="only scopes that have no row yet")
    parser.add_argument("protocols", nargs="*")
    chosen = parser.parse_args()
    causal = [each.name for each in specifications() if Guarantee.CAUSAL in each.guarantees]
    names = chosen.protocols or causal
    rows = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        orders = [
            (place, name, scope) for name in names for place, scope in enumerate(scopes(name, large=chosen.large))
        ]
        known = {(each["protocol"], each["scope"]) for each in rows} if chosen.missing else ()
        orders = [order for order in orders if (order[1], described(order[2])) not in known]
        orders.sort(key=lambda order: order[0])  # the simplest scope of all protocols first
        asked = {pool.submit(row, name, scope, chosen.cpu): (name, scope) for _, name, scope in orders}
        for done in as_completed(asked):
            name, scope = asked[done]
            made = done.result()
            print(*made.values(), sep=" | ", flush=True)
            rows = [old for old in rows if (old["protocol"], old["scope"]) != (name, described(scope))] + [made]
            rows.sort(key=lambda each: (causal.index(each["protocol"]), len(each["scope"])))
            FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
