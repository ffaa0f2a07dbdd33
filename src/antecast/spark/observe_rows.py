"""From rows to timestamps: which columns mean what, what is missing, and rows packed by group.

Spark hands rows of a group to a stateful Python operator one tuple at a time. So rows are packed before: an
Arrow batch becomes one row for each group in it, whose only value is the group's rows as an Arrow stream.
Everything that follows works on arrays, and no type is lost on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.core.errors import ConfigurationError
from antecast.core.settings import Settings
from antecast.observer.columns import UNKNOWN, Flags, Stamps
from antecast.observer.policy import WRONG_LENGTH, Longs, Policy
from antecast.observer.timestamps import FURTHEST

ROLES = ("r", "c", "kn", "l", "counter", "before", "source", "arrival")
"""What a column can mean. `l` and `counter` are a hybrid logical clock's; `arrival` gives the order of arrival."""

R, C, KN, BEFORE, SOURCE, ARRIVAL, FAULT = (
    "__r",
    "__c",
    "__kn",
    "__before",
    "__source",
    "__arrival",
    "__fault",
)
UNIQUE = "__unique"
INTERNAL = (R, C, KN, BEFORE, SOURCE, ARRIVAL, FAULT, UNIQUE)


PIECE = 16 << 20
"""Bytes of rows that leave in one piece."""

OPTIONAL = ("source", "before")
"""Roles that a column plays where there is one of that name, and that no timestamps need."""


class RowFormat(Settings, frozen=True, kw_only=True):
    """How rows carry their timestamps."""

    policy: Policy
    key: tuple[str, ...]
    columns: dict[str, str]
    """Column names by role: those that are used."""
    tick: int
    """Nanoseconds, for columns that are timestamps; whole numbers count ticks already."""
    fault: str | None = None
    """A column that says why a row is of no use, null where it is fine."""
    unique: tuple[str, ...] = ()
    """Columns that together identify a row; rows with equal values in them are duplicates."""


def resolve(
    names: Sequence[str], policy: Policy, given: Mapping[str, str], *, clock: str, arrival: str | None
) -> dict[str, str]:
    """The columns to use, by role, or an error that says which is missing. A role that is given the empty name has
    no column, whatever the columns are called."""
    for role in given:
        if role not in ROLES:
            raise ConfigurationError(f"unknown role {role!r}; known: {', '.join(ROLES)}", field="columns")
    named = {role: given.get(role, role) for role in ROLES} | ({"arrival": arrival} if arrival else {})
    there = {role: name for role, name in named.items() if name and name in names}
    needed: list[str] = ["l" if policy.stamps == "hybrid" and "l" in there else "r"]
    if policy.stamps == "bounded" or (policy.stamps == "hybrid" and "l" not in there):
        needed.append("c")
    if policy.stamps == "bounded" and policy.width:
        needed.append("kn")
    if policy.stamps == "hybrid":
        needed.append("kn" if "kn" in there and "counter" not in there else "counter")
    if policy.mode == "earlier-send":
        needed.append("before")
    if arrival is not None or clock == "arrival":
        needed.append("arrival")
    missing = [role for role in (*needed, *given) if role not in there and (named[role] or role in needed)]
    if missing:
        kind = f"{policy.stamps} timestamps"
        problem = f"no column {named[missing[0]] or missing[0]!r}, which {kind} need"
        problem += f"; the columns are {', '.join(names)}"
        raise ConfigurationError(problem, field="columns")
    optional: list[str] = [role for role in ("source", "before") if role in there and policy.stamps != "physical"]
    if policy.stamps == "physical" and "source" in there:
        optional = ["source"]
    if policy.stamps == "hybrid" and "l" in there and "r" in there:
        optional.append("r")
    return {role: there[role] for role in dict.fromkeys(needed + optional)}


def without(roles: Iterable[str]) -> str:
    """How to say that no column plays these roles, in Python and on the command line."""
    names = list(roles)
    given = ", ".join(f'"{role}": ""' for role in names)
    return f"columns={{{given}}} (--map {','.join(f'{role}=' for role in names)})"


@dataclass
class _Faults:
    """The first thing that is wrong with each row, as a number into `reasons`; −1 if nothing is."""

    codes: Longs
    reasons: list[str] = field(default_factory=list)

    def note(self, wrong: Flags, reason: str) -> None:
        wrong = wrong & (self.codes < 0)
        if wrong.any():
            self.codes[wrong] = len(self.reasons)
            self.reasons.append(reason)

    def column(self) -> pa.Array:
        codes = pa.array(self.codes, mask=self.codes < 0)
        return pa.array(self.reasons, pa.string()).take(codes)


