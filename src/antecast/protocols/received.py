"""Which messages a node has received: a count a source, and the few that came out of turn."""

from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, NodeId
from antecast.core.frames import Seq, Source

Gaps: TypeAlias = Annotated[
    dict[Source, Annotated[list[Seq], msgspec.Meta(max_length=MAX_SOURCES)]],
    msgspec.Meta(max_length=MAX_SOURCES),
]
"""Single messages beyond a source's count, as frames carry them."""


def covers(clock: Mapping[NodeId, int], other: Mapping[NodeId, int]) -> bool:
    """Whether no entry of `other` is ahead of `clock`."""
    return all(clock.get(source, 0) >= count for source, count in other.items())


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
                self._close(origin)
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
                    self._close(origin)

    def forget(self, origin: NodeId, seq: int) -> None:
        """Drop what is no longer of use: this message and, when it is the newest, its source."""
        if seq == self.upto.get(origin):
            del self.upto[origin]
        elif origin in self.beyond:
            self.beyond[origin].discard(seq)
            if not self.beyond[origin]:
                del self.beyond[origin]

    def _close(self, origin: NodeId) -> None:
        """Move what now follows without a gap from `beyond` into the count."""
        upto = self.upto[origin]
        beyond = {seq for seq in self.beyond[origin] if seq > upto}
        while upto + 1 in beyond:
            upto += 1
            beyond.remove(upto)
        self.upto[origin] = upto
        if beyond:
            self.beyond[origin] = beyond
        else:
            del self.beyond[origin]

    def gaps(self) -> dict[NodeId, list[int]]:
        """What lies beyond the counts, in a fixed order, for a frame."""
        return {origin: sorted(numbers) for origin, numbers in self.beyond.items()}

    def lacks(self, upto: Mapping[NodeId, int], beyond: Mapping[NodeId, list[int]]) -> bool:
        """Whether another has received a message that is not here."""
        return next(self._lacking(upto, beyond), None) is not None

    def _lacking(
        self, upto: Mapping[NodeId, int], beyond: Mapping[NodeId, list[int]]
    ) -> Iterator[tuple[NodeId, int]]:
        for origin, last in upto.items():
            for seq in range(self.upto.get(origin, 0) + 1, last + 1):
                if (origin, seq) not in self:
                    yield origin, seq
        for origin, numbers in beyond.items():
            for seq in numbers:
                if (origin, seq) not in self:
                    yield origin, seq
