"""The clock of the rows: the time as the messages themselves tell it.

An observer without a clock reads the time off the r of what arrives. As long as clocks keep within ε and messages
within δ, the largest r seen is as good as a clock. One source whose clock is wrong must not move it. The rules:

- **Ground** is the largest reading that *two different sources* have shown, or another clock (a timer). One
  source alone moves the clock at most ε + δ beyond it. So a single wrong clock, whether it leaps or runs fast,
  takes the clock of the rows no further than ε + δ from where the others are.
- A row beyond ground + ε + δ is **doubted**: it is held back until a later row of another source shows that it is
  at least as late, up to ε + δ. Then at least one of two sources has it right, and the ground is the smaller r.
- A doubted row is **refused** when the stream goes on without it: a row arrives later that is no more than ε + δ
  behind the ground, and more than ε + δ behind the doubted one. Where the guarantees hold this cannot happen: when
  a row with r has arrived, its source's clock shows r or more, every other clock r − ε or more, and what arrives
  from now on was sent at r − ε − δ or later. So no right row is ever refused because of right rows.
- **The further the leap, the more rows it takes.** Where several sources are wrong, two of their rows arrive one
  right behind the other now and then. A leap of up to `NEAR` (ε + δ) takes two consecutive doubted rows that
  agree; one more for each doubling beyond, 13 for an hour at ε + δ = 55 ms. With one row in twenty wrong, that
  happens once in 20¹³. After a true leap all rows are doubted, and 13 have come soon compared with the leap.
- While **one source alone** has shown the clock, `CONFIRM` consecutive rows will do for any leap, if two other
  sources agree on it: of three sources two are right. Until then its own rows refuse those of others only when
  there have been `ALONE_AGAINST`. Otherwise a clock that stands in 1970 and happens to speak first has all others
  refused, since each of its rows contradicts them again.
- A source that is **alone** has nobody to confirm it. Where no other source was ever seen, `CONFIRM` consecutive
  doubted rows confirm it; where others were seen and have fallen silent, `ALONE` do. From then on it counts as the
  only one.
- A clock that has gone **wrong** (the first row was from the future) is set back when rows of two sources, or of
  the one that set the clock, are too far behind: by more than ε + δ where one source alone vouches for the clock,
  by more than `gap` where two do. Each row in time outweighs one of them. What is left must be `CONFIRM`, and
  where two sources vouch for the clock as many as a leap of that length takes. So most rows decide: a few sources
  whose clocks stand in 1970 set nobody back. Nor do rows that are merely late.

Rows that arrive *together*, in one micro-batch without an order of arrival, are sorted by r, which puts all wrong
rows side by side, at the end or at the beginning. They cannot confirm each other: only a row of a later moment
can. Behind right rows of their moment they count as one, and a clock is set back only by what earlier moments have
left. The first moment of all begins where most of its rows are (`first_to_believe`).
"""

from __future__ import annotations

from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from antecast.core.compiled import compiled
from antecast.observer.policy import Longs, Policy
from antecast.observer.timestamps import Source

T = TypeVar("T")

CONFIRM = 3
"""How many consecutive rows confirm an only source, or set a clock back."""
ALONE = 100
"""How many consecutive rows confirm a source where others were seen before."""

ALONE_AGAINST = 10
"""How many rows of the only source that has shown the clock must speak against doubted ones of others: it may be
the wrong one."""

NEAR = 32
"""Leaps of up to so many times ε + δ are short: a stream whose rows are that far apart makes one with each."""


class Front(msgspec.Struct, omit_defaults=True):
    """What is known of the time: of a fixed size, whatever the number of sources."""

    ground: int = 0
    """The largest reading that two sources have shown, or another clock; with one source, its largest."""
    leader: Source | None = None
    """The source with the largest r, and that r; together with the ground, the two largest of all sources."""
    leader_r: int = 0
    several: bool = False
    """Whether a second source has confirmed the clock."""
    shown: int = 0
    """How many rows of the only source have shown the clock, up to `CONFIRM`."""
    run: int = 0
    """How many consecutive doubted rows came from one source, and which."""
    run_source: Source | None = None
    streak: int = 0
    """How many consecutive doubted rows agree, and the largest r of these."""
    level: int = 0
    against: int = 0
    """How many rows of the only source have spoken against the doubted ones."""
    behind: int = 0
    """How many rows were too far behind, less those in time since; their largest r, the first one's source, and
    whether they are of two sources or of the leader."""
    behind_r: int = 0
    behind_source: Source | None = None
    behind_sure: bool = False

    def copy(self) -> Front:
        return msgspec.structs.replace(self)


