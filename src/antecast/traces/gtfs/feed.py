"""A GTFS feed as its files give it: a zip or a folder of tables of text.

Feeds are written by many hands. Read without complaint: a byte order mark, blanks around names and
values, tables in a folder of the zip, columns and tables that are missing or that GTFS does not know,
empty tables, rows cut short, text that is not UTF-8. What cannot be understood is an `InputError` with
the table, its line and what would be right; what was repaired or left out is counted in `Feed.notes`.

Big tables are read by Arrow; a table that it refuses is read once more, patiently, by the csv module.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from antecast.core.errors import InputError

T = TypeVar("T")

_LONGEST_CELL = 1 << 17
_UNREADABLE = (OSError, RuntimeError, NotImplementedError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Names:
    """A column of names: a row's name is `values[codes[row]]`; code -1 stands for none."""

    codes: NDArray[np.int32]
    values: list[str]

    def __getitem__(self, row: int) -> str:
        code = int(self.codes[row])
        return self.values[code] if code >= 0 else ""

    def take(self, rows: NDArray[Any]) -> Names:
        return Names(self.codes[rows], self.values)

    def rows_by_name(self) -> dict[str, int]:
        """The first row that carries each name."""
        codes, rows = np.unique(self.codes, return_index=True)
        return {
            self.values[code]: row for code, row in zip(codes.tolist(), rows.tolist(), strict=True) if code >= 0
        }

    def look_up(self, places: Mapping[str, int]) -> NDArray[np.int64]:
        """For each row the place that its name has, -1 where it has none."""
        table = np.array([*(places.get(value, -1) for value in self.values), -1], np.int64)
        found: NDArray[np.int64] = table[self.codes]
        return found


