"""The compiled engine's loop: takes the first event, does what the reference does, until a time or out of room."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import compiled
from antecast.sim.compiled.draws import Model, child, mix, wide_below
from antecast.sim.compiled.heap import pop
from antecast.sim.overlay.compiled.arrays import (
    BROADCASTS,
    ENDLESS,
    FAR,
    FINE,
    FRAMES,
    FREE,
    LOST,
    MOST_SCHEDULED,
    SEQUENCE,
    SIZE,
    TRACED,
    WRONG,
    Counts,
    Links,
    Messages,
    Plan,
    Queue,
    Views,
    slot_of,
)  # fmt: skip
from antecast.sim.overlay.compiled.connecting import (
    BROADCAST,
    MESSAGE,
    PING,
    PLAIN,
    PONG,
    RELAY,
    TICK,
    connect,
    find,
    make_safe,
    pong_arrived,
    schedule,
    send,
)  # fmt: skip
from antecast.sim.overlay.compiled.exchanging import exchange, succeed

REACHED, WANTS_EVENTS, WANTS_LINKS, WANTS_TRACE, FAILED = range(5)
"""Why the loop stopped."""


@compiled
def begin(
    queue: Queue,
    links: Links,
    views: Views,
    counts: Counts,
    pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    plan: Plan,
    every: int,
    until: int,
    phase_key: np.uint64,
    delay_key: np.uint64,
) -> None:
    """The first instant, in the order of `Engine.__init__`: broadcasts, exchanges, connections."""
    for each in range(len(plan.first)):
        schedule(queue, plan.at[plan.first[each]], BROADCAST, 0, 0, plan.first[each], 0)
    for p in range(len(views.sizes)):
        first = wide_below(mix(child(phase_key, p), np.uint64(1)), max(1, every))
        if every > 0 and first < until:
            schedule(queue, first, TICK, 0, 0, p, 0)
    for at in range(len(pairs)):
        c = connect(links, counts, pairs[at, 0], pairs[at, 1], delay_key, 1)
        if c < 0:
            return
        make_safe(links, 2 * c)
        make_safe(links, 2 * c + 1)
    for p in range(len(views.sizes)):
        for at in range(views.sizes[p]):
            links.arcs[find(links, p, views.peers[p, at]) >> 1] += 1


@compiled
def advance(
    queue: Queue,
    links: Links,
    views: Views,
    messages: Messages,
    plan: Plan,
    counts: Counts,
    model: Model,
    spray_key: np.uint64,
    delay_key: np.uint64,
    every: int,
    until: int,
    stop: int,
) -> int:
    """Run all events up to and including a time, or to the first event that there is no room for."""
    heap, what, at = queue.heap, queue.what, queue.at
    count = counts.of
    unheard = messages.unheard
    # The most that one event can schedule: a frame on every link, twice; or a whole log.
    reserve = 2 * links.of.shape[1] + messages.log.shape[1] + 8 * views.peers.shape[1] + 2
    plain = len(messages.plain_hops) > 0
    timed, plain_timed = len(messages.arrival) > 0, len(messages.plain_arrival) > 0
    while at[SIZE] > 0 and heap[0, 0] <= stop:
        if at[FREE] < reserve:
            return WANTS_EVENTS
        if links.at[0] < 2 * views.peers.shape[1]:
            return WANTS_LINKS
        if count[TRACED] == len(counts.trace) and count[TRACED] > 0:
            return WANTS_TRACE
        if count[WRONG] != FINE:
            return FAILED
        now, slot = heap[0, 0], slot_of(heap[0, 1])
        kind, number = what[slot, 0], what[slot, 2]
        d, a, b = np.int64(what[slot, 1]), np.int64(what[slot, 3]), np.int64(what[slot, 4])
        at[SIZE] = pop(heap, at[SIZE])
        queue.free[at[FREE]] = slot
        at[FREE] += 1

        if kind <= BROADCAST and at[SEQUENCE] >= MOST_SCHEDULED:
            count[WRONG] = ENDLESS
            return FAILED
        if kind == TICK:
            if now + every < until:
                schedule(queue, now + every, TICK, 0, 0, a, 0)
            exchange(queue, links, views, messages, counts, model, spray_key, delay_key, now, a)
            continue
        p, sender, following = np.int64(-1), np.int64(-1), np.int64(-1)
        if kind == BROADCAST:
            p, following = np.int64(plan.node[a]), np.int64(plan.following[a])
            a, b = np.int64(count[BROADCASTS]), np.int64(0)
            count[BROADCASTS] += 1
            messages.origin[a], messages.at[a] = p, now
            kind = np.int32(MESSAGE)
            if plain:
                messages.plain_hops[a, p] = 0
                if plain_timed:
                    messages.plain_arrival[a, p] = now
                for each in range(links.degree[p]):
                    send(queue, links, model, now, links.of[p, each], PLAIN, a, 1)
        else:
            if links.number[d >> 1] != number:
                count[LOST] += 1
                continue
            count[FRAMES] += 1
            p, sender = np.int64(links.to[d]), np.int64(links.to[d ^ 1])
            if len(counts.trace) > 0:
                row = counts.trace[count[TRACED]]
                row[0], row[1], row[2], row[3] = now, p, sender, a if kind == MESSAGE else -1
                count[TRACED] += 1

        if kind == MESSAGE:
            if messages.hops[a, p] == unheard:
                if b >= unheard:
                    count[WRONG] = FAR
                    return FAILED
                messages.hops[a, p] = b
                if timed:
                    messages.arrival[a, p] = now
                messages.log[p, messages.logged[p]] = a
                messages.logged[p] += 1
                for each in range(links.usable_degree[p]):
                    e = links.usable[p, each]
                    if links.to[e] != sender:
                        send(queue, links, model, now, e, MESSAGE, a, b + 1)
            if following >= 0:  # scheduled now, not before: between events of one instant the order decides
                schedule(queue, plan.at[following], BROADCAST, 0, 0, following, 0)
        elif kind == PLAIN:
            if messages.plain_hops[a, p] == unheard:
                if b >= unheard:
                    count[WRONG] = FAR
                    return FAILED
                messages.plain_hops[a, p] = b
                if plain_timed:
                    messages.plain_arrival[a, p] = now
                for each in range(links.degree[p]):
                    e = links.of[p, each]
                    if links.to[e] != sender:
                        send(queue, links, model, now, e, PLAIN, a, b + 1)
        elif kind == PING:
            onward = find(links, p, a)
            if onward >= 0 and links.safe[onward]:
                send(queue, links, model, now, onward, RELAY, sender, b)
        elif kind == RELAY:
            back = find(links, p, a)
            if back >= 0:
                send(queue, links, model, now, back, PONG, 0, b)
        elif pong_arrived(queue, links, messages, counts, model, now, d, b):
            c = d >> 1
            if links.safe[d] and links.by[c] >= 0:
                succeed(links, views, counts, c)
    return REACHED if count[WRONG] == FINE else FAILED
