"""`antecast audit`: does a log keep causal order?"""

from __future__ import annotations

import json
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antecast.cli.console import Json, OutFolder, Quiet, out
from antecast.cli.console import note as tell
from antecast.cli.journals import with_journals_as_logs
from antecast.cli.progress import clocked
from antecast.cli.report import Report, report_at_end
from antecast.core import AntecastError, ConfigurationError, OutputError
from antecast.version import __version__

if TYPE_CHECKING:
    from antecast.history.log_files import Log
    from antecast.history.verdict import Verdict

LOCAL_ROWS = 50_000_000
"""Rows up to which this process does it all: in 1 GB, and several times faster than Spark on one machine."""

MOST_CAUSES = 5
"""Causes of violations that the terminal shows."""

_STYLES = {"causal": "bold green", "violated": "bold red", "inconclusive": "bold yellow"}


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
            "and seq. Paths such as meta.host lead into structures; pos=@file takes the order of the rows.",
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option("--kinds", metavar="KIND=WORD,...", help="What the log calls broadcast and deliver."),
    ] = None,
    file_format: Annotated[
        Literal["parquet", "csv", "jsonl"] | None,
        typer.Option("--format", help="The format of the files, if their names do not tell."),
    ] = None,
    clock: Annotated[
        Literal["global", "local"] | None,
        typer.Option(help="Whether times of different nodes compare; they do in logs that Antecast wrote."),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Count all pairs in the wrong order; may take long.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Violations of a kind that are listed.")] = 10_000,
    engine: Annotated[
        Literal["auto", "spark", "local"],
        typer.Option(help="Spark, or this process alone: small logs do not need it."),
    ] = "auto",
    master: Annotated[
        str | None,
        typer.Option("--master", help="A Spark master or sc:// address. Default: all cores of this machine."),
    ] = None,
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

    Exits with 0 if the log is causal, 1 if causal order is violated, 2 if the log is broken or cannot be
    read, 3 if broadcasts are missing and nothing is wrong with the rest. --out writes the violations as a
    table, the verdict, and a report; --open shows the report.
    """
    from antecast.history.log_files import open_log
    from antecast.history.log_kinds import KINDS
    from antecast.history.rows import ALL_COLUMNS

    log = open_log(
        with_journals_as_logs(paths),
        file_format=file_format,
        columns=_pairs_of("--map", mapping, ALL_COLUMNS),
        kinds=_pairs_of("--kinds", words, KINDS),
        clock=clock,
    )
    note = clocked(quiet=quiet or as_json)
    if engine == "auto":
        engine = "spark" if master is not None or log.rows > LOCAL_ROWS else "local"
    judge = _with_spark if engine == "spark" else _here
    verdict = judge(log, pairs=pairs, limit=limit, master=master, note=note)
    result = summarise(log, verdict, engine)
    page = None
    kept = folder if folder is not None or not show else Path(tempfile.mkdtemp(prefix="antecast-audit-"))
    if kept is not None:
        keep_verdict(kept, verdict, result)
        page = report_at_end(kept, "audit", wanted=reported or show)
    if as_json:
        print(_json(result))
    elif not quiet:
        _show(verdict, folder)
        if page is not None:
            out.print(f"report: {page}", markup=False, soft_wrap=True)
    if show and page is not None and not webbrowser.open(page.resolve().as_uri()):
        tell(f"no browser was found; the report is {page}")
    raise typer.Exit(verdict.exit_code)


def _pairs_of(option: str, text: str | None, known: tuple[str, ...]) -> dict[str, str]:
    """Names from text such as `node=host,pos=offset`."""
    pairs: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if name not in known or not equals or not value or name in pairs:
            problem = f"expected NAME=VALUE with each of {', '.join(known)} at most once, got {part.strip()!r}"
            raise ConfigurationError(problem, field=option)
        pairs[name] = value
    return pairs


def _here(log: Log, *, pairs: bool, limit: int, master: str | None, note: Callable[[str], None]) -> Verdict:
    from antecast.history.log_audit import audit_log

    return audit_log(log, pairs=pairs, limit=limit)


def _with_spark(log: Log, *, pairs: bool, limit: int, master: str | None, note: Callable[[str], None]) -> Verdict:
    from antecast.history.rows import BrokenLog
    from antecast.spark.audit import audit as judge
    from antecast.spark.log_frames import log_frame
    from antecast.spark.session import reason, spark_session
    from antecast.spark.sweep import SparkFailed

    note(f"starting Spark to audit {_files(log)}")
    try:
        with spark_session("antecast audit", master=master) as spark:
            frame = log_frame(spark, log)
            verdict = judge(frame, clock=log.clock, pairs=pairs, limit=limit, on_progress=note)
    except BrokenLog as error:
        raise log.place(error) from None
    except Exception as error:
        if isinstance(error, AntecastError) or not _is_sparks(error):
            raise
        if isinstance(error, ConnectionError | EOFError):
            raise SparkFailed(f"Spark went away while it audited the log: {error}") from error
        for _ in log.batches():
            pass  # a malformed row says so here, with its number
        raise SparkFailed(f"Spark could not audit the log: {reason(str(error))}") from error
    log.check_kinds(verdict.messages, verdict.tally.deliveries)
    return verdict


def _is_sparks(error: Exception) -> bool:
    """Whether Spark failed, or is gone."""
    return type(error).__module__.startswith(("pyspark.", "py4j.")) or isinstance(
        error, ConnectionError | EOFError
    )


def _files(log: Log) -> str:
    return f"{len(log.files)} files" if len(log.files) > 1 else str(log.files[0].path)


def summarise(log: Log, verdict: Verdict, engine: str) -> dict[str, Any]:
    """A verdict ready for JSON."""
    witness = verdict.witness
    return {
        "verdict": verdict.outcome,
        "counts": verdict.counts,
        "listed": len(verdict.violations),
        "unknown_examples": list(verdict.unknown_examples),
        "witness": None
        if witness is None
        else {
            "run": witness.run,
            "node": witness.node,
            "chain": list(witness.chain),
            "words": witness.words,
            "diagram": witness.diagram,
            "events": [asdict(event) for event in witness.events],
        },
        "files": [str(file.path) for file in log.files],
        "columns": dict(log.columns),
        "kinds": dict(log.kinds),
        "clock": log.clock,
        "engine": engine,
        "version": __version__,
        "command": sys.argv,
    }


def keep_verdict(folder: Path, verdict: Verdict, result: Mapping[str, Any]) -> None:
    import pyarrow.parquet as pq

    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(verdict.violations, folder / "violations.parquet", compression="zstd")
        (folder / "verdict.json").write_text(f"{_json(result)}\n", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=folder) from error


def _json(result: Mapping[str, Any]) -> str:
    return json.dumps(result, indent=2, ensure_ascii=False, default=str)


def _show(verdict: Verdict, folder: Path | None) -> None:
    headline, *rest = str(verdict).splitlines()
    out.print(headline, style=_STYLES[verdict.outcome], markup=False, soft_wrap=True)
    for line in [*rest, *_causes(verdict)]:
        out.print(line, markup=False, soft_wrap=True)
    if folder is not None:
        out.print(f"\nviolations and verdict are in {folder}", style="dim", markup=False, soft_wrap=True)


def _causes(verdict: Verdict) -> list[str]:
    """Violations by cause, those of most first. Late messages are left out: they are the causes of early ones."""
    from antecast.history.causes import by_cause

    groups = by_cause(row for row in verdict.violations.to_pylist() if row["problem"] != "late")
    if sum(len(group.rows) for group in groups) < 2:
        return []  # the witness has told it all
    lines = ["", "by cause:", *(f"  {group.words}" for group in groups[:MOST_CAUSES])]
    more = len(groups) - MOST_CAUSES
    return [*lines, f"  and {more:,} more cause{'s' * (more > 1)}"] if more > 0 else lines
