"""Sets of messages for compiled kernels: a bit for each message, in rows that are used again.

The words of a row count from its start to its end, and those outside hold nothing: what is copied and compared is
the stretch of messages that a set is about, not all that were ever made.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Ints, Longs, refill

START, END, BYTES = range(3)
"""Columns of `Sets.of`: the first word that counts and the one after the last; a number for the use of the
engine."""

_ZERO, _ONE, _U58 = np.uint64(0), np.uint64(1), np.uint64(58)
_SPREAD: Final = np.uint64(0x03F79D71B4CB0A89)
"""A de Bruijn sequence: the upper six bits of a product with a power of two tell which power it is."""
_PLACE: Final = np.zeros(64, np.int64)
for _bit in range(64):
    _PLACE[((1 << _bit) * 0x03F79D71B4CB0A89 & (1 << 64) - 1) >> 58] = _bit


class Sets(NamedTuple):
    words: NDArray[np.uint64]
    of: Ints
    free: Ints
    at: Longs
    """How many rows are free."""


def make_sets(owned: int, room: int, words: int) -> Sets:
    """So many rows that have an owner from the start, and free ones."""
    free = np.arange(owned + room - 1, owned - 1, -1).astype(np.int32)
    return Sets(
        np.zeros((owned + room, words), np.uint64), np.zeros((owned + room, 3), np.int32),
        np.concatenate([free, np.zeros(owned, np.int32)]), np.array([room]),
    )  # fmt: skip


def roomier_sets(sets: Sets) -> Sets:
    """The same sets, with twice the rows."""
    rows = len(sets.words)
    words = np.zeros((2 * rows, sets.words.shape[1]), np.uint64)
    words[:rows] = sets.words
    free, at = np.empty(2 * rows, np.int32), sets.at.copy()
    refill(sets.free, free, at, 0, rows)
    return Sets(words, np.concatenate([sets.of, np.zeros((rows, 3), np.int32)]), free, at)


def wider_sets(sets: Sets) -> Sets:
    """The same sets, with room for twice as many messages."""
    rows, width = sets.words.shape
    words = np.zeros((rows, 2 * width), np.uint64)
    words[:, :width] = sets.words
    return sets._replace(words=words)


@inlined_part
def lowest(bits: np.uint64) -> Whole:
    """The place of the lowest bit that is set."""
    return _PLACE[np.int64(((bits & (~bits + _ONE)) * _SPREAD) >> _U58)]


@inlined_part
def has(sets: Sets, row: Whole, m: Whole) -> bool:
    word = m >> 6
    if word < sets.of[row, START] or word >= sets.of[row, END]:
        return False
    return bool((sets.words[row, word] >> np.uint64(m & 63)) & _ONE)


@inlined_part
def add(sets: Sets, row: Whole, m: Whole) -> None:
    word, of = m >> 6, sets.of[row]
    if of[START] == of[END]:
        of[START] = of[END] = word
    while of[END] <= word:
        sets.words[row, of[END]] = _ZERO
        of[END] += 1
    while of[START] > word:
        of[START] -= 1
        sets.words[row, of[START]] = _ZERO
    sets.words[row, word] |= _ONE << np.uint64(m & 63)


@inlined_part
def drop(sets: Sets, row: Whole, m: Whole) -> None:
    """Take out a message, if it is there."""
    word = m >> 6
    if sets.of[row, START] <= word < sets.of[row, END]:
        sets.words[row, word] &= ~(_ONE << np.uint64(m & 63))


@part
def trim(sets: Sets, row: Whole) -> None:
    """Leave out empty words at the start."""
    of = sets.of[row]
    while of[START] < of[END] and sets.words[row, of[START]] == _ZERO:
        of[START] += 1


@part
def new_set(sets: Sets) -> Whole:
    """Take a free row. There must be one."""
    sets.at[0] -= 1
    row = np.int64(sets.free[sets.at[0]])
    sets.of[row, START] = sets.of[row, END] = 0
    return row


@part
def free_set(sets: Sets, row: Whole) -> None:
    sets.free[sets.at[0]] = row
    sets.at[0] += 1


@part
def copy_set(sets: Sets, row: Whole) -> Whole:
    copy = new_set(sets)
    for word in range(sets.of[row, START], sets.of[row, END]):
        sets.words[copy, word] = sets.words[row, word]
    sets.of[copy, START], sets.of[copy, END] = sets.of[row, START], sets.of[row, END]
    sets.of[copy, BYTES] = sets.of[row, BYTES]
    return copy


@part
def take_away(sets: Sets, row: Whole, other: Whole) -> bool:
    """Take the messages of another set out of one; whether there were any."""
    of, changed = sets.of, _ZERO
    for word in range(max(of[row, START], of[other, START]), min(of[row, END], of[other, END])):
        both = sets.words[row, word] & sets.words[other, word]
        sets.words[row, word] ^= both
        changed |= both
    return bool(changed != _ZERO)


@part
def is_empty(sets: Sets, row: Whole) -> bool:
    found = _ZERO
    for word in range(sets.of[row, START], sets.of[row, END]):
        found |= sets.words[row, word]
    return bool(found == _ZERO)


@part
def is_within(sets: Sets, row: Whole, other: Whole) -> bool:
    """Whether all messages of a set are in another."""
    for word in range(sets.of[row, START], sets.of[row, END]):
        there = _ZERO
        if sets.of[other, START] <= word < sets.of[other, END]:
            there = sets.words[other, word]
        if sets.words[row, word] & ~there != _ZERO:
            return False
    return True
