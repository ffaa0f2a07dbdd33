"""A hash table for compiled kernels: from a key of 63 bits to two numbers.

Open addressing with linear probing. An entry that is removed leaves no mark: those behind it move up. So the table
stays as quick as it is full, however often entries come and go.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import compiled, part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Ints, Longs

_EMPTY = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Table(NamedTuple):
    key: Longs
    """As long as a power of two; -1 where there is no entry."""
    value: Ints
    """Two numbers for each, in memory beside its key: they come from there together."""
    at: Longs
    """The number of entries, and the bits to shift a hash by."""


def make_table(room: int) -> Table:
    """A table with places for so many entries, and as many again to keep it quick."""
    bits = max(4, (2 * room - 1).bit_length())
    both = np.full((1 << bits, 2), _EMPTY, np.int64)
    return Table(both[:, 0], both.view(np.int32)[:, 2:], np.array([0, 64 - bits]))


def roomier_table(table: Table) -> Table:
    more = make_table(len(table.key))
    _fill(more, table)
    return more


@compiled
def _fill(more: Table, table: Table) -> None:
    for place in range(len(table.key)):
        if table.key[place] != _EMPTY:
            enter(more, table.key[place], table.value[place, 0], table.value[place, 1])


@part
def _home(at: Longs, key: Whole) -> Whole:
    return np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(at[1]))


@part
def _place(keys: Longs, at: Longs, key: Whole) -> Whole:
    """Where a key is, or where it would go."""
    mask = len(keys) - 1
    place = _home(at, key)
    while keys[place] != _EMPTY and keys[place] != key:
        place = (place + 1) & mask
    return place


@part
def find(table: Table, key: Whole) -> Whole:
    """The place of a key, or -1."""
    place = _place(table.key, table.at, key)
    return place if table.key[place] == key else np.int64(-1)


@part
def enter(table: Table, key: Whole, one: Whole, other: Whole) -> None:
    """Add a key that is not there yet."""
    place = _place(table.key, table.at, key)
    table.key[place] = key
    table.value[place, 0], table.value[place, 1] = one, other
    table.at[0] += 1


@part
def remove(table: Table, place: Whole) -> None:
    """Take out the entry at a place."""
    keys, mask = table.key, len(table.key) - 1
    table.at[0] -= 1
    gap, at = place, place
    while True:
        at = (at + 1) & mask
        if keys[at] == _EMPTY:
            break
        home = _home(table.at, keys[at])
        if ((at - home) & mask) >= ((at - gap) & mask):  # its home is not behind the gap: it may move there
            keys[gap] = keys[at]
            table.value[gap, 0], table.value[gap, 1] = table.value[at, 0], table.value[at, 1]
            gap = at
    keys[gap] = _EMPTY
