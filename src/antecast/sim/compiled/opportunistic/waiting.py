"""Messages that came too early: each waits under one that it lacks, and is looked at again when that one is
delivered or expires.

With `barrier` a node has one list of what is awaited (`protocols.causal`); with `delta` one for each source, and a
queue of tags (`protocols.delta`). The lists are in the order in which they began, which is that of the reference.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.cells import NEXT as CELL_NEXT
from antecast.sim.compiled.cells import free_cell, new_cell
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.opportunistic.arrays import (
    AWAITED,
    AWAITED_FIRST,
    AWAITED_KNOWN,
    AWAITED_LAST,
    AWAITED_MESSAGE,
    AWAITED_NEXT,
    AWAITED_PREVIOUS,
    DEADLINE,
    EARLY,
    ENTRY,
    EXPIRIES,
    KNOWN,
    KNOWN_FIRST,
    KNOWN_NEXT,
    KNOWN_PREVIOUS,
    LAST_DELIVERED,
    LONG_AGO,
    NAMED,
    ORIGIN,
    PAYLOAD,
    PENDING,
    REACH,
    READY,
    ROOM_FOR_EARLY,
    SOONEST,
    SOURCE,
    SOURCE_NEXT,
    SOURCE_PREVIOUS,
    TAG_FIRST,
    TAG_LAST,
    TIMED,
    TOO_EARLY,
    WAITER_FIRST,
    WAITER_LAST,
    World,
)
from antecast.sim.compiled.pool import give_back, take_row
from antecast.sim.compiled.skew import clear, entered
from antecast.sim.compiled.table import enter, find, remove

_MESSAGE_BYTES, ENTRY_BYTES = 400, 200


# What a node knows of a source.


@inlined_part
def source_key(world: World, p: Whole, source: Whole) -> Whole:
    return ((p * len(world.nodes) + source) << 2) | KNOWN


@inlined_part
def known_of(world: World, p: Whole, source: Whole) -> Whole:
    """What a node knows of a source, or -1."""
    place = find(world.table, source_key(world, p, source))
    return np.int64(-1) if place < 0 else np.int64(world.table.value[place, 0])


@part
def noted_of(world: World, p: Whole, source: Whole) -> Whole:
    """The same, begun if there is nothing yet."""
    known = known_of(world, p, source)
    if known >= 0:
        return known
    known = take_row(world.rows)
    enter(world.table, source_key(world, p, source), known, 0)
    of, node = world.rows.of, world.nodes[p]
    of[known, SOURCE] = source
    of[known, LAST_DELIVERED] = of[known, ENTRY] = of[known, TAG_FIRST] = of[known, TAG_LAST] = -1
    of[known, KNOWN_PREVIOUS], of[known, KNOWN_NEXT] = -1, node[KNOWN_FIRST]
    if node[KNOWN_FIRST] >= 0:
        of[node[KNOWN_FIRST], KNOWN_PREVIOUS] = known
    node[KNOWN_FIRST] = known
    return known


@part
def forget_if_idle(world: World, p: Whole, known: Whole) -> None:
    """Give up what is known of a source when it says nothing any more."""
    of = world.rows.of
    if of[known, LAST_DELIVERED] >= 0 or of[known, ENTRY] >= 0 or of[known, TAG_FIRST] >= 0:
        return
    before, after = of[known, KNOWN_PREVIOUS], of[known, KNOWN_NEXT]
    if before < 0:
        world.nodes[p, KNOWN_FIRST] = after
    else:
        of[before, KNOWN_NEXT] = after
    if after >= 0:
        of[after, KNOWN_PREVIOUS] = before
    remove(world.table, find(world.table, source_key(world, p, of[known, SOURCE])))
    give_back(world.rows, known)


# What is awaited.


@inlined_part
def weight(world: World, m: Whole) -> Whole:
    """About how many bytes a message takes while it waits."""
    return _MESSAGE_BYTES + world.messages[m, PAYLOAD] + ENTRY_BYTES * world.messages[m, NAMED]


@inlined_part
def charge(world: World, p: Whole, m: Whole) -> None:
    """A message has come and waits."""
    world.nodes[p, EARLY] += weight(world, m)
    if world.nodes[p, EARLY] > world.at[ROOM_FOR_EARLY]:
        world.at[REACH] = TOO_EARLY


@inlined_part
def _key(world: World, p: Whole, x: Whole) -> Whole:
    return (((x + 1) * len(world.nodes) + p) << 2) | AWAITED


@inlined_part
def tag_of(world: World, x: Whole) -> Whole:
    return world.messages[x, DEADLINE] if x >= 0 else np.int64(LONG_AGO)


@inlined_part
def find_awaited(world: World, p: Whole, x: Whole) -> Whole:
    """The message x, as one that others wait for at a node, or -1."""
    place = find(world.table, _key(world, p, x))
    return np.int64(-1) if place < 0 else np.int64(world.table.value[place, 0])


@part
def hold(world: World, p: Whole, m: Whole, x: Whole) -> None:
    """A message waits for another, or, if that is -1, to be looked at again."""
    node = world.nodes[p]
    node[PENDING] += 1
    node[SOONEST] = min(node[SOONEST], world.messages[m, DEADLINE])
    cell = new_cell(world.cells, m, 0, -1)
    awaited = find_awaited(world, p, x)
    of = world.rows.of
    if awaited >= 0:
        world.cells.of[of[awaited, WAITER_LAST], CELL_NEXT] = cell
        of[awaited, WAITER_LAST] = cell
        return
    awaited = take_row(world.rows)
    enter(world.table, _key(world, p, x), awaited, 0)
    of[awaited, AWAITED_MESSAGE] = x
    of[awaited, WAITER_FIRST] = of[awaited, WAITER_LAST] = cell
    of[awaited, AWAITED_NEXT] = -1
    if not world.at[TIMED]:
        of[awaited, AWAITED_PREVIOUS] = node[AWAITED_LAST]
        if node[AWAITED_LAST] < 0:
            node[AWAITED_FIRST] = awaited
        else:
            of[node[AWAITED_LAST], AWAITED_NEXT] = awaited
        node[AWAITED_LAST] = awaited
        return
    source = world.messages[x, ORIGIN] if x >= 0 else p
    known = noted_of(world, p, source)
    rows = world.rows.of
    of[awaited, AWAITED_KNOWN] = known
    last = rows[known, TAG_LAST]
    of[awaited, AWAITED_PREVIOUS] = last
    rows[known, TAG_LAST] = awaited
    if last >= 0:
        of[last, AWAITED_NEXT] = awaited
    else:
        rows[known, TAG_FIRST] = awaited
        rows[known, SOURCE_PREVIOUS], rows[known, SOURCE_NEXT] = node[AWAITED_LAST], -1
        if node[AWAITED_LAST] < 0:
            node[AWAITED_FIRST] = known
        else:
            rows[node[AWAITED_LAST], SOURCE_NEXT] = known
        node[AWAITED_LAST] = known
    node[EXPIRIES] = entered(world.rows, node[EXPIRIES], tag_of(world, x), source, x)


@part
def take_waiters(world: World, p: Whole, x: Whole) -> Whole:
    """Take out those that wait for a message: the first cell of their list, or -1."""
    awaited = find_awaited(world, p, x)
    if awaited < 0:
        return np.int64(-1)
    first = world.rows.of[awaited, WAITER_FIRST]
    end_await(world, p, awaited)
    return first


@part
def end_await(world: World, p: Whole, awaited: Whole) -> None:
    """Nobody waits for a message any more."""
    of, node = world.rows.of, world.nodes[p]
    remove(world.table, find(world.table, _key(world, p, of[awaited, AWAITED_MESSAGE])))
    before, after = of[awaited, AWAITED_PREVIOUS], of[awaited, AWAITED_NEXT]
    if before >= 0:
        of[before, AWAITED_NEXT] = after
    if after >= 0:
        of[after, AWAITED_PREVIOUS] = before
    if not world.at[TIMED]:
        if before < 0:
            node[AWAITED_FIRST] = after
        if after < 0:
            node[AWAITED_LAST] = before
        give_back(world.rows, awaited)
        return
    known, rows = of[awaited, AWAITED_KNOWN], world.rows.of
    if before < 0:
        rows[known, TAG_FIRST] = after
    if after < 0:
        rows[known, TAG_LAST] = before
    give_back(world.rows, awaited)
    if rows[known, TAG_FIRST] >= 0:
        return
    before, after = rows[known, SOURCE_PREVIOUS], rows[known, SOURCE_NEXT]
    if before < 0:
        node[AWAITED_FIRST] = after
    else:
        rows[before, SOURCE_NEXT] = after
    if after < 0:
        node[AWAITED_LAST] = before
    else:
        rows[after, SOURCE_PREVIOUS] = before
    forget_if_idle(world, p, known)


@part
def clear_expiries(world: World, p: Whole) -> None:
    node = world.nodes[p]
    clear(world.rows, node[EXPIRIES])
    node[EXPIRIES] = -1


@part
def take_all(world: World, p: Whole) -> None:
    """Take out all that wait, into `ready`, in the order of the reference's list of them."""
    node = world.nodes[p]
    world.tally[READY] = 0
    while node[AWAITED_FIRST] >= 0:
        awaited = node[AWAITED_FIRST]
        if world.at[TIMED]:
            awaited = world.rows.of[awaited, TAG_FIRST]
        cell = world.rows.of[awaited, WAITER_FIRST]
        while cell >= 0:
            world.lists[READY, world.tally[READY]] = world.cells.of[cell, 0]
            world.tally[READY] += 1
            cell = free_cell(world.cells, cell)
        end_await(world, p, awaited)
    node[PENDING] = 0
    clear_expiries(world, p)
