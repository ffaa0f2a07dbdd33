"""The bench of `antecast.testing`, with keys: frames travel as packets, and are verified before they are received.

Signatures that the protocol cannot need any more are dropped after every call, the earliest that is allowed:
whatever a protocol sends afterwards must still have its signature.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from antecast.core import Frame, NodeId, RemoteFault
from antecast.live.groups.bulletin import Bulletin
from antecast.live.groups.certificates import check_member, endorse, group_id, make_authority, make_certificate
from antecast.live.groups.identity import Identity
from antecast.live.groups.security import GroupSecurity
from antecast.testing import Bench, ContractBroken

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def _authority(group: str):
    key = Ed25519PrivateKey.generate()
    return key, make_authority(group, key, now=NOW, days=10)


@cache
def identity(number: NodeId, group: str = "friends") -> Identity:
    """A node of any number, without files."""
    authority, certificate = _authority(group)
    key, exchange, name = Ed25519PrivateKey.generate(), X25519PrivateKey.generate(), f"node-{number}"
    made = make_certificate(number, name, key.public_key(), authority=certificate, key=authority, now=NOW, days=5)
    bulletin = Bulletin(
        group=group_id(certificate), serial=1, issued=0, revoked={}, renewed={}, current=0, sealed={}
    )
    return Identity(
        path=Path("nowhere"),
        group=group,
        member=check_member(made.public_bytes(Encoding.DER), certificate),
        authority=certificate,
        key=key,
        exchange=exchange,
        endorsement=endorse(number, key.public_key(), group_id(certificate), authority),
        signed_bulletin=b"",
        bulletin=bulletin,
    )


class SignedBench(Bench):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.security: dict[NodeId, GroupSecurity] = {}
        self.packets: dict[int, tuple[Frame, bytes]] = {}
        """The packet of each frame in flight; the frame is held, so that its id stays its own."""
        self._kept: dict[NodeId, bytes] = {}
        self._returns: NodeId | None = None
        self._settled: dict[NodeId, int] = {}
        super().__init__(*arguments, **options)

    def start(self, node: NodeId) -> None:
        super().start(node)
        self.security[node] = GroupSecurity(identity(node), self.spec.name)
        if node == self._returns:
            self.security[node].restore(self._kept.pop(node))

    def save(self, node: NodeId) -> bytes:
        self._kept[node] = self.security[node].snapshot()
        return super().save(node)

    def recover(self, node: NodeId) -> None:
        self._returns = node
        super().recover(node)

    def _carried(self, node: NodeId, frame: Frame) -> Frame:
        copy = super()._carried(node, frame)
        packet = self.security[node].seal(frame, self.nodes[node].codec.encode(frame))
        self.packets[id(copy)] = copy, packet
        return copy

    def call(self, node: NodeId, method: str, *arguments: Any, **options: Any) -> Any:
        if method == "receive" and id(arguments[0]) in self.packets:
            self._verify(node, *self.packets[id(arguments[0])])
        name = super().call(node, method, *arguments, **options)
        if node in self.nodes and not self._busy:
            self.settle(node)
        return name

    def settle(self, node: NodeId) -> None:
        """Drop what the protocol cannot need any more; where nothing was added since, nothing could be missing."""
        signatures = self.security[node]._signatures
        if len(signatures) != self._settled.get(node):
            signatures.settle(self.nodes[node], now=True)
            self._settled[node] = len(signatures)

    def _verify(self, node: NodeId, frame: Frame, packet: bytes) -> None:
        try:
            got = self.nodes[node].codec.decode(self.security[node].split(packet))
            self.security[node].verify(got, packet, 0)
        except RemoteFault as fault:
            raise ContractBroken("forged", f"node {node} refuses an honest packet: {fault}") from fault
        assert got == frame
