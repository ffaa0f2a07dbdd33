"""Spans, events with clocks and histories that come as tables, in memory or in files.

A row stands for a line, unless the table has the columns `file` and `line`, as exports do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.clock_events import ClockEvents, ClockLog
from antecast.importers.source import Place, Source
from antecast.importers.span_table import SpanLog, Spans
from antecast.importers.spans_csv import add_row, find_columns, unit_of
from antecast.kv import History
from antecast.kv.tables import history_of

_NUMBERS = ("pos", "line")

TABLE = "table"
"""What stands for the name of a file."""


def read_spans(table: pa.Table, columns: Mapping[str, str]) -> SpanLog:
    """A table with a row per span, its columns named as in CSV; times are whole numbers or timestamps."""
    places = find_columns(table.column_names, columns)
    lacking = [name for name in ("trace", "span", "parent", "start") if name not in places]
    lacking += [] if "end" in places or "duration" in places else ["end"]
    if lacking:
        has = ", ".join(table.column_names)
        problem = f"no column for {', '.join(lacking)}; the table has {has}; name it with columns="
        raise ConfigurationError(problem, field="columns")
    units = {name: unit_of(table.column_names[place]) for name, place in places.items()}
    texts = [_texts(table.column(place)) for place in range(table.num_columns)]
    spans = Spans()
    for place, row in zip(_places(table), zip(*texts, strict=True), strict=True):
        add_row(spans, place, list(row), places, units)
    return spans.finish(TABLE)


def _places(table: pa.Table) -> Iterator[Place]:
    """Where each row stands."""
    if {"file", "line"} <= set(table.column_names) and pa.types.is_integer(table["line"].type):
        files, lines = table["file"].to_pylist(), table["line"].to_pylist()
        for number, (file, line) in enumerate(zip(files, lines, strict=True), 1):
            yield Place(TABLE, number) if file is None or line is None else Place(str(file), line)
    else:
        yield from (Place(TABLE, number) for number in range(1, len(table) + 1))


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    return ["" if value is None else str(value) for value in column.to_pylist()]


def read_clocks(table: pa.Table, columns: Mapping[str, str]) -> ClockLog:
    """A table with the columns host, clock and event; a clock is a JSON text, a map or a structure."""
    events = ClockEvents()
    named = {name: columns.get(name, name) for name in ("host", "clock", "event")}
    for name in ("host", "clock"):
        if named[name] not in table.column_names:
            has = ", ".join(table.column_names)
            raise ConfigurationError(f"no column {named[name]!r}; the table has {has}", field="columns")
    texts = table.column(named["event"]).to_pylist() if named["event"] in table.column_names else [""] * len(table)
    runs = table.column("run").to_pylist() if "run" in table.column_names else [""] * len(table)
    hosts, clocks = (table.column(named[name]).to_pylist() for name in ("host", "clock"))
    rows: dict[Any, list[tuple[Any, ...]]] = {}
    for run, *row in zip(runs, hosts, clocks, texts, _places(table), strict=True):
        rows.setdefault(run, []).append(tuple(row))
    for run, some in rows.items():
        if len(rows) > 1:
            events.next_execution(str(run))
        for host, clock, text, place in some:
            if host is None:
                raise place.error("host is null")
            events.add(str(host), _clock(clock, place), str(text or ""), place)
    return events.finish()


def _clock(value: Any, place: Place) -> dict[str, int]:
    try:
        if isinstance(value, str | bytes):
            clock = msgspec.json.decode(value, type=dict[str, int])
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
        tables = [self._table(file, data) for file, data in source.documents(text=self.NAME != "parquet")]
        table = pa.concat_tables(tables, promote_options="permissive")
        if not len(table):
            raise InputError("no row in it", path=source.files[0])
        if self.MODEL == "kv":
            return history_of(table, source.options.columns)
        read = read_spans if self.MODEL == "spans" else read_clocks
        return read(table, source.options.columns)

    def _table(self, file: Path, data: bytes) -> pa.Table:
        first = 2 if self.NAME == "csv" else 1
        try:
            table = self._parsed(data)
            for name in _NUMBERS if self.NAME == "csv" else ():
                if name in table.column_names:
                    at = table.schema.get_field_index(name)
                    table = table.set_column(at, name, table[name].cast(pa.int64()))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            problem = " ".join(str(error).split())
            raise InputError(f"cannot be read as {self.NAME}: {problem}", path=file) from None
        if not {"file", "line"} <= set(table.column_names):
            table = table.drop_columns([name for name in ("file", "line") if name in table.column_names])
            lines = pa.array(range(first, first + len(table)), pa.int64())
            table = table.append_column("file", pa.array([str(file)] * len(table)).cast(pa.string()))
            table = table.append_column("line", lines)
        return table

    def _parsed(self, data: bytes) -> pa.Table:
        stream = io.BytesIO(data)
        if self.NAME == "parquet":
            return pq.read_table(stream)
        if self.NAME == "jsonl":
            return pa_json.read_json(stream)
        names = data.partition(b"\n")[0].decode("utf-8-sig").strip()
        header = next(csv.reader([names]), [])
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(header, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            true_values=["true"],
            false_values=["false"],
        )
        if "initial" in header:
            convert.column_types = {**convert.column_types, "initial": pa.bool_()}
        return pa_csv.read_csv(stream, convert_options=convert)
