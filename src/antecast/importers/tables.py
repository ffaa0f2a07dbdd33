"""Spans, events with clocks and histories that come as tables, in memory or in files.

A row stands for a line, unless the table has the columns `file` and `line`, as exports do.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.clock_events import ClockEvents, ClockLog, check_keys
from antecast.importers.json_values import per_line
from antecast.importers.source import Place, Source
from antecast.importers.span_table import SpanLog, Spans, whole
from antecast.importers.spans_csv import add_row, check_named, csv_rows, find_columns, unit_of
from antecast.kv import History
from antecast.kv.tables import history_of

_NUMBERS = ("pos", "line")
_CLOCK_COLUMNS = ("host", "clock", "event", "run")

TABLE = "table"
"""What stands for the name of a file."""


def read_spans(table: pa.Table, columns: Mapping[str, str]) -> SpanLog:
    """A table with a row per span, its columns named as in CSV; times are whole numbers or timestamps."""
    places = find_columns(table.column_names, columns)
    _check_names(table, (*(table.column_names[place] for place in places.values()), "file", "line"))
    lacking = [name for name in ("trace", "span", "parent", "start") if name not in places]
    lacking += [] if "end" in places or "duration" in places else ["end"]
    if lacking:
        has = ", ".join(table.column_names)
        problem = f"no column for {', '.join(lacking)}; the table has {has}; name it with columns="
        raise ConfigurationError(problem, field="columns")
    units = {name: unit_of(table.column_names[place]) for name, place in places.items()}
    texts = [_texts(table.column(place)) for place in range(table.num_columns)]
    for name in ("trace", "span", "parent"):
        if pa.types.is_floating(table.schema.types[places[name]]):  # pandas makes whole numbers beside nulls so
            texts[places[name]] = _whole_names(table.column(places[name]), table.column_names[places[name]])
    spans = Spans()
    for place, row in zip(_places(table), zip(*texts, strict=True), strict=True):
        add_row(spans, place, list(row), places, units)
    return spans.finish(TABLE)


def _places(table: pa.Table) -> Iterator[Place]:
    """Where each row stands."""
    if {"file", "line"} <= set(table.column_names) and pa.types.is_integer(table["line"].type):
        files, lines = table["file"].to_pylist(), table["line"].to_pylist()
        for number, (file, line) in enumerate(zip(files, lines, strict=True), 1):
            known = file is not None and line is not None and 0 < line < _LAST_LINE
            yield Place(str(file), line) if known else Place(TABLE, number)
    else:
        yield from (Place(TABLE, number) for number in range(1, len(table) + 1))


_LAST_LINE = 2**62


def _check_names(table: pa.Table, used: Iterable[str]) -> None:
    for name in used:
        if table.column_names.count(name) > 1:
            raise ConfigurationError(f"two columns are called {name!r}", field="columns")


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    return ["" if value is None else str(value) for value in column.to_pylist()]


def _whole_names(column: pa.ChunkedArray, name: str) -> list[str]:
    values = column.to_pylist()
    for row, value in enumerate(values, 1):
        if value is not None and value == value and not (value.is_integer() and abs(value) < 2**53):
            raise Place(TABLE, row).error(f"{name} is {value}, where a text or a whole number is expected")
    return ["" if value is None or value != value else str(int(value)) for value in values]


def read_clocks(table: pa.Table, columns: Mapping[str, str]) -> ClockLog:
    """A table with the columns host, clock and event; a clock is a JSON text, a map or a structure."""
    events = ClockEvents()
    check_named(columns, _CLOCK_COLUMNS, table.column_names)
    named = {name: columns.get(name, name) for name in _CLOCK_COLUMNS}
    _check_names(table, (*named.values(), "file", "line"))
    for name in ("host", "clock"):
        if named[name] not in table.column_names:
            has = ", ".join(table.column_names)
            raise ConfigurationError(f"no column {named[name]!r}; the table has {has}", field="columns")
    texts = table.column(named["event"]).to_pylist() if named["event"] in table.column_names else [""] * len(table)
    runs = table.column(named["run"]).to_pylist() if named["run"] in table.column_names else [""] * len(table)
    hosts, clocks = (table.column(named[name]).to_pylist() for name in ("host", "clock"))
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for run, *row in zip(runs, hosts, clocks, texts, _places(table), strict=True):
        rows.setdefault(str(run), []).append(tuple(row))
    for run, some in rows.items():
        if len(rows) > 1:
            events.next_execution(run)
        for host, clock, text, place in some:
            if host is None:
                raise place.error("host is null")
            events.add(str(host), _clock(clock, place), str(text or ""), place)
    return events.finish()


def _clock(value: Any, place: Place) -> dict[str, int]:
    try:
        if isinstance(value, str | bytes):
            clock = msgspec.json.decode(value, type=dict[str, int])
            check_keys(value if isinstance(value, str) else value.decode(), clock, place)
        else:
            pairs = value.items() if isinstance(value, dict) else value
            clock = msgspec.convert(
                {str(name): count for name, count in pairs if count is not None}, dict[str, int]
            )
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise place.error(f"the clock is not an object of whole numbers: {error}") from None
    if clock and (min(clock.values()) < 0 or max(clock.values()) >= 2**62):
        raise place.error("a clock counts events: whole numbers from 0 to 2^62 are expected")
    return clock


@dataclass(frozen=True)
class TableReader:
    """An importer of tables in files (Parquet, CSV, JSON lines) for a model that is asked for."""

    NAME: str
    MODEL: str

    def read(self, source: Source) -> SpanLog | ClockLog | History:
        table = self.table(source)
        if not len(table):
            raise InputError("no row in it", path=source.files[0])
        return self.of(table, source)

    def of(self, table: pa.Table, source: Source) -> SpanLog | ClockLog | History:
        """What the model takes, from rows that were read."""
        columns = source.options.columns
        if self.MODEL == "kv":
            return history_of(table, columns, name=str(source.files[0]) if len(source.files) == 1 else TABLE)
        read = read_spans if self.MODEL == "spans" else read_clocks
        return read(table, columns)

    def table(self, source: Source) -> pa.Table:
        """The rows of all files, with their places."""
        if self.NAME == "parquet":
            tables = [_parquet(file, data) for file, data in source.documents(text=False)]
        else:
            make = _csv if self.NAME == "csv" else _json_lines
            tables = [make(source, file) for file in source.files]
        try:
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            problem = " ".join(str(error).split())
            raise InputError(f"the files have different columns: {problem}", path=source.files[-1]) from None

    def alike(self, source: Source) -> bool:
        """Whether each file can be read for itself: types and the order of rows do not depend on the others."""
        if self.NAME == "jsonl":
            return False  # types are those that all values have
        heads = []
        for file in source.files:
            if self.NAME == "parquet":
                try:
                    heads.append([(field.name, str(field.type)) for field in pq.read_schema(file)])
                except (pa.ArrowException, OSError):
                    return False
            else:
                heads.append([(name, "") for name in next(csv_rows(source, file), (None, []))[1]])
        pos = source.options.columns.get("pos", "pos")
        return all(head == heads[0] for head in heads) and pos not in dict(heads[0])


def _parquet(file: Path, data: bytes) -> pa.Table:
    try:
        table = pq.read_table(io.BytesIO(data))
    except pa.ArrowException as error:
        raise InputError(f"cannot be read as parquet: {' '.join(str(error).split())}", path=file) from None
    _no_name_twice(file, table.column_names)
    return _placed(table, file, range(1, len(table) + 1))


def _csv(source: Source, file: Path) -> pa.Table:
    """All columns are texts but those that are numbers or marks by their name; an empty cell is null."""
    lines, cells = [], []
    header: list[str] = []
    for place, row in csv_rows(source, file):
        if not header:
            header = row
            _no_name_twice(file, header)
        elif len(row) != len(header):
            raise place.error(f"{len(row)} fields, where the header has {len(header)}")
        else:
            lines.append(place.line)
            cells.append(row)
    columns = {}
    for at, name in enumerate(header):
        texts = [row[at] or None for row in cells]
        if name in _NUMBERS:
            places = (Place(str(file), line) for line in lines)
            numbers = [text and whole(text, place, name) for text, place in zip(texts, places, strict=True)]
            columns[name] = pa.array(numbers, pa.int64())
        elif name == "initial":
            wrong = next((line for line, text in zip(lines, texts, strict=True) if text not in _MARKS), None)
            if wrong is not None:
                raise Place(str(file), wrong).error("initial is true or false")
            columns[name] = pa.array([_MARKS[text] for text in texts], pa.bool_())
        else:
            columns[name] = pa.array(texts, pa.string())
    return _placed(pa.table(columns), file, lines)


_MARKS = {"true": True, "false": False, None: None}


def _json_lines(source: Source, file: Path) -> pa.Table:
    records: list[dict[str, Any]] = []
    lines = []
    for value in per_line(source, file):
        if not isinstance(value.value, dict):
            raise value.place.error("not a JSON object")
        records.append(value.value)
        lines.append(value.place.line)
    columns = {}
    for name in dict.fromkeys(name for record in records for name in record):
        values = [record.get(name) for record in records]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            large = next((at for at, each in enumerate(values) if _is_large(each)), None)
            if large is not None:
                place = Place(str(file), lines[large])
                raise place.error(f"{name} is a number that 64 bits do not hold: {values[large]}") from None
            first = next(value for value in values if value is not None)
            at = next(
                (at for at, each in enumerate(values) if each is not None and type(each) is not type(first)), 0
            )
            problem = f"{name} is {values[at]!r}, where values like {first!r} are expected"
            raise Place(str(file), lines[at]).error(problem) from None
    return _placed(pa.table(columns), file, lines)


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _no_name_twice(file: Path, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two columns are called {name!r}", path=file, line=1)


def _placed(table: pa.Table, file: Path, lines: Sequence[int]) -> pa.Table:
    """The table with its places, unless it has those of the log that it was made from."""
    if {"file", "line"} <= set(table.column_names):
        return table
    table = table.drop_columns([name for name in ("file", "line") if name in table.column_names])
    table = table.append_column("file", pa.array([str(file)] * len(table), pa.string()))
    return table.append_column("line", pa.array(lines, pa.int64()))
