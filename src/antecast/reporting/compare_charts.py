"""The two charts of a comparison: what to choose from, and deliveries over time."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from antecast.comparison.demands import Aspect, upper
from antecast.comparison.judgement import Judgement
from antecast.comparison.standings import Order, Standing
from antecast.history.confidence import Estimate
from antecast.reporting.figures import curves
from antecast.reporting.plot import AnyMark, Axis, Dot, Label, Limit, Plot, Segment, Series
from antecast.reporting.units import Unit

_LOG_FROM = 3.0
"""Values that differ by more than this factor are shown on a logarithmic scale."""
_LIMIT_FACTOR = 5.0
"""A limit further than this factor from all marks would squeeze them, and is named instead of drawn."""
_SMALLEST, _LARGEST = 4.5, 10.0
"""Half the width of a mark, from no messages kept to the most."""
_RIM = 4.0
"""What is seen, in pixels, of a mark of another kind below one in the same place."""

_LOOKS = {
    Order.GUARANTEED: Series(str(Order.GUARANTEED), "var(--c3)", shape="circle", swatch="dot"),
    Order.KEPT: Series(str(Order.KEPT), "var(--c1)", shape="diamond", swatch="dot"),
    Order.VIOLATED: Series(str(Order.VIOLATED), "var(--c2)", shape="triangle", swatch="dot"),
    Order.UNTRIED: Series(str(Order.UNTRIED), "var(--c8)", shape="square", swatch="dot"),
    Order.BROKEN: Series(str(Order.BROKEN), "var(--c5)", shape="cross", swatch="dot"),
}


def _axis(title: str, values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        return Axis(title=title, log=True, low=low / 1.5, high=high * 1.5)
    return Axis(title=title, low=0.0, high=high * 1.15 if high > 0 else 1.0)


def choice_chart(
    standings: Sequence[tuple[Standing, Estimate, Estimate]], judgement: Judgement, unit: Unit
) -> tuple[Plot, str]:
    """Latency against control bytes, and a word on limits that lie too far away to be drawn.

    Each standing comes with its latency and its control bytes.
    """
    demands = judgement.demands
    limits = {"x": None if demands.latency is None else unit.of(demands.latency), "y": demands.bytes}
    places = {"x": [unit.of(time.mean) for _, time, _ in standings], "y": [size.mean for *_, size in standings]}
    ends = {"x": [unit.of(upper(time)) for _, time, _ in standings], "y": [upper(size) for *_, size in standings]}
    aspects: dict[str, Aspect] = {"x": "latency", "y": "bytes"}
    options = {axis: demands.option(aspects[axis]) for axis, limit in limits.items() if limit is not None}
    far = [axis for axis, limit in limits.items() if limit is not None and _far(limit, places[axis])]
    drawn = {axis: limit for axis, limit in limits.items() if limit is not None and axis not in far}
    titles = {"x": f"99th percentile of delivery latency ({unit.sign})", "y": "control bytes per delivery"}
    x, y = (
        _axis(titles[axis], [*places[axis], *ends[axis], *([drawn[axis]] if axis in drawn else [])])
        for axis in ("x", "y")
    )
    marks: list[AnyMark] = [
        Limit(text=options[axis], x=limit if axis == "x" else None, y=limit if axis == "y" else None)
        for axis, limit in drawn.items()
    ]
    most = max((each.messages_peak.mean for each, *_ in standings if each.messages_peak), default=0.0) or 1.0
    dots: list[Dot] = []
    # The one to take has the first choice of a place for its name, and lies above the others.
    for each, time, size in sorted(standings, key=lambda entry: entry[0].name != judgement.recommended):
        at, cost, order = unit.of(time.mean), size.mean, str(each.order)
        kept = 0.0 if each.messages_peak is None else each.messages_peak.mean
        marks += _spans(at, cost, time, size, unit, order, each.name)
        taken = f"{each.name}, recommended" if each.name == judgement.recommended else each.name
        tip = f"{each.name}, {order}: {unit(time.mean)}, {cost:,.4g} B, {kept:,.4g} messages at a node"
        half = _SMALLEST + (_LARGEST - _SMALLEST) * (kept / most) ** 0.5
        half += _RIM * len({dot.series for dot in dots if _together(dot, at, cost)} - {order})
        dots.append(Dot(x=at, y=cost, series=order, key=each.name, size=half, tip=tip))
        marks.append(Label(x=at, y=cost, series=order, key=each.name, text=taken))
    present = [_LOOKS[order] for order in Order if any(each.order is order for each, *_ in standings)]
    plot = Plot(
        x=x, y=y, marks=[*marks, *dots[::-1]], series=present, series_title="causal order", pick=False, height=420
    )
    cut = " ".join(f"The limit {options[axis]} lies far outside of the plot and is not drawn." for axis in far)
    return plot, cut


def _spans(x: float, y: float, time: Estimate, size: Estimate, unit: Unit, series: str, key: str) -> list[AnyMark]:
    """The intervals of a mark, along both axes."""
    spans: list[AnyMark] = []
    if time.low is not None and time.high is not None:
        low, high = max(0.0, unit.of(time.low)), unit.of(time.high)
        spans.append(Segment(x=low, x2=high, y=y, y2=y, width=1, series=series, key=key))
    if size.low is not None and size.high is not None:
        spans.append(Segment(x=x, x2=x, y=max(0.0, size.low), y2=size.high, width=1, series=series, key=key))
    return spans


def _together(dot: Dot, x: float, y: float) -> bool:
    return abs(dot.x - x) <= 0.03 * abs(x) and abs(dot.y - y) <= 0.03 * abs(y)


def _far(limit: float, values: Sequence[float]) -> bool:
    return limit > max(values) * _LIMIT_FACTOR or limit < min(values) / _LIMIT_FACTOR


def latency_chart(table: pa.Table, names: Sequence[str], unit: Unit) -> Plot:
    """Deliveries made over the time since the broadcast, a line for each protocol."""
    means = table.filter(pc.is_null(table["seed"])).sort_by("share").to_pylist()
    rows = [row | {"time": unit.of(row["latency_ns"])} for row in means]
    there = {row["protocol"] for row in rows}
    # The quickest deliveries of all would stretch a logarithmic axis for the sake of a few.
    axis = _axis(f"time since the broadcast ({unit.sign})", [row["time"] for row in rows if row["share"] >= 0.02])
    return curves(
        rows,
        axis,
        Axis(title="share of deliveries made", share=True, low=0.0, high=1.0),
        ("time", "share"),
        series="protocol",
        series_title="protocol",
        order=[name for name in names if name in there],
        height=320,
    )
