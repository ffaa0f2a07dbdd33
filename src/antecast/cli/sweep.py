"""`antecast sweep`: make the runs of a study, on this machine or on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecast.cli.console import (
    Conf,
    Engine,
    Exit,
    Json,
    Master,
    OnSpark,
    OutStore,
    Overrides,
    Quiet,
    check_master,
    engine_override,
    err,
    nearby,
    note,
    out,
)
from antecast.cli.progress import stretch, sweep_progress
from antecast.cli.report import Report, report_at_end
from antecast.cli.tables import Column, show_columns
from antecast.core import AntecastError, ConfigurationError

if TYPE_CHECKING:
    from antecast.sim.study import PlannedRun, Study
    from antecast.spark.folder import SweepFolder
    from antecast.spark.sweep import SweepResult
    from antecast.spark.task import Limits

_MOST_ROWS = 40
"""Rows of a table that a person is shown; the rest is counted."""


def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study to make.", show_default=False)],
    out_folder: OutStore = None,
    overrides: Overrides = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", min=1, help="Seeds 1 to N, whatever the study says."),
    ] = None,
    engine: Engine = None,
    spark: OnSpark = True,
    master: Master = None,
    conf: Conf = None,
    run_timeout: Annotated[
        str | None,
        typer.Option("--run-timeout", metavar="TIME", help="Fail runs that take longer, such as 10min."),
    ] = None,
    run_memory: Annotated[
        str | None, typer.Option("--run-memory", metavar="SIZE", help="Fail runs that need more, such as 2GB.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the runs and their cost without making them.")
    ] = False,
    reported: Report = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make the missing runs of a study, each as a Spark task, and a table of all.

    The folder is sweeps/NAME by default. Call it again to continue after an interrupt, to retry failed runs, or
    to add what the study has gained. Exits with 1 if a run failed or broke a promise.
    """
    from antecast.sim.study import load_study
    from antecast.spark.folder import SweepFolder
    from antecast.spark.sweep import default_folder
    from antecast.spark.sweep import sweep as run_sweep

    limits = _limits(run_timeout, run_memory)
    check_master(master, spark=spark)
    loaded = load_study(study, overrides=[*(overrides or ()), *engine_override(engine)], seeds=seeds)
    folder = default_folder(loaded) if out_folder is None else out_folder
    if dry_run:
        _show_plan(loaded, SweepFolder(folder), as_json=as_json)
        return
    try:
        first = "starting Spark" if spark else ""
        with sweep_progress(f"sweep {loaded.name}", first, quiet=quiet or as_json) as on_progress:
            result = run_sweep(
                loaded,
                out=folder,
                master=master,
                limits=limits,
                local=not spark,
                on_progress=on_progress,
                on_note=note,
            )
    except KeyboardInterrupt:
        kept = len(SweepFolder(folder).finished())
        told = f"interrupted; {kept} finished runs are kept in {folder}, the same command continues"
        err.print(told, style="yellow")
        raise SystemExit(Exit.INTERRUPTED) from None
    page = _report(folder, wanted=reported)
    if as_json:
        shown = _as_json(loaded, result) | {"report": None if page is None else str(page)}
        print(json.dumps(shown, indent=2))
    else:
        _show_result(loaded, result, quiet=quiet)
        if page is not None:
            out.print(f"report: {page}", soft_wrap=True)
    if not result.complete or result.violated:
        raise typer.Exit(Exit.VIOLATION)


def _report(folder: Path | str, *, wanted: bool) -> Path | str | None:
    """The report of the sweep, where the sweep lies."""
    from antecast.history.store import Store

    store = Store(folder)
    if store.local is not None:
        return report_at_end(store.local if "://" in str(folder) else Path(folder), "sweep", wanted=wanted)
    if not wanted:
        return None
    from antecast.reporting.remote import report_in_store

    try:
        return report_in_store(store)
    except AntecastError as error:
        err.print(f"no report: {error}", style="yellow", soft_wrap=True)
        return None


def _limits(run_timeout: str | None, run_memory: str | None) -> Limits:
    from antecast.core.settings import parse_duration
    from antecast.spark.task import Limits
    from antecast.text.sizes import parse_size

    option = "--run-timeout"
    try:
        seconds = None if run_timeout is None else parse_duration(run_timeout) / 10**9
        if seconds is not None and seconds <= 0:
            raise ValueError("expected a duration above zero")
        option = "--run-memory"
        return Limits(seconds, None if run_memory is None else parse_size(run_memory))
    except ValueError as error:
        raise ConfigurationError(str(error), field=option) from None


# Results.


