"""What a group's keys do for a node: who may connect, and which packets are taken.

`Security` is all that a node knows of keys; `live.groups` implements it. On the wire, a packet is what `seal`
makes of an encoded frame; `open` gives the frame back, or refuses it before the protocol sees it. The journal
holds received packets whole, so that signatures survive a restart with the messages they belong to.

Without keys there is `Unsecured`: packets are the frames themselves, and nodes bind to loopback only.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from typing import Protocol

from antecast.core import Frame, NodeId, RemoteFault
from antecast.core import Protocol as CoreProtocol


class PeerRefused(RemoteFault):
    """A connection that is not taken: the peer's identity is wrong. The text goes to the log and to the peer."""


class ForgedPacket(RemoteFault):
    """A packet whose signatures are missing or wrong. It costs its sender the link."""


class Security(Protocol):
    @property
    def number(self) -> NodeId | None:
        """Whose keys these are; None if anybody may use them."""

    @property
    def protocol(self) -> str | None:
        """The protocol whose messages they sign; None if nothing is signed."""

    @property
    def group(self) -> str:
        """The group's identity: nodes of other groups are refused."""

    @property
    def overhead(self) -> int:
        """Bytes that sealing may add to the largest frame: packets above this and the frame's bound are refused
        before they are read."""

    def server_context(self) -> ssl.SSLContext | None:
        """For connections that others make to this node; None for plain TCP."""

    def client_context(self) -> ssl.SSLContext | None:
        """For connections that this node makes."""

    def identify(self, connection: ssl.SSLObject | None, claimed: NodeId) -> None:
        """See that the peer behind a connection is the node it says it is; raises `PeerRefused`."""

    def prepare(self, frames: Iterable[Frame]) -> None:
        """These frames are sealed next: what they carry of this node can be signed together."""

    def seal(self, frame: Frame, data: bytes) -> bytes:
        """The packet for a frame and its encoding. Called in the order in which frames are made."""

    def settle(self, protocol: CoreProtocol) -> None:
        """The frames of all calls so far are sealed: what the protocol no longer holds can be forgotten."""

    def split(self, packet: bytes) -> bytes:
        """The encoded frame in a packet; raises `RemoteFault` if there is none."""

    def verify(self, frame: Frame, packet: bytes, peer: NodeId) -> None:
        """See that every message a frame carries is signed by its origin; raises `ForgedPacket`."""

    def replayed(self, frame: Frame, packet: bytes) -> None:
        """A packet from the journal, verified when it came: take note of its signatures again."""

    def snapshot(self) -> bytes:
        """The signatures that may be needed again, to be kept with a snapshot of the protocol."""

    def restore(self, state: bytes) -> None: ...

    def seal_payload(self, payload: bytes) -> bytes:
        """What to broadcast for a payload."""

    def open_payload(self, origin: NodeId, seq: int, payload: bytes) -> bytes:
        """A delivered payload as it was before; raises `AntecastError` if this node cannot read it."""

    @property
    def serial(self) -> int:
        """Which bulletin of the group's authority this node has: revocations, and keys."""

    @property
    def bulletin(self) -> bytes:
        """That bulletin, to hand to a peer with an older one."""

    def take_bulletin(self, data: bytes) -> set[NodeId]:
        """Take a newer one over; returns all numbers that are revoked. Raises `PeerRefused` for a forged one."""

    def gauges(self) -> Mapping[str, int]: ...


class Unsecured:
    """No keys: for loopback, for tests, and for networks that are secured otherwise."""

    number: NodeId | None = None
    protocol: str | None = None
    overhead = 0
    serial = 0
    bulletin = b""

    def __init__(self, group: str = "") -> None:
        self.group = group

    def server_context(self) -> ssl.SSLContext | None:
        return None

    def client_context(self) -> ssl.SSLContext | None:
        return None

    def identify(self, connection: ssl.SSLObject | None, claimed: NodeId) -> None:
        """Whoever is on this machine is believed."""

    def prepare(self, frames: Iterable[Frame]) -> None:
        pass

    def seal(self, frame: Frame, data: bytes) -> bytes:
        return data

    def settle(self, protocol: CoreProtocol) -> None:
        pass

    def split(self, packet: bytes) -> bytes:
        return packet

    def verify(self, frame: Frame, packet: bytes, peer: NodeId) -> None:
        """Nothing is signed."""

    def replayed(self, frame: Frame, packet: bytes) -> None:
        pass

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass

    def seal_payload(self, payload: bytes) -> bytes:
        return payload

    def open_payload(self, origin: NodeId, seq: int, payload: bytes) -> bytes:
        return payload

    def take_bulletin(self, data: bytes) -> set[NodeId]:
        raise PeerRefused("it sent a bulletin to a node without keys")

    def gauges(self) -> Mapping[str, int]:
        return {}
