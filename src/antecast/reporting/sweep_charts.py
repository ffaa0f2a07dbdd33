"""The plots of a sweep: each metric of its runs against each parameter that varies.

A mean over seeds has a confidence interval of 95 % by Student's t, runs with different seeds being independent.
The other parameters make series, as long as `SERIES` are enough for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pyarrow as pa

from antecast.core.settings import parse_duration
from antecast.history.confidence import Estimate
from antecast.reporting import figures
from antecast.reporting.order import by_size
from antecast.reporting.page import Block, Chart, Section, Text
from antecast.reporting.plot import SMALL, Axis
from antecast.reporting.units import PLAIN, Unit, size_for, time_for
from antecast.text.wording import listed, number, plural, share_text

SERIES = 8
"""Series of a plot: as many as there are colours."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """A column of `runs.parquet`, and how it is shown."""

    title: str
    axis: str
    value: Callable[[Row], float | None]
    unit: Unit = PLAIN
    share: bool = False

    def shown(self, value: float | None) -> str:
        return share_text(value) if self.share else self.unit(value) if self.unit.sign else number(value)


def column_of(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.get(name)


def early_share(row: Row) -> float | None:
    """The share of deliveries that came too early: runs of different lengths compare."""
    return row["early"] / row["deliveries"] if row["early"] is not None and row.get("deliveries") else None


def metrics_of(rows: Sequence[Row]) -> list[Metric]:
    """All metrics, each with one unit for the whole page."""
    time = time_for(row[name] for row in rows for name in ("latency_mean_ns", "latency_p95_ns"))
    size = size_for(row["control_bytes_per_broadcast"] for row in rows)
    control = f"control ({size.sign} per message)"
    return [
        Metric("delivered", "share delivered", column_of("delivery_ratio"), share=True),
        Metric("mean latency", f"mean latency ({time.sign})", column_of("latency_mean_ns"), time),
        Metric(
            "95 % of deliveries within", f"latency, 95 % within ({time.sign})", column_of("latency_p95_ns"), time
        ),
        Metric("control bytes per message", control, column_of("control_bytes_per_broadcast"), size),
        Metric("frames per delivery", "frames per delivery", column_of("frames_per_delivery")),
        Metric("deliveries too early", "share of deliveries", early_share, share=True),
    ]


SPREAD = {
    "latency_min_ns": 0.0, "latency_p5_ns": 0.05, "latency_p25_ns": 0.25, "latency_p50_ns": 0.5,
    "latency_p75_ns": 0.75, "latency_p95_ns": 0.95, "latency_p99_ns": 0.99, "latency_max_ns": 1.0,
}  # fmt: skip
"""Columns of `runs.parquet` that tell how latency is distributed, and the share of deliveries within each."""

MEANS = pa.schema(
    [
        *((name, pa.string()) for name in ("parameter", "metric", "value", "series")),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("mean", "low", "high")),
    ]
)
"""The points of the plots: the mean of a metric over the runs with one value of a parameter, in one series."""

LATENCY = pa.schema(
    [
        *((name, pa.string()) for name in ("parameter", "value")),
        ("n", pa.int64()),
        *((name, pa.float64()) for name in ("share", "latency_ns")),
    ]
)
"""The latency within which a share of deliveries came, a mean over the runs with one value of a parameter."""


def mean_of(rows: Sequence[Row], value: Callable[[Row], float | None]) -> float | None:
    values = [found for row in rows if (found := value(row)) is not None]
    return sum(values) / len(values) if values else None


def against(
    column: str,
    parameters: Sequence[str],
    rows: Sequence[Row],
    fields: Mapping[str, str],
    metrics: Sequence[Metric],
    means: list[dict[str, Any]],
    latency: list[dict[str, Any]],
) -> Section | None:
    """The metrics against one parameter, the others as series."""
    name = fields[column]
    series, remark = _series(column, parameters, rows, fields)
    values = list({key_of(row[column]): row[column] for row in rows}.values())
    positions = _positions(values)
    blocks: list[Block] = [Text(remark)] if remark else []
    for metric in metrics:
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if (found := metric.value(row)) is not None:
                groups.setdefault((key_of(row[column]), _named(row, series)), []).append(metric.unit.of(found))
        if not groups or (metric.value is early_share and not any(map(any, groups.values()))):
            continue
        points = []
        for (value, group), each in groups.items():
            estimate = Estimate.of(each)
            shown = {"parameter": name, "metric": metric.title, "value": value, "series": group, "n": len(each)}
            points.append(shown | {"mean": estimate.mean, "low": estimate.low, "high": estimate.high})
        means += points
        blocks.append(_plot(metric, name, points, positions, series, fields))
    if chart := distribution(column, rows, fields, metrics, latency):
        blocks.append(chart)
    return Section(f"Against {name}", blocks) if blocks else None


def distribution(
    column: str,
    rows: Sequence[Row],
    fields: Mapping[str, str],
    metrics: Sequence[Metric],
    latency: list[dict[str, Any]],
) -> Chart | None:
    """How latency is distributed, for each value of a parameter; for all runs together without one."""
    name, groups = fields.get(column, ""), dict[str, list[Row]]()
    for row in rows:
        if all(row.get(each) is not None for each in SPREAD):  # a run of an earlier version has fewer columns
            groups.setdefault(key_of(row[column]) if column else "", []).append(row)
    if not groups:
        return None
    values = by_size(groups)
    if len(values) > SERIES:
        values = [values[round(i * (len(values) - 1) / (SERIES - 1))] for i in range(SERIES)]
    points: list[dict[str, Any]] = [
        {"parameter": name, "value": value, "n": len(groups[value]), "share": share}
        | {"latency_ns": fmean(row[each] for row in groups[value])}
        for value in values
        for each, share in SPREAD.items()
    ]
    latency += points
    unit = next(metric.unit for metric in metrics if metric.title == "mean latency")
    plot = figures.curves(
        [point | {"time": unit.of(point["latency_ns"])} for point in points],
        figures.time_axis(
            f"time since the broadcast ({unit.sign})", [unit.of(point["latency_ns"]) for point in points]
        ),
        Axis(title="share of deliveries", share=True, high=1.0),
        ("time", "share"),
        series="value" if column else "",
        series_title=name,
        points=True,
        height=SMALL,
    )
    halves = [(mean_of(groups[value], column_of("latency_p50_ns")) or 0.0, value) for value in values]
    ends = [f"{unit(half)}{f' with {name} {value}' * bool(column)}" for half, value in (min(halves), max(halves))]
    same = unit(min(halves)[0]) == unit(max(halves)[0])
    words = f"Half of the deliveries come within {unit(halves[0][0]) if same else ' to '.join(ends)}."
    cut = f"Cut: {SERIES} of {len(groups)} values. " if len(values) < len(groups) else ""
    note = "Means over runs of the least, 5, 25, 50, 75, 95, 99 % and the most, joined by lines. "
    data = "Data: report/latency.parquet, runs.parquet."
    return Chart("How long until a message is delivered", [plot], words, note + cut + data, small=True)


def _series(
    column: str, parameters: Sequence[str], rows: Sequence[Row], fields: Mapping[str, str]
) -> tuple[list[str], str]:
    """The other parameters that make series, and a word on those that do not."""
    others = []
    for other in parameters:
        pairs = {(key_of(row[column]), key_of(row[other])) for row in rows}
        if other != column and len(pairs) > len({pair[0] for pair in pairs}):  # else it varies with the column
            others.append(other)
    chosen: list[str] = []
    for other in sorted(others, key=lambda each: len({key_of(row[each]) for row in rows})):
        if len({_named(row, [*chosen, other]) for row in rows}) <= SERIES:
            chosen.append(other)
    chosen = [other for other in others if other in chosen]
    rest = [fields[other] for other in others if other not in chosen]
    return chosen, f"Cut: means are taken over all values of {listed(rest)}." if rest else ""


def _positions(values: Sequence[Any]) -> dict[str, float] | None:
    """Values as numbers, durations in seconds; None if they are names."""
    found: dict[str, float] = {}
    for value in values:
        if isinstance(value, bool) or value is None:
            return None
        if isinstance(value, int | float):
            found[key_of(value)] = float(value)
            continue
        try:
            found[key_of(value)] = parse_duration(value) / 1e9
        except ValueError:
            return None
    return found


def _plot(
    metric: Metric,
    name: str,
    points: list[dict[str, Any]],
    positions: Mapping[str, float] | None,
    series: Sequence[str],
    fields: Mapping[str, str],
) -> Chart:
    title = ", ".join(fields[each] for each in series)
    y = Axis(title=metric.axis, share=metric.share)
    split, order = "series" if series else "", by_size(dict.fromkeys(point["series"] for point in points))
    if positions is not None:
        durations = any(not _is_number(point["value"]) for point in points)
        rows = [{**point, "x": positions[point["value"]]} for point in points]
        rows.sort(key=lambda row: (order.index(row["series"]), row["x"]))
        x = Axis(title=f"{name} (s)" if durations else name)
        plot = figures.curves(
            rows,
            x,
            y,
            ("x", "mean"),
            band=("low", "high"),
            points=True,
            height=SMALL,
            series=split,
            series_title=title,
        )
    else:
        names = by_size(dict.fromkeys(point["value"] for point in points))
        plot = figures.intervals(points, Axis(names=names), y, series=split, series_title=title, order=order)
    least, most = (pick(points, key=lambda point: point["mean"]) for pick in (min, max))
    words = f"From {_where(least, metric, name, title)} to {_where(most, metric, name, title)}."
    ends = {metric.shown(point["mean"] * metric.unit.size) for point in (least, most)}
    if len(ends) == 1:
        words = f"{ends.pop()} throughout."
    runs, many = (pick(point["n"] for point in points) for pick in (min, max))
    band = "bands are 95 % intervals" if positions is not None else "lines are 95 % intervals"
    counted = plural(runs, "run") if runs == many else f"{runs:,} to {plural(many, 'run')}"
    note = f"Means of {counted}, {band}. " if runs > 1 else "Single runs have no interval. "
    return Chart(metric.title, [plot], words, f"{note}Data: report/means.parquet, runs.parquet.", small=True)


def _where(point: Row, metric: Metric, name: str, others: str) -> str:
    series = f" ({others} {point['series']})" if point["series"] else ""
    return f"{metric.shown(point['mean'] * metric.unit.size)} with {name} {point['value']}{series}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def key_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _named(row: Row, columns: Sequence[str]) -> str:
    return ", ".join(key_of(row[column]) for column in columns)
