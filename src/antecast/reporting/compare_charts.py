"""The two charts of a comparison, as Vega-Lite with their data inside.

Labels stand beside their marks and push each other apart along the vertical, so the scale is made here and not
left to the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from antecast.comparison.demands import Aspect, upper
from antecast.comparison.judgement import Judgement
from antecast.comparison.standings import Order, Standing

_HEIGHT = 400
_LINE = 16.0
"""Pixels between two labels."""
_BESIDE = 0.45
"""Labels nearer than this part of the width may run into each other."""
_LOG_FROM = 3.0
"""Values that differ by more than this factor are shown on a logarithmic scale."""
_LIMIT_FACTOR = 5.0
"""A limit further than this factor from all marks would squeeze them, and is named instead of drawn."""

_LOOKS = {
    Order.GUARANTEED: ("#2a9d5c", "circle"),
    Order.KEPT: ("#c9850c", "diamond"),
    Order.VIOLATED: ("#d1495b", "triangle-up"),
    Order.UNTRIED: ("#7a7a7a", "square"),
    Order.BROKEN: ("#9b3fb5", "cross"),
}
_UNITS = ((3600e9, "hours"), (60e9, "minutes"), (1e9, "s"), (1e6, "ms"))


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        if self.log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        if self.log:
            return self.low * exp(place * log(self.high / self.low))
        return self.low + place * (self.high - self.low)

    @property
    def scale(self) -> dict[str, Any]:
        kind: dict[str, Any] = {"type": "log"} if self.log else {"type": "linear"}
        return kind | {"domain": [self.low, self.high], "nice": False}


def _axis(values: Sequence[float]) -> _Axis:
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        return _Axis(low / 1.5, high * 1.5, log=True)
    return _Axis(0.0, high * 1.15 if high > 0 else 1.0, log=False)


def choice_chart(standings: Sequence[Standing], judgement: Judgement) -> tuple[dict[str, Any], str]:
    """Latency against control bytes, and a word on limits that lie too far away to be drawn."""
    from altair import SCHEMA_URL

    demands = judgement.demands
    latencies = [each.latency_p99 for each in standings if each.latency_p99 is not None]
    sizes = [each.control_bytes for each in standings if each.control_bytes is not None]
    scale, unit = _unit(max(each.mean for each in latencies))
    limits = {"x": None if demands.latency is None else demands.latency / scale, "y": demands.bytes}
    means = {"x": [each.mean / scale for each in latencies], "y": [each.mean for each in sizes]}
    ends = {"x": [upper(each) / scale for each in latencies], "y": [upper(each) for each in sizes]}
    aspects: dict[str, Aspect] = {"x": "latency", "y": "bytes"}
    options = {axis: demands.option(aspects[axis]) for axis, limit in limits.items() if limit is not None}
    far = [axis for axis, limit in limits.items() if limit is not None and _far(limit, means[axis])]
    drawn = {axis: limit for axis, limit in limits.items() if limit is not None and axis not in far}
    axes = {axis: _axis([*means[axis], *ends[axis], *([drawn[axis]] if axis in drawn else [])]) for axis in limits}
    rows = _rows(standings, judgement, scale, axes["x"], axes["y"])
    x: dict[str, Any] = {"field": "latency", "type": "quantitative", "scale": axes["x"].scale}
    x["title"] = f"99th percentile of delivery latency ({unit})"
    x["axis"] = {"labelOverlap": "greedy", "tickCount": 6}
    y: dict[str, Any] = {
        "field": "bytes",
        "type": "quantitative",
        "scale": axes["y"].scale,
        "title": "control bytes a delivery",
    }
    y["axis"] = {"labelOverlap": "greedy"}
    present = [order for order in Order if any(row["order"] == order for row in rows)]
    legend = {"orient": "bottom", "direction": "vertical", "title": "causal order"}
    color: dict[str, Any] = {"field": "order", "type": "nominal", "legend": legend}
    color["scale"] = {"domain": [str(each) for each in present], "range": [_LOOKS[each][0] for each in present]}
    shape = color | {"scale": {"domain": color["scale"]["domain"], "range": [_LOOKS[each][1] for each in present]}}
    memories = [row["memory"] for row in rows]
    memory: dict[str, Any] = {"field": "memory", "type": "quantitative"}
    memory["scale"] = {"range": [20, 500], "domain": [0, max(1, *memories)]}
    memory["legend"] = {"orient": "bottom", "direction": "horizontal", "title": "most messages at a node"}
    memory["legend"] |= {"values": sorted({min(memories), max(memories)}), "symbolFillColor": "#888"}
    label_y = y | {"field": "label"}
    layers = [layer for axis, limit in drawn.items() for layer in _limit_layers(axis, limit, options[axis])]
    for end, pair in (("x", ("latency_low", "latency_high")), ("y", ("bytes_low", "bytes_high"))):
        span = {end: (x if end == "x" else y) | {"field": pair[0]}, f"{end}2": {"field": pair[1]}}
        other = {"y": y} if end == "x" else {"x": x}
        mark = {"type": "rule", "opacity": 0.45, "clip": True}
        layers.append({"mark": mark, "encoding": span | other | {"color": color}})
    layers.append(
        {
            "transform": [{"filter": "datum.moved"}],
            "mark": {"type": "rule", "color": "#888", "opacity": 0.5, "strokeWidth": 0.7},
            "encoding": {"x": x, "y": y, "y2": {"field": "label"}},
        }
    )
    tooltip = [{"field": field} for field in ("protocol", "order")]
    tooltip += [{"field": field, "format": ".4~g"} for field in ("latency", "bytes", "memory")]
    layers.append(
        {
            "mark": {"type": "point", "filled": True, "opacity": 0.8, "clip": True},
            "encoding": {"x": x, "y": y, "color": color, "shape": shape, "size": memory, "tooltip": tooltip},
        }
    )
    for left in (True, False):
        mark = {"type": "text", "align": "right" if left else "left", "dx": -15 if left else 15, "fontSize": 12}
        layers.append(
            {
                "transform": [{"filter": f"datum.left == {str(left).lower()}"}],
                "mark": mark | {"baseline": "middle"},
                "encoding": {"x": x, "y": label_y, "text": {"field": "text"}},
            }
        )
    spec = {
        "$schema": SCHEMA_URL,
        "data": {"values": rows},
        "layer": layers,
        "width": "container",
        "height": _HEIGHT,
    }
    cut = " ".join(f"The limit {options[axis]} lies far outside of the plot and is not drawn." for axis in far)
    return spec, cut


def _far(limit: float, values: Sequence[float]) -> bool:
    return limit > max(values) * _LIMIT_FACTOR or limit < min(values) / _LIMIT_FACTOR


def _limit_layers(axis: str, limit: float, text: str) -> list[dict[str, Any]]:
    """A line, and what it stands for at its end."""
    line = {"type": "rule", "strokeDash": [6, 4], "color": "#888", "strokeWidth": 1.5}
    words = {"type": "text", "text": text, "fontSize": 11, "opacity": 0.8}
    words |= {"align": "left", "dx": 4} if axis == "x" else {"align": "left", "dy": -7, "dx": 4}
    place = {"y": {"value": 10}} if axis == "x" else {"x": {"value": 0}}
    at = {axis: {"datum": limit, "type": "quantitative"}}
    # One row is enough: a text for each row of the data would be drawn over itself.
    return [
        {"data": {"values": [{}]}, "mark": line, "encoding": at},
        {"data": {"values": [{}]}, "mark": words, "encoding": at | place},
    ]


def _rows(
    standings: Sequence[Standing], judgement: Judgement, scale: float, x: _Axis, y: _Axis
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for each in standings:
        latency, size = each.latency_p99, each.control_bytes
        assert latency is not None and size is not None  # others are not shown
        at = x.place(max(latency.mean / scale, x.low))
        low_x, low_y = ((e.mean if e.low is None else e.low) for e in (latency, size))
        rows.append(
            {
                "protocol": each.name,
                "text": f"{each.name}, recommended" if each.name == judgement.recommended else each.name,
                "order": str(each.order),
                "latency": latency.mean / scale,
                "latency_low": max(low_x / scale, x.low),
                "latency_high": upper(latency) / scale,
                "bytes": size.mean,
                "bytes_low": max(low_y, y.low),
                "bytes_high": upper(size),
                "memory": 0 if each.messages_peak is None else each.messages_peak.mean,
                "left": at > 0.65,
            }
        )
    places = [
        (x.place(max(row["latency"], x.low)), _HEIGHT * (1 - y.place(max(row["bytes"], y.low)))) for row in rows
    ]
    for row, (_, before), after in zip(rows, places, spread(places), strict=True):
        row["label"] = y.value(1 - after / _HEIGHT)
        row["moved"] = abs(after - before) > _LINE / 2
    return rows


def spread(places: Sequence[tuple[float, float]]) -> list[float]:
    """Push labels apart: places across (a share of the width) and down (pixels) in, places down out.

    Labels that could run into each other end a line apart, in the order of their marks.
    """
    down = [each[1] for each in places]
    turns = sorted(range(len(places)), key=lambda index: (places[index][1], index))
    pairs = [(i, j) for n, i in enumerate(turns) for j in turns[n + 1 :]]
    pairs = [(i, j) for i, j in pairs if abs(places[i][0] - places[j][0]) < _BESIDE]
    for _ in range(500):
        moved = False
        for i, j in pairs:
            if (push := (_LINE - (down[j] - down[i])) / 2) > 0.25:
                down[i], down[j] = down[i] - push, down[j] + push
                moved = True
        down = [min(max(each, _LINE / 2), _HEIGHT - _LINE / 2) for each in down]
        if not moved:
            break
    return down


def latency_chart(curves: pa.Table, order: Mapping[str, Order]) -> dict[str, Any]:
    """Deliveries made over the time since the broadcast, a line a protocol."""
    from altair import SCHEMA_URL

    means = curves.filter(pc.is_null(curves["seed"]))
    scale, unit = _unit(max(means["latency_ns"].to_pylist()))
    rows = [
        {
            "protocol": row["protocol"],
            "order": str(order[row["protocol"]]),
            "share": row["share"],
            "latency": row["latency_ns"] / scale,
        }
        for row in means.to_pylist()
    ]
    names = [name for name in order if any(row["protocol"] == name for row in rows)]
    axis = _axis([row["latency"] for row in rows if row["share"] >= 0.02])
    present = [str(each) for each in Order if each in order.values()]
    dashes = {str(each): dash for each, dash in zip(Order, ([1, 0], [8, 3], [3, 3], [1, 3], [2, 6]), strict=True)}
    below = {"orient": "bottom", "columns": 2}
    return {
        "$schema": SCHEMA_URL,
        "data": {"values": rows},
        "mark": {"type": "line", "clip": True, "strokeWidth": 2},
        "encoding": {
            "x": {
                "field": "latency",
                "type": "quantitative",
                "scale": axis.scale,
                "title": f"time since the broadcast ({unit})",
                "axis": {"labelOverlap": "greedy", "tickCount": 6},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": "share of deliveries made",
                "axis": {"format": "%"},
                "scale": {"domain": [0, 1]},
            },
            "color": {
                "field": "protocol",
                "type": "nominal",
                "scale": {"domain": names, "scheme": "tableau20"},
                "legend": below | {"title": "protocol"},
            },
            "strokeDash": {
                "field": "order",
                "type": "nominal",
                "scale": {"domain": present, "range": [dashes[each] for each in present]},
                "legend": {"orient": "bottom", "direction": "vertical", "title": "causal order"},
            },
            "order": {"field": "share"},
        },
        "width": "container",
        "height": 320,
    }


def _unit(ns: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _UNITS if ns >= 2 * scale), _UNITS[-1])
