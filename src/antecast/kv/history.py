"""A history: sessions of transactions of reads and writes, as columns.

A session is what one client did, one transaction after the other; an operation outside of a transaction is a
transaction of its own. Transactions of a session stand in the order in which they ran, operations of a transaction
in program order. Keys and values are codes into tables of names, so that a history of millions of operations is a
few arrays. Every operation has the file and the line it was read from.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int32]
LongArray: TypeAlias = NDArray[np.int64]
Names: TypeAlias = Sequence[Any] | NDArray[Any]


class Status(IntEnum):
    """What became of a transaction."""

    COMMITTED = 0
    ABORTED = 1
    INDETERMINATE = 2
    """Nobody knows: the client timed out, or the log ends before the answer."""


class Kind(IntEnum):
    """What an operation does."""

    READ = 0
    WRITE = 1
    OBSERVE = 2
    """A write that a read of a list shows beside the last one: the reader depends on it."""


class _Special:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


INITIAL: Final = _Special("the initial value")
"""What a read returns that finds nothing written."""
UNKNOWN: Final = _Special("an unknown value")
"""The result of a read that the log does not tell."""

INITIAL_CODE, UNKNOWN_CODE = -1, -2


class Place(NamedTuple):
    """Where an operation stands; lines count from 1, 0 if the log has no lines."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, eq=False)
class History:
    """Operations by transaction: those of a transaction are together, in program order.

    `initial` is the code of a value that keys have before anything is written, where that value can be written,
    too (0 in some formats); a read of `INITIAL_CODE` always means the initial state.
    """

    txn: IntArray
    """The transaction of each operation, ascending."""
    kind: NDArray[np.int8]
    key: IntArray
    value: LongArray
    """Codes of values; what is equal has the same code, whatever the key."""
    line: LongArray
    file: IntArray
    session: IntArray
    """The session of each transaction. Transactions of one session are in its order."""
    status: NDArray[np.int8]
    keys: Names
    values: Names | None
    """Names of the values; None if a code is the value itself."""
    sessions: Names
    txns: Names | None = None
    """Names of the transactions; None if they are numbered."""
    files: Sequence[str] = ("history",)
    initial: int | None = None
    lists: bool = False
    """Whether writes are appends to lists and reads return the whole list."""
    notes: tuple[str, ...] = ()
    """What the reader of the format left out or assumed."""

    def __len__(self) -> int:
        return len(self.txn)

    def place(self, op: int) -> Place:
        return Place(self.files[int(self.file[op])], int(self.line[op]))

    def value_name(self, op: int) -> str:
        code = int(self.value[op])
        if code < 0:
            return "nothing" if code == INITIAL_CODE else "?"
        return str(code if self.values is None else self.values[code])

    def describe(self, op: int) -> str:
        """An operation in a few words, such as `write x=1`."""
        key, value = self.keys[int(self.key[op])], self.value_name(op)
        if self.kind[op] == Kind.WRITE:
            return f"{'append to' if self.lists else 'write'} {key}{' ' if self.lists else '='}{value}"
        if self.lists:
            return f"read {key} ending in {value}" if value != "nothing" else f"read {key} empty"
        return f"read {key}={value}"

    def txn_name(self, txn: int) -> str:
        return f"T{txn + 1 if self.txns is None else self.txns[txn]}"

    def subset(self, ops: NDArray[np.bool_], value: LongArray) -> History:
        """Some of the operations, with other values; transactions that have none of them are gone."""
        chosen = np.zeros(len(self.session), np.bool_)
        chosen[self.txn[ops]] = True
        renumber = np.cumsum(chosen) - 1
        return replace(
            self,
            txn=renumber[self.txn[ops]].astype(np.int32),
            kind=self.kind[ops],
            key=self.key[ops],
            value=value[ops],
            line=self.line[ops],
            file=self.file[ops],
            session=self.session[chosen],
            status=self.status[chosen],
            values=None,
            txns=None,
            initial=None,
        )

    def operations(self) -> pa.Table:
        """One row per operation, with names in place of codes: what `antecast.kv.tables` reads.

        A read of the initial state is marked in the column `initial`; one without a known result has no value. A
        table cannot say that a read may mean either, so one of a value that is also the initial one has none.
        """
        kinds = ["read", "append" if self.lists else "write", "observe"]
        told = self.value >= 0
        if self.initial is not None:
            told &= (self.value != self.initial) | (self.kind == Kind.WRITE)
        values = pa.array(self.value).cast(pa.string()) if self.values is None else None
        if values is None:
            values = _named([*self.values, ""], np.where(told, self.value, -1))  # type: ignore[misc]
        return pa.table(
            {
                "session": _named(self.sessions, self.session[self.txn]),
                "txn": _named([self.txn_name(each)[1:] for each in range(len(self.session))], self.txn),
                "status": _named([status.name.lower() for status in Status], self.status[self.txn]),
                "kind": _named(kinds, self.kind),
                "key": _named(self.keys, self.key),
                "value": pc.if_else(pa.array(told), values, pa.scalar(None, pa.string())),
                "initial": self.value == INITIAL_CODE,
                "file": _named(self.files, self.file),
                "line": self.line,
            }
        )


