"""One group's step: carried state and new rows in, ordered rows and new state out.

A pure function on bytes and Arrow tables: the streaming operator calls it with the state that Spark keeps for the
group, the batch job once with all rows. The decisions are those of `antecast.observer.batch`.

The state is a header in JSON and, where rows wait, an Arrow stream of them with all their columns. It describes
itself: a checkpoint outlives a new version of the program, columns may be added to the input while rows wait, and
a state that was made with other settings is refused. Its size follows the rows that wait, not those that went by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.core.errors import ConfigurationError
from antecast.observer.batch import REASONS, BatchObserver
from antecast.observer.columns import Carried, Flags, Stamps
from antecast.observer.front import Front, first_to_believe
from antecast.observer.pace import Pace
from antecast.observer.policy import FUTURE, Longs
from antecast.spark.observe_rows import (
    ARRIVAL,
    BEFORE,
    FAULT,
    INTERNAL,
    KN,
    OPTIONAL,
    SOURCE,
    UNIQUE,
    C,
    R,
    RowFormat,
    joined,
    read_stream,
    stamps_of,
    without,
    write_stream,
)

ARRIVED, DUE = "__arrived", "__due"
ADDED = pa.schema(
    [("position", pa.int64()), ("waited", pa.int64()), ("late", pa.bool_()), ("reason", pa.string())]
)
"""What the observer adds to a row. Refused rows have a reason, and neither a position nor a wait."""


LATE = "came too late to be put in its place"
DUPLICATE = "a row with the same key has come before"


class Header(msgspec.Struct, omit_defaults=True):
    """The part of the state that is there for every group, whether rows wait or not."""

    made: str = ""
    """The settings, in words."""
    counts: int | None = None
    """The largest count that was allowed, −1 for any; None in a state of a version that did not note it."""

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
    """When rows came last, in milliseconds of processing time, or the clock was moved on."""
    looked: int = 0
    """When a timer last looked at the group."""
    credit: int = 0
    """How far the clocks of other groups have moved between these two."""
    seen: int = 0
    """How many keys of rows are remembered, to tell duplicates."""
    pace: int = 0
    """Bytes of what the mode `paced` remembers."""


@dataclass(frozen=True)
class State:
    header: Header
    rows: pa.Table | None
    """What waits: the columns of the input, its timestamps, when it arrived and when it is due."""
    seen: Longs = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """Keys of rows, as hashes, and their r."""
    pace: bytes = b""

    @property
    def waiting(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    def dump(self) -> bytes:
        header = msgspec.json.encode(self.header)
        rows = b"" if self.rows is None else write_stream(self.rows)
        return len(header).to_bytes(4, "big") + header + self.seen.astype("<i8").tobytes() + self.pace + rows

    @classmethod
    def load(cls, data: bytes | None) -> State:
        if data is None:
            return cls(Header(), None)
        size = int.from_bytes(data[:4], "big")
        header = msgspec.json.decode(data[4 : 4 + size], type=Header)
        seen = np.frombuffer(data, "<i8", 2 * header.seen, 4 + size).astype(np.int64).reshape(-1, 2)
        start = 4 + size + 16 * header.seen
        pace, rest = data[start : start + header.pace], memoryview(data)[start + header.pace :]
        return cls(header, read_stream(rest) if len(rest) else None, seen, pace)  # type: ignore[arg-type]


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
    quarantine: bool = False
    """Whether late rows are refused instead of delivered out of place."""

    @property
    def made(self) -> str:
        """The settings that a state depends on, in words."""
        return self._made_of(self.rows.columns)

    def _made_of(self, columns: Mapping[str, str]) -> str:
        policy, rows = self.observer.policy, self.rows
        bounds, roles = policy.bounds, "/".join(columns.values())
        return (
            f"stamps {policy.stamps} of {policy.width} in {roles}, epsilon {bounds.epsilon}, delta {bounds.delta},"
            f" tick {rows.tick} ns, clock {self.observer.clock}, key {'/'.join(rows.key)}"
        )

    @property
    def counts(self) -> int:
        """The largest count of a stamp that this query takes, −1 for any."""
        most = self.observer.policy.most
        return -1 if most is None else most

    def check(self, state: State) -> None:
        """Refuse a state that other settings have made: its rows would be misread."""
        header = state.header
        if header.made not in ("", self.made):
            problem = f"the checkpoint was made with {header.made}; this query has {self.made}"
            problem += self._hint(header.made)
        elif header.made and header.counts not in (None, self.counts):
            before, now = (
                "any size" if each == -1 else f"at most {each}" for each in (header.counts, self.counts)
            )
            problem = (
                f"the checkpoint was made with counts of {before} (by nodes, events_a_tick); this query has {now}"
            )
        else:
            return
        raise ConfigurationError(f"{problem}; use those settings, or a new checkpoint")

    def _hint(self, made: str) -> str:
        """What to do where columns have come that are taken for more than columns."""
        columns = self.rows.columns
        there = [role for role in OPTIONAL if role in columns]
        for gained in (there, *([role] for role in there)):
            if made == self._made_of({role: name for role, name in columns.items() if role not in gained}):
                names = " and ".join(repr(columns[role]) for role in gained)
                return f"; to go on without {names} as a part of the timestamps: {without(gained)}"
        return ""

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
        self.check(state)
        fresh = joined(new).combine_chunks() if new else None
        refused: list[pa.Table] = []
        if fresh is not None and fresh.column(FAULT).null_count < len(fresh):
            bad = fresh.filter(pc.is_valid(fresh.column(FAULT)))
            refused.append(_added(bad.select(self._plain(bad)), None, 0, None, None, bad.column(FAULT)))
            fresh = fresh.filter(pc.is_null(fresh.column(FAULT)))
        seen = state.seen
        if fresh is not None and UNIQUE in fresh.schema.names and len(fresh):
            again, seen = self._again(fresh, seen)
            if again.any():
                bad = fresh.filter(pa.array(again))
                reason = pa.array([DUPLICATE] * len(bad), pa.string())
                refused.append(_added(bad.select(self._plain(bad)), None, 0, None, None, reason))
                fresh = fresh.filter(pa.array(~again))
        carried = self._carried(state)
        size = 0 if fresh is None else len(fresh)
        stamps = Carried.nothing(self.observer.policy).stamps
        names = np.arange(len(carried) + size)  # rows of the observer as rows of the tables
        readings = np.zeros(0, np.int64) if self.observer.clock == "given" else None
        if fresh is not None and size:
            stamps = stamps_of(fresh, self.observer.policy.width)
            arrival = np.asarray(fresh.column(ARRIVAL).to_numpy())
            order = self._order(fresh, stamps)
            if state.header.now is None and not self.ordered:
                bounds = self.observer.policy.bounds
                first = first_to_believe(stamps.r[order], bounds.delta + bounds.epsilon)
                order = np.concatenate([order[first : first + 1], order[:first], order[first + 1 :]])
            stamps = stamps.take(order)
            names = np.append(names[: len(carried)], len(carried) + order)
            readings = arrival[order] if self.observer.clock == "given" else None
        done = self.observer.observe(
            carried, stamps, readings=readings, until=until, flush=flush, evidence=evidence
        )
        both = [each.select(self._plain(each)) for each in (state.rows, fresh) if each is not None and len(each)]
        out: list[pa.Table] = []
        if len(done.delivered) or len(done.refused):
            plain = joined(both)
            fine = ~done.late if self.quarantine else np.ones(len(done.late), bool)
            gone, waited = done.delivered[fine], done.waited[fine]
            out.append(_added(plain.take(names[gone]), done.first, len(gone), waited, done.late[fine], None))
            if not fine.all():
                bad = plain.take(names[done.delivered[~fine]])
                reason = pa.array([LATE] * len(bad), pa.string())
                refused.append(_added(bad, None, 0, None, done.late[~fine], reason))
            if len(done.refused):
                ahead = done.refused[done.reason == REASONS.index(FUTURE)]
                seen = _without(seen, fresh, names[ahead] - len(carried))
                reasons = pa.array([REASONS[each] for each in done.reason.tolist()], pa.string())
                refused.append(_added(plain.take(names[done.refused]), None, 0, None, None, reasons))
        kept = None
        if len(done.kept):
            rows = joined(both).take(names[done.kept])
            kept = _carrying(rows.combine_chunks(), done.carried)
        delivered = sum(map(len, out))
        if done.carried.now is not None:
            now, longest = done.carried.now, self.observer.policy.bounds.longest
            # A clock far ahead was refused, or is in doubt yet and among the rows that are kept.
            near = (seen[:, 1] <= now + longest) | np.isin(seen[:, 1], done.carried.stamps.r)
            seen = seen[near & (seen[:, 1] > now - 2 * longest)]
        header = self._header(state.header, done.carried, delivered, sum(map(len, refused)))
        pace = b"" if done.carried.pace is None else done.carried.pace.dump()
        header.seen, header.pace = len(seen), len(pace)
        whole = [each for each in (*out, *refused) if len(each)]
        return Step(State(header, kept, seen, pace), joined(whole) if whole else None)

    def _order(self, fresh: pa.Table, stamps: Stamps) -> Longs:
        """The order of arrival of new rows."""
        arrival = [np.asarray(fresh.column(ARRIVAL).to_numpy())] if self.ordered else []
        return np.lexsort((*stamps.keys().T[::-1], stamps.c, stamps.r, *arrival))

    def _again(self, fresh: pa.Table, seen: Longs) -> tuple[Flags, Longs]:
        """Which rows have come before, and the keys to remember. The first of several stays.

        Rows that will be refused do not count: they may come again, mended.
        """
        keys = np.asarray(fresh.column(UNIQUE).to_numpy())
        stamps = stamps_of(fresh, self.observer.policy.width)
        fine = self.observer.faults(stamps) < 0
        order = self._order(fresh, stamps)
        order = order[fine[order]]
        _, first = np.unique(keys[order], return_index=True)
        again = fine.copy()
        again[order[first]] = False
        again |= fine & np.isin(keys, seen[:, 0])
        new = np.column_stack([keys, np.asarray(fresh.column(R).to_numpy())])[fine & ~again]
        return again, np.concatenate([seen, new])

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
        if state.pace and carried.pace is not None:
            carried = replace(carried, pace=Pace.load(state.pace, self.observer.policy))
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

    def _header(self, before: Header, after: Carried, delivered: int, refused: int) -> Header:
        return Header(
            made=self.made,
            counts=self.counts,
            now=after.now,
            position=before.position + delivered,
            top=None if after.top is None else after.top.tolist(),
            late=after.late,
            refused=before.refused + refused,
            resets=after.resets,
            front=after.front,
            held=after.held,
            timer=before.timer,
            fed=before.fed,
            looked=before.looked,
            credit=before.credit,
        )


def _without(seen: Longs, fresh: pa.Table | None, rows: Longs) -> Longs:
    """The keys to remember, without those of these new rows, which were no duplicates and are refused."""
    if fresh is None or UNIQUE not in fresh.schema.names:
        return seen
    keys = np.asarray(fresh.column(UNIQUE).to_numpy())[rows[rows >= 0]]
    return seen[~np.isin(seen[:, 0], keys)]


def _carrying(table: pa.Table, carried: Carried) -> pa.Table:
    """Rows with what the observer carries for them: corrected timestamps, where it has corrected one."""
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
    for column, value in zip(ADDED, values, strict=True):
        table = table.append_column(column, value)
    return table
