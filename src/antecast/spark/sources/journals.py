"""`antecast.journal`: what live nodes did, from their journals, as an event log.

    spark.read.format("antecast.journal").load("nodes/*.journal")

A journal holds the calls that a protocol was given. A task runs those of one journal through the protocol again,
which gives the events as the node would have logged them, from the oldest snapshot that the journal holds. The
workers need the code that wrote it. In a folder, files that are no databases are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from antecast.core.errors import InputError
from antecast.live.replay import is_journal, write_event_log
from antecast.spark.sources.files import FileReader, FileSource, Part, find_files, with_file
from antecast.spark.sources.logs import EVENT_COLUMNS
from antecast.spark.sources.options import PATHS, Parse, positive, read_options

NAME = "antecast.journal"
KNOWN: Mapping[str, Parse] = {**PATHS, "fileColumn": str, "partitions": positive}


class JournalSource(FileSource):
    """Journals of live nodes."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _values(self) -> dict[str, Any]:
        return read_options(NAME, self.options, KNOWN)

    def columns(self) -> StructType:
        return with_file(NAME, EVENT_COLUMNS, self._values().get("fileColumn"))

    def file_reader(self, schema: StructType) -> FileReader:
        return _Reader(schema, self._values())


class _Reader(FileReader):
    def __init__(self, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, tasks=values.get("partitions"))
        self.values = values

    def parts(self) -> list[Part]:
        found = find_files(NAME, self.values)
        journals = [Part(path, path.stat().st_size) for path in found if is_journal(path)]
        if not journals:
            raise InputError("not a journal of a live node", path=found[0])
        return journals

    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        column = self.values.get("fileColumn")
        names = [name for name in self.target.names if name != column] or ["node"]
        with tempfile.TemporaryDirectory(prefix="antecast-") as folder:
            log = Path(folder) / "events.parquet"
            write_event_log(part.path, log)
            with pq.ParquetFile(log) as events:
                for rows in events.iter_batches(1 << 16, columns=names):
                    table = pa.Table.from_batches([rows])
                    if column is not None:
                        table = table.append_column(column, pa.array([str(part.path)] * len(rows), pa.string()))
                    yield table
