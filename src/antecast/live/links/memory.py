"""Links in memory, between nodes of one process: for tests.

A packet arrives in the next turn of the event loop, or when the test says so (`held`). Both ends can be cut at
once, or one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque

from antecast.live.links.link import Link
from antecast.live.node import Node


class MemoryLink(Link):
    """One end; `other` is the other end."""

    other: MemoryLink

    def __init__(self, node: Node, peer: int) -> None:
        self.node, self.peer = node, peer
        self.held = False
        """Whether packets for this end wait until `release`."""
        self.inbox: deque[bytes] = deque()
        self._closed = self._paused = self._due = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        return sum(map(len, self.other.inbox))

    def write(self, packets: list[bytes]) -> None:
        if not self._closed and not self.other.closed:
            self.other.inbox += packets
            self.other._soon()

    def _soon(self) -> None:
        if not self._due and not self.held and not self._paused:
            self._due = True
            asyncio.get_running_loop().call_soon(self._arrive)

    def _arrive(self) -> None:
        self._due = False
        if self.inbox and not self._closed and not self._paused and not self.held:
            packets = list(self.inbox)
            self.inbox.clear()
            self.node.received(self, packets)

    def release(self) -> None:
        self.held = False
        self._soon()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._soon()

    def close(self, reason: str) -> None:
        self.end(reason)
        self.other.end(reason)

    def end(self, reason: str) -> None:
        """End this end only; the other has not noticed yet."""
        if not self._closed:
            self._closed = True
            self.inbox.clear()
            self.node.link_down(self, reason)


def connect(a: Node, b: Node) -> tuple[MemoryLink, MemoryLink]:
    """A link between two running nodes, up at both ends."""
    one, two = MemoryLink(a, b.number), MemoryLink(b, a.number)
    one.other, two.other = two, one
    a.link_up(one)
    b.link_up(two)
    return one, two
