"""How logs lie in files: Parquet, CSV, JSON lines. Each is read by Arrow in batches.

Spark's tasks read files through these same classes (`antecast.spark.log_frames`), so both engines see the same
rows. What a text says is taken as it stands: names in a CSV are texts, `1` and `01` are two nodes; in JSON lines
they are what the first lines have, numbers or texts. What columns may hold is the business of `log_columns`.
Arrow says that a text is malformed but seldom where, so the line is looked for again, slowly, by Python: once in
the life of a broken file.
"""

from __future__ import annotations

import csv
import json
import lzma
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.core.log_files import compression_of, encoding_of, open_file
from antecast.history.log_columns import TIMES, WHOLE, find, is_text, looks_like_time, pick, type_at
from antecast.text.sizes import format_size

_BATCH_ROWS = 1 << 17
_BLOCK_BYTES = 8 << 20
_PEEKED_LINES = 10_000
"""Lines that are looked at for the columns of JSON, and for the first time or number of a column in CSV."""

_LONGEST_PROBLEM = 1000
"""Letters of a message: what a file holds may be longer than anybody wants to read."""

_LONGEST_LINE = 64 << 20
"""Bytes of a line beyond which it is no row."""

csv.field_size_limit(_LONGEST_LINE)

_RUN = "run"
"""The column that a log may lack."""
_LATE_RUN = "the row has a run, and none of the first rows has one; give all of them a run, or none"

PACKED = (".gz", ".bz2", ".xz", ".zst")
"""Ends of the names of compressed texts."""

Columns = Mapping[str, str]
"""What the file calls the columns of a log: names, or paths into structures."""


class LogFormat(Protocol):
    """A kind of file."""

    suffixes: ClassVar[tuple[str, ...]]
    unit: ClassVar[str]
    """What is counted from 1 to say where something stands."""

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        """All columns of a file, by its own names."""

    def rows(self, file: Path) -> int:
        """How many rows it has, more or less."""

    def parts(self, file: Path) -> list[int]:
        """The number of rows of each part that can be read alone: at least one part, which may be all."""

    def batches(
        self, file: Path, schema: pa.Schema, columns: Columns, part: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The columns that are asked for, by the log's names, of the whole file or of one of its parts."""

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

    def parts(self, file: Path) -> list[int]:
        with _told(file):
            metadata = pq.read_metadata(file)
            return [metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)]

    def batches(
        self, file: Path, schema: pa.Schema, columns: Columns, part: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = list(dict.fromkeys(columns.values()))
        texts = [name for name in wanted if pa.types.is_string(cast("pa.DataType", type_at(schema, name)))]
        nested = any(len(find(schema, path) or ()) > 1 for path in wanted)
        with _told(file), pq.ParquetFile(file, read_dictionary=texts) as parquet:
            groups: list[list[int] | None] = [None if part is None else [part]]
            if nested and part is None:  # Arrow reads dictionaries inside of structures one row group at a time
                groups = [[each] for each in range(parquet.num_row_groups)]
            for some in groups:
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=wanted, row_groups=some):
                    yield _renamed(batch, schema, columns)

    def place(self, file: Path, row: int) -> int:
        return row + 1


