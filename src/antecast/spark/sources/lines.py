"""`antecast.lines`: the lines that are added to files, as a stream.

    spark.readStream.format("antecast.lines").load("logs/")

The rules for files that grow are those of `antecast.auditing.tails`: rotated files are read to their end,
truncated ones begin anew, compressed ones are passed over, a line counts once its end is there. Offsets hold the
place in every file. The files must be where the driver and the tasks run, at the same paths.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from antecast.auditing.copies import Size
from antecast.auditing.tails import MARK, Tail, Tails, place_of
from antecast.core.errors import InputError
from antecast.importers.source import MAX_LINE
from antecast.spark.sources.files import file_paths
from antecast.spark.sources.options import PATHS, Parse, positive, read_options
from antecast.spark.sources.streams import StreamReader, struct
from antecast.text.sizes import format_size

NAME = "antecast.lines"
MAX_BYTES = 64 << 20
"""Bytes of a batch: those of all files together, and at least the rest of a line of each."""
KNOWN: Mapping[str, Parse] = {
    **PATHS,
    "startingOffsets": json.loads,
    "maxBytesPerTrigger": positive,
    "maxLineBytes": positive,
}

_BATCH_ROWS = 1 << 14


class LinesSource(DataSource):
    """Lines of files that grow: the file, a number that tells files of one name apart, the place, the text."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return struct(file=StringType(), tail=LongType(), place=LongType(), text=BinaryType())

    def streamReader(self, schema: StructType) -> LinesReader:  # noqa: N802
        return LinesReader(schema, read_options(NAME, self.options, KNOWN))


class Added(InputPartition):
    """Bytes that were added to a file, whole lines of it."""

    def __init__(self, tail: dict[str, Any], end: int) -> None:
        self.tail, self.end = tail, end


def offset_of(tails: Sequence[Tail], count: int) -> dict[str, Any]:
    """The place in every file as an offset of the stream."""
    return {"count": count, "files": {str(tail.number): _kept(tail) for tail in tails}}


def _kept(tail: Tail) -> dict[str, Any]:
    return {"path": str(tail.path), "identity": [*tail.identity], "offset": tail.offset, "mark": tail.mark.hex()}


def _tail(number: int, kept: Mapping[str, Any]) -> Tail:
    device, inode = kept["identity"]
    mark = bytes.fromhex(kept["mark"])
    return Tail(number, Path(kept["path"]), (device, inode), offset=kept["offset"], mark=mark)


class LinesReader(StreamReader):
    def __init__(self, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, None)
        self.paths = file_paths(NAME, values)
        self.start: dict[str, Any] = values.get("startingOffsets") or {"count": 0, "files": {}}
        self.bytes: int = values.get("maxBytesPerTrigger", MAX_BYTES)
        self.longest: int = values.get("maxLineBytes", MAX_LINE)
        self.copies: set[Size] = set()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        tails = Tails(self.paths, window=0, max_line=self.longest)
        tails.all = [_tail(int(number), kept) for number, kept in start["files"].items()]
        tails.count = start["count"]
        tails.copies = self.copies
        found = tails.found()
        share = max(1, self.bytes // max(1, len(found)))
        for file, tail in found.items():
            _advance(tail, file, share, self.longest)
        return offset_of([*found.values()], tails.count)

    def newest(self) -> dict[str, Any]:
        return self.latestOffset(self.start, ReadLimit())

    def limited(self, start: dict[str, Any], end: dict[str, Any], rows: int) -> dict[str, Any]:
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        added = []
        for number, kept in end["files"].items():
            before = start["files"].get(number, kept | {"offset": 0, "mark": ""})
            if kept["offset"] > before["offset"]:
                added.append(Added({"number": int(number), **before, "path": kept["path"]}, kept["offset"]))
        return added

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Added)
        tail = _tail(partition.tail["number"], partition.tail)
        file = place_of(tail)
        if file is None:  # gone between two looks: what it held is not known, and the place says so
            yield self.batch([{"file": str(tail.path), "tail": tail.number, "place": -1, "text": b""}])
            return
        rows, at = [], tail.offset
        with file.open("rb") as stream:
            stream.seek(at)
            while at < partition.end and (raw := stream.readline()):
                rows.append({"file": str(file), "tail": tail.number, "place": at, "text": raw})
                at += len(raw)
                if len(rows) == _BATCH_ROWS:
                    yield self.batch(rows)
                    rows = []
        if rows:
            yield self.batch(rows)


def _advance(tail: Tail, file: Path, most: int, longest: int) -> None:
    """Move a tail on behind the last whole line of what was added, of so many bytes at most."""
    with file.open("rb") as stream:
        stream.seek(tail.offset)
        data = stream.read(most)
        while b"\n" not in data:
            if len(data) > longest:
                raise InputError(f"a line is longer than {format_size(longest)}", path=file)
            more = stream.read(most)
            if not more:
                return
            data += more
        whole = data[: data.rindex(b"\n") + 1]
    tail.offset += len(whole)
    tail.mark = (tail.mark + whole)[-MARK:]
