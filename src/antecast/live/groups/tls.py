"""Who is at the other end: mutual TLS 1.3 between the nodes of a group.

Both ends show their certificates, and OpenSSL checks that the group's authority has signed them and that they
are valid now. Then, before anything else is sent or read, `peer_of` reads number and name from the certificate
and looks them up in the revocation list of the latest bulletin. Sessions are not resumed, so every connection is
checked anew.

In TLS 1.3 a client is done before the server has seen its certificate: a client that is refused learns it with its
first read. `explain` puts either end's error into one line.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding

from antecast.core import NodeId
from antecast.live.groups.certificates import Member, Refused, check_member
from antecast.live.groups.identity import Identity

HANDSHAKE_SECONDS: Final = 10.0
"""How long a handshake may take, at most. Who connects and says nothing costs a socket for this long."""

_OTHER_GROUP = (
    "its certificate is not signed by the authority of this group: it belongs to another group, or to none"
)

_CODES: Final = {
    2: _OTHER_GROUP,
    18: _OTHER_GROUP,
    19: _OTHER_GROUP,
    20: _OTHER_GROUP,
    21: _OTHER_GROUP,
    7: _OTHER_GROUP,
}
"""What OpenSSL's verification codes mean here; 9 and 10 are about time."""

_REASONS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not accept our certificate: it belongs to another group",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept our certificate: it belongs to another group",
    "TLSV1_ALERT_DECRYPT_ERROR": "it does not accept our certificate: it belongs to another group",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "by its clock our certificate is not valid now: compare the clocks",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it says that our certificate is revoked",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate, and we have shown none",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "UNSUPPORTED_VERSION": "it does not speak TLS 1.3",
    "NO_PROTOCOLS_AVAILABLE": "it does not speak TLS 1.3",
    "TLSV1_ALERT_INTERNAL_ERROR": "it broke the handshake off",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS: does it run without keys?",
    "HTTP_REQUEST": "it speaks HTTP, not TLS",
    "HTTPS_PROXY_REQUEST": "it speaks HTTP, not TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS: does it run without keys?",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS: does it run without keys?",
    "UNEXPECTED_MESSAGE": "it does not keep to TLS",
    "BAD_RECORD_TYPE": "it does not speak TLS: does it run without keys?",
}


def server_context(identity: Identity) -> ssl.SSLContext:
    """For the end that listens."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity)
    context.num_tickets = 0
    return context


def client_context(identity: Identity) -> ssl.SSLContext:
    """For the end that connects. Host names are not checked: certificates name nodes, wherever they are."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity)


def _context(protocol: int, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.load_cert_chain(identity.path)
    context.load_verify_locations(cadata=identity.authority.public_bytes(Encoding.PEM).decode())
    return context


def peer_of(connection: ssl.SSLObject | ssl.SSLSocket, identity: Identity, revoked: Collection[NodeId]) -> Member:
    """The node at the other end of a connection whose handshake is done; `Refused` if it may not take part."""
    try:
        der = connection.getpeercert(binary_form=True)
    except ValueError:
        raise Refused("it has not finished the handshake") from None
    if der is None:
        raise Refused("it has shown no certificate")
    member = check_member(der, identity.authority)
    if member.number in revoked:
        raise Refused(f"{member} was revoked")
    if member.number == identity.number:
        raise Refused(f"it is {member}, which is this node itself: is its file in use elsewhere?")
    return member


def check_claim(member: Member, number: NodeId) -> None:
    """A node that speaks under a number has to have that number's certificate."""
    if number != member.number:
        raise Refused(f"it says that it is node {number}, and has the certificate of {member}")


def explain(error: BaseException) -> str:
    """Why a handshake failed, in one line that follows the name of the peer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        clock = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        if error.verify_code == 9:
            return f"its certificate is not valid yet; the clock of this machine says {clock}: compare the clocks"
        if error.verify_code == 10:
            return f"its certificate has expired; the clock of this machine says {clock}"
        return _CODES.get(error.verify_code, f"its certificate is not accepted: {error.verify_message}")
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, ssl.SSLEOFError | ConnectionError | EOFError):
        return "it broke the handshake off"
    if isinstance(error, TimeoutError):
        return f"it did not finish the handshake in {HANDSHAKE_SECONDS:.0f} s"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", f"TLS failed: {error.reason or error}")
    return f"{type(error).__name__}: {error}"
