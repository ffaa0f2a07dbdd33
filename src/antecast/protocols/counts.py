"""Counts of messages by source, built for looking them up.

How many messages of a source were delivered is looked up for every entry of every stamp, far more often than
anything else in a causal ordering. While the numbers of the sources lie close together the counts are a list by
number, which takes a quarter of the memory of a map and one access per look-up; otherwise they are a map. Both
answer `table[source]`; a list that ends before a source raises `IndexError`, and `make_room` helps.
"""

from collections.abc import Iterable
from typing import TypeAlias

from antecast.core import NodeId

_SPREAD, _FEW = 16, 256
"""Sources lie close together while the largest number is below this many times their count, plus a constant."""


class Sparse(dict[NodeId, int]):
    """Counts by source, zero for all others."""

    def __missing__(self, source: NodeId) -> int:
        return 0


Table: TypeAlias = list[int] | Sparse


class Counts:
    """A count for each source, zero at first."""

    __slots__ = ("sources", "table")

    def __init__(self) -> None:
        self.table: Table = []
        """For the inner loops, which look up and set counts without a call; see `make_room`."""
        self.sources = 0
        """How many sources have a count that is not zero."""

    def items(self) -> Iterable[tuple[NodeId, int]]:
        """The sources whose count is not zero, and their counts."""
        table = self.table
        return table.items() if isinstance(table, dict) else (each for each in enumerate(table) if each[1])

    def get(self, source: NodeId) -> int:
        table = self.table
        return table[source] if isinstance(table, dict) or source < len(table) else 0

    def set(self, source: NodeId, count: int) -> None:
        if not count:
            return
        table = self.table
        if isinstance(table, list) and source >= len(table):
            table = self.make_room(source)
        self.sources += not table[source]
        table[source] = count

    def make_room(self, source: NodeId, others: Iterable[NodeId] = ()) -> Table:
        """The table, in the form that fits, with a place for a source; `others` are sources without a count that
        will be looked up."""
        table, few = self.table, _FEW + _SPREAD * self.sources
        if isinstance(table, list):
            if source >= len(table):
                if source < few:
                    table += [0] * ((1 << source.bit_length()) - len(table))
                else:
                    self.table = Sparse(self.items())
        elif not len(table) & (len(table) - 1) and max([source, *table, *others]) < few:
            # Checked when the number of sources is a power of two: now and then is enough.
            self.table = [table[number] for number in range(few)]
        return self.table
