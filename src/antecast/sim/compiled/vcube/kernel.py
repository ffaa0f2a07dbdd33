"""The loop of a compiled run of VCube, and dissemination down its trees (`protocols.vcube.trees`)."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import bare, part
from antecast.sim.compiled.book import BROADCAST, DELIVER, NOTHING, RECEIVE, SEND, Book, note
from antecast.sim.compiled.cells import IN_USE, NEXT, free_cell, new_cell
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.links import FAR, OWN, PACKETS, SENDER, TO, Links, launch
from antecast.sim.compiled.queue import (
    EMPTY,
    MOST_SCHEDULED,
    SEQUENCE,
    SHORT,
    Longs,
    Queue,
    ready,
    remove_first,
    room_in,
    schedule,
    slot_of,
)
from antecast.sim.compiled.queue import SIZE as WAITING
from antecast.sim.compiled.table import enter, find, remove
from antecast.sim.compiled.vcube.arrays import (
    ABROAD,
    AFTER,
    AGGREGATE,
    ANSWER,
    ANSWERS,
    BARRIER,
    BEFORE,
    BEYOND,
    BYTES,
    CLOCK,
    DIMENSION,
    END,
    ENTRIES,
    HOLDS,
    LAST_ARRIVAL,
    LAST_LINK,
    LATEST,
    MADE,
    ONE_LINK,
    ORIGIN,
    PAYLOAD,
    PENDING,
    PLANNED,
    READY,
    ROOM,
    SAMPLE,
    SENT,
    SEQ,
    SINGLE,
    SIZE,
    STAMP,
    STAMPED,
    TOGETHER,
    World,
    key,
)
from antecast.sim.compiled.vcube.delivering import take_up, turned_away
from antecast.sim.compiled.vcube.holding import height_in, keep, release
from antecast.sim.compiled.wire import VERSION_BYTES, head_bytes, message_bytes, number_bytes
from antecast.sim.compiled.workload import IDLE, Chat, Plan, answers, thinking_time

NOW, STEPS, NEEDED, SINCE = range(4)
"""Places in what `advance` counts: the time; events so far; the room that the next event may need in
every array; events since the last pause."""

ENDED, PAUSED, SAMPLES, WANTS_ROOM, ENDLESS = range(5)
"""Why the loop stopped: nothing is left before the end; so many events were made; the gauges are to be sampled;
an array may be too small for the next event; the counter of events has run out."""

_PACKET_HEAD, _ENVELOPE = 2, 6
"""Bytes before the list of a packet's messages; and what `packets.fill` reckons for all but the messages."""

_LONG = 8
"""More frames than this to one neighbour, and nothing else, are a transfer (`host.Host`): over links without a
queue those that arrive at one instant are one event."""


@part
def _size(world: World, packet: Whole) -> Whole:
    """Encoded bytes of a packet."""
    if packet >= 0:
        return VERSION_BYTES + _PACKET_HEAD + 1 + world.messages.of[packet, BYTES]
    cell, count, size = -2 - packet, 0, 0
    while cell >= 0:
        size += world.messages.of[world.cells.of[cell, 0], BYTES]
        count, cell = count + 1, world.cells.of[cell, NEXT]
    return VERSION_BYTES + _PACKET_HEAD + head_bytes(count) + size


@part
def _note_packet(
    world: World, book: Book, node: Whole, now: Whole, kind: Whole, packet: Whole, peer: Whole
) -> None:
    """A row per message; the first has the bytes of the packet, the others 0."""
    size, of = _size(world, packet), world.messages.of
    if packet >= 0:
        note(book, node, now, kind, of[packet, ORIGIN], of[packet, SEQ], peer, size)
        return
    cell = -2 - packet
    while cell >= 0:
        m = world.cells.of[cell, 0]
        note(book, node, now, kind, of[m, ORIGIN], of[m, SEQ], peer, size)
        size, cell = 0, world.cells.of[cell, NEXT]


