"""Violations against delay as a table for a page."""

from __future__ import annotations

from itertools import product

from antecast.papers.observer.experiment import DELAYS, PERCENTS, TRADED, USUAL, Seen, System, choices


def trade_off_table(seen: Seen, system: System = USUAL) -> str:
    """A row for each rule and distribution of delays, a column for each c: violations and mean delay in ticks."""
    lines = [
        _line("rule", "delays", *(f"{percent} %" for percent in PERCENTS)),
        "|" + "---|" * (2 + len(PERCENTS)),
    ]
    for rule, delay in product(TRADED, DELAYS):
        cells = {
            percent: f"{100 * seen.mean(rule, percent, delay, system):.1f} %,"
            f" {seen.mean(rule, percent, delay, system, 'waited'):.1f}"
            for _, percent in choices([rule])
        }
        lines.append(_line(rule, delay, *(cells.get(percent, "") for percent in PERCENTS)))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
