"""The authority of a group: a folder with its key, the register of its nodes, and its latest bulletin.

- `authority.pem`: the authority's private key and certificate. It never changes, and only invitations,
  revocations, renewals and rotations need it: the folder can stay offline.
- `register.json`: every number that was ever given, with its name and certificate, and the group keys. Numbers are
  given in order and never twice, whatever became of their nodes (`core.ids`).
- `bulletin.pem`: the latest bulletin, for all nodes (`bulletin`). It is no secret.

A number is in the register, on the disk, before the file of its node is written: if that fails, the number is
lost, not used twice. A lock keeps two commands from working on one folder.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from antecast.core import AntecastError, ConfigurationError, InputError, NodeId, OutputError
from antecast.live.groups import files
from antecast.live.groups.bulletin import MAX_BULLETIN, Bulletin, read_bulletin, seal_keys, sign_bulletin
from antecast.live.groups.certificates import (
    MOST_NODES,
    NAME,
    check_member,
    endorse,
    group_id,
    make_authority,
    make_certificate,
)
from antecast.live.groups.identity import Identity

SUFFIX: Final = ".group"
BULLETIN: Final = "ANTECAST BULLETIN"
DAYS: Final = 3650

_AUTHORITY, _REGISTER, _BULLETIN = "authority.pem", "register.json", "bulletin.pem"


class Entry(msgspec.Struct, kw_only=True):
    """A number of the register."""

    number: NodeId
    name: str
    certificate: bytes
    exchange: bytes
    """The public key for which group keys are sealed."""
    invited: int
    since: int
    """The first group key that it may have."""
    revoked: int | None = None
    renewed: bool = False


class Register(msgspec.Struct, kw_only=True):
    format: int
    group: str
    serial: int
    """Of the latest bulletin."""
    next: NodeId
    """The next number to give."""
    keys: dict[int, bytes]
    """Group keys, by number, the last being the one to write with; empty if payloads are not encrypted."""
    nodes: list[Entry]


class Authority:
    """A group, from its folder."""

    def __init__(
        self, folder: Path, key: Ed25519PrivateKey, certificate: x509.Certificate, register: Register
    ) -> None:
        self.folder = folder
        self._key = key
        self.certificate = certificate
        self.register = register

    @property
    def group_id(self) -> bytes:
        return group_id(self.certificate)

    @property
    def bulletin_path(self) -> Path:
        return self.folder / _BULLETIN

    @property
    def current(self) -> int:
        """The group key to write with; 0 if payloads are not encrypted."""
        return max(self.register.keys, default=0)

    def invite(
        self, name: str, path: Path, *, now: datetime | None = None, days: int = DAYS, history: bool = True
    ) -> Identity:
        """A new node: a number that was never used, and a file with all that the node needs. Without `history` it
        gets no group key but the current one, and cannot read what was written before."""
        check_name(name, "a node")
        now = now or datetime.now(UTC)
        register = self.register
        for entry in register.nodes:
            if entry.name == name and entry.revoked is None:
                raise ConfigurationError(
                    f"{name} is node {entry.number} of {register.group} already; if it has lost its state,"
                    " revoke it first"
                )
        if register.next >= MOST_NODES:
            raise ConfigurationError(f"{register.group} has given all {MOST_NODES} numbers")
        if path.exists():
            raise OutputError("is there already, and is not overwritten", path=path)
        number, register.next = register.next, register.next + 1
        key, exchange = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        certificate = make_certificate(
            number, name, key.public_key(), authority=self.certificate, key=self._key, now=now, days=days
        )
        der = certificate.public_bytes(Encoding.DER)
        public = exchange.public_key().public_bytes_raw()
        since = min(register.keys, default=1) if history else self.current
        entry = Entry(
            number=number, name=name, certificate=der, exchange=public, invited=int(now.timestamp()), since=since
        )
        register.nodes.append(entry)
        signed = self._publish(now)
        member, bulletin = check_member(der, self.certificate), self._read(signed)
        endorsement = endorse(number, key.public_key(), self.group_id, self._key)
        identity = Identity(
            path, register.group, member, self.certificate, key, exchange, endorsement, signed, bulletin
        )
        try:
            identity.save_new()
        except OutputError:
            register.nodes.remove(entry)  # nobody has it: its name is free, its number stays given
            self._publish(now)
            raise
        return identity

    def revoke(self, who: str, *, now: datetime | None = None) -> Entry:
        """A node may no longer connect. A group that encrypts gets a new key, which the node does not get."""
        now = now or datetime.now(UTC)
        entry = self.find(who)
        entry.revoked = int(now.timestamp())
        if self.register.keys:
            self._add_key()
        self._publish(now)
        return entry

    def renew(self, who: str, *, now: datetime | None = None, days: int = DAYS) -> Entry:
        """A new certificate for the same number, name and key."""
        now = now or datetime.now(UTC)
        entry = self.find(who)
        member = check_member(entry.certificate, self.certificate)
        made = make_certificate(
            entry.number, entry.name, member.key, authority=self.certificate, key=self._key, now=now, days=days
        )
        entry.certificate, entry.renewed = made.public_bytes(Encoding.DER), True
        self._publish(now)
        return entry

    def rotate(self, *, now: datetime | None = None) -> int:
        """A new group key to write with; older ones are kept to read. The first one turns encryption on."""
        self._add_key()
        self._publish(now or datetime.now(UTC))
        return self.current

    def find(self, who: str) -> Entry:
        """A node that is not revoked, by its name or number."""
        found = [each for each in self.register.nodes if who in (each.name, str(each.number))]
        valid = [each for each in found if each.revoked is None]
        if valid and len({each.name for each in found}) > 1:
            meant = " or ".join(f"node {each.number} ({each.name})" for each in found)
            other = " or ".join(each.name if who == str(each.number) else str(each.number) for each in found)
            raise ConfigurationError(f"{who} may be {meant}; say {other}")
        if valid:
            return valid[0]
        what = f"{who} is revoked already" if found else f"there is no node {who}"
        raise ConfigurationError(f"{what} in {self.register.group}; see antecast group list")

    def catch_up(self) -> None:
        """Write the bulletin that the register speaks of, if that failed when the register was written, on a full
        disk for instance: no revocation waits for the next change."""
        try:
            written = self._read(read_bulletin_file(self.bulletin_path)).serial
        except AntecastError:
            written = -1
        if written > self.register.serial:
            problem = f"older than bulletin {written} beside it: it would give numbers again that others have"
            raise InputError(problem, path=self.folder / _REGISTER)
        if written < self.register.serial:
            self._publish(datetime.now(UTC))

    def _add_key(self) -> None:
        self.register.keys[self.current + 1] = secrets.token_bytes(32)

    def _publish(self, now: datetime) -> bytes:
        """Save the register, then the bulletin that follows from it."""
        register = self.register
        register.serial += 1
        valid = [entry for entry in register.nodes if entry.revoked is None]
        bulletin = Bulletin(
            group=self.group_id,
            serial=register.serial,
            issued=int(now.timestamp()),
            revoked={entry.number: entry.revoked for entry in register.nodes if entry.revoked is not None},
            renewed={entry.number: entry.certificate for entry in valid if entry.renewed},
            current=self.current,
            sealed={entry.number: self._sealed(entry) for entry in valid} if register.keys else {},
        )
        signed = sign_bulletin(bulletin, self._key)
        if len(signed) > MAX_BULLETIN:
            raise ConfigurationError(
                f"{register.group} has too many nodes and group keys for one bulletin ({len(signed) >> 20} MiB):"
                " begin a new group"
            )
        text = msgspec.json.format(msgspec.json.encode(register), indent=1).decode()
        files.replace(self.folder / _REGISTER, text + "\n")
        files.replace(self.bulletin_path, files.block(BULLETIN, signed), mode=0o644)
        return signed

    def _sealed(self, entry: Entry) -> dict[int, bytes]:
        keys = {number: key for number, key in self.register.keys.items() if number >= entry.since}
        return seal_keys(keys, entry.number, entry.exchange, self.group_id)

    def _read(self, signed: bytes) -> Bulletin:
        return read_bulletin(signed, self._key.public_key(), self.group_id)


def new_group(
    folder: Path, group: str, *, encrypt: bool = False, now: datetime | None = None, days: int = 2 * DAYS
) -> Authority:
    """A group without nodes yet, in a folder that must not be there."""
    check_name(group, "a group")
    now = now or datetime.now(UTC)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise OutputError("is there already, and is not overwritten", path=folder) from None
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=folder) from None
    key = Ed25519PrivateKey.generate()
    certificate = make_authority(group, key, now=now, days=days)
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    text = files.block("CERTIFICATE", certificate.public_bytes(Encoding.DER)) + files.block("PRIVATE KEY", private)
    files.write_new(folder / _AUTHORITY, text)
    register = Register(format=1, group=group, serial=0, next=0, keys={}, nodes=[])
    authority = Authority(folder, key, certificate, register)
    if encrypt:
        authority._add_key()
    authority._publish(now)
    return authority


@contextmanager
def open_group(folder: Path) -> Iterator[Authority]:
    """The authority in a folder, for one command at a time."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}; expected the folder of a group", path=folder) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        authority = _load(folder)
        authority.catch_up()
        yield authority
    finally:
        os.close(descriptor)


