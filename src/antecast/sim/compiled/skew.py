"""Many small priority queues in one pool: skew heaps (Sleator and Tarjan, "Self-adjusting heaps").

A queue is known by its root, -1 when it is empty. An entry is a row: a key, a number that breaks ties, and what it
stands for.
"""

from __future__ import annotations

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.pool import Pool, give_back, take_row

LEFT, RIGHT, KEY, TIE, WHAT = range(5)
"""Columns of an entry: its two children, its key and what breaks ties, what it stands for."""


@part
def merged(pool: Pool, one: Whole, other: Whole) -> Whole:
    """The root of two queues made one."""
    of = pool.of
    root = last = -1
    while one >= 0 and other >= 0:
        if of[other, KEY] < of[one, KEY] or (of[other, KEY] == of[one, KEY] and of[other, TIE] < of[one, TIE]):
            one, other = other, one
        if last < 0:
            root = one
        else:
            of[last, LEFT] = one
        last = one
        following = of[one, RIGHT]
        of[one, RIGHT] = of[one, LEFT]
        one = following
    rest = one if one >= 0 else other
    if last < 0:
        return rest
    of[last, LEFT] = rest
    return root


@part
def entered(pool: Pool, root: Whole, key: Whole, tie: Whole, what: Whole) -> Whole:
    """The root of a queue with one more entry. The pool must have room for it."""
    row = take_row(pool)
    of = pool.of[row]
    of[LEFT] = of[RIGHT] = -1
    of[KEY], of[TIE], of[WHAT] = key, tie, what
    return merged(pool, root, row)


@part
def without_first(pool: Pool, root: Whole) -> Whole:
    """The root of a queue without its first entry, which is the root."""
    left, right = pool.of[root, LEFT], pool.of[root, RIGHT]
    give_back(pool, root)
    return merged(pool, left, right)


@part
def clear(pool: Pool, root: Whole) -> None:
    """Give back a whole queue, in whatever order: in time that follows its entries, with nothing merged."""
    of = pool.of
    while root >= 0:
        left = of[root, LEFT]
        if left >= 0:  # turn what is on the left up, until there is nothing more
            of[root, LEFT] = of[left, RIGHT]
            of[left, RIGHT] = root
            root = left
        else:
            right = of[root, RIGHT]
            give_back(pool, root)
            root = right
