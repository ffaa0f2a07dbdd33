"""Back-pressure: the balance between an application, the journal and the links of a node.

A broadcast waits while too much is uncommitted, while a link has too much to send, or while the application is
too far behind with its deliveries, unless the application makes it while it handles one of them: it would wait
for itself. Reading from links stops while too much is uncommitted, or the application is behind. A peer that
does not read loses its link. If it comes back, nobody waits for it for a while, so that it cannot hold up the
others over and over.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from antecast.core import ConfigurationError, NodeId
from antecast.live.engine import Engine
from antecast.live.entries import Delivery
from antecast.live.journal import HISTORY

if TYPE_CHECKING:
    from antecast.live.links.link import Link
    from antecast.live.node import Node


@dataclass(frozen=True)
class Limits:
    """Bounds of a node's queues, and how often it writes a snapshot."""

    uncommitted: int = 8 << 20
    """Bytes of calls that wait for the journal before reading stops and broadcasts wait."""
    sending: int = 4 << 20
    """Bytes that wait in a link before broadcasts wait."""
    sending_most: int = 64 << 20
    """Bytes that wait in a link before it is closed: its peer reads too slowly."""
    stalled: float = 10.0
    """Seconds that a link may hold up broadcasts before it is closed. For 60 times as long, none waits for that
    peer: its next links are closed when `sending_most` waits in them."""
    unread: int = 100_000
    """Deliveries that the application has not read before reading stops and broadcasts wait."""
    unread_bytes: int = 256 << 20
    """Bytes of such deliveries."""
    snapshot_every: int = 64 << 20
    """Bytes of calls between two snapshots: bounds the size of the journal and the time of a restart."""
    history: int = HISTORY
    """Bytes of calls and snapshots before the last snapshot that are kept to be replayed."""
    refusals: int = 1000
    """Frames of one link that the protocol may refuse before the link is closed."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value >= 0:
                raise ConfigurationError(f"expected at least 0, got {value}", field=name)


class Pacing:
    """Who waits, and for what."""

    def __init__(self, node: Node, limits: Limits) -> None:
        self._node, self._limits = node, limits
        self.read = 0
        """The last delivery that the application has read."""
        self.read_bytes = 0
        self.before = 0
        """The last delivery of an earlier run: bytes are counted from there on."""
        self.waiters: list[asyncio.Future[None]] = []
        """Broadcasts that wait for room."""
        self.paused = False
        """Whether reading from links has stopped."""
        self._slow: dict[Link, float] = {}
        """The links that hold up broadcasts, and since when."""
        self._looked = 0.0
        self._not_awaited: dict[NodeId, float] = {}
        """When broadcasts wait again for a peer that has lost its link because it held them up."""

    def begin(self, *, acknowledged: int, delivered: int) -> None:
        """Go on from a journal."""
        self.read, self.before, self.read_bytes, self.paused = acknowledged, delivered, 0, False

    def took(self, each: Delivery) -> None:
        """The application has a delivery, or wants none of it."""
        if each.number <= self.read:
            return
        self.read = each.number
        if each.number > self.before:
            self.read_bytes += len(each.payload)
        if self.paused or self.waiters:
            self.relieve()

    def skip(self, number: int) -> None:
        """The application has all up to this number. Those of an earlier run are not counted by their bytes, so
        nobody has to look at each: there may be millions."""
        number = min(number, self.before)
        if number > self.read:
            self.read = number
            if self.paused or self.waiters:
                self.relieve()

    def has_room(self, *, unread: bool = True) -> bool:
        """Whether a broadcast may be made; `unread` says whether deliveries that nobody has read hold it up."""
        if self.is_behind(self._node.engine, unread=unread):
            return False
        if any(self._holds_up(link) for link in self._node.links.values()):
            return False
        self._slow.clear()
        return True

    def _holds_up(self, link: Link) -> bool:
        if link.waiting <= self._limits.sending:
            return False
        until = self._not_awaited.get(link.peer)
        if until is not None and asyncio.get_running_loop().time() < until:
            return False
        self._not_awaited.pop(link.peer, None)
        return True

    def is_behind(self, engine: Engine, share: int = 1, *, unread: bool = True) -> bool:
        """Whether the journal or the application is behind, by more than a share of the limits."""
        limits = self._limits
        if engine.behind > limits.uncommitted // share:
            return True
        return unread and (
            engine.numbered - self.read > limits.unread // share
            or engine.delivered_bytes - self.read_bytes > limits.unread_bytes // share
        )

    async def room(self) -> None:
        self._close_stalled()
        waiter = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        asyncio.get_running_loop().call_later(0.005, self.relieve)
        await waiter

    def _close_stalled(self) -> None:
        """A link that holds up broadcasts for too long has a peer that does not read."""
        now, stalled = asyncio.get_running_loop().time(), self._limits.stalled
        since = self._slow if now - self._looked < 1 else {}  # else no broadcast has waited in between
        links = self._node.links.values()
        self._slow = {link: since.get(link, now) for link in links if self._holds_up(link)}
        self._looked = now
        for link in [each for each, start in self._slow.items() if now - start > stalled]:
            del self._slow[link]
            self._not_awaited[link.peer] = now + 60 * stalled
            self._node.reads_slowly(link)

    def end_waits(self, error: Exception) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self.waiters.clear()

    def relieve(self) -> None:
        """Let wait no longer whoever waits for room."""
        if self.waiters:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        self.pace()

    def pace(self) -> None:
        """Stop reading from links while this node is behind, and go on when it has caught up."""
        engine = self._node.running
        if engine is None:
            return
        if not self.paused and self.is_behind(engine):
            self.paused = True
            for link in self._node.links.values():
                link.pause()
        elif self.paused and not self.is_behind(engine, 2):
            self.paused = False
            for link in self._node.links.values():
                link.resume()
