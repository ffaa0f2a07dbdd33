"""Charts from tables, as Vega-Lite specifications with their data inside.

A chart is described by plain settings (`antecast.papers.paper.Chart`): which column goes where. Tables with more
than `MOST_POINTS` rows are thinned evenly, and the chart says so.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from antecast.papers.paper import Chart as Settings

MOST_POINTS = 5000
"""Rows that a chart holds: more make a page slow to open and no clearer."""

_HEIGHT = 280


def chart(table: pa.Table, settings: Settings) -> tuple[dict[str, Any], str]:
    """The specification of a chart, and a word on what was cut of its data."""
    import altair as alt

    needed = [settings.x, settings.y, settings.end, settings.low, settings.high, settings.series, settings.facet]
    columns = [name for name in dict.fromkeys([*needed, settings.weight]) if name]
    rows = table.select(columns)
    step = -(-len(rows) // MOST_POINTS)
    cut = f"Every {step}th of {len(rows):,} rows is shown." if step > 1 else ""
    data = alt.Data(values=rows.take(list(range(0, len(rows), max(1, step)))).to_pylist())  # type: ignore[no-untyped-call]
    x = alt.X(f"{settings.x}:{_kind(rows, settings.x)}", title=settings.x_title, scale=_scale(settings.x_log))
    y = alt.Y(f"{settings.y}:{_kind(rows, settings.y)}", title=settings.y_title, scale=_scale(settings.y_log))
    encoding: dict[str, Any] = {"x": x, "y": y}
    if settings.series:
        order = list(dict.fromkeys(rows[settings.series].to_pylist()))
        encoding["color"] = alt.Color(f"{settings.series}:N", title=settings.series_title, sort=order)
    pick = None
    if settings.series and not settings.facet and settings.kind in ("line", "points"):
        pick = alt.selection_point(fields=[settings.series], bind="legend")
        encoding["opacity"] = (
            alt.when(pick).then(alt.value(0.6 if settings.kind == "points" else 1)).otherwise(alt.value(0.15))
        )
    if settings.end:
        encoding["x2"] = alt.X2(settings.end)
    if settings.weight:
        scale = alt.Scale(type="log", scheme="blues")
        encoding["color"] = alt.Color(f"{settings.weight}:Q", title=settings.weight_title, scale=scale)
    base = alt.Chart(data).encode(**encoding)
    marks = {
        "line": lambda: base.mark_line(point=len(rows) <= 60, clip=True),
        "points": lambda: base.mark_point(filled=True, opacity=0.6),
        "bars": lambda: base.mark_bar(),
        "cells": lambda: base.mark_square(size=30),
        "spans": lambda: base.mark_bar(height=2),
    }
    drawn = marks[settings.kind]()
    if pick is not None:
        drawn = drawn.add_params(pick)
    if settings.low and settings.high:
        band = alt.Y(settings.low, type="quantitative", title=settings.y_title)
        drawn = base.mark_area().encode(y=band, y2=settings.high, opacity=alt.value(0.2)) + drawn
    if settings.facet:
        whole = drawn.properties(width=380, height=_HEIGHT)
        result = whole.facet(alt.Facet(f"{settings.facet}:N", title=None), columns=2)
        result = result.resolve_scale(x="independent", y="independent" if settings.free else "shared")
    else:
        result = drawn.properties(width="container", height=_HEIGHT)
    return result.to_dict(), cut


def _kind(rows: pa.Table, column: str) -> str:
    kind = rows.schema.field(column).type
    return "Q" if pa.types.is_floating(kind) or pa.types.is_integer(kind) else "N"


def _scale(log: bool) -> Any:
    import altair as alt

    return alt.Scale(type="log") if log else alt.Undefined
