"""Charts of the papers' figures, from tables and a description of what goes where (`antecast.papers.paper.Chart`).

Tables with more than `MOST_POINTS` rows are thinned evenly, and the chart says so. What the paper itself says
about a curve is drawn into it: points as rings, levels as dotted lines, ranges as bars and bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import floor, log10
from typing import Any

import pyarrow as pa

from antecast.papers.paper import Chart as Settings
from antecast.reporting.figures import clipped
from antecast.reporting.order import by_size
from antecast.reporting.plot import AnyMark, Area, Axis, Bar, Dot, Line, Plot, Segment, Series, Swatch, looks

MOST_POINTS = 5000
"""Rows that a chart holds: more make a page slow to open and no clearer."""

PAPER = "the paper"
"""The name of its series in a legend."""

Row = Mapping[str, Any]


def chart(table: pa.Table, settings: Settings, printed: Sequence[Row] = ()) -> tuple[list[Plot], str]:
    """A plot for each panel, and a word on what was cut of the data.

    `printed` is what the paper gives: rows with the columns of the chart, as its file has them.
    """
    needed = [settings.x, settings.y, settings.end, settings.low, settings.high, settings.series, settings.facet]
    columns = [name for name in dict.fromkeys([*needed, settings.weight]) if name]
    whole = table.select(columns)
    step = -(-len(whole) // MOST_POINTS)
    cut = f"Every {_ordinal(step)} of {len(whole):,} rows is shown." if step > 1 else ""
    rows = whole.take(list(range(0, len(whole), max(1, step)))).to_pylist()
    known = [str(row[settings.series]) for row in (*rows, *printed) if settings.series in row]
    series = by_size(dict.fromkeys(known))  # of all panels, so that a series looks the same in each
    if not settings.facet:
        return [_panel(rows, rows, series, settings, printed, "")], cut
    names = by_size(dict.fromkeys(str(row[settings.facet]) for row in rows))
    panels = [
        _panel(
            [row for row in rows if str(row[settings.facet]) == name],
            rows,
            series,
            settings,
            [each for each in printed if each.get(settings.facet, name) == name],
            name,
        )
        for name in names
    ]
    return panels if settings.free else _alike(panels), cut


def _ordinal(number: int) -> str:
    """
    >>> [_ordinal(number) for number in (2, 3, 4, 11, 21)]
    ['2nd', '3rd', '4th', '11th', '21st']
    """
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _panel(
    rows: Sequence[Row],
    everything: Sequence[Row],
    names: Sequence[str],
    settings: Settings,
    printed: Sequence[Row],
    title: str,
) -> Plot:
    x = Axis(title=settings.x_title, log=settings.x_log, zero=settings.kind != "line")
    y = Axis(title=settings.y_title, log=settings.y_log)
    kind: Swatch = "fill" if settings.kind == "bars" else "dot" if settings.kind == "points" else "line"
    series = looks(names, swatch=kind)
    marks: list[AnyMark]
    if settings.kind == "cells":
        marks, series = _cells(rows, everything, settings)
    elif settings.kind == "spans":
        marks = [
            Segment(x=row[settings.x], x2=row[settings.end], y=row[settings.y], y2=row[settings.y]) for row in rows
        ]
    elif settings.kind == "bars":
        values = by_size(dict.fromkeys(str(row[settings.x]) for row in everything))
        marks, x = _bars(rows, names, values, settings), replace(x, names=values)
    else:
        marks = _lines(rows, names, settings)
    plot = Plot(x=x, y=y, marks=marks, series=series, title=title)
    plot = replace(plot, series_title=settings.series_title or settings.weight_title)
    return _with_paper(plot, printed, settings) if printed else plot


def _lines(rows: Sequence[Row], names: Sequence[str], settings: Settings) -> list[AnyMark]:
    bands: list[AnyMark] = []
    lines: list[AnyMark] = []
    for name in names or [""]:
        group = [row for row in rows if not settings.series or str(row[settings.series]) == name]
        points = [(float(row[settings.x]), float(row[settings.y])) for row in group if row[settings.y] is not None]
        if settings.kind == "points":
            lines += [Dot(x=a, y=b, series=name, size=3.5) for a, b in points]
        elif points:
            lines.append(Line(points=points, series=name, dots=len(rows) <= 60))
        if settings.low and settings.high and points:
            least = min(b for _, b in points)
            ends = [(float(row[settings.x]), row[settings.low], row[settings.high]) for row in group]
            known = [(a, clipped(b, least), c) for a, b, c in ends if b is not None and c is not None]
            if settings.kind == "points":
                bands += [
                    Segment(x=row[settings.x], x2=row[settings.x], y=b, y2=c, series=name, width=1)
                    for row, (_, b, c) in zip(group, known, strict=False)
                ]
            else:
                bands.append(Area(points=known, series=name))
    return [*bands, *lines]


def _bars(rows: Sequence[Row], names: Sequence[str], values: Sequence[str], settings: Settings) -> list[AnyMark]:
    """Bars that stand up, those of one value side by side."""
    wide = 0.8 / max(1, len(names))
    marks: list[AnyMark] = []
    for i, name in enumerate(names or [""]):
        for row in rows:
            if not settings.series or str(row[settings.series]) == name:
                left = values.index(str(row[settings.x])) - 0.4 + i * wide
                marks.append(Bar(x=left, x2=left + wide, y=0.0, y2=row[settings.y], series=name))
    return marks


def _cells(
    rows: Sequence[Row], everything: Sequence[Row], settings: Settings
) -> tuple[list[AnyMark], list[Series]]:
    """Squares, darker where there is more: a shade for each power of ten."""
    step_x, step_y = (_step({row[name] for row in everything}) for name in (settings.x, settings.y))
    powers = sorted({floor(log10(row[settings.weight])) for row in everything if row[settings.weight] > 0})
    shades = {power: 0.25 + 0.75 * i / max(1, len(powers) - 1) for i, power in enumerate(powers)}
    texts = {power: f"{10**power:,} to {10 ** (power + 1) - 1:,}" for power in powers}
    marks: list[AnyMark] = [
        Bar(
            x=row[settings.x],
            x2=row[settings.x] + step_x,
            y=row[settings.y],
            y2=row[settings.y] + step_y,
            series=texts[power],
        )
        for power in powers
        for row in rows
        if row[settings.weight] > 0 and floor(log10(row[settings.weight])) == power
    ]
    return marks, [Series(texts[power], swatch="fill", opacity=shades[power]) for power in powers]


def _step(values: set[float]) -> float:
    known = sorted(values)
    return min((b - a for a, b in pairwise(known)), default=1.0)


def _with_paper(plot: Plot, printed: Sequence[Row], settings: Settings) -> Plot:
    """What the paper gives, in the colour of the series it belongs to."""
    widths = plot.widths
    ends = (min(widths), max(widths)) if widths else (0.0, 1.0)
    own: list[AnyMark] = []
    for row in printed:
        name = str(row.get(settings.series, PAPER) if settings.series else PAPER)
        tip = f"{PAPER}: {_said(row, settings)}"
        at = None if settings.x not in row else _along(row[settings.x], plot.x)
        if settings.y in row:
            y = float(row[settings.y])
            if at is None:
                own.append(Line(points=[(ends[0], y), (ends[1], y)], dash="2 4", series=name, tip=tip))
            else:
                own.append(Dot(x=at, y=y, size=6, shape="ring", series=name, tip=tip))
        else:
            low, high = float(row["from"]), float(row["to"])
            if at is None:
                own.append(
                    Area(points=[(ends[0], low, high), (ends[1], low, high)], opacity=0.1, series=name, tip=tip)
                )
            else:
                own.append(Segment(x=at, x2=at, y=low, y2=high, width=5, series=name, tip=tip))
    legend = Series(PAPER, "var(--text)", shape="ring", swatch="dot")
    return replace(plot, marks=[*plot.marks, *own], series=[*plot.series, legend])


def _along(value: Any, axis: Axis) -> float:
    return float(list(axis.names).index(str(value))) if axis.names and str(value) in axis.names else float(value)


def _said(row: Row, settings: Settings) -> str:
    shown = {settings.x: settings.x_title, settings.y: settings.y_title}
    return ", ".join(f"{shown.get(name, name)} {value}" for name, value in row.items() if name != settings.facet)


def _alike(panels: Sequence[Plot]) -> list[Plot]:
    """The same vertical axis for all."""
    ends = [value for panel in panels for value in panel.heights]
    if not ends:
        return list(panels)
    known = [value for value in ends if value > 0] if panels[0].y.log else [0.0, *ends]
    return [replace(panel, y=replace(panel.y, low=min(known), high=max(known))) for panel in panels]
