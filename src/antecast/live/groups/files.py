"""Files that hold secrets: readable by their owner only, never half written, never overwritten by mistake.

A file is a sequence of PEM blocks. OpenSSL reads the certificates and the private key of a node from the same file
from which we read the rest.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

from antecast.core import InputError, OutputError

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s+([A-Za-z0-9+/=\s]*?)-----END \1-----")
_MOST = 1 << 26
"""Bytes of a file: more than any group needs."""


def block(label: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def read_blocks(path: Path) -> list[tuple[str, bytes]]:
    """The blocks of a file, with their labels."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
            raise InputError("not a file; expected a file of antecast group", path=path)
        if found.st_size > _MOST:
            raise InputError(f"larger than {_MOST >> 20} MiB; expected a file of antecast group", path=path)
        text = path.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    except UnicodeDecodeError:
        raise InputError("not a file of antecast group: expected PEM blocks", path=path) from None
    try:
        return [
            (label, base64.b64decode("".join(body.split()), validate=True)) for label, body in _BLOCK.findall(text)
        ]
    except ValueError:
        raise InputError("damaged: a PEM block is not base64", path=path) from None


def write_new(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file that must not be there yet."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise OutputError("is there already, and is not overwritten", path=path) from None
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=path) from None
    try:
        _fill(descriptor, text, mode)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise OutputError(f"cannot write: {error.strerror}", path=path) from None


def replace(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file, or put a new one in its place in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        _fill(descriptor, text, mode)
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OutputError(f"cannot write: {error.strerror}", path=path) from None


def _fill(descriptor: int, text: str, mode: int) -> None:
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask and an older file say
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def check_private(path: Path) -> None:
    """Refuse a secret that others on this machine can read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    if mode & 0o077:
        raise InputError(
            f"holds a private key and is open to others (mode {mode & 0o777:o}); chmod 600 it", path=path
        )
