"""Signatures: no relay can forge a message, or alter one.

**What is signed.** The origin signs each entry (`entries`): origin, number, payload and stamp, together with the
group and the name of the protocol, so that a signature means nothing elsewhere. Signatures travel beside the
frame, one per entry, and every receiver checks them before the protocol sees the frame.

**Batches.** An Ed25519 signature costs as much as handling many small messages. So an origin that has several
entries to sign at once signs the root of a hash tree over them; each entry then carries that signature and its
path of hashes to the root. A receiver checks the signature of a root once. Of a tree it then knows every hash on
the paths it has seen, so the other entries cost a hash or two. Leaves and inner nodes are hashed with different
prefixes, so neither passes for the other. An entry alone is a tree of one leaf.

**What is kept.** Whoever passes an entry on needs its signature, so a node keeps that of every entry that its
protocol may still send. Which these are can be seen in the protocol object (`kept_by`): now and then, when the
store has doubled since the last time, signatures of all others are dropped. So it holds at most twice as many as
the protocol keeps messages, and a constant. Only signatures that were found right are kept; a further copy of an
entry costs one hash, no signature.

**Restarts.** Own entries are signed again when they are needed. Those of others come from `snapshot()`, which
belongs to each snapshot of the protocol, and from the packets received since (`restore`, `relearn`).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from antecast.core import LocalMisuse, MessageId, NodeId, Protocol
from antecast.live.groups.certificates import Refused, check_endorsement
from antecast.live.groups.entries import RESTAMPED, Name, content, kept_by
from antecast.live.groups.identity import Identity
from antecast.live.security import ForgedPacket

DEEPEST: Final = 10
"""The most levels of a hash tree: 1024 entries under one signature."""

MAX_SIGNATURE: Final = 64 + 2 + 32 * DEEPEST
"""Bytes of a signature: Ed25519, place in the tree, path."""

_CONTEXT = b"antecast message 1\0"
_LEAF, _INNER = b"\0", b"\1"
_HASHES = 1 << 14
"""Hashes of trees that are remembered as right: some 2 MiB."""
_SLACK = 1024
_NONE: frozenset[bytes] = frozenset()


log = logging.getLogger("antecast.live.groups")


class Unauthentic(ForgedPacket):
    """A frame carries what its origin did not sign. An honest node would not have passed it on: the sender loses
    its
    link."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot holds."""

    signatures: list[tuple[NodeId, int, bytes, bytes]]
    members: dict[NodeId, bytes]


