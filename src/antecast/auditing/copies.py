"""Files that are copies of others: what `copytruncate` of logrotate leaves, a backup, a log written anew.

Theory of operation. Whoever rotates by copying makes a copy first and truncates the file then. So there are
moments with every line in two files, and the copy has lines that nobody has read from the file. Both are settled
by what the files hold:
- A new file that holds the beginning of another one of its folder, or all of it, has nothing of its own: it is
  passed over for as long as this is so.
- Where a file was truncated, replaced or removed, and another one of its folder has what was read of it, at the
  same place, this is where to read on.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import TypeAlias

HEAD = 4096
"""Bytes that are compared before the rest is."""

_CHUNK = 1 << 20

Size: TypeAlias = tuple[int, int, int]
"""A file by its number, that of its file system, and how long it was when it was looked at."""


def copies_among(
    new: Iterable[tuple[Path, Size]], others: Iterable[tuple[Path, Size]], seen: set[Size]
) -> Iterator[Path]:
    """The new files that hold a part of another one, from its beginning; `seen` keeps what was compared before.

    Of two files that are equal, the one that comes first is no copy.
    """
    heads: dict[Path, bytes] = {}
    new = [each for each in new if each[1][2]]
    known = [each for each in (*others, *new) if each[1][2]] if new else []
    for place, (file, size) in enumerate(new, len(known) - len(new)):
        if size in seen:
            yield file
            continue
        for number, (other, length) in enumerate(known):
            larger = length[2] > size[2] or (length[2] == size[2] and number < place)
            if number == place or not larger or other.parent != file.parent:
                continue
            if _head(other, heads).startswith(_head(file, heads)) and _begins(other, file, size[2]):
                seen.add(size)
                yield file
                break


def _head(file: Path, heads: dict[Path, bytes]) -> bytes:
    if file not in heads:
        with file.open("rb") as stream:
            heads[file] = stream.read(HEAD)
    return heads[file]


def _begins(file: Path, copy: Path, size: int) -> bool:
    """Whether a file begins with so many bytes of another one."""
    with file.open("rb") as one, copy.open("rb") as two:
        while size > 0:
            chunk = two.read(min(_CHUNK, size))
            if not chunk or one.read(len(chunk)) != chunk:
                return False
            size -= len(chunk)
    return True


def holds(file: Path, offset: int, mark: bytes) -> bool:
    """Whether these bytes stand in a file before a place."""
    with file.open("rb") as stream:
        stream.seek(offset - len(mark))
        return stream.read(len(mark)) == mark


def holder(
    log: Path, offset: int, mark: bytes, *, listed: Container[Path] = (), apart: Container[tuple[int, int]] = ()
) -> Path | None:
    """A copy of a log in its folder: a file that has these bytes before a place.

    It is one of those `listed`, or its name begins as that of the log does; files `apart`, by their numbers, are
    left alone.
    """
    if not offset:
        return None
    with suppress(OSError):
        for file in sorted(log.parent.iterdir()):
            if file in listed or file.name.startswith(log.stem):
                with suppress(OSError):
                    status = file.stat()
                    there = S_ISREG(status.st_mode) and status.st_size >= offset
                    if there and (status.st_dev, status.st_ino) not in apart and holds(file, offset, mark):
                        return file
    return None
