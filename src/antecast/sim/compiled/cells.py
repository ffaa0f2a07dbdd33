"""Cells for compiled kernels: lists of any length in one array.

A cell is a row of two numbers and the row of the next cell, -1 at the end. A list is known by its first cell, and
by its last one where it grows at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Longs
from antecast.sim.compiled.table import Table, enter, find, remove

NEXT = 2
"""The column of the next cell."""

_FREE, _USED, IN_USE = range(3)
"""Places in `Cells.at`: the first cell that was used and is free again, cells never used from here on, how many
are in use."""


class Cells(NamedTuple):
    of: Longs
    at: Longs


def make_cells(room: int) -> Cells:
    return Cells(np.empty((room, 3), np.int64), np.array([-1, 0, 0]))


def roomier_cells(cells: Cells) -> Cells:
    more = np.empty((2 * len(cells.of), 3), np.int64)
    more[: len(cells.of)] = cells.of
    return Cells(more, cells.at)


@part
def new_cell(cells: Cells, one: Whole, other: Whole, following: Whole) -> Whole:
    """Take a free cell. There must be one."""
    cell = cells.at[_FREE]
    if cell < 0:
        cell = cells.at[_USED]
        cells.at[_USED] += 1
    else:
        cells.at[_FREE] = cells.of[cell, NEXT]
    cells.at[IN_USE] += 1
    cells.of[cell, 0], cells.of[cell, 1], cells.of[cell, NEXT] = one, other, following
    return cell


@part
def free_cell(cells: Cells, cell: Whole) -> Whole:
    """Give a cell back; the one that followed it."""
    following = cells.of[cell, NEXT]
    cells.of[cell, NEXT] = cells.at[_FREE]
    cells.at[_FREE] = cell
    cells.at[IN_USE] -= 1
    return following


@part
def wait_under(table: Table, cells: Cells, key: Whole, cell: Whole) -> None:
    """Put a cell at the end of the list that a table has under a key."""
    cells.of[cell, NEXT] = -1
    place = find(table, key)
    if place < 0:
        enter(table, key, cell, cell)
    else:
        cells.of[table.value[place, 1], NEXT] = cell
        table.value[place, 1] = cell


@part
def take_from_under(table: Table, key: Whole) -> Whole:
    """Remove the list under a key from a table; its first cell, or -1."""
    place = find(table, key)
    if place < 0:
        return np.int64(-1)
    first = np.int64(table.value[place, 0])
    remove(table, place)
    return first
