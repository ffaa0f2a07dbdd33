"""What a trace is, once read, and what a format is: the contract between readers, writers and their users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from antecast.core.settings import parse_duration

Kind: TypeAlias = Literal["contacts", "movement"]
Option: TypeAlias = Callable[[object], object]
"""Turns an option's text into its value, or raises ValueError saying what was expected."""


@dataclass(frozen=True, eq=False)
class Trace:
    """Contacts or movement, by the schemas of `antecast.traces.schema`."""

    kind: Kind
    table: pa.Table
    format: str
    """The name of the format it was read from."""
    notes: tuple[str, ...] = ()
    """What was joined, ignored or assumed on the way, in words for the user."""

    @property
    def nodes(self) -> int:
        """How many nodes have a contact or a place."""
        columns = ("a", "b") if self.kind == "contacts" else ("node",)
        chunks = [chunk for name in columns for chunk in self.table[name].cast(pa.string()).chunks]
        return len(pc.unique(pa.chunked_array(chunks, pa.string())))

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last nanosecond in it."""
        start, end = ("start", "end") if self.kind == "contacts" else ("t0", "t1")
        if not len(self.table):
            return 0, 0
        return pc.min(self.table[start]).as_py(), pc.max(self.table[end]).as_py()


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format of traces."""

    name: str
    title: str
    holds: tuple[Kind, ...]
    score: Callable[[Sequence[str]], float]
    """The share of lines that it could have written; comments and empty lines are left out of them."""
    read: Callable[..., Trace]
    """From a `Text`, or from a path if the format is binary."""
    write: Callable[..., tuple[str, ...]]
    """A table to an open file; returns notes on what is lost."""
    suffixes: tuple[str, ...]
    """Parts of a file's name that ask for it, without dots."""
    reading: Mapping[str, Option] = field(default_factory=dict)
    """Options of `read`."""
    writing: Mapping[str, Option] = field(default_factory=dict)
    """Options of `write`."""
    binary: bool = False


def share(lines: Sequence[str], fits: Callable[[list[str]], bool]) -> float:
    """The share of lines whose words fit."""
    return sum(fits(line.split()) for line in lines) / len(lines)


def words_of(lines: Sequence[str]) -> list[list[str]]:
    """The words of lines in which commas and semicolons may separate them, without a first line of names only."""
    words = [line.replace(",", " ").replace(";", " ").split() for line in lines]
    named = len(words) > 1 and not any(character.isdecimal() for word in words[0] for character in word)
    return words[1:] if named else words


def duration(value: object) -> int:
    """An option that is a length of time: nanoseconds, or text with a unit."""
    ns = value if isinstance(value, int) else parse_duration(value)
    if ns <= 0:
        raise ValueError(f"expected a duration above zero, got {value!r}")
    return ns


def one_of(*choices: object) -> Option:
    """An option that is one of a few values."""

    def choose(value: object) -> object:
        for choice in choices:
            if str(value) == str(choice):
                return choice
        raise ValueError(f"expected {' or '.join(map(str, choices))}, got {value!r}")

    return choose
