"""Pings on their way: which have passed here before."""

from __future__ import annotations

from typing import Final

from antecast.core import NodeId
from antecast.protocols.preventive.frames import Ping

SEEN: Final = 1024
"""Processes whose last flooded ping is remembered. What is forgotten here is ended by its hops."""


class SeenPings:
    """The last flooded ping of each process, so that each is passed on once.

    A process numbers its pings, so an older one that comes later, on a slow path, is dropped with the copies; its
    sender has sent a newer one since.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[NodeId, int] = {}

    def first(self, ping: Ping) -> bool:
        """Whether a ping is here for the first time. One that goes through an introducer has no copies."""
        if ping.hops <= 1:
            return True
        last = self._last.pop(ping.origin, 0)
        self._last[ping.origin] = max(last, ping.id)
        if len(self._last) > SEEN:
            del self._last[next(iter(self._last))]
        return ping.id > last
