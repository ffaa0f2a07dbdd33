"""The queue of a compiled engine: events that wait, by time and by the order in which they were scheduled.

An event is a row of `what`, its *slot*; what its columns mean is its engine's business. The heap holds a pair for
each: its time, and its order with its slot behind it in one word (`order_of`, `slot_of`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.heap import pop, push

Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]

SLOT_BITS: Final = 28
"""The bits of an event's order that give its row in `Queue.what`. The rest counts what was scheduled."""

MOST_EVENTS: Final = 1 << SLOT_BITS
"""Events that can wait at once: 10 GiB of them."""

MOST_SCHEDULED: Final = (1 << 63 - SLOT_BITS) - (1 << 33)
"""Events in one run: some hours. The margin is for what is scheduled between two checks of the count."""

SIZE, SEQUENCE, FREE = 0, 1, 2
"""Places in `Queue.at`: events that wait, events scheduled so far, free rows of `what`."""


class Queue(NamedTuple):
    """Events to come."""

    heap: Longs
    """A row for each event that waits: its time and its order (`order_of`). A heap with four children to a parent,
    the first event on top."""
    what: Ints
    """A row for each slot: what the event is."""
    free: Ints
    """Slots that hold nothing: the first `at[FREE]` entries."""
    at: Longs
    """Three counters: `SIZE`, `SEQUENCE`, `FREE`."""


@part
def order_of(sequence: Whole, slot: Whole) -> Whole:
    """What breaks ties between events of one instant, the order of scheduling, with the event's slot behind it."""
    return (np.int64(sequence) << SLOT_BITS) | np.int64(slot)


@part
def slot_of(order: Whole) -> Whole:
    return order & (MOST_EVENTS - 1)


@part
def schedule(queue: Queue, time: Whole, what: Whole, which: Whole) -> None:
    """Add an event of two numbers. The queue must have room for it."""
    at = queue.at
    at[FREE] -= 1
    slot = queue.free[at[FREE]]
    queue.what[slot, 0], queue.what[slot, 1] = what, which
    at[SEQUENCE] += 1
    at[SIZE] = push(queue.heap, at[SIZE], time, order_of(at[SEQUENCE], slot))


@part
def remove_first(queue: Queue) -> Whole:
    """Take the first event out; its slot, whose row holds until the next event is scheduled."""
    at = queue.at
    slot = slot_of(queue.heap[0, 1])
    at[SIZE] = pop(queue.heap, at[SIZE])
    queue.free[at[FREE]] = slot
    at[FREE] += 1
    return slot


def make_queue(room: int, columns: int = 5) -> Queue:
    if room > MOST_EVENTS:
        raise ConfigurationError(
            f"the compiled engine would need room for {room:,} events at once and has it for {MOST_EVENTS:,};"
            " simulate fewer nodes, or fewer broadcasts",
            field="nodes",
        )
    free = np.arange(room, dtype=np.int32)[::-1].copy()
    return Queue(np.empty((room, 2), np.int64), np.zeros((room, columns), np.int32), free, np.array([0, 0, room]))


def roomier_queue(queue: Queue) -> Queue:
    """The same events, with room for twice as many."""
    room = len(queue.heap)
    more = make_queue(2 * room, queue.what.shape[1])
    more.heap[:room], more.what[:room], more.at[:] = queue.heap, queue.what, queue.at
    refill(queue.free, more.free, more.at, FREE, room)
    return more


def refill(old: Ints, new: Ints, at: Longs, place: int, room: int) -> None:
    left = int(at[place])
    new[:room] = np.arange(2 * room - 1, room - 1, -1)
    new[room : room + left] = old[:left]
    at[place] = room + left
