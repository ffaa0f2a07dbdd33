"""Frames on their way: sizes, links (`sim.links.Link`), and radios that send one frame after the other
(`sim.links.Port`)."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.book import NOTHING, SEND, Book, note
from antecast.sim.compiled.clocks import when
from antecast.sim.compiled.draws import Whole, delay, mix
from antecast.sim.compiled.links import FAR
from antecast.sim.compiled.opportunistic.arrays import (
    AFTER,
    ARRIVES,
    ASK,
    ASK_AT,
    BANDWIDTH,
    BEFORE,
    DRAWN,
    EVERYTHING,
    EXPIRY,
    FIFO,
    FRAME_NEXT,
    FRAME_SERIAL,
    FRAME_SIDE,
    FRAME_SIZE,
    FRAME_WHAT,
    FRAME_WHICH,
    FRAMES_LOST,
    FREE_AT,
    GENERATION,
    HORIZON,
    LOSSES,
    MEASURED,
    MESSAGE,
    MOST_NUMBERED,
    NEVER,
    NODE,
    NUMBER,
    ON_AIR,
    ORIGIN,
    PEER,
    PER_LINK,
    PURGE,
    PURGE_AT,
    QUEUE_FIRST,
    QUEUE_LAST,
    QUEUED,
    REACH,
    SEQ,
    SERIAL,
    SIDE,
    SIZE,
    STEPS,
    TIMER,
    TIMERS,
    TOO_LONG,
    WAITING,
    WAKE,
    WAKE_AT,
    WAKES_AT,
    WHAT,
    WHICH,
    World,
)
from antecast.sim.compiled.pool import give_back, take_row
from antecast.sim.compiled.queue import Queue, new_event
from antecast.sim.compiled.sets import BYTES, END, START, free_set, lowest
from antecast.sim.compiled.wire import VERSION_BYTES, head_bytes, number_bytes

FRAMES, LAST_SIDE, LAST_ARRIVAL, TOGETHER, ONE_SIDE, OTHERS = range(6)
"""Places in `World.sent`."""

_LONG = 8
_BITS_NS = 8 * 10**9
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@part
def schedule(queue: Queue, time: Whole, what: Whole, side: Whole, number: Whole, which: Whole) -> None:
    at = new_event(queue, min(time, FAR))
    row = queue.what[at] if at >= 0 else queue.wheel.what[-1 - at]
    row[WHAT], row[SIDE], row[NUMBER], row[WHICH] = what, side, number, which


# Sizes.


@part
def measure(world: World, row: Whole) -> Whole:
    """Note how long an offer of a set, or a request for it, is: runs by source. How many sources and numbers it
    names."""
    of, counts, sources = world.messages, world.counts, world.sources
    words, start, end = (
        world.sets.words[row],
        np.int64(world.sets.of[row, START]),
        np.int64(world.sets.of[row, END]),
    )
    size, named, numbers = np.int64(0), np.int64(0), np.int64(0)
    for word in range(start, end):
        bits = words[word]
        while bits != _ZERO:
            m = (word << 6) | lowest(bits)
            bits &= bits - _ONE
            before, after, ends = of[m, BEFORE], of[m, AFTER], 0
            if before < start << 6 or not (words[before >> 6] >> np.uint64(before & 63)) & _ONE:
                size += number_bytes(of[m, SEQ])
                ends += 1
            if after < 0 or after >= end << 6 or not (words[after >> 6] >> np.uint64(after & 63)) & _ONE:
                size += number_bytes(of[m, SEQ] + 1)
                ends += 1
            if ends > 0:
                origin = of[m, ORIGIN]
                if counts[origin] == 0:
                    sources[named] = origin
                    named += 1
                counts[origin] += ends
    for each in range(named):
        origin = np.int64(sources[each])
        size += number_bytes(origin) + head_bytes(counts[origin])
        numbers += counts[origin]
        counts[origin] = 0
    world.sets.of[row, BYTES] = VERSION_BYTES + 2 + head_bytes(named) + size
    return named + numbers


@inlined_part
def log_frame(
    world: World, book: Book, p: Whole, now: Whole, kind: Whole, peer: Whole, what: Whole, which: Whole
) -> None:
    if what == MESSAGE:
        row = world.messages[which]
        note(book, p, now, kind, row[ORIGIN], row[SEQ], peer, row[SIZE])
    else:
        note(book, p, now, kind, NOTHING, NOTHING, peer, np.int64(world.sets.of[which, BYTES]))


# Links.


@part
def send(world: World, queue: Queue, book: Book, now: Whole, c: Whole, what: Whole, which: Whole) -> None:
    """Put a message or a set on its way to the peer of a contact, or let it wait until the radio is free."""
    if what != MESSAGE and world.at[MEASURED]:
        measure(world, which)
    send_at_once(world, queue, book, now, c, what, which)


@inlined_part
def send_at_once(world: World, queue: Queue, book: Book, now: Whole, c: Whole, what: Whole, which: Whole) -> None:
    """The same for a message, or a set whose length is known: for the loops that send many."""
    at, sent = world.at, world.sent
    if at[BANDWIDTH] > 0:
        _transmit(world, queue, book, now, c, what, which)
        return
    if sent[FRAMES] == 0:
        sent[ONE_SIDE] = c
    elif sent[ONE_SIDE] != c:
        sent[ONE_SIDE] = -1
    sent[FRAMES] += 1
    if at[EVERYTHING]:
        log_frame(world, book, world.contacts[c, NODE], now, SEND, world.contacts[c, PEER], what, which)
    _launch(world, queue, now, now, c, what, which)


@inlined_part
def _launch(world: World, queue: Queue, now: Whole, leaves: Whole, c: Whole, what: Whole, which: Whole) -> None:
    """A frame leaves then; it arrives unless it is lost."""
    side, sent = world.contacts[c], world.sent
    side[DRAWN] += 1
    arrives = min(leaves + delay(world.models[0], world.keys[c, 0], side[DRAWN], now), FAR)
    if world.losses[0] > _ZERO:
        side[LOSSES] += 1
        if mix(world.keys[c, 1], np.uint64(side[LOSSES])) <= world.losses[0]:
            world.at[FRAMES_LOST] += 1
            if what != MESSAGE:
                free_set(world.sets, which)
            return
    if world.at[FIFO]:
        arrives = max(arrives, side[ARRIVES])
        side[ARRIVES] = arrives
    if sent[LAST_SIDE] == c and sent[LAST_ARRIVAL] == arrives and arrives <= world.at[HORIZON]:
        sent[TOGETHER] += 1
    sent[LAST_SIDE], sent[LAST_ARRIVAL] = c, arrives
    schedule(queue, arrives, what, c, side[SERIAL], which)


@inlined_part
def performed(world: World) -> None:
    """The effects of one call are done: frames of a transfer that arrive together are one event of the
    reference."""
    sent = world.sent
    if sent[FRAMES] > _LONG and sent[ONE_SIDE] >= 0 and not sent[OTHERS]:
        world.at[STEPS] -= sent[TOGETHER]
    nothing_sent(world)


@inlined_part
def nothing_sent(world: World) -> None:
    sent = world.sent
    sent[FRAMES] = sent[TOGETHER] = sent[OTHERS] = 0
    sent[LAST_SIDE] = -1


# Ports.


@inlined_part
def _port(world: World, c: Whole) -> Whole:
    return len(world.nodes) + c if world.at[PER_LINK] else world.contacts[c, NODE]


@inlined_part
def _transmit(world: World, queue: Queue, book: Book, now: Whole, c: Whole, what: Whole, which: Whole) -> None:
    number, side = _port(world, c), world.contacts[c]
    port = world.ports[number]
    size = world.messages[which, SIZE] if what == MESSAGE else np.int64(world.sets.of[which, BYTES])
    if port[FREE_AT] <= now and port[WAITING] == 0:
        if world.at[EVERYTHING]:
            log_frame(world, book, side[NODE], now, SEND, side[PEER], what, which)
        port[ON_AIR] = c
        port[FREE_AT] = now + size * _BITS_NS // world.at[BANDWIDTH]
        _launch(world, queue, now, port[FREE_AT], c, what, which)
        return
    row = take_row(world.frames)
    frame = world.frames.of[row]
    frame[FRAME_NEXT], frame[FRAME_SIDE], frame[FRAME_SERIAL] = -1, c, side[SERIAL]
    frame[FRAME_WHAT], frame[FRAME_WHICH], frame[FRAME_SIZE] = what, which, size
    if port[QUEUE_FIRST] < 0:
        port[QUEUE_FIRST] = row
    else:
        world.frames.of[port[QUEUE_LAST], FRAME_NEXT] = row
    port[QUEUE_LAST] = row
    port[WAITING] += 1
    side[QUEUED] += 1
    if port[WAKES_AT] < 0:
        _wake(world, queue, number, port[FREE_AT])


@inlined_part
def _wake(world: World, queue: Queue, number: Whole, at: Whole) -> None:
    world.ports[number, WAKES_AT] = at
    serial = np.int64(0)
    if number >= len(world.nodes):
        serial = world.contacts[number - len(world.nodes), SERIAL]
    schedule(queue, at, WAKE, number, serial, 0)


@inlined_part
def next_frame(world: World, queue: Queue, book: Book, now: Whole, number: Whole, serial: Whole) -> None:
    """A port has sent a frame, or its contact has ended: the next one that still has a contact."""
    port, nodes = world.ports[number], len(world.nodes)
    if port[WAKES_AT] != now or (number >= nodes and world.contacts[number - nodes, SERIAL] != serial):
        return
    port[WAKES_AT] = -1
    while port[QUEUE_FIRST] >= 0:
        row = port[QUEUE_FIRST]
        frame = world.frames.of[row]
        c, what, which, size = frame[FRAME_SIDE], frame[FRAME_WHAT], frame[FRAME_WHICH], frame[FRAME_SIZE]
        is_there = frame[FRAME_SERIAL] == world.contacts[c, SERIAL]
        port[QUEUE_FIRST] = frame[FRAME_NEXT]
        give_back(world.frames, row)
        if not is_there:
            if what != MESSAGE:
                free_set(world.sets, which)
            continue
        side = world.contacts[c]
        port[WAITING] -= 1
        side[QUEUED] -= 1
        if world.at[EVERYTHING]:
            log_frame(world, book, side[NODE], now, SEND, side[PEER], what, which)
        port[ON_AIR] = c
        port[FREE_AT] = now + size * _BITS_NS // world.at[BANDWIDTH]
        _launch(world, queue, now, port[FREE_AT], c, what, which)
        if port[WAITING] > 0:
            _wake(world, queue, number, port[FREE_AT])
        return


@part
def withdraw(world: World, queue: Queue, now: Whole, c: Whole) -> None:
    """A contact has ended: its frames give way to others."""
    if world.at[BANDWIDTH] == 0:
        return
    number, side = _port(world, c), world.contacts[c]
    port = world.ports[number]
    if side[QUEUED] > 0:
        world.at[FRAMES_LOST] += side[QUEUED]
        port[WAITING] -= side[QUEUED]
        side[QUEUED] = 0
        if port[WAITING] == 0:
            port[WAKES_AT] = -1  # nobody's turn
    if port[ON_AIR] == c:
        port[ON_AIR] = -1
        if port[FREE_AT] > now:
            port[FREE_AT], port[WAKES_AT] = now, -1
            if port[WAITING] > 0:
                _wake(world, queue, number, now)


@inlined_part
def open_port(world: World, c: Whole) -> None:
    """A contact with a queue of its own begins: what its side was used for before is over."""
    if not world.at[PER_LINK]:
        return
    port = world.ports[len(world.nodes) + c]
    while port[QUEUE_FIRST] >= 0:
        row = port[QUEUE_FIRST]
        port[QUEUE_FIRST] = world.frames.of[row, FRAME_NEXT]
        if world.frames.of[row, FRAME_WHAT] != MESSAGE:
            free_set(world.sets, world.frames.of[row, FRAME_WHICH])
        give_back(world.frames, row)
    port[FREE_AT], port[ON_AIR], port[WAKES_AT], port[WAITING] = 0, -1, -1, 0


# Timers.


@part
def set_timer(world: World, queue: Queue, now: Whole, p: Whole, timer: Whole, local: Whole) -> None:
    row = world.nodes[p]
    row[GENERATION] += 1
    if row[GENERATION] >= MOST_NUMBERED:
        world.at[REACH] = TOO_LONG
    row[TIMERS + timer] = row[GENERATION]
    world.sent[OTHERS] = 1
    schedule(queue, max(now, when(world.clocks, p, local)), TIMER, p, row[GENERATION], timer)


@part
def stop_timers(world: World, p: Whole) -> None:
    row = world.nodes[p]
    row[ASK_AT] = row[PURGE_AT] = row[WAKE_AT] = NEVER
    row[TIMERS + ASK] = row[TIMERS + PURGE] = row[TIMERS + EXPIRY] = -1
