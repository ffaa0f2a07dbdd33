"""What each node has broadcast and delivered, and what that breaks.

A record is what an observer needs to judge the next delivery: the messages delivered, those in their causal past,
and for each broadcast of the node what happened before it. The order of deliveries is not part of it, so worlds
that differ in nothing else are one. Sets of messages are the bits of a number.
"""

from __future__ import annotations

from typing import NamedTuple

from antecast.core import MessageId
from antecast.protocols.registry import Guarantee


class Record(NamedTuple):
    delivered: int
    covered: int
    """What happened before all that was delivered."""
    pasts: tuple[tuple[int, int], ...]
    """Of each message broadcast here: its bit, and what happened before it."""
    discarded: int = 0
    """The messages of which the node has said that it will never deliver them."""


class Problem(NamedTuple):
    """A property that is broken, and how, in words."""

    property: str
    words: str
    delivery: tuple[int, int] | None = None
    """The node and the message of the delivery that broke it, if one did."""


EMPTY = Record(0, 0, ())


class Records:
    """The values that records take, by number."""

    def __init__(self, names: list[MessageId], guarantees: frozenset[Guarantee]) -> None:
        self._names = names
        self._fifo = Guarantee.FIFO in guarantees
        self._causal = Guarantee.CAUSAL in guarantees
        self.values: list[Record] = []
        self._numbers: dict[Record, int] = {}
        self._delivered: dict[tuple[int, int, int], int | Problem] = {}

    def number(self, record: Record) -> int:
        found = self._numbers.get(record)
        if found is None:
            found = self._numbers[record] = len(self.values)
            self.values.append(record)
        return found

    def broadcast(self, number: int, node: int, message: int) -> int | Problem:
        record, name = self.values[number], self._names[message]
        own = 0
        for bit, _ in record.pasts:
            own |= bit
        if own >> message & 1:
            return Problem("integrity", f"node {node} broadcast two messages as {name}")
        if name.origin != node:
            return Problem("integrity", f"node {node} broadcast {name}, which is not a name of its own")
        past = record.delivered | record.covered | own
        return self.number(record._replace(pasts=(*record.pasts, (1 << message, past))))

    def deliver(self, number: int, node: int, message: int, past: int | None) -> int | Problem:
        """A node delivers a message; `past` is what happened before it, None if nobody broadcast it."""
        if past is None:
            return Problem(
                "integrity",
                f"node {node} delivered {self._names[message]}, which nobody broadcast",
                (node, message),
            )
        key = (number, message, past)
        found = self._delivered.get(key)
        if found is None:
            found = self._delivered[key] = self._deliver(self.values[number], node, message, past)
        return found

    def discard(self, number: int, message: int) -> int:
        record = self.values[number]
        return self.number(record._replace(discarded=record.discarded | 1 << message))

    def _deliver(self, record: Record, node: int, message: int, past: int) -> int | Problem:
        bit, name = 1 << message, self._names[message]
        if record.discarded & bit:
            words = f"node {node} delivered {name}, which it had discarded"
            return Problem("contract", words, (node, message))
        if record.delivered & bit:
            return Problem("integrity", f"node {node} delivered {name} twice", (node, message))
        if self._causal and record.covered & bit:
            words = f"node {node} delivered {name} after a message that depends on it"
            return Problem("causal", words, (node, message))
        if self._fifo:
            for other, each in enumerate(self._names):
                later = each.origin == name.origin and not past >> other & 1
                if later and record.delivered >> other & 1:
                    return Problem("fifo", f"node {node} delivered {name} after {each}", (node, message))
        return self.number(record._replace(delivered=record.delivered | bit, covered=record.covered | past))