class _Text(ABC):
    """Lines, which may be compressed."""

    unit: ClassVar[str] = "line"
    bytes_a_row: ClassVar[int]

    def rows(self, file: Path) -> int:
        with _told(file):
            return file.stat().st_size * (4 if compression_of(file) else 1) // self.bytes_a_row

    def parts(self, file: Path) -> list[int]:
        """One part: where a line of text begins is known only after those before it. Rows are at most lines."""
        count, block = 1, b""
        with _told(file), open_file(file) as stream:
            while block := stream.read(_BLOCK_BYTES):
                count += block.count(b"\n")
        return [count]

    def _stream(self, file: Path) -> pa.NativeFile:
        """What is read: the whole file, unless a subclass reads a part of it."""
        kind = compression_of(file)
        if kind == "xz":  # which Arrow cannot read
            return pa.PythonFile(open_file(file), mode="r")
        return pa.input_stream(str(file), compression={"bzip2": "bz2"}.get(kind or "", kind))

    @abstractmethod
    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        """The first line that is not as it should be."""

    def _guarded(
        self, file: Path, schema: pa.Schema, columns: Columns, reader: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                yield _renamed(batch, schema, columns)
        except (OSError, pa.ArrowException, UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
            found = self._explain(file, schema, columns)
            raise found or InputError(f"cannot be read: {' '.join(str(error).split())}", path=file) from None


@dataclass(frozen=True)
class Csv(_Text):
    """A header, then a line a row. Names are texts."""

    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    bytes_a_row = 28

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        with _told(file), open_file(file) as stream:
            rows = csv.reader(_decoded(file, stream))
            header = next(rows, [])
            if any("\0" in name for name in header):
                raise _line(file, 1, "a NUL byte in the header; UTF-8 is expected")
            used = set(columns.values())
            if twice := sorted({name for name in header if header.count(name) > 1} & used):
                raise _line(file, 1, f"two columns are called {twice[0]!r}")
            times = {columns[name] for name in TIMES if columns.get(name) in header}
            first: dict[str, str] = {}
            if times:
                for row in islice(rows, _PEEKED_LINES):
                    first = {name: cell for name, cell in zip(header, row, strict=False) if cell} | first
                    if times <= first.keys():
                        break
        whole = {columns[name] for name in WHOLE if name in columns}
        whole -= {name for name in times if looks_like_time(first.get(name, ""))}
        return pa.schema([(name, pa.int64() if name in whole else pa.string()) for name in header])

    def batches(
        self, file: Path, schema: pa.Schema, columns: Columns, part: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted = list(dict.fromkeys(columns.values()))
        convert = pa_csv.ConvertOptions(
            include_columns=wanted,
            column_types={name: type_at(schema, name) for name in wanted},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        read = pa_csv.ReadOptions(block_size=_BLOCK_BYTES)
        parse = pa_csv.ParseOptions(newlines_in_values=True)

        def reader() -> Iterator[pa.RecordBatch]:
            with self._stream(file) as stream:
                yield from pa_csv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert)

        return self._guarded(file, schema, columns, reader())

    def place(self, file: Path, row: int) -> int:
        """The line on which a row begins; a text in quotes may go on over lines."""
        with open_file(file) as stream:
            rows = csv.reader(line.decode(errors="replace") for line in stream)
            last, filled = 0, -1
            for cells in rows:
                filled += bool(cells)
                if filled > row:
                    break
                last = rows.line_num
            return last + 1 if filled > row else last

    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        whole = {
            schema.get_field_index(columns[name]): name
            for name in WHOLE
            if name in columns and not is_text(cast("pa.DataType", type_at(schema, columns[name])))
        }
        with _told(file), open_file(file) as stream:
            rows = csv.reader(_decoded(file, stream))
            next(rows)
            for row in rows:
                if row and len(row) != len(schema):
                    return _line(file, rows.line_num, f"{len(row)} fields, where the header has {len(schema)}")
                for place, name in whole.items() if row else ():
                    if row[place] and not _is_whole(row[place]):
                        problem = f"{name} is {row[place]!r}, which is not a whole number"
                        problem += ", nor a time such as 2024-05-01T12:00:00.1Z" if name in TIMES else ""
                        return _line(file, rows.line_num, problem)
        return None


@dataclass(frozen=True)
class JsonLines(_Text):
    """An object a line. Names are numbers or texts, as the first lines have them."""

    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    bytes_a_row = 64

    def schema(self, file: Path, columns: Columns) -> pa.Schema:
        types: _Types = {}
        with _told(file), open_file(file) as stream:
            for number, line in islice(enumerate(_decoded(file, stream), 1), _PEEKED_LINES):
                if line.strip():
                    _note_types(types, _object(file, number, line))
        schema = pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])
        for name in WHOLE:  # what is no number is found when it is read, with its line
            steps = find(schema, columns[name]) if name in columns else None
            if steps is not None and not (name in TIMES and is_text(_at(types, steps))):
                _set(types, steps, pa.int64())
        return pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])

    def batches(
        self, file: Path, schema: pa.Schema, columns: Columns, part: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        wanted, late = _only(schema, columns), _may_be_late(schema, columns)
        if late:  # it may begin behind the lines that were looked at, and would be passed over
            wanted = wanted.append(pa.field(_RUN, pa.string()))
        parse = pa_json.ParseOptions(
            explicit_schema=wanted, unexpected_field_behavior="ignore", newlines_in_values=False
        )
        read = pa_json.ReadOptions(block_size=_BLOCK_BYTES)

        def reader() -> Iterator[pa.RecordBatch]:
            with self._stream(file) as stream:
                for batch in pa_json.open_json(stream, read_options=read, parse_options=parse):
                    if late and batch.column(_RUN).null_count < len(batch):
                        raise pa.ArrowInvalid(_LATE_RUN)
                    yield batch

        return self._guarded(file, schema, columns, reader())

    def place(self, file: Path, row: int) -> int:
        """The number, from 1, of the line that is the `row`-th, from 0, of those that are not empty."""
        with open_file(file) as stream:
            full = (number for number, line in enumerate(stream, 1) if line.strip())
            return next(islice(full, row, None), 1)

    def _explain(self, file: Path, schema: pa.Schema, columns: Columns) -> InputError | None:
        paths = {name: find(schema, path) or () for name, path in columns.items()}
        with _told(file), open_file(file) as stream:
            for number, line in enumerate(_decoded(file, stream), 1):
                if not line.strip():
                    continue
                record = _object(file, number, line)
                if _may_be_late(schema, columns) and record.get(_RUN) is not None:
                    return _line(file, number, _LATE_RUN)
                for name, steps in paths.items():
                    (value, depth), kind = _value(record, steps), type_at(schema, columns[name])
                    if value is not None and (depth < len(steps) or _json_type(value) != kind):
                        wanted = "a whole number" if pa.types.is_integer(kind) else "a text"
                        wanted = wanted if depth == len(steps) else f"an object with {steps[depth]!r} in it"
                        return _line(file, number, f"{name} is {_short(value)}, where {wanted} is expected")
        return None


def _may_be_late(schema: pa.Schema, columns: Columns) -> bool:
    """Whether a run that is met in a later row would be passed over."""
    return _RUN not in columns and _RUN not in schema.names


_Types = dict[str, Any]
"""Types by name; of an object, those of what is in it."""


def _note_types(types: _Types, record: Mapping[str, Any]) -> None:
    """Note the types of what is in a record; the first one that is not null counts."""
    for name, value in record.items():
        known = types.get(name)
        if isinstance(value, dict) and (isinstance(known, dict) or known in (None, pa.null())):
            if not isinstance(known, dict):
                types[name] = {}
            _note_types(types[name], value)
        elif not isinstance(known, dict) and known in (None, pa.null()):
            types[name] = _json_type(value)


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        return pa.struct([(name, _arrow_type(each)) for name, each in kind.items()])
    return pa.string() if kind == pa.null() else kind


def _at(types: _Types, steps: tuple[str, ...]) -> pa.DataType:
    found: Any = types
    for step in steps:
        found = found[step]
    return _arrow_type(found)


def _set(types: _Types, steps: tuple[str, ...], kind: pa.DataType) -> None:
    for step in steps[:-1]:
        types = types[step]
    types[steps[-1]] = kind


def _only(schema: pa.Schema, columns: Columns) -> pa.Schema:
    """The part of a schema that leads to the columns."""
    types: _Types = {}
    for path in columns.values():
        steps = find(schema, path) or ()
        inside = types
        for step in steps[:-1]:
            inside = inside.setdefault(step, {})
        inside[steps[-1]] = type_at(schema, path)
    return pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])


