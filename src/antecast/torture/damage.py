"""What disks and people do to files: flipped bytes, torn pages, missing ends, and no room."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

PAGE = 4096


def files_of(journal: Path) -> list[Path]:
    """A journal and what lies beside it, as far as it is there."""
    names = ("", "-wal", "-shm", ".mark")
    return [path for each in names if (path := journal.with_name(journal.name + each)).exists()]


class Copy:
    """The files of a journal as they are now, to be put back."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._files = {path: path.read_bytes() for path in files_of(journal)}

    def restore(self) -> None:
        for path in files_of(self._journal):
            path.unlink()
        for path, data in self._files.items():
            path.write_bytes(data)


def damage(journal: Path, random: Random) -> str:
    """Damage a journal whose node does not run; returns what was done."""
    kinds = (_flip, _flip, _tear, _truncate)
    choices = [path for path in files_of(journal) if path.suffix != ".journal-shm" and path.stat().st_size]
    choices = [path for path in choices if not path.name.endswith("-shm")]
    path = random.choice(choices)
    return f"{random.choice(kinds)(path, random)} of {path.name}"


def _flip(path: Path, random: Random) -> str:
    place, bit = random.randrange(path.stat().st_size), 1 << random.randrange(8)
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ bit]))
    return f"bit {bit} flipped in byte {place}"


def _tear(path: Path, random: Random) -> str:
    """Half a page was written, and the other half is as it was before: zeros."""
    size = path.stat().st_size
    page = random.randrange((size + PAGE - 1) // PAGE)
    start = min(page * PAGE + PAGE // 2, size - 1)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(min(PAGE // 2, size - start)))
    return f"second half of page {page} zero"


def _truncate(path: Path, random: Random) -> str:
    size = random.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"end after {size} bytes"


class SmallDisk:
    """A folder with little room: a file system in memory, where this user may mount one.

    It is large enough for what a group writes on a slow machine, where a session takes long and says much.
    """

    def __init__(self, folder: Path, size: int = 64 << 20) -> None:
        self._folder, self._ballast = folder, folder / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
        allowed = os.geteuid() == 0 and shutil.which("mount") is not None
        self.mounted = allowed and subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self, room: int) -> None:
        """Leave so many bytes. Nodes go on writing meanwhile: what they were quicker to take is left to them."""
        with self._ballast.open("wb") as file:
            for spare in (0, 1 << 16, 1 << 18, 1 << 20):
                free = shutil.disk_usage(self._folder).free
                with suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, max(1, free - room - spare))
                    return

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self._folder)], capture_output=True, check=False)
            self.mounted = False
