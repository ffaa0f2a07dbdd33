"""One group's step under explicit dependencies: rows that say by id which rows they need.

A pure function on Arrow tables and bytes, as `observe_group` is for timestamps. A row goes when every id that it
needs has gone before it; rows that can go at the same time go in the order of their arrival. The state is the rows
that wait, the ids that went last, and those that rows went without: all three are bounded.

A row whose wait is over is *given up*. Released, it goes without what is missing, and what it needs among the rows
that wait goes before it: rows that are here never pass each other. Quarantined, it is refused with a reason.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.spark.observe_group import DUPLICATE, LATE
from antecast.spark.observe_rows import joined, read_stream, values_of, write_stream

GiveUp: TypeAlias = Literal["release", "quarantine"]
Late: TypeAlias = Literal["deliver", "refuse"]

NO_ID = "the id is missing"
HOLE = "one of the ids that it needs is missing"
ITSELF = "it needs itself"
NEVER = "what it needs did not come in time"
CROWD = "too many rows wait"

ID, NEEDS, ARRIVED, NUMBER = "__id", "__needs", "__arrived", "__number"
DIGEST = pa.binary(16)


class Header(msgspec.Struct, omit_defaults=True):
    """The part of the state that is there for every group."""

    made: str = ""
    """The settings, in words."""
    ids: str = ""
    """What kind of values ids are: of another kind, none would be equal to one that has gone."""
    position: int = 0
    number: int = 0
    """Rows that have come so far."""
    clock: int = 0
    """Milliseconds that count as waited."""
    real: int | None = None
    """Spark's time at the last step, in milliseconds."""
    timer: int | None = None
    gone: int = 0
    without: int = 0
    """How many ids there are of each kind in the state."""


