"""Histories in tables: a row per operation, with the columns session, txn, kind, key and value.

A transaction is named by its session and `txn`; those of a session run in the order of their first rows. `kind`
is read or write (r or w), `status` committed, aborted or indeterminate (default: all are committed). With a
column `pos` rows are put into its order, else they stand in order. A read whose value is null has an unknown
result, unless a column `initial` says that it found the initial state; the argument `initial` is a value that
stands for it. In histories of lists, `append` is a write, and `observe` an element that a read shows before its
last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError, InputError
from antecast.kv.history import INITIAL_CODE, UNKNOWN_CODE, History, Kind, Status

COLUMNS = ("session", "txn", "kind", "key", "value")
OPTIONAL = ("status", "pos", "initial", "file", "line")
_KINDS = {"read": Kind.READ, "r": Kind.READ, "write": Kind.WRITE, "w": Kind.WRITE}
_LISTS = {"append": Kind.WRITE, "observe": Kind.OBSERVE}
_STATUSES = {status.name.lower(): status for status in Status}


def history_of(
    table: pa.Table, columns: Mapping[str, str] | None = None, *, initial: Any = None, name: str = "table"
) -> History:
    """A history from an Arrow table; `columns` says what the table calls its columns."""
    names = columns or {}
    unknown = names.keys() - {*COLUMNS, *OPTIONAL}
    if unknown:
        known = ", ".join((*COLUMNS, *OPTIONAL))
        raise ConfigurationError(f"no such column {min(unknown)!r}; there are {known}", field="columns")
    held = {each: names.get(each, each) for each in (*COLUMNS, *OPTIONAL)}
    for each in COLUMNS:
        if held[each] not in table.column_names:
            raise InputError(f"no column {held[each]!r}; there are {', '.join(table.column_names)}", path=name)
    there = {each: table[actual] for each, actual in held.items() if actual in table.column_names}
    row = np.arange(len(table))
    if "pos" in there:
        row = pc.sort_indices(there["pos"]).to_numpy()
        there = {each: column.take(pa.array(row)) for each, column in there.items()}
    for each in ("session", "txn", "kind", "key"):
        _no_nulls(there[each], each, row, name)
    sessions, session = codes(there["session"])
    _, label = codes(there["txn"])
    _, txn = codes(pa.chunked_array([pa.array(session * (int(label.max(initial=0)) + 1) + label)]))
    order = np.argsort(txn, kind="stable")
    first = np.zeros(int(txn.max(initial=-1)) + 1, np.int64)
    first[txn[::-1]] = np.arange(len(txn))[::-1]
    keys, key = codes(there["key"])
    values, value = codes(there["value"])
    lists = any(word in _LISTS for word in codes(there["kind"])[0])
    kind = _words(there["kind"], {**_KINDS, **_LISTS} if lists else _KINDS, "kind", row, name)
    status = _words(there["status"], _STATUSES, "status", row, name) if "status" in there else np.zeros(len(row))
    nothing = pc.is_null(there["value"]).to_numpy()
    if (nothing & (kind == Kind.WRITE)).any():
        at = int(row[np.flatnonzero(nothing & (kind == Kind.WRITE))[0]])
        raise InputError("a write has no value", path=name, line=at + 1)
    value = np.where(nothing, UNKNOWN_CODE, value)
    if "initial" in there:
        value[pc.fill_null(there["initial"], False).to_numpy()] = INITIAL_CODE
    start = (
        next((code for code, each in enumerate(values) if each == initial), None) if initial is not None else None
    )
    if start is not None and not (value[kind == Kind.WRITE] == start).any():
        value[value == start] = INITIAL_CODE
        start = None
    files, file = codes(there["file"]) if "file" in there else ([name], np.zeros(len(row), np.int64))
    line = there["line"].to_numpy() if "line" in there else row + 1
    labels = there["txn"].take(pa.array(first)).to_pylist()
    return History(
        txn[order].astype(np.int32),
        kind[order].astype(np.int8),
        key[order].astype(np.int32),
        value[order],
        line[order].astype(np.int64),
        file[order].astype(np.int32),
        session[first].astype(np.int32),
        status[first].astype(np.int8),
        keys,
        values,
        sessions,
        labels,
        [str(each) for each in files],
        start,
        lists,
    )


def codes(column: pa.ChunkedArray) -> tuple[Sequence[Any], NDArray[np.int64]]:
    """Distinct values in the order of their first appearance, and the code of each row; nulls are -1."""
    encoded = column.combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), -1)
    return encoded.dictionary.to_pylist(), indices.to_numpy().copy()


def _words(
    column: pa.ChunkedArray, known: Mapping[str, int], what: str, row: NDArray[np.int64], name: str
) -> NDArray[np.int64]:
    words, coded = codes(column)
    meaning = np.array([known.get(str(word).lower(), -1) for word in words], np.int64)
    found = meaning[coded] if len(words) else coded
    wrong = np.flatnonzero(found < 0)
    if len(wrong):
        problem = f"{what} is {words[int(coded[wrong[0]])]!r}; {', '.join(known)} are known"
        raise InputError(problem, path=name, line=int(row[wrong[0]]) + 1)
    return found


def _no_nulls(column: pa.ChunkedArray, what: str, row: NDArray[np.int64], name: str) -> None:
    if column.null_count:
        at = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise InputError(f"{what} is null", path=name, line=int(row[at]) + 1)
