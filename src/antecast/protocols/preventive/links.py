"""The links of a process, and what is known about each (rules 1, 4 and 6 of PC-broadcast).

A connection between two processes is a link in each direction. An outgoing link lives from the moment this end of
the connection comes up until it goes down, and has a safety of its own:

    unsafe ── pong, or sync ──▶ safe          nothing but control information is sent over an unsafe link
    safe ── base taken, or Gap ──▶ unsafe     what was sent may not be all that the neighbour needs

What comes in over the connection is the neighbour's business, with one exception: after a gap nothing of it counts
until the neighbour has begun anew.

    flowing ── gap ──▶ held ── Anew ──▶ flowing
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, ValuesView
from typing import ClassVar, Final

from antecast.core import Alert, Effect, Frame, NodeId, Send
from antecast.protocols.preventive.frames import CODEC, Part

LINK: Final = "pc/link/"
"""Timers of links begin with this; the neighbour follows."""

SLOWEST: Final = 4
"""Time-outs double with each attempt, up to this many times."""


class Link:
    """One outgoing link, from the moment it comes up until it goes down."""

    __slots__ = (
        "attempts", "by", "farewell", "had", "parts", "peer", "pings", "said", "taking", "tries", "unanswered",
    )  # fmt: skip

    def __init__(self, peer: NodeId, by: NodeId | None) -> None:
        self.peer = peer
        self.by = by
        """Who introduced the neighbour, if anyone."""
        self.unanswered = 0
        """Syncs sent to the neighbour that may still be answered by a `Start` or a `Refuse`."""
        self.taking = 0
        """Bases asked for."""
        self.had: set[NodeId] = set()
        """Sources that the neighbour missed here, and that have come and gone here."""
        self.parts: list[Part] = []
        """The beginning of a large frame whose end has not come yet."""
        self.said: set[str] = set()
        """What has been said about the neighbour in alerts, and to it, and need not be said again."""
        self.farewell: int | None = None
        """The ping that asks whether the last words of this process have arrived; 0 when they have."""
        self.renew()

    def renew(self) -> None:
        """The link becomes safe, or has to become safe again."""
        self.pings: dict[int, int] = {}
        """Outstanding pings, each with the end of the log when it was sent."""
        self.tries = 0
        self.attempts = 0


class Links:
    """All links by neighbour, which of them are safe, and the neighbours whose messages count."""

    tallies: ClassVar = ("costs",)

    def __init__(self, costs: dict[str, int]) -> None:
        self._up: dict[NodeId, Link] = {}
        self.safe: dict[NodeId, None] = {}
        """In the order in which they became safe, which is the order in which messages are sent."""
        self.flowing: set[NodeId] = set()
        self.costs = costs
        self._introduced: dict[NodeId, NodeId] = {}

    def __contains__(self, peer: object) -> bool:
        return peer in self._up

    def __getitem__(self, peer: NodeId) -> Link:
        return self._up[peer]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._up)

    def __len__(self) -> int:
        return len(self._up)

    def get(self, peer: NodeId) -> Link | None:
        return self._up.get(peer)

    def values(self) -> ValuesView[Link]:
        return self._up.values()

    def among(self, peers: Collection[NodeId]) -> bool:
        """Whether there are links to no others than these."""
        return all(peer in peers for peer in self._up)

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        self._introduced[peer] = by

    def add(self, peer: NodeId) -> Link:
        link = self._up[peer] = Link(peer, self._introduced.pop(peer, None))
        self.flowing.add(peer)
        return link

    def remove(self, peer: NodeId) -> None:
        self._up.pop(peer, None)
        self.safe.pop(peer, None)
        self.flowing.discard(peer)

    def way(self, link: Link) -> Collection[NodeId]:
        """Where a ping for a link may set out."""
        if link.by is None:
            return self.safe
        return [link.by] if link.by in self.safe else []

    def send(self, to: Collection[NodeId], frame: Frame, out: list[Effect]) -> None:
        """Send control information, and count what it costs."""
        if to:
            self.costs["control_bytes"] += len(to) * CODEC.size(frame)
            out += [Send(peer, frame) for peer in to]

    def alert(self, peer: NodeId, about: str, text: str, out: list[Effect]) -> bool:
        """Say something about a neighbour, once while its link is up; returns whether it is said now."""
        said = self._up[peer].said
        if about in said:
            return False
        said.add(about)
        out.append(Alert(text))
        return True
