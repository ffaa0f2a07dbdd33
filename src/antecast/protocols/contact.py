"""What two nodes in contact say to each other, and what one remembers of the other while the contact lasts."""

from __future__ import annotations

from typing import TypeAlias

from antecast.core import Frame, NodeId
from antecast.protocols.runs import Spans

Ranges: TypeAlias = dict[NodeId, tuple[int, ...]]
"""Runs of numbers by source."""


class Offer(Frame, frozen=True, array_like=True, tag=1):
    """Messages that a node holds."""

    held: Spans


class Request(Frame, frozen=True, array_like=True, tag=2):
    """The messages of an offer that a node would like to have."""

    wanted: Spans


class Again(Frame, frozen=True, array_like=True, tag=3):
    """Please say again what you hold: some of it could not be taken when it came."""


_LEAST_WAIT = 10**6
"""Nanoseconds before a contact is asked again for the second time and later: with a patience of zero it would be
asked for ever at one instant."""


class Contact:
    """A node we are in contact with."""

    __slots__ = (
        "again_at", "alerted", "asked", "few", "moved", "offered", "offers", "round", "said_at", "wait",
        "withheld",
    )  # fmt: skip

    def __init__(self, now: int, patience: int) -> None:
        self.said_at = now
        """When we last said what we hold."""
        self.offers = 0
        self.offered: Ranges = {}
        self.asked: list[tuple[int, Ranges]] = []
        """What it was asked for, and when."""
        self.withheld: list[Ranges] = []
        """What it offered, and others were asked for instead."""
        self.again_at: int | None = None
        """When to ask it again what it holds."""
        self.wait = patience
        self.few, self.round, self.moved = 1, 0, False
        """While too many of its messages wait: how many of each source it is asked for, how many of these are
        still to come, and whether one of those that came could be delivered."""
        self.alerted = False

    def start_over(self) -> None:
        self.offers, self.offered, self.asked, self.withheld = 0, {}, [], []
        self.again_at, self.round = None, 0
        self.wait = max(2 * self.wait, _LEAST_WAIT)
        self.few *= 2
