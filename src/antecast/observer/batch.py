"""The observer on arrays: many messages in, their order out. The same observer as `online`, only faster.

`observe` takes the messages that arrived since the last call, in the order of their arrival, and what
was carried over from it; it returns what is delivered, what is refused, and what to carry on. How messages are
divided into calls makes no difference: the clock moves with each message as it would one by one.

How it works. Messages and the buffer get ranks by timestamp, in one sort. In modes that do not look at the queue,
a message goes at the first reading of the clock after its due: a binary search, and a sort by (reading, rank). In
those that do (`cbd`), a compiled loop keeps a heap of ranks. Where stamps are doubted, only the clock is followed
message by message. In rare cases, a clock that must be set back or an invalid state, the batch goes through
`online` itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np

from antecast.core.compiled import compiled
from antecast.core.errors import LocalMisuse
from antecast.observer.columns import UNKNOWN, Batch, Carried, Flags, Stamps
from antecast.observer.front import Doubted, Front, RowClock, Ruling, moved
from antecast.observer.online import ClockKind, Observed, Observer, Waiting, default_gap
from antecast.observer.policy import (
    FUTURE,
    LARGE_C,
    NEGATIVE_C,
    OUT_OF_RANGE,
    WRONG_BEFORE,
    WRONG_COUNT,
    WRONG_LENGTH,
    Longs,
    Policy,
)
from antecast.observer.timestamps import FURTHEST

REASONS = (NEGATIVE_C, LARGE_C, WRONG_LENGTH, WRONG_COUNT, WRONG_BEFORE, FUTURE, OUT_OF_RANGE)
"""Why a message can be refused; `Batch.reason` has indices into this, and −1 for none."""

_LONG_AGO = -(1 << 63)
"""Before every reading of a clock."""


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """How the clock takes the messages of a call. Rows are numbered consecutively, the carried ones first."""

    rows: Longs
    """Those that join the buffer, in this order, and the readings at which they do."""
    joined: Longs
    clock: Longs
    """The readings of the clock one after another, and which of the rows joins at each, −1 if none does."""
    joins: Longs
    refused: Longs
    reason: Longs
    held: Longs
    front: Front


@dataclass(frozen=True, kw_only=True)
class BatchObserver:
    """An observer without state of its own.

    >>> from antecast.observer import Bounds
    >>> observer = BatchObserver(policy=Policy(bounds=Bounds(epsilon=1, delta=2), stamps="physical"))
    >>> stamps = Stamps.make(r=np.array([12, 11, 30, 30]), source=np.array([0, 1, 0, 1]))
    >>> done = observer.observe(Carried.nothing(observer.policy), stamps)
    >>> done.delivered.tolist(), done.kept.tolist(), done.carried.now
    ([1, 0], [2, 3], 30)
    """

    policy: Policy
    clock: ClockKind = "rows"
    gap: int | None = None
    together: bool = False
    """Whether the messages of one call have no order of arrival, but were sorted; for the clock `rows`."""
    every_tick: bool = False
    """Whether the observer looks at every tick, like one that sleeps until the next due; otherwise it looks only
    when something arrives."""

    def observe(
        self,
        carried: Carried,
        stamps: Stamps,
        *,
        readings: Longs | None = None,
        until: int | None = None,
        flush: bool = False,
        evidence: int | None = None,
    ) -> Batch:
        """Observe messages that arrived at `readings` of the clock (or by their r); then the clock reads `until`.

        With `flush` nothing more will come: all that waits is delivered. `evidence` is what another clock shows:
        messages no further ahead than that are not doubted.
        """
        if self.policy.stamps == "physical":
            stamps = Stamps.make(stamps.r, stamps.source)
        faults = self.faults(stamps)
        arrivals = None
        if self._valid(carried):
            if self.clock == "given":
                arrivals = self._by_readings(carried, stamps, faults, readings)
            else:
                if readings is not None:
                    raise LocalMisuse("the clock of this observer is the largest r it has seen; pass no readings")
                arrivals = self._by_rows(carried, stamps, faults, until, flush, evidence)
        if arrivals is None:
            return self._one_by_one(carried, stamps, readings, until, flush, evidence)
        return self._arrays(carried, stamps, arrivals, until, flush)

    def _arrays(self, carried: Carried, stamps: Stamps, new: _Arrivals, until: int | None, flush: bool) -> Batch:
        """All messages at once."""
        size = len(carried) - carried.held
        whole, names = carried.stamps + stamps, np.append(np.arange(size), new.rows)
        all_stamps = whole.take(names)
        fine = all_stamps.take(slice(size, None))
        pace, before = None if carried.pace is None else carried.pace.copy(), carried.due[:size].copy()
        if pace is not None:
            held = np.ascontiguousarray(carried.stamps.keys()[:size, 0])
            due = pace.follow(self.policy, fine.keys(), fine.r, fine.before, new.joined, (held, before))
        else:
            due = self.policy.due(fine.r, fine.c, self._before(fine))
        due = np.clip(due, new.joined, new.joined + self.policy.bounds.longest)
        due = np.concatenate([before, due])
        arrived = np.concatenate([carried.arrived[:size], new.joined])
        keys = all_stamps.keys()
        by_key = np.lexsort((due, *keys.T[::-1]))
        rank = np.empty(len(keys), np.int64)
        rank[by_key] = np.arange(len(keys))
        clock = new.clock
        now = _latest(carried.now, int(clock[-1]) if len(clock) and clock[-1] > _LONG_AGO else None)
        last = now if until is None else _latest(now, until)
        if flush and self.every_tick and len(due):
            last = _latest(last, int(due.max()) + 1)  # the clock ticks on until nothing waits
        end = _LONG_AGO if last is None else last
        if self.policy.queued:
            joins = np.where(new.joins < 0, -1, new.joins + size)
            order, at = drain(rank, by_key, due, size, clock, joins, end, self.every_tick)
        else:
            order, at = self._by_due(rank, due, np.append(clock, end))
        gone = np.zeros(len(keys), bool)
        gone[order] = True
        if flush:
            rest = by_key[~gone[by_key]]
            at = np.concatenate([at, np.full(len(rest), end)])
            order = np.concatenate([order, rest])
            gone[:] = True
        top, late = self._late(carried.top, keys, by_key, order)
        went = all_stamps.take(order)
        late &= ~self.policy.excused(went.r, self._before(went), arrived[order])
        kept = np.flatnonzero(~gone)
        blank = np.zeros(len(new.held), np.int64)
        after = replace(
            carried,
            stamps=all_stamps.take(kept) + whole.take(new.held),
            arrived=np.concatenate([arrived[kept], blank]),
            due=np.concatenate([due[kept], blank]),
            held=len(new.held),
            now=last,
            position=carried.position + len(order),
            top=top,
            late=carried.late + int(late.sum()),
            front=new.front,
            pace=pace,
        )
        waited, kept = at - arrived[order], np.append(names[kept], new.held)
        return Batch(names[order], carried.position, waited, late, new.refused, new.reason, kept, after)

    def _by_due(self, rank: Longs, due: Longs, readings: Longs) -> tuple[Longs, Longs]:
        """Rows that go, in order, and the reading at which each goes."""
        if self.every_tick:
            go = np.flatnonzero(due < readings[-1])
            order = go[np.lexsort((rank[go], due[go]))]
            return order, due[order] + 1
        turn = np.searchsorted(readings, due, side="right")
        go = np.flatnonzero(turn < len(readings))
        order = go[np.lexsort((rank[go], turn[go]))]
        return order, readings[turn[order]]

    def _late(self, top: Longs | None, keys: Longs, by_key: Longs, order: Longs) -> tuple[Longs | None, Flags]:
        """The largest key delivered, and which of the rows went after a larger one."""
        if not len(order):
            return top, np.zeros(0, bool)
        level = np.empty(len(keys), np.int64)  # ranks in which equal keys are equal
        level[by_key] = np.append(0, np.cumsum((keys[by_key[1:]] != keys[by_key[:-1]]).any(axis=1)))
        highest = np.maximum.accumulate(level[order])
        late = level[order] < highest
        best = order[level[order].argmax()]
        if top is None:
            return keys[best], late
        below = _below(keys[order], top)
        return top if below.all() else keys[best], late | below

    def faults(self, stamps: Stamps) -> Longs:
        """What is wrong with each stamp at any time, as an index into `REASONS`, or −1."""
        policy, size = self.policy, len(stamps)
        faults = np.full(size, -1)
        wrong = (stamps.before != UNKNOWN) & (stamps.before > stamps.r + stamps.c)
        faults[wrong] = REASONS.index(WRONG_BEFORE)
        if stamps.kn.shape[1] != policy.width:
            faults[:] = REASONS.index(WRONG_LENGTH)
        elif policy.width:
            wrong = (stamps.kn < 0).any(axis=1)
            if policy.most is not None:
                wrong |= (stamps.kn > policy.most).any(axis=1)
            faults[wrong] = REASONS.index(WRONG_COUNT)
        faults[stamps.c > policy.bounds.epsilon] = REASONS.index(LARGE_C)
        faults[stamps.c < 0] = REASONS.index(NEGATIVE_C)
        faults[(stamps.r < -FURTHEST) | (stamps.r > FURTHEST)] = REASONS.index(OUT_OF_RANGE)
        return faults

    def _by_readings(
        self, carried: Carried, stamps: Stamps, faults: Longs, readings: Longs | None
    ) -> _Arrivals | None:
        """By the observer's own clock; None if that goes back."""
        if readings is None:
            raise LocalMisuse("pass the readings of the observer's clock, one per message")
        clock = np.maximum.accumulate(readings)
        if carried.now is not None:
            clock = np.maximum(clock, carried.now)
        if (readings < clock - self.policy.bounds.epsilon).any():
            return None
        future = stamps.r + stamps.c > clock + self.policy.bounds.epsilon
        faults[future & (faults < 0)] = REASONS.index(FUTURE)
        return self._as_they_come(carried, faults, clock, carried.front)

    def _as_they_come(self, carried: Carried, faults: Longs, clock: Longs, front: Front) -> _Arrivals:
        """Messages without a fault join at their reading of the clock."""
        good, bad, start = np.flatnonzero(faults < 0), np.flatnonzero(faults >= 0), len(carried)
        joins = np.full(len(clock), -1)
        joins[good] = np.arange(len(good))
        none = np.zeros(0, np.int64)
        return _Arrivals(start + good, clock[good], clock, joins, start + bad, faults[bad], none, front)

    def _by_rows(
        self,
        carried: Carried,
        stamps: Stamps,
        faults: Longs,
        until: int | None,
        flush: bool,
        evidence: int | None,
    ) -> _Arrivals | None:
        """By the clock of the messages; None if that is set back."""
        gap = default_gap(self.policy) if self.gap is None else self.gap
        reach = self.policy.bounds.delta + self.policy.bounds.epsilon
        if not carried.held:
            easy = moved(carried.front, carried.now, stamps.r, stamps.source, faults < 0, reach, gap, evidence)
            if easy is not None:
                clock, front = easy
                if until is not None and front.leader is not None:
                    front.ground = max(front.ground, until)
                return self._as_they_come(carried, faults, clock, front)
        rows: RowClock[int] = RowClock(self.policy, gap=gap, front=carried.front.copy())
        size, start, now = len(carried) - carried.held, len(carried), carried.now
        doubted = zip(carried.stamps.r[size:].tolist(), carried.stamps.source[size:].tolist(), strict=True)
        rows.held = [Doubted(size + each, r, source, -1) for each, (r, source) in enumerate(doubted)]
        rulings: list[Ruling[int]] = []
        good = np.flatnonzero(faults < 0)
        columns = (good, stamps.r[good], stamps.source[good])
        for row, r, source in zip(*(each.tolist() for each in columns), strict=True):
            found = rows.offer(start + row, r, source, 0 if self.together else row, now, evidence)
            rulings += found
            now = max((each.reading for each in found if each.verdict == "take"), default=now)
        if until is not None:
            rulings += [] if now is None else rows.passed(until, now)
            now = max([until, *(each.reading for each in rulings if each.verdict == "take")])
        if flush and now is not None:
            rulings += rows.settle(max(now, carried.now or now))
        if any(each.verdict == "back" for each in rulings):
            return None
        taken = [(each.item, each.reading) for each in rulings if each.verdict == "take"]
        names, joined = np.array(taken, np.int64).reshape(-1, 2).T
        gone = np.array([each.item for each in rulings if each.verdict == "refuse"], np.int64)
        bad = np.flatnonzero(faults >= 0)
        return _Arrivals(
            names,
            joined,
            joined,
            np.arange(len(joined)),
            np.concatenate([start + bad, gone]),
            np.concatenate([faults[bad], np.full(len(gone), REASONS.index(FUTURE))]),
            np.array([each.item for each in rows.held], np.int64),
            rows.front,
        )

    def _before(self, stamps: Stamps) -> Longs:
        oldest = stamps.r + stamps.c - self.policy.bounds.longest
        return np.where(stamps.before == UNKNOWN, oldest, stamps.before)

    def _valid(self, carried: Carried) -> bool:
        """Whether a state is one that this observer can have left behind."""
        bounds, now = self.policy.bounds, carried.now
        if now is None:
            return not len(carried) and carried.top is None
        size = len(carried) - carried.held
        arrived, due, stamps = carried.arrived[:size], carried.due[:size], carried.stamps.take(slice(size))
        fine = (arrived <= now) & (arrived <= due) & (due <= arrived + bounds.longest)
        fine &= (stamps.r + stamps.c <= arrived + bounds.epsilon) & (self.faults(stamps) < 0)
        return bool(fine.all()) and (carried.top is None or int(carried.top[0]) <= now + bounds.epsilon)

    def _one_by_one(
        self,
        carried: Carried,
        stamps: Stamps,
        readings: Longs | None,
        until: int | None,
        flush: bool,
        evidence: int | None,
    ) -> Batch:
        """The same, by the observer for single messages, whose items are row numbers."""
        observer: Observer[int] = Observer(self.policy, clock=self.clock, gap=self.gap)
        self._restore(observer, carried)
        observer.moment = 0 if self.together else None
        observer.evidence = evidence
        out: list[Observed[int]] = []
        start = len(carried)
        for row in range(len(stamps)):
            stamp, source = stamps.at(row), int(stamps.source[row])
            if self.clock == "rows":
                out += observer.receive(start + row, stamp, source)
            else:
                assert readings is not None
                out += observer.receive(start + row, stamp, source, int(readings[row]))
        if until is not None:
            out += observer.advance(until if self.clock == "rows" else _latest(observer.now, until) or until)
        if flush:
            out += observer.flush()
        done = [each for each in out if each.reason is None]
        bad = [each for each in out if each.reason is not None]
        after, kept = self._saved(observer, carried)
        return Batch(
            np.array([each.item for each in done], np.int64),
            carried.position,
            np.array([each.waited for each in done], np.int64),
            np.array([each.late for each in done], bool),
            np.array([each.item for each in bad], np.int64),
            np.array([REASONS.index(each.reason) for each in bad if each.reason], np.int64),
            kept,
            after,
        )

    def _restore(self, observer: Observer[int], carried: Carried) -> None:
        size = len(carried) - carried.held
        observer.now, observer.position, observer.late = carried.now, carried.position, carried.late
        observer.resets, observer.rows.front = carried.resets, carried.front.copy()
        observer.pace = None if carried.pace is None else carried.pace.copy()
        observer.top = None if carried.top is None else tuple(carried.top.tolist())
        rows = [(carried.stamps.at(row), int(carried.stamps.source[row])) for row in range(len(carried))]
        observer.restore(
            Waiting(stamp.key(source), int(carried.due[row]), int(carried.arrived[row]), row, stamp, source)
            for row, (stamp, source) in enumerate(rows[:size])
        )
        observer.rows.held = [
            Doubted((size + row, stamp, source), stamp.r, source, -1)
            for row, (stamp, source) in enumerate(rows[size:])
        ]

    def _saved(self, observer: Observer[int], carried: Carried) -> tuple[Carried, Longs]:
        waiting = sorted(observer.waiting(), key=lambda each: each.item)
        rows = [(each.stamp, int(each.source)) for each in waiting]
        rows += [(stamp, int(source)) for _, stamp, source in observer.held]
        names = [each.item for each in waiting] + [each[0] for each in observer.held]
        blank = [0] * len(observer.held)
        after = Carried(
            Stamps.gather(rows, self.policy.width),
            np.array([each.arrived for each in waiting] + blank, np.int64),
            np.array([each.due for each in waiting] + blank, np.int64),
            len(observer.held),
            observer.now,
            observer.position,
            None if observer.top is None else np.array(observer.top, np.int64),
            observer.late,
            observer.resets,
            observer.rows.front,
            observer.pace,
        )
        return after, np.array(names, np.int64)


