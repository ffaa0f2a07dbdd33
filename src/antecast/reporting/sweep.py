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
from antecast.reporting.page import Block, Chart, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.run import witness_section
from antecast.text.toml import format_toml
from antecast.text.wording import listed, number, plural, share_text, size_text, time_text, time_unit

SERIES = 8
"""Series of a plot: as many as there are colours."""

MOST_ROWS = 60
"""Rows of a table that a page shows; the rest is counted."""


@dataclass(frozen=True)
class Metric:
    """A column of `runs.parquet`, and how it is shown."""

    column: str
    title: str
    axis: str
    shown: Callable[[float], str]
    """A value in words."""
    scale: float = 1.0
    """From the column to the axis."""
    form: str = ""


METRICS = (
    Metric("delivery_ratio", "delivered", "share delivered", share_text, form=".0%"),
    Metric("latency_mean_ns", "mean latency", "mean latency (ms)", time_text, 1e-6),
    Metric("latency_p95_ns", "95 % of deliveries within", "latency, 95 % within (ms)", time_text, 1e-6),
    Metric("control_bytes_per_broadcast", "control bytes a message", "control (kB a message)", size_text, 1e-3),
    Metric("frames_per_delivery", "frames a delivery", "frames a delivery", number),
    Metric("early", "deliveries too early", "deliveries too early", number),
)

SPREAD = {
    "latency_min_ns": 0.0, "latency_p5_ns": 0.05, "latency_p25_ns": 0.25, "latency_p50_ns": 0.5,
    "latency_p75_ns": 0.75, "latency_p95_ns": 0.95, "latency_p99_ns": 0.99, "latency_max_ns": 1.0,
}  # fmt: skip
"""Columns of `runs.parquet` that tell how latency is distributed, and the share of deliveries within each."""

Row = Mapping[str, Any]

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
    means: list[dict[str, Any]] = []
    latency: list[dict[str, Any]] = []
    plots = [_against(column, parameters, rows, fields, means, latency) for column in parameters]
    if not parameters and (chart := _distribution("", rows, fields, latency)):
        plots.append(Section("Latency", [chart]))
    beside.write("means", pa.Table.from_pylist(means, schema=MEANS))
    beside.write("latency", pa.Table.from_pylist(latency, schema=LATENCY))
    beside.summary(_numbers(rows, failed, broken))
    text, tone = _verdict(rows, failed, broken)
    sections = [
        *([_failed(failed, columns, fields)] if failed else []),
        *([_broken(broken, columns, fields, folder, beside)] if broken else []),
        *(section for section in plots if section is not None),
        _points(rows, columns, fields),
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
        figures=_figures(rows),
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
    tone: Tone = "bad" if broken or failed else "plain" if unclear or idle or not rows else "good"
    kept = "Every promise was kept: " if tone == "good" and free else ""
    return f"{kept}{'; '.join(parts)}.", tone


def _numbers(rows: Sequence[Row], failed: Sequence[Row], broken: Sequence[Row]) -> dict[str, float | int | None]:
    """The single numbers of the page."""
    verdicts = {
        word: sum(row["verdict"] == word for row in rows) for word in ("causal", "violated", "inconclusive")
    }
    means = {f"{metric.column}_mean": _mean(rows, metric.column) for metric in METRICS}
    totals = {name: sum(row[name] or 0 for row in rows) for name in ("events", "cpu_seconds", "wall_seconds")}
    return {"runs": len(rows), "failed": len(failed), "broken": len(broken), **verdicts, **totals, **means}


def _figures(rows: Sequence[Row]) -> list[Figure]:
    events = sum(row["events"] or 0 for row in rows)
    seconds = sum(row["cpu_seconds"] or 0 for row in rows)
    return [
        Figure("runs", number(len(rows)), f"{sum(row['error'] is None for row in rows):,} ended well"),
        Figure("delivered", share_text(_mean(rows, "delivery_ratio")), "mean over runs"),
        Figure("mean latency", time_text(_mean(rows, "latency_mean_ns")), "mean over runs"),
        Figure("control bytes", size_text(_mean(rows, "control_bytes_per_broadcast")), "a message, on average"),
        Figure("events", number(events), f"in {number(seconds)} s of CPU time"),
    ]


def _mean(rows: Sequence[Row], column: str) -> float | None:
    values = [row[column] for row in rows if row[column] is not None]
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
            row["run"],
        )
        for row in broken[:MOST_ROWS]
    ]
    header = (
        *fields.values(),
        "seed",
        "promise",
        *(each.replace("_", " ") for each in counts),
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
    means: list[dict[str, Any]],
    latency: list[dict[str, Any]],
) -> Section | None:
    """The metrics against one parameter, the others as series."""
    name = fields[column]
    series, remark = _series(column, parameters, rows, fields)
    values = list({_key(row[column]): row[column] for row in rows}.values())
    positions = _positions(values)
    blocks: list[Block] = [Text(remark)] if remark else []
    for metric in METRICS:
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if row[metric.column] is not None:
                key = _key(row[column]), _named(row, series)
                groups.setdefault(key, []).append(row[metric.column] * metric.scale)
        if not groups or (metric.column == "early" and not any(map(any, groups.values()))):
            continue
        points = []
        for (value, group), each in groups.items():
            estimate = Estimate.of(each)
            shown = {"parameter": name, "metric": metric.title, "value": value, "series": group, "n": len(each)}
            points.append(shown | {"mean": estimate.mean, "low": estimate.low, "high": estimate.high})
        means += points
        blocks.append(_plot(metric, name, points, positions, series, fields))
    if chart := _distribution(column, rows, fields, latency):
        blocks.append(chart)
    return Section(f"Against {name}", blocks) if blocks else None


