"""Tables with named columns: CSV in seconds, Parquet in our own schemas and nanoseconds.

Both hold contacts (a, b, start, end) or movement: pieces (node, t0, x0, y0, t1, x1, y1) or, in CSV, places
(node, t, x, y). CSV columns are known by several names; columns that are not needed are ignored.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.traces.assemble import counted, encode, join_intervals, join_points, joining_notes, piece_table
from antecast.traces.schema import CONTACTS, TRAJECTORIES
from antecast.traces.spelling import seconds, spelled
from antecast.traces.text import LATEST, Fail, FloatArray, IntArray, Text, load, numbers, times
from antecast.traces.trace import Format, Kind, Trace

NAMES: Mapping[str, tuple[str, ...]] = {
    "a": ("a", "node1", "nodea", "id1", "ida", "source", "src", "from", "u", "i", "device1", "user1"),
    "b": ("b", "node2", "nodeb", "id2", "idb", "target", "dst", "destination", "to", "v", "j", "device2", "user2"),
    "start": ("start", "tstart", "starttime", "timestart", "begin", "tbegin", "begintime", "up", "t0"),
    "end": ("end", "tend", "endtime", "timeend", "stop", "finish", "until", "down", "t1"),
    "duration": ("duration", "length"),
    "node": ("node", "id", "nodeid", "name", "vehicle", "vehicleid", "user", "userid"),
    "t": ("t", "time", "timestamp", "timestep"),
    "x": ("x", "xpos", "posx"),
    "y": ("y", "ypos", "posy"),
} | {exact: (exact,) for exact in ("t0", "x0", "y0", "t1", "x1", "y1")}
"""What a column may be called; case, blanks, hyphens and underscores do not count."""

PIECES = ("node", "t0", "x0", "y0", "t1", "x1", "y1")
_FORMS: tuple[tuple[str, ...], ...] = (
    PIECES,
    ("a", "b", "start", "end"),
    ("a", "b", "start", "duration"),
    ("node", "t", "x", "y"),
)
EXPECTED = "a,b,start,end for contacts, node,t0,x0,y0,t1,x1,y1 or node,t,x,y for movement"
_DELIMITERS = ",;\t"


def form_of(header: Sequence[str]) -> dict[str, int] | None:
    """Which columns of a header are which, if it is one of ours."""
    plain = [name.strip().lower().translate({ord(mark): None for mark in " _-"}) for name in header]
    for form in _FORMS:
        found = {}
        for column in form:
            places = [plain.index(name) for name in NAMES[column] if name in plain]
            if places:
                found[column] = places[0]
        if len(found) == len(form) == len(set(found.values())):
            return found
    return None


def delimiter_of(header: str) -> str | None:
    """What separates the columns of a line: the mark that is in it most often."""
    best = max(_DELIMITERS, key=header.count)
    return best if best in header else None


def score_csv(lines: Sequence[str]) -> float:
    """Sure of a header that is known; half sure of other columns, so that the reader says which are missing."""
    delimiter = delimiter_of(lines[0])
    if delimiter is None:
        return 0.0
    if form_of(next(csv.reader([lines[0]], delimiter=delimiter))):
        return 1.0
    even = len(lines) > 1 and len({line.count(delimiter) for line in lines}) == 1
    return 0.5 if even and delimiter != "\t" else 0.0


def read_csv(text: Text) -> Trace:
    """Contacts or movement, as the header says."""
    text.full()
    (top, header), *body = [each for each in enumerate(text.content.split("\n"), 1) if _tells(each[1])]
    delimiter = delimiter_of(header)
    names = next(csv.reader([header], delimiter=delimiter or ","))
    columns = form_of(names) if delimiter else None
    if columns is None:
        text.fail(f'expected columns {EXPECTED}; got "{text.line(top)}"', top)
    rows = list(csv.reader((line for _, line in body), delimiter=delimiter or ","))
    lines = [number for number, _ in body]

    def fail(row: int, problem: str) -> NoReturn:
        text.fail(problem, lines[row])

    if len(rows) != len(lines):
        text.fail("expected one row a line; a quotation mark is not closed", lines[len(rows) - 1] if rows else top)
    for row, values in enumerate(rows):
        if len(values) != len(names):
            fail(row, f"expected {len(names)} columns, as the header has, got {len(values)}")
    found = {
        name: pa.array([values[at].strip() for values in rows], pa.large_string()) for name, at in columns.items()
    }
    return _from_csv(found, fail)


def _tells(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not bare.startswith("#")


def _from_csv(columns: dict[str, pa.Array], fail: Fail) -> Trace:
    for name in ("a", "b", "node"):
        if name in columns and (empty := np.asarray(pc.equal(columns[name], "")).astype(bool)).any():
            fail(int(np.argmax(empty)), f"expected a name in column {name}, got nothing")
    if "a" in columns:
        start = times(columns["start"], fail)
        end = times(columns["end"], fail) if "end" in columns else start + times(columns["duration"], fail)
        return _contacts(columns["a"], columns["b"], start, end, "csv", fail)
    if "t" in columns:
        names, (node,) = encode(columns["node"])
        t = times(columns["t"], fail)
        until = int(t.max(initial=0))
        table, alone = join_points(
            names, node, t, numbers(columns["x"], fail), numbers(columns["y"], fail), until=until
        )
        still = f"with one row, standing there until {seconds(until)} s"
        return Trace("movement", table, "csv", counted([(alone, f"node {still}", f"nodes {still}")]))
    t0, t1 = times(columns["t0"], fail), times(columns["t1"], fail)
    x0, y0, x1, y1 = (numbers(columns[name], fail) for name in ("x0", "y0", "x1", "y1"))
    return _movement(columns["node"], (t0, x0, y0), (t1, x1, y1), "csv", fail)


def _contacts(a: pa.Array, b: pa.Array, start: IntArray, end: IntArray, name: str, fail: Fail) -> Trace:
    if (wrong := start > end).any():
        fail(int(np.argmax(wrong)), "expected an end that is not before the start")
    table, joined = join_intervals(a, b, start, end)
    overlaps = counted([(len(a) - len(table) - joined.own, "row joined with another", "rows joined with others")])
    return Trace("contacts", table, name, (*overlaps, *joining_notes(joined, events=False)))


def _movement(
    node: pa.Array,
    begin: tuple[IntArray, FloatArray, FloatArray],
    end: tuple[IntArray, FloatArray, FloatArray],
    name: str,
    fail: Fail,
) -> Trace:
    if (wrong := begin[0] > end[0]).any():
        fail(int(np.argmax(wrong)), "expected t1 not to be before t0")
    names, (codes,) = encode(node)
    order = np.lexsort((begin[0], codes))
    overlap = (np.diff(codes[order]) == 0) & (begin[0][order][1:] < end[0][order][:-1])
    if overlap.any():
        row = int(order[int(np.argmax(overlap)) + 1])
        fail(row, f"expected pieces of a node that do not overlap; {names[codes[row]]} is in two places")
    return Trace("movement", piece_table(names, codes, begin, end), name)


def write_csv(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Contacts or movement under our own column names, times in seconds."""
    columns = [_csv_column(table, name) for name in table.column_names]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*columns, strict=True))
    return ()


