"""The greeting: what two ends of a connection tell each other before it is a link.

Whoever dials greets first. The other end answers with its own greeting, or with a refusal that says why, and then
the connection is a link. A greeting is a packet like any other, bounded at 4 KiB before it is read.

    magic, version | MessagePack: group, number, protocol, settings, life, instance, serial, by, position

`life` names the journal behind a number. A number stands for one life: a node remembers whom it has met, and
refuses another life under the same number. `position` says how far the journal has come. A journal never goes
back: one that has is an older copy, whose node has lost a part of its state; it is refused, too (`live.lives`).
`instance` names the running process, so that a node that has restarted can be told from one that dials twice.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from antecast.core import NodeId, RemoteFault
from antecast.core.wire import UNDECODABLE
from antecast.live.entries import Identity
from antecast.live.lives import GONE
from antecast.text.wording import escaped

MAGIC: Final = b"antecast"
VERSION: Final = 1
MAX_HELLO: Final = 4096


class BadHello(RemoteFault):
    """The other end does not greet as a node of this group and protocol does."""


class LostState(BadHello):
    """A node that comes back without its journal, or with an older copy of it."""


class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    group: Annotated[str, msgspec.Meta(max_length=256)]
    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    protocol: Annotated[str, msgspec.Meta(max_length=256)]
    settings: Annotated[bytes, msgspec.Meta(max_length=16)]
    """A digest: all members of a group run the same settings."""
    life: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    instance: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
    serial: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] = 0
    """Which bulletin of the group's authority it has: whoever has a newer one sends it."""
    by: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 32)] = -1
    """The neighbour of both through whom this connection comes about, in an overlay."""
    position: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)] = 0
    """How many calls its journal has."""


class Refusal(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    reason: Annotated[str, msgspec.Meta(max_length=512)]
    number: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    """Who refuses."""


def hello_of(identity: Identity, life: bytes, instance: bytes) -> Hello:
    settings = json.dumps(identity.settings, sort_keys=True).encode()
    digest = blake2b(settings, digest_size=8).digest()
    return Hello(identity.group, identity.number, identity.protocol, digest, life, instance)


def encode_hello(hello: Hello) -> bytes:
    return MAGIC + bytes([VERSION, 0]) + msgspec.msgpack.encode(hello)


def encode_refusal(reason: str, number: NodeId) -> bytes:
    return MAGIC + bytes([VERSION, 1]) + msgspec.msgpack.encode(Refusal(reason[:500], number))


def decode_hello(data: bytes) -> Hello | Refusal:
    """The greeting or refusal of the other end; raises `BadHello`."""
    head, body = data[: len(MAGIC) + 2], data[len(MAGIC) + 2 :]
    if len(head) < len(MAGIC) + 2 or head[: len(MAGIC)] != MAGIC:
        raise BadHello("the other end is no node of Antecast")
    if head[-2] != VERSION:
        raise BadHello(f"the other end greets in version {head[-2]}, this node in version {VERSION}")
    try:
        if head[-1] == 1:
            return msgspec.msgpack.decode(body, type=Refusal)
        return msgspec.msgpack.decode(body, type=Hello)
    except UNDECODABLE:
        raise BadHello("the other end sent a damaged greeting") from None


def check_hello(ours: Hello, theirs: Hello, life: bytes | None, position: int) -> None:
    """See that two nodes belong together; raises `BadHello` with what is wrong. Life and position are those that
    this node knows of the other one."""
    if theirs.group != ours.group:
        raise BadHello(f"node {theirs.number} is of group {theirs.group!r}, this one of {ours.group!r}")
    if theirs.protocol != ours.protocol:
        raise BadHello(f"node {theirs.number} runs {escaped(theirs.protocol)}, this one {ours.protocol}")
    if theirs.settings != ours.settings:
        raise BadHello(f"node {theirs.number} runs {theirs.protocol} with other settings than this one")
    if theirs.number == ours.number:
        raise BadHello(f"both ends are node {ours.number}")
    if life is not None and life != theirs.life:
        raise LostState(
            f"number {theirs.number} belongs to a node with another journal; a node without its journal joins "
            "under a number that was never used"
        )
    if position == GONE:
        raise LostState(
            f"node {theirs.number} has run on an older copy of its journal, and cannot be told from what it was "
            "before; it joins under a number that was never used"
        )
    if theirs.position < position:
        raise LostState(
            f"node {theirs.number} has an older copy of its journal, which ends at call {theirs.position} and had "
            f"come to call {position}; a node without its journal joins under a number that was never used"
        )
