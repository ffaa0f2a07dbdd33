"""Histories in tables: a row per operation, with the columns session, txn, kind, key and value.

A transaction is named by its session and `txn`; those of a session run in the order of their first rows. `kind`
is read or write (r or w), `status` committed, aborted or indeterminate (default: all are committed). With a
column `pos` rows are put into its order. Else they stand in order, and a transaction that goes on after its
session has begun another is refused. A read whose value is null has an unknown result, unless a column `initial`
says that it found the initial state; the argument `initial` is a value that stands for it. In histories of lists,
`append` is a write, and `observe` an element that a read shows before its last one.

With a column `run`, sessions and keys are those of a run: the same names in two runs are two sessions and two
keys, called `run/name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError, InputError
from antecast.kv.history import INITIAL_CODE, UNKNOWN_CODE, History, Kind, Status, resumed

COLUMNS = ("session", "txn", "kind", "key", "value")
OPTIONAL = ("status", "pos", "initial", "run", "file", "line")
_KINDS = {"read": Kind.READ, "r": Kind.READ, "write": Kind.WRITE, "w": Kind.WRITE}
_LISTS = {"append": Kind.WRITE, "observe": Kind.OBSERVE}
_Wrong: TypeAlias = Callable[[int, str], InputError]
"""An error at a row."""
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
    for each in (*COLUMNS, *names):
        if held[each] not in table.column_names:
            raise InputError(f"no column {held[each]!r}; there are {', '.join(table.column_names)}", path=name)
    for actual in held.values():
        if table.column_names.count(actual) > 1:
            raise InputError(f"two columns are called {actual!r}", path=name)
    there = {
        each: _plain(table[actual], actual, name) for each, actual in held.items() if actual in table.column_names
    }
    row = np.arange(len(table))
    files_of, lines_of = (table[held[each]] if each in there else None for each in ("file", "line"))

    def wrong(at: int, problem: str) -> InputError:
        """An error at a row of the table, or where the table says that it comes from."""
        file, line = name, int(row[at]) + 1
        if files_of is not None and lines_of is not None:
            file, line = str(files_of[int(row[at])]), lines_of[int(row[at])].as_py()
        return InputError(problem, path=file, line=line)

    if "pos" in there:
        ordered = pa.types.is_integer(there["pos"].type) or pa.types.is_timestamp(there["pos"].type)
        _check_type(there["pos"], "pos", ordered, "whole numbers or times", name)
        _no_nulls(there["pos"], "pos", wrong)
        row = pc.sort_indices(there["pos"]).to_numpy()
        there = {each: column.take(pa.array(row)) for each, column in there.items()}
    for each, column in there.items():
        if pa.types.is_floating(column.type):
            if len(nan := np.flatnonzero(pc.fill_null(pc.is_nan(column), False).to_numpy())):
                raise wrong(int(nan[0]), f"{each} is NaN, which is not a number")
            there[each] = pc.add(column, pa.scalar(0, column.type))  # -0.0 is 0.0
    for each in ("session", "txn", "kind", "key", *(("run",) if "run" in there else ())):
        _no_nulls(there[each], each, wrong)
    sessions, session = _in_runs(codes(there["session"]), there.get("run"))
    _, label = codes(there["txn"])
    _, txn = codes(pa.chunked_array([pa.array(session * (int(label.max(initial=0)) + 1) + label)]))
    again = None if "pos" in there else resumed(session, txn)  # positions may begin anew in each transaction
    if again is not None:
        names_of = there["session"][again].as_py(), there["txn"][again].as_py()
        problem = "transaction {1} goes on after another of session {0} has begun".format(*names_of)
        raise wrong(again, f"{problem}; rows must stand in order, or have a column pos")
    order = np.argsort(txn, kind="stable")
    first = np.zeros(int(txn.max(initial=-1)) + 1, np.int64)
    first[txn[::-1]] = np.arange(len(txn))[::-1]
    keys, key = _in_runs(codes(there["key"]), there.get("run"))
    values, value = codes(there["value"])
    lists = any(word in _LISTS for word in codes(there["kind"])[0])
    kind = _words(there["kind"], {**_KINDS, **_LISTS} if lists else _KINDS, "kind", wrong)
    status = np.zeros(len(row), np.int64)
    if "status" in there:
        _no_nulls(there["status"], "status", wrong)
        status = _words(there["status"], _STATUSES, "status", wrong)
        if (status != status[first[txn]]).any():
            at = int(np.flatnonzero(status != status[first[txn]])[0])
            problem = f"a transaction has one status; this one has another on row {int(row[first[txn[at]]]) + 1}"
            raise wrong(at, problem)
    nothing = pc.is_null(there["value"]).to_numpy()
    if (nothing & (kind == Kind.WRITE)).any():
        raise wrong(int(np.flatnonzero(nothing & (kind == Kind.WRITE))[0]), "a write has no value")
    value = np.where(nothing, UNKNOWN_CODE, value)
    if "initial" in there:
        boolean = pa.types.is_boolean(there["initial"].type) or pa.types.is_null(there["initial"].type)
        _check_type(there["initial"], "initial", boolean, "true or false", name)
        value[pc.fill_null(there["initial"].cast(pa.bool_()), False).to_numpy()] = INITIAL_CODE
    start = (
        next((code for code, each in enumerate(values) if each == initial), None) if initial is not None else None
    )
    if start is not None and not (value[kind == Kind.WRITE] == start).any():
        value[value == start] = INITIAL_CODE
        start = None
    if "line" in there:
        _check_type(there["line"], "line", pa.types.is_integer(there["line"].type), "whole numbers", name)
        _no_nulls(there["line"], "line", lambda at, problem: InputError(problem, path=name, line=int(row[at]) + 1))
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


def _plain(column: pa.ChunkedArray, what: str, name: str) -> pa.ChunkedArray:
    """A column of plain values."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.string())
    _check_type(column, what, not pa.types.is_nested(column.type), "texts or numbers", name)
    return column


