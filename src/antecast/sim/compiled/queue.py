"""The queue of a compiled engine: events that wait, by time and by the order in which they were scheduled.

The events up to a time lie in a heap, those beyond in a wheel (`wheel`), from which they come in portions; as long
as there are few, all are in the heap. An event of the heap is a row of `what`, its *slot*; what its columns mean
is its engine's business. The heap holds a pair for each: its time, and its order with its slot behind it in one
word (`order_of`, `slot_of`).

Before the first event is looked at, `ready` has to say that it is in the heap.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.heap import pop, push
from antecast.sim.compiled.wheel import (
    BLOCK,
    DIGIT,
    LEFT,
    SLOTS,
    TIME,
    Wheel,
    drop_block,
    empty_slot,
    last_block,
    make_wheel,
    next_slot,
    put_off,
    roomier_wheel,
    rows_of,
    spread,
)
from antecast.sim.compiled.wheel import SEQUENCE as SCHEDULED

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]

SLOT_BITS: Final = 28
"""The bits of an event's order that give its row in `Queue.what`. The rest counts what was scheduled."""

MOST_EVENTS: Final = 1 << SLOT_BITS
"""Events that can wait in the heap at once: 10 GiB of them."""

MOST_SCHEDULED: Final = (1 << 63 - SLOT_BITS) - (1 << 33)
"""Events in one run: some hours. The margin is for what is scheduled between two checks of the count."""

SIZE, SEQUENCE, FREE, NEAR, UNTIL, SINCE, MOST_NEAR, MISSING = range(8)
"""Places in `Queue.at`: events that wait, events scheduled so far, free rows of `what`; events in the heap; the
time up to which they are there, and the one from which on that is so; how many are too many; how many rows were
needed the last time that there were too few."""

NEVER: Final = (1 << 63) - 1
"""Instead of a time: all events are in the heap."""

PORTION, MANY = 1 << 12, 1 << 14
"""So many events go into the heap at once; with more than that many in it, those beyond the next instant leave
it."""

EMPTY, READY, SHORT = range(3)
"""What `ready` says: nothing waits; the first event is in the heap; there is no room for it there."""


class Queue(NamedTuple):
    """Events to come."""

    heap: Longs
    """A row for each event that waits here: its time and its order (`order_of`). A heap with four children to a
    parent, the first event on top."""
    what: Ints
    """A row for each slot: what the event is."""
    free: Ints
    """Slots that hold nothing: the first `at[FREE]` entries."""
    wheel: Wheel
    """The events beyond."""
    at: Longs


@part
def order_of(sequence: Whole, slot: Whole) -> Whole:
    """What breaks ties between events of one instant, the order of scheduling, with the event's slot behind it."""
    return (np.int64(sequence) << SLOT_BITS) | np.int64(slot)


@part
def slot_of(order: Whole) -> Whole:
    return order & (MOST_EVENTS - 1)


@inlined_part
def new_event(queue: Queue, time: Whole) -> Whole:
    """Add an event. What it is goes into `Queue.what` at the row that this returns, or, if it is below 0, into
    `Wheel.what` at -1 less it. The queue must have room for it (`room_in`)."""
    at = queue.at
    at[SEQUENCE] += 1
    at[SIZE] += 1
    if time > at[UNTIL]:
        return -1 - put_off(queue.wheel, at[UNTIL], time, at[SEQUENCE])
    return _enter(queue, time, at[SEQUENCE])


@part
def _enter(queue: Queue, time: Whole, sequence: Whole) -> Whole:
    """Put an event into the heap; its slot."""
    at = queue.at
    at[FREE] -= 1
    slot = np.int64(queue.free[at[FREE]])
    at[NEAR] = push(queue.heap, at[NEAR], time, order_of(sequence, slot))
    return slot


@part
def schedule(queue: Queue, time: Whole, what: Whole, which: Whole) -> None:
    """Add an event of two numbers. The queue must have room for it."""
    at = new_event(queue, time)
    row = queue.what[at] if at >= 0 else queue.wheel.what[-1 - at]
    row[0], row[1] = what, which


@part
def remove_first(queue: Queue) -> Whole:
    """Take the first event out; its slot, whose row holds until the next event is scheduled."""
    at = queue.at
    slot = slot_of(queue.heap[0, 1])
    at[NEAR] = pop(queue.heap, at[NEAR])
    at[SIZE] -= 1
    queue.free[at[FREE]] = slot
    at[FREE] += 1
    return slot


@inlined_part
def ready(queue: Queue) -> Whole:
    """See that the first event is in the heap, and not too many others with it."""
    if 0 < queue.at[NEAR] <= queue.at[MOST_NEAR]:
        return np.int64(READY)
    return _prepare(queue)