class Sheet:
    """One table of a feed, with the columns that were asked for; those it lacks are empty."""

    def __init__(self, feed: Feed, name: str, columns: dict[str, pa.ChunkedArray], rows: int) -> None:
        self.feed = feed
        self.name = name
        self.rows = rows
        self._columns = columns

    def has(self, column: str) -> bool:
        return column in self._columns

    def names(self, column: str) -> Names:
        """A column of names, trimmed; equal names have equal codes."""
        if column not in self._columns:
            return Names(np.full(self.rows, -1, np.int32), [])
        coded = self._columns[column].unify_dictionaries().combine_chunks()
        known: dict[str, int] = {}
        trimmed = [value.strip() for value in coded.dictionary.to_pylist()]
        new = np.array(
            [known.setdefault(value, len(known)) if value else -1 for value in trimmed] or [-1], np.int32
        )
        return Names(new[coded.indices.to_numpy(zero_copy_only=False)], list(known))

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column of numbers; NaN where a cell is empty."""
        if column not in self._columns:
            return np.full(self.rows, np.nan)
        text = pc.utf8_trim_whitespace(self._columns[column].cast(pa.string()))
        text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        try:
            parsed = pc.cast(text, pa.float64())
        except pa.ArrowInvalid:
            raise self._not_a_number(column, text.to_pylist()) from None
        found: NDArray[np.float64] = pc.fill_null(parsed, np.nan).to_numpy()
        if (wrong := np.flatnonzero(np.isinf(found))).size:
            raise self.error(int(wrong[0]), f"{column} is not a number")
        return found

    def _not_a_number(self, column: str, texts: Sequence[str | None]) -> InputError:
        for row, text in enumerate(texts):
            if text is not None and not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
                return self.error(row, f"{column} is not a number: {text!r}")
        return self.error(0, f"{column} is not a column of numbers")

    def parsed(
        self, column: str, parse: Callable[[str], int], missing: int, rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """A column read by a function that raises ValueError; of the given rows only, if given.

        The function sees each distinct text once, and only texts of those rows are judged.
        """
        names = self.names(column)
        codes = names.codes if rows is None else names.codes[rows]
        values = np.full(len(names.values) + 1, missing, np.int64)
        for code in np.unique(codes[codes >= 0]).tolist():
            try:
                values[code] = parse(names.values[code])
            except ValueError as error:
                place = int(np.flatnonzero(codes == code)[0])
                raise self.error(place if rows is None else int(rows[place]), f"{column}: {error}") from None
        found: NDArray[np.int64] = values[codes]
        return found

    def error(self, row: int, problem: str) -> InputError:
        """The error to raise about a row, with its line in the file."""
        return self.feed.error(self.name, problem, row=row)


class Feed:
    """A feed that is open for reading. `notes` counts what was repaired or left out, in words."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.notes: Counter[str] = Counter()
        self.rows: dict[str, int] = {}
        """Rows of the tables read so far."""
        self._zip: zipfile.ZipFile | None = None
        self._cache: dict[str, bytes] = {}
        try:
            if self.path.is_dir():
                found = [file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file()]
            else:
                self._zip = zipfile.ZipFile(self.path)
                found = [each.filename for each in self._zip.infolist() if not each.is_dir()]
        except zipfile.BadZipFile:
            raise InputError("neither a zip nor a folder; a GTFS feed is one of them", path=path) from None
        except OSError as error:
            raise InputError(f"cannot read: {error.strerror}", path=path) from None
        self._members = _tables(found)
        if "stop_times" not in self._members:
            shown = ", ".join(sorted(found)[:8]) or "nothing"
            raise InputError(f"holds no stop_times.txt, so it is not a GTFS feed; it holds {shown}", path=path)

    def where(self, table: str) -> str:
        """A table's place, for errors."""
        return f"{self.path}/{self._members.get(table, table + '.txt')}"

    def error(self, table: str, problem: str, *, row: int | None = None) -> InputError:
        line = None if row is None else _line(self._bytes(table), row)
        return InputError(problem, path=self.where(table), line=line)

    def sheet(self, table: str, names: Sequence[str], numbers: Sequence[str] = (), *, needs: str = "") -> Sheet:
        """Read a table's columns of names and of numbers, a missing or empty table as one without rows.

        `needs` lists columns without which the table is no use: their lack is an error, and so is the
        lack of the table.
        """
        raw = self._bytes(table)
        header, skip = _header(raw)
        if needs and not header:
            state = "is empty" if table in self._members else "is missing"
            raise self.error(table, f"{state}; a GTFS feed needs this table with {', '.join(needs.split())}")
        lacking = [column for column in needs.split() if column not in header]
        if lacking:
            raise self.error(table, f"lacks the column {lacking[0]}; it has {', '.join(header)}", row=-1)
        wanted = [column for column in (*names, *numbers) if column in header]
        self.rows[table] = 0
        if not wanted:
            return Sheet(self, table, {}, 0)
        coded = pa.dictionary(pa.int32(), pa.string())
        types = {column: coded if column in names else pa.string() for column in wanted}
        data = self._read(table, raw, header, skip, types)
        self.rows[table] = data.num_rows
        return Sheet(self, table, {column: data[column] for column in wanted}, data.num_rows)

    def _read(
        self, table: str, raw: bytes, header: list[str], skip: int, types: dict[str, pa.DataType]
    ) -> pa.Table:
        refused = False

        def refuse(row: object) -> str:
            nonlocal refused
            refused = True
            return "skip"

        try:
            data = pa_csv.read_csv(
                pa.BufferReader(raw),
                read_options=pa_csv.ReadOptions(column_names=header, skip_rows=skip),
                parse_options=pa_csv.ParseOptions(invalid_row_handler=refuse),
                convert_options=pa_csv.ConvertOptions(include_columns=list(types), column_types=types),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return pa.schema(list(types.items())).empty_table()
            refused = True
        return self._read_patiently(table, raw, header, types) if refused else data

    def _read_patiently(
        self, table: str, raw: bytes, header: list[str], types: dict[str, pa.DataType]
    ) -> pa.Table:
        """Pad rows that are too short, ignore extra empty cells, accept line breaks inside quotes."""
        places = [header.index(column) for column in types]
        cells: list[list[str]] = [[] for _ in types]
        short = 0
        for line, record in self._records(table, raw):
            if len(record) > len(header) and any(cell.strip() for cell in record[len(header) :]):
                problem = f"has {len(record)} cells where the header names {len(header)} columns"
                hint = "a comma inside a value needs quotes around it"
                raise InputError(f"{problem}; {hint}", path=self.where(table), line=line)
            short += len(record) < len(header)
            for column, place in zip(cells, places, strict=True):
                column.append(record[place] if place < len(record) else "")
        if short:
            self.notes[f"rows of {table}.txt with cells missing at the end, read as empty"] += short
        arrays = [
            pa.array(column, pa.string()).cast(kind) for column, kind in zip(cells, types.values(), strict=True)
        ]
        return pa.table(arrays, names=list(types))

    def _records(self, table: str, raw: bytes) -> Iterator[tuple[int, list[str]]]:
        """The rows with their lines. A quotation mark that is never closed swallows the rest of the file."""
        try:
            for line, record in _records(raw):
                if max(map(len, record)) > _LONGEST_CELL:  # the reader's own limit is shared by the whole process
                    raise csv.Error
                yield line, record
        except csv.Error:  # the one error left to a lenient reader
            raise InputError("a quotation mark is never closed", path=self.where(table)) from None

    def _bytes(self, table: str) -> bytes:
        """A table's text as UTF-8. The last one read is kept: an error about it needs its lines."""
        if table not in self._members:
            return b""
        if table not in self._cache:
            member = self._members[table]
            try:
                raw = self._zip.read(member) if self._zip else (self.path / member).read_bytes()
            except _UNREADABLE as error:
                raise InputError(f"cannot read: {error}", path=self.where(table)) from None
            self._cache.clear()
            self._cache[table] = self._utf8(table, raw.removeprefix(b"\xef\xbb\xbf"))
        return self._cache[table]

    def _utf8(self, table: str, raw: bytes) -> bytes:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            return raw.decode("utf-16", errors="replace").encode()
        try:
            return raw if raw.isascii() else raw.decode().encode()
        except UnicodeDecodeError:
            self.notes["tables that are not UTF-8, read as Latin-1"] += 1
            return raw.decode("latin-1").encode()


def _tables(members: Sequence[str]) -> dict[str, str]:
    """The tables among the files of a feed: those beside the stop_times.txt that lies least deep."""
    folders = sorted(
        (member.count("/"), member.rpartition("/")[0])
        for member in members
        if member.lower().rpartition("/")[2] == "stop_times.txt" and not member.startswith("__MACOSX")
    )
    if not folders:
        return {}
    beside = [member for member in members if member.rpartition("/")[0] == folders[0][1]]
    names = {member.rpartition("/")[2].lower(): member for member in beside}
    return {name.removesuffix(".txt"): member for name, member in names.items() if name.endswith(".txt")}


def _header(raw: bytes) -> tuple[list[str], int]:
    """The columns' names, and how many lines come before the first row."""
    for number, line in enumerate(io.BytesIO(raw), 1):
        if line.strip():
            names = next(csv.reader([line.decode().strip()]))
            header = [name.strip().lower() for name in names]
            return [
                f"{name}#{place}" if name in header[:place] else name for place, name in enumerate(header)
            ], number
    return [], 0


def _records(raw: bytes) -> Iterator[tuple[int, list[str]]]:
    """The rows after the header with the lines they begin on. Empty lines are no rows."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8", newline=""))
    line, header = 1, True
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            if not header:
                yield line, record
            header = False
        line = reader.line_num + 1


def _line(raw: bytes, row: int) -> int | None:
    """The line on which a row (counted from 0) begins; row -1 is the header."""
    if row < 0:
        return _header(raw)[1] or None
    return next((line for place, (line, _) in enumerate(_records(raw)) if place == row), None)