def read_rows(table: pa.Table, rows: RowFormat) -> pa.Table:
    """A table with the timestamps beside its own columns, and what is wrong with a row in `FAULT`."""
    size, columns, width = len(table), rows.columns, rows.policy.width
    faults = _Faults(np.full(size, -1))
    if rows.fault is not None:
        given = table.column(rows.fault)
        for reason in pc.drop_null(given.unique()).to_pylist():
            faults.note(_flags(pc.fill_null(pc.equal(given, reason), False)), reason)

    def numbers(role: str, *, nulls: int | None = None) -> Longs:
        column = table.column(columns[role])
        if nulls is None and column.null_count:
            faults.note(_flags(column.is_null()), f"{columns[role]} is missing")
        if pa.types.is_timestamp(column.type):
            micros = pc.fill_null(column.cast(pa.timestamp("us")).cast(pa.int64()), 0)
            common = gcd(1000, rows.tick)  # an end of all time, such as the year 9999, must not wrap around
            times, of = 1000 // common, np.asarray(micros.to_numpy(), np.int64)
            far = (of < -FURTHEST // times) | (of > FURTHEST // times)
            faults.note(far, f"{columns[role]} is out of range")
            values = np.where(far, 0, of) * times // (rows.tick // common)
        else:
            values = np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), np.int64)
        return values if nulls is None else np.where(_flags(column.is_null()), nulls, values)

    if "l" in columns:
        latest = numbers("l")
        r = numbers("r") if "r" in columns else latest
        c = latest - r
    else:
        r = numbers("r")
        c = numbers("c") if "c" in columns else np.zeros(size, np.int64)
    kn = np.zeros((size, width), np.int64)
    if "counter" in columns:
        kn[:, 0] = numbers("counter")
    elif "kn" in columns:
        _read_kn(table.column(columns["kn"]), columns["kn"], kn, faults)
    values = {
        R: r,
        C: c,
        BEFORE: numbers("before", nulls=UNKNOWN) if "before" in columns else np.full(size, UNKNOWN, np.int64),
        SOURCE: _sources(table.column(columns["source"])) if "source" in columns else np.zeros(size, np.int64),
        ARRIVAL: numbers("arrival") if "arrival" in columns else np.zeros(size, np.int64),
    }
    for name, value in values.items():
        table = table.append_column(name, pa.array(value))
    if rows.unique:
        table = table.append_column(UNIQUE, pa.array(_hashes([table.column(name) for name in rows.unique])))
    if width:
        table = table.append_column(KN, pa.FixedSizeListArray.from_arrays(pa.array(kn.ravel()), width))
    return table.append_column(FAULT, faults.column())


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(column.to_numpy(), bool)


def _read_kn(column: pa.ChunkedArray, name: str, kn: Longs, faults: _Faults) -> None:
    width = kn.shape[1]
    faults.note(_flags(column.is_null()), f"{name} is missing")
    right = _flags(pc.fill_null(pc.equal(pc.list_value_length(column), width), False))
    faults.note(~right, WRONG_LENGTH)
    rows = np.flatnonzero(right)
    lists = column.take(rows)
    flat = pa.chunked_array([each.flatten() for each in lists.chunks], column.type.value_type)
    if flat.null_count:
        holes = np.zeros(len(right), bool)
        holes[rows] = _flags(flat.is_null()).reshape(-1, width).any(axis=1)
        faults.note(holes, f"a count of {name} is missing")
    kn[rows] = np.asarray(pc.fill_null(flat.cast(pa.int64()), 0).to_numpy(), np.int64).reshape(-1, width)


def _sources(column: pa.ChunkedArray) -> Longs:
    """Numbers for sources: themselves, or hashes that are the same everywhere."""
    if pa.types.is_integer(column.type):
        return np.asarray(pc.fill_null(column.cast(pa.int64()), -1).to_numpy(), np.int64)
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    hashes = [
        int.from_bytes(
            hashlib.blake2b(str(each).encode(errors="surrogateescape"), digest_size=8).digest(),
            "big",
            signed=True,
        )
        for each in values_of(coded.dictionary)
    ]
    codes = np.asarray(pc.fill_null(coded.indices, len(hashes)), np.int64)
    return np.array([*hashes, -1], np.int64)[codes]


def _hashes(columns: Sequence[pa.ChunkedArray]) -> Longs:
    """A hash of each row's values. With 64 bits, two of a million collide once in 37 million runs."""
    values = zip(*map(_plain_values, columns), strict=True)
    digests = (hashlib.blake2b(repr(each).encode(), digest_size=8).digest() for each in values)
    return np.array([int.from_bytes(each, "big", signed=True) for each in digests], np.int64)


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Values as Python has them. A text of Spark may have any bytes: those that are no UTF-8 become halves of
    surrogates, so that different texts stay different."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        kind, raw = column.type, pa.binary()
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return [_decoded(each) for each in column.cast(pa.list_(raw) if is_list else raw).to_pylist()]


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return None if value is None else value.decode(errors="surrogateescape")


