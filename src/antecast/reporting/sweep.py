"""The page of a sweep: did all runs end well, and how do their measures depend on what was varied?

Everything comes from `runs.parquet`, one row per run, and `study.json`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from antecast.history.parts import Parts
from antecast.history.store import Store
from antecast.reporting.folders import Beside, command_line, read_json, read_table
from antecast.reporting.order import by_size, size_key
from antecast.reporting.page import Block, Code, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.run import witness_section
from antecast.reporting.sweep_buffers import buffers_section
from antecast.reporting.sweep_charts import (
    LATENCY,
    MEANS,
    Metric,
    Row,
    against,
    distribution,
    early_share,
    key_of,
    mean_of,
    metrics_of,
)
from antecast.text.toml import format_toml
from antecast.text.wording import listed, number, plural, share_text

MOST_ROWS = 60
"""Rows of a table that a page shows; the rest is counted."""


def sweep_page(folder: Path, store: Store | None = None) -> Page:
    """The page of the sweep in a folder; its tables go to `report/` beside it. `store` has the logs, if they lie
    elsewhere."""
    store = store or Store(folder)
    about = read_json(folder / "study.json")
    study: Mapping[str, Any] = about.get("study", {})
    table = read_table(folder / "runs.parquet")
    rows = table.to_pylist()
    names = table.column_names
    # The table has index, run, the fields that vary, seed, and then what was measured.
    columns = names[names.index("run") + 1 : names.index("seed")]
    known = {field.replace(".", "_").replace("-", "_"): field for field in study.get("fields", ())}
    fields = {column: known.get(column, column) for column in columns}
    parameters = [column for column in columns if len({key_of(row[column]) for row in rows}) > 1]
    failed = [row for row in rows if row["error"] is not None]
    broken = [row for row in rows if row["error"] is None and _breaks(row)]
    beside = Beside(folder)
    metrics = metrics_of(rows)
    means: list[dict[str, Any]] = []
    latency: list[dict[str, Any]] = []
    plots = [against(column, parameters, rows, fields, metrics, means, latency) for column in parameters]
    if not parameters and (chart := distribution("", rows, fields, metrics, latency)):
        plots.append(Section("Latency", [chart]))
    buffers = buffers_section(store, rows, parameters[0] if parameters else "", fields, beside)
    beside.write("means", pa.Table.from_pylist(means, schema=MEANS))
    beside.write("latency", pa.Table.from_pylist(latency, schema=LATENCY))
    beside.summary(_numbers(rows, failed, broken, metrics))
    there = Parts(store).refresh()
    lost = [row for row in rows if row["error"] is None and row["run"] not in there.of]
    unmade = max(0, int(about.get("runs") or 0) - len(rows))
    text, tone = _verdict(rows, failed, broken)
    if lost or unmade:
        text, tone = f"{plural(len(lost) + unmade, 'run')} missing; {text}", "bad" if tone == "bad" else "plain"
    sections = [
        *([_missing(lost, unmade, there, columns, fields)] if lost or unmade else []),
        *([_failed(failed, columns, fields)] if failed else []),
        *([_broken(broken, columns, fields, store, beside)] if broken else []),
        *(section for section in plots if section is not None),
        *([buffers] if buffers is not None else []),
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
        facts=_facts(about, rows, store, beside),
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
    parts += [f"{free:,} did not, and had not promised it"] if free else []
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
    means = {f"{name}_mean": mean_of(rows, metric.value) for name, metric in names.items()}
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
    delivered, latency, _, control, *_ = (metric.shown(mean_of(rows, metric.value)) for metric in metrics)
    return [
        Figure("runs", number(len(rows)), f"{sum(row['error'] is None for row in rows):,} ended well"),
        Figure("delivered", delivered, "mean over runs"),
        Figure("mean latency", latency, "mean over runs"),
        Figure("control bytes", control, "per message, mean over runs"),
        Figure("events", number(events), f"in {number(seconds)} s of CPU time"),
    ]


def _failed(failed: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str]) -> Section:
    rows = [(*_point(row, columns), str(row["seed"]), row["error"], row["run"]) for row in failed[:MOST_ROWS]]
    header = (*fields.values(), "seed", "why", "run")
    notes = ["The same command tries them again. Data: runs.parquet; tracebacks: failed/RUN.json."]
    return Section("Failed runs", [TableBlock("", header, rows, [*_left(len(failed)), *notes])])


def _missing(
    lost: Sequence[Row], unmade: int, there: Parts, columns: Sequence[str], fields: Mapping[str, str]
) -> Section:
    """Runs that were not made yet, and those whose logs the store has lost."""
    blocks: list[Block] = []
    if unmade:
        left = f"{plural(unmade, 'run')} of the study {'is' if unmade == 1 else 'are'} not made yet"
        blocks.append(Text(f"{left}: the same command makes what is missing."))
    if lost:
        wrong = there.lost()
        rows = [
            (*_point(row, columns), str(row["seed"]), wrong.get(row["run"], "its part is lost"), row["run"])
            for row in lost[:MOST_ROWS]
        ]
        notes = ["Their numbers below are from runs.parquet; the same command makes them again."]
        header = (*fields.values(), "seed", "why", "run")
        blocks.append(TableBlock("Logs that the store has lost", header, rows, [*_left(len(lost)), *notes]))
    return Section("Missing runs", blocks)


def _broken(
    broken: Sequence[Row], columns: Sequence[str], fields: Mapping[str, str], store: Store, beside: Beside
) -> Section:
    counts = ("early", "late", "duplicates", "before_broadcast")
    rows = [
        (
            *_point(row, columns),
            str(row["seed"]),
            row["broken"],
            *(number(row[name]) for name in counts),
            share_text(early_share(row)),
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
    story = _story(store, broken[0]["run"], beside)
    if story is not None:
        blocks += [
            Text(f"The first of them, as antecast report {store.where()} --run {broken[0]['run']} tells it:")
        ]
        blocks += story.blocks
    return Section("Broken promises", blocks)


def _story(store: Store, run: str, beside: Beside) -> Section | None:
    """What went wrong in a run, if its log is there."""
    parts = Parts(store).refresh()
    if run not in parts.of:
        return None
    with tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        return witness_section(parts.extract(run, Path(scratch)), beside)


def _left(count: int) -> list[str]:
    return [f"Cut: {count - MOST_ROWS:,} more are in runs.parquet."] if count > MOST_ROWS else []


def _point(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(key_of(row[column]) for column in columns)


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
                *(metric.shown(mean_of(group, metric.value)) for metric in metrics[:-1]),
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
        (fields[name], ", ".join(by_size(dict.fromkeys(key_of(row[name]) for row in rows)))) for name in columns
    ]
    varied.append(("seed", ", ".join(dict.fromkeys(str(row["seed"]) for row in rows))))
    blocks: list[Block] = [TableBlock("What varies", ("field", "values"), varied)]
    command = command_line(about.get("command"))
    if command is not None and " sweep " in command:
        blocks += [Text("The same study makes the same runs:"), Code(command)]
    blocks += [Text("What all runs share:"), Code(format_toml(study.get("scenario", {})))]
    return Section("Parameters", blocks)


def _facts(about: Row, rows: Sequence[Row], store: Store, beside: Beside) -> dict[str, str]:
    facts = {"command": command_line(about.get("command")) or "from Python"}
    facts |= {name: str(about[name]) for name in ("version", "revision", "python") if about.get(name)}
    wall = sum(row["wall_seconds"] or 0 for row in rows)
    facts |= {"runs took": f"{wall:.1f} s wall in all, {sum(row['cpu_seconds'] or 0 for row in rows):.1f} s CPU"}
    tables = ["runs.parquet", "events/", "samples/", *beside.tidy()]
    return facts | {"folder": store.where(), "tables": ", ".join(tables)}
