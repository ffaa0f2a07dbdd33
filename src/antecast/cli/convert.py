"""`antecast convert`: a trace from one format to another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antecast.cli.console import Json, Quiet, input_path, note, out
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.traces import Trace


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="The trace to read, compressed or not.", parser=input_path)
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    source_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="IN's format, if it cannot be guessed.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", metavar="FORMAT", help="OUT's format, if its name does not tell.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="OPTION=VALUE", help="An option of a format, such as interval=20s. Repeatable."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert a trace of contacts or of movement to another format.

    Formats: one, one-movement, ns2, walkers, bonnmotion, imote, sociopatterns, csv, parquet. IN's is guessed from
    its content, OUT's from its name. Notes on standard error tell what was joined, ignored or lost.
    """
    from antecast.traces import FORMATS, formats, guess, read, write

    for name, where in ((source_format, "--from"), (target_format, "--to")):
        if name is not None:
            formats.find_format(name, where)
    found = source_format or guess(source)
    options = _options(settings or [])
    reading = {key: value for key, value in options.items() if key in FORMATS[found].reading}
    trace = read(source, found, **reading)
    chosen = FORMATS[target_format] if target_format else formats.format_of_name(target, trace.kind)
    writing = {key: value for key, value in options.items() if key in chosen.writing or key not in reading}
    lost = write(trace, target, chosen.name, replace=force, **writing)
    notes = [*(f"{source.name}: {note}" for note in trace.notes), *(f"{target.name}: {note}" for note in lost)]
    if as_json:
        files = {"source": str(source), "target": str(target)}
        print(json.dumps(files | _summary(trace) | {"to": chosen.name, "notes": notes}, indent=2))
    elif not quiet:
        for text in notes:
            note(text)
        out.print(_line(trace, target, chosen.name), soft_wrap=True)


def _options(settings: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise ConfigurationError(f"expected OPTION=VALUE, got {key!r}", field="--set")
    return {key: value for key, _, value in pairs}


def _summary(trace: Trace) -> dict[str, object]:
    start, end = trace.span
    rows = "contacts" if trace.kind == "contacts" else "segments"
    return {
        "from": trace.format,
        "kind": trace.kind,
        "nodes": trace.nodes,
        rows: len(trace.table),
        "start": start / 1e9,
        "end": end / 1e9,
    }


def _line(trace: Trace, target: Path, to: str) -> str:
    start, end = trace.span
    rows = "contacts" if trace.kind == "contacts" else "segments"
    what = f"{trace.nodes:,} nodes, {len(trace.table):,} {rows}, {start / 1e9:.10g} s to {end / 1e9:.10g} s"
    return f"{trace.format} to {to}: {what}: {target}"