@part
def _prepare(queue: Queue) -> Whole:
    at, wheel = queue.at, queue.wheel
    if at[SIZE] == 0:
        return np.int64(EMPTY)
    if at[NEAR] > 0:
        if wheel.at[LEFT] < at[NEAR] // BLOCK + SLOTS:
            return np.int64(SHORT)
        _put_off_all(queue)
        return np.int64(READY)
    while at[NEAR] == 0:
        slot = next_slot(wheel)
        digit, count = slot >> DIGIT, wheel.counts[slot]
        if digit > 0 and count > PORTION:
            if wheel.at[LEFT] < SLOTS:
                return np.int64(SHORT)
            spread(wheel, slot)
            continue
        if at[FREE] < max(count, PORTION):
            at[MISSING] = max(count, PORTION)
            return np.int64(SHORT)
        at[SINCE] = wheel.when[last_block(wheel, slot) * BLOCK, TIME] >> DIGIT * digit << DIGIT * digit
        at[UNTIL] = at[SINCE] + (1 << DIGIT * digit) - 1
        _take_in(queue, slot)
    if at[SIZE] <= PORTION:
        while at[NEAR] < at[SIZE]:
            _take_in(queue, next_slot(wheel))
        at[UNTIL] = NEVER
    at[MOST_NEAR] = max(np.int64(MANY), 2 * at[NEAR])
    return np.int64(READY)


@part
def _take_in(queue: Queue, slot: Whole) -> None:
    """Move the events of a slot of the wheel into the heap."""
    wheel = queue.wheel
    block = last_block(wheel, slot)
    while block >= 0:
        for each in range(block * BLOCK, block * BLOCK + rows_of(wheel, slot, block)):
            row = _enter(queue, wheel.when[each, TIME], wheel.when[each, SCHEDULED])
            for column in range(queue.what.shape[1]):
                queue.what[row, column] = wheel.what[each, column]
        block = drop_block(wheel, block)
    empty_slot(wheel, slot)


@part
def _put_off_all(queue: Queue) -> None:
    """Move all but the next events out of the heap. What is in the wheel stays where it is: up to the digit that
    names its slot, the new time does not differ from the one before."""
    at, heap, wheel = queue.at, queue.heap, queue.wheel
    until = heap[0, 0] if at[UNTIL] == NEVER else max(heap[0, 0], at[SINCE])
    count, at[NEAR] = at[NEAR], 0
    for each in range(count):
        time, order = heap[each, 0], heap[each, 1]
        if time <= until:
            at[NEAR] = push(heap, at[NEAR], time, order)
            continue
        slot = slot_of(order)
        row = put_off(wheel, until, time, order >> SLOT_BITS)
        for column in range(queue.what.shape[1]):
            wheel.what[row, column] = queue.what[slot, column]
        queue.free[at[FREE]] = slot
        at[FREE] += 1
    at[UNTIL] = at[SINCE] = until
    at[MOST_NEAR] = max(np.int64(MANY), 2 * at[NEAR])


@part
def room_in(queue: Queue) -> Whole:
    """How many events can be added, whenever they are due."""
    return min(queue.at[FREE], (queue.wheel.at[LEFT] - SLOTS) * BLOCK)


def make_queue(room: int, columns: int = 5) -> Queue:
    if room > MOST_EVENTS:
        raise ConfigurationError(
            f"the compiled engine would need room for {room:,} events at once and has it for {MOST_EVENTS:,};"
            " simulate fewer nodes, or fewer broadcasts",
            field="nodes",
        )
    free = np.arange(room, dtype=np.int32)[::-1].copy()
    wheel = make_wheel(SLOTS + room // BLOCK + 1, columns)
    at = np.array([0, 0, room, 0, 0, 0, MANY, 0])
    return Queue(np.empty((room, 2), np.int64), np.zeros((room, columns), np.int32), free, wheel, at)


def with_room(queue: Queue, events: int) -> Queue:
    """The same events, with room for so many more, and for those that the heap lacked room for."""
    at = queue.at
    while at[FREE] < max(events, at[MISSING]):
        queue = _roomier_heap(queue)
        at = queue.at
    at[MISSING] = 0
    while queue.wheel.at[LEFT] < SLOTS + (events + at[NEAR]) // BLOCK + 1:
        queue = queue._replace(wheel=roomier_wheel(queue.wheel))
    return queue


def _roomier_heap(queue: Queue) -> Queue:
    """The same events, with room in the heap for twice as many."""
    room = len(queue.heap)
    if 2 * room > MOST_EVENTS:
        raise ConfigurationError(
            f"the compiled engine would need room for {2 * room:,} events at once and has it for {MOST_EVENTS:,};"
            " simulate fewer nodes, or fewer broadcasts",
            field="nodes",
        )
    heap, what = np.empty((2 * room, 2), np.int64), np.zeros((2 * room, queue.what.shape[1]), np.int32)
    free = np.empty(2 * room, np.int32)
    heap[:room], what[:room] = queue.heap, queue.what
    refill(queue.free, free, queue.at, FREE, room)
    return queue._replace(heap=heap, what=what, free=free)


def refill(old: Ints, new: Ints, at: Longs, place: int, room: int) -> None:
    left = int(at[place])
    new[:room] = np.arange(2 * room - 1, room - 1, -1)
    new[room : room + left] = old[:left]
    at[place] = room + left
