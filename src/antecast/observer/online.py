"""The observer, a message at a time: for a live program, for a simulation, and as the meaning of `batch`.

It has no clock and does no I/O: readings of the clock are arguments. Whatever is received comes out
exactly once, as an `Observed`: delivered with its position, or refused with a reason.

Two kinds of clock:

- `given`: every call brings the reading of the observer's clock, which differs from those of the senders by ε
  at the most. A stamp from more than ε ahead is refused.
- `rows`: the observer's clock is the largest r it has seen, for logs and streams that are read later than they
  were written. This is as good as a clock: whenever a message with r has arrived, some clock shows r or more.
  A stamp that is more than `gap` ahead is held until `confirm` in a row are (the stream was silent) or one comes
  that is not (the stamp was wrong; it is refused). Where another clock tells the time, as `evidence`, it counts
  from there. If `confirm` in a row are more than `gap` behind, it is the clock that is wrong, and it is set back.

*Late* is what is delivered after something with a larger timestamp. The rest is in the order of the timestamps,
which is causal order where timestamps are exact.

Stabilisation. Nothing that passes the guards waits longer than δ + 2ε + 1 ticks. The buffer is looked through
every so often, and entries that no valid message can have made are put right, so a corrupted state is left
behind within two such spans; `resets` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from antecast.core.errors import LocalMisuse
from antecast.observer.policy import FUTURE, Policy
from antecast.observer.timestamps import Key, Source, Timestamp

T = TypeVar("T")
ClockKind: TypeAlias = Literal["given", "rows"]

CONFIRM = 3
"""Stamps in a row that it takes to move a clock of the kind `rows` by a leap."""


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
    """A message in the buffer. `due` counts its arrival in: nothing goes in the tick in which it came."""

    key: Key
    due: int
    arrived: int
    item: T
    stamp: Timestamp
    source: Source


def default_gap(policy: Policy) -> int:
    """How far r may leap before it is doubted: ten thousand times what a message may take."""
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

    def __init__(
        self, policy: Policy, *, clock: ClockKind = "given", gap: int | None = None, confirm: int = CONFIRM
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.gap = default_gap(policy) if gap is None else gap
        self.confirm = confirm
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
        self.held: list[tuple[T, Timestamp, Source]] = []
        """Stamps from the future that nothing has confirmed yet."""
        self.behind = 0
        """How many in a row were more than the gap behind, and the largest r of them."""
        self.behind_r = 0
        self._heap: list[tuple[Key | int, Key | int, int, Waiting[T]]] = []
        self._pushed = 0
        self._look_at: int | None = None

    def __len__(self) -> int:
        """How many messages wait, doubted ones included."""
        return len(self._heap) + len(self.held)

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
        if self.now is None or now > self.now:
            self.now = now
        elif now < self.now - self.policy.bounds.epsilon:
            self._set_back(now)
        return self._release()

    def flush(self) -> list[Observed[T]]:
        """Nothing more will come: what waits is delivered in the order of the timestamps, doubts are refused."""
        out = [self._refuse(item, FUTURE) for item, _, _ in self.held]
        self.held.clear()
        waiting = sorted(self.waiting(), key=lambda each: (each.key, each.due))
        self._heap.clear()
        return out + [self._deliver(each) for each in waiting]

    def next_due(self) -> int | None:
        """The reading at which `advance` will have something to return, if nothing arrives before."""
        if not self._heap:
            return None
        return self._heap[0][3].due + 1

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
        out: list[Observed[T]] = []
        r, now = stamp.r, self.now
        if now is not None and r > max(now, now if self.evidence is None else self.evidence) + self.gap:
            self.behind = 0
            if self.held and r < self.held[-1][1].r - self.gap:
                out += self._drop_held()
            self.held.append((item, stamp, source))
            if len(self.held) >= self.confirm:
                believed, self.held = self.held, []
                for each in believed:
                    out += self.advance(max(each[1].r, self.now or 0))
                    self._take(*each)
            return out
        out += self._drop_held()
        if now is not None and r < now - self.gap:
            near = self.behind == 0 or abs(r - self.behind_r) <= self.gap
            self.behind_r = max(r, self.behind_r) if self.behind and near else r
            self.behind = self.behind + 1 if near else 1
            if self.behind >= self.confirm:
                self.behind = 0
                self._set_back(self.behind_r)
        else:
            self.behind = 0
            out += self.advance(r if now is None else max(r, now))
        self._take(item, stamp, source)
        return out

    def _drop_held(self) -> list[Observed[T]]:
        out = [self._refuse(item, FUTURE) for item, _, _ in self.held]
        self.held.clear()
        return out

    def _take(self, item: T, stamp: Timestamp, source: Source) -> None:
        now = self.now
        assert now is not None
        due = self.policy.due(stamp.r, stamp.c, self.policy.before(stamp))
        due = min(max(due, now), now + self.policy.bounds.longest)
        self._push(Waiting(stamp.key(source), due, now, item, stamp, source))

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
        late = self.top is not None and each.key < self.top
        if late:
            self.late += 1
        else:
            self.top = each.key
        self.position += 1
        assert self.now is not None
        return Observed(each.item, self.position - 1, self.now - each.arrived, late, None)

    def _refuse(self, item: T, reason: str) -> Observed[T]:
        self.refused[reason] += 1
        return Observed(item, -1, 0, False, reason)
