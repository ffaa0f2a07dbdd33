"""Spans as a table in CSV: a trace, a span, its parent, a service, a start and an end.

Columns are known by the names that tools give them (`TraceID`, `trace_id`, `ParentSpanId`, `PodName`,
`StartTimeUnixNano`); others are named with `Options.columns`. The unit of a time is in the name of its column
(nano, micro or milli; nanoseconds if it says nothing), or the time is written out. A root's parent is `root` or
nothing. With a column `run`, traces of different runs are different traces, called `run/trace`. What exports write
has `span_links` where spans have links: a JSON array of pairs of a trace and a span.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from antecast.core.errors import ConfigurationError
from antecast.importers.source import MAX_LINE, Head, Place, Source, in_a_line
from antecast.importers.span_table import SpanLog, Spans, kind_of, nanoseconds, whole

NAME = "spans-csv"
MODEL = "spans"

_KNOWN = {
    "trace": ("traceid", "trace"),
    "span": ("spanid", "span", "id"),
    "parent": ("parentid", "parentspanid", "parent"),
    "service": ("podname", "pod", "servicename", "service", "host", "hostname", "node"),
    "name": ("operationname", "operation", "spanname", "name"),
    "kind": ("spankind", "kind"),
    "start": ("starttimeunixnano", "starttime", "start", "starttimens", "starttimenano", "timestamp", "startts"),
    "end": ("endtimeunixnano", "endtime", "end", "endtimens", "endtimenano", "endts"),
    "duration": ("duration", "durationns", "durationnano"),
    "links": ("spanlinks",),
    "run": ("run",),
}
_ROOTS = ("", "root", "none", "null", "-1")
csv.field_size_limit(MAX_LINE)
_UNITS = {"milli": 10**6, "ms": 10**6, "micro": 10**3, "us": 10**3, "nano": 1, "ns": 1}


def recognises(head: Head) -> bool:
    lines = head.lines
    if not lines or lines[0].lstrip()[:1] in ("{", "["):
        return False
    found = find_columns(next(csv.reader(lines[:1]), []), {})
    return {"trace", "span", "parent", "start"} <= found.keys()


def find_columns(header: list[str], given: Mapping[str, str]) -> dict[str, int]:
    """Where each column stands."""
    check_named(given, (*_KNOWN,), header)
    plain = [_plain(name) for name in header]
    found = {}
    for name, known in _KNOWN.items():
        if name in given:
            found[name] = header.index(given[name])
            continue
        units = [f"{each}{unit}" for each in known for unit in ("", "millis", "micros", "nanos", "ms", "us", "ns")]
        place = next((plain.index(each) for each in (*known, *units) if each in plain), None)
        if place is not None:
            found[name] = place
    return found


def check_named(given: Mapping[str, str], known: Sequence[str], header: Sequence[str]) -> None:
    """Refuse names that mean nothing and columns that are not there: what they hold would be passed over."""
    for name, column in given.items():
        if name not in known:
            raise ConfigurationError(f"no such column {name!r}; there are {', '.join(known)}", field="columns")
        if column not in header:
            problem = f"no column {column!r} for {name}; the table has {', '.join(header)}"
            raise ConfigurationError(problem, field="columns")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def read(source: Source) -> SpanLog:
    spans = Spans()
    for file in source.files:
        rows = csv_rows(source, file)
        _, header = next(rows, (Place(str(file), 1), []))
        columns = find_columns(header, source.options.columns)
        for name in (header[place] for place in columns.values()):
            if header.count(name) > 1:
                raise Place(str(file), 1).error(f"two columns are called {name!r}")
        lacking = [name for name in ("trace", "span", "parent", "start") if name not in columns]
        if "end" not in columns and "duration" not in columns:
            lacking.append("end")
        if lacking:
            has = in_a_line(", ".join(header), 800)
            problem = f"no column for {', '.join(lacking)}; the file has {has}; say which it is with"
            raise Place(str(file), 1).error(f"{problem} --map {lacking[0]}=COLUMN")
        units = {name: unit_of(header[place]) for name, place in columns.items()}
        for place, row in rows:
            if len(row) != len(header):
                raise place.error(f"{len(row)} fields, where the header has {len(header)}")
            add_row(spans, place, row, columns, units)
    return spans.finish(source.files[0])


def csv_rows(source: Source, file: Path) -> Iterator[tuple[Place, list[str]]]:
    """The rows of a file, the header included, and where each begins: a text in quotes may go on over lines."""
    numbers: list[int] = []

    def texts() -> Iterator[str]:
        for place, text in source.lines_of(file):
            numbers.append(place.line)
            yield f"{text}\n"

    rows, before = csv.reader(texts(), strict=True), 0
    try:
        for row in rows:
            place, before = Place(str(file), numbers[before]), rows.line_num
            if row:
                yield place, row
    except csv.Error as error:
        raise Place(str(file), numbers[rows.line_num - 1]).error(f"not CSV: {error}") from None


def unit_of(column: str) -> int:
    name = column.lower()
    return next((size for unit, size in _UNITS.items() if name.endswith(unit) or f"{unit}s" in name), 1)


def add_row(
    spans: Spans, place: Place, row: list[str], columns: Mapping[str, int], units: Mapping[str, int]
) -> None:
    def cell(name: str) -> str:
        return row[columns[name]].strip() if name in columns else ""

    def time(name: str) -> int:
        text = cell(name)
        if "-" in text[1:]:
            return nanoseconds(text, place, name)
        return whole(text, place, name) * units[name]

    start, parent = time("start"), cell("parent")
    spans.add(
        place,
        trace=in_run(cell("run"), cell("trace")),
        span=cell("span"),
        parent=parent,
        rooted=parent.lower() in _ROOTS,
        service=cell("service"),
        name=cell("name"),
        kind=kind_of(cell("kind")),
        start=start,
        end=time("end") if "end" in columns else start + time("duration"),
        links=[(in_run(cell("run"), trace), span) for trace, span in _links(cell("links"), place)],
    )


def in_run(run: str, trace: str) -> str:
    """The name of a trace, apart for each run."""
    return f"{run}/{trace}" if run else trace


def _links(text: str, place: Place) -> list[tuple[str, str]]:
    try:
        return msgspec.json.decode(text, type=list[tuple[str, str]]) if text else []
    except msgspec.MsgspecError:
        raise place.error(f"span_links is {text!r}, where [[TRACE, SPAN], ...] is expected") from None
