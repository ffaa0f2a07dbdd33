"""Plume's text, which PolySI and AWDIT read as well: an operation per line, `w(key,value,session,transaction)`.

All four are whole numbers. Transactions of a session run one after the other, in the order of their lines: one
that goes on after the next has begun shows that the lines are not in order. Transaction -1 is one that was
aborted. The value 0 is the initial state; where it is written, too, a read of it may mean either.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
from numpy.typing import NDArray

from antecast.importers.source import Head, Place, Source, decoded
from antecast.kv.history import INITIAL_CODE, History, Kind, LongArray, Status, resumed

NAME = "plume"
MODEL = "kv"

_LINE = re.compile(r"\s*([rw])\s*\(\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*\)\s*")
_ABORTED = -1
_LONG = 64
"""Digits beyond which a number does not fit, leading zeros or not."""
_COMMAS = bytes.maketrans(b"rw(", b"01,")
_DIGITS = np.zeros(256, np.bool_)
_DIGITS[list(b"0123456789-")] = True


def recognises(head: Head) -> bool:
    """By the first line and most of those after it: what is wrong with the others is told with their lines."""
    lines = head.lines[:20]
    right = [bool(_LINE.fullmatch(line)) for line in lines]
    return bool(lines) and right[0] and 2 * sum(right) > len(right)


def read(source: Source) -> History:
    columns, lines, files = [], [], []
    for number, (file, data) in enumerate(source.documents()):
        rows = _quickly(data)
        if rows is None:
            rows = _line_by_line(source, str(file), data)
        kept = rows[:, 5] if rows.shape[1] == 6 else np.arange(1, len(rows) + 1)
        columns.append(rows[:, :5])
        lines.append(kept)
        files.append(np.full(len(rows), number, np.int32))
    rows = np.concatenate(columns)
    return _history(source, rows, np.concatenate(lines), np.concatenate(files))


def _quickly(data: bytes) -> NDArray[np.int64] | None:
    """All lines at once, if every one of them is exactly as it should be; None if one is not."""
    text = data if data.endswith(b"\n") else data + b"\n"
    raw = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(raw == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    n = len(ends)
    if (ends - starts < 9).any():
        return None
    name, opens, closes, commas = raw[starts], raw == ord("("), raw == ord(")"), raw == ord(",")
    right = ((name == ord("r")) | (name == ord("w"))) & opens[starts + 1] & closes[ends - 1]
    known = int(_DIGITS[raw].sum()) + 6 * n + n == len(raw)
    if not right.all() or not known or opens.sum() != n or closes.sum() != n or commas.sum() != 3 * n:
        return None
    options = {
        "read_options": pc_csv.ReadOptions(column_names=list("okvst"), block_size=64 << 20),
        "convert_options": pc_csv.ConvertOptions(column_types=dict.fromkeys("okvst", pa.int64())),
    }
    try:
        table = pc_csv.read_csv(io.BytesIO(text.translate(_COMMAS, b")")), **options)
    except pa.ArrowInvalid:
        return None
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _line_by_line(source: Source, name: str, data: bytes) -> NDArray[np.int64]:
    """The same with blanks, and with the line of what is wrong."""
    rows = []
    for number, raw in enumerate(data.split(b"\n"), 1):
        if len(raw) > source.options.max_line:
            raise Place(name, number).error(f"the line is longer than {source.options.max_line} bytes")
        line = decoded(name, number, raw)
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            problem = f"{line[:80]!r} is not w(key,value,session,transaction) or r(...) of whole numbers"
            raise Place(name, number).error(problem)
        values = [int(each) if len(each) < _LONG else 2**63 for each in found.groups()[1:]]
        if max(map(abs, values)) >= 2**63:
            raise Place(name, number).error("a number does not fit into 64 bits")
        rows.append([found.group(1) == "w", *values, number])
    return np.array(rows, np.int64).reshape(-1, 6)


def _history(source: Source, rows: NDArray[np.int64], line: LongArray, file: NDArray[np.int32]) -> History:
    n = len(rows)
    aborted = rows[:, 4] == _ABORTED
    sessions, session = _codes(rows[:, 2 + 1])
    names, name = _codes(rows[:, 4])
    # Each aborted operation is a transaction by itself: which belong together is not told.
    apart = np.where(aborted, len(names) + np.arange(n), name)
    _, txn = _codes(session.astype(np.int64) * (len(names) + n) + apart)
    for number, name_of_file in enumerate(map(str, source.files)):
        told = np.flatnonzero((file == number) & ~aborted)
        if (again := resumed(session[told], txn[told])) is not None:
            op = told[again]
            problem = f"transaction {rows[op, 4]} goes on after another of session {rows[op, 3]} has begun"
            raise Place(name_of_file, int(line[op])).error(problem)
    first = np.full(int(txn.max(initial=-1)) + 1, n, np.int64)
    np.minimum.at(first, txn, np.arange(n)) if n else None
    order = np.argsort(txn, kind="stable")
    keys, key = _codes(rows[:, 1])
    values, value = _codes(rows[:, 2])
    kind = np.where(rows[:, 0] == 1, Kind.WRITE, Kind.READ).astype(np.int8)
    value_code = value.astype(np.int64)
    zero = np.flatnonzero(values == 0)
    initial = int(zero[0]) if len(zero) else None
    if initial is not None and not np.any((kind == Kind.WRITE) & (value_code == initial)):
        value_code[value_code == initial] = INITIAL_CODE
        initial = None
    return History(
        txn[order].astype(np.int32),
        kind[order],
        key[order].astype(np.int32),
        value_code[order],
        line[order],
        file[order],
        session[first].astype(np.int32),
        np.where(aborted[first], Status.ABORTED, Status.COMMITTED).astype(np.int8),
        keys,
        values,
        sessions,
        names[name[first]],
        [str(each) for each in source.files],
        initial,
    )


def _codes(column: NDArray[np.int64]) -> tuple[Any, NDArray[np.int32]]:
    """Distinct values in the order of their first appearance, and the code of each row."""
    encoded = pa.array(column).dictionary_encode()
    return encoded.dictionary.to_numpy(zero_copy_only=False), encoded.indices.to_numpy(zero_copy_only=False)
