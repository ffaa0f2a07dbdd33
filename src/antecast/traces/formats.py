"""The formats by name: which is in a file, how to read it, how to write it.

A format is guessed from content: each says which share of the first lines it could have written, and the
largest share of at least a half wins. Of those that reach a half, one that the file's name asks for goes first:
rows of whole numbers fit several. If none reaches that, or two are equal, the user has to say.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.traces import bonnmotion, contact_lists, ns2, one, tables, walkers
from antecast.traces.schema import CONTACTS
from antecast.traces.text import Text, load
from antecast.traces.trace import Format, Kind, Option, Trace

FORMATS: Mapping[str, Format] = {
    each.name: each
    for each in (
        one.CONNECTIVITY_FORMAT,
        one.MOVEMENT_FORMAT,
        ns2.FORMAT,
        walkers.FORMAT,
        bonnmotion.FORMAT,
        contact_lists.IMOTE_FORMAT,
        contact_lists.SOCIOPATTERNS_FORMAT,
        tables.CSV_FORMAT,
        tables.PARQUET_FORMAT,
    )
}

_HEAD = 1 << 16
"""Bytes that a guess looks at."""
_PARQUET = b"PAR1"


def find_format(name: str, where: str = "format") -> Format:
    """A format by its name."""
    if name not in FORMATS:
        raise ConfigurationError(f"unknown format {name!r}; known are {', '.join(FORMATS)}", field=where)
    return FORMATS[name]


def guess(path: Path | str) -> str:
    """The name of the format a file is in, told from its first lines."""
    head = load(path, _HEAD)
    if head.startswith(_PARQUET):
        return "parquet"
    text = Text.decode(path, head, cut=len(head) == _HEAD)
    lines = text.lines.filter(pa.array(text.full())).to_pylist()
    shares = {name: each.score(lines) for name, each in FORMATS.items()}
    named = {each.name: shares[each.name] for each in _asked(Path(path)) if shares[each.name] >= 0.5}
    shares = named or shares
    best = max(shares.values())
    likely = [name for name, share in shares.items() if share == best >= 0.5]
    if len(likely) == 1:
        return likely[0]
    why = f"could be {' or '.join(likely)}" if likely else "not a trace in a known format"
    raise InputError(f"{why}; `antecast convert --from FORMAT` reads it as one of {', '.join(FORMATS)}", path=path)


def read(path: Path | str, format: str | None = None, **options: object) -> Trace:  # noqa: A002
    """Read a trace; the format is guessed if it is not given.

    Options are those of the format: `interval` and `order` (sociopatterns), `motion` (ns2), `dimensions`
    (bonnmotion). Durations are nanoseconds or text such as "20s".
    """
    chosen = find_format(format or guess(path))
    values = _options(options, chosen.reading, chosen.name)
    return chosen.read(path if chosen.binary else Text.open(path), **values)


def write(
    trace: Trace | pa.Table,
    path: Path | str,
    format: str | None = None,  # noqa: A002
    *,
    replace: bool = False,
    **options: object,
) -> tuple[str, ...]:
    """Write a trace or one of the two tables; returns notes on what the format cannot hold.

    The format is told by the file's name if it is not given, as is compression (.gz, .bz2, .xz). The file
    appears when it is whole, and takes the place of another only if `replace` says so.
    """
    path = Path(path)
    table = trace.table if isinstance(trace, Trace) else trace
    kind: Kind = "contacts" if set(CONTACTS.names) <= set(table.column_names) else "movement"
    chosen = find_format(format) if format else format_of_name(path, kind)
    check_holds(chosen, kind)
    values = _options(options, chosen.writing, chosen.name)
    if path.exists() and not replace:
        raise OutputError("exists already; --force writes over it", path=path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with _open_to_write(partial, path.suffix, chosen.binary) as file:
            notes = chosen.write(table, file, **values)
        partial.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OutputError(f"cannot write: {reason}", path=path) from error
    finally:
        partial.unlink(missing_ok=True)
    return notes


def _open_to_write(path: Path, suffix: str, binary: bool) -> IO[Any]:
    if binary:
        return path.open("wb")
    match suffix:
        case ".gz":
            return gzip.open(path, "wt", encoding="utf-8", newline="\n")
        case ".bz2":
            return bz2.open(path, "wt", encoding="utf-8", newline="\n")
        case ".xz":
            return lzma.open(path, "wt", encoding="utf-8", newline="\n")
        case _:
            return path.open("w", encoding="utf-8", newline="\n")


def format_of_name(path: Path, kind: Kind) -> Format:
    """The format that a file's name asks for, from its last part on."""
    asked = _asked(path)
    for each in asked:
        if kind in each.holds:
            return each
    if asked:
        return asked[0]
    known = ", ".join(f".{each.suffixes[0]}" for each in FORMATS.values())
    raise ConfigurationError(f"{path.name} does not tell a format (known are {known})", field="--to")


def _asked(path: Path) -> list[Format]:
    """The formats that the last known part of a file's name stands for."""
    for suffix in reversed([each.lstrip(".").lower() for each in path.suffixes]):
        asked = [each for each in FORMATS.values() if suffix in each.suffixes]
        if asked:
            return asked
    return []


def check_holds(chosen: Format, kind: Kind) -> None:
    """Refuse to write what a format cannot hold."""
    if kind in chosen.holds:
        return
    other = ", ".join(each.name for each in FORMATS.values() if kind in each.holds)
    hint = "`antecast contacts` finds the contacts in movement; " if kind == "movement" else ""
    raise ConfigurationError(
        f"{chosen.name} holds {chosen.holds[0]}, and this is {kind}: {hint}formats that hold {kind} are {other}",
        field="--to",
    )


def _options(given: Mapping[str, object], known: Mapping[str, Option], name: str) -> dict[str, object]:
    values = {}
    for key, value in given.items():
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise ConfigurationError(f"unknown option {key!r}; {name} {takes}", field=key)
        try:
            values[key] = known[key](value)
        except ValueError as error:
            raise ConfigurationError(str(error), field=key) from None
    return values
