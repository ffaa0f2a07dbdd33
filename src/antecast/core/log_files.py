"""The files that a person means by a path, and what they hold: for every format, and for both engines.

What is promised:
- All of a folder counts, links to folders included. What cannot be looked at, a broken symbolic link, and what
  is no file (a pipe, a device) are errors: a part of the log would be missing otherwise.
- A file counts once, whatever names and links lead to it: read twice, its events would seem to happen twice.
- gzip, bzip2, xz and zstd are known by their first bytes, not by the name of the file. What stands behind a
  compressed stream must be another one: Python's readers of bzip2 and xz pass over anything else, and over a
  second stream whose beginning is damaged, as if the log ended there.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from antecast.core.errors import InputError, OutputError

HIDDEN = ("_", ".")
"""Files and folders whose names begin so are left out of folders."""

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_BUFFER = 1 << 20

_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def find_files(paths: Sequence[Path | str], *, growing: bool = False) -> list[Path]:
    """The files that paths name: files, folders with all that is in them, patterns. In natural order, once each.

    In folders that are `growing`, links that lead nowhere yet and pipes are passed over.
    """
    found: list[Path] = []
    for path in paths:
        place = Path(path)
        if place.is_dir():
            some = sorted(_inside(place, growing), key=natural_order)
        elif has_magic(str(path)) and not os.path.lexists(place):
            some = sorted(_matches(str(path), growing), key=natural_order)
        else:
            some = [_checked(place)]
        if not some:
            raise InputError("no log in this folder" if place.is_dir() else "no such file or folder", path=path)
        found += some
    return once(found)


def _matches(pattern: str, growing: bool) -> Iterator[Path]:
    for place in map(Path, glob(pattern)):  # noqa: PTH207
        if place.is_dir():
            yield from _inside(place, growing)
        elif place.is_file() or not growing:
            yield _checked(place)


def _inside(folder: Path, growing: bool) -> Iterator[Path]:
    """The files of a folder and of those in it; a link that leads back is not followed again."""
    seen = {os.path.realpath(folder)}
    for place, folders, files in os.walk(folder, onerror=_cannot_be_read, followlinks=True):
        inside = [Path(place, name) for name in folders if not name.startswith(HIDDEN)]
        new = [each for each in inside if os.path.realpath(each) not in seen]
        seen.update(map(os.path.realpath, new))
        folders[:] = [each.name for each in new]
        for name in files:
            file = Path(place, name)
            if not name.startswith(HIDDEN) and (file.is_file() or not growing):
                yield _checked(file)


def _cannot_be_read(error: OSError) -> NoReturn:
    raise InputError(f"cannot be read: {error.strerror}", path=error.filename) from None


def _checked(file: Path) -> Path:
    if (name := os.fsencode(file).decode(errors="replace")) != str(file):  # no report could name it
        raise InputError("the name of the file is not UTF-8; give it another", path=name)
    if not os.path.lexists(file):
        raise InputError("no such file or folder", path=file)
    if not file.exists():
        raise InputError(f"a broken symbolic link, to {file.readlink()}", path=file)
    if not file.is_file():
        raise InputError("a pipe or a device, which cannot be read twice; write it to a file first", path=file)
    return file


def spare(files: Iterable[Path | str], *targets: Path | None) -> None:
    """Refuse to write over a file of the log."""
    for target in targets:
        if target is not None and target.exists() and any(target.samefile(file) for file in files):
            raise OutputError("is a file of the log; give what is written another name", path=target)


def once(files: Iterable[Path]) -> list[Path]:
    """The files without those that are there under another name already."""
    found: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        found.setdefault((status.st_dev, status.st_ino), file)
    return list(found.values())


def natural_order(file: Path) -> list[tuple[int, str]]:
    """A key that puts `part-9` before `part-10`: the order of the files may be that of events."""
    pieces = re.split(r"(\d+)", str(file))
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


def compression_of(file: Path) -> str | None:
    """How a file is compressed, by its first bytes; None if it is not."""
    with file.open("rb") as stream:
        magic = stream.read(6)
    return next((kind for start, kind in _MAGIC.items() if magic.startswith(start)), None)


def encoding_of(start: bytes) -> str | None:
    """The encoding that the mark at the beginning of a file names, if it is not UTF-8."""
    return next((encoding for bom, encoding in _BOMS.items() if start.startswith(bom)), None)


def open_file(file: Path) -> IO[bytes]:
    """A file as bytes, decompressed if its first bytes say that it is compressed."""
    kind = compression_of(file)
    if kind == "gzip":
        return cast("IO[bytes]", io.BufferedReader(gzip.open(file), _BUFFER))
    if kind == "bzip2":
        return cast("IO[bytes]", io.BufferedReader(_Streams(file, bz2.BZ2Decompressor), _BUFFER))
    if kind == "xz":
        return cast("IO[bytes]", io.BufferedReader(_Streams(file, lzma.LZMADecompressor), _BUFFER))
    if kind == "zstd":
        import pyarrow as pa

        stream = pa.CompressedInputStream(pa.OSFile(str(file)), "zstd")
        return cast("IO[bytes]", io.BufferedReader(stream, _BUFFER))
    return file.open("rb", _BUFFER)


class _Streams(io.RawIOBase):
    """A file of compressed streams one after the other, and nothing else."""

    def __init__(self, file: Path, new: type[bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> None:
        self._file = file.open("rb")
        self._new = new
        self._stream = new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._stream.eof:
                rest = self._stream.unused_data or self._file.read(_BUFFER)
                if not rest:
                    return 0
                self._stream = self._new()
            else:
                rest = self._file.read(_BUFFER) if self._stream.needs_input else b""
                if not rest and self._stream.needs_input:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            data = self._stream.decompress(rest, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
