"""Which messages a node has received: a count per source, and the few that came out of order."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, Message, NodeId
from antecast.core.frames import Seq, Source

Gaps: TypeAlias = Annotated[
    dict[Source, Annotated[list[Seq], msgspec.Meta(max_length=MAX_SOURCES)]],
    msgspec.Meta(max_length=MAX_SOURCES),
]
"""Single messages beyond a source's count, as frames carry them."""


def covers(clock: Mapping[NodeId, int], other: Mapping[NodeId, int]) -> bool:
    """Whether no entry of `other` is ahead of `clock`."""
    return all(clock.get(source, 0) >= count for source, count in other.items())


def first_of(messages: Iterable[Message[Any]]) -> dict[NodeId, int]:
    """For each source, the first of these messages."""
    first: dict[NodeId, int] = {}
    for message in messages:
        first[message.origin] = min(message.seq, first.get(message.origin, message.seq))
    return first


def some_gaps(beyond: Mapping[NodeId, set[int]], limit: int) -> dict[NodeId, list[int]]:
    """What lies beyond the counts, for a frame, up to `limit` numbers: what is left out comes again, as a copy."""
    some: dict[NodeId, list[int]] = {}
    for origin, numbers in beyond.items():
        if limit > 0:
            some[origin] = list(islice(sorted(numbers), limit))
            limit -= len(some[origin])
    return some


class Received:
    """For each source all messages up to a number, and single ones beyond it."""

    __slots__ = ("beyond", "upto")

    def __init__(self) -> None:
        self.upto: dict[NodeId, int] = {}
        self.beyond: dict[NodeId, set[int]] = {}

    def __bool__(self) -> bool:
        return bool(self.upto or self.beyond)

    def __contains__(self, message: tuple[NodeId, int]) -> bool:
        origin, seq = message
        return seq <= self.upto.get(origin, 0) or seq in self.beyond.get(origin, ())

    def add(self, origin: NodeId, seq: int) -> bool:
        """Note a message; False if it was here already."""
        upto = self.upto.get(origin, 0)
        if seq <= upto:
            return False
        if seq == upto + 1:
            self.upto[origin] = seq
            if origin in self.beyond:
                self._follow(origin)
            return True
        beyond = self.beyond.setdefault(origin, set())
        if seq in beyond:
            return False
        beyond.add(seq)
        return True

    def advance(self, base: Mapping[NodeId, int]) -> None:
        """Count everything up to `base` as received."""
        for origin, seq in base.items():
            if seq > self.upto.get(origin, 0):
                self.upto[origin] = seq
                if origin in self.beyond:
                    self.beyond[origin] = {each for each in self.beyond[origin] if each > seq}
                    self._follow(origin)

    def forget(self, origin: NodeId, seq: int) -> None:
        """Drop what is no longer of use: this message and, when it is the newest, its source."""
        if seq == self.upto.get(origin):
            del self.upto[origin]
        elif origin in self.beyond:
            self.beyond[origin].discard(seq)
            if not self.beyond[origin]:
                del self.beyond[origin]

    def _follow(self, origin: NodeId) -> None:
        """Move what now follows without a gap from `beyond` into the count; costs as much as it moves."""
        upto, beyond = self.upto[origin], self.beyond[origin]
        while upto + 1 in beyond:
            upto += 1
            beyond.remove(upto)
        self.upto[origin] = upto
        if not beyond:
            del self.beyond[origin]

    def ahead_of(self, upto: Mapping[NodeId, int], most: int) -> list[tuple[NodeId, int]] | None:
        """The messages received here beyond these counts; None if there are more than `most`."""
        ahead: list[tuple[NodeId, int]] = []
        for origin, count in self.upto.items():
            there = upto.get(origin, 0)
            if there < count:
                if count - there > most - len(ahead):
                    return None
                ahead += [(origin, seq) for seq in range(there + 1, count + 1)]
        for origin, numbers in self.beyond.items():
            if len(numbers) > most - len(ahead):
                return None
            there = upto.get(origin, 0)
            ahead += [(origin, seq) for seq in numbers if seq > there]
        return ahead

    @property
    def out_of_turn(self) -> int:
        """How many messages lie beyond the counts."""
        return sum(map(len, self.beyond.values()))

    def knows(self, origin: NodeId) -> bool:
        """Whether any message of a source was received."""
        return origin in self.upto or origin in self.beyond

    def sources(self) -> int:
        """How many sources messages were received from."""
        return len(self.upto) + sum(origin not in self.upto for origin in self.beyond)

    def gaps(self) -> dict[NodeId, list[int]]:
        """What lies beyond the counts, in a fixed order."""
        return {origin: sorted(numbers) for origin, numbers in self.beyond.items()}

    def lacks(self, upto: Mapping[NodeId, int], beyond: Mapping[NodeId, list[int]]) -> bool:
        """Whether another has received a message that is not here."""
        here = self.upto.get
        # The one after the count is never here, or the count would be higher: no need to look further.
        return any(last > here(origin, 0) for origin, last in upto.items()) or any(
            (origin, seq) not in self for origin, numbers in beyond.items() for seq in numbers
        )
