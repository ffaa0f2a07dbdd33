"""Published anomalies as plain data, and the formats to write them in.

A history is a list of transactions: session, status, operations. Keys are small numbers, 0 is the initial value.
"""

import json
import struct
from pathlib import Path

from antecast.kv import INITIAL, HistoryBuilder, Status

OK, ABORTED, INDETERMINATE = Status.COMMITTED, Status.ABORTED, Status.INDETERMINATE
X, Y, A, B = 1, 2, 3, 4


def r(key, value):
    return ("r", key, value)


def w(key, value):
    return ("w", key, value)


def t(session, *operations, status=OK):
    return (session, status, operations)


ANOMALIES = {
    "thin-air-read": [t(0, r(X, 9))],
    "aborted-read": [t(0, w(X, 1), status=ABORTED), t(1, r(X, 1))],
    "future-read": [t(0, r(X, 1), w(X, 1))],
    "not-my-own-write": [t(0, w(X, 1)), t(1, w(X, 2), r(X, 1))],
    "not-my-last-write": [t(0, w(X, 1), w(X, 2), r(X, 1))],
    "intermediate-read": [t(0, w(X, 1), w(X, 2)), t(1, r(X, 1))],
    "cyclic-causal-order": [t(0, r(X, 2), w(Y, 1)), t(1, r(Y, 1), w(X, 2))],
    "non-monotonic-read-CO": [t(0, w(X, 1)), t(0, w(X, 2), w(Y, 2)), t(1, r(Y, 2), r(X, 1))],
    "non-monotonic-read-AO": [
        *(t(0, w(X, 1), w(Y, 1)), t(1, w(X, 2), w(Y, 2))),
        *(t(2, r(Y, 2), r(X, 1)), t(3, r(Y, 1), r(X, 2))),
    ],
    "non-repeatable-read": [t(0, w(X, 1)), t(1, w(X, 2)), t(2, r(X, 1), r(X, 2))],
    "fractured-read-CO": [t(0, w(X, 1), w(Y, 1)), t(0, w(X, 2), w(Y, 2)), t(1, r(X, 1), r(Y, 2))],
    "fractured-read-AO": [t(0, w(X, 1), w(Y, 1)), t(1, w(X, 2), w(Y, 2)), t(2, r(X, 1), r(Y, 2))],
    "conflict-CO": [t(0, w(X, 1)), t(0, w(X, 2)), t(1, r(X, 2)), t(1, w(Y, 1)), t(2, r(Y, 1)), t(2, r(X, 1))],
    "conflict-AO": [
        *(t(0, w(X, 1)), t(0, w(A, 1)), t(1, w(X, 2)), t(1, w(B, 1))),
        *(t(2, r(A, 1)), t(2, r(X, 2)), t(3, r(B, 1)), t(3, r(X, 1))),
    ],
}
"""The fourteen patterns of Plume, in their order."""

MEMORY = {
    "cyclic-happened-before": [
        *(t(1, w(A, 2)), t(0, r(A, 2)), t(0, w(A, 1)), t(0, w(X, 1)), t(0, w(Y, 1))),
        *(t(1, w(X, 2)), t(1, r(A, 2)), t(1, r(Y, 1)), t(1, r(X, 2))),
    ],
    "stale-initial-read": [
        *(t(0, w(A, 1)), t(0, w(X, 1)), t(0, w(Y, 1))),
        *(t(1, w(X, 2)), t(1, r(A, 0)), t(1, r(Y, 1)), t(1, r(X, 2))),
    ],
}
"""What causal memory forbids beyond these."""

CONVERGES_NOT = [t(0, w(X, 1)), t(0, r(X, 2)), t(1, w(X, 2)), t(1, r(X, 1))]
"""Each session sees its own write before the other's: CC and CM, not CCv."""
SHIFTING = MEMORY["stale-initial-read"]
"""CCv, not CM: the session finds nothing under a key, and later that it had seen it all along."""


