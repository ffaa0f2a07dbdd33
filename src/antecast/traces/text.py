"""Text as traces come: plain or compressed, in lines of words, with the line numbers that errors need.

Compression is told by a file's first bytes, never by its name. Words are split and turned into numbers by
Arrow, a whole column at a time; only when a column does not convert is it searched for the word at fault, so
that a million lines take about a second and an error still names its line. Times become whole nanoseconds
without passing through binary fractions.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.errors import InputError

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
Fail: TypeAlias = Callable[[int, str], NoReturn]
"""Raises the error of a row: its index in the column and what is wrong with it."""

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
SECOND = 10**9
LATEST = 2**62
"""The last nanosecond a trace may name (146 years): sums of two times stay within 64 bits."""

_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
_SHOWN = 80
"""Characters of a line that an error shows."""


def load(path: Path | str, limit: int = -1) -> bytes:
    """A file's content, or its first `limit` bytes, decompressed if need be."""
    path = Path(path)
    packing = None
    try:
        with path.open("rb") as file:
            start = file.read(6)
            file.seek(0)
            packing = next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)
            data: bytes = _unpacked(file, packing, path).read(limit)
            return data
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        raise InputError(f"the {packing} data is damaged or cut short: {error}", path=path) from error
    except OSError as error:
        if packing and not error.errno:
            raise InputError(f"the {packing} data is damaged or cut short: {error}", path=path) from error
        raise InputError(f"cannot read: {_reason(error)}", path=path) from error


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _unpacked(file: BinaryIO, packing: str | None, path: Path) -> Any:
    match packing:
        case "gzip":
            return gzip.open(file)
        case "bzip2":
            return bz2.open(file)
        case "xz":
            return lzma.open(file)
        case "zstd":
            stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
            return io.BufferedReader(stream)
        case "zip":
            archive = zipfile.ZipFile(file)
            members = [each for each in archive.infolist() if not each.is_dir()]
            if len(members) != 1:
                raise InputError(f"a zip archive of {len(members)} files; a trace is one file", path=path)
            return archive.open(members[0])
        case _:
            return file


@dataclass(frozen=True)
class Text:
    """The content of a text file, and where it is from."""

    path: Path | str
    content: str

    @classmethod
    def open(cls, path: Path | str) -> Text:
        return cls.decode(path, load(path))

    @classmethod
    def decode(cls, path: Path | str, data: bytes, *, cut: bool = False) -> Text:
        """Text from bytes; `cut` says that these are only the first ones, which may end inside a line."""
        if cut and b"\n" in data:
            data = data[: data.rindex(b"\n") + 1]
        if (zero := data.find(b"\0")) >= 0:
            raise InputError("a binary file, not text", path=path, line=data.count(b"\n", 0, zero) + 1)
        try:
            content = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            if cut and error.end >= len(data) - 3:
                content = data.decode("utf-8-sig", errors="ignore")
            else:
                line = data.count(b"\n", 0, error.start) + 1
                byte = f"0x{data[error.start]:02x}"
                raise InputError(f"not UTF-8 text (byte {byte}); save it as UTF-8", path=path, line=line) from None
        if "\r" in content:
            content = content.replace("\r\n", "\n").replace("\r", "\n")
        return cls(path, content)

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        raise InputError(problem, path=self.path, line=line)

    @cached_property
    def lines(self) -> pa.Array:
        """Every line, without comments (`#`) and without blanks at its ends."""
        whole = pa.array([self.content], pa.large_string())
        lines = pc.split_pattern(whole, "\n").flatten()
        if "#" in self.content:
            lines = pc.replace_substring_regex(lines, "#.*", "")
        return pc.ascii_trim_whitespace(lines)

    def line(self, number: int) -> str:
        """A line as it is in the file, shortened for an error."""
        shown = self.content.split("\n", number)[number - 1].strip()
        return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"

    def full(self) -> BoolArray:
        """Which lines say something; at least one must."""
        full: BoolArray = np.asarray(pc.not_equal(self.lines, "")).astype(bool)
        if not full.any():
            self.fail("empty: there is no trace in it" if self.content.strip() else "an empty file")
        return full

    def rows(self, grammar: str, *, marks: bool = False) -> Rows:
        """The lines that say something, as words; `grammar` is what an error says was expected. With `marks`,
        commas and semicolons separate words too."""
        full = self.full()
        lines = self.lines.filter(pa.array(full))
        if marks and ("," in self.content or ";" in self.content):
            lines = pc.ascii_trim_whitespace(pc.replace_substring_regex(lines, "[,;]", " "))
        return Rows(self, grammar, pc.ascii_split_whitespace(lines), np.flatnonzero(full) + 1)


