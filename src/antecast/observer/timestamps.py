"""Bounded timestamps: enough of the past to order messages, in space that does not grow.

Theory of operation. Besides its own clock r a process knows M = r + c, the largest clock reading in
its causal past, and a[i] = kn[c − i], the length of the longest chain of events it knows of at clock
reading M − i. Clocks differ by ε at most, so no event of the present can fall below M − ε, and
a[0 … ε] is all that matters: an event raises M or, with M as it was, one element of a. Hence e → f
implies (M, a[0], …, a[ε]) of e < that of f, lexicographically, and the sources break ties among
concurrent events. This is the *short form* of the timestamp ⟨r, c, kn⟩ of "Approximate causal
observer" (its Figure 1): half the space, the same order. `published` has the long form and the rule as
printed, which is wrong when c = ε.

With fewer than ε + 1 elements the order is only approximate; with none it is that of M alone (DPC2).

Stabilisation. An impossible state (M more than ε ahead of every clock reading so far, a count that is too high) is
reset, and an impossible stamp is ignored; both are counted. Whatever the start, what was wrong has left the
timestamps once M has moved on by ε.

A clock that is set back is not such a state: the past was real, and the process's own messages must stay in
order. If it is set back by more than ε, r stands still at M − ε until the clock has caught up (`forced`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from antecast.core.errors import LocalMisuse
from antecast.observer.bounds import Bounds

Source: TypeAlias = int | str
Key: TypeAlias = tuple[int | str, ...]

FURTHEST = 1 << 62
"""Times are from −2⁶² to 2⁶²: what is computed with them stays within 64 bits."""
_RANGE = msgspec.Meta(ge=-FURTHEST, le=FURTHEST)


class Timestamp(msgspec.Struct, frozen=True, gc=False):
    """What a message carries.

    >>> Timestamp(r=100, c=3, kn=(1, 0, 2)).latest
    103
    """

    r: Annotated[int, _RANGE]
    """The sender's clock."""
    c: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0
    """How far ahead of it is the largest clock reading that the sender knew of."""
    kn: Annotated[tuple[int, ...], msgspec.Meta(max_length=1 << 16)] = ()
    """kn[c], kn[c − 1], …: longest chains of events at clock readings r + c, r + c − 1, …; or the
    counter of a hybrid clock, alone."""
    before: Annotated[int, _RANGE] | None = None
    """The largest r of an earlier send in the causal past, if one is known; at most r + c."""

    @property
    def latest(self) -> int:
        """M = r + c."""
        return self.r + self.c

    def key(self, source: Source) -> Key:
        """Sorts after the keys of all events in the causal past; total, if sources differ."""
        return (self.r + self.c, *self.kn, source)


def less(one: Timestamp, source: Source, other: Timestamp, other_source: Source) -> bool:
    """Whether the first event comes first in the order of the timestamps.

    >>> less(Timestamp(r=5, kn=(1,)), "a", Timestamp(r=4, c=1, kn=(2,)), "b")
    True
    """
    return one.key(source) < other.key(other_source)


