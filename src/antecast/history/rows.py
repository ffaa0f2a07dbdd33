"""Rows of an event log as arrays, checked: the one place where columns, types and nulls are judged.

Only node, pos, kind, origin and seq are needed, `run` and `t` are used where present. A log may have one column
`message` in place of origin and seq. Node, origin and message may be integers or strings and stay what they are;
pos and seq become 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.errors import AntecastError

IntArray: TypeAlias = NDArray[np.int32]
LongArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

Batches: TypeAlias = Iterable[pa.RecordBatch]
Events: TypeAlias = pa.Table | Batches | Callable[[], Batches]
"""An event log: a table, batches, or a callable that starts reading the batches anew each time."""

BATCH_ROWS = 1 << 20
"""Rows of a table looked at together: large enough to forget the cost of a batch, 40 MB at the most."""

COLUMNS = ("run", "node", "pos", "t", "kind", "origin", "seq")
ALL_COLUMNS = (*COLUMNS, "message")
"""All that a log may have; `message` counts where there is no `seq`."""


class BrokenLog(AntecastError):
    """The log contradicts itself or lacks a value it must have, so no verdict can rest on it.

    The text starts with the node and the position; whoever knows the file and the row adds them.
    """

    def __init__(
        self,
        problem: str,
        *,
        run: object = None,
        node: object = None,
        pos: int | None = None,
        origin: object = None,
        seq: int | None = None,
        message: object = None,
    ) -> None:
        places = (("run", run), ("node", node), ("position", pos))
        where = ", ".join(f"{word} {value}" for word, value in places if value is not None)
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.run = run
        self.node = node
        self.pos = pos
        self.origin = origin
        self.seq = seq
        self.message = message


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of some kinds in one batch; `kind` is the index of a row's kind among those asked for.

    Messages are named by `origin` and `seq`, or all of them by `message`; then the other two mean nothing.
    """

    run: pa.Array | None
    node: pa.Array
    pos: LongArray
    kind: NDArray[np.int8]
    origin: pa.Array
    seq: LongArray
    t: LongArray | None
    message: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.pos)


def rereadable(events: Events) -> Callable[[], Batches]:
    """A way to read the batches of a log more than once.

    A table, a sequence of batches and a callable are read anew each time. Anything else can be read
    only once, and what the auditor needs of it is kept in memory.
    """
    if isinstance(events, pa.Table):
        table = events.select([name for name in ALL_COLUMNS if name in events.column_names])
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)  # keeps the types of a log without rows
        return lambda: table.to_batches(max_chunksize=BATCH_ROWS) or [empty]
    if callable(events):
        return events
    if isinstance(events, Sequence):
        batches = events
        return lambda: batches
    kept = [_needed(batch) for batch in events]
    return lambda: kept


def _needed(batch: pa.RecordBatch) -> pa.RecordBatch:
    kind = _kind_of(batch, ("broadcast", "deliver"))
    return batch.select([name for name in ALL_COLUMNS if name in batch.schema.names]).filter(pa.array(kind >= 0))


def read_rows(batch: pa.RecordBatch, kinds: Sequence[str], *, timed: bool = False) -> Rows:
    """The rows of these kinds; `timed` asks for `t` as well. Raises `BrokenLog` for what cannot be used."""
    kind = _kind_of(batch, kinds)
    wanted = kind >= 0
    if not wanted.all():
        batch, kind = batch.filter(pa.array(wanted)), kind[wanted]
    named = "message" in batch.schema.names and "seq" not in batch.schema.names
    for name in ("node", "message" if named else "origin"):
        column = _column(batch, name)
        if column.null_count:
            _broken(batch, _first_null(column), f"{name} is null")
    return Rows(
        run=_run(batch),
        node=_column(batch, "node"),
        pos=_whole(batch, "pos", negative=False),
        kind=kind,
        origin=_column(batch, "node" if named else "origin"),
        seq=np.zeros(len(batch), np.int64) if named else _whole(batch, "seq", negative=False),
        t=_whole(batch, "t", negative=True) if timed else None,
        message=_column(batch, "message") if named else None,
    )


def factorise(column: pa.Array) -> tuple[IntArray, list[object]]:
    """Codes and the values they stand for, among which may be values that no row uses."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes: IntArray = column.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return codes, column.dictionary.to_pylist()


def _kind_of(batch: pa.RecordBatch, kinds: Sequence[str]) -> NDArray[np.int8]:
    column = _column(batch, "kind")
    if column.null_count:
        _broken(batch, _first_null(column), "kind is null")
    codes, words = factorise(column)
    lookup = np.array([kinds.index(word) if word in kinds else -1 for word in words], np.int8)
    return lookup[codes] if len(words) else np.empty(0, np.int8)


def _run(batch: pa.RecordBatch) -> pa.Array | None:
    if "run" not in batch.schema.names:
        return None
    column = _column(batch, "run")
    if column.null_count:
        _broken(batch, _first_null(column), "run is null")
    return column


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise BrokenLog(f"no column {name!r}; the log has {', '.join(batch.schema.names)}")
    column = batch.column(index)
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        return column.cast(column.type.value_type)  # a null inside the dictionary becomes a plain null
    return column


def _whole(batch: pa.RecordBatch, name: str, *, negative: bool) -> LongArray:
    """A column of whole numbers without nulls."""
    column = _column(batch, name)
    if column.null_count:
        _broken(batch, _first_null(column), f"{name} is null")
    if not pa.types.is_integer(column.type):
        raise BrokenLog(f"column {name!r} must hold integers, not {column.type}")
    try:
        values: LongArray = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise BrokenLog(f"column {name!r} holds numbers above 2^63") from None
    if not negative and len(values) and values.min() < 0:
        row = int(np.argmax(values < 0))
        _broken(batch, row, f"{name} is negative ({values[row]})")
    return values


def _first_null(column: pa.Array) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _broken(batch: pa.RecordBatch, row: int, problem: str) -> NoReturn:
    """Raise for one row, with as much of its name as the row itself gives."""
    known = {
        name: batch.column(name)[row].as_py()
        for name in ("run", "node", "pos", "origin", "seq", "message")
        if name in batch.schema.names
    }
    raise BrokenLog(problem, **known)
