"""`antecast.foreign`: logs of other systems as the importers read them, a task per file.

    spark.read.format("antecast.foreign").load("traces/")

Spans, events with vector clocks and operations of histories become the tables that `antecast audit --export`
writes, with file and line. The format is recognised by what the files hold, or named with `format`. Operations
have a column `pos` besides, which puts them into the order of the files. The files must be where the tasks run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from antecast.auditing.export import table_of
from antecast.auditing.foreign import MODELS, ForeignLog, Request, find_foreign, read_options
from antecast.core.errors import ConfigurationError
from antecast.history.log_formats import FORMATS
from antecast.importers.registry import importer
from antecast.importers.source import MAX_LINE, Source
from antecast.importers.tables import TableReader
from antecast.spark.sources.files import FileReader, FileSource, Part, file_paths
from antecast.spark.sources.options import PATHS, Parse, flag, in_options, one_of, pairs, positive
from antecast.spark.sources.options import read_options as parsed
from antecast.spark.sources.streams import struct

NAME = "antecast.foreign"
KNOWN: Mapping[str, Parse] = {
    **PATHS,
    "format": str,
    "model": one_of(*MODELS),
    "columns": pairs,
    "regex": str,
    "delimiter": str,
    "skipUnmatched": flag,
    "maxLineBytes": positive,
    "partitions": positive,
}
TOGETHER = ("elle", "dbcop")
"""Formats whose files are read by one task: the answer to an invocation may stand in the next file, and one file
may say what the initial value is in all. So are tables of operations whose files are not alike, or have positions:
these put the rows of all files into one order."""

FILE_ROWS = 1 << 40
"""Positions of one file in a history of several."""

_PLACE = {"file": StringType(), "line": LongType()}
_TEXT = StringType()
SCHEMAS = {
    "spans": struct(
        **dict.fromkeys(("trace_id", "span_id", "parent_id", "service", "name", "kind"), _TEXT),
        **dict.fromkeys(("start_time_ns", "end_time_ns"), LongType()),
        **_PLACE,
    ),
    "clocks": struct(**dict.fromkeys(("run", "host", "clock", "event"), _TEXT), **_PLACE),
    "kv": struct(
        **dict.fromkeys(("session", "txn", "status", "kind", "key", "value"), _TEXT),
        initial=BooleanType(),
        **_PLACE,
        pos=LongType(),
    ),
}


class ForeignSource(FileSource):
    """Logs of other systems."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def columns(self) -> StructType:
        return SCHEMAS[_open(parsed(NAME, self.options, KNOWN)).model]

    def file_reader(self, schema: StructType) -> FileReader:
        return _Reader(schema, parsed(NAME, self.options, KNOWN))


def _open(values: dict[str, Any]) -> ForeignLog:
    with in_options(NAME):
        request = Request(
            format=values.get("format"),
            model=values.get("model"),
            columns=values.get("columns") or {},
            regex=values.get("regex"),
            delimiter=values.get("delimiter"),
            skip_unmatched=values.get("skipUnmatched", False),
            max_line=values.get("maxLineBytes", MAX_LINE),
        )
        log = find_foreign(file_paths(NAME, values), request)
    if log is None:
        raise ConfigurationError("these are tables; antecast.log reads them", source=NAME, field="path")
    return log


class _Reader(FileReader):
    def __init__(self, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, tasks=values.get("partitions"))
        log = _open(values)
        self.format, self.model = log.importer.NAME, log.model
        self.files = tuple(file.resolve() for file in log.source.files)
        self.read_options = read_options(log.request)
        self.together = self.format in TOGETHER or (
            self.format in FORMATS
            and self.model == "kv"
            and not TableReader(self.format, self.model).alike(Source(self.files, self.read_options))
        )

    def parts(self) -> list[Part]:
        if self.together:
            return [Part(self.files[0], sum(file.stat().st_size for file in self.files), 0)]
        return [Part(file, file.stat().st_size, number) for number, file in enumerate(self.files)]

    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        with in_options(NAME):
            yield from self._batches(part)

    def _batches(self, part: Part) -> Iterator[pa.Table]:
        source = Source(self.files if self.together else (part.path,), self.read_options)
        if self.format in FORMATS and not self.together and len(self.files) > 1:
            reader = TableReader(self.format, self.model)
            rows = reader.table(source)
            if not len(rows):
                return  # others have some
            table = table_of(reader.of(rows, source))
        else:
            chosen = TableReader(self.format, self.model) if self.format in FORMATS else importer(self.format)
            table = table_of(chosen.read(source))
        if "session" in table.column_names:
            table = self._in_order(table, int(part.what))
        yield table

    def _in_order(self, table: pa.Table, number: int) -> pa.Table:
        """Operations with positions; names of sessions and transactions that mean the same in all files."""
        if len(self.files) > 1 and self.format not in ("plume", *TOGETHER, *FORMATS):
            names = [f"{number}/{txn}" for txn in table["txn"].to_pylist()]
            table = table.set_column(table.schema.get_field_index("txn"), "txn", [names])
        return table.append_column("pos", pa.array(number * FILE_ROWS + np.arange(len(table))))