def _below(keys: Longs, top: Longs) -> Flags:
    """Which keys are smaller than one key."""
    below, same = np.zeros(len(keys), bool), np.ones(len(keys), bool)
    for column in range(keys.shape[1]):
        below |= same & (keys[:, column] < top[column])
        same &= keys[:, column] == top[column]
    return below


def _latest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


@compiled
def drain(
    rank: Longs, by_rank: Longs, due: Longs, carried: int, clock: Longs, joins: Longs, end: int, every_tick: bool
) -> tuple[Longs, Longs]:
    """Check before delivery: rows that go, in order, and the reading at which each goes.

    Rows up to `carried` are in the queue; at each reading of the clock one may join it, −1 if none does.
    """
    heap = [np.int64(0) for _ in range(0)]
    for row in range(carried):
        heappush(heap, rank[row])
    order = np.empty(len(rank), np.int64)
    at = np.empty(len(rank), np.int64)
    gone = 0
    for turn in range(len(clock) + 1):
        now = clock[turn] if turn < len(clock) else end
        first = gone
        while len(heap) > 0 and due[by_rank[heap[0]]] < now:
            row = by_rank[heappop(heap)]
            order[gone] = row
            at[gone] = now
            if every_tick:
                at[gone] = due[row] + 1 if gone == first else max(at[gone - 1], due[row] + 1)
            gone += 1
        if turn < len(clock) and joins[turn] >= 0:
            heappush(heap, rank[joins[turn]])
    return order[:gone], at[:gone]
