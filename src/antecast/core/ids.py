"""Names of things: nodes, messages, timers."""

from typing import NamedTuple, TypeAlias

NodeId: TypeAlias = int
"""A node is a small non-negative integer; names of hosts are mapped to these at the edges.

A number stands for one life of a node: for everything it broadcast and delivered. A node that has lost its state
knows nothing of its old messages, and others would take its new ones for copies of these. So it comes back as a
newcomer, under a number that was never used; the map from names to numbers gives it one."""

Timer: TypeAlias = str
"""A timer is named by its protocol; setting a name again moves the timer."""


class MessageId(NamedTuple):
    """A message is named by its source and the source's own count, which starts at 1."""

    origin: NodeId
    seq: int

    def __str__(self) -> str:
        return f"{self.origin}:{self.seq}"