def _load(folder: Path) -> Authority:
    path = folder / _AUTHORITY
    blocks = dict(files.read_blocks(path))
    files.check_private(path)
    try:
        certificate = x509.load_der_x509_certificate(blocks["CERTIFICATE"])
        key = load_der_private_key(blocks["PRIVATE KEY"], None)
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(f"damaged: expected a certificate and a private key ({error})", path=path) from None
    if not isinstance(key, Ed25519PrivateKey) or key.public_key() != certificate.public_key():
        raise InputError("damaged: the private key is not that of the certificate", path=path)
    path = folder / _REGISTER
    try:
        register = msgspec.json.decode(path.read_bytes(), type=Register)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"damaged: {error}", path=path) from None
    if register.next <= max((entry.number for entry in register.nodes), default=-1):
        raise InputError(f"damaged: its next number, {register.next}, was given before", path=path)
    return Authority(folder, key, certificate, register)


def read_bulletin_file(path: Path) -> bytes:
    """The signed bulletin in a file; who signed it is not looked at."""
    found = [data for label, data in files.read_blocks(path) if label == BULLETIN]
    if len(found) != 1:
        raise InputError("not a bulletin; expected bulletin.pem from the folder of a group", path=path)
    return found[0]


def check_name(name: str, what: str) -> None:
    if NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{name!r} cannot be the name of {what}: expected up to 63 letters, digits, dots, hyphens and"
            " underscores, beginning with a letter or digit"
        )
