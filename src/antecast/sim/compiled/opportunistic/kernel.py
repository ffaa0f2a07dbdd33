"""The loop of a compiled run of opportunistic exchange."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import bare, inlined_part
from antecast.sim.compiled.book import RECEIVE, Book
from antecast.sim.compiled.cells import IN_USE
from antecast.sim.compiled.clocks import local_time
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.opportunistic.arrays import (
    ANSWER,
    APPEAR,
    ARRIVALS,
    ASK,
    ASK_AT,
    BARRIER,
    CRASH,
    EARLY,
    EVERYTHING,
    FAULT_AT,
    FAULT_NEXT,
    FAULT_ONE,
    FAULT_OTHER,
    FAULT_WHAT,
    FIRST,
    FRAMES_LOST,
    GONE,
    HEAL,
    HELD,
    IN_REACH,
    LEAVE,
    LINK,
    LISTED,
    MADE,
    MEET,
    MESSAGE,
    NAMED_USED,
    NEVER,
    NEXT,
    NODE,
    NUMBER,
    OFFER,
    ORDERED,
    PART,
    PARTITION,
    PEER,
    PENDING,
    PLANNED,
    PURGE,
    REACH,
    RECOVER,
    REQUEST,
    SAMPLE,
    SERIAL,
    SIDE,
    SIDES,
    STEPS,
    TICK,
    TIMER,
    TIMERS,
    UP,
    WAKE,
    WAKE_AT,
    WANTS,
    WHAT,
    WHICH,
    World,
)
from antecast.sim.compiled.opportunistic.contacts import (
    TICK_EVERY,
    TICK_LIFETIME,
    TICK_PAYLOAD,
    TICK_START,
    TICK_UNTIL,
    appear,
    connect,
    crash,
    enter_host,
    heal,
    leave,
    meet,
    partition,
    recover,
    separate,
    want_anew,
)
from antecast.sim.compiled.opportunistic.exchange import (
    ask_for_withheld,
    broadcast,
    compare,
    expired,
    give_answers,
    hand_over,
    purge_now,
    take,
)
from antecast.sim.compiled.opportunistic.sending import log_frame, next_frame, nothing_sent, performed, schedule
from antecast.sim.compiled.opportunistic.waiting import ENTRY_BYTES
from antecast.sim.compiled.pool import left_in
from antecast.sim.compiled.queue import (
    EMPTY,
    MOST_SCHEDULED,
    SEQUENCE,
    SHORT,
    SIZE,
    Longs,
    Queue,
    ready,
    remove_first,
    room_in,
    slot_of,
)
from antecast.sim.compiled.sets import free_set
from antecast.sim.compiled.workload import IDLE, Chat, Plan

NOW, SINCE, NEEDED, NEEDED_SETS, NEEDED_CONTACTS, NEEDED_NAMED, NEEDED_MESSAGES, NEEDED_ROWS, BEGUN = range(9)
"""Places in what `advance` counts: the time; events since the last pause; the room that the next event may need in
every array, and in some that may need more or less; whether the run has begun."""

ENDED, PAUSED, SAMPLES, WANTS_ROOM, ENDLESS, OUT_OF_REACH = range(6)
"""Why the loop stopped: nothing is left before the end; so many events were made; the gauges are to be sampled;
an array may be too small for the next event; the counter of events has run out; the reference has to make this
run."""


class Start(NamedTuple):
    """What is there at the start."""

    present: Longs
    """Nodes."""
    pairs: Longs
    """Links, and, at the first place of `wanted`, whether they come up again after a fault."""
    wanted: Longs
    first: Longs
    """Lines of the script that are scheduled then."""


@inlined_part
def _begin(
    world: World, queue: Queue, book: Book, plan: Plan, ticks: Longs, script: Longs, start: Start, every: Whole,
    duration: Whole,
) -> None:  # fmt: skip
    """Schedule what is known at the start, in the order of the reference: broadcasts, the nodes that are there and
    their links, what traces and faults do, samples."""
    zero = np.int64(0)
    for each in range(len(plan.first)):
        line = np.int64(plan.first[each])
        schedule(queue, plan.at[line], PLANNED, np.int64(plan.node[line]), 0, line)
    for each in range(len(start.present)):
        enter_host(world, queue, ticks, zero, start.present[each])
    for each in range(len(start.pairs)):
        a, b = start.pairs[each, 0], start.pairs[each, 1]
        if start.wanted[0]:
            want_anew(world, a, b)
        connect(world, queue, book, zero, a, b, 0)
    for each in range(len(start.first)):
        _follow(queue, script, start.first[each])
    if every > 0 and (duration > 0 or queue.at[SIZE] > 1):
        schedule(queue, every, SAMPLE, 0, 0, 0)


@inlined_part
def _follow(queue: Queue, script: Longs, line: Whole) -> None:
    """Schedule a line of the script."""
    row = script[line]
    schedule(queue, row[FAULT_AT], row[FAULT_WHAT], row[FAULT_ONE], line, row[FAULT_OTHER])


@inlined_part
def _listed_around(world: World, p: Whole) -> Whole:
    """Entries in the lists of a node and of all that it is in contact with."""
    count, c = world.nodes[p, LISTED], world.nodes[p, FIRST]
    while c >= 0:
        count += world.nodes[world.contacts[c, PEER], LISTED] + 1
        c = world.contacts[c, NEXT]
    return count


@inlined_part
def _wants_room(
    world: World, queue: Queue, book: Book, rows: Whole, at: Longs, what: Whole, c: Whole, which: Whole
) -> bool:
    """Whether an array may be too small for an event."""
    nodes = world.nodes
    needed, sets, contacts, p = np.int64(16), np.int64(8), np.int64(0), c
    if what <= REQUEST:
        p = world.contacts[c ^ 1, NODE]
    node = nodes[p] if p < len(nodes) else nodes[0]
    answers = np.int64(0)
    if what in (MESSAGE, TIMER, APPEAR, RECOVER):
        answers = (node[PENDING] + 1) * rows
        needed += 2 * node[PENDING]
        if what != MESSAGE:
            needed += 4 * (node[LISTED] + node[WANTS])
            sets += 4 * (node[LISTED] + node[WANTS])
            contacts = node[WANTS]
    elif what == REQUEST:
        needed += node[HELD]
    elif what in (MEET, LINK, PART, CRASH, LEAVE):
        listed = _listed_around(world, p)
        if what in (PART, MEET, LINK):
            listed += nodes[which, LISTED]
        needed += 4 * listed
        sets += 4 * listed
        contacts = np.int64(1)
    elif what in (PARTITION, HEAL):
        for each in range(len(nodes)):
            contacts += nodes[each, WANTS]
            needed += 4 * (nodes[each, LISTED] + nodes[each, WANTS])
        sets += needed
    needed += (answers + 1) * (node[SIDES] + 4)
    at[NEEDED], at[NEEDED_SETS], at[NEEDED_CONTACTS] = needed, sets, contacts
    at[NEEDED_MESSAGES], at[NEEDED_NAMED] = answers + 1, node[BARRIER] + node[PENDING] + 2 * answers + 4
    room = min(room_in(queue), len(book.rows) - book.at[0], len(world.cells.of) - world.cells.at[IN_USE])
    room = min(room, len(world.table.key) // 2 - world.table.at[0], left_in(world.frames))
    # A message that waits for one after the other may enter a tag for each that it names, all in one event.
    at[NEEDED_ROWS] = 4 * needed + node[EARLY] // ENTRY_BYTES if world.at[ORDERED] else 0
    return bool(
        room < needed
        or left_in(world.rows) < at[NEEDED_ROWS]
        or world.lists.shape[1] < answers + node[PENDING] + 4
        or world.sets.at[0] < sets
        or world.room[0] < contacts
        or len(world.messages) - world.at[MADE] <= answers
        or len(world.named) - world.at[NAMED_USED] < at[NEEDED_NAMED]
    )


@bare
def advance(
    world: World, queue: Queue, book: Book, plan: Plan, chat: Chat, ticks: Longs, script: Longs, groups: Longs,
    start: Start, at: Longs, until: int, every: int, duration: int, burst: int,
) -> int:  # fmt: skip
    """Run events up to and including a time, or until there is a reason to stop; the first time nothing but what
    is there at the start."""
    if not at[BEGUN]:
        at[BEGUN] = 1
        _begin(world, queue, book, plan, ticks, script, start, every, duration)
        return SAMPLES
    while True:
        state = ready(queue)
        if state == SHORT:
            return WANTS_ROOM
        if state == EMPTY or queue.heap[0, 0] > until:
            return ENDED
        if at[SINCE] >= burst:
            at[SINCE] = 0
            return PAUSED
        if queue.at[SEQUENCE] >= MOST_SCHEDULED:
            return ENDLESS
        slot = slot_of(queue.heap[0, 1])
        what, c = np.int64(queue.what[slot, WHAT]), np.int64(queue.what[slot, SIDE])
        number, which = np.int64(queue.what[slot, NUMBER]), np.int64(queue.what[slot, WHICH])
        if _wants_room(world, queue, book, len(chat.start), at, what, c, which):
            return WANTS_ROOM
        now = queue.heap[0, 0]
        at[NOW] = now
        world.at[STEPS] += 1
        at[SINCE] += 1
        remove_first(queue)
        nothing_sent(world)
        if what <= REQUEST:
            _arrive(world, queue, book, chat, now, what, c, number, which)
        elif what == WAKE:
            next_frame(world, queue, book, now, c, number)
        elif what == TIMER:
            _fire(world, queue, book, chat, now, c, number, which)
        elif what == PLANNED:
            p = np.int64(plan.node[which])
            if world.nodes[p, UP] and plan.payload[which] != IDLE:
                broadcast(world, queue, book, now, p, np.int64(plan.payload[which]), plan.lifetime[which])
            following = np.int64(plan.following[which])
            if following >= 0:
                schedule(queue, plan.at[following], PLANNED, np.int64(plan.node[following]), 0, following)
        elif what == TICK:
            row = ticks[which]
            if (
                world.nodes[c, UP]
                and world.nodes[c, ARRIVALS] == number
                and row[TICK_START] <= now < row[TICK_UNTIL]
            ):
                broadcast(world, queue, book, now, c, row[TICK_PAYLOAD], row[TICK_LIFETIME])
                schedule(queue, now + row[TICK_EVERY], TICK, c, number, which)
        elif what == ANSWER:
            if world.nodes[c, UP]:
                broadcast(world, queue, book, now, c, chat.payload[which], chat.lifetime[which])
        elif what == SAMPLE:
            if now < duration or queue.at[SIZE] > 0:
                schedule(queue, now + every, SAMPLE, 0, 0, 0)
            return SAMPLES
        else:
            if what == APPEAR:
                appear(world, queue, book, chat, ticks, now, c)
            elif what == CRASH:
                crash(world, queue, book, now, c)
            elif what == RECOVER:
                recover(world, queue, book, chat, ticks, now, c)
            elif what == LEAVE:
                leave(world, queue, book, now, c)
            elif what == MEET:
                meet(world, queue, book, now, c, which)
            elif what == LINK:
                if c != which and not (world.nodes[c, GONE] or world.nodes[which, GONE]):
                    meet(world, queue, book, now, c, which)
            elif what == PART:
                separate(world, queue, book, now, c, which)
            elif what == PARTITION:
                partition(world, queue, book, now, groups[which])
            elif what == HEAL:
                heal(world, queue, book, now)
            if script[number, FAULT_NEXT] >= 0:
                _follow(queue, script, script[number, FAULT_NEXT])
        if world.at[REACH] != IN_REACH:
            return OUT_OF_REACH


@inlined_part
def _arrive(
    world: World, queue: Queue, book: Book, chat: Chat, now: Whole, what: Whole, c: Whole, serial: Whole,
    which: Whole,
) -> None:  # fmt: skip
    """A frame comes to the end of a contact, if that still lasts."""
    if world.contacts[c, SERIAL] != serial:
        world.at[FRAMES_LOST] += 1
        if what != MESSAGE:
            free_set(world.sets, which)
        return
    here = c ^ 1
    if world.at[EVERYTHING]:
        side = world.contacts[here]
        log_frame(world, book, side[NODE], now, RECEIVE, side[PEER], what, which)
    if what == MESSAGE:
        take(world, queue, book, chat, now, here, which)
    elif what == OFFER:
        compare(world, queue, book, now, here, which)
    else:
        hand_over(world, queue, book, now, here, which)
        free_set(world.sets, which)
    performed(world)


@inlined_part
def _fire(
    world: World, queue: Queue, book: Book, chat: Chat, now: Whole, p: Whole, number: Whole, timer: Whole
) -> None:
    """A timer of a node runs out, if it is still the one that was set last."""
    node = world.nodes[p]
    if node[TIMERS + timer] != number:
        return
    node[TIMERS + timer] = -1
    if timer == ASK:
        node[ASK_AT] = NEVER
        ask_for_withheld(world, queue, book, now, p)
        performed(world)
    elif timer == PURGE:
        purge_now(world, queue, book, chat, now, p)
    else:
        node[WAKE_AT] = NEVER
        expired(world, queue, book, chat, now, p, local_time(world.clocks, p, now))
        give_answers(world, queue, book, chat, now, p)
