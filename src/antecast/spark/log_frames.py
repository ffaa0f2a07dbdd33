"""Logs in files as DataFrames: tasks read them as `antecast.history.log_files` does, so the rows are the same.

Spark's own readers see other rows in some files: they take patterns for names, drop the columns that stand in
the names of folders, read padded numbers and mixed texts in ways of their own. A task reads a row group of
Parquet, or a file of text. The files must be where the tasks run, at the same paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from antecast.history.log_files import Log, LogFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def log_frame(spark: SparkSession, log: Log) -> DataFrame:
    """The rows of a log under the auditor's own names, the kinds in its own words."""
    log = replace(log, files=tuple(replace(file, path=file.path.resolve()) for file in log.files))
    parts = log.parts()
    columns = ", ".join(f"{name} {'long' if form == 'number' else 'string'}" for name, form in log.forms.items())
    places = spark.range(0, max(1, len(parts)), 1, max(1, len(parts)))
    return places.mapInArrow(_ReadParts(log, tuple(parts)), columns)


@dataclass(frozen=True)
class _ReadParts:
    """The numbers of parts into their rows."""

    log: Log
    parts: tuple[tuple[LogFile, int, int], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for rows in self.log.read(*self.parts[number]) if self.parts else ():
                    plain = [_plain(column) for column in rows.columns]
                    yield pa.RecordBatch.from_arrays(plain, names=rows.schema.names)


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
