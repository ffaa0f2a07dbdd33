"""`antecast report`: the HTML report of whatever a command has left in a folder, made or made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from antecast.cli.console import err, out
from antecast.core import AntecastError

if TYPE_CHECKING:
    from antecast.history.verdict import Verdict

Report: TypeAlias = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html when it ends.")]


def report(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="The folder of a run, a sweep, a comparison, an audit or a reproduction, or a counterexample.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The file to write. Default: PATH/report.html; beside a counterexample.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="NODE.NUMBER", help="Draw this message and its causal past, such as 49.1."
        ),
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Of a sweep: report on this run.")] = None,
) -> None:
    """Write a report: one HTML file that works offline, the verdict first.

    Numbers that the folder does not hold yet go to PATH/report as Parquet. run, sweep, compare, audit and
    reproduce write a report by themselves; this writes it again, or for another message.
    """
    from antecast.api import report as write_report

    path = write_report(folder, out=file, message=message, run=run)
    out.print(f"report: {path}", soft_wrap=True)


def report_at_end(folder: Path, subject: str, *, wanted: bool, verdict: Verdict | None = None) -> Path | None:
    """Write the report of what a command has just finished; its path, or None if none was wanted or possible.

    What the command was asked for is done by then, so a report that cannot be written is a note and no error.
    """
    from antecast.reporting.folders import REPORT, forget
    from antecast.reporting.make import make_page
    from antecast.reporting.page import write

    try:
        if not wanted:
            forget(folder)
            return None
        write(make_page(folder, subject, verdict=verdict, judge=False), folder / REPORT)
    except AntecastError as error:
        err.print(f"no report: {error}", style="yellow", soft_wrap=True)
        return None
    return folder / REPORT