def _show_plan(study: Study, folder: SweepFolder, *, as_json: bool) -> None:
    from antecast.sim.needs import describe_runs
    from antecast.sim.study import plan
    from antecast.spark.folder import describe_lost

    folder.check(study)
    planned, there = plan(study), folder.finished()
    for text in describe_runs(planned):
        note(text)
    wrong = folder.lost_runs()
    if lost := [each.run for each in planned if each.run in wrong]:
        note(describe_lost(lost, wrong))
    missing = [each for each in planned if each.run not in there]
    steps = sum(each.steps for each in missing)
    seconds = _estimate(folder, [each for each in planned if each.run in there], steps)
    if as_json:
        runs = [
            {"run": each.run, **each.point, "expected_steps": each.steps, "finished": each.run in there}
            for each in planned
        ]
        what = {"study": study.name, "folder": str(folder.path), "total": len(planned), "missing": len(missing)}
        print(json.dumps({**what, "expected_steps": steps, "expected_seconds": seconds, "runs": runs}, indent=2))
        return
    columns = [Column(field, wraps=True) for field in study.fields]
    columns += [Column("seed", right=True), Column("run"), Column("expected steps", right=True), Column("")]
    rows = [
        (*map(_shown, each.point.values()), each.run, f"{each.steps:,}", "finished" if each.run in there else "")
        for each in planned[:_MOST_ROWS]
    ]
    show_columns(columns, rows)
    if len(planned) > _MOST_ROWS:
        out.print(f"… and {len(planned) - _MOST_ROWS} more runs, shown by --json")
    cost = f"about {steps:,} steps to simulate"
    if seconds is not None:
        cost += f", about {stretch(seconds)} on one core at the pace of the finished runs"
    out.print(f"{len(planned)} runs, {len(planned) - len(missing)} finished already; {cost}", style="bold")


def _estimate(folder: SweepFolder, finished: list[PlannedRun], steps: int) -> float | None:
    """Seconds that so many steps will take, from up to a hundred runs that are finished."""
    some = finished[:: max(1, len(finished) // 100)]
    took = sum((folder.row(each.run) or {}).get("wall_seconds", 0.0) for each in some)
    made = sum(each.steps for each in some)
    return took * steps / made if made else None


def _as_json(study: Study, result: SweepResult) -> dict[str, Any]:
    return {
        "study": study.name,
        "folder": str(result.folder),
        "total": result.total,
        "resumed": result.resumed,
        "failed": result.failed,
        "lost": result.lost,
        "missing": result.missing,
        "violated": result.violated,
        "complete": result.complete,
        "runs": result.runs.to_pylist(),
    }


def _show_result(study: Study, result: SweepResult, *, quiet: bool) -> None:
    from antecast.sim.study import column_name, describe

    rows = result.runs.to_pylist()
    if not quiet:
        _show_points(study, rows)
        for row in [row for row in rows if row["error"] is not None][:_MOST_ROWS]:
            point = describe({field: row[column_name(field)] for field in (*study.fields, "seed")})
            err.print(f"failed: {point}: {row['error']}", style="red", soft_wrap=True)
    folder = nearby(result.folder) if isinstance(result.folder, Path) else result.folder
    parts = [f"{result.total} runs in {folder}"]
    parts += [f"{result.resumed} were finished already"] if result.resumed else []
    parts += [f"{result.failed} failed, and the same command tries them again"] if result.failed else []
    parts += [f"{result.missing} are missing, and the same command makes them"] if result.missing else []
    parts += [f"{result.violated} broke what they promise"] if result.violated else []
    style = "bold red" if not result.complete or result.violated else "bold"
    out.print("; ".join(parts), style=style, soft_wrap=True)


def _show_points(study: Study, rows: list[dict[str, Any]]) -> None:
    """A row for each point of the grid: means over its seeds."""
    from antecast.sim.study import column_name

    points: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(_shown(row[column_name(field)]) for field in study.fields)
        points.setdefault(key, []).append(row)
    columns = [Column(field, wraps=True) for field in study.fields]
    columns += [
        Column(title, right=True) for title in ("runs", "causal", "delivered", "latency", "p95", "control")
    ]
    shown = [
        (
            *key,
            str(len(group)),
            str(sum(row["verdict"] == "causal" for row in group)),
            _mean(group, "delivery_ratio", "{:.1%}"),
            _mean(group, "latency_mean_ns", "{:.1f} ms", 1e-6),
            _mean(group, "latency_p95_ns", "{:.1f} ms", 1e-6),
            _mean(group, "control_bytes_per_broadcast", "{:,.0f} B"),
        )
        for key, group in list(points.items())[:_MOST_ROWS]
    ]
    show_columns(columns, shown)
    if len(points) > _MOST_ROWS:
        out.print(f"… and {len(points) - _MOST_ROWS} more points, all in runs.parquet")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _mean(rows: list[dict[str, Any]], column: str, form: str, scale: float = 1.0) -> str:
    values = [row[column] for row in rows if row[column] is not None]
    return form.format(scale * sum(values) / len(values)) if values else "–"