Verdict: TypeAlias = Literal["take", "refuse", "back"]


class Ruling(NamedTuple, Generic[T]):
    """What to do: take an item at a reading of the clock, refuse it, or set the clock back."""

    verdict: Verdict
    item: T | None
    reading: int


class Doubted(NamedTuple, Generic[T]):
    item: T
    r: int
    source: Source
    moment: int


class RowClock(Generic[T]):
    """Judges rows one by one. The caller keeps the reading of the clock: it is an argument, and part of the
    rulings."""

    def __init__(self, policy: Policy, *, gap: int, front: Front | None = None) -> None:
        self.reach = policy.bounds.delta + policy.bounds.epsilon
        self.gap = max(gap, self.reach)
        self.front = Front() if front is None else front
        self.held: list[Doubted[T]] = []
        self._moment: int | None = None
        self._voting: int | None = None
        self._voted = 0
        """How many rows were too far behind before the moment `_voting`."""
        self._sorted: int | None = None
        """A moment in which doubted rows stand behind others only because they were sorted."""

    def offer(
        self, item: T, r: int, source: Source, moment: int, now: int | None, evidence: int | None = None
    ) -> list[Ruling[T]]:
        """A row has arrived. `evidence` is what another clock shows: rows no further ahead are not doubted."""
        front, out = self.front, list[Ruling[T]]()
        if now is None or front.leader is None:
            first = self._accept(item, r, source, r if now is None else now)
            front.ground = max(front.ground, front.ground if evidence is None else evidence)
            return [first]
        if evidence is not None and evidence > front.ground:
            front.ground = evidence
            now = self._release(now, out)
        if now > front.ground + self.reach:  # no sequence of rows leads here: the state was corrupted
            now = front.ground + self.reach
            out.append(Ruling("back", None, now))
        if r > front.ground + self.reach and source != front.leader:
            front.ground = max(front.ground, front.leader_r)  # two sources have reached it now
        if r > front.ground + self.reach:
            self._doubt(item, r, source, moment, out)
        else:
            if r >= front.ground - self.reach:
                self._sorted = moment
                self._speak_against(r, source, out)
            now = self._ordinary(item, r, source, moment, now, out)
        self._release(now, out)
        return out

    def passed(self, reading: int, now: int) -> list[Ruling[T]]:
        """Another clock shows `reading`. What it confirms is taken first, each row at its own time, so that what
        is due by now can go."""
        out: list[Ruling[T]] = []
        if self.front.leader is not None:
            self.front.ground = max(self.front.ground, reading)
            self._release(now, out)
        return out

    def settle(self, now: int) -> list[Ruling[T]]:
        """Nothing more will come. Doubted rows that another source confirms are believed; those no further ahead
        than the gap are taken without moving the clock; the rest are refused."""
        out: list[Ruling[T]] = []
        largest: dict[Source, int] = {}
        for each in self.held:
            largest[each.source] = max(each.r, largest.get(each.source, each.r))
        nobody: list[tuple[Source, int]] = [("", -(1 << 63))] * 2
        first, second = sorted([*largest.items(), *nobody], key=lambda pair: -pair[1])[:2]
        held, self.held = self.held, []
        for each in held:
            other = second if each.source == first[0] else first
            if other[1] >= each.r - self.reach:
                self.front.ground = max(self.front.ground, min(each.r, other[1]))
                out.append(self._accept(each.item, each.r, each.source, now))
                now = out[-1].reading
            elif each.r <= now + self.gap:
                out.append(Ruling("take", each.item, now))
            else:
                out.append(Ruling("refuse", each.item, now))
        self.front.run = self.front.streak = self.front.level = self.front.against = 0
        return out

    def _accept(self, item: T, r: int, source: Source, now: int) -> Ruling[T]:
        """A row that can be believed: the two largest readings of different sources, and the clock."""
        front = self.front
        if front.leader is None:
            front.leader, front.leader_r, front.ground, front.shown = source, r, max(r, now), 1
        elif source == front.leader:
            front.leader_r = max(front.leader_r, r)
            front.shown = min(front.shown + 1, CONFIRM)
            if not front.several:
                front.ground = max(front.ground, r)
        else:
            front.several = True
            front.ground = max(front.ground, min(r, front.leader_r))
            if r > front.leader_r:
                front.leader, front.leader_r = source, r
        return Ruling("take", item, max(now, r))

    def _doubt(self, item: T, r: int, source: Source, moment: int, out: list[Ruling[T]]) -> None:
        front = self.front
        front.behind = 0
        if front.run_source != source or not front.run:
            front.run_source, front.run = source, 1
        elif moment != self._moment:
            front.run += 1
        self._count(r, moment)
        self._moment = moment
        agreed = [
            min(each.r, r)
            for each in self.held
            if each.source != source
            and each.moment < moment
            and each.r <= r + self.reach
            and front.streak >= self._needed(min(each.r, r), each.source, source)
        ]
        self.held.append(Doubted(item, r, source, moment))
        if agreed:
            front.ground = max(front.ground, *agreed)
        elif front.run >= (CONFIRM if source == front.leader and not front.several else ALONE):
            self._contradict(r, out)
            front.leader, front.several, front.shown = source, False, CONFIRM
            front.leader_r = front.ground = max(each.r for each in self.held if each.source == source)

    def _count(self, r: int, moment: int) -> None:
        """A doubted row agrees with those before it, unless one of them is impossible beside it, or it leaps
        again, and further than they did."""
        front = self.front
        furthest = front.level + max(NEAR * self.reach, front.level - front.ground)
        if front.streak and front.level - self.reach <= r <= furthest:
            front.streak += moment != self._sorted
            front.level = max(r, front.level)
            return
        if front.streak and moment == self._moment:
            self._sorted = moment
        front.streak, front.level = 1, r

    def _needed(self, r: int, one: Source, other: Source) -> int:
        """How many doubted rows, of these two sources, must agree before the ground is r."""
        front = self.front
        needed = self._agreeing(r - front.ground)
        alone = not front.several and front.ground <= front.leader_r and front.leader not in (one, other)
        return min(needed, CONFIRM) if alone else needed

    def _agreeing(self, leap: int) -> int:
        return 2 + (leap // (NEAR * max(self.reach, 1))).bit_length()

    def _speak_against(self, r: int, source: Source, out: list[Ruling[T]]) -> None:
        """A row in time refutes what is doubted; but one source alone does so to others only with many rows."""
        front = self.front
        alone = not front.several and source == front.leader
        if not alone or all(each.source == source for each in self.held if each.r > r + self.reach):
            self._contradict(r, out)
            return
        front.against += 1
        if front.against >= ALONE_AGAINST:
            self._contradict(r, out)
            return
        wrong = [each.source == source and each.r > r + self.reach for each in self.held]
        out += [Ruling("refuse", each.item, r) for each, bad in zip(self.held, wrong, strict=True) if bad]
        self.held = [each for each, bad in zip(self.held, wrong, strict=True) if not bad]
        front.run = 0

    def _contradict(self, r: int, out: list[Ruling[T]]) -> None:
        """The stream goes on at r without the rows that are impossibly far ahead."""
        if self.held:
            out += [Ruling("refuse", each.item, r) for each in self.held if each.r > r + self.reach]
            self.held = [each for each in self.held if each.r <= r + self.reach]
        self.front.run = self.front.streak = self.front.level = self.front.against = 0

    def _ordinary(self, item: T, r: int, source: Source, moment: int, now: int, out: list[Ruling[T]]) -> int:
        front = self.front
        own = source == front.leader
        far = self.gap if front.several or (own and front.shown >= CONFIRM) else self.reach
        if moment != self._voting:
            self._voting, self._voted = moment, front.behind
        if r >= now - far:
            if front.several or not own:  # the only source says nothing by agreeing with itself
                front.behind -= front.behind > 0
            ruling = self._accept(item, r, source, now)
            out.append(ruling)
            return ruling.reading
        if front.behind and abs(r - front.behind_r) <= far:
            front.behind += 1
            front.behind_r = max(r, front.behind_r)
            front.behind_sure |= own or source != front.behind_source
        else:
            front.behind, front.behind_r, front.behind_source, front.behind_sure = 1, r, source, own
            self._voted = 0
        needed = max(CONFIRM, self._agreeing(now - r)) if front.several else CONFIRM
        if self._voted + 1 >= needed and front.behind_sure:
            now = front.behind_r
            front.leader, front.leader_r, front.ground = source, now, now
            front.several, front.shown, front.behind = False, CONFIRM, 0
            self._voted = 0
            out.append(Ruling("back", None, now))
        out.append(Ruling("take", item, now))
        return now

    def _release(self, now: int, out: list[Ruling[T]]) -> int:
        """Take the doubted rows that the ground has come near to, in the order of their arrival; returns what the
        clock then reads."""
        while self.held:
            limit = self.front.ground + self.reach
            ready = [each for each in self.held if each.r <= limit]
            if not ready:
                return now
            self.held = [each for each in self.held if each.r > limit]
            for each in ready:
                out.append(self._accept(each.item, each.r, each.source, now))
                now = out[-1].reading
        self.front.run = self.front.streak = self.front.level = self.front.against = 0
        return now


def first_to_believe(r: Longs, reach: int) -> int:
    """Which row of a first moment, sorted by r, to begin with: the first one, unless most of the rows lie together
    beyond a leap. Those before the leap are then of clocks that are behind."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(r) > reach) + 1])
    sizes = np.diff(np.append(starts, len(r)))
    most = int(np.argmax(sizes))
    return int(starts[most]) if 2 * sizes[most] > len(r) else 0


def moved(
    front: Front, now: int | None, r: Longs, source: Longs, fine: Any, reach: int, gap: int, evidence: int | None
) -> tuple[Longs, Front] | None:
    """The readings of the clock as rows arrive, where none of them is doubted or too far behind; else None."""
    if front.behind or not len(r):
        return None if front.behind else (np.zeros(0, np.int64), front)
    after = front.copy()
    known = front.leader is not None and now is not None
    shows = -(1 << 62) if evidence is None else evidence
    if known:
        after.ground = max(after.ground, shows)
    if known and now > after.ground + reach:  # type: ignore[operator]
        return None
    clock, known, ground, leader, leader_r, several, shown = follow(
        r,
        source,
        fine,
        reach,
        max(gap, reach),
        -(1 << 62) if now is None else now,
        shows,
        known,
        after.ground,
        after.leader if known else 0,  # type: ignore[arg-type]
        after.leader_r,
        after.several,
        after.shown,
    )
    if len(clock) < len(r):
        return None
    after.ground, after.leader, after.leader_r = int(ground), int(leader) if known else None, int(leader_r)
    after.several, after.shown = bool(several), int(shown)
    return clock, after


@compiled
def follow(
    r: Longs,
    source: Longs,
    fine: Any,
    reach: int,
    gap: int,
    now: int,
    evidence: int,
    known: bool,
    ground: int,
    leader: int,
    leader_r: int,
    several: bool,
    shown: int,
) -> tuple[Longs, bool, int, int, int, bool, int]:
    """`RowClock.offer` for ordinary rows; stops, with a shorter array, at the first that is not."""
    clock = np.empty(len(r), np.int64)
    for row in range(len(r)):
        if fine[row]:
            at, by = r[row], source[row]
            if not known:
                known, leader, leader_r, shown = True, by, at, 1
                now = max(now, at)
                ground = max(now, evidence)
            else:
                if at > ground + reach and by != leader:
                    ground = max(ground, leader_r)
                far = gap if several or (by == leader and shown >= CONFIRM) else reach
                if at > ground + reach or at < now - far:
                    return clock[:row], known, ground, leader, leader_r, several, shown
                if by == leader:
                    leader_r = max(leader_r, at)
                    shown = min(shown + 1, CONFIRM)
                    if not several:
                        ground = max(ground, at)
                else:
                    several = True
                    ground = max(ground, min(at, leader_r))
                    if at > leader_r:
                        leader, leader_r = by, at
                now = max(now, at)
        clock[row] = now
    return clock, known, ground, leader, leader_r, several, shown
