"""How writers spell times, numbers and the names of nodes, and how they see a table.

Times are written in seconds with as many decimals as they need, coordinates so that they read back as the
same floating-point number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import pyarrow as pa

from antecast.traces.assemble import counted, encode
from antecast.traces.text import SECOND, FloatArray, IntArray


def seconds(ns: int) -> str:
    """Seconds, exact and short.

    >>> seconds(1_500_000_000), seconds(20_000_000_000), seconds(1)
    ('1.5', '20', '0.000000001')
    """
    whole, rest = divmod(ns, SECOND)
    return f"{whole}.{rest:09d}".rstrip("0") if rest else str(whole)


def spelled(ns: IntArray) -> list[str]:
    return [seconds(each) for each in ns.tolist()]


def plain(values: FloatArray) -> list[str]:
    """Numbers without an exponent, which not every program reads.

    >>> plain(np.array([816.9, 1e-7, 3.0]))
    ['816.9', '0.0000001', '3.0']
    """
    return [np.format_float_positional(each, trim="0") if each else "0.0" for each in values.tolist()]


def integer_names(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names for a format that knows only whole numbers: kept if they are, or else numbered from 0."""
    if all(re.fullmatch(r"0|[1-9]\d*", name, re.ASCII) for name in names):
        return list(names), ()
    return _numbered(names, "the format has numbers only")


def counting_names(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names for a format in which a node is its place in the file, from 0."""
    counted_names = [str(index) for index in range(len(names))]
    return (counted_names, ()) if list(names) == counted_names else _numbered(names, "a node is its line")


def word_names(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names for a format of words: kept if they are single words, or else numbered from 0."""
    if all(re.fullmatch(r"[^\s#]+", name) for name in names):
        return list(names), ()
    return _numbered(names, "the format has single words only")


def _numbered(names: Sequence[str], why: str) -> tuple[list[str], tuple[str, ...]]:
    note = f"nodes are numbered from 0 in the order of their names: {why}"
    return [str(index) for index in range(len(names))], (note,)


def put(file: TextIO, lines: Iterable[str]) -> None:
    file.writelines(f"{line}\n" for line in lines)


def legend(names: Sequence[str], written: Sequence[str]) -> Iterable[str]:
    """Comments that tell numbered nodes' names."""
    if list(names) != list(written):
        yield from (
            f"# node {number} is {' '.join(name.split())}" for name, number in zip(names, written, strict=True)
        )


@dataclass(frozen=True)
class Contacts:
    """A table of contacts as arrays."""

    names: list[str]
    a: IntArray
    b: IntArray
    start: IntArray
    end: IntArray

    @classmethod
    def of(cls, table: pa.Table) -> Contacts:
        names, (a, b) = encode(table["a"], table["b"])
        return cls(names, a, b, table["start"].to_numpy(), table["end"].to_numpy())


@dataclass(frozen=True)
class Pieces:
    """A table of trajectories as arrays, ordered by node and time."""

    names: list[str]
    node: IntArray
    t0: IntArray
    x0: FloatArray
    y0: FloatArray
    t1: IntArray
    x1: FloatArray
    y1: FloatArray

    @classmethod
    def of(cls, table: pa.Table) -> Pieces:
        names, (node,) = encode(table["node"])
        columns = [table[name].to_numpy() for name in ("t0", "x0", "y0", "t1", "x1", "y1")]
        order = np.lexsort((columns[0], node))
        return cls(names, node[order], *(column[order] for column in columns))

    def _follows(self) -> tuple[IntArray, IntArray]:
        """For each piece whether it begins when, and whether it begins where, the node's piece before it ended."""
        same = np.zeros(len(self.node), bool)
        same[1:] = self.node[1:] == self.node[:-1]
        when = same & (self.t0 == np.roll(self.t1, 1))
        where = same & (self.x0 == np.roll(self.x1, 1)) & (self.y0 == np.roll(self.y1, 1))
        return when, where

    def appears(self) -> IntArray:
        """The pieces with which a node appears, or jumps."""
        when, where = self._follows()
        return np.flatnonzero(~(when & where))

    def vanishes(self) -> IntArray:
        """The pieces after which a node is away, or jumps."""
        return np.append(self.appears()[1:], len(self.node)) - 1 if len(self.node) else self.appears()

    def absences(self) -> int:
        """How often a node is away between two of its pieces."""
        when, _ = self._follows()
        return len(self.node) - len(self.names) - int(when.sum())

    def speed(self) -> FloatArray:
        way = np.hypot(self.x1 - self.x0, self.y1 - self.y0)
        return way / ((self.t1 - self.t0) / SECOND)

    def points(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
        """The places a node passes, by node and time: where it appears, and where each piece ends."""
        first = self.appears()
        rank = np.concatenate([2 * first, 2 * np.arange(len(self.node)) + 1])
        order = np.argsort(rank)
        columns = ((self.node, self.node), (self.t0, self.t1), (self.x0, self.x1), (self.y0, self.y1))
        node, t, x, y = (np.concatenate([starts[first], ends])[order] for starts, ends in columns)
        return node, t, x, y

    def absence_notes(self, instead: str = "as a straight line") -> tuple[str, ...]:
        """What is lost where a format cannot say that a node is away."""
        lost = f"of a node written {instead}: the format has no word for it"
        return counted([(self.absences(), f"absence {lost}", f"absences {lost}")])