class BoundedClock:
    """Stamps the messages of one process. `now` is its physical clock, in ticks.

    >>> ada, ben = (BoundedClock(Bounds(epsilon=2, delta=5)) for _ in range(2))
    >>> question = ada.send(now=10)
    >>> ben.receive(question, now=9)
    True
    >>> answer = ben.send(now=9)
    >>> answer
    Timestamp(r=9, c=1, kn=(1, 2, 0), before=10)
    >>> less(question, "ada", answer, "ben")
    True
    """

    def __init__(self, bounds: Bounds, *, elements: int | None = None) -> None:
        """`elements`: how many elements of kn to keep and to send; all ε + 1 make the order exact."""
        self.bounds = bounds
        self._width = bounds.epsilon + 1 if elements is None else elements
        if not 0 <= self._width <= bounds.epsilon + 1:
            raise LocalMisuse(f"elements must be 0 to {bounds.epsilon + 1} (ε + 1), got {elements}")
        self._latest = 0
        self._counts = [0] * self._width
        self._before: int | None = None
        self._read = 0
        self._tick = 0
        self._events = 0
        self.resets = 0
        """How often this process's own state was impossible."""
        self.refused = 0
        """How many stamps were ignored."""
        self.forced = 0
        """How many events have an r ahead of the clock, since the process could not keep its order otherwise."""

    def local(self, now: int) -> None:
        """An event that neither sends nor receives."""
        self._event(now, None)

    def send(self, now: int) -> Timestamp:
        """The stamp of a message that is sent now."""
        r = self._event(now, None)
        stamp = Timestamp(r, self._latest - r, tuple(self._counts), self._before)
        self._before = r if self._before is None else max(self._before, r)
        return stamp

    def receive(self, stamp: Timestamp, now: int) -> bool:
        """A message is received; False if its stamp was impossible and only the event counts."""
        learned = acceptable(stamp, now, self.bounds, self._width, self.bounds.most)
        self.refused += not learned
        self._event(now, stamp if learned else None)
        return learned

    def reset(self, now: int) -> None:
        """Forget the past, for a process whose clock was ahead and has been put right. What it stamped before
        sorts after what it stamps from now on."""
        self._latest, self._counts, self._before, self._read = now, [0] * self._width, None, now

    def _event(self, now: int, stamp: Timestamp | None) -> int:
        """Count an event; returns its r."""
        if not self._possible(now):
            self.resets += 1
            self.reset(now)
            if self._width:
                self._counts[0] = 1  # the event that found it out
        latest, counts, before = max(self._latest, now), self._counts, self._before
        counts = shifted(counts, latest - self._latest)
        if stamp is not None:
            if stamp.latest > latest:
                counts = shifted(counts, stamp.latest - latest)
                latest = stamp.latest
            counts = list(map(max, counts, shifted(stamp.kn, latest - stamp.latest)))
            before = later(before, later(stamp.before, stamp.r))
        r = max(now, latest - self.bounds.epsilon)
        self._hold_to_promise(r, now)
        most = self.bounds.most
        while most is not None and latest - r < self._width and r <= latest and counts[latest - r] >= most:
            r += 1  # others have more events at this reading than promised: borrow one tick from the future
        if r > latest:
            latest, counts = r, shifted(counts, r - latest)
        if latest - r < self._width:
            counts[latest - r] += 1
        self.forced += r > now
        self._latest, self._counts, self._before, self._read = latest, counts, before, max(self._read, r)
        return r

    def _hold_to_promise(self, r: int, now: int) -> None:
        """No more than K events per tick: without that, no element has a bound."""
        if self.bounds.most is None:
            return
        events = self._events + 1 if r == self._tick else 1
        if events > self.bounds.events_a_tick:
            problem = f"more than {self.bounds.events_a_tick} events in one tick"
            if r > now:
                problem += f" (the clock was set back to {now}, and r stands at {r} until it has caught up)"
            raise LocalMisuse(f"{problem}; use shorter ticks, or a larger events_a_tick for all")
        self._tick, self._events = r, events

    def _possible(self, now: int) -> bool:
        """Whether events can lead to this state. M may be more than ε ahead of a clock that was set back, but not
        of the largest reading there has been."""
        most = self.bounds.most
        return (
            self._latest <= max(now, self._read) + self.bounds.epsilon
            and len(self._counts) == self._width
            and all(count >= 0 and (most is None or count <= most) for count in self._counts)
            and (self._before is None or self._before <= self._latest)
        )


def acceptable(stamp: Timestamp, now: int, bounds: Bounds, width: int, most: int | None) -> bool:
    """Whether a stamp can have been made by a process that keeps the rules and its clock within ε of ours.

    An old stamp is acceptable: it says less than it could, and nothing wrong.
    """
    return (
        0 <= stamp.c <= bounds.epsilon
        and stamp.latest <= now + bounds.epsilon
        and len(stamp.kn) == width
        and all(count >= 0 and (most is None or count <= most) for count in stamp.kn)
        and (stamp.before is None or stamp.before <= stamp.latest)
    )


def shifted(counts: Sequence[int], by: int) -> list[int]:
    """Counts below M as counts below M + by; those that fall below M − ε are dropped."""
    width = len(counts)
    if by >= width:
        return [0] * width
    return [0] * by + list(counts[: width - by])


def later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
