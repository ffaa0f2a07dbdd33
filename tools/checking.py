"""Check every causal protocol at the scopes of docs/checking.md, and write what came of it.

    python tools/checking.py [--large] [--missing | --open] [--cpu SECONDS] [--memory SIZE] [--jobs N] [NAME ...]

Writes docs/results/checking.json, keeping the rows of protocols that are not named; `python tools/blocks.py` puts
them into the page. With more CPU seconds per scope (default: 10) more of them are exhausted. `--open` makes the
rows again that are not exhausted, and no others; one that gets less far than before leaves the row as it is. Each
row has a process of its own, which `--memory` bounds: a search that needs more ends there, with how far it got.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

from antecast.checking.check import check
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope, described, fitting
from antecast.protocols import Guarantee, specification, specifications
from antecast.text.sizes import parse_size

FILE = Path(__file__).parents[1] / "docs" / "results" / "checking.json"

Row: TypeAlias = dict[str, Any]
OPEN = "not exhausted"

THREE = {"nodes": 3, "broadcasts": 1, "answers": 2}
TWO = {"nodes": 2, "broadcasts": 1, "answers": 1}
IN_LINE = {"barrier": ("crashes", "breaks")}
"""Faults that are looked at in a line, too: three nodes that all have links take too long there."""
FAULTS = ("crashes", "breaks", "partitions", "joins", "leaves", "moves", "losses", "timeouts")


def scopes(name: str, *, large: bool) -> list[Scope]:
    """Three nodes and three broadcasts, two of them answers, undisturbed; two nodes with one fault of each kind.
    In the large setting three nodes with one fault of each kind alone, and with all of them; some in a line."""
    spec = specification(name)
    settings = spec.configure({})
    wanted = [Scope(**THREE), *(Scope(**TWO, **{fault: 1}) for fault in FAULTS)]  # type: ignore[arg-type]
    if large:
        wanted += [Scope(**THREE, **{fault: 1}) for fault in FAULTS]  # type: ignore[arg-type]
        in_line = IN_LINE.get(name, ())
        wanted += [Scope(**THREE, topology="line", **{fault: 1}) for fault in in_line]  # type: ignore[arg-type]
        wanted.append(Scope(**THREE, **dict.fromkeys(FAULTS, 1)))  # type: ignore[arg-type]
    fitted = [fitting(spec, settings, scope) for scope in wanted]
    plain = fitting(spec, settings, Scope(**TWO))  # type: ignore[arg-type]
    return [scope for place, scope in enumerate(fitted) if scope not in (*fitted[:place], plain)]


def row(name: str, scope: Scope, cpu: float, memory: int | None = None) -> Row:
    found = check(specification(name), scope, limits=Limits(cpu=cpu, memory=memory)).found
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


def renewed(rows: list[Row], made: Row) -> list[Row]:
    """The rows with a new one in place of the old of its scope, unless both are open and the old got further."""
    old = next((each for each in rows if _key(each) == _key(made)), None)
    if old is not None and old["verdict"] == made["verdict"] == OPEN and _far(old) >= _far(made):
        return rows
    return [*(each for each in rows if each is not old), made]


def _far(row: Row) -> tuple[int, int]:
    """How far a search got: with more reduction it gets deeper by fewer worlds."""
    return row["depth"], row["states"]


def _key(row: Row) -> tuple[str, str]:
    return row["protocol"], row["scope"]


def write(rows: list[Row], file: Path) -> None:
    """All rows, in their order; the old file stays until the new one is whole."""
    rows = sorted(rows, key=lambda each: (causal().index(each["protocol"]), len(each["scope"])))
    new = file.with_suffix(".new")
    new.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    new.replace(file)


def causal() -> list[str]:
    return [each.name for each in specifications() if Guarantee.CAUSAL in each.guarantees]


def main(arguments: list[str] | None = None, file: Path = FILE) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", type=float, default=10.0)
    parser.add_argument("--memory", type=parse_size, help="per process, such as 2GB")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--missing", action="store_true", help="only scopes that have no row yet")
    which.add_argument(
        "--open", action="store_true", help="only scopes whose row is not exhausted, large ones, too"
    )
    parser.add_argument("protocols", nargs="*")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.protocols) - set(causal()))
    if unknown:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(causal())}")
    rows: list[Row] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    known = {_key(each): each["verdict"] for each in rows}
    orders = [
        (place, name, scope)
        for name in chosen.protocols or causal()
        for place, scope in enumerate(scopes(name, large=chosen.large or chosen.open))
    ]
    if chosen.missing:
        orders = [order for order in orders if (order[1], described(order[2])) not in known]
    if chosen.open:
        orders = [order for order in orders if known.get((order[1], described(order[2]))) == OPEN]
    orders.sort(key=lambda order: order[0])  # the simplest scope of all protocols first
    alone = get_context("spawn")  # what a search has used is given back when its process ends
    with ProcessPoolExecutor(chosen.jobs, mp_context=alone, max_tasks_per_child=1) as pool:
        asked = [pool.submit(row, name, scope, chosen.cpu, chosen.memory) for _, name, scope in orders]
        for done in as_completed(asked):
            made = done.result()
            print(*made.values(), sep=" | ", flush=True)
            rows = renewed(rows, made)
            write(rows, file)


if __name__ == "__main__":
    main()
