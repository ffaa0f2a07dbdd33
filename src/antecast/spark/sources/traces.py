"""`antecast.trace` and `antecast.contacts`: movement and contacts in every format that `antecast.traces` reads.

    spark.read.format("antecast.trace").load("walks/*.tcl")

A text format is read as a whole by one task: what its rows mean depends on the others (ups and downs nest, pieces
end where the next begins). Parquet that Antecast wrote is read by row groups. Several files are several traces:
rows of different files are not joined, `fileColumn` tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from antecast.core.errors import InputError
from antecast.spark.sources.files import FileReader, FileSource, Part, find_files, with_file
from antecast.spark.sources.options import PATHS, Parse, in_options, positive, read_options
from antecast.traces import FORMATS, read
from antecast.traces.formats import find_format
from antecast.traces.schema import CONTACTS, TRAJECTORIES
from antecast.traces.trace import Kind

SOURCES: Mapping[Kind, str] = {"movement": "antecast.trace", "contacts": "antecast.contacts"}
_OF_FORMATS = sorted({option for each in FORMATS.values() for option in each.reading})
KNOWN: Mapping[str, Parse] = {
    **PATHS,
    "format": lambda text: find_format(text).name,
    "fileColumn": str,
    "partitions": positive,
    **dict.fromkeys(_OF_FORMATS, str),
}


def columns_of(schema: pa.Schema) -> StructType:
    """A schema of traces as Spark has it: names as texts."""
    kinds = {pa.int64(): LongType(), pa.float64(): DoubleType()}
    return StructType([StructField(field.name, kinds.get(field.type, StringType())) for field in schema])


class _Source(FileSource):
    kind: ClassVar[Kind]
    table: ClassVar[pa.Schema]

    @classmethod
    def name(cls) -> str:
        return SOURCES[cls.kind]

    def _values(self) -> dict[str, Any]:
        return read_options(self.name(), self.options, KNOWN)

    def columns(self) -> StructType:
        return with_file(self.name(), columns_of(self.table), self._values().get("fileColumn"))

    def file_reader(self, schema: StructType) -> FileReader:
        return _Reader(self.kind, self.table, schema, self._values())


class TraceSource(_Source):
    """Movement: straight pieces of it."""

    kind, table = "movement", TRAJECTORIES


class ContactsSource(_Source):
    """Contacts: intervals in which two nodes are in reach of each other."""

    kind, table = "contacts", CONTACTS


class _Reader(FileReader):
    def __init__(self, kind: Kind, table: pa.Schema, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, tasks=values.get("partitions"))
        self.kind, self.table, self.values = kind, table, values

    def parts(self) -> list[Part]:
        found = []
        for path in find_files(SOURCES[self.kind], self.values):
            whole = path.stat().st_size
            groups = self._row_groups(path)
            found += [Part(path, whole)] if groups is None else [Part(path, size, group) for group, size in groups]
        return found

    def _row_groups(self, path: Path) -> list[tuple[int, int]] | None:
        """The row groups of Parquet that Antecast wrote, which has been checked and joined already."""
        if self.values.get("format", "parquet") != "parquet":
            return None
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return None
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return None  # the reader of the whole says what is wrong
        ours = self.table.metadata[b"antecast.schema"]
        if (footer.metadata or {}).get(b"antecast.schema") != ours:
            return None
        groups = [footer.row_group(each) for each in range(footer.num_row_groups)]
        return [(number, group.total_byte_size) for number, group in enumerate(groups)]

    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        column = self.values.get("fileColumn")
        if part.what is not None:
            names = [name for name in self.target.names if name != column] or [self.table.names[0]]
            try:
                with pq.ParquetFile(part.path) as file:
                    table = file.read_row_group(part.what, columns=names)
            except (OSError, pa.ArrowException) as error:
                problem = f"row group {part.what}: cannot be read as Parquet: {str(error).splitlines()[0]}"
                raise InputError(problem, path=part.path) from None
        else:
            options = {name: self.values[name] for name in _OF_FORMATS if name in self.values}
            with in_options(SOURCES[self.kind]):
                trace = read(part.path, self.values.get("format"), **options)
            if trace.kind != self.kind:
                problem = f"holds {trace.kind}; read it with the format {SOURCES[trace.kind]}"
                raise InputError(problem, path=part.path)
            table = trace.table
        if column is not None:
            table = table.append_column(column, pa.array([str(part.path)] * len(table), pa.string()))
        yield table
