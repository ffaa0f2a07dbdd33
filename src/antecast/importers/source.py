"""The files of a foreign log, opened: many of them, compressed or not, with the place of every line.

What is promised to importers:
- A line is UTF-8 text without NUL bytes. Anything else raises `InputError` with the file and the line.
- Memory is bounded by the longest line that is accepted (`Options.max_line`), whatever the file holds.
- gzip, bzip2, xz and zstd are known by their first bytes, not by the name of the file. A stream that is cut short
  is an error, never the end of the log.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from antecast.core.errors import InputError
from antecast.core.log_files import encoding_of, open_file
from antecast.text.sizes import format_size

MAX_LINE = 64 << 20
"""Bytes of the longest line that is accepted: far more than a record takes, far less than memory."""

HEAD_BYTES = 64 << 10
"""How much of a file is looked at to recognise its format."""

_CHUNK = 1 << 20


class Place(NamedTuple):
    """Where a record stands; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def error(self, problem: str) -> InputError:
        """The one error of importers: what is wrong, and where."""
        return InputError(in_a_line(problem), path=self.file, line=self.line)


@dataclass(frozen=True)
class Options:
    """What a person may say about the files."""

    max_line: int = MAX_LINE
    regex: str | None = None
    """The layout of an event, with the groups `host`, `clock` and `event`."""
    delimiter: str | None = None
    """What separates the executions of a file."""
    skip_unmatched: bool = False
    """Leave out lines that are no part of an event, instead of refusing the file."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What the log calls its columns."""


@dataclass(frozen=True)
class Head:
    """The beginning of a file, decompressed: what a format is recognised by."""

    name: str
    data: bytes
    whole: bool
    """Whether this is all of the file."""

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", errors="replace")

    @cached_property
    def lines(self) -> list[str]:
        """The lines that are not blank, without the one that the end of the head cuts."""
        lines = self.text.splitlines()
        if not self.whole and len(lines) > 1:
            lines.pop()
        return [line for line in lines if line.strip()]


@dataclass(frozen=True)
class Source:
    """The files of one log, in the order in which they are read."""

    files: tuple[Path, ...]
    options: Options = Options()

    def head(self, file: Path) -> Head:
        """The beginning of a file; what cannot be decompressed is an error here already."""
        try:
            with _told(file, lambda: 1), open_file(file) as stream:
                data = stream.read(HEAD_BYTES)
                whole = len(data) < HEAD_BYTES or not stream.read(1)
        except InputError:
            deque(self.raw_lines(file), maxlen=0)  # says at which line
            raise
        return Head(str(file), data, whole)

    def lines(self) -> Iterator[tuple[Place, str]]:
        """Every line of every file without its end, and where it stands. Blank lines are included."""
        for file in self.files:
            yield from self.lines_of(file)

    def lines_of(self, file: Path) -> Iterator[tuple[Place, str]]:
        name = str(file)
        for number, raw in self.raw_lines(file):
            yield Place(name, number), decoded(name, number, raw)

    def text_of(self, file: Path) -> tuple[str, int]:
        """The lines of a file as one text, and the number of the first."""
        first, texts = 1, list[str]()
        for place, text in self.lines_of(file):
            first = first if texts else place.line
            texts.append(text)
        return "\n".join(texts), first

    def raw_lines(self, file: Path) -> Iterator[tuple[int, bytes]]:
        """Lines as they stand in the file, numbered from 1; only their length is checked."""
        most, number = self.options.max_line, 0
        with _told(file, lambda: number + 1), open_file(file) as stream:
            while raw := stream.readline(most + 2):
                number += 1
                if len(raw) > most and len(raw.rstrip(b"\r\n")) > most:
                    raise Place(str(file), number).error(f"the line is longer than {format_size(most)}")
                yield number, raw

    def documents(self, *, text: bool = True) -> Iterator[tuple[Path, bytes]]:
        """Every file as a whole, for formats that are one value per file. Lines of text are bounded here, too."""
        most = self.options.max_line
        for file in self.files:
            parts, length = [], 0
            with _told(file, lambda: 1), open_file(file) as stream:
                while part := stream.read(_CHUNK):
                    parts.append(part)
                    length = length + len(part) if b"\n" not in part else len(part) - part.rindex(b"\n") - 1
                    if text and length > most:
                        line = sum(each.count(b"\n") for each in parts) + 1
                        raise Place(str(file), line).error(f"the line is longer than {format_size(most)}")
            yield file, b"".join(parts)


def decoded(name: str, number: int, raw: bytes) -> str:
    """A line as text, without its end."""
    if number == 1:
        if encoding := encoding_of(raw):
            raise Place(name, 1).error(f"the file is {encoding}; UTF-8 is expected")
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Place(name, number).error(f"not UTF-8: byte 0x{raw[error.start]:02x}") from None
    if "\0" in line:
        raise Place(name, number).error("a NUL byte in the text")
    return line.rstrip("\r\n")


@contextmanager
def _told(file: Path, line: Any) -> Iterator[None]:
    """Say of a file what is wrong with it, in place of what the system or a decompressor says."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        _refuse(file, line(), f"the compressed stream is cut short or damaged: {error}")
    except OSError as error:
        if error.strerror:
            raise InputError(f"cannot be read: {error.strerror}", path=file) from None
        _refuse(file, line(), f"the compressed stream is cut short or damaged: {error}")


def _refuse(file: Path, line: int, problem: str) -> NoReturn:
    raise Place(str(file), line).error(problem) from None


def in_a_line(text: str, most: int = 1000) -> str:
    """Text from a file as part of a message."""
    line = text.replace("\r", "\\r").replace("\n", "\\n")
    return line if len(line) <= most else f"{line[: most - 3]}..."
