"""A link as a node sees it, and what a transport owes its node.

A transport tells its node three things, from the event loop's thread:

- `node.link_up(link)`: both ends have said who they are, and the packets that follow belong to this link;
- `node.received(link, packets)`: packets that came over it, in order;
- `node.link_down(link, reason)`: it has ended. Said once, also after `link.close`.

A link that is closed drops what is written to it. A connection that breaks and comes back is a new `Link`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from antecast.core import MAX_PAYLOAD, NodeId

if TYPE_CHECKING:
    from antecast.live.node import Node


class Link(ABC):
    """One end of a connection to a peer that has said who it is."""

    peer: NodeId

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Bytes that were written and have not left this process."""

    @abstractmethod
    def write(self, packets: list[bytes]) -> None: ...

    @abstractmethod
    def pause(self) -> None:
        """Take nothing more from the peer for now."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def close(self, reason: str) -> None:
        """End the link at once; what was not sent is lost."""

    def write_lives(self, data: bytes) -> None:  # noqa: B027  (links in memory greet nobody)
        """Tell the peer which lives this node knows of (`live.lives`)."""

    def describe(self) -> dict[str, Any]:
        """For `antecast status`."""
        return {"peer": self.peer, "waiting_bytes": self.waiting}


class Transport(ABC):
    """Makes links for one node."""

    largest_payload: ClassVar[int] = MAX_PAYLOAD
    """The largest that it can carry. What no transport takes would hold up all that comes after it, for ever."""

    @abstractmethod
    async def start(self, node: Node) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """End all links and take no new ones."""

    def transmit(self, packets: list[bytes]) -> None:  # noqa: B027  (most transports are no shared medium)
        """Send packets to whoever hears them."""

    def share_bulletin(self) -> None:  # noqa: B027  (most transports have no keys)
        """Hand the newest bulletin of the group's authority to all who are linked; where there are keys."""

    def linked(self, link: Link) -> None:  # noqa: B027  (most transports choose no neighbours)
        """A link of this node is up, whichever transport made it."""

    def unlinked(self, link: Link) -> None:  # noqa: B027
        """A link of this node is down. Not said of one that another link to the same peer has replaced."""

    def gauges(self) -> dict[str, int]:
        """Numbers that people watch."""
        return {}

    def describe(self) -> dict[str, Any]:
        return {}
