"""Rows that come and go, for compiled kernels: a row is taken, linked with others, and given back.

What the columns mean is their user's business; the first one is free to use while a row is taken, and links the
free rows otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Longs

_FREE, _USED, TAKEN = range(3)
"""Columns of the first row, which is never taken: the first row that was used and is free again, or -1; rows never
used from here on; how many are taken."""


class Pool(NamedTuple):
    of: Longs


def make_pool(room: int, columns: int) -> Pool:
    pool = Pool(np.empty((room + 1, columns), np.int64))
    pool.of[0, _FREE], pool.of[0, _USED], pool.of[0, TAKEN] = -1, 1, 0
    return pool


def roomier_pool(pool: Pool) -> Pool:
    more = np.empty((2 * len(pool.of), pool.of.shape[1]), np.int64)
    more[: len(pool.of)] = pool.of
    return Pool(more)


@part
def left_in(pool: Pool) -> Whole:
    """How many rows can be taken."""
    return len(pool.of) - 1 - pool.of[0, TAKEN]


@part
def take_row(pool: Pool) -> Whole:
    """Take a free row. There must be one."""
    of = pool.of
    row = of[0, _FREE]
    if row < 0:
        row = of[0, _USED]
        of[0, _USED] += 1
    else:
        of[0, _FREE] = of[row, 0]
    of[0, TAKEN] += 1
    return row


@part
def give_back(pool: Pool, row: Whole) -> None:
    of = pool.of
    of[row, 0] = of[0, _FREE]
    of[0, _FREE] = row
    of[0, TAKEN] -= 1