def _csv_column(table: pa.Table, name: str) -> list[Any]:
    times_of = {"start", "end", "t0", "t1"}
    return spelled(table[name].to_numpy()) if name in times_of else table[name].to_pylist()


def read_parquet(path: Path | str) -> Trace:
    """Contacts or movement in our schemas."""

    def fail(row: int, problem: str) -> NoReturn:
        raise InputError(f"row {row + 1}: {problem}", path=path)

    data = load(path)
    try:
        table = pq.read_table(io.BytesIO(data))
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot be read as Parquet: {reason}", path=path) from error
    kind = parquet_kind(table.schema)
    if kind is None:
        raise InputError(f"expected columns {EXPECTED}; got {','.join(table.column_names)}", path=path)
    columns = {field.name: parquet_column(table, field, path, fail) for field in _schema(kind)}
    if kind == "contacts":
        return _contacts(columns["a"], columns["b"], columns["start"], columns["end"], "parquet", fail)
    begin, end = ((columns[f"t{at}"], columns[f"x{at}"], columns[f"y{at}"]) for at in (0, 1))
    return _movement(columns["node"], begin, end, "parquet", fail)


def parquet_kind(schema: pa.Schema) -> Kind | None:
    kinds: tuple[Kind, ...] = ("contacts", "movement")
    return next((kind for kind in kinds if set(_schema(kind).names) <= set(schema.names)), None)


def _schema(kind: Kind) -> pa.Schema:
    return CONTACTS if kind == "contacts" else TRAJECTORIES


def parquet_column(table: pa.Table, field: pa.Field, path: Path | str, fail: Fail) -> Any:
    """A column as its schema has it: names as text, times and numbers as arrays; refused where a value is not."""
    column = table[field.name].combine_chunks()
    if column.null_count:
        fail(
            int(np.argmax(np.asarray(column.is_null()).astype(bool))),
            f"expected a value in column {field.name}, got none",
        )
    if pa.types.is_dictionary(field.type):
        return column.cast(pa.large_string())
    if field.type == pa.int64() and not pa.types.is_integer(column.type):
        raise InputError(f"expected whole nanoseconds in column {field.name}, got {column.type}", path=path)
    try:
        values = column.cast(field.type).to_numpy()
    except pa.ArrowInvalid as error:
        raise InputError(f"expected {field.type} in column {field.name}, got {column.type}", path=path) from error
    wrong = values < 0 if field.type == pa.int64() else ~np.isfinite(values)
    if wrong.any():
        what = "a time of zero or more" if field.type == pa.int64() else "a finite number"
        fail(int(np.argmax(wrong)), f"expected {what} in column {field.name}")
    if field.type == pa.int64() and (late := values > LATEST).any():
        row = int(np.argmax(late))
        fail(row, f"expected nanoseconds in column {field.name}, got {values[row]}, which is more than 146 years")
    return values


def write_parquet(table: pa.Table, file: BinaryIO) -> tuple[str, ...]:
    """Contacts or movement in our schemas: nothing is lost."""
    pq.write_table(table, file, compression="zstd")
    return ()


CSV_FORMAT = Format(
    name="csv",
    title="CSV",
    holds=("contacts", "movement"),
    score=score_csv,
    read=read_csv,
    write=write_csv,
    suffixes=("csv",),
)
PARQUET_FORMAT = Format(
    name="parquet",
    title="Parquet",
    holds=("contacts", "movement"),
    score=lambda lines: 0.0,  # not text: known by its first bytes
    read=read_parquet,
    write=write_parquet,
    suffixes=("parquet",),
    binary=True,
)