@part
def _send(
    world: World, queue: Queue, links: Links, book: Book, now: Whole, link: Whole, packet: Whole, last: Whole
) -> None:
    """Put a packet, whose last message this is, on a link."""
    of, at = world.messages.of, world.scratch.at
    arrives = launch(links, now, link, of[last, ORIGIN], of[last, SEQ])
    if at[SENT] == 0:
        at[ONE_LINK] = link
    elif at[ONE_LINK] != link:
        at[ONE_LINK] = -1
    at[SENT] += 1
    if book.at[1]:
        _note_packet(world, book, links.of[link, SENDER], now, SEND, packet, links.of[link, TO])
    if arrives >= 0:
        schedule(queue, arrives, link, packet)
        if at[LAST_LINK] == link and at[LAST_ARRIVAL] == arrives and arrives <= world.cube.rules[END]:
            at[TOGETHER] += 1
        at[LAST_LINK], at[LAST_ARRIVAL] = link, arrives
    elif packet < 0:
        cell = -2 - packet
        while cell >= 0:
            cell = free_cell(world.cells, cell)


@part
def _send_down(
    world: World, queue: Queue, links: Links, book: Book, now: Whole, p: Whole, m: Whole, above: Whole, upto: Whole
) -> None:
    """Send a message alone to children `above` + 1 to `upto`."""
    for s in range(above, upto):
        link = world.cube.links[p, s]
        if link >= 0:
            _send(world, queue, links, book, now, link, m, m)


@part
def _send_parts(world: World, queue: Queue, links: Links, book: Book, now: Whole, p: Whole, count: Whole) -> None:
    """To each child what may go to it, in the order given, in as few packets as hold it."""
    parts, cells, of = world.scratch.parts, world.cells, world.messages.of
    for s in range(world.cube.rules[DIMENSION]):
        link = np.int64(world.cube.links[p, s])
        if link < 0:
            continue
        messages, used, m = 0, np.int64(_ENVELOPE), np.int64(-1)
        first, last = np.int64(-1), np.int64(-1)
        for each in range(count):
            if not parts[each, 1] <= s < parts[each, 2]:
                continue
            size = of[parts[each, 0], BYTES]
            if messages > 0 and used + size > world.cube.rules[ROOM]:
                _send(world, queue, links, book, now, link, m if messages == 1 else -2 - first, m)
                if messages == 1:
                    free_cell(cells, first)
                messages, used = 0, np.int64(_ENVELOPE)
            m = parts[each, 0]
            cell = new_cell(cells, m, 0, -1)
            if messages == 0:
                first = cell
            else:
                cells.of[last, NEXT] = cell
            last, messages, used = cell, messages + 1, used + size
        if messages > 0:
            _send(world, queue, links, book, now, link, m if messages == 1 else -2 - first, m)
            if messages == 1:
                free_cell(cells, first)


@part
def _pass_on(
    world: World,
    queue: Queue,
    links: Links,
    book: Book,
    now: Whole,
    p: Whole,
    m: Whole,
    height: Whole,
    before: Whole,
) -> None:
    """Send a message down as the root of a subtree of a height, with what it sets free."""
    level = np.int64(0)
    if world.cube.rules[AGGREGATE]:
        if height > 0:
            level = keep(world, p, m, height)
        count = release(world, p, world.messages.of[m, ORIGIN], before)
        if count > 0:
            row = world.scratch.parts[count]
            row[0], row[1], row[2] = m, level, height
            _send_parts(world, queue, links, book, now, p, count + 1)
            return
    if level < height:
        _send_down(world, queue, links, book, now, p, m, level, height)


@part
def _receive(world: World, p: Whole, m: Whole) -> bool:
    """Count a message as received (`Received.add`); False if it was here already."""
    row, received = world.messages.of[m], world.nodes.received[p]
    upto = received[row[ORIGIN]]
    if m <= upto:
        return False
    if row[BEFORE] == upto:
        following = row[AFTER]
        while following >= 0:
            place = find(world.table, key(p, following, BEYOND))
            if place < 0:
                break
            remove(world.table, place)
            m, following = following, world.messages.of[following, AFTER]
        received[row[ORIGIN]] = m
        return True
    beyond = key(p, m, BEYOND)
    if find(world.table, beyond) >= 0:
        return False
    enter(world.table, beyond, 0, 0)
    return True