def codes(column: pa.ChunkedArray) -> tuple[Sequence[Any], NDArray[np.int64]]:
    """Distinct values in the order of their first appearance, and the code of each row; nulls are -1."""
    if pa.types.is_dictionary(column.type):  # its dictionary may have a value twice, or null
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode()
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), -1)
    return encoded.dictionary.to_pylist(), indices.to_numpy().copy()


def _in_runs(
    coded: tuple[Sequence[Any], NDArray[np.int64]], run: pa.ChunkedArray | None
) -> tuple[Sequence[Any], NDArray[np.int64]]:
    """Names and codes, apart for each run if there are runs: what one run wrote, no other has read."""
    if run is None:
        return coded
    (runs, of), (names, code) = codes(run), coded
    both, codes_of_both = codes(pa.chunked_array([pa.array(of * max(1, len(names)) + code)]))
    pairs = (divmod(each, max(1, len(names))) for each in both)
    return [f"{runs[first]}/{names[second]}" for first, second in pairs], codes_of_both


def _words(column: pa.ChunkedArray, known: Mapping[str, int], what: str, wrong: _Wrong) -> NDArray[np.int64]:
    words, coded = codes(column)
    meaning = np.array([known.get(str(word).lower(), -1) for word in words], np.int64)
    found = meaning[coded] if len(words) else coded
    others = np.flatnonzero(found < 0)
    if len(others):
        at = int(others[0])
        raise wrong(at, f"{what} is {words[int(coded[at])]!r}; {', '.join(known)} are known")
    return found


def _check_type(column: pa.ChunkedArray, what: str, right: bool, expected: str, name: str) -> None:
    if not right:
        raise InputError(f"column {what!r} must hold {expected}, not {column.type}", path=name)


def _no_nulls(column: pa.ChunkedArray, what: str, wrong: _Wrong) -> None:
    if column.null_count:
        raise wrong(int(np.flatnonzero(pc.is_null(column).to_numpy())[0]), f"{what} is null")
