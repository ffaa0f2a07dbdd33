"""The loop of a compiled run of epidemic exchange (`protocols.epidemic`), and contacts that come and go
(`sim.engine`)."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import bare, part
from antecast.history.schema import Kind
from antecast.sim.compiled.book import BROADCAST, DELIVER, NOTHING, RECEIVE, SEND, Book, note
from antecast.sim.compiled.cells import IN_USE, free_cell, new_cell
from antecast.sim.compiled.cells import NEXT as CELL_NEXT
from antecast.sim.compiled.draws import Whole, child, delay, mix
from antecast.sim.compiled.epidemic.arrays import (
    AFTER,
    APPEAR,
    ARRIVES,
    ASK_AT,
    ASKED,
    ASKED_LAST,
    BEFORE,
    BROKEN,
    DRAWN,
    EVERYTHING,
    FIFO,
    FIRST,
    FRAMES_LOST,
    GENERATION,
    HELD,
    HOSTS,
    LAST,
    LATEST,
    LEAVE,
    LINKED,
    LOSSES,
    MADE,
    MEET,
    MEETINGS,
    MESSAGE,
    NEXT,
    NODE,
    NUMBER,
    OFFER,
    OFFERED,
    ORIGIN,
    PART,
    PATIENCE,
    PAYLOAD,
    PEER,
    PLANNED,
    PREVIOUS,
    REQUEST,
    SAMPLE,
    SEQ,
    SERIAL,
    SERIALS,
    SIDE,
    TICK,
    TIMER,
    UP,
    WANTED,
    WHAT,
    WHICH,
    WITHHELD,
    WITHHELD_LAST,
    Sets,
    World,
)
from antecast.sim.compiled.heap import push
from antecast.sim.compiled.links import FAR
from antecast.sim.compiled.queue import (
    FREE,
    MOST_SCHEDULED,
    SEQUENCE,
    Longs,
    Queue,
    order_of,
    remove_first,
    slot_of,
)
from antecast.sim.compiled.queue import SIZE as WAITING
from antecast.sim.compiled.sorting import sort_pairs
from antecast.sim.compiled.table import enter, find, remove
from antecast.sim.compiled.wire import VERSION_BYTES, head_bytes, message_bytes, number_bytes
from antecast.sim.compiled.workload import IDLE, Plan

JOIN, GONE, LINK_UP, LINK_DOWN = (int(k) for k in (Kind.JOIN, Kind.LEAVE, Kind.UP, Kind.DOWN))

NOW, STEPS, NEEDED, SINCE = range(4)
ENDED, PAUSED, SAMPLES, WANTS_ROOM, ENDLESS = range(5)

FRAMES, LAST_SIDE, LAST_ARRIVAL, TOGETHER, ONE_SIDE, OTHERS = range(6)
"""Places in `World.sent`."""

_LONG = 8
_ONE = np.uint64(1)
_ALL = np.uint64(63)
_G, _C, _K = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xBF58476D1CE4E5B9)
_U30, _SIGN = np.uint64(30), np.uint64(1 << 63)
_NO_STAMP = 1


@part
def _schedule(queue: Queue, time: Whole, what: Whole, side: Whole, number: Whole, which: Whole) -> None:
    at = queue.at
    at[FREE] -= 1
    slot = queue.free[at[FREE]]
    queue.what[slot, WHAT], queue.what[slot, SIDE] = what, side
    queue.what[slot, NUMBER], queue.what[slot, WHICH] = number, which
    at[SEQUENCE] += 1
    at[WAITING] = push(queue.heap, at[WAITING], min(time, FAR), order_of(at[SEQUENCE], slot))


# Sets.


@part
def _has(sets: Sets, row: Whole, m: Whole) -> bool:
    word = m >> 6
    return word < sets.length[row] and bool((sets.words[row, word] >> np.uint64(m & 63)) & _ONE)


@part
def _new_set(sets: Sets) -> Whole:
    sets.at[0] -= 1
    row = np.int64(sets.free[sets.at[0]])
    sets.length[row] = 0
    return row


@part
def _free_set(sets: Sets, row: Whole) -> None:
    sets.free[sets.at[0]] = row
    sets.at[0] += 1


@part
def _copy(sets: Sets, row: Whole) -> Whole:
    copy = _new_set(sets)
    for word in range(sets.length[row]):
        sets.words[copy, word] = sets.words[row, word]
    sets.length[copy] = sets.length[row]
    return copy


@part
def _take_away(sets: Sets, row: Whole, other: Whole) -> bool:
    """Take the messages of another set out of one; whether there were any."""
    changed = False
    for word in range(min(sets.length[row], sets.length[other])):
        both = sets.words[row, word] & sets.words[other, word]
        if both != np.uint64(0):
            sets.words[row, word] ^= both
            changed = True
    return changed


@part
def _is_empty(sets: Sets, row: Whole) -> bool:
    found = np.uint64(0)
    for word in range(sets.length[row]):
        found |= sets.words[row, word]
    return bool(found == np.uint64(0))


@part
def _is_within(sets: Sets, row: Whole, other: Whole) -> bool:
    """Whether all messages of a set are in another."""
    for word in range(sets.length[row]):
        there = sets.words[other, word] if word < sets.length[other] else np.uint64(0)
        if sets.words[row, word] & ~there != np.uint64(0):
            return False
    return True


@part
def _request_bytes(world: World, row: Whole) -> Whole:
    """Of a set, as runs by source, with its head."""
    sets, of, counts = world.sets, world.messages, world.counts
    size, sources = np.int64(0), np.int64(0)
    for again in range(2):
        for word in range(sets.length[row]):
            bits = sets.words[row, word]
            at = 0
            while bits != np.uint64(0):
                if bits & _ONE:
                    m = (word << 6) | at
                    origin, seq = of[m, ORIGIN], of[m, SEQ]
                    if again:
                        if counts[origin] > 0:
                            sources += 1
                            size += number_bytes(origin) + head_bytes(counts[origin])
                            counts[origin] = 0
                    else:
                        if of[m, BEFORE] < 0 or not _has(sets, row, of[m, BEFORE]):
                            size += number_bytes(seq)
                            counts[origin] += 1
                        if of[m, AFTER] < 0 or not _has(sets, row, of[m, AFTER]):
                            size += number_bytes(seq + 1)
                            counts[origin] += 1
                bits >>= _ONE
                at += 1
    return size + head_bytes(sources)


@part
def _hold(world: World, p: Whole, m: Whole) -> None:
    """A node has a message from now on."""
    sets = world.sets
    word = m >> 6
    while sets.length[p] <= word:
        sets.words[p, sets.length[p]] = np.uint64(0)
        sets.length[p] += 1
    sets.words[p, word] |= _ONE << np.uint64(m & 63)
    world.nodes[p, HELD] += 1


# Frames.


@part
def _send(world: World, queue: Queue, book: Book, now: Whole, c: Whole, what: Whole, which: Whole) -> None:
    """Put a message or a set on its way to the peer of a contact (`Link.send`), and log it."""
    side, sent = world.contacts[c], world.sent
    kind = 0
    model = world.models[kind]
    side[DRAWN] += 1
    arrives = now + delay(model, world.keys[c, 0], side[DRAWN], now)
    is_lost = False
    if world.losses[kind] > np.uint64(0):
        side[LOSSES] += 1
        is_lost = mix(world.keys[c, 1], np.uint64(side[LOSSES])) <= world.losses[kind]
    if world.at[EVERYTHING]:
        _log_frame(world, book, side[NODE], now, SEND, side[PEER], what, which)
    if sent[FRAMES] == 0:
        sent[ONE_SIDE] = c
    elif sent[ONE_SIDE] != c:
        sent[ONE_SIDE] = -1
    sent[FRAMES] += 1
    if is_lost:
        world.at[FRAMES_LOST] += 1
        if what != MESSAGE:
            _free_set(world.sets, which)
        return
    arrives = min(arrives, FAR)
    if world.at[FIFO]:
        arrives = max(arrives, side[ARRIVES])
        side[ARRIVES] = arrives
    if sent[LAST_SIDE] == c and sent[LAST_ARRIVAL] == arrives:
        sent[TOGETHER] += 1
    sent[LAST_SIDE], sent[LAST_ARRIVAL] = c, arrives
    _schedule(queue, arrives, what, c, side[SERIAL], which)


@part
def _log_frame(
    world: World, book: Book, p: Whole, now: Whole, kind: Whole, peer: Whole, what: Whole, which: Whole
) -> None:
    if what == MESSAGE:
        row = world.messages[which]
        size = VERSION_BYTES + message_bytes(row[ORIGIN], row[SEQ], row[PAYLOAD], _NO_STAMP)
        note(book, p, now, kind, row[ORIGIN], row[SEQ], peer, size)
    else:
        note(book, p, now, kind, NOTHING, NOTHING, peer, VERSION_BYTES + 2 + _request_bytes(world, which))


@part
def _perform(world: World, at: Longs, until: Whole) -> None:
    """Frames of one event: those of a transfer that arrive together are one event of the reference."""
    sent = world.sent
    if sent[FRAMES] > _LONG and sent[ONE_SIDE] >= 0 and not sent[OTHERS] and sent[LAST_ARRIVAL] <= until:
        at[STEPS] -= sent[TOGETHER]
    _nothing_sent(world)


@part
def _nothing_sent(world: World) -> None:
    sent = world.sent
    sent[FRAMES] = sent[TOGETHER] = sent[OTHERS] = 0
    sent[LAST_SIDE] = -1


# The exchange.


@part
def _say(world: World, queue: Queue, book: Book, now: Whole, c: Whole) -> None:
    _send(world, queue, book, now, c, OFFER, _copy(world.sets, world.contacts[c, NODE]))


@part
def _ask_later(world: World, queue: Queue, p: Whole, at: Whole) -> None:
    row = world.nodes[p]
    if row[ASK_AT] < 0 or at < row[ASK_AT]:
        row[ASK_AT] = at
        row[GENERATION] += 1
        world.sent[OTHERS] = 1
        _schedule(queue, at, TIMER, p, row[GENERATION], 0)


@part
def _ask(world: World, queue: Queue, book: Book, now: Whole, c: Whole, offered: Whole) -> None:
    """Ask a peer for what it offers, and is not here, and nobody was asked for lately. `offered` stays as it
    is."""
    sets, cells, side = world.sets, world.cells, world.contacts[c]
    p = side[NODE]
    wanted = _copy(sets, offered)
    _take_away(sets, wanted, p)
    cell = side[ASKED]
    while cell >= 0:
        _take_away(sets, wanted, cells.of[cell, 1])
        cell = cells.of[cell, CELL_NEXT]
    if _is_empty(sets, wanted):
        _free_set(sets, wanted)
        return
    whole, until = np.int64(-1), np.int64(-1)
    other = world.nodes[p, FIRST]
    while other >= 0:
        if other != c:
            cell = world.contacts[other, ASKED]
            while cell >= 0:
                ends = cells.of[cell, 0] + world.at[PATIENCE]
                if now < ends:
                    if whole < 0:
                        whole = _copy(sets, wanted)
                    if _take_away(sets, wanted, cells.of[cell, 1]):
                        until = ends if until < 0 else min(until, ends)
                cell = cells.of[cell, CELL_NEXT]
        other = world.contacts[other, NEXT]
    if until >= 0:
        _take_away(sets, whole, wanted)
        new = new_cell(cells, whole, 0, -1)
        if side[WITHHELD] < 0:
            side[WITHHELD] = new
        else:
            cells.of[side[WITHHELD_LAST], CELL_NEXT] = new
        side[WITHHELD_LAST] = new
        _ask_later(world, queue, p, until)
    elif whole >= 0:
        _free_set(sets, whole)
    if _is_empty(sets, wanted):
        _free_set(sets, wanted)
        return
    new = new_cell(cells, now, wanted, -1)
    if side[ASKED] < 0:
        side[ASKED] = new
    else:
        cells.of[side[ASKED_LAST], CELL_NEXT] = new
    side[ASKED_LAST] = new
    _send(world, queue, book, now, c, REQUEST, _copy(sets, wanted))


@part
def _ask_for_withheld(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    c = world.nodes[p, FIRST]
    while c >= 0:
        cell = world.contacts[c, WITHHELD]
        world.contacts[c, WITHHELD] = -1
        while cell >= 0:
            offered = world.cells.of[cell, 0]
            cell = free_cell(world.cells, cell)
            _ask(world, queue, book, now, c, offered)
            _free_set(world.sets, offered)
        c = world.contacts[c, NEXT]


@part
def _hand_over(world: World, queue: Queue, book: Book, now: Whole, c: Whole, wanted: Whole) -> None:
    """Send what a peer asked for, in an order that differs from contact to contact."""
    sets, of, chosen, side = world.sets, world.messages, world.chosen, world.contacts[c]
    p = side[NODE]
    salt = np.uint64((p << 40) ^ (side[PEER] << 20) ^ world.nodes[p, MEETINGS])
    count = 0
    for word in range(min(sets.length[wanted], sets.length[p])):
        bits = sets.words[wanted, word] & sets.words[p, word]
        at = 0
        while bits != np.uint64(0):
            if bits & _ONE:
                m = (word << 6) | at
                z = (np.uint64(of[m, ORIGIN]) * _G) ^ (np.uint64(of[m, SEQ]) * _C) ^ salt
                chosen[count, 0] = np.int64(((z ^ (z >> _U30)) * _K) ^ _SIGN)
                chosen[count, 1] = m
                count += 1
            bits >>= _ONE
            at += 1
    sort_pairs(chosen, count)
    for each in range(count):
        _send(world, queue, book, now, c, MESSAGE, chosen[each, 1])


@part
def _take(world: World, queue: Queue, book: Book, now: Whole, c: Whole, m: Whole) -> None:
    """A message has come: keep it, pass it on to all who did not offer it, deliver it."""
    p, row = world.contacts[c, NODE], world.messages[m]
    if _has(world.sets, p, m):
        return
    _hold(world, p, m)
    other = world.nodes[p, FIRST]
    while other >= 0:
        offered = world.contacts[other, OFFERED]
        if other != c and not (offered >= 0 and _has(world.sets, offered, m)):
            _send(world, queue, book, now, other, MESSAGE, m)
        other = world.contacts[other, NEXT]
    world.sent[OTHERS] = 1
    note(book, p, now, DELIVER, row[ORIGIN], row[SEQ], NOTHING, row[PAYLOAD])


@part
def _broadcast(world: World, queue: Queue, book: Book, now: Whole, p: Whole, payload: Whole) -> None:
    m, latest = world.at[MADE], world.nodes[p, LATEST]
    seq = world.messages[latest, SEQ] + 1 if latest >= 0 else np.int64(1)
    row = world.messages[m]
    row[ORIGIN], row[SEQ], row[PAYLOAD], row[BEFORE], row[AFTER] = p, seq, payload, latest, -1
    if latest >= 0:
        world.messages[latest, AFTER] = m
    world.nodes[p, LATEST] = m
    world.at[MADE] = m + 1
    _hold(world, p, m)
    note(book, p, now, BROADCAST, p, seq, NOTHING, payload)
    c = world.nodes[p, FIRST]
    while c >= 0:
        _send(world, queue, book, now, c, MESSAGE, m)
        c = world.contacts[c, NEXT]
    world.sent[OTHERS] = 1
    note(book, p, now, DELIVER, p, seq, NOTHING, payload)


# Contacts.


@part
def _pair(world: World, a: Whole, b: Whole, kind: Whole) -> Whole:
    """Under what the table has something of two nodes."""
    return ((min(a, b) * len(world.nodes) + max(a, b)) << 2) | kind


@part
def _want(world: World, a: Whole, b: Whole) -> None:
    key = _pair(world, a, b, WANTED)
    if find(world.table, key) < 0:
        enter(world.table, key, 0, 0)


@part
def _connect(world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole, log: Whole) -> None:
    """A contact begins, if both are there and have none."""
    linked = _pair(world, a, b, LINKED)
    if not (world.nodes[a, UP] and world.nodes[b, UP]) or find(world.table, linked) >= 0:
        return
    place = find(world.table, _pair(world, a, b, BROKEN))
    instance = 1 if place < 0 else world.table.value[place, 0] + 1
    world.room[0] -= 1
    first = 2 * np.int64(world.free[world.room[0]])
    enter(world.table, linked, first, 0)
    world.at[SERIALS] += 1
    if log:
        note(book, a, now, LINK_UP, NOTHING, NOTHING, b, NOTHING)
        note(book, b, now, LINK_UP, NOTHING, NOTHING, a, NOTHING)
    for c in range(first, first + 2):
        side = world.contacts[c]
        p, q = (a, b) if c == first else (b, a)
        side[NODE], side[PEER], side[SERIAL] = p, q, world.at[SERIALS]
        side[OFFERED] = side[ASKED] = side[WITHHELD] = side[NEXT] = -1
        side[DRAWN] = side[LOSSES] = side[ARRIVES] = 0
        for purpose in range(2):
            key = child(child(child(world.purposes[purpose], p), q), instance)
            world.keys[c, purpose] = key
    for c in range(first, first + 2):
        p = world.contacts[c, NODE]
        node = world.nodes[p]
        node[MEETINGS] += 1
        world.contacts[c, PREVIOUS] = node[LAST]
        if node[LAST] < 0:
            node[FIRST] = c
        else:
            world.contacts[node[LAST], NEXT] = c
        node[LAST] = c
        _say(world, queue, book, now, c)
        _nothing_sent(world)


@part
def _disconnect(
    world: World, queue: Queue, book: Book, now: Whole, a: Whole, b: Whole, at: Longs, until: Whole
) -> None:
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
    world.contacts[first, SERIAL] = world.contacts[first + 1, SERIAL] = -1
    for each in range(2):
        p, q = (a, b) if each == 0 else (b, a)
        c = first if world.contacts[first, NODE] == p else first + 1
        if world.nodes[p, UP]:
            note(book, p, now, LINK_DOWN, NOTHING, NOTHING, q, NOTHING)
        _forget(world, queue, book, now, c)
        _perform(world, at, until)
    world.free[world.room[0]] = first >> 1
    world.room[0] += 1


@part
def _forget(world: World, queue: Queue, book: Book, now: Whole, c: Whole) -> None:
    """One side of a contact ends."""
    side, cells, sets = world.contacts[c], world.cells, world.sets
    p = side[NODE]
    node = world.nodes[p]
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
        owed = owed or not _is_within(sets, cells.of[cell, 1], p)
        _free_set(sets, cells.of[cell, 1])
        cell = free_cell(cells, cell)
    cell = side[WITHHELD]
    while cell >= 0:
        _free_set(sets, cells.of[cell, 0])
        cell = free_cell(cells, cell)
    if side[OFFERED] >= 0:
        _free_set(sets, side[OFFERED])
    if owed and node[UP]:
        _ask_for_withheld(world, queue, book, now, p)


@part
def _appear(world: World, queue: Queue, book: Book, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node appears, and meets those it should be in contact with."""
    arrive(world, queue, ticks, now, p)
    note(book, p, now, JOIN, NOTHING, NOTHING, NOTHING, NOTHING)
    for q in range(len(world.nodes)):
        if q != p and find(world.table, _pair(world, p, q, WANTED)) >= 0:
            _connect(world, queue, book, now, p, q, 1)


