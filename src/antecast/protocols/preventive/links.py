"""Links and pings: rules 1, 3, 4 and 6 of PC-broadcast (`pc` has them all).

A link here is one direction of a connection, from the moment it comes up until it goes down; each has its own
safety. Pings are numbered by their process, across links and crashes, and a link remembers those of its own that
are outstanding: so a pong can be taken for no other link, and for no earlier instance of this one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

from antecast.core import CancelTimer, Effect, Frame, NodeId, Protocol, Send, SetTimer
from antecast.protocols.preventive.frames import CODEC, HOPS, Entry, Hello, Ping, Pong, Sync
from antecast.protocols.preventive.past import Past
from antecast.protocols.preventive.pings import SeenPings
from antecast.protocols.preventive.settings import PreventiveSettings

LINK: Final = "pc/link/"
"""Timers of links begin with this; the neighbour follows."""

SLOWEST: Final = 4
"""Time-outs double with each attempt, up to this often."""


class Link:
    """One outgoing link, from the moment it comes up until it goes down."""

    __slots__ = ("attempts", "by", "had", "peer", "pings", "tries")

    def __init__(self, peer: NodeId, by: NodeId | None) -> None:
        self.peer = peer
        self.by = by
        """Who introduced the neighbour, if anybody did."""
        self.had: set[NodeId] = set()
        """Sources that the neighbour missed here, and that have come and gone here."""
        self.renew()

    def renew(self) -> None:
        self.pings: dict[int, int] = {}
        """Outstanding pings, each with the end of the log when it was sent."""
        self.tries = 0
        self.attempts = 0


class SafeLinks(Protocol):
    """The links of a process, and how each becomes safe by a ping."""

    def __init__(self, node: NodeId, settings: PreventiveSettings) -> None:
        self.node = node
        self.codec = CODEC
        self._settings = settings
        founders = settings.founders if settings.founders is not None else 1 << 32
        self._past = Past(retain=settings.retain, founders=founders)
        self._links: dict[NodeId, Link] = {}
        self._safe: dict[NodeId, None] = {}
        self._introduced: dict[NodeId, NodeId] = {}
        self._pings = 0
        self._seen = SeenPings()
        self._costs = dict.fromkeys(
            ("pings", "pongs", "syncs", "refusals", "rebases", "skipped", "control_bytes"), 0
        )

    def _send(self, to: Collection[NodeId], frame: Frame, out: list[Effect]) -> None:
        """Send control information, and count what it costs."""
        if to:
            self._costs["control_bytes"] += len(to) * CODEC.size(frame)
            out += [Send(peer, frame) for peer in to]

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        self._introduced[peer] = by

    def safe(self, peer: NodeId) -> bool:
        return peer in self._safe

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        link = self._links[peer] = Link(peer, self._introduced.pop(peer, None))
        if self._past.empty:
            self._safe[peer] = None
        else:
            if link.by is None:
                self._send([peer], Hello(), out)
            self._attempt(link, now, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = [CancelTimer(f"{LINK}{peer}")]
        self._links.pop(peer, None)
        self._safe.pop(peer, None)
        return out

    def _attempt(self, link: Link, now: int, out: list[Effect]) -> None:
        """Rule 1: ping while there is a safe way, then sync."""
        way: Collection[NodeId] = ()
        if link.by is None:
            way = self._safe
        elif link.by in self._safe:
            way = [link.by]
        if way and link.tries < self._settings.tries:
            link.tries += 1
            self._pings += 1
            self._costs["pings"] += 1
            link.pings[self._pings] = self._past.end
            hops = HOPS if link.by is None else 1
            self._send(way, Ping(self.node, link.peer, self._pings, hops), out)
        else:
            self._send([link.peer], self._summary(link.peer, want=True), out)
        wait = self._settings.timeout << min(link.attempts, SLOWEST)
        link.attempts += 1
        out.append(SetTimer(f"{LINK}{link.peer}", now + wait))

    def _timed_out(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links.get(peer)
        if link is not None and peer not in self._safe:
            self._attempt(link, now, out)

    def _ping_arrived(self, ping: Ping, sender: NodeId, out: list[Effect]) -> None:
        if ping.origin == self.node or not self._seen.first(ping):
            return
        if ping.target == self.node:
            self._costs["pongs"] += 1
            self._send([ping.origin], Pong(ping.id), out)
        elif ping.hops:
            onward = Ping(ping.origin, ping.target, ping.id, ping.hops - 1)
            if ping.target in self._safe:
                self._send([ping.target], onward, out)
            elif ping.hops > 1:
                self._send([peer for peer in self._safe if peer != sender], onward, out)

    def _pong_arrived(self, number: int, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links.get(sender)
        start = link.pings.pop(number, None) if link is not None else None
        if link is None or start is None:
            return
        if start >= self._past.first:
            self._use(link, self._past.since(start), out)
        elif not link.pings and link.tries < self._settings.tries:
            self._attempt(link, now, out)

    def _use(self, link: Link, first: Iterable[Entry], out: list[Effect]) -> None:
        """A link has become safe: what comes first, and then everything."""
        out += [Send(link.peer, entry) for entry in first]
        link.renew()
        self._safe[link.peer] = None
        out.append(CancelTimer(f"{LINK}{link.peer}"))

    @abstractmethod
    def _summary(self, peer: NodeId, *, want: bool = False, take: bool = False) -> Sync:
        """What this process has, for a neighbour."""
