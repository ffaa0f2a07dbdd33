"""Plots from rows of tables: curves with bands, means with intervals, areas on top of each other, bars.

A plot with series lets the reader pick one in its legend. Where values are names, they stand below each other with
their marks beside them, so that they never run into each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from antecast.reporting.plot import (
    HEIGHT,
    AnyMark,
    Area,
    Axis,
    Bar,
    Dot,
    Line,
    Plot,
    Segment,
    Series,
    looks,
)

Row = Mapping[str, Any]
_ROW = 26
"""Pixels for each name."""
_TAIL = 30.0
"""From this ratio of the longest time to the median on, the axis is logarithmic."""
_BESIDE = 11
"""Pixels between the marks of two series at one name."""


def curves(
    rows: Sequence[Row],
    x: Axis,
    y: Axis,
    at: tuple[str, str],
    *,
    series: str = "",
    series_title: str = "",
    order: Sequence[str] = (),
    band: tuple[str, str] | None = None,
    points: bool = False,
    step: bool = False,
    dashed: Sequence[str] = (),
    height: int = HEIGHT,
) -> Plot:
    """A line for each series through the columns `at`, with a band between two columns where these are named.

    A band never goes below zero where its line does not: no count, time or share is negative, even if its
    confidence interval is.
    """
    groups: dict[str, list[Row]] = {name: [] for name in order}
    for row in rows:
        groups.setdefault(str(row[series]) if series else "", []).append(row)
    across, down = at
    marks: list[AnyMark] = []
    for name, group in groups.items():
        if band:
            ends = [(row[across], row[band[0]], row[band[1]]) for row in group if row[band[0]] is not None]
            least = min((row[down] for row in group), default=0.0)
            marks.append(Area(points=[(a, clipped(b, least), c) for a, b, c in ends], series=name))
        marks.append(Line(points=[(row[across], row[down]) for row in group], series=name, step=step, dots=points))
    shown = looks([name for name in groups if name])
    shown = [replace(each, dash="5 4") if each.name in dashed else each for each in shown]
    lines = [mark for mark in marks if isinstance(mark, Line)]
    areas = [mark for mark in marks if not isinstance(mark, Line)]
    return Plot(x=x, y=y, marks=[*areas, *lines], series=shown, series_title=series_title, height=height)


def time_axis(title: str, times: Sequence[float]) -> Axis:
    """An axis of times: logarithmic where the longest would squeeze half of them into a corner."""
    known = sorted(time for time in times if time > 0)
    long = bool(known) and known[-1] > _TAIL * known[len(known) // 2]
    return Axis(title=title, log=long)


def clipped(low: float, least: float) -> float:
    """The lower end of an interval around values of which the least is given."""
    return max(0.0, low) if least >= 0 else low


def intervals(
    rows: Sequence[Row],
    names: Axis,
    y: Axis,
    *,
    series: str = "",
    series_title: str = "",
    order: Sequence[str] = (),
) -> Plot:
    """Means as dots, with their intervals (`low`, `high`) as lines: for values that have no order of size.

    A row has the name it belongs to as `value`.
    """
    found = list(order) or list(dict.fromkeys(str(row[series]) if series else "" for row in rows))
    marks: list[AnyMark] = []
    for row in rows:
        name = str(row[series]) if series else ""
        shift = _BESIDE * (found.index(name) - (len(found) - 1) / 2)
        place = float(list(names.names).index(row["value"]))
        if row["low"] is not None and row["high"] is not None:
            low = clipped(row["low"], row["mean"])
            marks.append(Segment(x=low, y=place, x2=row["high"], y2=place, series=name, shift=shift))
        marks.append(Dot(x=row["mean"], y=place, series=name, shift=shift))
    dots = [mark for mark in marks if isinstance(mark, Dot)]
    spans = [mark for mark in marks if not isinstance(mark, Dot)]
    return Plot(
        x=y,
        y=names,
        marks=[*spans, *dots],
        series=looks([name for name in found if name], swatch="dot"),
        series_title=series_title,
        height=max(_ROW, _BESIDE * (len(found) + 1)) * len(names.names),
    )


def stacked(
    rows: Sequence[Row], x: Axis, y: Axis, at: tuple[str, str], *, series: str, order: Sequence[str]
) -> Plot:
    """Areas on top of each other, in steps."""
    across, down = at
    below: dict[float, float] = {}
    marks: list[AnyMark] = []
    for name in order:
        points = []
        for row in (row for row in rows if row[series] == name):
            start = below.get(row[across], 0.0)
            below[row[across]] = start + row[down]
            points.append((row[across], start, below[row[across]]))
        marks.append(Area(points=points, series=name, step=True, opacity=1.0))
    return Plot(x=x, y=y, marks=marks, series=looks(order, swatch="fill"))


def bars(
    rows: Sequence[Row], names: Axis, x: Axis, at: tuple[str, str], *, series: str, colours: Mapping[str, str]
) -> Plot:
    """Bars to the right, one below the other, each made up of its series, in the order of their colours."""
    name, size = at
    ends: dict[str, float] = {}
    marks: list[AnyMark] = []
    for part in colours:
        for row in (row for row in rows if row[series] == part):
            place, start = list(names.names).index(row[name]), ends.get(row[name], 0.0)
            ends[row[name]] = start + row[size]
            tip = f"{row[name]}, {part}: {row[size]:,}"
            marks.append(Bar(x=start, x2=ends[row[name]], y=place - 0.26, y2=place + 0.26, series=part, tip=tip))
    height = _ROW * len(names.names)
    legend = [Series(part, colour, swatch="fill") for part, colour in colours.items()]
    return Plot(x=x, y=names, marks=marks, series=legend, height=height)
