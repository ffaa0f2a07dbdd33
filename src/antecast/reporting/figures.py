"""Plots as Vega-Lite specifications, written as what they are: plain values with their data inside.

Colours are names of the page's own (`var(--c1)`), so that they follow the reader's scheme. A plot with series lets
the reader pick one by a click on its legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
HEIGHT = 260
SMALL = 170

Row = Mapping[str, Any]
_PICKED = {"param": "picked", "value": 1}
_FADED = 0.15


def axis(
    field: str,
    title: str,
    *,
    kind: str = "quantitative",
    form: str = "",
    zero: bool | None = None,
    whole: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """An encoding of a position."""
    scale = {} if zero is None else {"scale": {"zero": zero}}
    ticks: dict[str, Any] = {"format": form} if form else {}
    ticks |= {"tickMinStep": 1} if whole else {}
    ticks |= {"tickCount": 6} if kind == "quantitative" else {"labelAngle": 0, "labelLimit": 140}
    return {"field": field, "type": kind, "title": title, "axis": ticks} | scale | more


def spec(rows: Sequence[Row], layers: Sequence[Row], *, height: int = HEIGHT, **more: Any) -> dict[str, Any]:
    return {
        "$schema": SCHEMA,
        "data": {"values": [dict(row) for row in rows]},
        "width": "container",
        "height": height,
        "layer": [dict(layer) for layer in layers],
        **more,
    }


def colour(field: str, title: str, order: Sequence[str], shades: Sequence[str] = ()) -> dict[str, Any]:
    """A colour for each series, in the order given; a legend only where there are several."""
    scale: dict[str, Any] = {"domain": list(order)}
    if shades:
        scale["range"] = list(shades)
    legend = {"title": title or None, "symbolOpacity": 1} if len(order) > 1 else None
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def curves(
    rows: Sequence[Row],
    x: Row,
    y: Row,
    *,
    series: str = "",
    series_title: str = "",
    low: str = "",
    high: str = "",
    points: bool = False,
    step: bool = False,
    dashed: Sequence[str] = (),
    clip: bool = True,
    height: int = HEIGHT,
) -> dict[str, Any]:
    """Lines, with a band between two columns where these are named, one line for each series."""
    shown = {"clip": True} if clip else {}
    encoding: dict[str, Any] = {"x": dict(x), "y": dict(y)}
    pick: dict[str, Any] = {}
    fade: dict[str, Any] = {}
    if series:
        order = list(dict.fromkeys(str(row[series]) for row in rows))
        encoding["color"] = colour(series, series_title, order)
        if len(order) > 1:
            pick = {
                "params": [{"name": "picked", "select": {"type": "point", "fields": [series]}, "bind": "legend"}]
            }
            fade = {"opacity": {"condition": _PICKED, "value": _FADED}}
        if dashed:
            scale = {"domain": order, "range": [[5, 4] if each in dashed else [1, 0] for each in order]}
            encoding["strokeDash"] = encoding["color"] | {"scale": scale}
    line: dict[str, Any] = {"type": "line", "strokeWidth": 2, **shown}
    if step:
        line["interpolate"] = "step-after"
    if points:
        line["point"] = {"size": 45, "filled": True}
    layers: list[dict[str, Any]] = []
    if low and high:
        band = {"y": {"field": low, "type": "quantitative", "title": y["title"]}, "y2": {"field": high}}
        layers.append({"mark": {"type": "area", "opacity": 0.18, **shown}, "encoding": encoding | band})
    tip = [dict(x), dict(y)] + ([{"field": series, "type": "nominal", "title": series_title}] if series else [])
    tip = [{"field": each["field"], "type": each["type"], "title": each["title"]} for each in tip]
    layers.append({"mark": line, "encoding": encoding | fade | ({"tooltip": tip} if points else {}), **pick})
    return spec(rows, layers, height=height)


def intervals(
    rows: Sequence[Row], x: Row, y: Row, *, series: str = "", series_title: str = "", height: int = HEIGHT
) -> dict[str, Any]:
    """Means as points, with their intervals (`low`, `high`) as lines: for values that have no order of size."""
    encoding: dict[str, Any] = {"x": dict(x), "y": dict(y)}
    if series:
        order = list(dict.fromkeys(str(row[series]) for row in rows))
        encoding["color"] = colour(series, series_title, order)
        encoding["xOffset"] = {"field": series, "sort": order, "scale": {"paddingOuter": 1}}
    span = {"y": {"field": "low", "type": "quantitative", "title": y["title"]}, "y2": {"field": "high"}}
    dot = {"type": "point", "filled": True, "size": 70, "opacity": 1, "tooltip": True}
    layers = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": encoding | span},
        {"mark": dot, "encoding": encoding},
    ]
    return spec(rows, layers, height=height)


def stacked(rows: Sequence[Row], x: Row, y: Row, *, series: str, order: Sequence[str]) -> dict[str, Any]:
    """Areas on top of each other."""
    encoding = {
        "x": dict(x),
        "y": dict(y) | {"stack": "zero"},
        "color": colour(series, "", order),
        "opacity": {"condition": _PICKED, "value": _FADED},
    }
    pick = [{"name": "picked", "select": {"type": "point", "fields": [series]}, "bind": "legend"}]
    return spec(
        rows, [{"mark": {"type": "area", "interpolate": "step-after"}, "encoding": encoding, "params": pick}]
    )


def bars(rows: Sequence[Row], x: Row, y: Row, *, series: str, order: Sequence[str]) -> dict[str, Any]:
    """Bars, stacked by series, and not wider than bars should be."""
    encoding = {"x": dict(x), "y": dict(y), "color": colour(series, "", order)}
    count = len({row[x["field"]] for row in rows})
    mark = {"type": "bar", "tooltip": True, "width": {"expr": f"min(28, 0.8 * width / {max(1, count)})"}}
    return spec(rows, [{"mark": mark, "encoding": encoding}], height=SMALL)
