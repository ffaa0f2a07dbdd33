"""`antecast observe`: a stream or a log in causal order, on Spark."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antecast.cli.console import Conf, Json, Master, Quiet, out
from antecast.cli.progress import clocked
from antecast.cli.tables import show_pairs
from antecast.cli.usage import COMMON
from antecast.core import AntecastError, ConfigurationError, InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from antecast.spark.observe_run import Tally

_FORMATS = {".parquet": "parquet", ".pq": "parquet", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


_WAIT, _ROWS, _SILENCE, _SOURCE = (
    "How long rows wait",
    "What rows carry",
    "Late and silent",
    "Where rows come from",
)


def observe(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Files or a folder of them; with --source, - if it has no path.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write delivered/ and refused/ in.")],
    epsilon: Annotated[
        str, typer.Option(metavar="TIME", help='The most that clocks differ: "5ms", or a number of ticks.')
    ],
    delta: Annotated[
        str, typer.Option(metavar="TIME", help='The longest a message takes: "100ms", or a number of ticks.')
    ],
    batch: Annotated[bool, typer.Option("--batch", help="Read a finished log, without a checkpoint.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to keep state, so that a stopped run can continue."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep reading new rows until interrupted.")] = False,
    key: Annotated[
        str,
        typer.Option(
            metavar="COLUMN,...", show_default=False, help="What makes a group. Default: all rows are one group."
        ),
    ] = "",
    violations: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help='Wait as little as keeps violations below this share: "0.5%", "0.005".',
            rich_help_panel=_WAIT,
        ),
    ] = None,
    mode: Annotated[
        Literal["exact", "earlier-send", "dapw", "cbd", "margin", "paced"],
        typer.Option(
            metavar="MODE",
            help="When rows are delivered: exact, earlier-send, dapw, cbd, margin or paced.",
            rich_help_panel=_WAIT,
        ),
    ] = "cbd",
    percent: Annotated[
        int,
        typer.Option(
            "--percent",
            "-c",
            metavar="NUMBER",
            min=0,
            max=100,
            help="The percentage of the exact waiting time to wait.",
            rich_help_panel=_WAIT,
        ),
    ] = 100,
    stamps: Annotated[
        Literal["bounded", "hybrid", "physical"],
        typer.Option(
            metavar="KIND", help="The kind of timestamp: bounded, hybrid or physical.", rich_help_panel=_ROWS
        ),
    ] = "bounded",
    elements: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="Elements of kn. Default: all ε + 1.", rich_help_panel=_ROWS),
    ] = None,
    tick: Annotated[
        str, typer.Option(metavar="TIME", help="The length of a tick.", rich_help_panel=_ROWS)
    ] = "1ms",
    columns: Annotated[
        str | None,
        typer.Option(
            "--map",
            metavar="NAME=COLUMN,...",
            help="The columns of r, c, kn, l, counter, before, source; nothing after = for none.",
            rich_help_panel=_ROWS,
        ),
    ] = None,
    unique: Annotated[
        str,
        typer.Option(
            metavar="COLUMN,...",
            show_default=False,
            help="What identifies a row; of duplicates, one is kept.",
            rich_help_panel=_ROWS,
        ),
    ] = "",
    arrival: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The order of arrival. Default: the order of r.", rich_help_panel=_ROWS
        ),
    ] = None,
    clock: Annotated[
        Literal["rows", "arrival"],
        typer.Option(
            metavar="KIND",
            help="The observer's clock: rows (the largest r) or arrival (the arrival column).",
            rich_help_panel=_SILENCE,
        ),
    ] = "rows",
    gap: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How far ahead a clock that two sources confirmed must be to be set back. Default: a day.",
            rich_help_panel=_SILENCE,
        ),
    ] = None,
    timers: Annotated[
        Literal["none", "event", "processing"] | None,
        typer.Option(
            metavar="KIND",
            help="What moves the clock of a silent group: none, event or processing time."
            " Default: processing with --follow, else none.",
            rich_help_panel=_SILENCE,
        ),
    ] = None,
    slack: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Extra time that timers wait for rows on their way to Spark.",
            rich_help_panel=_SILENCE,
        ),
    ] = "1s",
    late: Annotated[
        Literal["deliver", "refuse"],
        typer.Option(
            metavar="WHAT",
            help="What to do with late rows: deliver them, or refuse them into refused/.",
            rich_help_panel=_SILENCE,
        ),
    ] = "deliver",
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Forget a group that is silent for this long. Default: never.",
            rich_help_panel=_SILENCE,
        ),
    ] = None,
    spark_source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="FORMAT", help="A source of Spark: socket, kafka, rate …", rich_help_panel=_SOURCE
        ),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of the source. Repeatable.", rich_help_panel=_SOURCE
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL", help='Columns of JSON rows: "r long, c int, kn array<int>, …".', rich_help_panel=_SOURCE
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    out_format: Annotated[
        Literal["parquet", "json"] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The format of OUT: parquet or json. Default: that of IN.",
            rich_help_panel=COMMON,
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put rows into causal order, exactly or sooner with some violations.

    Reads what is there, delivers all of it in order, and ends; the same command continues with what has arrived
    since. Rows that cannot be ordered are written to refused/, with a reason.
    """
    if batch == (checkpoint is not None):
        problem = "give --checkpoint FOLDER for a stream, or --batch for a finished log"
        raise ConfigurationError(problem, field="--checkpoint")
    if batch and follow:
        raise ConfigurationError("a finished log cannot be followed", field="--follow")
    if batch and folder.exists():
        raise OutputError("exists already", path=folder)
    place = None if source == "-" else source
    if place is not None:
        _look(place)
    kind = spark_source or _format_of(Path(source))

    from antecast.spark.observe_run import Source, observe_stream, observe_table
    from antecast.spark.session import reason, spark_session
    from antecast.spark.sweep import SparkFailed

    origin = Source(format=kind, path=place, options=_pairs("--option", options or []), schema=schema)
    chosen: dict[str, Any] = {
        "key": [each.strip() for each in key.split(",") if each.strip()],
        "epsilon": _span(epsilon),
        "delta": _span(delta),
        "c": percent,
        "mode": mode,
        "stamps": stamps,
        "elements": elements,
        "tick": tick,
        "columns": _pairs("--map", columns.split(",") if columns else []),
        "arrival": arrival,
        "clock": clock,
        "gap": None if gap is None else _span(gap),
        "timers": timers or ("processing" if follow else "none"),
        "slack": slack,
    }
    # Named only if chosen, so that checkpoints older than this option still work.
    if violations is not None:
        chosen["violations"] = _share(violations)
    if unique:
        chosen["unique"] = [each.strip() for each in unique.split(",") if each.strip()]
    if forget is not None:
        chosen["forget"] = forget
    if late != "deliver":
        chosen["late"] = late
    result = out_format or (kind if kind in ("parquet", "json") else "parquet")
    note = clocked(quiet=quiet or as_json)

    def progress(number: int, tally: Tally) -> None:
        note(f"batch {number}: {tally.delivered:,} delivered, {tally.refused.total():,} refused so far")

    log = None
    if checkpoint is not None:
        checkpoint.mkdir(parents=True, exist_ok=True)
        log = checkpoint / "spark.log"
    # A micro-batch costs what its partitions cost: here, one per core is enough.
    here = master is None or master.startswith("local")
    settings = {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1)} if here else {}
    with spark_session("antecast observe", master=master, log=log, settings=settings) as spark:
        try:
            if checkpoint is None:
                for name in ("timers", "slack", "forget"):
                    chosen.pop(name, None)
                tally = observe_table(spark, origin, folder, result, **chosen)
            else:
                with _until_interrupted() as stoppable:
                    tally = observe_stream(
                        spark,
                        origin,
                        folder,
                        result,
                        checkpoint,
                        follow=follow,
                        on_batch=progress,
                        on_start=stoppable.append,
                        **chosen,
                    )
        except Exception as error:
            if isinstance(error, AntecastError) or not type(error).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise SparkFailed(f"Spark could not observe {source}: {reason(str(error))}") from error
    _report(tally, folder, as_json=as_json, quiet=quiet)


