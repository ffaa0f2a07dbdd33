"""How the generators' traces compare with those of the barrier paper (Tables I and IV), as means over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import pyarrow as pa

from antecast.sim.mobility.city_bus import city_bus
from antecast.sim.mobility.pedestrians import pedestrians
from antecast.traces.contact_detection import find_contacts
from antecast.traces.statistics import contact_statistics, movement_statistics

_MINUTE = 60.0
_HOUR = 3600.0


@dataclass(frozen=True)
class Target:
    """A trace of the paper: its range and its figures, times in seconds."""

    title: str
    generate: Callable[[int], pa.Table]
    reach: float
    paper: Mapping[str, float]


TOLERANCES: Mapping[str, float] = {
    "nodes": 0.1,
    "contacts": 0.1,
    "contact time, mean": 0.1,
    "activity, shortest": 0.2,
    "activity, longest": 0.2,
    "activity, mean": 0.2,
    "activity, standard deviation": 0.2,
}
"""How far the mean over seeds may be from the paper; figures that are not here are only reported."""

TARGETS: Mapping[str, Target] = {
    "city-bus": Target(
        "city-bus, 200 m (Table I)",
        city_bus,
        200.0,
        {
            "nodes": 60,
            "nodes at once": 56,
            "duration": 14.25 * _HOUR,
            "activity, shortest": 26 * _MINUTE,
            "activity, longest": 14 * _HOUR + 8 * _MINUTE,
            "activity, mean": 10 * _HOUR + 58 * _MINUTE,
            "activity, standard deviation": 3 * _HOUR + 26 * _MINUTE,
            "contacts": 8892,
            "contact time, shortest": 1.0,
            "contact time, longest": 249.0,
            "contact time, mean": 84.0,
            "contact time, standard deviation": 65.0,
        },
    ),
    "pedestrians": Target(
        "pedestrians, 50 m (Table IV)",
        pedestrians,
        50.0,
        {
            "nodes": 2092,
            "nodes at once": 57,
            "duration": 5 * _HOUR,
            "activity, shortest": 7.8,
            "activity, longest": 32 * _MINUTE + 16,
            "activity, mean": 5 * _MINUTE + 25,
            "activity, standard deviation": 4 * _MINUTE + 9,
            "contacts": 14807,
            "contact time, shortest": 0.6,
            "contact time, longest": 8 * _MINUTE + 12,
            "contact time, mean": 45.0,
            "contact time, standard deviation": 39.0,
        },
    ),
}


@dataclass(frozen=True)
class Comparison:
    """One figure of a trace beside ours."""

    figure: str
    paper: float
    mean: float
    stdev: float
    """Over seeds."""

    @property
    def deviation(self) -> float:
        return self.mean / self.paper - 1

    @property
    def met(self) -> bool:
        return abs(self.deviation) <= TOLERANCES.get(self.figure, float("inf"))


def measure(target: Target, seed: int) -> dict[str, float]:
    """The figures of one generated trace, by the names of the paper's."""
    table = target.generate(seed)
    moved = movement_statistics(table)
    met = contact_statistics(find_contacts(table, target.reach))
    figures: dict[str, float] = {"nodes": moved.nodes, "nodes at once": moved.at_once, "contacts": met.contacts}
    figures["duration"] = (moved.end - moved.start) / 1e9
    for what, spread in (("activity", moved.activity), ("contact time", met.duration)):
        for name, value in (("shortest", spread.min), ("longest", spread.max), ("mean", spread.mean)):
            figures[f"{what}, {name}"] = value / 1e9
        figures[f"{what}, standard deviation"] = spread.stdev / 1e9
    return figures


def compare(target: Target, seeds: Sequence[int]) -> list[Comparison]:
    """All figures of a trace, in the paper's order; two seeds at least."""
    measured = [measure(target, seed) for seed in seeds]
    rows = []
    for figure, paper in target.paper.items():
        values = [each[figure] for each in measured]
        rows.append(Comparison(figure, paper, fmean(values), stdev(values)))
    return rows


def markdown(target: Target, rows: Sequence[Comparison], seeds: int) -> str:
    """A comparison over so many seeds as a table for the documentation."""
    lines = [
        f"| {target.title} | paper | mean of {seeds} seeds | standard deviation | off by | within |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        shown = [_text(row, value) for value in (row.paper, row.mean, row.stdev)]
        bound = TOLERANCES.get(row.figure)
        limit = "" if bound is None else f"{bound:.0%}"
        lines.append(f"| {row.figure} | {' | '.join(shown)} | {row.deviation:+.1%} | {limit} |")
    return "\n".join(lines)


def _text(row: Comparison, value: float) -> str:
    if row.figure in ("nodes", "nodes at once", "contacts"):
        return f"{value:,.0f}"
    return f"{value:,.1f} s" if row.paper < 10 * _MINUTE else f"{value / _MINUTE:,.1f} min"
