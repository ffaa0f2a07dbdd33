"""Holding messages back, over arrays: `protocols.vcube.holding`, where the rules are explained.

What holds a message back is a list of cells, the greatest first: height, source and message in one number.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.cells import NEXT, free_cell, new_cell, take_from_under, wait_under
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.sorting import sort
from antecast.sim.compiled.table import enter, find, remove
from antecast.sim.compiled.vcube.arrays import (
    AFTER,
    AWAITED,
    BEFORE,
    DIMENSION,
    ENTRIES,
    HEIGHT,
    HELD,
    HOLDS,
    LEVEL,
    LISTED,
    MESSAGE,
    MISSING,
    NONE_MISSING,
    NOT_LISTED,
    ORDER,
    ORIGIN,
    SINGLE,
    SIZE,
    STAMP,
    TURN,
    Cube,
    World,
    key,
)

MOST_LISTED = 1 << 20
"""See `holding.LISTED`: beyond this no more is listed at a node."""

_SOURCE_BITS, _NUMBER_BITS = 15, 31


@part
def first_of(nodes: Whole, i: Whole, s: Whole) -> Whole:
    """The first node of cluster s of i, where nodes are those below a number: `View.first`; -1 if it has none."""
    wanted = i ^ (1 << (s - 1))
    if wanted < nodes:
        return wanted
    at = wanted >> (s - 1) << (s - 1)
    if at >= nodes:
        return -1
    for bit in range(s - 2, -1, -1):
        if wanted >> bit & 1 and at + (1 << bit) < nodes:
            at += 1 << bit
    return at


@part
def height_in(cube: Cube, p: Whole, root: Whole) -> Whole:
    """The height of a node's subtree in the tree of a root: `View.height`."""
    if cube.rules[SINGLE]:
        root = 0
    at, height = root, cube.rules[DIMENSION]
    while at != p:
        s, apart = 0, at ^ p
        while apart > 0:
            s, apart = s + 1, apart >> 1
        at, height = first_of(cube.rules[SIZE], at, s), s - 1
    return height


@part
def _hold(world: World, p: Whole, m: Whole, height: Whole) -> Whole:
    holds, of = world.holds, world.nodes.of[p]
    holds.at[0] -= 1
    h = np.int64(holds.free[holds.at[0]])
    of[TURN] += 1
    of[HOLDS] += 1
    row = holds.of[h]
    row[MESSAGE], row[HEIGHT], row[LEVEL], row[MISSING], row[ORDER] = m, height, height, NOT_LISTED, of[TURN]
    enter(world.table, key(p, m, HELD), h, 0)
    return h


@part
def keep(world: World, p: Whole, m: Whole, height: Whole) -> Whole:
    """Take in a message that has just been received; the level that it is held at."""
    if world.nodes.received[p, world.messages.of[m, ORIGIN]] < m:
        h = _hold(world, p, m, height)
        wait_under(world.table, world.cells, key(p, m, AWAITED), new_cell(world.cells, h, 0, -1))
        return height
    missing = _list_missing(world, p, m, height)
    if missing == NONE_MISSING:
        return np.int64(0)
    h = _hold(world, p, m, height)
    world.holds.of[h, MISSING] = missing
    return _wait(world, p, h, new_cell(world.cells, h, 0, -1))


@part
def _list_missing(world: World, p: Whole, m: Whole, height: Whole) -> Whole:
    """What holds a message back, as a list."""
    messages, cells, listed = world.messages, world.cells, world.scratch.listed
    if world.nodes.of[p, LISTED] > MOST_LISTED:
        return np.int64(NONE_MISSING)
    received, row, count = world.nodes.received[p], messages.of[m], 0
    for at in range(row[STAMP], row[STAMP] + row[ENTRIES]):
        source, number = np.int64(messages.stamps[at, 0]), np.int64(messages.stamps[at, 1])
        if received[source] < number:
            level = min(height, height_in(world.cube, p, source))
            if level > 0:
                listed[count] = (((level << _SOURCE_BITS) | source) << _NUMBER_BITS) | number
                count += 1
    if row[BEFORE] >= 0:
        place = find(world.table, key(p, row[BEFORE], HELD))
        if place >= 0:
            cell = world.holds.of[world.table.value[place, 0], MISSING]
            while cell >= 0:
                rest = cells.of[cell, 0] & ((1 << (_SOURCE_BITS + _NUMBER_BITS)) - 1)
                level = min(height, cells.of[cell, 0] >> (_SOURCE_BITS + _NUMBER_BITS))
                listed[count] = (level << (_SOURCE_BITS + _NUMBER_BITS)) | rest
                count += 1
                cell = cells.of[cell, NEXT]
    sort(listed, count)
    first = np.int64(NONE_MISSING)
    for at in range(count):
        first = new_cell(cells, listed[at], 0, first)
    world.nodes.of[p, LISTED] += count
    return first


@part
def _wait(world: World, p: Whole, h: Whole, cell: Whole) -> Whole:
    """Drop what has come from the top of the list, wait under what is next, in this cell; the level."""
    cells, of, row = world.cells, world.nodes.of[p], world.holds.of[h]
    first = row[MISSING]
    while first >= 0:
        missing = cells.of[first, 0]
        number = missing & ((1 << _NUMBER_BITS) - 1)
        if world.nodes.received[p, (missing >> _NUMBER_BITS) & ((1 << _SOURCE_BITS) - 1)] < number:
            row[MISSING] = first
            row[LEVEL] = missing >> (_SOURCE_BITS + _NUMBER_BITS)
            wait_under(world.table, cells, key(p, number, AWAITED), cell)
            return row[LEVEL]
        first = free_cell(cells, first)
        of[LISTED] -= 1
    free_cell(cells, cell)
    remove(world.table, find(world.table, key(p, row[MESSAGE], HELD)))
    world.holds.free[world.holds.at[0]] = h
    world.holds.at[0] += 1
    of[HOLDS] -= 1
    row[LEVEL], row[MISSING] = 0, NONE_MISSING
    return np.int64(0)


@part
def release(world: World, p: Whole, origin: Whole, before: Whole) -> Whole:
    """A source's messages after `before`, or from its first on, have come without a gap: what this lets go, as
    parts, by age; how many."""
    if world.nodes.of[p, HOLDS] == 0:
        return 0
    messages, cells, parts = world.messages, world.cells, world.scratch.parts
    number, last, count = np.int64(before), np.int64(world.nodes.received[p, origin]), 0
    while number != last:
        number = messages.of[number, AFTER] if number >= 0 else _first(world, last)
        cell = take_from_under(world.table, key(p, number, AWAITED))
        while cell >= 0:
            h, following = cells.of[cell, 0], cells.of[cell, NEXT]
            row = world.holds.of[h]
            m, level, order = row[MESSAGE], row[LEVEL], row[ORDER]
            if row[MISSING] == NOT_LISTED:
                row[MISSING] = _list_missing(world, p, m, row[HEIGHT])
            now = _wait(world, p, h, cell)
            if now < level:
                at = count
                while at > 0 and parts[at - 1, 3] > order:
                    for column in range(4):
                        parts[at, column] = parts[at - 1, column]
                    at -= 1
                parts[at, 0], parts[at, 1], parts[at, 2], parts[at, 3] = m, now, level, order
                count += 1
            cell = following
    return count


@part
def _first(world: World, m: Whole) -> Whole:
    """The first message of a message's source."""
    while world.messages.of[m, BEFORE] >= 0:
        m = world.messages.of[m, BEFORE]
    return m