@part
def arrive(world: World, queue: Queue, ticks: Longs, now: Whole, p: Whole) -> None:
    """A node is there from now on, and begins what it does since its arrival."""
    world.nodes[p, UP] = 1
    world.order[world.at[HOSTS]] = p
    world.at[HOSTS] += 1
    for row in range(len(ticks)):
        if ticks[row, TICK_SENDERS + p]:
            _schedule(queue, now + ticks[row, TICK_AFTER], TICK, p, 0, row)


TICK_AFTER, TICK_EVERY, TICK_START, TICK_UNTIL, TICK_PAYLOAD, TICK_SENDERS = range(6)
"""Columns of the workloads that begin with an arrival; from the last on, whether each node is a sender."""


@part
def _leave(world: World, queue: Queue, book: Book, now: Whole, p: Whole, at: Longs, until: Whole) -> None:
    """A node goes for good."""
    if not world.nodes[p, UP]:
        return
    note(book, p, now, GONE, NOTHING, NOTHING, NOTHING, NOTHING)
    world.nodes[p, UP] = 0
    world.nodes[p, GENERATION] += 1
    for q in range(len(world.nodes)):
        if q != p:
            _disconnect(world, queue, book, now, p, q, at, until)
            place = find(world.table, _pair(world, p, q, WANTED))
            if place >= 0:
                remove(world.table, place)


