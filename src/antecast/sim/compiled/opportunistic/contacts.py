"""Nodes and contacts that come and go (`sim.engine`)."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.history.schema import Kind
from antecast.sim.compiled.book import NOTHING, Book, note
from antecast.sim.compiled.cells import NEXT as CELL_NEXT
from antecast.sim.compiled.cells import free_cell, new_cell
from antecast.sim.compiled.clocks import local_time
from antecast.sim.compiled.draws import Whole, child
from antecast.sim.compiled.opportunistic.arrays import (
    ARRIVALS,
    ARRIVES,
    ASKED,
    BROKEN,
    DRAWN,
    FIRST,
    GONE,
    GROUP,
    HOST,
    HOSTS,
    LAST,
    LINKED,
    LISTED,
    LOSSES,
    MEETINGS,
    MOST_NUMBERED,
    NEXT,
    NODE,
    OFFERED,
    PARTED,
    PEER,
    PREVIOUS,
    QUEUED,
    REACH,
    REFUSED,
    SAVED,
    SERIAL,
    SERIALS,
    SIDES,
    TICK,
    TIMED,
    TOO_LONG,
    UP,
    WANTED,
    WANTS,
    WITHHELD,
    World,
)
from antecast.sim.compiled.opportunistic.exchange import ask_for_withheld, expired, give_answers, say
from antecast.sim.compiled.opportunistic.keeping import purge, purge_later
from antecast.sim.compiled.opportunistic.ordering import forget_all, restart
from antecast.sim.compiled.opportunistic.sending import (
    nothing_sent,
    open_port,
    performed,
    schedule,
    stop_timers,
    withdraw,
)
from antecast.sim.compiled.queue import Longs, Queue
from antecast.sim.compiled.sets import free_set, is_within
from antecast.sim.compiled.sorting import sort_pairs
from antecast.sim.compiled.table import enter, find, remove
from antecast.sim.compiled.workload import Chat

JOIN, LOST_STATE, CRASHED, RECOVERED, LINK_UP, LINK_DOWN = (
    int(k) for k in (Kind.JOIN, Kind.LEAVE, Kind.CRASH, Kind.RECOVER, Kind.UP, Kind.DOWN)
)

TICK_AFTER, TICK_EVERY, TICK_START, TICK_UNTIL, TICK_PAYLOAD, TICK_LIFETIME, TICK_SENDERS = range(7)
"""Columns of the workloads that begin with an arrival; from the last on, whether each node is a sender."""


@inlined_part
def _pair(world: World, a: Whole, b: Whole, kind: Whole) -> Whole:
    """Under what the table has something of two nodes."""
    return ((min(a, b) * len(world.nodes) + max(a, b)) << 2) | kind


# Who should be in contact with whom.


@part
def want(world: World, a: Whole, b: Whole) -> None:
    cell = world.nodes[a, WANTED]
    while cell >= 0:
        if world.cells.of[cell, 0] == b:
            return
        cell = world.cells.of[cell, CELL_NEXT]
    want_anew(world, a, b)


@part
def want_anew(world: World, a: Whole, b: Whole) -> None:
    for p, q in ((a, b), (b, a)):
        world.nodes[p, WANTED] = new_cell(world.cells, q, 0, world.nodes[p, WANTED])
        world.nodes[p, WANTS] += 1


@part
def _want_no_more(world: World, p: Whole, q: Whole) -> None:
    before, cell = np.int64(-1), world.nodes[p, WANTED]
    while cell >= 0:
        if world.cells.of[cell, 0] == q:
            following = free_cell(world.cells, cell)
            if before < 0:
                world.nodes[p, WANTED] = following
            else:
                world.cells.of[before, CELL_NEXT] = following
            world.nodes[p, WANTS] -= 1
            return
        before, cell = cell, world.cells.of[cell, CELL_NEXT]


@part
def _connect_all(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    """A node meets those it should be in contact with, by number."""
    count, cell = 0, world.nodes[p, WANTED]
    while cell >= 0:
        world.chosen[count, 0] = world.cells.of[cell, 0]
        count, cell = count + 1, world.cells.of[cell, CELL_NEXT]
    sort_pairs(world.chosen, count)
    for each in range(count):
        connect(world, queue, book, now, p, world.chosen[each, 0], 1)


# Contacts.


@inlined_part
def _parted(world: World, a: Whole, b: Whole) -> bool:
    return bool(world.at[PARTED] and world.nodes[a, GROUP] != world.nodes[b, GROUP])


@part
def connect(world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole, log: Whole) -> None:
    """A contact begins, if both are there and have none."""
    linked = _pair(world, a, b, LINKED)
    if not (world.nodes[a, UP] and world.nodes[b, UP]) or find(world.table, linked) >= 0 or _parted(world, a, b):
        return
    place = find(world.table, _pair(world, a, b, BROKEN))
    instance = 1 if place < 0 else world.table.value[place, 0] + 1
    world.room[0] -= 1
    first = 2 * np.int64(world.free[world.room[0]])
    enter(world.table, linked, first, 0)
    world.at[SERIALS] += 1
    if world.at[SERIALS] >= MOST_NUMBERED:
        world.at[REACH] = TOO_LONG
    if log:
        note(book, a, now, LINK_UP, NOTHING, NOTHING, b, NOTHING)
        note(book, b, now, LINK_UP, NOTHING, NOTHING, a, NOTHING)
    for c in range(first, first + 2):
        side = world.contacts[c]
        p, q = (a, b) if c == first else (b, a)
        side[NODE], side[PEER], side[SERIAL] = p, q, world.at[SERIALS]
        side[OFFERED] = side[ASKED] = side[WITHHELD] = side[NEXT] = -1
        side[DRAWN] = side[LOSSES] = side[ARRIVES] = side[QUEUED] = 0
        for purpose in range(2):
            world.keys[c, purpose] = child(child(child(world.purposes[purpose], p), q), instance)
        open_port(world, c)
    for c in range(first, first + 2):
        node = world.nodes[world.contacts[c, NODE]]
        node[MEETINGS] += 1
        node[SIDES] += 1
        world.contacts[c, PREVIOUS] = node[LAST]
        if node[LAST] < 0:
            node[FIRST] = c
        else:
            world.contacts[node[LAST], NEXT] = c
        node[LAST] = c
        say(world, queue, book, now, c)
        nothing_sent(world)


@part
def disconnect(world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole) -> None:
    """A contact ends, if there is one: both forget it, and may ask others for what it owed."""
    place = find(world.table, _pair(world, a, b, LINKED))
    if place < 0:
        return
    first = np.int64(world.table.value[place, 0])
    remove(world.table, place)
    broken = _pair(world, a, b, BROKEN)
    place = find(world.table, broken)
    if place < 0:
        enter(world.table, broken, 1, 0)
    else:
        world.table.value[place, 0] += 1
    own = first if world.contacts[first, NODE] == a else first + 1
    withdraw(world, queue, now, own)
    withdraw(world, queue, now, own ^ 1)
    world.contacts[first, SERIAL] = world.contacts[first + 1, SERIAL] = -1
    for c, p, q in ((own, a, b), (own ^ 1, b, a)):
        if world.nodes[p, UP]:
            note(book, p, now, LINK_DOWN, NOTHING, NOTHING, q, NOTHING)
        _forget(world, queue, book, now, c)
        performed(world)
    world.free[world.room[0]] = first >> 1
    world.room[0] += 1


@inlined_part
def _forget(world: World, queue: Queue, book: Book, now: Whole, c: Whole) -> None:
    """One side of a contact ends."""
    side, cells, sets = world.contacts[c], world.cells, world.sets
    p = side[NODE]
    node = world.nodes[p]
    node[SIDES] -= 1
    if side[PREVIOUS] < 0:
        node[FIRST] = side[NEXT]
    else:
        world.contacts[side[PREVIOUS], NEXT] = side[NEXT]
    if side[NEXT] < 0:
        node[LAST] = side[PREVIOUS]
    else:
        world.contacts[side[NEXT], PREVIOUS] = side[PREVIOUS]
    owed = False
    cell = side[ASKED]
    while cell >= 0:
        owed = owed or not is_within(sets, cells.of[cell, 1], p)
        free_set(sets, cells.of[cell, 1])
        cell = free_cell(cells, cell)
        node[LISTED] -= 1
    cell = side[WITHHELD]
    while cell >= 0:
        free_set(sets, cells.of[cell, 0])
        cell = free_cell(cells, cell)
        node[LISTED] -= 1
    if side[OFFERED] >= 0:
        free_set(sets, side[OFFERED])
    if owed and node[UP]:
        ask_for_withheld(world, queue, book, now, p)


# Nodes.


@part
def arrive(world: World, queue: Queue, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node is there from now on, and begins what it does since its arrival."""
    node = world.nodes[p]
    node[UP] = 1
    node[ARRIVALS] += 1
    for row in range(len(ticks)):
        if ticks[row, TICK_SENDERS + p]:
            schedule(queue, now + ticks[row, TICK_AFTER], TICK, p, node[ARRIVALS], row)


