"""Pings: those of this process, and those of others that pass here (rules 1 and 3 of PC-broadcast).

A ping travels behind everything its process had delivered, over safe links only; so when it arrives, all of that
has arrived. It is flooded, or it goes through the neighbour who introduced the two. The pong may take any way; it
takes the new connection, which is the shortest.

Pings are numbered by their process, across links and crashes, and a link remembers those of its own that are
outstanding: so a pong cannot be mistaken for that of another link, or of an earlier instance of this one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from antecast.core import Effect, NodeId
from antecast.protocols.preventive.frames import HOPS, Ping, Pong
from antecast.protocols.preventive.links import Link, Links

SEEN: Final = 4096
"""Processes whose last flooded ping is remembered, and processes whose ping came before their link."""


class SeenPings:
    """The last flooded ping of each process, so that each is passed on once.

    A process numbers its pings, so an older one that comes later, on a slow path, is dropped with the copies; its
    sender has sent a newer one since. The table is bounded, and an entry makes room for another only once it is
    old: copies of a ping that is forgotten too soon would go round and multiply. A ping for which there is no room
    ends here; its sender syncs instead. A forged ping with a number far ahead blocks the pings of the process it
    names only until its entry is old.
    """

    __slots__ = ("_last", "_lifetime")

    def __init__(self, lifetime: int) -> None:
        self._lifetime = lifetime
        self._last: dict[NodeId, tuple[int, int]] = {}
        """For each process the number of its last ping and when that came, the oldest first."""

    def first(self, ping: Ping, now: int) -> bool:
        """Whether a ping is new here. One that goes through an introducer has no copies."""
        if ping.hops <= 1:
            return True
        known = self._last.get(ping.origin)
        if known is not None and ping.id <= known[0] and now - known[1] <= self._lifetime:
            return False
        if known is None and len(self._last) >= SEEN:
            oldest, (_, came) = next(iter(self._last.items()))
            if now - came <= self._lifetime:
                return False
            del self._last[oldest]
        self._last.pop(ping.origin, None)
        self._last[ping.origin] = ping.id, now
        return True


class Pings:
    """The pings that this process sends, answers and passes on."""

    def __init__(self, node: NodeId, links: Links, lifetime: int) -> None:
        self.node = node
        self.sent = 0
        """How many this process has sent; this numbers them."""
        self._links = links
        self._seen = SeenPings(lifetime)
        self._early: dict[NodeId, int] = {}
        """Pings to this process that came before its end of the link, over which the pong goes."""

    def send(self, link: Link, way: Collection[NodeId], end: int, out: list[Effect]) -> None:
        """Ping a neighbour; `end` is where the log ends now."""
        self.sent += 1
        link.tries += 1
        link.pings[self.sent] = end
        self._links.costs["pings"] += 1
        hops = HOPS if link.by is None else 1
        self._links.send(way, Ping(self.node, link.peer, self.sent, hops), out)

    def farewell(self, link: Link, out: list[Effect]) -> None:
        """Ask over a safe link whether all that went before has arrived."""
        self.sent += 1
        link.farewell = self.sent
        self._links.costs["pings"] += 1
        self._links.send([link.peer], Ping(self.node, link.peer, self.sent, 0), out)

    def arrived(self, ping: Ping, sender: NodeId, now: int, out: list[Effect]) -> None:
        """A ping arrives from a neighbour: answer it, or pass it on over safe links."""
        if ping.origin == self.node or not self._seen.first(ping, now):
            return
        if ping.target == self.node:
            self._answer(ping, out)
        elif ping.hops:
            onward = Ping(ping.origin, ping.target, ping.id, ping.hops - 1)
            if ping.target in self._links.safe:
                self._links.send([ping.target], onward, out)
            elif ping.hops > 1:
                self._links.send([peer for peer in self._links.safe if peer != sender], onward, out)

    def _answer(self, ping: Ping, out: list[Effect]) -> None:
        if ping.origin in self._links:
            self._links.costs["pongs"] += 1
            self._links.send([ping.origin], Pong(ping.id), out)
        elif ping.origin in self._early or len(self._early) < SEEN:
            self._early[ping.origin] = ping.id

    def link_up(self, peer: NodeId, out: list[Effect]) -> None:
        """The other end may have come up first, and its ping may have arrived before this end came up."""
        number = self._early.pop(peer, None)
        if number is not None:
            self._links.costs["pongs"] += 1
            self._links.send([peer], Pong(number), out)