def resumed(session: NDArray[Any], txn: NDArray[Any]) -> int | None:
    """The first operation, of those that stand in order, that goes on with a transaction after its session has
    begun another: a session runs one at a time, so such rows are not in order. `txn` are codes.

    >>> resumed(np.array([0, 0, 1, 0]), np.array([0, 1, 2, 0]))
    3
    """
    order = np.argsort(session, kind="stable")
    begins = np.flatnonzero(np.diff(txn[order], prepend=-1))
    _, first = np.unique(txn[order][begins], return_index=True)
    again = np.delete(order[begins], first)
    return int(again.min()) if len(again) else None


def _named(names: Names, codes: NDArray[Any]) -> pa.Array:
    """The names that codes stand for; -1 is the last one."""
    return pa.array(_texts(names), pa.string()).take(pa.array(codes % max(1, len(names))))


def _texts(names: Names) -> list[str]:
    """Names as texts that are as many: a keyword and the text of its name, or 1 and "1", are two keys.

    >>> _texts(["x", 1, "1", "2"])
    ['x', '1', '1 (str)', '2']
    """
    texts = [str(name) for name in names]
    if len(set(texts)) == len(texts):
        return texts
    taken = dict.fromkeys(texts, 0)
    for at, (name, text) in enumerate(zip(names, texts, strict=True)):
        taken[text] += 1
        if taken[text] > 1:
            other = f"{text} ({type(name).__name__.lower()})"
            while other in taken:
                other += "'"
            taken[other] = 1
            texts[at] = other
    return texts


def _told_apart(value: Hashable) -> tuple[type | None, Hashable]:
    """A key for a table of names: in Python True equals 1, and a keyword of EDN its text; in a history not."""
    return type(value) if isinstance(value, bool | str) else None, value


@dataclass
class HistoryBuilder:
    """A history, one operation at a time.

    >>> builder = HistoryBuilder()
    >>> builder.begin("alice")
    >>> builder.write("x", 1)
    >>> builder.begin("bob")
    >>> builder.read("x", 1)
    >>> len(builder.build())
    2
    """

    files: list[str] = field(default_factory=lambda: ["history"])
    lists: bool = False
    _txn: list[int] = field(default_factory=list)
    _kind: list[int] = field(default_factory=list)
    _key: list[int] = field(default_factory=list)
    _value: list[int] = field(default_factory=list)
    _line: list[int] = field(default_factory=list)
    _file: list[int] = field(default_factory=list)
    _session: list[int] = field(default_factory=list)
    _status: list[int] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _keys: dict[tuple[type | None, Hashable], int] = field(default_factory=dict)
    _values: dict[tuple[type | None, Hashable], int] = field(default_factory=dict)
    _sessions: dict[Hashable, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def begin(self, session: Hashable, status: Status = Status.COMMITTED, name: object = None) -> None:
        """Start the next transaction of a session."""
        self._session.append(self._sessions.setdefault(session, len(self._sessions)))
        self._status.append(status)
        self._names.append(str(len(self._names) + 1 if name is None else name))

    def read(self, key: Hashable, value: Hashable, line: int = 0, file: int = 0) -> None:
        """A read and its result, `INITIAL` or `UNKNOWN` included."""
        self._operation(Kind.READ, key, value, line, file)

    def write(self, key: Hashable, value: Hashable, line: int = 0, file: int = 0) -> None:
        self._operation(Kind.WRITE, key, value, line, file)

    def observe(self, key: Hashable, value: Hashable, line: int = 0, file: int = 0) -> None:
        """A value that the read which follows shows beside the last one."""
        self._operation(Kind.OBSERVE, key, value, line, file)

    def build(self, *, initial: Hashable = None) -> History:
        """The history; `initial` is a value that keys have at first and that can be written, too."""
        return History(
            np.array(self._txn, np.int32),
            np.array(self._kind, np.int8),
            np.array(self._key, np.int32),
            np.array(self._value, np.int64),
            np.array(self._line, np.int64),
            np.array(self._file, np.int32),
            np.array(self._session, np.int32),
            np.array(self._status, np.int8),
            [key for _, key in self._keys],
            [value for _, value in self._values],
            list(self._sessions),
            self._names,
            self.files,
            None if initial is None else self._values.get(_told_apart(initial)),
            self.lists,
            tuple(self.notes),
        )

    def _operation(self, kind: Kind, key: Hashable, value: Hashable, line: int, file: int) -> None:
        self._txn.append(len(self._session) - 1)
        self._kind.append(kind)
        self._key.append(self._keys.setdefault(_told_apart(key), len(self._keys)))
        if value is INITIAL or value is UNKNOWN:
            self._value.append(INITIAL_CODE if value is INITIAL else UNKNOWN_CODE)
        else:
            self._value.append(self._values.setdefault(_told_apart(value), len(self._values)))
        self._line.append(line)
        self._file.append(file)
