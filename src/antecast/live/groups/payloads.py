"""Payloads that only the group can read: encrypted before they are broadcast, decrypted when they are delivered.

Protocols, journals and relays see only the encrypted payload. The first byte says how a payload is written:
`PLAIN`, or `ENCRYPTED` with the number of the group key, a nonce, and ChaCha20-Poly1305 over the rest.

**Nonces.** A nonce must never be used twice with one key. Numbers such as (node, seq) would do as long as no
node ever uses a number twice, but a node that was restored from an old backup would, and the damage could not be
undone; besides, a message gets its number only after its payload is made. So nonces are 96 random bits, and each
node derives a key of its own from the group key (HKDF-SHA256 over its number). The chance that a node repeats a
nonce within 2³² messages under one group key is 2⁻³³; a group that rotates its key now and then stays far below.

**What is bound.** The origin and the group are authenticated with the payload; the message's number is bound to
it by the signature. A group key is shared: it proves that a member wrote this, and the signature says which one.
"""

from __future__ import annotations

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from antecast.core import MAX_PAYLOAD, AntecastError, LocalMisuse, MessageId, NodeId
from antecast.live.groups.bulletin import GroupKeys
from antecast.live.groups.identity import Identity

PLAIN: Final = 0
ENCRYPTED: Final = 1
_HEAD, _NONCE, _TAG = 5, 12, 16

MAX_PLAIN: Final = MAX_PAYLOAD - _HEAD - _NONCE - _TAG
"""Bytes of a payload before it is encrypted, at most."""


class Unreadable(AntecastError):
    """A delivered payload cannot be read here. The message is delivered all the same: order does not depend on
    what
    it says."""


class Payloads:
    """The group keys of a node, at work."""

    def __init__(self, identity: Identity) -> None:
        self._node = identity.number
        self._group = identity.group_id
        self._keys: GroupKeys = {}
        self._ciphers: dict[tuple[int, NodeId], ChaCha20Poly1305] = {}
        self.current = 0
        """The group key that this node writes with; 0 if payloads are not encrypted."""
        self.take(identity)

    def take(self, identity: Identity) -> None:
        """Take over the keys of a newer bulletin. Older keys stay, to read."""
        self._keys |= identity.group_keys
        self.current = identity.bulletin.current

    def seal(self, payload: bytes) -> bytes:
        """What to broadcast for a payload."""
        if len(payload) > MAX_PLAIN:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PLAIN} in a group")
        if not self.current:
            return bytes([PLAIN]) + payload
        if self.current not in self._keys:
            raise LocalMisuse(
                f"the group writes with key {self.current}, which this node does not have: give it the bulletin"
            )
        head = bytes([ENCRYPTED]) + self.current.to_bytes(4, "big")
        nonce = os.urandom(_NONCE)
        cipher = self._cipher(self.current, self._node)
        return head + nonce + cipher.encrypt(nonce, payload, self._context(head, self._node))

    def open(self, origin: NodeId, seq: int, payload: bytes) -> bytes:
        """The payload of a delivered message, as it was before it was broadcast."""
        name = MessageId(origin, seq)
        if payload[:1] == bytes([PLAIN]):
            return payload[1:]
        if payload[:1] != bytes([ENCRYPTED]) or len(payload) < _HEAD + _NONCE + _TAG:
            raise Unreadable(f"message {name} is written in a form that this version does not know")
        number = int.from_bytes(payload[1:_HEAD], "big")
        if number not in self._keys:
            have = f"it has {', '.join(map(str, sorted(self._keys)))}" if self._keys else "it has none"
            raise Unreadable(
                f"message {name} is encrypted with group key {number}, which this node does not have; {have}"
            )
        nonce, text = payload[_HEAD : _HEAD + _NONCE], payload[_HEAD + _NONCE :]
        try:
            return self._cipher(number, origin).decrypt(nonce, text, self._context(payload[:_HEAD], origin))
        except InvalidTag:
            raise Unreadable(
                f"message {name} cannot be decrypted with group key {number}: its source has another"
            ) from None

    def _cipher(self, number: int, node: NodeId) -> ChaCha20Poly1305:
        cipher = self._ciphers.get((number, node))
        if cipher is None:
            info = b"antecast payload 1\0" + self._group + node.to_bytes(4, "big")
            key = HKDF(SHA256(), 32, salt=None, info=info).derive(self._keys[number])
            cipher = self._ciphers[number, node] = ChaCha20Poly1305(key)
        return cipher

    def _context(self, head: bytes, origin: NodeId) -> bytes:
        return head + self._group + origin.to_bytes(4, "big")