@bare
def begin(
    world: World, queue: Queue, book: Book, plan: Plan, ticks: Longs, present: Longs, pairs: Longs, trace: Longs,
    every: int, duration: int,
) -> None:  # fmt: skip
    """Schedule what is known at the start, in the order of the reference: broadcasts, the nodes that are there and
    their links, what the trace says (time, kind, two nodes), samples."""
    for each in range(len(plan.first)):
        _schedule(queue, plan.at[plan.first[each]], PLANNED, 0, 0, plan.first[each])
    for each in range(len(present)):
        arrive(world, queue, ticks, 0, present[each])
    for each in range(len(pairs)):
        _connect(world, queue, book, 0, pairs[each, 0], pairs[each, 1], 0)
    for each in range(len(trace)):
        _schedule(queue, trace[each, 0], trace[each, 1], trace[each, 2], 0, trace[each, 3])
    if every > 0 and (duration > 0 or queue.at[WAITING] > 1):
        _schedule(queue, every, SAMPLE, 0, 0, 0)


@part
def _wants_room(world: World, queue: Queue, book: Book, what: Whole, at: Longs) -> bool:
    """Whether an array may be too small for an event of this kind."""
    nodes, cells = len(world.nodes), world.cells.at[IN_USE]
    needed = 4 * nodes + 16
    sets = 2 * nodes + 8 if what == APPEAR else 4
    if what in (TIMER, PART, LEAVE):
        needed += 4 * cells
        sets += 3 * cells
    elif what == REQUEST:
        needed += world.at[MADE]
    at[NEEDED], at[NEEDED_SETS] = needed, sets
    room = min(queue.at[FREE], len(book.rows) - book.at[0], len(world.table.key) // 2 - world.table.at[0])
    room = min(room, len(world.cells.of) - cells)
    return bool(room < needed or world.sets.at[0] < sets or world.room[0] < nodes)


NEEDED_SETS = 4


@bare
def advance(
    world: World, queue: Queue, book: Book, plan: Plan, ticks: Longs, at: Longs, until: int, every: int,
    duration: int, burst: int,
) -> int:  # fmt: skip
    """Run events up to and including a time, or until there is a reason to stop."""
    while queue.at[WAITING] > 0 and queue.heap[0, 0] <= until:
        if at[SINCE] >= burst:
            at[SINCE] = 0
            return PAUSED
        if queue.at[SEQUENCE] >= MOST_SCHEDULED:
            return ENDLESS
        slot = slot_of(queue.heap[0, 1])
        what, c = np.int64(queue.what[slot, WHAT]), np.int64(queue.what[slot, SIDE])
        number, which = np.int64(queue.what[slot, NUMBER]), np.int64(queue.what[slot, WHICH])
        if _wants_room(world, queue, book, what, at):
            return WANTS_ROOM
        now = queue.heap[0, 0]
        at[NOW] = now
        at[STEPS] += 1
        at[SINCE] += 1
        remove_first(queue)
        _nothing_sent(world)
        if what <= REQUEST:
            if world.contacts[c, SERIAL] != number:
                world.at[FRAMES_LOST] += 1
                if what != MESSAGE:
                    _free_set(world.sets, which)
                continue
            here = c ^ 1
            p = world.contacts[here, NODE]
            if world.at[EVERYTHING]:
                _log_frame(world, book, p, now, RECEIVE, world.contacts[here, PEER], what, which)
            if what == MESSAGE:
                _take(world, queue, book, now, here, which)
            elif what == OFFER:
                world.contacts[here, OFFERED] = which
                _ask(world, queue, book, now, here, which)
            else:
                _hand_over(world, queue, book, now, here, which)
                _free_set(world.sets, which)
            _perform(world, at, until)
        elif what == PLANNED:
            p = np.int64(plan.node[which])
            if world.nodes[p, UP] and plan.payload[which] != IDLE:
                _broadcast(world, queue, book, now, p, np.int64(plan.payload[which]))
            following = np.int64(plan.following[which])
            if following >= 0:
                _schedule(queue, plan.at[following], PLANNED, 0, 0, following)
        elif what == TICK:
            if world.nodes[c, UP] and ticks[which, TICK_START] <= now < ticks[which, TICK_UNTIL]:
                _broadcast(world, queue, book, now, c, ticks[which, TICK_PAYLOAD])
                _schedule(queue, now + ticks[which, TICK_EVERY], TICK, c, 0, which)
        elif what == TIMER:
            if world.nodes[c, GENERATION] == number and world.nodes[c, ASK_AT] >= 0:
                world.nodes[c, ASK_AT] = -1
                _ask_for_withheld(world, queue, book, now, c)
                _perform(world, at, until)
        elif what == APPEAR:
            _appear(world, queue, book, ticks, now, c)
        elif what == LEAVE:
            _leave(world, queue, book, now, c, at, until)
        elif what == MEET:
            _want(world, c, which)
            _connect(world, queue, book, now, c, which, 1)
        elif what == PART:
            place = find(world.table, _pair(world, c, which, WANTED))
            if place >= 0:
                remove(world.table, place)
            _disconnect(world, queue, book, now, c, which, at, until)
        else:
            if now < duration or queue.at[WAITING] > 0:
                _schedule(queue, now + every, SAMPLE, 0, 0, 0)
            return SAMPLES
    return ENDED