class Rows:
    """Lines of words, of which each column can be had as text, times or numbers."""

    def __init__(self, text: Text, grammar: str, words: pa.Array, lines: IntArray) -> None:
        self.text = text
        self.grammar = grammar
        self.words = words
        self.lines = lines
        self.lengths: IntArray = np.asarray(pc.list_value_length(words)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.lines)

    def keep(self, mask: BoolArray) -> Rows:
        return (
            self
            if mask.all()
            else Rows(self.text, self.grammar, self.words.filter(pa.array(mask)), self.lines[mask])
        )

    def header(self) -> list[str]:
        """The words of the first row, if there are others and it holds no number: the names of columns."""
        first: list[str] = self.words[0].as_py()
        return first if len(self) > 1 and not any(NUMBER.fullmatch(word) for word in first) else []

    def without_header(self) -> Rows:
        return Rows(self.text, self.grammar, self.words[1:], self.lines[1:]) if self.header() else self

    def expect(self, *lengths: int) -> None:
        """Refuse rows that have another number of words."""
        self.refuse(~np.isin(self.lengths, lengths))

    def refuse(self, wrong: BoolArray) -> None:
        """Refuse the first row that is wrong, and say what was expected of it."""
        if wrong.any():
            self.mismatch(int(np.argmax(wrong)))

    def mismatch(self, row: int) -> NoReturn:
        line = int(self.lines[row])
        self.text.fail(f'expected "{self.grammar}", got "{self.text.line(line)}"', line)

    def fail(self, row: int, problem: str) -> NoReturn:
        self.text.fail(problem, int(self.lines[row]))

    def word(self, column: int) -> pa.Array:
        """The words of a column; empty text where a row ends before it."""
        starts = np.asarray(self.words.offsets).astype(np.int64)[:-1] + column
        places = pa.array(starts, mask=self.lengths <= column)
        return pc.fill_null(self.words.values.take(places), "")

    def time(self, column: int) -> IntArray:
        return times(self.word(column), self.fail)

    def number(self, column: int) -> FloatArray:
        return numbers(self.word(column), self.fail)


def times(words: pa.Array, fail: Fail) -> IntArray:
    """Nanoseconds from seconds in decimal notation, exact; more than nine decimals are rounded to even."""
    try:
        unscaled = np.frombuffer(words.cast(pa.decimal128(28, 9)).buffers()[1], np.int64)
        low, high = unscaled[0::2].copy(), unscaled[1::2]
        fits = bool(np.all(high == 0) and np.all((low >= 0) & (low <= LATEST)))
    except (pa.ArrowInvalid, IndexError):
        fits = False
    return low if fits else _times_one_by_one(words.to_pylist(), fail)


def _times_one_by_one(words: Sequence[str], fail: Fail) -> IntArray:
    found = np.empty(len(words), np.int64)
    with localcontext() as context:
        context.prec = 60
        for row, word in enumerate(words):
            if not NUMBER.fullmatch(word):
                fail(row, f'expected a time in seconds, got "{word}"')
            value = Decimal(word)
            if value < 0:
                fail(row, f'expected a time of zero or more, got "{word}"')
            if value.adjusted() > 11 or value * SECOND > LATEST:
                fail(row, f'expected a time in seconds, got "{word}", which is more than 146 years')
            found[row] = int((value * SECOND).to_integral_value())
    return found


def numbers(words: pa.Array, fail: Fail) -> FloatArray:
    """Finite numbers."""
    try:
        found: FloatArray = np.asarray(words.cast(pa.float64()))
        if np.isfinite(found).all():
            return found
    except pa.ArrowInvalid:
        pass
    for row, word in enumerate(words.to_pylist()):
        if not NUMBER.fullmatch(word) or not np.isfinite(float(word)):
            fail(row, f'expected a number, got "{word}"')
    return np.array([float(word) for word in words.to_pylist()])
