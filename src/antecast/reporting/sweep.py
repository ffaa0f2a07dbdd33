"""The page of a sweep: did all runs end well, and how do their measures depend on what was varied?

Everything comes from `runs.parquet`, one row a run, and `study.json`. A mean over seeds has a confidence interval
of 95 % by Student's t, runs with different seeds being independent. Each parameter that varies has its plots; the
other ones make series, as long as `SERIES` are enough for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from antecast.core.settings import parse_duration
from antecast.history.confidence import Estimate
from antecast.reporting import figures
from antecast.reporting.folders import Beside, command_line, read_json, read_table
from antecast.reporting.order import by_size, size_key
from antecast.reporting.page import Block, Chart, Code, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.plot import SMALL, Axis
from antecast.reporting.run import witness_section
from antecast.reporting.units import PLAIN, Unit, size_for, time_for
from antecast.text.toml import format_toml
from antecast.text.wording import listed, number, plural, share_text

SERIES = 8
"""Series of a plot: as many as there are colours."""

MOST_ROWS = 60
"""Rows of a table that a page shows; the rest is counted."""


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """What `runs.parquet` tells of a run, and how it is shown."""

    title: str
    axis: str
    value: Callable[[Row], float | None]
    unit: Unit = PLAIN
    share: bool = False

    def shown(self, value: float | None) -> str:
        return share_text(value) if self.share else self.unit(value) if self.unit.sign else number(value)


def _column(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.get(name)


def _early(row: Row) -> float | None:
    """The share of deliveries that came too early: runs of different lengths compare."""
    return row["early"] / row["deliveries"] if row["early"] is not None and row.get("deliveries") else None


def _metrics(rows: Sequence[Row]) -> list[Metric]:
    """All metrics, each with one unit for the whole page."""
    time = time_for(row[name] for row in rows for name in ("latency_mean_ns", "latency_p95_ns"))
    size = size_for(row["control_bytes_per_broadcast"] for row in rows)
    control = f"control ({size.sign} per message)"
    return [
        Metric("delivered", "share delivered", _column("delivery_ratio"), share=True),
        Metric("mean latency", f"mean latency ({time.sign})", _column("latency_mean_ns"), time),
        Metric(
            "95 % of deliveries within", f"latency, 95 % within ({time.sign})", _column("latency_p95_ns"), time
        ),
        Metric("control bytes per message", control, _column("control_bytes_per_broadcast"), size),
        Metric("frames per delivery", "frames per delivery", _column("frames_per_delivery")),
        Metric("deliveries too early", "share of deliveries", _early, share=True),
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


def sweep_page(folder: Path) -> Page:
    """The page of the sweep in a folder; its tables go to `report/` beside it."""
    about = read_json(folder / "study.json")
    study: Mapping[str, Any] = about.get("study", {})
    table = read_table(folder / "runs.parquet")
    rows = table.to_pylist()
    names = table.column_names
    # The table has index, run, the fields that vary, seed, and then what was measured.
    columns = names[names.index("run") + 1 : names.index("seed")]
    known = {field.replace(".", "_").replace("-", "_"): field for field in study.get("fields", ())}
    fields = {column: known.get(column, column) for column in columns}
    parameters = [column for column in columns if len({_key(row[column]) for row in rows}) > 1]
    failed = [row for row in rows if row["error"] is not None]
    broken = [row for row in rows if row["error"] is None and _breaks(row)]
    beside = Beside(folder)
    metrics = _metrics(rows)
    means: list[dict[str, Any]] = []
    latency: list[dict[str, Any]] = []
    plots = [_against(column, parameters, rows, fields, metrics, means, latency) for column in parameters]
    if not parameters and (chart := _distribution("", rows, fields, metrics, latency)):
        plots.append(Section("Latency", [chart]))
    beside.write("means", pa.Table.from_pylist(means, schema=MEANS))
    beside.write("latency", pa.Table.from_pylist(latency, schema=LATENCY))
    beside.summary(_numbers(rows, failed, broken, metrics))
    text, tone = _verdict(rows, failed, broken)
    sections = [
        *([_failed(failed, columns, fields)] if failed else []),
        *([_broken(broken, columns, fields, folder, beside)] if broken else []),
        *(section for section in plots if section is not None),
        _points(rows, columns, fields, metrics),
        _parameters(about, study, rows, columns, fields),
    ]
    seeds = plural(len({row["seed"] for row in rows}), "seed")
    varied = f", varying {listed(fields[name] for name in parameters)}" if parameters else ""
    lead = [f"{plural(len(rows), 'run')} with {seeds}{varied}."]
    return Page(
        title=f"{study.get('name', folder.name)}: a sweep",
        verdict=text,
        tone=tone,
        lead=lead,
        figures=_figures(rows, metrics),
        sections=sections,
        facts=_facts(about, rows, folder, beside),
    )


def _breaks(row: Row) -> bool:
    """Whether a run broke a promise of its protocol."""
    return bool(row.get("broken"))


def _verdict(rows: Sequence[Row], failed: Sequence[Row], broken: Sequence[Row]) -> tuple[str, Tone]:
    ended = [row for row in rows if row["error"] is None]
    idle = sum(row["verdict"] == "causal" and row.get("delivery_ratio") == 0 for row in ended)
    causal = sum(row["verdict"] == "causal" for row in ended) - idle
    unclear = sum(row["verdict"] == "inconclusive" for row in ended)
    free = sum(row["verdict"] == "violated" for row in ended) - sum(row["verdict"] == "violated" for row in broken)
    parts = [f"{causal:,} of {plural(len(rows), 'run')} kept causal order"]
    parts += [f"{len(broken):,} broke what they promise"] if broken else []
    parts += [f"{free:,} did not, and do not promise it"] if free else []
    parts += [f"{idle:,} delivered nothing to another node"] if idle else []
    parts += [f"{unclear:,} cannot be judged"] if unclear else []
    parts += [f"{len(failed):,} failed"] if failed else []
    tone: Tone = "bad" if broken or failed else "plain" if unclear or idle or free or not rows else "good"
    kept = "Every promise was kept: " if free and not (broken or failed or unclear or idle) else ""
    return f"{kept}{'; '.join(parts)}.", tone


def _numbers(
    rows: Sequence[Row], failed: Sequence[Row], broken: Sequence[Row], metrics: Sequence[Metric]
) -> dict[str, float | int | None]:
    """The single numbers of the page."""
    verdicts = {
        word: sum(row["verdict"] == word for row in rows) for word in ("causal", "violated", "inconclusive")
    }
    names = dict(zip(_NAMES, metrics, strict=True))
    means = {f"{name}_mean": _mean(rows, metric.value) for name, metric in names.items()}
    totals = {name: sum(row[name] or 0 for row in rows) for name in ("events", "cpu_seconds", "wall_seconds")}
    return {"runs": len(rows), "failed": len(failed), "broken": len(broken), **verdicts, **totals, **means}


_NAMES = (
    "delivery_ratio",
    "latency_mean_ns",
    "latency_p95_ns",
    "control_bytes_per_broadcast",
    "frames_per_delivery",
    "early_share",
)
"""What the summary calls the metrics."""


def _figures(rows: Sequence[Row], metrics: Sequence[Metric]) -> list[Figure]:
    events = sum(row["events"] or 0 for row in rows)
    seconds = sum(row["cpu_seconds"] or 0 for row in rows)
    delivered, latency, _, control, *_ = (metric.shown(_mean(rows, metric.value)) for metric in metrics)
    return [
        Figure("runs", number(len(rows)), f"{sum(row['error'] is None for row in rows):,} ended well"),
        Figure("delivered", delivered, "mean over runs"),
        Figure("mean latency", latency, "mean over runs"),
        Figure("control bytes", control, "per message, mean over runs"),
        Figure("events", number(events), f"in {number(seconds)} s of CPU time"),
    ]


def _mean(rows: Sequence[Row], value: Callable[[Row], float | None]) -> float | None:
    values = [found for row in rows if (found := value(row)) is not None]
    return sum(values) / len(values) if values else None


def _failed(failed: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str]) -> Section:
    rows = [(*_point(row, columns), str(row["seed"]), row["error"], row["run"]) for row in failed[:MOST_ROWS]]
    header = (*fields.values(), "seed", "why", "run")
    notes = ["The same command tries them again. Data: runs.parquet; tracebacks: failed/RUN.json."]
    return Section("Failed runs", [TableBlock("", header, rows, [*_left(len(failed)), *notes])])


def _broken(
    broken: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str], folder: Path, beside: Beside
) -> Section:
    counts = ("early", "late", "duplicates", "before_broadcast")
    rows = [
        (
            *_point(row, columns),
            str(row["seed"]),
            row["broken"],
            *(number(row[name]) for name in counts),
            share_text(_early(row)),
            row["run"],
        )
        for row in broken[:MOST_ROWS]
    ]
    header = (
        *fields.values(),
        "seed",
        "promise",
        *(each.replace("_", " ") for each in counts),
        "early, of deliveries",
        "run",
    )
    blocks: list[Block] = [TableBlock("", header, rows, [*_left(len(broken)), "Data: runs.parquet."])]
    first = folder / "runs" / broken[0]["run"]
    story = witness_section(first, beside) if (first / "events.parquet").is_file() else None
    if story is not None:
        blocks += [Text(f"The first of them, as antecast report {folder} --run {broken[0]['run']} tells it:")]
        blocks += story.blocks
    return Section("Broken promises", blocks)


def _left(count: int) -> list[str]:
    return [f"Cut: {count - MOST_ROWS:,} more are in runs.parquet."] if count > MOST_ROWS else []


def _against(
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
    values = list({_key(row[column]): row[column] for row in rows}.values())
    positions = _positions(values)
    blocks: list[Block] = [Text(remark)] if remark else []
    for metric in metrics:
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if (found := metric.value(row)) is not None:
                groups.setdefault((_key(row[column]), _named(row, series)), []).append(metric.unit.of(found))
        if not groups or (metric.value is _early and not any(map(any, groups.values()))):
            continue
        points = []
        for (value, group), each in groups.items():
            estimate = Estimate.of(each)
            shown = {"parameter": name, "metric": metric.title, "value": value, "series": group, "n": len(each)}
            points.append(shown | {"mean": estimate.mean, "low": estimate.low, "high": estimate.high})
        means += points
        blocks.append(_plot(metric, name, points, positions, series, fields))
    if chart := _distribution(column, rows, fields, metrics, latency):
        blocks.append(chart)
    return Section(f"Against {name}", blocks) if blocks else None


def _distribution(
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
            groups.setdefault(_key(row[column]) if column else "", []).append(row)
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
        Axis(title=f"time since the broadcast ({unit.sign})"),
        Axis(title="share of deliveries", share=True, high=1.0),
        ("time", "share"),
        series="value" if column else "",
        series_title=name,
        points=True,
        height=SMALL,
    )
    halves = [(_mean(groups[value], _column("latency_p50_ns")) or 0.0, value) for value in values]
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
        pairs = {(_key(row[column]), _key(row[other])) for row in rows}
        if other != column and len(pairs) > len({pair[0] for pair in pairs}):  # else it varies with the column
            others.append(other)
    chosen: list[str] = []
    for other in sorted(others, key=lambda each: len({_key(row[each]) for row in rows})):
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
            found[_key(value)] = float(value)
            continue
        try:
            found[_key(value)] = parse_duration(value) / 1e9
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
    words = f"From {_where(least, metric, name)} to {_where(most, metric, name)}."
    ends = {metric.shown(point["mean"] * metric.unit.size) for point in (least, most)}
    if len(ends) == 1:
        words = f"{ends.pop()} throughout."
    runs = min(point["n"] for point in points)
    band = "bands are 95 % intervals" if positions is not None else "lines are 95 % intervals"
    note = f"Means of {plural(runs, 'run')} or more, {band}. " if runs > 1 else "Single runs have no interval. "
    return Chart(metric.title, [plot], words, f"{note}Data: report/means.parquet, runs.parquet.", small=True)


def _where(point: Row, metric: Metric, name: str) -> str:
    series = f" ({point['series']})" if point["series"] else ""
    return f"{metric.shown(point['mean'] * metric.unit.size)} with {name} {point['value']}{series}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _named(row: Row, columns: Sequence[str]) -> str:
    return ", ".join(_key(row[column]) for column in columns)


def _point(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(_key(row[column]) for column in columns)


def _points(
    rows: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str], metrics: Sequence[Metric]
) -> Section:
    """A row for each point of the grid: means over its seeds."""
    points: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        points.setdefault(_point(row, columns), []).append(row)
    lines = []
    for key, group in sorted(points.items(), key=lambda each: list(map(size_key, each[0])))[:MOST_ROWS]:
        causal = sum(row["verdict"] == "causal" for row in group)
        lines.append(
            (
                *key,
                f"{len(group):,}",
                f"{causal:,}",
                *(metric.shown(_mean(group, metric.value)) for metric in metrics[:-1]),
            )
        )
    measured = (
        "runs",
        "causal",
        "delivered",
        "mean latency",
        "95 % within",
        "control per message",
        "frames per delivery",
    )
    header = (*fields.values(), *measured)
    return Section("All points", [TableBlock("", header, lines, [*_left(len(points)), "Data: runs.parquet."])])


def _parameters(
    about: Row, study: Row, rows: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str]
) -> Section:
    varied = [
        (fields[name], ", ".join(by_size(dict.fromkeys(_key(row[name]) for row in rows)))) for name in columns
    ]
    varied.append(("seed", ", ".join(dict.fromkeys(str(row["seed"]) for row in rows))))
    blocks: list[Block] = [TableBlock("What varies", ("field", "values"), varied)]
    command = command_line(about.get("command"))
    if command is not None and " sweep " in command:
        blocks += [Text("The same study makes the same runs:"), Code(command)]
    blocks += [Text("What all runs share:"), Code(format_toml(study.get("scenario", {})))]
    return Section("Parameters", blocks)


def _facts(about: Row, rows: Sequence[Row], folder: Path, beside: Beside) -> dict[str, str]:
    facts = {"command": command_line(about.get("command")) or "from Python"}
    facts |= {name: str(about[name]) for name in ("version", "revision", "python") if about.get(name)}
    wall = sum(row["wall_seconds"] or 0 for row in rows)
    facts |= {"runs took": f"{wall:.1f} s wall in all, {sum(row['cpu_seconds'] or 0 for row in rows):.1f} s CPU"}
    tables = ["runs.parquet", "runs/RUN/events.parquet", "runs/RUN/samples.parquet", *beside.tidy()]
    return facts | {"folder": str(folder), "tables": ", ".join(tables)}