@inlined_part
def enter_host(world: World, queue: Queue, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node is there for the first time."""
    world.nodes[p, HOST] = 1
    world.order[world.at[HOSTS]] = p
    world.at[HOSTS] += 1
    arrive(world, queue, ticks, now, p)


@inlined_part
def appear(world: World, queue: Queue, book: Book, chat: Chat, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node appears, or recovers, and meets those it should be in contact with."""
    node = world.nodes[p]
    if not node[HOST]:
        note(book, p, now, JOIN, NOTHING, NOTHING, NOTHING, NOTHING)
        enter_host(world, queue, ticks, now, p)
        _connect_all(world, queue, book, now, p)
        return
    recover(world, queue, book, chat, ticks, now, p)


@part
def recover(world: World, queue: Queue, book: Book, chat: Chat, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node goes on from what it had saved."""
    node = world.nodes[p]
    if not node[SAVED]:
        return
    node[SAVED] = node[REFUSED] = 0
    restart(world, p)
    note(book, p, now, RECOVERED, NOTHING, NOTHING, NOTHING, NOTHING)
    arrive(world, queue, ticks, now, p)
    if world.at[TIMED]:
        local = local_time(world.clocks, p, now)
        expired(world, queue, book, chat, now, p, local)
        purge(world, p, local, -1)
        purge_later(world, queue, now, p)
        give_answers(world, queue, book, chat, now, p)
    _connect_all(world, queue, book, now, p)


@inlined_part
def crash(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    node = world.nodes[p]
    if node[UP]:
        note(book, p, now, CRASHED, NOTHING, NOTHING, NOTHING, NOTHING)
        node[SAVED] = 1
        _stop(world, queue, book, now, p)


@part
def _stop(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    """A node is no longer there: its contacts end, by number."""
    world.nodes[p, UP] = 0
    stop_timers(world, p)
    count, c = 0, world.nodes[p, FIRST]
    while c >= 0:
        world.chosen[count, 0] = world.contacts[c, PEER]
        count, c = count + 1, world.contacts[c, NEXT]
    sort_pairs(world.chosen, count)
    for each in range(count):
        disconnect(world, queue, book, now, p, world.chosen[each, 0])


@inlined_part
def leave(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    """A node goes for good."""
    node = world.nodes[p]
    if not node[HOST] or node[GONE]:
        return
    if node[UP]:
        note(book, p, now, LOST_STATE, NOTHING, NOTHING, NOTHING, NOTHING)
        _stop(world, queue, book, now, p)
    node[GONE], node[SAVED] = 1, 0
    forget_all(world, p)
    while node[WANTED] >= 0:
        q = world.cells.of[node[WANTED], 0]
        _want_no_more(world, q, p)
        _want_no_more(world, p, q)


# Traces and faults.


@inlined_part
def meet(world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole) -> None:
    want(world, a, b)
    connect(world, queue, book, now, a, b, 1)


@inlined_part
def separate(world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole) -> None:
    _want_no_more(world, a, b)
    _want_no_more(world, b, a)
    disconnect(world, queue, book, now, a, b)


@inlined_part
def partition(world: World, queue: Queue, book: Book, now: Whole, groups: Longs) -> None:
    """Contacts between different groups end, by the numbers of their nodes."""
    world.at[PARTED] = 1
    for p in range(len(world.nodes)):
        world.nodes[p, GROUP] = groups[p]
    for p in range(len(world.nodes)):
        count, c = 0, world.nodes[p, FIRST]
        while c >= 0:
            world.chosen[count, 0] = world.contacts[c, PEER]
            count, c = count + 1, world.contacts[c, NEXT]
        sort_pairs(world.chosen, count)
        for each in range(count):
            if _parted(world, p, world.chosen[each, 0]):
                disconnect(world, queue, book, now, p, world.chosen[each, 0])


@inlined_part
def heal(world: World, queue: Queue, book: Book, now: Whole) -> None:
    """A partition ends."""
    world.at[PARTED] = 0
    for p in range(len(world.nodes)):
        if world.nodes[p, HOST]:
            _connect_all(world, queue, book, now, p)
