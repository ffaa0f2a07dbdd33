"""`antecast reproduce`: the papers' experiments, our figures beside theirs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from antecast.cli.completion import study_names
from antecast.cli.console import Conf, Exit, Json, Master, OutFolder, Quiet, err, make_folder, out
from antecast.cli.pace import Pace
from antecast.cli.progress import progress
from antecast.cli.tables import show
from antecast.core import ConfigurationError, InputError
from antecast.papers import STUDIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecast.papers.findings import Results
    from antecast.papers.job import Stage
    from antecast.papers.layout import Grid

_BARRIER = "barrier on another network"


def reproduce(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...",
            help=f"Which papers: {', '.join(STUDIES)}, or all.",
            show_default=False,
            autocompletion=study_names,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes and few seeds, in about a quarter of the time.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", min=1, help="Runs that each figure is the mean of.")
    ] = None,
    gtfs: Annotated[
        Path | None,
        typer.Option("--gtfs", metavar="FEED.zip", help="The buses of a timetable.", rich_help_panel=_BARRIER),
    ] = None,
    date: Annotated[
        str | None,
        typer.Option("--date", metavar="DAY", help="The day of the feed.", rich_help_panel=_BARRIER),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="A mobility or contact trace.", rich_help_panel=_BARRIER),
    ] = None,
    reach: Annotated[
        float | None,
        typer.Option(
            "--range", metavar="METRES", help="The radio range on a feed or trace.", rich_help_panel=_BARRIER
        ),
    ] = None,
    out_folder: OutFolder = None,
    master: Master = None,
    conf: Conf = None,
    tables: Annotated[bool, typer.Option("--tables", help="Print all tables, not only the summaries.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the experiments of the papers on Spark and set our figures beside theirs.

    Results go to reproductions/STUDY (STUDY-quick with --quick): a report, findings as Parquet and CSV, tables as
    Markdown, the points of the figures as Parquet. Each study's are written when it ends. The same command
    continues after an interrupt.
    """
    from antecast.papers.ahead import compiled_ahead
    from antecast.papers.reproduce import default_folder
    from antecast.papers.reproduce import reproduce as run_study
    from antecast.spark.session import spark_session

    names = _chosen(studies)
    options = {"gtfs": gtfs and str(gtfs), "date": date, "trace": trace and str(trace), "range": reach}
    given = {name: value for name, value in options.items() if value is not None}
    if given and names != ["barrier"]:
        raise ConfigurationError("is an option of `antecast reproduce barrier`", field=f"--{min(given)}")
    for file in (gtfs, trace):
        if file is not None and not file.exists():
            raise InputError("no such file", path=file)
    if out_folder is not None and len(names) > 1:
        raise ConfigurationError("takes one study; several have a folder each", field="--out")
    for name in names:
        make_folder(out_folder or default_folder(name, quick=quick))
    pace = Pace(names, known=quick and seeds is None and not given)

    def make(name: str, folder: Path, spark: SparkSession) -> Results:
        with progress("starting", quiet=quiet) as show_progress:

            def on_progress(stage: Stage) -> None:
                show_progress(stage.name, *pace.at(stage))

            return run_study(
                name, out=folder, quick=quick, seeds=seeds, spark=spark, options=given, on_progress=on_progress
            )

    found = []
    try:
        with compiled_ahead(names), spark_session("antecast reproduce", master=master) as spark:
            for name in names:
                folder = out_folder or default_folder(name, quick=quick)
                found.append((folder, make(name, folder, spark)))
                pace.end(name)
                report = _report(found[-1:], quick=quick, options=given, seeds=seeds)
                if not (quiet or as_json):
                    _show(found[-1][1], folder, whole=tables)
                    out.print(f"report: {report}", soft_wrap=True)
    except KeyboardInterrupt:
        err.print("interrupted; what is finished is kept, the same command continues", style="yellow")
        raise SystemExit(Exit.INTERRUPTED) from None
    if len(found) > 1:
        report = _report(found, quick=quick, options=given, seeds=seeds)
    if as_json:
        print(json.dumps({results.study: _as_json(results, folder) for folder, results in found}, indent=2))
    elif len(found) > 1 or quiet:
        out.print(f"report of all: {report}" if len(found) > 1 else f"report: {report}", soft_wrap=True)


def _report(found: list[tuple[Path, Results]], *, quick: bool, options: dict[str, Any], seeds: int | None) -> Path:
    """Write the page of some studies, beside the only one or over several."""
    from antecast.reporting.page import write
    from antecast.reporting.study import study_page

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
    from antecast.papers.findings import as_table, count_marks

    return {
        "folder": str(folder),
        "notes": list(results.notes),
        "marks": {str(mark): count for mark, count in count_marks(results.findings).items()},
        "findings": as_table(results.findings).to_pylist(),
    }


def _show(results: Results, folder: Path, *, whole: bool) -> None:
    from antecast.papers.findings import count_marks
    from antecast.papers.layout import lay_out, summary
    from antecast.papers.paper import load_paper

    paper = load_paper(results.study)
    for note in results.notes:
        out.print(note, style="dim")
    for grid in lay_out(paper, results.findings) if whole else ():
        _print(grid)
    _print(summary(paper, results.findings))
    marks = ", ".join(f"{count} {mark}" for mark, count in count_marks(results.findings).items() if count)
    out.print(f"{results.study}: {marks}; tables in {folder / 'results.md'}", style="bold", soft_wrap=True)


def _print(grid: Grid) -> None:
    from antecast.papers.findings import Mark

    table = Table(title=grid.title, title_justify="left", box=None, pad_edge=False)
    for column in grid.header:
        table.add_column(column, overflow="fold", justify="right" if column in ("figures", *Mark) else "left")
    for row in grid.rows:
        table.add_row(*row)
    show(table)
    for note in grid.notes:
        out.print(note, style="dim")
    out.print()
