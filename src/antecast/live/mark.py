"""The mark of a journal: a small file beside it that says how far effects may have left the node.

It is written after each commit and before any effect of it leaves, and it is locked while the node runs. A journal
that ends before its mark has lost calls whose effects others have seen.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

from antecast.live.entries import JournalError

_FORM = struct.Struct(">4sQI")


class Marked(NamedTuple):
    position: int
    chain: int


class Mark:
    """The locked mark of an open journal."""

    def __init__(self, journal: Path) -> None:
        path = journal.with_name(f"{journal.name}.mark")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"cannot open: {error.strerror}", path=path) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            problem = "in use by another process; a journal belongs to one running node"
            raise JournalError(problem, path=journal) from None

    def read(self) -> Marked | None:
        data = os.pread(self._file, _FORM.size, 0)
        return Marked(*_FORM.unpack(data)[1:]) if len(data) == _FORM.size and data[:4] == b"mark" else None

    def write(self, position: int, chain: int) -> None:
        os.pwrite(self._file, _FORM.pack(b"mark", position, chain), 0)

    def close(self) -> None:
        os.close(self._file)


def boot() -> str:
    """Names the time since the machine was started: another name means that it went down in between."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