def _plain_values(column: pa.ChunkedArray) -> list[Any]:
    """Values whose `repr` is the same in every session; times that Python does not have are numbers."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    try:
        values = values_of(column)
    except (OverflowError, ValueError):
        if not pa.types.is_temporal(column.type):
            raise
        values = list(map(_plain_value, column))
    return values


def _plain_value(time: pa.Scalar) -> Any:
    try:
        return time.as_py()
    except (OverflowError, ValueError):
        return time.cast(pa.int32() if time.type.bit_width == 32 else pa.int64()).as_py()


def stamps_of(table: pa.Table, width: int) -> Stamps:
    """The timestamps of rows that `read_rows` has read."""
    r, c, before, source = (np.asarray(table.column(name).to_numpy()) for name in (R, C, BEFORE, SOURCE))
    kn = np.zeros((len(table), width), np.int64)
    if width and len(table):
        flat = pa.chunked_array([each.flatten() for each in table.column(KN).chunks], pa.int64())
        kn = np.asarray(flat.to_numpy()).reshape(-1, width)
    return Stamps(r, c, kn, before, source)


def pack(batches: Iterable[pa.RecordBatch], rows: RowFormat) -> Iterator[pa.RecordBatch]:
    """Batches of rows as batches of (key, rows of the group as an Arrow stream)."""
    for batch in batches:
        if not len(batch):
            continue
        yield pack_groups(batch, read_rows(pa.Table.from_batches([batch]), rows), rows.key)


def pack_groups(batch: pa.RecordBatch, table: pa.Table, key: Sequence[str]) -> pa.RecordBatch:
    """A table as one row for each group in it; the batch has the keys of the same rows."""
    order, starts = _groups([batch.column(name) for name in key], len(batch))
    table = table.take(order).combine_chunks()
    ends = [*starts[1:].tolist(), len(table)]
    firsts = batch.take(order[starts])
    blobs = [
        write_stream(table.slice(start, end - start)) for start, end in zip(starts.tolist(), ends, strict=True)
    ]
    keys = [firsts.column(name) for name in key]
    return pa.RecordBatch.from_arrays([*keys, pa.array(blobs, pa.binary())], [*key, "rows"])


def _groups(keys: Sequence[pa.Array], size: int) -> tuple[Longs, Longs]:
    """An order that brings rows of a group together, in their own order, and where each group starts."""
    codes = np.zeros(size, np.int64)
    for key in keys:
        coded = key.dictionary_encode() if not pa.types.is_dictionary(key.type) else key
        part = np.asarray(pc.fill_null(coded.indices, len(coded.dictionary)), np.int64)
        _, codes = np.unique(codes * (len(coded.dictionary) + 1) + part, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def write_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def pieces(table: pa.Table | None) -> Iterator[bytes]:
    """Rows as several streams of a sensible size: one value of a column has 2 GiB at most, in Java as in Arrow."""
    if table is None:
        return
    size = max(1, len(table) * PIECE // max(1, table.nbytes))
    for start in range(0, len(table), size):
        yield write_stream(table.slice(start, size))


def read_streams(blobs: Iterable[bytes | None]) -> list[pa.Table]:
    """Tables from what a shuffle has brought, which may come in another order when a micro-batch runs again. Rows
    that nothing else puts in order must not change places then."""
    return [read_stream(blob) for blob in sorted(bytes(blob) for blob in blobs if blob is not None)]


def read_stream(data: bytes) -> pa.Table:
    """A table from its bytes. Times are in UTC: the zone is the session's, and rows of several sessions meet."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    return table.cast(pa.schema([field.with_type(_in_utc(field.type)) for field in table.schema]))


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), kind.item_field.with_type(_in_utc(kind.item_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_in_utc(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables one after another. A column that some lack is null there: rows may have waited while it was added."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise _changed(error) from None


def _changed(error: Exception) -> ConfigurationError:
    problem = f"rows that wait and new rows have columns of different kinds: {error}"
    return ConfigurationError(f"{problem}; columns may be added, but not change their type")


def unpack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of Arrow streams again, in batches of the size they came in.

    Rows may have waited while columns were added or widened, within structures as well. Spark wants the types of
    the schema and nothing near them.
    """
    schema = pa.schema([each.with_nullable(True) for each in schema])  # where a row lacks a column, it is null
    for batch in batches:
        tables = [joined([schema.empty_table(), read_stream(blob.as_py())]) for blob in batch.column(0)]
        if tables:
            try:
                table = pa.concat_tables(each.select(schema.names).cast(schema) for each in tables)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
                raise _changed(error) from None
            yield from table.combine_chunks().to_batches()
