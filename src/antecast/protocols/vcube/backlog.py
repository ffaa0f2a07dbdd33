"""The backlog: what waits here for other messages, and a bound on it.

A message that came before others it depends on is kept until they come. From correct nodes these are few. A broken
or lying one can send any number of messages that wait for something that will never come, so the backlog is
weighed, and once it is *full* a message finds a place in it only if its source has few there: it must follow
the last one delivered of that source by no more than `WINDOW`, and the source must be linked here. So a node that
fills the backlog takes away its own places and nobody else's. A message that can be delivered at once waits for
nothing and is always taken.

What is turned away counts as never received. With diagnosis it comes again with a later comparison, by then behind
what it waited for: comparisons go on until nothing is missing, and each brings at least the messages that can be
delivered at once.
"""

from collections.abc import Mapping
from typing import Any, Final

from antecast.core import Message, NodeId
from antecast.protocols.received import covers

FULL: Final = 1 << 28
"""256 MiB: a quarter of a million small messages out of turn."""

WINDOW: Final = 256
"""Places of each linked source when the backlog is full."""

_MESSAGE, _ENTRY = 512, 64
"""Bytes that a message takes in memory beside its payload, and that each entry of its clock takes, or so."""


class Backlog:
    __slots__ = ("_weights", "weight")

    def __init__(self) -> None:
        self._weights: dict[tuple[NodeId, int], int] = {}
        self.weight = 0

    def __len__(self) -> int:
        return len(self._weights)

    def add(self, message: Message[Any]) -> None:
        weight = _MESSAGE + len(message.payload) + _ENTRY * len(message.stamp)
        self._weights[message.origin, message.seq] = weight
        self.weight += weight

    def remove(self, message: Message[Any]) -> None:
        """A message was delivered or given up, one that waited or another."""
        self.weight -= self._weights.pop((message.origin, message.seq), 0)


def may_wait(message: Message[Any], delivered: Mapping[NodeId, int], linked: set[NodeId]) -> bool:
    """Whether a message is taken though the backlog is full."""
    last = delivered.get(message.origin, 0)
    if message.seq == last + 1 and covers(delivered, message.stamp):
        return True
    return message.origin in linked and message.seq <= last + WINDOW
