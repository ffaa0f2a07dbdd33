"""The mark of a journal: a small file beside it that says how far effects may have left the node.

It is written after each commit and before any effect of it leaves. A journal that ends before its mark has lost
calls whose effects others have seen. Mark and journal are locked while the node runs: under whichever name a
second process comes to the journal, it finds one of them locked.

A file can be deleted while it is open, and SQLite would go on writing what nobody finds again. So each time before
effects leave, the mark sees that both files, and SQLite's log, are still where they were.
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
        # Through a link, too, one journal has one mark; SQLite's log lies beside the file itself as well.
        path = journal.resolve()
        path = path.with_name(f"{path.name}.mark")
        self.is_alone = journal.exists() and journal.stat().st_size > 0 and not path.exists()
        """Whether there is a journal and no mark: it was not used here before."""
        self._held: list[int] = []
        self._places: dict[Path, tuple[int, int]] = {}
        """The files that must stay where they are, and which those are."""
        self._wal = journal.resolve().with_name(f"{journal.resolve().name}-wal")
        try:
            for each in (path, journal):  # payloads are nobody else's business
                self._held.append(os.open(each, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                fcntl.flock(self._held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            problem = "in use by another process; a journal belongs to one running node"
            raise JournalError(problem, path=journal) from None
        except OSError as error:
            self.close()
            named = each if path.parent.is_dir() else journal
            raise JournalError(f"cannot open: {error.strerror}", path=named) from None
        self._file = self._held[0]
        for each, held in zip((path, journal.resolve()), self._held, strict=True):
            self._places[each] = _identity(os.fstat(held))

    def read(self) -> Marked | None:
        data = os.pread(self._file, _FORM.size, 0)
        return Marked(*_FORM.unpack(data)[1:]) if len(data) == _FORM.size and data[:4] == b"mark" else None

    def write(self, position: int, chain: int) -> None:
        """Effects of the calls up to `position` may leave from now on. Raises `FileNotFoundError` if what was
        committed is not in the files that a restart would find."""
        if self._wal not in self._places:
            self._places[self._wal] = _identity(self._wal.stat())
        for path, identity in self._places.items():
            if _identity(path.stat()) != identity:
                raise FileNotFoundError(path)
        os.pwrite(self._file, _FORM.pack(b"mark", position, chain), 0)

    def close(self) -> None:
        """Once SQLite has closed the journal: closing a file ends all locks of SQLite on it."""
        for each in self._held:
            os.close(each)
        self._held.clear()


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def boot() -> str:
    """Names the time since the machine was started: another name means that it went down in between."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
