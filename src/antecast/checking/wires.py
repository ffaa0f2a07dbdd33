"""The links of a world, by the rules of `core.protocol`: each has lives, and each life has two ends.

All that is between two nodes is one value: the lives of their link that are not over, the oldest first. Each end
of a life is first to come, then up, then gone; frames wait for an end that is to come, and are dropped with one
that is gone. A life that breaks is noticed by each end at a moment of its own, and the next may begin before. An
end that has not come up by then may still do so, late, or never. What is between two nodes takes few values in
very many worlds, so these are numbered, and what can happen to each is worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from antecast.core import NodeId

TO_COME: Final = 0
UP: Final = 1
GONE: Final = 2

Queue: TypeAlias = tuple[int, ...]


class Life(NamedTuple):
    """One life of a link between a lower and a higher node."""

    broken: bool
    low: int
    high: int
    """How far each end is."""
    to_low: Queue
    to_high: Queue
    """Frames under way: in their order, or sorted by content where links do not keep order."""


class Link(NamedTuple):
    belongs: bool
    """Whether the two should have a link, now or when all has healed."""
    lives: tuple[Life, ...]


class Arrival(NamedTuple):
    """A frame that can arrive next."""

    to_high: bool
    life: int
    position: int
    frame: int
    after: int
    """What is between the two nodes then."""


class Change(NamedTuple):
    """An end that can come up or go down next."""

    high: bool
    life: int
    verb: str
    """`up` or `down`, or `late` for an end that comes up after the life has broken: it may do so, or never."""
    after: int


NO_LINK = Link(False, ())
FRESH = Life(False, TO_COME, TO_COME, (), ())


class Wires:
    """The values that links take, by number."""

    def __init__(self, *, fifo: bool, contents: Sequence[bytes]) -> None:
        self.fifo = fifo
        self._contents = contents
        self.values: list[Link] = []
        self._numbers: dict[Link, int] = {}
        self._arrivals: dict[int, tuple[Arrival, ...]] = {}
        self._losses: dict[int, tuple[Arrival, ...]] = {}
        self._changes: dict[int, tuple[Change, ...]] = {}
        self._sent: dict[tuple[int, bool, int], int] = {}
        self.busy: list[bool] = []
        """Whether anything is under way, or an end has still to notice something."""
        self.laden: list[bool] = []
        """Whether any frame is under way."""
        self.torn: list[bool] = []
        """Whether the two should have a link and have none that is not broken."""

    def number(self, link: Link) -> int:
        lives = tuple(_tidy(life) for life in link.lives)
        link = Link(link.belongs, tuple(life for life in lives if (life.low, life.high) != (GONE, GONE)))
        found = self._numbers.get(link)
        if found is None:
            found = self._numbers[link] = len(self.values)
            self.values.append(link)
            self.busy.append(any(_is_busy(life) for life in link.lives))
            self.laden.append(any(life.to_low or life.to_high for life in link.lives))
            self.torn.append(link.belongs and (not link.lives or link.lives[-1].broken))
        return found

    def sent(self, number: int, to_high: bool, frame: int) -> int:
        """A frame is sent; -1 if the sender's end is not up."""
        key = (number, to_high, frame)
        found = self._sent.get(key)
        if found is None:
            found = self._sent[key] = self._send(number, to_high, frame)
        return found

    def _send(self, number: int, to_high: bool, frame: int) -> int:
        link = self.values[number]
        for at, life in enumerate(link.lives):
            if (life.low if to_high else life.high) == UP:
                queue = (*(life.to_high if to_high else life.to_low), frame)
                queue = self.in_order(queue)
                return self._with(
                    link, at, life._replace(to_high=queue) if to_high else life._replace(to_low=queue)
                )
        return -1

    def in_order(self, queue: Queue) -> Queue:
        """The frames under way, by what is in them if links do not keep their order: not by their numbers, which
        are others in every search."""
        return queue if self.fifo else tuple(sorted(queue, key=self._contents.__getitem__))

    def _with(self, link: Link, at: int, life: Life) -> int:
        return self.number(link._replace(lives=(*link.lives[:at], life, *link.lives[at + 1 :])))

    def arrivals(self, number: int) -> tuple[Arrival, ...]:
        """What can arrive next: the first of each queue, or any of it where links do not keep order."""
        found = self._arrivals.get(number)
        if found is None:
            found = self._arrivals[number] = tuple(self._next(number, every=not self.fifo))
        return found

    def losses(self, number: int) -> tuple[Arrival, ...]:
        """What can be lost next: any frame."""
        found = self._losses.get(number)
        if found is None:
            found = self._losses[number] = tuple(self._next(number, every=True, waiting=True))
        return found

    def _next(self, number: int, *, every: bool, waiting: bool = False) -> list[Arrival]:
        link, found = self.values[number], []
        for at, life in enumerate(link.lives):
            for to_high, end, queue in ((False, life.low, life.to_low), (True, life.high, life.to_high)):
                if end == GONE or (end == TO_COME and not waiting):
                    continue
                for position, frame in enumerate(queue if every else queue[:1]):
                    if position and frame == queue[position - 1] and not self.fifo:
                        continue  # a copy of the one before: the same world
                    rest = queue[:position] + queue[position + 1 :]
                    left = life._replace(to_high=rest) if to_high else life._replace(to_low=rest)
                    found.append(Arrival(to_high, at, position, frame, self._with(link, at, left)))
        return found

    def changes(self, number: int) -> tuple[Change, ...]:
        """The ends that can come up or go down next."""
        found = self._changes.get(number)
        if found is None:
            found = self._changes[number] = tuple(self._next_changes(number))
        return found

    def _next_changes(self, number: int) -> list[Change]:
        link, found = self.values[number], []
        for at, life in enumerate(link.lives):
            for high, end in ((False, life.low), (True, life.high)):
                if end == TO_COME:
                    verb = "late" if life.broken else "up"
                    found.append(Change(high, at, verb, self._come_up(link, at, high)))
                elif end == UP and life.broken:
                    gone = life._replace(high=GONE) if high else life._replace(low=GONE)
                    found.append(Change(high, at, "down", self._with(link, at, gone)))
        return found

    def _come_up(self, link: Link, at: int, high: bool) -> int:
        """An end comes up; those of the lives before it are gone with that, whether they have been up or not."""
        lives = []
        for place, life in enumerate(link.lives):
            state = UP if place == at else GONE if place < at else life.high if high else life.low
            lives.append(life._replace(high=state) if high else life._replace(low=state))
        return self.number(link._replace(lives=tuple(lives)))

    # What happens to a link from outside.

    def broken(self, number: int) -> int:
        link = self.values[number]
        return self.number(link._replace(lives=tuple(life._replace(broken=True) for life in link.lives)))

    def begun(self, number: int) -> int:
        """A new life of the link."""
        link = self.values[number]
        return self.number(Link(True, (*(life._replace(broken=True) for life in link.lives), FRESH)))

    def due(self, number: int) -> int:
        """The two should have a link from now on, and it begins when both are up."""
        return self.number(self.values[number]._replace(belongs=True))

    def lost_end(self, number: int, high: bool, *, for_good: bool = False) -> int:
        """One of the two nodes has stopped; the other has still to notice."""
        link = self.values[number]
        lives = (life._replace(broken=True) for life in link.lives)
        ended = tuple(life._replace(high=GONE) if high else life._replace(low=GONE) for life in lives)
        return self.number(Link(link.belongs and not for_good, ended))

    def is_whole(self, number: int) -> bool:
        """Whether there is a life that is not broken."""
        link = self.values[number]
        return bool(link.lives) and not link.lives[-1].broken

    def ends(self, low: NodeId, high: NodeId, is_high: bool) -> tuple[NodeId, NodeId]:
        """The node at an end, and the other."""
        return (high, low) if is_high else (low, high)


def _tidy(life: Life) -> Life:
    """What is under way to an end that is gone is gone."""
    if life.low == GONE and life.to_low:
        life = life._replace(to_low=())
    return life._replace(to_high=()) if life.high == GONE and life.to_high else life


def _is_busy(life: Life) -> bool:
    """A life that has begun, and that neither end has seen come up, can wait as well as one that is to begin. A
    broken one is over once no end is up."""
    if life.broken:
        return UP in (life.low, life.high)
    return bool(life.to_low or life.to_high) or (life.low == TO_COME) != (life.high == TO_COME)
