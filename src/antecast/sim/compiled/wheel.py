"""Events that are far ahead, for compiled kernels: a timing wheel (Varghese and Lauck, "Hashed and hierarchical
timing wheels") on times as they are, in nanoseconds.

A heap of a million events costs a look at distant memory at each step down. So only the next few events lie in
a heap (`queue`), those up to a time `until`. The others lie here unsorted, in *slots*: a time is a number of
eleven digits of six bits each; the slot of an event is named by the highest digit in which its time differs from
`until`, and by what that digit is. Events come closer slot by slot: the next one goes into the heap as a whole if
it has few events; if it has many, they are first spread over the slots of the digit below.

A slot is a list of blocks, each filled before the next one is taken: events are written and read in a row.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]

BLOCK: Final = 64
"""Events in a block."""

DIGIT: Final = 6
"""Bits of a digit."""

DIGITS: Final = 11
SLOTS: Final = DIGITS << DIGIT

_LAST_DIGIT: Final = (1 << DIGIT) - 1
_ZERO, _ONE = np.uint64(0), np.uint64(1)

TIME, SEQUENCE = range(2)
"""Columns of `Wheel.when`: when an event is due, and how many were scheduled before it."""

_LAST, _FILLED = range(2)
"""Columns of `Wheel.slots`: the block that was begun last, or -1, and the events in it."""

_FREE, _USED, LEFT = range(3)
"""Places in `Wheel.at`: the first block that was used and is free again, or -1; blocks never used from here on;
how many can be taken."""


class Wheel(NamedTuple):
    when: Longs
    """A row for each event: block b has the rows from b · `BLOCK` on."""
    what: Ints
    """What it is: its engine's business."""
    before: Ints
    """For each block the one that was begun before it in its slot, or the next free one; -1 for none."""
    slots: Ints
    counts: Longs
    """How many events each slot has."""
    occupied: NDArray[np.uint64]
    """For each digit, the slots that have any, as bits."""
    at: Longs


def make_wheel(blocks: int, columns: int) -> Wheel:
    slots = np.zeros((SLOTS, 2), np.int32)
    slots[:, _LAST] = -1
    return Wheel(
        np.empty((blocks * BLOCK, 2), np.int64), np.empty((blocks * BLOCK, columns), np.int32),
        np.empty(blocks, np.int32), slots, np.zeros(SLOTS, np.int64), np.zeros(DIGITS, np.uint64),
        np.array([-1, 0, blocks]),
    )  # fmt: skip


def roomier_wheel(wheel: Wheel) -> Wheel:
    """The same events, with room for twice as many blocks."""
    blocks, rows = len(wheel.before), int(wheel.at[_USED]) * BLOCK
    more = make_wheel(2 * blocks, wheel.what.shape[1])
    more.when[:rows], more.what[:rows] = wheel.when[:rows], wheel.what[:rows]
    more.before[:blocks] = wheel.before
    wheel.at[LEFT] += blocks
    return wheel._replace(when=more.when, what=more.what, before=more.before)


@part
def row_in(wheel: Wheel, slot: Whole) -> Whole:
    """One event more in a slot; its row. There must be a block for it."""
    slots, at = wheel.slots, wheel.at
    block = np.int64(slots[slot, _LAST])
    if block < 0 or slots[slot, _FILLED] == BLOCK:
        new = at[_FREE]
        if new < 0:
            new = at[_USED]
            at[_USED] += 1
        else:
            at[_FREE] = wheel.before[new]
        at[LEFT] -= 1
        wheel.before[new] = block
        slots[slot, _LAST], slots[slot, _FILLED] = new, 0
        block = new
    row = block * BLOCK + slots[slot, _FILLED]
    slots[slot, _FILLED] += 1
    wheel.counts[slot] += 1
    wheel.occupied[slot >> DIGIT] |= _ONE << np.uint64(slot & _LAST_DIGIT)
    return row


@part
def put_off(wheel: Wheel, until: Whole, time: Whole, sequence: Whole) -> Whole:
    """Take in an event that is later than `until`; its row."""
    apart, digit = time ^ until, np.int64(0)
    while apart > _LAST_DIGIT:
        apart >>= DIGIT
        digit += 1
    row = row_in(wheel, (digit << DIGIT) | ((time >> DIGIT * digit) & _LAST_DIGIT))
    wheel.when[row, TIME], wheel.when[row, SEQUENCE] = time, sequence
    return row


@part
def next_slot(wheel: Wheel) -> Whole:
    """The slot of the next events: of the lowest digit, the lowest. There must be one."""
    digit, value = 0, 0
    while wheel.occupied[digit] == _ZERO:
        digit += 1
    while (wheel.occupied[digit] >> np.uint64(value)) & _ONE == _ZERO:
        value += 1
    return np.int64((digit << DIGIT) | value)


@part
def rows_of(wheel: Wheel, slot: Whole, block: Whole) -> Whole:
    """How many events there are in a block of a slot."""
    return np.int64(wheel.slots[slot, _FILLED]) if block == wheel.slots[slot, _LAST] else np.int64(BLOCK)


@part
def last_block(wheel: Wheel, slot: Whole) -> Whole:
    return np.int64(wheel.slots[slot, _LAST])


@part
def drop_block(wheel: Wheel, block: Whole) -> Whole:
    """Give back a block whose events are elsewhere now; the one before it in its slot, or -1."""
    before = np.int64(wheel.before[block])
    wheel.before[block] = wheel.at[_FREE]
    wheel.at[_FREE] = block
    wheel.at[LEFT] += 1
    return before


@part
def empty_slot(wheel: Wheel, slot: Whole) -> None:
    """All events of a slot are elsewhere now."""
    wheel.slots[slot, _LAST], wheel.slots[slot, _FILLED], wheel.counts[slot] = -1, 0, 0
    wheel.occupied[slot >> DIGIT] &= ~(_ONE << np.uint64(slot & _LAST_DIGIT))


@part
def spread(wheel: Wheel, slot: Whole) -> None:
    """Spread the events of a slot over those of the digit below. There must be a block for each of these, and one
    more."""
    digit, when, what = (slot >> DIGIT) - 1, wheel.when, wheel.what
    block = last_block(wheel, slot)
    while block >= 0:
        for each in range(block * BLOCK, block * BLOCK + rows_of(wheel, slot, block)):
            row = row_in(wheel, (digit << DIGIT) | ((when[each, TIME] >> DIGIT * digit) & _LAST_DIGIT))
            when[row, TIME], when[row, SEQUENCE] = when[each, TIME], when[each, SEQUENCE]
            for column in range(what.shape[1]):
                what[row, column] = what[each, column]
        block = drop_block(wheel, block)
    empty_slot(wheel, slot)