@dataclass(frozen=True)
class State:
    header: Header
    rows: pa.Table | None = None
    """The rows that wait, with their digests and what they still need."""
    gone: tuple[bytes, ...] = ()
    """The ids of rows that went last, the newest at the end."""
    without: tuple[bytes, ...] = ()
    """Ids that rows went without."""

    @property
    def waiting(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    def dump(self) -> bytes:
        self.header.gone, self.header.without = len(self.gone), len(self.without)
        header = msgspec.json.encode(self.header)
        rows = b"" if self.rows is None else write_stream(self.rows)
        return b"".join([len(header).to_bytes(4, "big"), header, *self.gone, *self.without, rows])

    @classmethod
    def load(cls, data: bytes | None) -> State:
        if data is None:
            return cls(Header())
        start = 4 + int.from_bytes(data[:4], "big")
        header = msgspec.json.decode(data[4:start], type=Header)
        places = [start + 16 * each for each in range(header.gone + header.without + 1)]
        ids = [data[place : place + 16] for place in places[:-1]]
        rest = data[places[-1] :]
        rows = read_stream(rest) if rest else None
        return cls(header, rows, tuple(ids[: header.gone]), tuple(ids[header.gone :]))


@dataclass(frozen=True)
class Step:
    state: State
    out: pa.Table | None
    """Rows that leave: those that went in their order, then those that were refused."""


@dataclass
class _Work:
    """The rows of a step, by their place in the table of all of them."""

    ids: list[bytes]
    numbers: list[int]
    unmet: list[set[bytes]]
    gone: dict[bytes, None]
    without: dict[bytes, None]
    waiters: dict[bytes, list[int]] = field(default_factory=dict)
    here: dict[bytes, int] = field(default_factory=dict)
    """Rows that wait, by id."""
    went: list[int] = field(default_factory=list)
    missing: dict[int, list[bytes]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)

    def wait(self, row: int) -> None:
        self.here[self.ids[row]] = row
        for each in self.unmet[row]:
            self.waiters.setdefault(each, []).append(row)

    def go(self, rows: Iterable[int]) -> None:
        """Let rows go, and all that can go then, in the order of arrival."""
        ready = [(self.numbers[row], row) for row in rows]
        heapq.heapify(ready)
        while ready:
            _, row = heapq.heappop(ready)
            name = self.ids[row]
            self.here.pop(name, None)
            self.went.append(row)
            self.gone[name] = None
            if name in self.without:
                del self.without[name]
                self.late.add(row)
            for other in self.waiters.pop(name, ()):
                self.unmet[other].discard(name)
                if not self.unmet[other] and self.is_waiting(other):
                    heapq.heappush(ready, (self.numbers[other], other))

    def release(self, row: int) -> None:
        """Let a row go without what is missing; what it needs among those that wait goes before it."""
        path, open_rows = [(row, self._needed(row))], {row}
        while path:
            top, needed = path[-1]
            if not self.is_waiting(top):
                path.pop()
                continue
            nearest = next((each for each in needed if self.is_waiting(each) and each not in open_rows), None)
            if nearest is not None:
                path.append((nearest, self._needed(nearest)))
                open_rows.add(nearest)
                continue
            path.pop()
            lacking = sorted(self.unmet[top])
            if lacking:
                self.missing[top] = lacking
                self.without.update(dict.fromkeys(lacking))
                self.unmet[top] = set()
            self.go([top])

    def is_waiting(self, row: int) -> bool:
        return self.here.get(self.ids[row]) == row

    def _needed(self, row: int) -> Iterator[int]:
        """Rows that wait and that it needs, in the order of arrival. While one is released, none comes."""
        found = [self.here[each] for each in self.unmet[row] if each in self.here]
        return iter(sorted(found, key=self.numbers.__getitem__))


@dataclass(frozen=True, kw_only=True)
class NeedsGroup:
    """How to take a step; the same for all groups."""

    key: tuple[str, ...]
    id: str
    needs: str
    arrival: str | None
    wait: int | None
    """Milliseconds."""
    event: str | None = None
    """A column of timestamps from which the wait counts, if the watermark is the clock."""
    most: int
    remember: int
    give_up: GiveUp
    late: Late

    @property
    def made(self) -> str:
        return f"id {self.id}, needs {self.needs}, key {'/'.join(self.key)}"

    def step(self, state: State, new: Sequence[pa.Table], *, real: int | None = None, flush: bool = False) -> Step:
        """Take new rows; then Spark's time is `real`. With `flush`, whatever waits is given up."""
        header = msgspec.structs.replace(state.header)
        if header.made not in ("", self.made):
            problem = f"the checkpoint was made with {header.made}; this query has {self.made}"
            raise ConfigurationError(f"{problem}; use those settings, or a new checkpoint")
        header.made = self.made
        for each in new:
            kind = _kind_of_ids(each.schema.field(self.id).type)
            if header.ids not in ("", kind):
                problem = f"the checkpoint has ids that are {header.ids}, and {self.id!r} has {kind} now"
                raise ConfigurationError(
                    f"{problem}; cast the column, and {self.needs!r}, or use a new checkpoint"
                )
            header.ids = kind
        self._advance(header, real)
        table, fresh = self._all_rows(state, new)
        if table is None:
            return Step(State(header, None, state.gone, state.without), None)
        old = state.waiting
        arrived = [*_longs(state.rows, ARRIVED), *self._arrivals(table.slice(old), header.clock)]
        if self.event is not None and not state.header.clock:
            # Before there was a watermark, rows without a time of their own began to wait at no time.
            arrived = [each or header.clock for each in arrived]
        work = _Work(
            ids=table.column(ID).to_pylist(),
            numbers=[*_longs(state.rows, NUMBER), *range(header.number, header.number + len(table) - old)],
            unmet=[set(each or ()) for each in table.column(NEEDS).to_pylist()],
            gone=dict.fromkeys(state.gone),
            without=dict.fromkeys(state.without),
        )
        header.number += len(table) - old
        refused = self._take_in(work, old, fresh)
        self._give_up(work, arrived, header.clock, refused, flush=flush)
        out = self._out(table, work, arrived, header, refused)
        kept = sorted(work.here.values(), key=lambda row: work.numbers[row])
        rows = self._kept(table, work, arrived, kept) if kept else None
        return Step(
            State(header, rows, _newest(work.gone, self.remember), _newest(work.without, self.remember)), out
        )

    def due(self, state: State) -> int | None:
        """In how many milliseconds of the group's clock a row is given up."""
        if state.rows is None or self.wait is None:
            return None
        return max(0, min(_longs(state.rows, ARRIVED)) + self.wait - state.header.clock)

    def _advance(self, header: Header, real: int | None) -> None:
        """Time counts as waited while the query runs: after an outage, what was missed has yet to be read."""
        if real is None:
            return
        if self.event is not None:
            header.clock = max(header.clock, real)
        elif header.real is not None:
            passed = max(0, real - header.real)
            header.clock += passed if self.wait is None else min(passed, max(1, self.wait // 4))
        header.real = real

    def _arrivals(self, fresh: pa.Table, clock: int) -> list[int]:
        """From when on new rows wait: from now, or from their own time."""
        if self.event is None:
            return [clock] * len(fresh)
        micros = fresh.column(self.event).cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        return [clock if each is None else each // 1000 for each in micros]

    def _all_rows(self, state: State, new: Sequence[pa.Table]) -> tuple[pa.Table | None, list[str | None]]:
        """Rows that wait and new ones in the order of arrival; and what is wrong with each of the new ones."""
        tables = [] if state.rows is None else [state.rows]
        faults: list[str | None] = []
        if new:
            fresh = joined(new).combine_chunks()
            ids = digests(fresh.column(self.id))
            needs = digest_lists(fresh.column(self.needs))
            first = _places(fresh.column(self.arrival)) if self.arrival else [0] * len(fresh)
            # Without an order of arrival the ids decide: a micro-batch that runs again must give the same order.
            order = sorted(range(len(fresh)), key=lambda row: (first[row] is None, first[row], ids[row] or b""))
            holes = [None in (needs[row] or ()) for row in order]
            faults = [
                NO_ID if ids[row] is None else HOLE if hole else None
                for row, hole in zip(order, holes, strict=True)
            ]
            fresh = fresh.take(order)
            fresh = fresh.append_column(ID, pa.array([ids[row] or bytes(16) for row in order], DIGEST))
            lists = [[each for each in needs[row] or () if each is not None] for row in order]
            tables.append(fresh.append_column(NEEDS, pa.array(lists, pa.list_(DIGEST))))
        return (joined(tables).combine_chunks() if tables else None), faults

    def _take_in(self, work: _Work, old: int, faults: Sequence[str | None]) -> dict[int, str]:
        """Rows that wait take their places; new ones go, wait, or are refused."""
        refused: dict[int, str] = {}
        for row in range(old):
            work.wait(row)
        for row, fault in enumerate(faults, old):
            name = work.ids[row]
            if fault is None and (name in work.gone or name in work.here):
                fault = DUPLICATE
            elif fault is None and name in work.unmet[row]:
                fault = ITSELF
            elif fault is None and self.late == "refuse" and name in work.without:
                fault = LATE
            if fault is not None:
                refused[row] = fault
                continue
            work.unmet[row] = {each for each in work.unmet[row] if each not in work.gone}
            if work.unmet[row]:
                work.wait(row)
            else:
                work.go([row])
        return refused

    def _give_up(
        self, work: _Work, arrived: Sequence[int], clock: int, refused: dict[int, str], *, flush: bool
    ) -> None:
        waiting = sorted(work.here.values(), key=lambda row: work.numbers[row])
        for row in waiting:
            crowded = len(work.here) > self.most  # a row that goes may take others along
            late = flush or (self.wait is not None and arrived[row] + self.wait <= clock)
            if not (crowded or late) or not work.is_waiting(row):
                continue
            if self.give_up == "release":
                work.release(row)
            else:
                work.here.pop(work.ids[row])
                work.missing[row] = sorted(work.unmet[row])
                refused[row] = NEVER if late else CROWD

    def _out(
        self, table: pa.Table, work: _Work, arrived: Sequence[int], header: Header, refused: dict[int, str]
    ) -> pa.Table | None:
        went, bad = work.went, sorted(refused)
        if not went and not bad:
            return None
        first, header.position = header.position, header.position + len(went)
        rows = table.take([*went, *bad])
        nothing = [None] * len(bad)
        columns = {
            "position": pa.array([*range(first, header.position), *nothing], pa.int64()),
            "waited": pa.array([*(max(0, header.clock - arrived[row]) for row in went), *nothing], pa.int64()),
            "late": pa.array([*(row in work.late for row in went), *nothing], pa.bool_()),
            "reason": pa.array([*([None] * len(went)), *(refused[row] for row in bad)], pa.string()),
            "missing": self._missing(rows, [work.missing.get(row) for row in (*went, *bad)]),
        }
        rows = self._plain(rows)
        for name, column in columns.items():
            rows = rows.append_column(name, column)
        return rows

    def _missing(self, rows: pa.Table, lacking: Sequence[list[bytes] | None]) -> pa.Array:
        """The ids themselves that rows lack: the state knows only their digests, the rows know both."""
        column = rows.column(self.needs)
        found: list[list[Any] | None] = []
        for row, digest in enumerate(lacking):
            if digest is None:
                found.append(None)
                continue
            names = values_of(column.slice(row, 1))[0] or []
            known = dict(zip(digests(names), names, strict=True))
            found.append(sorted({known[each] for each in digest if each in known}))
        try:
            return pa.array(found, column.type)
        except UnicodeEncodeError:  # texts with bytes that are no UTF-8
            raw = [each and [name.encode(errors="surrogateescape") for name in each] for each in found]
            return pa.array(raw, pa.list_(pa.binary())).cast(column.type, safe=False)

    def _kept(self, table: pa.Table, work: _Work, arrived: Sequence[int], kept: list[int]) -> pa.Table:
        rows = self._plain(table.take(kept))
        columns = {
            ID: pa.array([work.ids[row] for row in kept], DIGEST),
            NEEDS: pa.array([sorted(work.unmet[row]) for row in kept], pa.list_(DIGEST)),
            ARRIVED: pa.array([arrived[row] for row in kept], pa.int64()),
            NUMBER: pa.array([work.numbers[row] for row in kept], pa.int64()),
        }
        for name, column in columns.items():
            rows = rows.append_column(name, column)
        return rows

    def _plain(self, table: pa.Table) -> pa.Table:
        return table.drop_columns([name for name in (ID, NEEDS, ARRIVED, NUMBER) if name in table.schema.names])


def _kind_of_ids(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "whole numbers"
    return "binary data" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "texts"


def _longs(table: pa.Table | None, name: str) -> list[int]:
    return [] if table is None else [int(each) for each in np.asarray(table.column(name).to_numpy())]


def _places(column: pa.ChunkedArray) -> list[Any]:
    """Values that have an order; None for NaN. Times are numbers: those of Python end with the year 9999."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return [each if each == each else None for each in values_of(column)]


def _newest(ids: dict[bytes, None], most: int) -> tuple[bytes, ...]:
    return tuple(ids)[-most:]


def digests(values: Iterable[Any]) -> list[bytes | None]:
    """Sixteen bytes for every id, the same everywhere; equal ones are equal ids for all that will ever happen."""
    return list(_digests(values_of(values) if isinstance(values, pa.ChunkedArray | pa.Array) else values))


def _digests(values: Iterable[Any]) -> Iterator[bytes | None]:
    for value in values:
        yield None if value is None else hashlib.blake2b(repr(value).encode(), digest_size=16).digest()


def digest_lists(column: pa.ChunkedArray) -> list[list[bytes | None] | None]:
    return [None if each is None else digests(each) for each in values_of(column)]