class Signatures:
    """Signs this node's entries, checks those of others, and keeps what is needed to pass them on."""

    def __init__(self, identity: Identity, protocol: str) -> None:
        self._node = identity.number
        self._key = identity.key
        self._authority = identity.authority_key
        self._group = identity.group_id
        self._stamped = protocol not in RESTAMPED
        name = protocol.encode()
        self._context = _CONTEXT + identity.group_id + len(name).to_bytes(2, "big") + name
        self._known: dict[bytes, tuple[Name, bytes]] = {}
        """By the digest of an entry: its name, and its signature."""
        self._members = {identity.number: (identity.member.key, identity.endorsement)}
        """The keys of the nodes whose messages have come here."""
        self._trees: OrderedDict[tuple[NodeId, bytes], set[bytes]] = OrderedDict()
        """By origin and signature, the latest trees: what is known to be in them."""
        self._hashes = 0
        self._sweep_at = _SLACK
        self.signed = self.verified = self.hashed = self.repeated = 0
        """Signatures made and checked; entries checked by a path alone; copies of entries known already."""
        self.liars: set[NodeId] = set()
        """Origins that were found to have signed two entries of one number."""

    def __len__(self) -> int:
        return len(self._known)

    # Members: whose keys are known.

    def endorsement(self, number: NodeId) -> bytes:
        """What goes with entries of a node, so that others know its key."""
        return self._members[number][1]

    def introduce(self, number: NodeId, endorsement: bytes) -> None:
        """Learn a node's key. A number has one key, for ever."""
        known = self._members.get(number)
        if known is not None and known[1] == endorsement:
            return
        key = check_endorsement(number, endorsement, self._group, self._authority)
        if known is None:
            self._members[number] = Ed25519PublicKey.from_public_bytes(key), endorsement
        elif known[1][:32] != key:
            raise Refused(f"a second key for node {number}: the authority gives no number twice")

    # Signing.

    def sign(self, those: Iterable[Any]) -> None:
        """Sign entries of this node, as many as there are with one signature. What is signed already is left
        out."""
        fresh: dict[bytes, Name] = {}
        for entry in those:
            if entry.origin == self._node:
                digest = self._digest(entry)
                if digest not in self._known:
                    fresh[digest] = (entry.origin, entry.seq)
        digests = list(fresh)
        for begin in range(0, len(digests), 1 << DEEPEST):
            levels = _tree(digests[begin : begin + (1 << DEEPEST)])
            signature = self._key.sign(self._statement(self._node, levels[-1][0]))
            self.signed += 1
            for place, digest in enumerate(levels[0]):
                self._known[digest] = fresh[digest], signature + _path(levels, place)

    def of(self, entry: Any) -> bytes:
        """The signature that goes with an entry which this node sends."""
        known = self._known.get(digest := self._digest(entry))
        if known is None:
            if entry.origin != self._node:
                raise LocalMisuse(f"{_named(entry)} is passed on without a signature: did the protocol alter it?")
            self.sign([entry])
            known = self._known[digest]
        return known[1]

    # Checking.

    def check(self, entry: Any, signature: bytes) -> None:
        """Raise `Unauthentic` unless the origin of an entry, which must be introduced, has signed it.

        An origin may sign two entries of one number. That is its own lie, and the peer that passes one of them on
        knows nothing of it: both are let through, and the protocol takes the one that comes first.
        """
        digest = self._digest(entry)
        known = self._known.get(digest)
        if (
            known is not None and known[1] == signature
        ):  # another one has to be looked at: packets are passed on whole
            self.repeated += 1
            return
        self._verify(entry, digest, signature)
        self._known[digest] = (entry.origin, entry.seq), signature

    def _verify(self, entry: Any, digest: bytes, signature: bytes) -> None:
        key = (entry.origin, signature[:64])
        tree = self._trees.get(key, _NONE)
        climbed = _climb(digest, signature, tree)
        if climbed is None:
            raise Unauthentic(f"{_named(entry)} has a malformed signature, of {len(signature)} bytes")
        if climbed[-1] in tree:
            self.hashed += 1
        else:
            self.verified += 1
            try:
                self._members[entry.origin][0].verify(key[1], self._statement(entry.origin, climbed[-1]))
            except InvalidSignature:
                raise Unauthentic(f"{_named(entry)} is not signed by node {entry.origin}") from None
        if len(climbed) > 1:
            self._remember(key, climbed)

    def _remember(self, key: tuple[NodeId, bytes], climbed: list[bytes]) -> None:
        """These hashes are in the tree that was signed. An entry that has one of them needs no further look."""
        tree = self._trees.setdefault(key, set())
        self._trees.move_to_end(key)
        self._hashes -= len(tree)
        tree.update(climbed)
        self._hashes += len(tree)
        while self._hashes > _HASHES:
            self._hashes -= len(self._trees.popitem(last=False)[1])

    def _digest(self, entry: Any) -> bytes:
        return sha256(_LEAF + content(entry, stamped=self._stamped)).digest()

    def _statement(self, origin: NodeId, root: bytes) -> bytes:
        return self._context + origin.to_bytes(4, "big") + root

    # What is kept.

    def settle(self, protocol: Protocol, *, now: bool = False) -> None:
        """Call this when all effects of the calls so far have been sealed. Now and then, or `now`, it drops the
        signatures of entries that the protocol does not hold any more."""
        if len(self._known) < self._sweep_at and not now:
            return
        kept, looked_at = kept_by(protocol)
        versions: dict[Name, list[bytes]] = {}
        for digest, (name, _) in self._known.items():
            if name in kept:
                versions.setdefault(name, []).append(digest)
        for name, digests in versions.items():
            if len(digests) > 1:  # signed more than once: only what is held counts
                self._accuse(name)
                held = {self._digest(entry) for entry in kept[name]}
                versions[name] = [digest for digest in digests if digest in held]
        self._known = {digest: self._known[digest] for digests in versions.values() for digest in digests}
        # A quarter of what was looked at: looking costs no more than the messages that led to it.
        self._sweep_at = max(2 * len(self._known), looked_at // 4) + _SLACK

    def _accuse(self, name: Name) -> None:
        if name[0] not in self.liars:
            self.liars.add(name[0])
            log.warning("node %d: node %d signed two messages as %s", self._node, name[0], MessageId(*name))

    def snapshot(self) -> bytes:
        """What must be saved with a snapshot of the protocol."""
        state = _Kept(
            [(*name, digest, signature) for digest, (name, signature) in self._known.items()],
            {number: endorsement for number, (_, endorsement) in self._members.items()},
        )
        return msgspec.msgpack.encode(state)

    def restore(self, data: bytes) -> None:
        """Take over what `snapshot` gave. It was checked before it was saved."""
        state = msgspec.msgpack.decode(data, type=_Kept)
        for number, endorsement in state.members.items():
            self.introduce(number, endorsement)
        for origin, seq, digest, signature in state.signatures:
            self._known[digest] = (origin, seq), signature

    def relearn(self, entry: Any, signature: bytes) -> None:
        """Take over a signature that was checked before its packet was journalled."""
        self._known.setdefault(self._digest(entry), ((entry.origin, entry.seq), signature))

    def gauges(self) -> dict[str, int]:
        return {
            "signatures_kept": len(self._known),
            "signatures_made": self.signed,
            "signatures_checked": self.verified,
            "signatures_by_path": self.hashed,
            "signatures_repeated": self.repeated,
            "members_known": len(self._members),
            "members_lying": len(self.liars),
        }


def _named(entry: Any) -> str:
    return f"{type(entry).__name__.lower()} {MessageId(entry.origin, entry.seq)}"


def _hash(left: bytes, right: bytes) -> bytes:
    return sha256(_INNER + left + right).digest()


def _tree(leaves: list[bytes]) -> list[list[bytes]]:
    """The levels of a hash tree, leaves first. A node without a sibling moves up as it is."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        pairs = [_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
        levels.append(pairs + below[len(pairs) * 2 :])
    return levels


def _path(levels: list[list[bytes]], place: int) -> bytes:
    """The way from a leaf to the root: for each sibling on it one bit, whether it is on the left, and its hash."""
    siblings: list[bytes] = []
    sides = 0
    for level in levels[:-1]:
        sibling = place ^ 1
        if sibling < len(level):
            sides |= (place & 1) << len(siblings)
            siblings.append(level[sibling])
        place >>= 1
    return sides.to_bytes(2, "big") + b"".join(siblings) if siblings else b""


def _climb(leaf: bytes, signature: bytes, tree: Collection[bytes]) -> list[bytes] | None:
    """The hashes on the path of a signature, siblings included, up to the root or to the first that is known to be
    in the tree; None if the path is malformed."""
    depth, rest = divmod(len(signature) - 66, 32)
    if len(signature) == 64:
        return [leaf]
    if rest or not 1 <= depth <= DEEPEST:
        return None
    climbed, sides = [leaf], int.from_bytes(signature[64:66], "big")
    for level in range(depth):
        node = climbed[-1]
        if node in tree:
            break
        sibling = signature[66 + 32 * level : 98 + 32 * level]
        climbed += [sibling, _hash(sibling, node) if sides >> level & 1 else _hash(node, sibling)]
    return climbed