def _distribution(
    column: str, rows: Sequence[Row], fields: Mapping[str, str], latency: list[dict[str, Any]]
) -> Chart | None:
    """How latency is distributed, for each value of a parameter; for all runs together without one."""
    name, groups = fields.get(column, ""), dict[str, list[Row]]()
    for row in rows:
        if all(row.get(each) is not None for each in SPREAD):  # a run of an earlier version has fewer columns
            groups.setdefault(_key(row[column]) if column else "", []).append(row)
    if not groups:
        return None
    values = list(groups)
    if len(values) > SERIES:
        values = [values[round(i * (len(values) - 1) / (SERIES - 1))] for i in range(SERIES)]
    points: list[dict[str, Any]] = [
        {"parameter": name, "value": value, "n": len(groups[value]), "share": share}
        | {"latency_ns": fmean(row[each] for row in groups[value])}
        for value in values
        for each, share in SPREAD.items()
    ]
    latency += points
    size, unit = time_unit(max(point["latency_ns"] for point in points))
    spec = figures.curves(
        [point | {"time": point["latency_ns"] / size} for point in points],
        figures.axis("time", f"time since the broadcast ({unit})"),
        figures.axis("share", "share of deliveries", form=".0%"),
        series="value" if column else "",
        series_title=name,
        points=True,
        clip=False,
        height=figures.SMALL,
    )
    halves = [(_mean(groups[value], "latency_p50_ns") or 0.0, value) for value in values]
    ends = [
        f"{time_text(half)}{f' with {name} {value}' * bool(column)}" for half, value in (min(halves), max(halves))
    ]
    words = f"Half of the deliveries come within {' to '.join(dict.fromkeys(ends))}."
    cut = f"Cut: {SERIES} of {len(groups)} values. " if len(values) < len(groups) else ""
    note = "Means over runs of the least, 5, 25, 50, 75, 95, 99 % and the most, joined by lines. "
    data = "Data: report/latency.parquet, runs.parquet."
    return Chart("How long until a message is delivered", spec, words, note + cut + data, small=True)


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
    y = figures.axis("mean", metric.axis, form=metric.form)
    split = "series" if series else ""
    if positions is not None:
        durations = any(not _is_number(point["value"]) for point in points)
        rows = [{**point, "x": positions[point["value"]]} for point in points]
        order = list(dict.fromkeys(row["series"] for row in rows))
        rows.sort(key=lambda row: (order.index(row["series"]), row["x"]))
        x = figures.axis("x", f"{name} (s)" if durations else name)
        spec = figures.curves(
            rows,
            x,
            y,
            low="low",
            high="high",
            points=True,
            clip=False,
            height=figures.SMALL,
            series=split,
            series_title=title,
        )
    else:
        x = figures.axis("value", name, kind="nominal", sort=None)
        spec = figures.intervals(
            points, x, y | {"scale": {"zero": True}}, height=figures.SMALL, series=split, series_title=title
        )
    least, most = (pick(points, key=lambda point: point["mean"]) for pick in (min, max))
    words = f"From {_where(least, metric, name)} to {_where(most, metric, name)}."
    ends = {metric.shown(point["mean"] / metric.scale) for point in (least, most)}
    if len(ends) == 1:
        words = f"{ends.pop()} throughout."
    runs = min(point["n"] for point in points)
    band = "bands are 95 % intervals" if positions is not None else "lines are 95 % intervals"
    note = f"Means of {plural(runs, 'run')} or more, {band}. " if runs > 1 else "Single runs have no interval. "
    return Chart(metric.title, spec, words, f"{note}Data: report/means.parquet, runs.parquet.", small=True)


