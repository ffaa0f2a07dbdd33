"""The bulletin: what the authority of a group has to say to its nodes, signed, in one piece.

It lists the numbers that are revoked, renewed certificates, and the group keys, each sealed for one node, so
that it is no secret: it may travel by mail, in a shared folder, or from node to node. Each bulletin replaces all
before it and has a larger serial number; a node never goes back to an older one.

A group key is sealed with X25519: a fresh key pair, its secret shared with the node's public key, HKDF-SHA256 over
secret and both public keys, ChaCha20-Poly1305. The key made in this way is used once, so its nonce can be zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antecast.core import NodeId
from antecast.core.frames import Count, Source
from antecast.core.wire import UNDECODABLE
from antecast.live.groups.certificates import MAX_CERTIFICATE, Refused

MAX_BULLETIN: Final = 1 << 22
"""Bytes of a bulletin: 40 000 nodes with one group key, or 400 with a hundred. It must fit into a packet."""

_CONTEXT = b"antecast bulletin 1\0"
_NONCE = bytes(12)

KeyId = Annotated[int, msgspec.Meta(ge=1, lt=1 << 32)]
GroupKeys = dict[int, bytes]
"""Group keys of 32 bytes, by number."""


class Bulletin(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    group: bytes
    serial: Count
    issued: Count
    """When, in seconds of Unix time; for people, since clocks are not trusted."""
    revoked: dict[Source, Count]
    """Numbers that may no longer connect, and since when."""
    renewed: dict[Source, Annotated[bytes, msgspec.Meta(max_length=MAX_CERTIFICATE)]]
    """New certificates for the same numbers, names and keys."""
    current: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    """The group key to write with; 0 if payloads are not encrypted."""
    sealed: dict[Source, dict[KeyId, bytes]]
    """For each node, the group keys that it may have."""


class _Signed(msgspec.Struct, frozen=True, array_like=True):
    body: bytes
    signature: bytes


def sign_bulletin(bulletin: Bulletin, key: Ed25519PrivateKey) -> bytes:
    body = msgspec.msgpack.encode(bulletin)
    return msgspec.msgpack.encode(_Signed(body, key.sign(_CONTEXT + body)))


def read_bulletin(data: bytes, authority: Ed25519PublicKey, group: bytes) -> Bulletin:
    """A bulletin that the authority of this group has signed."""
    if len(data) > MAX_BULLETIN:
        raise Refused(f"a bulletin of {len(data)} bytes exceeds the limit of {MAX_BULLETIN}")
    try:
        signed = msgspec.msgpack.decode(data, type=_Signed)
        authority.verify(signed.signature, _CONTEXT + signed.body)
        bulletin = msgspec.msgpack.decode(signed.body, type=Bulletin)
    except InvalidSignature:
        raise Refused("a bulletin that is not signed by the authority of this group") from None
    except UNDECODABLE as error:
        raise Refused(f"not a bulletin: {error}") from None
    if bulletin.group != group:
        raise Refused("a bulletin of another group")
    return bulletin


def seal_keys(keys: Mapping[int, bytes], node: NodeId, public: bytes, group: bytes) -> dict[int, bytes]:
    """Group keys that only the node with this X25519 key can read."""
    sealed = {}
    for number, key in keys.items():
        once = X25519PrivateKey.generate()
        shared = once.exchange(X25519PublicKey.from_public_bytes(public))
        head = once.public_key().public_bytes_raw()
        context = _seal_context(group, node, number)
        sealed[number] = head + _cipher(shared, head, public).encrypt(_NONCE, key, context)
    return sealed


def unseal_keys(sealed: Mapping[int, bytes], node: NodeId, private: X25519PrivateKey, group: bytes) -> GroupKeys:
    keys, public = {}, private.public_key().public_bytes_raw()
    for number, box in sealed.items():
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(box[:32]))
            opened = _cipher(shared, box[:32], public).decrypt(
                _NONCE, box[32:], _seal_context(group, node, number)
            )
        except (ValueError, InvalidTag):
            raise Refused(f"group key {number} in the bulletin is not sealed for node {node}") from None
        keys[number] = opened
    return keys


def _cipher(shared: bytes, head: bytes, public: bytes) -> ChaCha20Poly1305:
    key = HKDF(SHA256(), 32, salt=None, info=b"antecast sealed key 1\0" + head + public).derive(shared)
    return ChaCha20Poly1305(key)


def _seal_context(group: bytes, node: NodeId, number: int) -> bytes:
    return group + node.to_bytes(4, "big") + number.to_bytes(4, "big")
