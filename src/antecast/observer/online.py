"""The observer, one message at a time: for live programs and simulations, and as the reference for `batch`.

It has no clock and does no I/O: readings of the clock are arguments. Whatever is received comes out
exactly once, as an `Observed`: delivered with its position, or refused with a reason.

Two kinds of clock:

- `given`: every call brings the reading of the observer's clock, which differs from those of the senders by at
  most ε. A stamp from more than ε ahead is refused.
- `rows`: the observer's clock is read off the messages (`front`), for logs and streams that are read later than
  they were written. Whenever a message with r has arrived, some clock shows r or more. A stamp further ahead than
  ε + δ is held until another source confirms it, and refused if the clock moves on without it.

A message is *late* if it is delivered after one with a larger timestamp. The rest is in the order of the
timestamps, which is causal order where timestamps are exact. `earlier-send` lets concurrent messages go out of
that order; there, only a message that came too late for its place is late (`Policy.excused`).

Stabilisation. Nothing that passes the guards waits longer than δ + 2ε + 1 ticks. The buffer is looked through
every so often, and entries that no valid message can have made are put right, so a corrupted state is gone within
two such spans; `resets` counts these repairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import numpy as np

from antecast.core.errors import LocalMisuse
from antecast.observer.front import RowClock, Ruling
from antecast.observer.pace import UNKNOWN, Pace
from antecast.observer.policy import FUTURE, Policy
from antecast.observer.timestamps import Key, Source, Timestamp

T = TypeVar("T")
ClockKind: TypeAlias = Literal["given", "rows"]


class Observed(NamedTuple, Generic[T]):
    """One message on its way out: `reason` is None where it was delivered, else why it was not."""

    item: T
    position: int
    """Its place in the order, from 0; −1 if it was refused."""
    waited: int
    """Ticks of the observer's clock between its arrival and its delivery."""
    late: bool
    reason: str | None


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A message in the buffer. `due` takes its arrival into account: nothing goes in the tick in which it
    arrived."""

    key: Key
    due: int
    arrived: int
    item: T
    stamp: Timestamp
    source: Source


def default_gap(policy: Policy) -> int:
    """How far ahead a clock that two sources vouch for must be to be set back, and how far ahead the last rows may
    be without confirmation: ten thousand times the longest wait of a message."""
    return 10_000 * policy.bounds.longest


class Observer(Generic[T]):
    """
    >>> from antecast.observer import Bounds, HybridClock
    >>> bounds = Bounds(epsilon=1, delta=3)
    >>> observer = Observer(Policy(bounds=bounds, stamps="hybrid"))
    >>> ada, ben = HybridClock(bounds), HybridClock(bounds)
    >>> question = ada.send(now=10)
    >>> _ = ben.receive(question, now=11)
    >>> answer = ben.send(now=11)
    >>> observer.receive("answer", answer, "ben", now=12), observer.receive("question", question, "ada", now=13)
    ([], [])
    >>> [each.item for each in observer.advance(now=16)]
    ['question', 'answer']
    """

    def __init__(self, policy: Policy, *, clock: ClockKind = "given", gap: int | None = None) -> None:
        self.policy = policy
        self.clock = clock
        self.rows: RowClock[tuple[T, Timestamp, Source]] = RowClock(
            policy, gap=default_gap(policy) if gap is None else gap
        )
        """What tells the time with the clock `rows`, and holds what it doubts."""
        self.now: int | None = None
        """The last reading of the clock."""
        self.position = 0
        """How many were delivered."""
        self.late = 0
        """How many of them late."""
        self.refused: Counter[str] = Counter()
        self.resets = 0
        """How often the clock or the buffer had to be put right."""
        self.evidence: int | None = None
        """What another clock shows, for the clock `rows`: set by the caller."""
        self.top: Key | None = None
        """The largest timestamp delivered."""
        self.pace = Pace.start(policy) if policy.mode == "paced" else None
        """Chooses the wait, in the mode `paced`; `pace.rate` is the measured rate of violations."""
        self.moment: int | None = None
        """Messages of one moment have no order of arrival among them. None: each is a moment of its own."""
        self._wait = -1
        """The least wait that the rows in the buffer have been given."""
        self._received = 0
        self._heap: list[tuple[Key | int, Key | int, int, Waiting[T]]] = []
        self._pushed = 0
        self._look_at: int | None = None

    def __len__(self) -> int:
        """How many messages wait, doubted ones included."""
        return len(self._heap) + len(self.rows.held)

    @property
    def held(self) -> list[tuple[T, Timestamp, Source]]:
        """Stamps from the future that nothing has confirmed yet."""
        return [each.item for each in self.rows.held]

    def receive(self, item: T, stamp: Timestamp, source: Source, now: int | None = None) -> list[Observed[T]]:
        """A message has arrived. Returns what was due before it came; and itself, if it is refused."""
        if self.policy.stamps == "physical":
            stamp = Timestamp(stamp.r)
        fault = self.policy.fault(stamp)
        if self.clock == "rows":
            if now is not None:
                raise LocalMisuse("the clock of this observer is the largest r it has seen; pass no reading")
            return [self._refuse(item, fault)] if fault else self._judge(item, stamp, source)
        if now is None:
            raise LocalMisuse("pass the reading of the observer's clock, or make it with clock='rows'")
        out = self.advance(now)
        assert self.now is not None
        if fault is None and stamp.latest > self.now + self.policy.bounds.epsilon:
            fault = FUTURE
        if fault:
            out.append(self._refuse(item, fault))
        else:
            self._take(item, stamp, source)
        return out

    def advance(self, now: int) -> list[Observed[T]]:
        """The clock reads `now`. Returns what was due before."""
        if self.clock == "given" or self.now is None:
            return self._move(now)
        out = self._apply(self.rows.passed(now, self.now))
        return out + self._move(max(now, self.now))

    def _move(self, now: int) -> list[Observed[T]]:
        if self.now is None or now > self.now:
            self.now = now
        elif now < self.now - self.policy.bounds.epsilon:
            self._set_back(now)
        return self._release()

    def flush(self) -> list[Observed[T]]:
        """Nothing more will come: what waits is delivered in the order of the timestamps. Doubted stamps that are
        further ahead than the gap, and that no other source confirms, are refused."""
        out: list[Observed[T]] = []
        if self.now is not None:
            out += self._apply(self.rows.settle(self.now))
        waiting = sorted(self.waiting(), key=lambda each: (each.key, each.due))
        self._heap.clear()
        return out + [self._deliver(each) for each in waiting]

    def next_due(self) -> int | None:
        """The reading at which to call `advance`, if nothing arrives before."""
        due = [self._heap[0][3].due + 1] if self._heap else []
        due += [each.r - self.rows.reach for each in self.rows.held]
        return min(due, default=None)

    def waiting(self) -> Iterator[Waiting[T]]:
        """The messages in the buffer, without doubted ones, in the order of their arrival."""
        return (entry[3] for entry in sorted(self._heap, key=lambda entry: entry[2]))

    def restore(self, waiting: Iterable[Waiting[T]]) -> None:
        """Go on with a buffer from elsewhere; the other fields are set by the caller."""
        self._heap = []
        for each in waiting:
            self._push(each)

    def _judge(self, item: T, stamp: Timestamp, source: Source) -> list[Observed[T]]:
        """Move the clock to a stamp's r, if that can be believed."""
        self._received += 1
        moment = self._received if self.moment is None else self.moment
        return self._apply(
            self.rows.offer((item, stamp, source), stamp.r, source, moment, self.now, self.evidence)
        )

    def _apply(self, rulings: Iterable[Ruling[tuple[T, Timestamp, Source]]]) -> list[Observed[T]]:
        out: list[Observed[T]] = []
        for verdict, entry, reading in rulings:
            if verdict == "refuse" and entry is not None:
                out.append(self._refuse(entry[0], FUTURE))
            elif verdict == "back":
                self._set_back(reading)
            elif entry is not None:
                out += self._move(reading)
                self._take(*entry)
        return out

    def _take(self, item: T, stamp: Timestamp, source: Source) -> None:
        now = self.now
        assert now is not None
        if self.pace is not None:
            due = self._paced(stamp, source, now)
        else:
            due = self.policy.due(stamp.r, stamp.c, self.policy.before(stamp))
        due = min(max(due, now), now + self.policy.bounds.longest)
        self._raise_dues(now)
        self._push(Waiting(stamp.key(source), due, now, item, stamp, source))

    def _paced(self, stamp: Timestamp, source: Source, now: int) -> int:
        assert self.pace is not None
        number = source if isinstance(source, int) else crc32(source.encode())
        columns = ([stamp.key(number)], [stamp.r], [UNKNOWN if stamp.before is None else stamp.before], [now])
        keys, r, before, arrived = (np.array(each, np.int64) for each in columns)
        return int(self.pace.follow(self.policy, keys, r, before, arrived)[0])

    def _raise_dues(self, now: int) -> None:
        """Where the wait has grown, what has not gone yet waits longer too."""
        if self.pace is None:
            return
        if self.pace.wait > self._wait:
            for each in (waiting := list(self.waiting())):
                if each.due >= now:
                    each.due = max(each.due, each.stamp.latest + self.pace.wait)
            self.restore(waiting)
        self._wait = self.pace.wait

    def _push(self, each: Waiting[T]) -> None:
        self._pushed += 1
        first, second = (each.key, each.due) if self.policy.queued else (each.due, each.key)
        heappush(self._heap, (first, second, self._pushed, each))

    def _release(self) -> list[Observed[T]]:
        now = self.now
        assert now is not None
        if self._look_at is None or not now <= self._look_at <= now + self.policy.bounds.longest:
            self._look_through(now)
            self._look_at = now + self.policy.bounds.longest
        heap = self._heap
        ready = []
        while heap and heap[0][3].due < now:
            ready.append(heappop(heap)[3])
        if not self.policy.queued:
            ready.sort(key=lambda each: each.key)
        return [self._deliver(each) for each in ready]

    def _look_through(self, now: int) -> None:
        """Put right what no valid message can have left here."""
        bounds = self.policy.bounds
        if self.top is not None and self.top[0] > now + bounds.epsilon:  # type: ignore[operator]
            self.top = None
            self.resets += 1
        wrong = [each for each in self.waiting() if not self._valid(each, now)]
        if not wrong:
            return
        for each in wrong:
            stamp = each.stamp
            if self.policy.fault(stamp) is not None or stamp.latest > now + bounds.epsilon:
                stamp = Timestamp(now, 0, (0,) * self.policy.width)
            due = self.policy.due(stamp.r, stamp.c, self.policy.before(stamp))
            each.stamp, each.key, each.arrived = stamp, stamp.key(each.source), now
            each.due = min(max(due, now), now + bounds.longest)
        self.resets += len(wrong)
        self.restore(list(self.waiting()))

    def _valid(self, each: Waiting[T], now: int) -> bool:
        bounds = self.policy.bounds
        return (
            each.key == each.stamp.key(each.source)
            and each.arrived <= now
            and each.arrived <= each.due <= each.arrived + bounds.longest
            and each.stamp.latest <= each.arrived + bounds.epsilon
        )

    def _set_back(self, now: int) -> None:
        """The clock was wrong. What waits may have been stamped by it, which the next look will find."""
        self.now = now
        self.resets += 1
        self._look_at = None

    def _deliver(self, each: Waiting[T]) -> Observed[T]:
        below = self.top is not None and each.key < self.top
        before = self.policy.before(each.stamp)
        late = below and not self.policy.excused(each.stamp.r, before, each.arrived)
        self.late += late
        if not below:
            self.top = each.key
        self.position += 1
        assert self.now is not None
        return Observed(each.item, self.position - 1, self.now - each.arrived, late, None)

    def _refuse(self, item: T, reason: str) -> Observed[T]:
        self.refused[reason] += 1
        return Observed(item, -1, 0, False, reason)
