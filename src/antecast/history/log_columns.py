"""What the columns of a log hold, whatever their types: names, whole numbers and times.

Logs come typed in many ways: unsigned and decimal numbers, texts of three kinds, dictionaries, times as numbers,
as timestamps or written out. `canonical` turns a column into one of two forms, 64-bit integers or texts, and
refuses what has no such form: nothing is rounded, cut or guessed. It is the only place where this is done, for
files, for tables and on Spark, so that all of them see the same rows.

A column is named by its name or, inside of structures, by a path with dots such as `meta.host`. A column whose own
name has dots comes first. `@file` stands for the order of the rows in their files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FILE_ORDER = "@file"
"""In place of a column, for `pos`: the row's place in its file."""

NAMES = ("run", "node", "origin", "message")
WHOLE = ("pos", "seq", "t")
TIMES = ("pos", "t")

Form: TypeAlias = Literal["number", "text"]

_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class BadValue(Exception):
    """A value that no verdict can rest on; `row` counts from 0 in the column."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row
        self.problem = problem


def form_of(name: str, kind: pa.DataType) -> Form | None:
    """What a column of the log becomes; None if a column of this type cannot be what its name says."""
    kind = plain_type(kind)
    if name == "kind":
        scalar = is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        return "text" if scalar else None
    if is_text(kind):
        return "text" if name in NAMES else "number" if name in TIMES else None
    if pa.types.is_null(kind):
        return "text" if name in NAMES else "number"
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0):
        return "number"
    if pa.types.is_floating(kind):
        return "number" if name in NAMES else None  # names that had to share a column with nulls
    timed = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return "number" if name in TIMES and timed else None


def expectation(name: str) -> str:
    """What `form_of` takes, in words."""
    if name in TIMES:
        return "whole numbers or times"
    return "whole numbers" if name in WHOLE else "texts or whole numbers"


def canonical(name: str, column: pa.Array) -> pa.Array:
    """A column in its form: int64, or texts as a dictionary. Nulls stay. Raises `BadValue`."""
    if pa.types.is_dictionary(column.type) and not is_text(column.type.value_type):
        column = column.cast(column.type.value_type)
    if pa.types.is_null(column.type):
        return column.cast(pa.string() if form_of(name, column.type) == "text" else pa.int64())
    if name == "kind":
        return _texts(name, column if is_text(plain_type(column.type)) else column.cast(pa.string()))
    if is_text(plain_type(column.type)):
        return _texts(name, column) if name in NAMES else _times(name, column)
    if pa.types.is_timestamp(column.type):
        return _safely(name, column, pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    if pa.types.is_duration(column.type):
        return _safely(name, column, pa.duration("ns")).cast(pa.int64())
    return _safely(name, column, pa.int64())


def _texts(name: str, column: pa.Array) -> pa.Array:
    """Texts as a dictionary of plain ones, each looked at once."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = column.dictionary
    if words.type != pa.string():
        words = words.cast(pa.string())
        column = pa.DictionaryArray.from_arrays(column.indices, words)
    try:
        words.validate(full=True)
    except pa.ArrowInvalid:
        raise _bad_word(column, words, lambda raw: not _is_utf8(raw), f"{name} is not valid UTF-8") from None
    if pc.any(pc.match_substring(words, "\0")).as_py():
        raise _bad_word(column, words, lambda raw: b"\0" in raw, f"{name} has a NUL byte in it")
    return column


def _bad_word(column: pa.Array, words: pa.Array, wrong: Callable[[bytes], bool], problem: str) -> BadValue:
    raw = words.view(pa.binary()).to_pylist()
    bad = [code for code, word in enumerate(raw) if word is not None and wrong(word)]
    used = np.isin(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), bad)
    return BadValue(int(np.argmax(used)), problem)


def _times(name: str, column: pa.Array) -> pa.Array:
    """Times written out, as nanoseconds since 1970. With zones they become UTC; without, they stay as they are."""
    texts = column.cast(pa.string())
    filled = texts.drop_null()
    first = filled[0].as_py() if len(filled) else ""
    if "," in first:  # as Python's `logging` writes them
        texts = pc.replace_substring_regex(texts, r"([0-9]),([0-9]+)", r"\1.\2")
    kind = pa.timestamp("ns", "UTC" if has_zone(first) else None)
    return _safely(name, texts, kind).cast(pa.int64())


def has_zone(text: str) -> bool:
    return "T" in text.replace(" ", "T") and _ZONE.search(text.strip()[10:]) is not None


def looks_like_time(text: str) -> bool:
    """Whether a text is meant as a date or a time."""
    return _DATE.match(text.strip()) is not None


def _safely(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A cast that loses nothing; where it would, the first value that does not fit is named."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        row = next((row for row in range(len(column)) if not _fits(column.slice(row, 1), kind)), 0)
    what = "time" if pa.types.is_temporal(kind) else "whole number"
    if pa.types.is_temporal(column.type):
        value = f"{column[row].cast(pa.int64()).as_py()} {column.type.unit}"
        raise BadValue(row, f"{name} is {value}, which nanoseconds do not reach")
    value = column[row].as_py()
    large = not isinstance(value, str) and abs(float(value)) >= 2.0**63
    limit = " between -2^63 and 2^63" if large else ""
    hint = _zone_hint(value, kind) if isinstance(value, str) else ""
    shown = repr(value) if isinstance(value, str) else str(value)
    raise BadValue(row, f"{name} is {shown}, which is not a {what}{limit}{hint}")


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _zone_hint(text: str, kind: pa.DataType) -> str:
    if looks_like_time(text) and has_zone(text) != (kind.tz is not None):
        return " like the others: either all of them have a zone or none"
    return ""


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of a column, by its name or by a path into a structure; None if it is not there."""
    steps = find(schema, path)
    if steps is None:
        return None
    kind = schema.field(schema.get_field_index(steps[0])).type
    for step in steps[1:]:
        kind = kind.field(step).type
    return kind


def find(fields: pa.Schema | pa.StructType, path: str) -> tuple[str, ...] | None:
    """The steps to a column: its name alone, or the names on the way into structures."""
    if fields.get_field_index(path) >= 0:
        return (path,)
    for dot in (place for place, letter in enumerate(path) if letter == "."):
        index = fields.get_field_index(path[:dot])
        if index >= 0 and pa.types.is_struct(fields.field(index).type):
            rest = find(fields.field(index).type, path[dot + 1 :])
            if rest is not None:
                return (path[:dot], *rest)
    return None


def pick(batch: pa.RecordBatch, steps: tuple[str, ...]) -> pa.Array:
    """The column that steps lead to; null where a structure on the way is."""
    column = batch.column(batch.schema.get_field_index(steps[0]))
    return pc.struct_field(column, list(steps[1:])) if len(steps) > 1 else column


def all_paths(schema: pa.Schema) -> list[str]:
    """All columns as they can be named."""

    def below(name: str, kind: pa.DataType) -> list[str]:
        if not pa.types.is_struct(kind):
            return [name]
        return [path for field in kind for path in below(f"{name}.{field.name}", field.type)]

    return [path for field in schema for path in below(field.name, field.type)]
