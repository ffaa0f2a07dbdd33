"""The keys of a live node at work: what its transports and the node ask for, in one place.

It is the `Security` of `antecast.live.security`. Beyond that:

- `seal_payload` comes before `broadcast`, `open_payload` when a message is handed to the application. The
  protocol, the journal and the wire see only what is sealed.
- `settle(protocol)` lets go of the signatures that the protocol cannot need any more. Call it between two calls,
  when the frames of all calls before are sealed; most of the time it does nothing.
- `serial` and `bulletin` are told to peers, `take_bulletin` takes theirs. Links to the numbers that are revoked
  then must be closed.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self, TypeAlias

from antecast.core import AntecastError, Frame, InputError, NodeId, OutputError, Protocol
from antecast.live.groups import packets, tls
from antecast.live.groups.certificates import Refused
from antecast.live.groups.entries import entries
from antecast.live.groups.identity import Identity, load_identity
from antecast.live.groups.packets import Packet
from antecast.live.groups.payloads import Payloads
from antecast.live.groups.signatures import Signatures

log = logging.getLogger("antecast.live.groups")

_State: TypeAlias = tuple[int, int, int]


class GroupSecurity:
    """A node of a group, for one protocol."""

    overhead = packets.OVERHEAD

    def __init__(self, identity: Identity, protocol: str) -> None:
        self.identity = identity
        self.protocol = protocol
        self.group = identity.group_id.hex()
        self.names: dict[NodeId, str] = {}
        """The names of the nodes that have connected, from their certificates."""
        self._signatures = Signatures(identity, protocol)
        self._payloads = Payloads(identity)
        self._contexts: dict[Callable[[Identity], ssl.SSLContext], tuple[_State, ssl.SSLContext]] = {}
        """What was made of the node's file, and in which state that was."""
        self._file: _State = 0, 0, 0
        self._opened: tuple[bytes, Packet] = b"", Packet([], [], b"")
        """The packet that was split last: it is verified next."""

    @classmethod
    def load(cls, path: Path, protocol: str) -> Self:
        """From a node's file; one that nobody would talk to is refused."""
        identity = load_identity(path)
        identity.check()
        return cls(identity, protocol)

    @property
    def number(self) -> NodeId:
        return self.identity.number

    # Who is at the other end.

    def server_context(self) -> ssl.SSLContext:
        return self._context(tls.server_context)

    def client_context(self) -> ssl.SSLContext:
        return self._context(tls.client_context)

    def _context(self, make: Callable[[Identity], ssl.SSLContext]) -> ssl.SSLContext:
        """Made once for each state of the node's file: reading keys takes milliseconds, and whoever connects could
        make this node spend them. A file that is gone or damaged meanwhile ends nothing: what was read before
        counts."""
        try:
            found = self.identity.path.stat()
            state = found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            state = self._file
        made = self._contexts.get(make)
        if made is None or made[0] != state:
            try:
                made = state, make(self.identity)
            except OSError as error:
                if made is None:
                    raise InputError(f"cannot be read again: {error}", path=self.identity.path) from None
                log.warning("%s: cannot be read again, and is left aside: %s", self.identity.path, error)
                made = state, made[1]
            self._file = state
            self._contexts[make] = made
        return made[1]

    def identify(self, connection: ssl.SSLObject | ssl.SSLSocket | None, claimed: NodeId) -> None:
        """See that the peer behind a connection may take part and is the node it says it is."""
        if connection is None:
            raise Refused("it is not connected by TLS")
        member = tls.peer_of(connection, self.identity, self.revoked)
        tls.check_claim(member, claimed)
        self.names[member.number] = member.name

    # Frames.

    def seal(self, frame: Frame, data: bytes) -> bytes:
        """The packet for a frame and its encoding."""
        return packets.seal(frame, data, self._signatures)

    def prepare(self, frames: Iterable[Frame]) -> None:
        """Sign what these frames carry of this node, as many as there are with one signature. Optional: `seal`
        signs
        what is not signed yet, each by itself."""
        self._signatures.sign(entry for frame in frames for entry in entries(frame))

    def split(self, packet: bytes) -> bytes:
        """The encoded frame in a packet."""
        opened = packets.decode_packet(packet)
        self._opened = packet, opened
        return opened.frame

    def verify(self, frame: Frame, packet: bytes, peer: NodeId) -> None:
        """See that every entry of a frame is signed by its origin."""
        packets.verify(frame, self._packet(packet), self._signatures)

    def replayed(self, frame: Frame, packet: bytes) -> None:
        """A packet from the journal: take note of its signatures again."""
        packets.relearn(frame, self._packet(packet), self._signatures)

    def _packet(self, data: bytes) -> Packet:
        return self._opened[1] if self._opened[0] is data else packets.decode_packet(data)

    def settle(self, protocol: Protocol) -> None:
        self._signatures.settle(protocol)

    def snapshot(self) -> bytes:
        return self._signatures.snapshot()

    def restore(self, state: bytes) -> None:
        if state:
            self._signatures.restore(state)

    # Payloads.

    def seal_payload(self, payload: bytes) -> bytes:
        """What to broadcast for a payload."""
        return self._payloads.seal(payload)

    def open_payload(self, origin: NodeId, seq: int, payload: bytes) -> bytes:
        """The payload as it was before; `Unreadable` if this node does not have the key."""
        return self._payloads.open(origin, seq, payload)

    # Bulletins.

    @property
    def serial(self) -> int:
        """Of the latest bulletin that this node has."""
        return self.identity.bulletin.serial

    @property
    def bulletin(self) -> bytes:
        """The latest bulletin, signed, to hand to a peer that has an older one."""
        return self.identity.signed_bulletin

    @property
    def revoked(self) -> set[NodeId]:
        """The numbers that may not connect."""
        return set(self.identity.bulletin.revoked)

    def take_bulletin(self, data: bytes) -> set[NodeId]:
        """Take a newer bulletin over, and save it; returns all numbers that are revoked now. An older one changes
        nothing; one that the authority did not sign is `Refused`."""
        updated = self.identity if data == self.bulletin else self.identity.updated(data)
        if updated is not self.identity:
            found = _in_file(updated)
            if found is not None and found.member.key == updated.member.key:
                updated = updated.updated(found.signed_bulletin)
            self.identity = updated
            self._payloads.take(updated)
            try:
                if found is not None and found.member.key != updated.member.key:
                    raise OutputError("is the file of another node now", path=updated.path)
                updated.save()
            except OutputError as error:  # it counts until the node stops; others will bring it again
                log.warning("node %d: bulletin %d is not saved: %s", self.number, self.serial, error)
        return self.revoked

    def gauges(self) -> Mapping[str, int]:
        return self._signatures.gauges() | {"bulletin_serial": self.serial}


def _in_file(identity: Identity) -> Identity | None:
    """What the file of a node holds now, if it can be read. antecast group update may have put a newer bulletin
    there since, and for a node that was revoked there may be a new invitation: neither is written over."""
    try:
        return load_identity(identity.path)
    except AntecastError:
        return None