@part
def _take(
    world: World,
    queue: Queue,
    links: Links,
    book: Book,
    now: Whole,
    p: Whole,
    sender: Whole,
    m: Whole,
    height: Whole,
) -> None:
    """Take a message in, pass it on as the root of a subtree of a height, and hand it up: `Trees._take`."""
    row, rules = world.messages.of[m], world.cube.rules
    origin = row[ORIGIN]
    apart = p ^ origin
    if p ^ sender != apart & -apart or rules[SINGLE]:
        height = max(height, height_in(world.cube, p, origin))
    if origin == p:
        if row[ABROAD]:
            row[ABROAD] = 0
            _pass_on(world, queue, links, book, now, p, m, height, m)
        return
    if turned_away(world, p, m):
        return
    before = np.int64(world.nodes.received[p, origin])
    if _receive(world, p, m):
        _pass_on(world, queue, links, book, now, p, m, height, before)
        take_up(world, p, m)


@part
def _broadcast(world: World, queue: Queue, links: Links, book: Book, now: Whole, p: Whole, payload: Whole) -> None:
    """A node's next message: stamped with its barrier, sent to its children, or to the root, and delivered."""
    messages, nodes, rules = world.messages, world.nodes, world.cube.rules
    of = nodes.of[p]
    m, start, entries, latest = messages.at[MADE], messages.at[STAMPED], of[BARRIER], of[LATEST]
    seq = messages.of[latest, SEQ] + 1 if latest >= 0 else np.int64(1)
    stamp = np.int64(head_bytes(entries))
    for each in range(entries):
        source = nodes.barrier[p, each]
        named = nodes.delivered[p, source]
        nodes.changed[p, source] = False
        messages.stamps[start + each, 0], messages.stamps[start + each, 1] = source, named
        stamp += number_bytes(source) + number_bytes(messages.of[named, SEQ])
    row = messages.of[m]
    row[ORIGIN], row[SEQ], row[PAYLOAD], row[BEFORE], row[AFTER] = p, seq, payload, latest, -1
    row[STAMP], row[ENTRIES], row[ABROAD] = start, entries, 0
    row[BYTES] = message_bytes(p, seq, payload, stamp)
    if latest >= 0:
        messages.of[latest, AFTER] = m
    else:
        of[CLOCK] += 1
    of[LATEST], of[BARRIER] = m, 0
    nodes.delivered[p, p] = nodes.received[p, p] = m
    messages.at[MADE], messages.at[STAMPED] = m + 1, start + entries
    note(book, p, now, BROADCAST, p, seq, NOTHING, payload)
    if rules[SINGLE] and p != 0:
        row[ABROAD] = 1
        _send(world, queue, links, book, now, world.cube.links[p, rules[DIMENSION]], m, m)
    else:
        _send_down(world, queue, links, book, now, p, m, 0, rules[DIMENSION])
    note(book, p, now, DELIVER, p, seq, NOTHING, payload)


@part
def _hand_up(world: World, queue: Queue, links: Links, book: Book, chat: Chat, now: Whole, p: Whole) -> None:
    """What may be delivered goes to the application; what that answers at once is broadcast when all is done."""
    of, at = world.messages.of, world.scratch.at
    for each in range(at[READY]):
        m = world.scratch.ready[each]
        note(book, p, now, DELIVER, of[m, ORIGIN], of[m, SEQ], NOTHING, of[m, PAYLOAD])
        for row in range(len(chat.start)):
            if answers(chat, row, p, now):
                if chat.inside[row]:
                    world.scratch.answers[at[ANSWERS]] = row
                    at[ANSWERS] += 1
                else:
                    when = min(now + thinking_time(chat, row, p, now), FAR)
                    schedule(queue, when, ANSWER, row * len(book.pos) + p)
    for each in range(at[ANSWERS]):
        _broadcast(world, queue, links, book, now, p, chat.payload[world.scratch.answers[each]])


@part
def _room_needed(world: World, rows: Whole, p: Whole) -> Whole:
    """No event at a node takes more entries than this in any array, lists of what is missing aside.

    A packet brings so many messages at most; each of them, and of those held back, goes to each child once; each
    of them, and of those that wait, is delivered and answered once.
    """
    most, dimension = world.cube.rules[ROOM] // 8 + 2, world.cube.rules[DIMENSION]
    of = world.nodes.of[p]
    delivered = most + of[PENDING]
    return (most + of[HOLDS]) * (dimension + 2) + delivered * (2 + rows * (dimension + 3)) + 8


