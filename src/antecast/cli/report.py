"""`antecast report`: the HTML report of a run, a sweep, an audit or a reproduction, made or made again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from antecast.cli.console import err, out
from antecast.core import AntecastError, ConfigurationError

if TYPE_CHECKING:
    from antecast.history.verdict import Verdict
    from antecast.report.page import Page

Report: TypeAlias = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html when it ends.")]


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="The folder of a run, a sweep, an audit or a reproduction."),
    ],
    file: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The file to write; PATH/report.html, if not said."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="NODE.NUMBER", help="Draw this message and its causal past, such as 49.1."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Of a sweep: the page of this run of it.")
    ] = None,
) -> None:
    """Write a report: one HTML file that works offline, the verdict first.

    Numbers that the folder does not hold yet go to PATH/report as Parquet. run, sweep, audit and reproduce write
    a report by themselves; this makes it again, or of another message.
    """
    from antecast.report.folders import REPORT, subject_of
    from antecast.report.page import write

    subject = subject_of(folder)
    if run is not None:
        if subject != "sweep":
            raise ConfigurationError(f"is an option for sweeps; {folder} holds a {subject}", field="--run")
        folder, subject = _run_of(folder, run), "run"
    if message is not None and subject != "run":
        hint = "; name a run of it with --run" if subject == "sweep" else ""
        held = f"{'an' if subject == 'audit' else 'a'} {subject}{hint}"
        raise ConfigurationError(f"is an option for runs; {folder} holds {held}", field="--message")
    page = _page(folder, subject, message)
    path = folder / REPORT if file is None else file
    write(page, path)
    out.print(f"report: {path}", markup=False, soft_wrap=True)


def _run_of(folder: Path, run: str) -> Path:
    """The folder of a run of a sweep; the beginning of its name will do, if no other begins so."""
    found = sorted(each for each in (folder / "runs").iterdir() if each.name.startswith(run)) if run else []
    if len(found) == 1:
        return found[0]
    if (folder / "failed" / f"{run}.json").is_file():
        raise ConfigurationError(f"run {run} failed; {folder / 'failed' / f'{run}.json'} says why", field="--run")
    problem = f"{len(found)} runs begin with {run!r}" if found else f"no run {run!r} in {folder / 'runs'}"
    raise ConfigurationError(f"{problem}; runs.parquet lists them", field="--run")


def _page(folder: Path, subject: str, message: str | None) -> Page:
    if subject == "sweep":
        from antecast.report.sweep import sweep_page

        return sweep_page(folder)
    if subject == "audit":
        from antecast.report.audit import audit_page

        return audit_page(folder)
    if subject == "reproduction":
        from antecast.report.study import rebuild

        return rebuild(folder)
    from antecast.report.run import run_page

    return run_page(folder, message=message)


def report_at_end(folder: Path, subject: str, *, wanted: bool, verdict: Verdict | None = None) -> Path | None:
    """Write the report of what a command has just finished; its path, or None if none was wanted or possible.

    What the command was asked for is done by then, so a report that cannot be written is a note and no error.
    """
    from antecast.report.folders import REPORT, forget
    from antecast.report.page import write

    try:
        if not wanted:
            forget(folder)
            return None
        if subject == "run":
            from antecast.report.run import run_page

            page = run_page(folder, verdict=verdict, judge=False)
        else:
            page = _page(folder, subject, None)
        write(page, folder / REPORT)
    except AntecastError as error:
        err.print(f"no report: {error}", style="yellow", markup=False, soft_wrap=True)
        return None
    return folder / REPORT
