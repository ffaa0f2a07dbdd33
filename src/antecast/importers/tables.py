"""Spans and events with clocks that come as Arrow tables instead of files. A row stands for a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.importers.clock_events import ClockEvents, ClockLog
from antecast.importers.source import Place
from antecast.importers.span_table import SpanLog, Spans
from antecast.importers.spans_csv import add_row, find_columns, unit_of

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
    for number, row in enumerate(zip(*texts, strict=True), 1):
        add_row(spans, Place(TABLE, number), list(row), places, units)
    return spans.finish(TABLE)


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
    rows = zip(
        table.column(named["host"]).to_pylist(), table.column(named["clock"]).to_pylist(), texts, strict=True
    )
    for number, (host, clock, text) in enumerate(rows, 1):
        place = Place(TABLE, number)
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