def build(transactions):
    builder = HistoryBuilder()
    line = 0
    for session, status, operations in transactions:
        builder.begin(session, status)
        for kind, key, value in operations:
            line += 1
            if kind == "w":
                builder.write(key, value, line)
            else:
                builder.read(key, value or INITIAL, line)
    return builder.build()


def as_plume(transactions, folder: Path):
    lines = []
    for number, (session, status, operations) in enumerate(transactions):
        txn = -1 if status == ABORTED else number
        lines += [f"{kind}({key},{value},{session},{txn})\n" for kind, key, value in operations]
    (folder / "history.txt").write_text("".join(lines))
    return [folder / "history.txt"]


def as_dbcop(transactions, folder: Path):
    sessions = {}
    for session, status, operations in transactions:
        names = {"r": "Read", "w": "Write"}
        events = [{names[kind]: {"variable": key, "version": value or None}} for kind, key, value in operations]
        sessions.setdefault(session, []).append({"events": events, "committed": status == OK})
    (folder / "history.json").write_text(json.dumps(list(sessions.values()), indent=1))
    return [folder / "history.json"]


def as_elle(transactions, folder: Path):
    lines = ["; a register history\n"]
    kinds = {OK: ":ok", ABORTED: ":fail", INDETERMINATE: ":info"}
    for session, status, operations in transactions:
        asked = " ".join(f"[:{kind} {key} {value if kind == 'w' else 'nil'}]" for kind, key, value in operations)
        got = " ".join(f"[:{kind} {key} {value or 'nil'}]" for kind, key, value in operations)
        lines.append(f"{{:type :invoke, :process {session}, :f :txn, :value [{asked}]}}\n")
        value = got if status == OK else asked
        lines.append(f"{{:type {kinds[status]}, :process {session}, :f :txn, :value [{value}]}}\n")
    (folder / "history.edn").write_text("".join(lines))
    return [folder / "history.edn"]


def as_cobra(transactions, folder: Path):
    files = {}
    for number, (session, status, operations) in enumerate(transactions):
        records = b"S" + struct.pack(">Q", number)
        for kind, key, value in operations:
            if kind == "w":
                records += b"W" + struct.pack(">QQQ", value, key, 7)
            else:
                records += b"R" + struct.pack(">QQQQ", 0, value or 0xBEBEEBEE, key, 7)
        if status != INDETERMINATE:
            records += (b"C" if status == OK else b"A") + struct.pack(">Q", number)
        files[session] = files.get(session, b"") + records
    for session, data in files.items():
        (folder / f"client{session}.log").write_bytes(data)
    return sorted(folder.glob("*.log"))


def as_lists(transactions, folder: Path):
    """Appends in place of writes; a read returns all that the file has up to its value."""
    written = {}
    for _, _, operations in transactions:
        for kind, key, value in operations:
            written.setdefault(key, []).extend([value] if kind == "w" else [])
    lines = []
    for session, status, operations in transactions:
        told = []
        for kind, key, value in operations:
            known = written[key]
            seen = [*known[: known.index(value)], value] if value in known else [value] * bool(value)
            told.append(f"[:append {key} {value}]" if kind == "w" else f"[:r {key} [{' '.join(map(str, seen))}]]")
        kind = {OK: "ok", ABORTED: "fail", INDETERMINATE: "info"}[status]
        lines.append(f"{{:type :{kind}, :process {session}, :f :txn, :value [{' '.join(told)}]}}\n")
    (folder / "lists.edn").write_text("".join(lines))
    return [folder / "lists.edn"]


def as_rows(transactions, folder: Path):
    """A table with a row per operation, as JSON lines."""
    words = {OK: "committed", ABORTED: "aborted", INDETERMINATE: "indeterminate"}
    rows = [
        {"session": session, "txn": number, "kind": kind, "key": key, "value": value or None}
        | {"initial": not value, "status": words[status]}
        for number, (session, status, operations) in enumerate(transactions)
        for kind, key, value in operations
    ]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return [folder / "rows.jsonl"]


FORMATS = {"plume": as_plume, "dbcop": as_dbcop, "elle": as_elle, "cobra": as_cobra}
