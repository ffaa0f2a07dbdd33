"""`antecast.log`: event logs and the tables that an audit takes, as the auditor sees them.

    spark.read.format("antecast.log").option("columns", "node=host,pos=time").load("logs/*.jsonl")

Logs that Antecast wrote have all columns of the event log; others have those that an audit needs, under its names.
Parquet is read by row groups. Lines of JSON, and of CSV without quotes, are read by ranges of bytes that begin
after a line break; CSV with quotes and compressed files by one task each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from antecast.core.errors import InputError
from antecast.core.log_files import compression_of
from antecast.history.log_columns import FILE_ORDER
from antecast.history.log_files import Log, LogFile, open_log
from antecast.history.log_formats import FORMATS, Csv, JsonLines, LogFormat
from antecast.history.schema import EVENTS
from antecast.spark.sources.files import FileReader, FileSource, Part, file_paths, with_file
from antecast.spark.sources.options import PATHS, Parse, in_options, one_of, pairs, positive, read_options

NAME = "antecast.log"
PART_BYTES = 32 << 20
KNOWN: Mapping[str, Parse] = {
    **PATHS,
    "format": one_of(*FORMATS),
    "columns": pairs,
    "kinds": pairs,
    "clock": one_of("local", "global"),
    "fileColumn": str,
    "partitions": positive,
    "partBytes": positive,
}


_TYPES = {pa.int32(): IntegerType(), pa.int64(): LongType()}
EVENT_COLUMNS = StructType([StructField(field.name, _TYPES.get(field.type, StringType())) for field in EVENTS])
"""The columns of the event log; names and kinds are texts."""


class LogSource(FileSource):
    """Event logs, ours and those of others."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _values(self) -> dict[str, Any]:
        return read_options(NAME, self.options, KNOWN)

    def columns(self) -> StructType:
        values = self._values()
        return with_file(NAME, _columns(_open(values)), values.get("fileColumn"))

    def file_reader(self, schema: StructType) -> FileReader:
        return _Reader(schema, self._values())


def _open(values: dict[str, Any]) -> Log:
    with in_options(NAME):
        log = open_log(
            file_paths(NAME, values),
            file_format=values.get("format"),
            columns=values.get("columns"),
            kinds=values.get("kinds"),
            clock=values.get("clock"),
        )
    return replace(log, files=tuple(replace(file, path=file.path.resolve()) for file in log.files))


def _whole(log: Log) -> bool:
    """Whether a log has all columns of ours as they are."""
    return log.ours and not log.kinds


def _columns(log: Log) -> StructType:
    if _whole(log):
        return EVENT_COLUMNS
    forms = log.forms.items()
    return StructType(
        [StructField(name, LongType() if form == "number" else StringType()) for name, form in forms]
    )


@dataclass(frozen=True)
class _Range:
    """Bytes of a file, from after a line break to the end of a line."""

    start: int
    end: int

    def cut(self, file: Path) -> pa.Buffer:
        with pa.OSFile(str(file)) as source:
            source.seek(self.start)
            return source.read_buffer(self.end - self.start)

    def blank(self, file: Path) -> bool:
        """Whether there are only empty lines in it, which Arrow takes for a mistake."""
        data = self.cut(file)
        return not data.slice(0, min(4096, data.size)).to_pybytes().strip() and not data.to_pybytes().strip()

    def rows_before(self, file: Path) -> int:
        """Lines before the range that are not empty: what an error needs to name its line."""
        with file.open("rb") as source:
            count = place = 0
            for line in source:
                if place >= self.start:
                    break
                place += len(line)
                count += bool(line.strip())
        return count


@dataclass(frozen=True)
class _JsonRange(JsonLines):
    range: _Range

    def _stream(self, file: Path) -> pa.NativeFile:
        return pa.BufferReader(self.range.cut(file))

    def place(self, file: Path, row: int) -> int:
        return super().place(file, self.range.rows_before(file) + row)


