"""Causal delivery by barriers, over arrays (`protocols.causal`, `protocols.barrier`).

A message that is early waits under the first delivery that it lacks, in the order: its source's previous message,
then the entries of its stamp. Its cell has the message and where in this order it is; what lies before that has
been delivered for good, so nothing is listed.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.cells import free_cell, new_cell, take_from_under, wait_under
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.vcube.arrays import (
    BACKLOG,
    BARRIER,
    BEFORE,
    CLOCK,
    EARLY,
    ENTRIES,
    ORIGIN,
    PAYLOAD,
    PENDING,
    READY,
    SEQ,
    STAMP,
    Messages,
    Nodes,
    World,
    key,
)

_PREVIOUS = -1
"""Before the entries of the stamp."""

_MESSAGE_WEIGHT, _ENTRY_WEIGHT = 400, 200
FULL, WINDOW = 1 << 26, 256
"""See `protocols.vcube.backlog`."""


@part
def weight(messages: Messages, m: Whole) -> Whole:
    return _MESSAGE_WEIGHT + messages.of[m, PAYLOAD] + _ENTRY_WEIGHT * messages.of[m, ENTRIES]


@part
def _lacks(messages: Messages, nodes: Nodes, p: Whole, m: Whole, place: Whole) -> Whole:
    """Where the first delivery is that a message lacks, from a place on; the number of entries if it lacks
    none."""
    row = messages.of[m]
    delivered = nodes.delivered[p]
    if place == _PREVIOUS:
        if delivered[row[ORIGIN]] < row[BEFORE]:
            return place
        place = 0
    start, entries = row[STAMP], row[ENTRIES]
    stamps = messages.stamps
    while place < entries and delivered[stamps[start + place, 0]] >= stamps[start + place, 1]:
        place += 1
    return place


@part
def turned_away(world: World, p: Whole, m: Whole) -> bool:
    """Whether there is no place for a message: too much waits (`protocols.vcube.backlog`)."""
    nodes, messages = world.nodes, world.messages
    if nodes.of[p, BACKLOG] <= FULL:
        return False
    row = messages.of[m]
    if _lacks(messages, nodes, p, m, _PREVIOUS) == row[ENTRIES]:
        return False
    last = nodes.delivered[p, row[ORIGIN]]
    return bool(row[SEQ] > (messages.of[last, SEQ] if last >= 0 else 0) + WINDOW)


@part
def _wait(world: World, p: Whole, m: Whole, place: Whole, cell: Whole) -> None:
    row = world.messages.of[m]
    awaited = row[BEFORE] if place == _PREVIOUS else np.int64(world.messages.stamps[row[STAMP] + place, 1])
    wait_under(world.table, world.cells, key(p, awaited, EARLY), cell)


@part
def take_up(world: World, p: Whole, m: Whole) -> None:
    """Deliver a message and what it sets free, or let it wait: `CausalDelivery.release`, `Barrier.accept`."""
    nodes, messages, cells = world.nodes, world.messages, world.cells
    of, ready = nodes.of[p], world.scratch.ready
    place = _lacks(messages, nodes, p, m, _PREVIOUS)
    if place < messages.of[m, ENTRIES]:
        _wait(world, p, m, place, new_cell(cells, m, place, -1))
        of[PENDING] += 1
        of[BACKLOG] += weight(messages, m)
        return
    at = world.scratch.at[READY]
    count = at + 1
    ready[at] = m
    while at < count:
        m = np.int64(ready[at])
        at += 1
        origin = messages.of[m, ORIGIN]
        if messages.of[m, SEQ] == 1:
            of[CLOCK] += 1
        nodes.delivered[p, origin] = m
        if not nodes.changed[p, origin]:
            nodes.changed[p, origin] = True
            nodes.barrier[p, of[BARRIER]] = origin
            of[BARRIER] += 1
        if of[PENDING] == 0:
            continue
        cell = take_from_under(world.table, key(p, m, EARLY))
        while cell >= 0:
            waiter, following = cells.of[cell, 0], cells.of[cell, 2]
            place = _lacks(messages, nodes, p, waiter, cells.of[cell, 1])
            if place < messages.of[waiter, ENTRIES]:
                cells.of[cell, 1] = place
                _wait(world, p, waiter, place, cell)
            else:
                free_cell(cells, cell)
                ready[count] = waiter
                count += 1
                of[PENDING] -= 1
                of[BACKLOG] -= weight(messages, waiter)
            cell = following
    world.scratch.at[READY] = count
