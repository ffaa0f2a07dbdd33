"""One group's step: what was carried over and new rows in, ordered rows out, and what to carry on.

A pure function on bytes and Arrow tables: the streaming operator calls it with the state that Spark keeps for the
group, the batch job once with all rows. The decisions are those of `antecast.observer.batch`.

The state is a header in JSON and, where rows wait, an Arrow stream of them with all their columns. It describes
itself, so that a checkpoint outlives a new version of the program. Its size follows the rows that wait, not
those that went by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.observer.batch import REASONS, BatchObserver
from antecast.observer.columns import Carried
from antecast.observer.front import Front
from antecast.observer.policy import Longs
from antecast.spark.observe_rows import (
    ARRIVAL,
    BEFORE,
    FAULT,
    INTERNAL,
    KN,
    SOURCE,
    C,
    R,
    RowFormat,
    read_stream,
    stamps_of,
    write_stream,
)

ARRIVED, DUE = "__arrived", "__due"
ADDED = pa.schema(
    [("position", pa.int64()), ("waited", pa.int64()), ("late", pa.bool_()), ("reason", pa.string())]
)
"""What the observer adds to a row. Refused rows have a reason, and neither a position nor a wait."""


class Header(msgspec.Struct):
    """The part of the state that is there for every group that was ever seen."""

    now: int | None = None
    position: int = 0
    top: list[int] | None = None
    late: int = 0
    refused: int = 0
    resets: int = 0
    front: Front = msgspec.field(default_factory=Front)
    held: int = 0
    timer: int | None = None
    """The timer that is set, in milliseconds."""
    fed: int = 0
    """When rows came last, in milliseconds of processing time."""


@dataclass(frozen=True)
class State:
    header: Header
    rows: pa.Table | None
    """What waits: the columns of the input, its timestamps, when it arrived and when it is due."""

    @property
    def waiting(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    def dump(self) -> bytes:
        header = msgspec.json.encode(self.header)
        rows = b"" if self.rows is None else write_stream(self.rows)
        return len(header).to_bytes(4, "big") + header + rows

    @classmethod
    def load(cls, data: bytes | None) -> State:
        if data is None:
            return cls(Header(), None)
        size = int.from_bytes(data[:4], "big")
        header = msgspec.json.decode(data[4 : 4 + size], type=Header)
        rest = memoryview(data)[4 + size :]
        return cls(header, read_stream(rest) if len(rest) else None)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Step:
    state: State
    out: pa.Table | None
    """Rows that leave, with the columns of `ADDED`; delivered ones in their order."""


@dataclass(frozen=True)
class GroupObserver:
    """How to take a step; the same for all groups."""

    observer: BatchObserver
    rows: RowFormat
    ordered: bool
    """Whether rows have an order of arrival of their own; otherwise those of a step count as arrived in the
    order of their clocks."""

    def step(
        self,
        state: State,
        new: Sequence[pa.Table],
        *,
        until: int | None = None,
        flush: bool = False,
        evidence: int | None = None,
    ) -> Step:
        """Observe new rows of a group; then its clock reads `until`."""
        fresh = pa.concat_tables(new).combine_chunks() if new else None
        refused: list[pa.Table] = []
        if fresh is not None and fresh.column(FAULT).null_count < len(fresh):
            bad = fresh.filter(pc.is_valid(fresh.column(FAULT)))
            refused.append(_added(bad.select(self._plain(bad)), None, 0, None, None, bad.column(FAULT)))
            fresh = fresh.filter(pc.is_null(fresh.column(FAULT)))
        carried = self._carried(state)
        size = 0 if fresh is None else len(fresh)
        stamps = Carried.nothing(self.observer.policy).stamps
        names = np.arange(len(carried) + size)  # rows of the observer as rows of the tables
        readings = np.zeros(0, np.int64) if self.observer.clock == "given" else None
        if fresh is not None and size:
            stamps = stamps_of(fresh, self.observer.policy.width)
            arrival = np.asarray(fresh.column(ARRIVAL).to_numpy())
            order = np.lexsort((*stamps.keys().T[::-1], stamps.c, stamps.r, *([arrival] if self.ordered else [])))
            stamps = stamps.take(order)
            names = np.append(names[: len(carried)], len(carried) + order)
            readings = arrival[order] if self.observer.clock == "given" else None
        done = self.observer.observe(
            carried, stamps, readings=readings, until=until, flush=flush, evidence=evidence
        )
        both = [each.select(self._plain(each)) for each in (state.rows, fresh) if each is not None and len(each)]
        out: list[pa.Table] = []
        if len(done.delivered) or len(done.refused):
            plain = pa.concat_tables(both)
            out.append(
                _added(
                    plain.take(names[done.delivered]),
                    done.first,
                    len(done.delivered),
                    done.waited,
                    done.late,
                    None,
                )
            )
            if len(done.refused):
                reasons = pa.array([REASONS[each] for each in done.reason.tolist()], pa.string())
                refused.append(_added(plain.take(names[done.refused]), None, 0, None, None, reasons))
        kept = None
        if len(done.kept):
            rows = pa.concat_tables(both).take(names[done.kept])
            kept = _carrying(rows.combine_chunks(), done.carried)
        header = self._header(state.header, done.carried, sum(map(len, refused)))
        whole = [each for each in (*out, *refused) if len(each)]
        return Step(State(header, kept), pa.concat_tables(whole) if whole else None)

    def next_due(self, state: State) -> int | None:
        """The reading of the group's clock at which something can go, if no row comes."""
        carried = self._carried(state)
        size, bounds = len(carried) - carried.held, self.observer.policy.bounds
        found = (carried.stamps.r[size:] - bounds.delta - bounds.epsilon).tolist()  # when doubts end
        if size and self.observer.policy.queued:
            keys = carried.stamps.keys()[:size]
            found.append(int(carried.due[np.lexsort(keys.T[::-1])[0]]) + 1)
        elif size:
            found.append(int(carried.due[:size].min()) + 1)
        return min(found, default=None)

    def _plain(self, table: pa.Table) -> list[str]:
        """The columns that rows came with."""
        return [name for name in table.schema.names if name not in (*INTERNAL, ARRIVED, DUE)]

    def _carried(self, state: State) -> Carried:
        header = state.header
        carried = Carried.nothing(self.observer.policy)
        if state.rows is not None:
            carried = replace(
                carried,
                stamps=stamps_of(state.rows, self.observer.policy.width),
                arrived=np.asarray(state.rows.column(ARRIVED).to_numpy()),
                due=np.asarray(state.rows.column(DUE).to_numpy()),
            )
        return replace(
            carried,
            held=header.held,
            now=header.now,
            position=header.position,
            top=None if header.top is None else np.array(header.top, np.int64),
            late=header.late,
            resets=header.resets,
            front=header.front,
        )

    def _header(self, before: Header, after: Carried, refused: int) -> Header:
        return Header(
            after.now,
            after.position,
            None if after.top is None else after.top.tolist(),
            after.late,
            before.refused + refused,
            after.resets,
            after.front,
            after.held,
            before.timer,
            before.fed,
        )


def _carrying(table: pa.Table, carried: Carried) -> pa.Table:
    """Rows with what the observer carries for them: where it has put a timestamp right, the right one."""
    stamps = carried.stamps
    columns = {R: stamps.r, C: stamps.c, BEFORE: stamps.before, SOURCE: stamps.source}
    columns |= {ARRIVED: carried.arrived, DUE: carried.due}
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    width = stamps.kn.shape[1]
    if width:
        kn = pa.FixedSizeListArray.from_arrays(pa.array(stamps.kn.ravel()), width)
        table = table.append_column(KN, kn)
    return table


def _added(
    table: pa.Table, first: int | None, size: int, waited: Longs | None, late: Any, reason: Any
) -> pa.Table:
    """Rows with what the observer adds: positions from `first` on, or reasons."""
    blank = len(table)
    values = [
        pa.nulls(blank, pa.int64()) if first is None else pa.array(np.arange(first, first + size)),
        pa.nulls(blank, pa.int64()) if waited is None else pa.array(waited),
        pa.nulls(blank, pa.bool_()) if late is None else pa.array(late),
        pa.nulls(blank, pa.string()) if reason is None else reason,
    ]
    for field, value in zip(ADDED, values, strict=True):
        table = table.append_column(field, value)
    return table