@dataclass(frozen=True)
class _CsvRange(Csv):
    range: _Range

    def _stream(self, file: Path) -> pa.NativeFile:
        rows = self.range.cut(file)
        if self.range.start == 0:
            return pa.BufferReader(rows)
        with file.open("rb") as source:
            return pa.BufferReader(source.readline() + rows.to_pybytes())

    def place(self, file: Path, row: int) -> int:
        before = self.range.rows_before(file)
        return super().place(file, max(0, before - 1) + row)  # the header is a line, too


def _ranges(file: Path, size: int, *, quotes: bool) -> list[_Range]:
    """A file cut at line breaks; not cut if a line break may be part of a value."""
    total = file.stat().st_size
    if total <= size or compression_of(file) is not None or (quotes and _has_quotes(file)):
        return []
    cuts = [0]
    with file.open("rb") as source:
        for place in range(size, total, size):
            if place <= cuts[-1]:
                continue
            source.seek(place - 1)
            source.readline()
            cuts.append(source.tell())
    cuts = list(dict.fromkeys([*cuts, total]))
    return [_Range(start, end) for start, end in pairwise(cuts)]


def _has_quotes(file: Path) -> bool:
    with file.open("rb") as source:
        while block := source.read(8 << 20):
            if b'"' in block:
                return True
    return False


class _Reader(FileReader):
    def __init__(self, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, tasks=values.get("partitions"))
        self.values = values
        log = _open(values)
        used = {*self.target.names, *(["kind"] if log.kinds else [])}
        columns = {name: path for name, path in log.columns.items() if name in used} or dict(log.columns)
        self.log = replace(log, columns=columns)

    def parts(self) -> list[Part]:
        found: list[Part] = []
        for file in self.log.files:
            found += self._parts_of(file)
        return found

    def _parts_of(self, file: LogFile) -> list[Part]:
        chosen, size = self.log.format, file.path.stat().st_size
        if isinstance(chosen, Csv | JsonLines):
            # Where the order of rows counts, a part would have to know how many rows are before it.
            whole = FILE_ORDER in self.log.columns.values()
            limit = self.values.get("partBytes", PART_BYTES)
            ranges = [] if whole else _ranges(file.path, limit, quotes=isinstance(chosen, Csv))
            return [Part(file.path, each.end - each.start, (file, each)) for each in ranges] or [
                Part(file.path, size, (file, None))
            ]
        footer = pq.read_metadata(file.path)
        parts, row = [], 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            parts.append(Part(file.path, group.total_byte_size, (file, (number, row))))
            row += group.num_rows
        return parts

    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        column = self.values.get("fileColumn")
        for rows in self._rows(part, column):
            if column is None:
                yield rows
            else:
                paths = pa.array([str(part.path)] * len(rows), pa.string())
                yield pa.Table.from_batches([rows]).append_column(column, paths)

    def _rows(self, part: Part, column: str | None) -> Iterator[pa.RecordBatch]:
        file, what = part.what
        if isinstance(what, _Range) and what.blank(part.path):
            return
        if what is None or isinstance(what, _Range):
            log = self.log if what is None else replace(self.log, format=self._of_range(what))
            yield from log.read(file)
        elif _whole(self.log):
            names = [name for name in self.target.names if name != column] or ["node"]
            try:
                with pq.ParquetFile(part.path) as parquet:
                    yield from parquet.iter_batches(1 << 16, row_groups=[what[0]], columns=names)
            except (OSError, pa.ArrowException) as error:
                problem = f"row group {what[0]}: cannot be read as Parquet: {str(error).splitlines()[0]}"
                raise InputError(problem, path=part.path) from None
        else:
            yield from self.log.read(file, *what)

    def _of_range(self, what: _Range) -> LogFormat:
        return _JsonRange(what) if isinstance(self.log.format, JsonLines) else _CsvRange(what)
