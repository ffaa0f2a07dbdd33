"""`antecast reproduce`: the papers' experiments, our figures beside theirs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from antecast.cli.console import Exit, Json, OutFolder, Quiet, err, out
from antecast.cli.progress import progress
from antecast.core import ConfigurationError
from antecast.papers import STUDIES
from antecast.papers.findings import Mark, Results, as_table, count_marks
from antecast.papers.layout import Grid, lay_out, summary
from antecast.papers.paper import load_paper
from antecast.papers.reproduce import default_folder
from antecast.papers.reproduce import reproduce as run_study
from antecast.reporting.page import write
from antecast.reporting.study import study_page
from antecast.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reproduce(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...", help=f"Which papers: {', '.join(STUDIES)}, or all.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes and few seeds: minutes instead of hours.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="How many runs each figure is a mean of.")
    ] = None,
    gtfs: Annotated[
        Path | None, typer.Option("--gtfs", metavar="FEED.zip", help="barrier: the buses of a timetable.")
    ] = None,
    date: Annotated[
        str | None, typer.Option("--date", metavar="DAY", help="barrier: the day of the feed.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", metavar="FILE", help="barrier: a mobility or contact trace.")
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option("--range", metavar="METRES", help="barrier: the radio range on a feed or trace."),
    ] = None,
    out_folder: OutFolder = None,
    master: Annotated[
        str | None, typer.Option("--master", help="A Spark master or sc:// address; all cores here, if not said.")
    ] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Print all tables, not only the summaries.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the experiments of the papers on Spark and set our figures beside theirs.

    Results go to reproductions/STUDY (STUDY-quick with --quick): findings as Parquet and CSV, tables as Markdown,
    the points of the figures as Parquet. The same command goes on after an interrupt.
    """
    names = _chosen(studies)
    options = {"gtfs": gtfs and str(gtfs), "date": date, "trace": trace and str(trace), "range": reach}
    given = {name: value for name, value in options.items() if value is not None}
    if given and names != ["barrier"]:
        raise ConfigurationError("is an option of `antecast reproduce barrier`", field=f"--{min(given)}")
    if out_folder is not None and len(names) > 1:
        raise ConfigurationError("takes one study; several have a folder each", field="--out")

    def make(name: str, folder: Path, spark: SparkSession) -> Results:
        with progress("starting", quiet=quiet) as show:
            return run_study(
                name,
                out=folder,
                quick=quick,
                seeds=seeds,
                spark=spark,
                options=given,
                on_progress=lambda at: show(at.name, at.share, at.text),
            )

    found = []
    try:
        with spark_session("antecast reproduce", master=master) as spark:
            for name in names:
                folder = out_folder or default_folder(name, quick=quick)
                found.append((folder, make(name, folder, spark)))
                if not (quiet or as_json):
                    _show(found[-1][1], folder, whole=tables)
    except KeyboardInterrupt:
        err.print("interrupted; what is finished is kept, the same command goes on", style="yellow")
        raise typer.Exit(Exit.INTERRUPTED) from None
    report = _report(found, quick=quick, options=given, seeds=seeds)
    if as_json:
        print(json.dumps({results.study: _as_json(results, folder) for folder, results in found}, indent=2))
    else:
        out.print(f"report: {report}", markup=False, soft_wrap=True)


def _report(found: list[tuple[Path, Results]], *, quick: bool, options: dict[str, Any], seeds: int | None) -> Path:
    """Write the page of all studies of this call, beside the only one or over several."""
    words = ["antecast", "reproduce", *(results.study for _, results in found)]
    words += ["--quick"] * quick + ([] if seeds is None else ["--seeds", str(seeds)])
    words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    page = study_page([(results, folder) for folder, results in found], command=shlex.join(words))
    folder = found[0][0]
    path = folder / "report.html" if len(found) == 1 else folder.with_name(f"report{'-quick' * quick}.html")
    write(page, path)
    return path


def _chosen(studies: list[str] | None) -> list[str]:
    if not studies or studies == ["all"]:
        return list(STUDIES)
    for name in studies:
        if name not in STUDIES:
            raise ConfigurationError(f"unknown study {name!r}; choose {', '.join(STUDIES)}, or all", field="STUDY")
    return list(dict.fromkeys(studies))


def _as_json(results: Results, folder: Path) -> dict[str, object]:
    return {
        "folder": str(folder),
        "notes": list(results.notes),
        "marks": {str(mark): count for mark, count in count_marks(results.findings).items()},
        "findings": as_table(results.findings).to_pylist(),
    }


def _show(results: Results, folder: Path, *, whole: bool) -> None:
    paper = load_paper(results.study)
    for note in results.notes:
        out.print(note, style="dim", markup=False)
    for grid in lay_out(paper, results.findings) if whole else ():
        _print(grid)
    _print(summary(paper, results.findings))
    marks = ", ".join(f"{count} {mark}" for mark, count in count_marks(results.findings).items() if count)
    out.print(
        f"{results.study}: {marks}; tables in {folder / 'results.md'}", style="bold", markup=False, soft_wrap=True
    )


def _print(grid: Grid) -> None:
    table = Table(title=grid.title, title_justify="left", box=None, pad_edge=False)
    for column in grid.header:
        table.add_column(column, overflow="fold", justify="right" if column in ("figures", *Mark) else "left")
    for row in grid.rows:
        table.add_row(*row)
    out.print(table)
    for note in grid.notes:
        out.print(note, style="dim", markup=False)
    out.print()