@part
def _room(world: World, queue: Queue, book: Book) -> Whole:
    """Entries that are free in each of the arrays that an event may fill."""
    messages, scratch = world.messages, world.scratch
    room = min(room_in(queue), len(book.rows) - book.at[0], world.holds.at[0], len(scratch.ready))
    room = min(room, len(scratch.parts), len(scratch.answers), len(messages.of) - messages.at[MADE])
    room = min(room, len(messages.stamps) - messages.at[STAMPED] - world.cube.rules[SIZE])
    room = min(room, len(world.table.key) // 2 - world.table.at[0])
    return min(room, len(world.cells.of) - world.cells.at[IN_USE] - len(scratch.listed))


@bare
def begin(queue: Queue, plan: Plan, every: int, duration: int) -> None:
    """Schedule what is known at the start, in the order of the reference."""
    for each in range(len(plan.first)):
        schedule(queue, plan.at[plan.first[each]], PLANNED, plan.first[each])
    if every > 0 and (duration > 0 or queue.at[WAITING] > 1):
        schedule(queue, every, SAMPLE, 0)


@bare
def advance(
    world: World,
    queue: Queue,
    links: Links,
    book: Book,
    plan: Plan,
    chat: Chat,
    at: Longs,
    until: int,
    every: int,
    duration: int,
    burst: int,
) -> int:
    """Run events up to and including a time, or until there is a reason to stop."""
    scratch, rows = world.scratch.at, len(chat.start)
    nodes = len(book.pos)
    queued = links.rules[PACKETS] != 0
    while True:
        state = ready(queue)
        if state == SHORT:
            at[NEEDED] = 1
            return WANTS_ROOM
        if state == EMPTY or queue.heap[0, 0] > until:
            return ENDED
        if at[SINCE] >= burst:
            at[SINCE] = 0
            return PAUSED
        if queue.at[SEQUENCE] >= MOST_SCHEDULED:
            return ENDLESS
        slot = slot_of(queue.heap[0, 1])
        what, which = np.int64(queue.what[slot, 0]), np.int64(queue.what[slot, 1])
        p = np.int64(0)
        if what >= 0:
            p = links.of[what, TO]
        elif what == PLANNED:
            p = np.int64(plan.node[which])
        elif what == ANSWER:
            p = which % nodes
        needed = _room_needed(world, rows, p)
        if needed > _room(world, queue, book):
            at[NEEDED] = needed
            return WANTS_ROOM
        now = queue.heap[0, 0]
        at[NOW] = now
        at[STEPS] += 1
        at[SINCE] += 1
        remove_first(queue)
        if what == SAMPLE:
            if now < duration or queue.at[WAITING] > 0:
                schedule(queue, now + every, SAMPLE, 0)
            return SAMPLES
        scratch[READY] = scratch[ANSWERS] = scratch[SENT] = scratch[TOGETHER] = 0
        scratch[LAST_LINK] = -1
        if what == PLANNED:
            if plan.payload[which] != IDLE:
                _broadcast(world, queue, links, book, now, p, np.int64(plan.payload[which]))
            if plan.following[which] >= 0:
                schedule(queue, plan.at[plan.following[which]], PLANNED, plan.following[which])
            continue
        if what == ANSWER:
            _broadcast(world, queue, links, book, now, p, chat.payload[which // nodes])
            continue
        sender, height = links.of[what, SENDER], links.of[what, OWN]
        if book.at[1]:
            _note_packet(world, book, p, now, RECEIVE, which, sender)
        if which >= 0:
            _take(world, queue, links, book, now, p, sender, which, height)
        else:
            cell = -2 - which
            while cell >= 0:
                m = world.cells.of[cell, 0]
                cell = free_cell(world.cells, cell)
                _take(world, queue, links, book, now, p, sender, m, height)
        if scratch[READY] > 0:
            _hand_up(world, queue, links, book, chat, now, p)
        elif scratch[SENT] > _LONG and scratch[ONE_LINK] >= 0 and not queued:
            at[STEPS] -= scratch[TOGETHER]
