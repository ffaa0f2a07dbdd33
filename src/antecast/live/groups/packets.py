"""Packets: what goes over a link of a group. A frame, a signature per entry inside, and the keys to check them
with.

For each origin of an entry, in the order in which they first appear, a packet carries the endorsement of its key
(`certificates`). So a packet says all that its receiver needs: it can be passed on as it came, to anyone, and a
node needs no list of members.

A packet is a MessagePack array of endorsements, signatures and the frame's bytes. All sizes are bounded by their
declared types, the whole by the codec's largest frame and `OVERHEAD`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from antecast.core import Frame, LocalMisuse, MalformedFrame
from antecast.core.wire import UNDECODABLE
from antecast.live.groups.certificates import ENDORSEMENT
from antecast.live.groups.entries import entries
from antecast.live.groups.signatures import MAX_SIGNATURE, Signatures, Unauthentic

OVERHEAD: Final = 1 << 22
"""Bytes that signatures and endorsements add to a frame, at most: to a packet of VCube with the largest `mtu`,
filled with the smallest messages, each with the longest path to its root."""

_MOST = OVERHEAD // 64


class Packet(msgspec.Struct, frozen=True, array_like=True, gc=False):
    endorsements: Annotated[
        list[Annotated[bytes, msgspec.Meta(min_length=ENDORSEMENT, max_length=ENDORSEMENT)]],
        msgspec.Meta(max_length=_MOST),
    ]
    signatures: Annotated[
        list[Annotated[bytes, msgspec.Meta(min_length=64, max_length=MAX_SIGNATURE)]],
        msgspec.Meta(max_length=_MOST),
    ]
    frame: bytes


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Packet)


def decode_packet(data: bytes) -> Packet:
    try:
        return _decoder.decode(data)
    except UNDECODABLE as error:
        raise MalformedFrame(f"not a packet of a group: {error}") from None


def seal(frame: Frame, encoded: bytes, signatures: Signatures) -> bytes:
    """The packet for a frame and its encoding."""
    those = entries(frame)
    origins = dict.fromkeys(entry.origin for entry in those)
    signed = [signatures.of(entry) for entry in those]
    packet = _encode(Packet([signatures.endorsement(origin) for origin in origins], signed, encoded))
    if len(packet) > len(encoded) + OVERHEAD:
        raise LocalMisuse(f"a {type(frame).__name__} with {len(those)} entries has too many signatures: send less")
    return packet


def verify(frame: Frame, packet: Packet, signatures: Signatures) -> None:
    """See that every entry of a frame is signed by its origin, and every origin endorsed by the authority."""
    those = entries(frame)
    origins = dict.fromkeys(entry.origin for entry in those)
    if len(those) != len(packet.signatures) or len(origins) != len(packet.endorsements):
        raise Unauthentic(
            f"a {type(frame).__name__} with {len(those)} entries of {len(origins)} origins came with"
            f" {len(packet.signatures)} signatures and {len(packet.endorsements)} endorsements"
        )
    for origin, endorsement in zip(origins, packet.endorsements, strict=True):
        signatures.introduce(origin, endorsement)
    for entry, signature in zip(those, packet.signatures, strict=True):
        signatures.check(entry, signature)


def relearn(frame: Frame, packet: Packet, signatures: Signatures) -> None:
    """Take note of a packet from this node's own journal: it was verified before it was written there."""
    those = entries(frame)
    for origin, endorsement in zip(
        dict.fromkeys(entry.origin for entry in those), packet.endorsements, strict=True
    ):
        signatures.introduce(origin, endorsement)
    for entry, signature in zip(those, packet.signatures, strict=True):
        signatures.relearn(entry, signature)
