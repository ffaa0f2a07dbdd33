"""How logs lie in files: Parquet, CSV, JSON lines. Each is read by Arrow in batches.

`antecast.spark.log_frames` reads the same files on Spark, and sees the same rows. What a text says is taken as it
stands: names in a CSV are texts, `1` and `01` are two nodes; in JSON lines they are what the first lines have,
numbers or texts. Positions and numbers of messages must be whole. Arrow says that a text is malformed but seldom
where, so the line is looked for again, slowly, by Python: once in the life of a broken file.
"""

from __future__ import annotations

import csv
import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from antecast.core.errors import InputError

_BATCH_ROWS = 1 << 17
_BLOCK_BYTES = 8 << 20
_PEEKED_LINES = 10_000
"""Lines of JSON that are looked at for the columns and their types."""

Columns = Mapping[str, str]
"""What the file calls the columns of a log."""

_WHOLE = ("pos", "seq", "t")


class LogFormat(Protocol):
    """A kind of file."""

    suffixes: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    """What is counted from 1 to say where something stands."""

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        """All columns of a file, by its own names."""

    def rows(self, file: Path) -> int:
        """How many rows it has, more or less."""

    def batches(self, file: Path, schema: pa.Schema, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The columns that are asked for, by the log's names."""

    def place(self, file: Path, row: int) -> int:
        """Where a row stands that is the `row`-th of its file, from 0."""


@dataclass(frozen=True)
class Parquet:
    """Typed and compressed: what a large log should be."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    unit: ClassVar[str] = "row"

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        with _told(file):
            schema: pa.Schema = pq.read_schema(file)
        return schema

    def rows(self, file: Path) -> int:
        with _told(file):
            return int(pq.read_metadata(file).num_rows)

    def batches(self, file: Path, schema: pa.Schema, columns: Columns) -> Iterator[pa.RecordBatch]:
        texts = [name for name in columns.values() if pa.types.is_string(schema.field(name).type)]
        with _told(file), pq.ParquetFile(file, read_dictionary=texts) as parquet:
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(columns.values())):
                yield _renamed(batch, columns)

    def place(self, file: Path, row: int) -> int:
        return row + 1


class _Text(ABC):
    """Lines, which may be compressed with gzip."""

    unit: ClassVar[str] = "line"
    bytes_a_row: ClassVar[int]

    def rows(self, file: Path) -> int:
        with _told(file):
            return file.stat().st_size * (4 if file.suffix == ".gz" else 1) // self.bytes_a_row

    @abstractmethod
    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        """The first line that is not as it should be."""

    def _guarded(
        self, file: Path, schema: pa.Schema, columns: Columns, reader: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                yield _renamed(batch, columns)
        except (OSError, pa.ArrowInvalid) as error:
            found = self._explain(file, schema, columns)
            raise found or InputError(f"cannot be read: {error}", path=file) from None


@dataclass(frozen=True)
class Csv(_Text):
    """A header, then a line a row. Names are texts."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    bytes_a_row = 28

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        with _told(file), _open(file) as lines:
            header = next(csv.reader(lines), [])
        whole = {columns[name] for name in _WHOLE if name in columns}
        return pa.schema([(name, pa.int64() if name in whole else pa.string()) for name in header])

    def batches(self, file: Path, schema: pa.Schema, columns: Columns) -> Iterator[pa.RecordBatch]:
        wanted = list(columns.values())
        convert = pa_csv.ConvertOptions(
            include_columns=wanted,
            column_types={name: schema.field(name).type for name in wanted},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        read = pa_csv.ReadOptions(block_size=_BLOCK_BYTES)

        def reader() -> Iterator[pa.RecordBatch]:
            with pa.input_stream(str(file)) as stream:
                yield from pa_csv.open_csv(stream, read_options=read, convert_options=convert)

        return self._guarded(file, schema, columns, reader())

    def place(self, file: Path, row: int) -> int:
        return _nth_line(file, row + 1)

    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        whole = {schema.get_field_index(columns[name]): name for name in _WHOLE if name in columns}
        with _told(file), _open(file) as lines:
            rows = csv.reader(lines)
            next(rows)
            for row in rows:
                if row and len(row) != len(schema):
                    return _line(file, rows.line_num, f"{len(row)} fields, where the header has {len(schema)}")
                for place, name in whole.items() if row else ():
                    if row[place] and not _is_whole(row[place]):
                        return _line(file, rows.line_num, f"{name} is {row[place]!r}, which is no whole number")
        return None


@dataclass(frozen=True)
class JsonLines(_Text):
    """An object a line. Names are numbers or texts, as the first lines have them."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    bytes_a_row = 64

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        types: dict[str, pa.DataType] = {}
        with _told(file), _open(file) as lines:
            for number, line in islice(enumerate(lines, 1), _PEEKED_LINES):
                if line.strip():
                    for name, value in _object(file, number, line).items():
                        if types.get(name) in (None, pa.null()):
                            types[name] = _json_type(value)
        whole = {columns[name] for name in _WHOLE if name in columns}
        types = {name: pa.string() if kind == pa.null() else kind for name, kind in types.items()}
        return pa.schema([(name, pa.int64() if name in whole else kind) for name, kind in types.items()])

    def batches(self, file: Path, schema: pa.Schema, columns: Columns) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns.values()])
        parse = pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
        read = pa_json.ReadOptions(block_size=_BLOCK_BYTES)

        def reader() -> Iterator[pa.RecordBatch]:
            with pa.input_stream(str(file)) as stream:
                yield from pa_json.open_json(stream, read_options=read, parse_options=parse)

        return self._guarded(file, schema, columns, reader())

    def place(self, file: Path, row: int) -> int:
        return _nth_line(file, row)

    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        with _told(file), _open(file) as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                record = _object(file, number, line)
                for name, actual in columns.items():
                    value, kind = record.get(actual), schema.field(actual).type
                    if value is not None and _json_type(value) != kind:
                        wanted = "a whole number" if pa.types.is_integer(kind) else "a text"
                        return _line(file, number, f"{name} is {json.dumps(value)}, where {wanted} is expected")
        return None


FORMATS: Mapping[str, LogFormat] = {"parquet": Parquet(), "csv": Csv(), "jsonl": JsonLines()}


def format_of(file: Path) -> str | None:
    """The name of a file's format, by its suffix."""
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    return next((name for name, each in FORMATS.items() if suffix.lower() in each.suffixes), None)


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Say of a file what is wrong with it, in place of what the system or Arrow says."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", path=file) from None


def _renamed(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(name) for name in columns.values()], names=list(columns))


def _open(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _nth_line(file: Path, row: int) -> int:
    """The number, from 1, of the line that is the `row`-th, from 0, of those that are not empty."""
    with _open(file) as lines:
        full = (number for number, line in enumerate(lines, 1) if line.strip())
        return next(islice(full, row, None))


def _line(file: Path, number: int, problem: str) -> InputError:
    return InputError(problem, path=file, line=number)


def _is_whole(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


def _object(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise _line(file, number, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _line(file, number, "not a JSON object")
    return value


def _json_type(value: object) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return pa.int64()
    return pa.string() if isinstance(value, str) else pa.float64()
