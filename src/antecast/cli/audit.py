"""`antecast audit`: does a log keep causal order?"""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antecast.cli.audit_follow import WINDOW, check_needed, check_options, follow_log, write_texts
from antecast.cli.audit_options import bytes_of, dense_of, names_of, nanoseconds_of, pairs_of
from antecast.cli.console import Conf, Json, Master, OutFolder, Quiet, out
from antecast.cli.console import note as tell
from antecast.cli.progress import clocked
from antecast.cli.report import Report, report_at_end
from antecast.cli.texts import say
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from antecast.auditing.outcome import Audit

MOST_CAUSES = 5
"""Causes of violations that the terminal shows."""

_STYLES = dict.fromkeys(("causal", "sound", "kept"), "bold green")
_STYLES |= {"violated": "bold red", "inconclusive": "bold yellow"}
_FOREIGN, _GATE = "Logs of other systems", "Gates and exports"


def audit(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="A run folder, a sweep folder, files, folders of files, patterns, or journals of live nodes.",
        ),
    ],
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="NAME=COLUMN,...",
            help="What the log calls node, pos, kind, origin, seq, run, t; or message, in place of origin "
            "and seq. Paths such as meta.host lead into structures; pos=@file takes the order of the rows. "
            "Of spans: trace, span, parent, service, start, end.",
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--kinds", metavar="KIND=WORD,...", help="What the log calls broadcast and deliver."),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="The format of the files. Default: by what they hold."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="broadcast, clocks, spans or kv. Default: that of the format."),
    ] = None,
    clock: Annotated[
        Literal["global", "local"] | None,
        typer.Option(help="Whether times of different nodes compare; they do in logs that Antecast wrote."),
    ] = None,
    complete: Annotated[
        str | None,
        typer.Option(
            metavar="NODE,...", help="Nodes of which the log has every row; or all, or none. Default: all."
        ),
    ] = None,
    dense: Annotated[
        str | None,
        typer.Option(
            metavar="pos|seq|none",
            help="Numbers that must have no gaps: positions, the numbers of a source's messages, or both, as "
            "pos,seq. Default: those that look like it.",
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Count all pairs in the wrong order; may take long.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Violations of a kind that are listed.")] = 10_000,
    engine: Annotated[
        Literal["auto", "spark", "local"],
        typer.Option(help="Spark, or this process alone; auto is this process, unless --master is given."),
    ] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory for the events of a table; beyond it they wait in temporary files. Default: half of what "
            "is free.",
        ),
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="The layout of an event with a vector clock, with the groups host, clock and event.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="EXPRESSION",
            help="What separates the executions of a file; @file makes each file one.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    skip_unmatched: Annotated[
        bool,
        typer.Option(
            "--skip-unmatched",
            help="Leave out lines that are not events, and count them.",
            rich_help_panel=_FOREIGN,
        ),
    ] = False,
    ordered: Annotated[
        bool,
        typer.Option("--ordered", help="Require the lines to be in causal order, too.", rich_help_panel=_FOREIGN),
    ] = False,
    skew: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How far the clocks of services may differ, such as 5ms. Default: not at all.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL,...",
            help="Levels that a key-value history must keep, such as CC. Default: all.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    max_line: Annotated[
        str,
        typer.Option(metavar="SIZE", help="The longest line that is read.", rich_help_panel=_FOREIGN),
    ] = "64MiB",
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Go on as the files grow, and say what is wrong as soon as it is certain.",
            rich_help_panel=_FOREIGN,
        ),
    ] = False,
    window: Annotated[
        int,
        typer.Option(min=2, help="With --follow: lines that are kept in memory.", rich_help_panel=_FOREIGN),
    ] = WINDOW,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --follow: where its place is kept over restarts.", rich_help_panel=_FOREIGN
        ),
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="With --follow: end when nothing has come for this long.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the verdict as JUnit XML.", rich_help_panel=_GATE)
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the violations as SARIF.", rich_help_panel=_GATE)
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotations for GitHub Actions.", rich_help_panel=_GATE)
    ] = False,
    fail_on: Annotated[
        Literal["violated", "inconclusive"] | None,
        typer.Option(
            help="Exit with 1 on this outcome and worse ones, else with 0. Default: a code for each outcome.",
            rich_help_panel=_GATE,
        ),
    ] = None,
    export: Annotated[
        Literal["shiviz", "otlp", "csv", "parquet"] | None,
        typer.Option(help="Write the log in another form.", rich_help_panel=_GATE),
    ] = None,
    export_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file for --export. Default: audit with a suffix.", rich_help_panel=_GATE
        ),
    ] = None,
    witness_only: Annotated[
        bool,
        typer.Option("--witness-only", help="Export only the events of the witnesses.", rich_help_panel=_GATE),
    ] = False,
    folder: OutFolder = None,
    reported: Report = True,
    show: Annotated[
        bool,
        typer.Option("--open", help="Open the report in a browser; without --out, from a temporary folder."),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge the causal order of a log.

    Takes tables of broadcasts and deliveries, logs with vector clocks, traces of services and key-value
    histories. Exits with 0 if nothing is wrong, 1 if causal order is violated, 2 if the log is broken or cannot
    be read, 3 if something is missing and nothing is wrong with the rest. --out writes the violations as a
    table, the verdict, and a report; --open shows the report.
    """
    from antecast.api import audit_files
    from antecast.auditing.foreign import MAPPED, Request
    from antecast.auditing.gate import exit_code
    from antecast.core.log_files import spare
    from antecast.history.log_kinds import KINDS

    request = Request(
        format=file_format,
        model=model,
        columns=pairs_of("--map", mapping, MAPPED),
        regex=regex,
        delimiter=delimiter,
        skip_unmatched=skip_unmatched,
        max_line=bytes_of("--max-line", max_line),
        complete=names_of(complete),
        ordered=ordered,
        skew=nanoseconds_of("--skew", skew),
        require=names_of(require),
        limit=limit,
    )
    kinds = pairs_of("--kinds", words, KINDS)
    if not follow:
        window_given = window if window != WINDOW else None
        check_needed("--follow", {"--window": window_given, "--state": state, "--until-idle": until_idle})
    if export is None:
        check_needed("--export", {"--export-file": export_file, "--witness-only": witness_only})
    if follow:
        check_options(
            {"--out": folder, "--export": export, "--open": show, "--pairs": pairs},
            {"--clock": clock, "--complete": complete, "--memory": memory},
        )
        raise typer.Exit(
            follow_log(
                *(paths, request),
                kinds=kinds,
                dense=dense_of(dense),
                window=window,
                state=state,
                until_idle=until_idle,
                fail_on=fail_on,
                master=master or ("local[*]" if engine == "spark" else None),
                outputs=(junit, sarif),
                github=github,
                quiet=quiet or as_json,
                as_json=as_json,
            )
        )
    done = audit_files(
        paths,
        request,
        kinds=kinds,
        clock=clock,
        dense=dense_of(dense),
        complete=request.complete,
        engine=engine,
        master=master,
        memory=None if memory is None else bytes_of("--memory", memory),
        pairs=pairs,
        on_progress=clocked(quiet=quiet or as_json),
    )
    spare(done.files, junit, sarif)
    page = None
    kept = folder if folder is not None or not show else Path(tempfile.mkdtemp(prefix="antecast-audit-"))
    if kept is not None:
        done.write(kept)
        page = report_at_end(kept, "audit", wanted=reported or show)
    _gates(done, junit, sarif, fail_on)
    if export is not None:
        written = done.export(export, export_file, witness_only=witness_only)
        if not as_json and not quiet:
            tell(f"the log is written to {written}")
    if as_json:
        print(done.json())
    elif not quiet:
        if done.left_out:
            more = f" and {len(done.left_out) - 1:,} more" if len(done.left_out) > 1 else ""
            tell(f"left out: {done.left_out[0]}{more}, not a table by name")
        _show(done, folder)
        if page is not None:
            out.print(f"report: {page}", soft_wrap=True)
    if github:
        for line in done.annotations():
            print(line)
    if show and page is not None and not webbrowser.open(page.resolve().as_uri()):
        tell(f"no browser was found; the report is {page}")
    raise typer.Exit(exit_code(done.verdict.outcome, fail_on))


def _gates(done: Audit, junit: Path | None, sarif: Path | None, fail_on: Any) -> None:
    texts = {} if junit is None else {junit: done.junit(fail_on)}
    write_texts(texts | ({} if sarif is None else {sarif: done.sarif()}))


def _show(done: Audit, folder: Path | None) -> None:
    headline, *rest = str(done.verdict).splitlines()
    say(headline, _STYLES[done.verdict.outcome])
    say("\n".join([*rest, *_where(done), *_causes(done)]), hanging=2)
    if folder is not None:
        out.print(f"\nviolations and verdict are in {folder}", style="dim", soft_wrap=True)


def _where(done: Audit) -> list[str]:
    """The files and lines of the events of a witness that names positions."""
    places = done.witness_places
    if not places:
        return []
    return ["", *(escaped(f"{event} at node {event.node}: {place}") for event, place in places.items())]


def _causes(done: Audit) -> list[str]:
    """Violations by cause, those of most first. Late messages are left out: they are the causes of early ones."""
    from antecast.history.causes import by_cause

    if done.model != "broadcast":
        return []
    groups = by_cause(row for row in done.verdict.violations.to_pylist() if row["problem"] != "late")
    if sum(len(group.rows) for group in groups) < 2:
        return []  # the witness has told it all
    lines = ["", "by cause:", *(f"  {escaped(group.words)}" for group in groups[:MOST_CAUSES])]
    more = len(groups) - MOST_CAUSES
    return [*lines, f"  and {more:,} more cause{'s' * (more > 1)}"] if more > 0 else lines
