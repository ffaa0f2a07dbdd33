"""A batch: calls that are committed together, and what leaves when they are.

A frame is bound to the link that was up when its call was made. If that link has ended meanwhile, the frame is
dropped, even if a new link to the same peer is up.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from antecast.core import Frame, NodeId
from antecast.live.calls import Group
from antecast.live.entries import Delivery
from antecast.live.links.link import Link


@dataclass(slots=True)
class Batch:
    calls: Group = field(default_factory=list)
    """Empty where the journal does not keep calls."""
    count: int = 0
    size: int = 0
    frames: dict[Link, list[bytes]] = field(default_factory=dict)
    outboxes: dict[NodeId, list[bytes]] = field(default_factory=dict)
    """Those of `frames` whose links are still the ones to their peers."""
    transmissions: list[bytes] = field(default_factory=list)
    """Packets for a shared medium."""
    unsealed: list[tuple[Frame, list[bytes], int]] = field(default_factory=list)
    """Frames that are not packets yet, and their places among `frames`: they are sealed together."""
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Any], Any]] = field(default_factory=list)
    positions: dict[NodeId, int] = field(default_factory=dict)
    """How far the journals of peers had come when they sent what came in these calls, or before."""

    def outbox(self, peer: NodeId, link: Link) -> list[bytes]:
        """Where frames for a peer wait, whose link this is."""
        found = self.outboxes[peer] = self.frames.setdefault(link, [])
        return found