@contextmanager
def _until_interrupted() -> Iterator[list[Any]]:
    """Stop queries at Ctrl-C or SIGTERM, between two micro-batches, as an ordinary end."""
    queries: list[Any] = []

    def stop() -> None:
        for query in queries:
            query.stop()

    def handle(*_: object) -> None:
        # This thread may be in the middle of a call to Spark, and cannot begin another.
        threading.Thread(target=stop, daemon=True).start()

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield queries
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _look(place: str) -> None:
    """Refuse a missing path before Spark starts, which takes long. Other file systems are left to Spark."""
    if "://" in place:
        return
    path = Path(place)
    root = Path(path.anchor)
    pattern = any(mark in place for mark in "*?[")
    if not (any(root.glob(str(path.relative_to(root)))) if pattern else path.exists()):
        raise InputError("no such file or folder", path=place)


def _format_of(path: Path) -> str:
    """The format of files by their names; of a folder by the first file in it."""
    names = [path] if path.suffix in _FORMATS or not path.is_dir() else sorted(path.iterdir())
    for each in names:
        suffix = [part for part in each.suffixes if part != ".gz"]
        if suffix and suffix[-1] in _FORMATS and not each.name.startswith((".", "_")):
            return _FORMATS[suffix[-1]]
    known = ", ".join(_FORMATS)
    raise ConfigurationError(f"cannot tell the format of {path}: no file ends in {known}; say it with --source")


def _span(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _share(text: str) -> float:
    try:
        share = float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ConfigurationError(f"expected a share such as 0.5% or 0.005, got {text!r}", field="--violations")
    return share


def _pairs(option: str, parts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name:
            raise ConfigurationError(f"expected NAME=VALUE, got {part!r}", field=option)
        pairs[name] = value
    return pairs


def _report(tally: Tally, folder: Path, *, as_json: bool, quiet: bool) -> None:
    summary: Mapping[str, Any] = {
        "delivered": tally.delivered,
        "late": tally.late,
        "refused": dict(tally.refused),
        "waiting": tally.waiting,
        "batches": tally.batches,
        "out": str(folder),
    }
    if tally.allowed is not None:
        summary = {**summary, "violations": {"allowed": tally.allowed, "measured": tally.measured}}
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    if quiet:
        return
    rows = [("delivered", f"{tally.delivered:,} rows, {tally.late:,} of them late")]
    if tally.allowed is not None:
        rows.append(("violations", f"{tally.measured:.3%} measured, {tally.allowed:.3%} allowed"))
    rows += [("refused", f"{size:,}: {reason}") for reason, size in sorted(tally.refused.items())]
    if tally.waiting:
        rows.append(("waiting", f"{tally.waiting:,} rows, for the next run"))
    show_pairs(rows)
    out.print(f"rows are in {folder}", style="dim", soft_wrap=True)