def _value(record: Any, steps: tuple[str, ...]) -> tuple[Any, int]:
    """What steps lead to, and how far they lead: not all the way if there is something else than an object."""
    for depth, step in enumerate(steps):
        if not isinstance(record, dict):
            return record, depth
        record = record.get(step)
    return record, len(steps)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


FORMATS: Mapping[str, LogFormat] = {"parquet": Parquet(), "csv": Csv(), "jsonl": JsonLines()}


def format_of(file: Path) -> str | None:
    """The name of a file's format, by its suffix."""
    suffix = Path(file.stem).suffix if file.suffix.lower() in PACKED else file.suffix
    return next((name for name, each in FORMATS.items() if suffix.lower() in each.suffixes), None)


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Say of a file what is wrong with it, in place of what the system or Arrow says."""
    try:
        yield
    except (
        OSError,
        pa.ArrowException,
        UnicodeDecodeError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        csv.Error,
    ) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(said.split())  # in one line
        raise InputError(f"cannot be read: {reason}", path=file) from None


def _renamed(batch: pa.RecordBatch, schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    found = [pick(batch, find(schema, path) or (path,)) for path in columns.values()]
    return pa.RecordBatch.from_arrays(found, names=list(columns))


def _decoded(file: Path, stream: IO[bytes]) -> Iterator[str]:
    """Lines as texts; one that is no UTF-8, or too long to be a row, is named."""
    for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE + 1), b""), 1):
        if len(line) > _LONGEST_LINE:
            raise _line(file, number, f"the line is longer than {format_size(_LONGEST_LINE)}")
        if number == 1 and (encoding := encoding_of(line)):
            raise _line(file, 1, f"the file is {encoding}; UTF-8 is expected")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _line(file, number, f"not UTF-8: byte 0x{line[error.start]:02x}") from None


def _line(file: Path, number: int, problem: str) -> InputError:
    if len(problem) > _LONGEST_PROBLEM:
        problem = f"{problem[:_LONGEST_PROBLEM]}..."
    return InputError(problem, path=file, line=number)


def _is_whole(text: str) -> bool:
    """Whether Arrow takes a text for a number: Python takes `+1` and `1_000` as well."""
    return re.fullmatch(r"\s*-?[0-9]+\s*", text) is not None and -(2**63) <= int(text) < 2**63


def _object(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise _line(file, number, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _line(file, number, "not a JSON object")
    if "\\ud" in line.lower() and not _is_text(json.dumps(value, ensure_ascii=False)):
        raise _line(file, number, "not JSON: half of a surrogate pair")
    return value


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _json_type(value: object) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return pa.int64()
    if isinstance(value, bool | list):
        return pa.bool_() if isinstance(value, bool) else pa.list_(pa.null())
    return pa.string() if isinstance(value, str) else pa.float64()
