"""Certificates of a group: who is which node, said by the group's authority.

A group has one authority: an Ed25519 key and a certificate that the key signs for itself. It signs one
certificate per node, with the node's number and name in a URI among the alternative names,
`urn:antecast:node:3:carol`, so that number, name and public key are bound to each other. The group is named by a
hash of the authority's public key: nobody else can make certificates of a group of that name.

The certificate is for connections. Messages travel further than their source's connections, and are small, so the
authority also signs number and key alone, for messages to carry: the node's *endorsement*, 96 bytes.

The node's key serves twice: TLS proves with it who is at the other end of a connection, and messages are signed
with it (`signatures`). What is signed begins with different words in the two, so neither signature passes for
the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from antecast.core import NodeId
from antecast.live.security import PeerRefused

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""Names of groups and nodes: they become file names, and parts of certificates."""

MOST_NODES: Final = 1 << 32
"""Node numbers are below this (`core.frames.Source`)."""

MAX_CERTIFICATE: Final = 2048
"""Bytes of a certificate; ours have some 500."""

_EARLY = timedelta(hours=1)
"""A certificate is valid from a while before it was made, for machines whose clocks are behind."""

_URI = re.compile(rf"urn:antecast:node:(0|[1-9][0-9]{{0,9}}):({NAME.pattern})")


ENDORSEMENT: Final = 96
"""Bytes of an endorsement: the node's public key, and the authority's signature."""

_ENDORSED = b"antecast member 1\0"


class Refused(PeerRefused):
    """A peer may not take part: its certificate, its number or its place in the group is wrong. It loses its
    link."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a certificate says: this key belongs to this node."""

    number: NodeId
    name: str
    key: Ed25519PublicKey
    der: bytes
    """The certificate itself."""

    def __str__(self) -> str:
        return f"node {self.number} ({self.name})"


def group_id(authority: x509.Certificate) -> bytes:
    """The name of a group that nobody else can take: 32 bytes."""
    form = authority.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return sha256(b"antecast group\0" + form).digest()


def make_authority(group: str, key: Ed25519PrivateKey, *, now: datetime, days: int) -> x509.Certificate:
    """The certificate that the authority of a new group signs for itself."""
    name = _subject(f"{group} authority", group)
    usage = _usage(sign_certificates=True)
    builder = _builder(name, name, key.public_key(), now, days).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, None)


def make_certificate(
    number: NodeId,
    name: str,
    public: Ed25519PublicKey,
    *,
    authority: x509.Certificate,
    key: Ed25519PrivateKey,
    now: datetime,
    days: int,
) -> x509.Certificate:
    """A node's certificate. It ends with the authority's at the latest."""
    group = authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value
    builder = _builder(
        _subject(name, str(group)), authority.subject, public, now, days, until=authority.not_valid_after_utc
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(sign_certificates=False), critical=True)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    uri = x509.UniformResourceIdentifier(f"urn:antecast:node:{number}:{name}")
    builder = builder.add_extension(x509.SubjectAlternativeName([uri]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(issuer, critical=False).sign(key, None)


def _subject(name: str, group: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: Ed25519PublicKey,
    now: datetime,
    days: int,
    *,
    until: datetime | None = None,
) -> x509.CertificateBuilder:
    end = now + timedelta(days=days)
    builder = x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
    builder = builder.not_valid_before(now - _EARLY).not_valid_after(end if until is None else min(end, until))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def read_member(der: bytes) -> Member:
    """What a certificate says of its node; who signed it is not looked at."""
    if len(der) > MAX_CERTIFICATE:
        raise Refused(f"a certificate of {len(der)} bytes exceeds the limit of {MAX_CERTIFICATE}")
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        key = certificate.public_key()
    except Exception as error:  # a parser of strangers' bytes: whatever it raises, the certificate is bad
        raise Refused(f"not a certificate of a node: {_first_line(error)}") from None
    found = _URI.fullmatch(uris[0]) if len(uris) == 1 else None
    if found is None or int(found[1]) >= MOST_NODES or not isinstance(key, Ed25519PublicKey):
        raise Refused(
            "not a certificate of a node: it must name one node (urn:antecast:node:…) and an Ed25519 key"
        )
    return Member(int(found[1]), found[2], key, der)


def check_member(der: bytes, authority: x509.Certificate) -> Member:
    """The node of a certificate that this authority has signed.

    Its time is not looked at. Messages outlive the certificate of their source, and whether a node may *connect*
    is asked when it does (`tls`)."""
    member = read_member(der)
    try:
        x509.load_der_x509_certificate(der).verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise Refused(f"the certificate of {member} is not signed by the authority of this group") from None
    return member


def endorse(number: NodeId, public: Ed25519PublicKey, group: bytes, authority: Ed25519PrivateKey) -> bytes:
    """The word of an authority that a number belongs to a key."""
    key = public.public_bytes_raw()
    return key + authority.sign(_ENDORSED + group + number.to_bytes(4, "big") + key)


def check_endorsement(number: NodeId, endorsement: bytes, group: bytes, authority: Ed25519PublicKey) -> bytes:
    """The public key that belongs to a number."""
    key = endorsement[:32]
    try:
        authority.verify(endorsement[32:], _ENDORSED + group + number.to_bytes(4, "big") + key)
    except InvalidSignature:
        raise Refused(f"the key of node {number} is not endorsed by the authority of this group") from None
    return key


def check_time(certificate: x509.Certificate, now: datetime) -> str | None:
    """What is wrong with a certificate at this time, if anything."""
    clock = f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    if now < certificate.not_valid_before_utc:
        first = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return f"its certificate is valid from {first}, and the clock of this machine says {clock}; set the clock"
    if now > certificate.not_valid_after_utc:
        last = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        return (
            f"its certificate expired on {last}, and the clock of this machine says {clock};"
            " renew it with antecast group renew"
        )
    return None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