def _where(point: Row, metric: Metric, name: str) -> str:
    series = f" ({point['series']})" if point["series"] else ""
    return f"{metric.shown(point['mean'] / metric.scale)} with {name} {point['value']}{series}"


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


def _points(rows: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str]) -> Section:
    """A row for each point of the grid: means over its seeds."""
    points: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        points.setdefault(_point(row, columns), []).append(row)
    lines = []
    for key, group in list(points.items())[:MOST_ROWS]:
        causal = sum(row["verdict"] == "causal" for row in group)
        lines.append(
            (
                *key,
                f"{len(group):,}",
                f"{causal:,}",
                share_text(_mean(group, "delivery_ratio")),
                time_text(_mean(group, "latency_mean_ns")),
                time_text(_mean(group, "latency_p95_ns")),
                size_text(_mean(group, "control_bytes_per_broadcast")),
                number(_mean(group, "frames_per_delivery")),
            )
        )
    measured = ("runs", "causal", "delivered", "mean latency", "95 % within", "control", "frames a delivery")
    header = (*fields.values(), *measured)
    return Section("All points", [TableBlock("", header, lines, [*_left(len(points)), "Data: runs.parquet."])])


def _parameters(
    about: Row, study: Row, rows: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str]
) -> Section:
    varied = [(fields[name], ", ".join(dict.fromkeys(_key(row[name]) for row in rows))) for name in columns]
    varied.append(("seed", ", ".join(dict.fromkeys(str(row["seed"]) for row in rows))))
    blocks: list[Block] = [TableBlock("What varies", ("field", "values"), varied)]
    command = command_line(about.get("command"))
    if command is not None and " sweep " in command:
        blocks += [Text("The same study makes the same runs:"), Text(command, pre=True)]
    blocks += [Text("What all runs share:"), Text(format_toml(study.get("scenario", {})), pre=True)]
    return Section("Parameters", blocks)


def _facts(about: Row, rows: Sequence[Row], folder: Path, beside: Beside) -> dict[str, str]:
    facts = {"command": command_line(about.get("command")) or "from Python"}
    facts |= {name: str(about[name]) for name in ("version", "revision", "python") if about.get(name)}
    wall = sum(row["wall_seconds"] or 0 for row in rows)
    facts |= {"runs took": f"{wall:.1f} s wall in all, {sum(row['cpu_seconds'] or 0 for row in rows):.1f} s CPU"}
    tables = ["runs.parquet", "runs/RUN/events.parquet", "runs/RUN/samples.parquet", *beside.tidy()]
    return facts | {"folder": str(folder), "tables": ", ".join(tables)}
