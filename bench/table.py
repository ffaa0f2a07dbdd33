"""What every benchmark does with its figures: print a table, write JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


def report(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], *, note: str = "", part: str | None = None
) -> None:
    """Print rows as a table and write them to bench/results/NAME.json, or to NAME_PART.json."""
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(text(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # nobody to wrap lines for
    console.print(table)
    if note:
        console.print(note, style="dim")
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        "arguments": sys.argv[1:],
        "title": title,
        "python": platform.python_version(),
        "rows": list(rows),
        "note": note,
    }
    file = name if part is None else f"{name}_{part}"
    (RESULTS / f"{file}.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def sizes_asked(doc: str | None, usual: Sequence[int]) -> list[int]:
    """The sizes named on the command line, or the usual ones."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ", ".join(f"{size:,}" for size in usual)
    parser.add_argument("sizes", nargs="*", type=int, metavar="SIZE", help=f"default: {default}")
    return parser.parse_args().sizes or list(usual)


def progress(what: str, *, every: float = 10.0) -> Callable[[int, int], None]:
    """Something to call with the simulated time and its end: says now and then how far a long run has come."""
    begun = last = time.monotonic()

    def say(now: int, end: int) -> None:
        nonlocal last
        if (seconds := time.monotonic()) - last >= every:
            last = seconds
            print(
                f"{what}: {100 * now / max(1, end):.0f} % after {last - begun:.0f} s", file=sys.stderr, flush=True
            )

    return say


def text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
