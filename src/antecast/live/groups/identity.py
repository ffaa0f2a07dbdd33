"""A node's file: its number, name, keys and certificate, the group it belongs to, and the latest bulletin.

`antecast group invite` writes it; whoever has it *is* that node. It is the only file that a node needs, and it
changes only when a newer bulletin is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from antecast.core import InputError, NodeId
from antecast.live.groups import files
from antecast.live.groups.bulletin import Bulletin, GroupKeys, read_bulletin, unseal_keys
from antecast.live.groups.certificates import (
    ENDORSEMENT,
    Member,
    Refused,
    check_endorsement,
    check_member,
    check_time,
    group_id,
)

_LABEL = "ANTECAST NODE"
FORMAT = 1


class _Rest(msgspec.Struct, frozen=True):
    """What OpenSSL does not read."""

    format: int
    group: str
    exchange: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    endorsement: Annotated[bytes, msgspec.Meta(min_length=ENDORSEMENT, max_length=ENDORSEMENT)]
    bulletin: bytes


@dataclass(frozen=True)
class Identity:
    """A node of a group, with its secrets."""

    path: Path
    group: str
    """The name of the group; what counts is `group_id`."""
    member: Member
    authority: x509.Certificate
    key: Ed25519PrivateKey
    exchange: X25519PrivateKey
    """Group keys are sealed for this key."""
    endorsement: bytes
    """The authority's word that this number has this key, for messages to carry."""
    signed_bulletin: bytes
    bulletin: Bulletin

    @property
    def number(self) -> NodeId:
        return self.member.number

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def group_id(self) -> bytes:
        return group_id(self.authority)

    @property
    def authority_key(self) -> Ed25519PublicKey:
        key = self.authority.public_key()
        assert isinstance(key, Ed25519PublicKey)
        return key

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_der_x509_certificate(self.member.der)

    @property
    def group_keys(self) -> GroupKeys:
        """The group keys that this node may have."""
        sealed = self.bulletin.sealed.get(self.number, {})
        return unseal_keys(sealed, self.number, self.exchange, self.group_id)

    def check(self, now: datetime | None = None) -> None:
        """Refuse to start as a node that nobody would talk to."""
        problem = check_time(self.certificate, datetime.now(UTC) if now is None else now)
        if problem is None and self.number in self.bulletin.revoked:
            problem = f"{self.member} was revoked; ask for a new invitation"
        if problem is not None:
            raise InputError(problem, path=self.path)

    def updated(self, signed: bytes) -> Self:
        """The same node with a newer bulletin; itself if that is older or the same."""
        bulletin = read_bulletin(signed, self.authority_key, self.group_id)
        if bulletin.serial <= self.bulletin.serial:
            return self
        member = self.member
        if (der := bulletin.renewed.get(self.number)) is not None:
            member = check_member(der, self.authority)
            if member.number != self.number or member.key != self.member.key:
                raise Refused(f"the bulletin renews the certificate of {self.member} with one of {member}")
        return replace(self, member=member, signed_bulletin=signed, bulletin=bulletin)

    def text(self) -> str:
        key = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        exchange = self.exchange.private_bytes_raw()
        rest = msgspec.msgpack.encode(_Rest(FORMAT, self.group, exchange, self.endorsement, self.signed_bulletin))
        return (
            f"Node {self.number}, {self.name}, of the group {self.group}. Whoever has this file is this node:"
            " keep it to yourself.\n"
            + files.block("CERTIFICATE", self.member.der)
            + files.block("CERTIFICATE", self.authority.public_bytes(Encoding.DER))
            + files.block("PRIVATE KEY", key)
            + files.block(_LABEL, rest)
        )

    def save_new(self) -> None:
        files.write_new(self.path, self.text())

    def save(self) -> None:
        files.replace(self.path, self.text())


def load_identity(path: Path) -> Identity:
    """The node of a file, checked as far as that is possible without a clock."""
    blocks = files.read_blocks(path)
    certificates = [data for label, data in blocks if label == "CERTIFICATE"]
    keys = [data for label, data in blocks if label == "PRIVATE KEY"]
    rests = [data for label, data in blocks if label == _LABEL]
    if len(certificates) != 2 or len(keys) != 1 or len(rests) != 1:
        raise InputError("not a node file; expected one that antecast group invite has written", path=path)
    files.check_private(path)
    try:
        rest = msgspec.msgpack.decode(rests[0], type=_Rest)
        if rest.format != FORMAT:
            raise InputError(f"has format {rest.format}; this version of Antecast reads {FORMAT}", path=path)
        authority = x509.load_der_x509_certificate(certificates[1])
        member = check_member(certificates[0], authority)
        key = load_der_private_key(keys[0], None)
        exchange = X25519PrivateKey.from_private_bytes(rest.exchange)
        if not isinstance(key, Ed25519PrivateKey) or key.public_key() != member.key:
            raise InputError(f"its private key is not that of its certificate, {member}", path=path)
        authority_key = authority.public_key()
        assert isinstance(authority_key, Ed25519PublicKey)
        group = group_id(authority)
        if (
            check_endorsement(member.number, rest.endorsement, group, authority_key)
            != member.key.public_bytes_raw()
        ):
            raise InputError(f"its endorsement is not for the key of {member}", path=path)
        bulletin = read_bulletin(rest.bulletin, authority_key, group)
    except (ValueError, TypeError, AssertionError, msgspec.MsgspecError, Refused) as error:
        raise InputError(f"damaged: {error}", path=path) from None
    return Identity(path, rest.group, member, authority, key, exchange, rest.endorsement, rest.bulletin, bulletin)
