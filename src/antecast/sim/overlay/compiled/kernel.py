"""The compiled engine's loop: takes the first event, does what the reference does, until a time or out of room."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import compiled, part
from antecast.sim.compiled.draws import Whole, child, mix, wide_below
from antecast.sim.compiled.queue import (
    EMPTY,
    MOST_SCHEDULED,
    SEQUENCE,
    SHORT,
    ready,
    remove_first,
    room_in,
    slot_of,
)
from antecast.sim.overlay.compiled.arrays import (
    BROADCASTS,
    DELAY,
    ENDLESS,
    EVERY,
    FAR,
    FINE,
    FRAMES,
    IDLE,
    LEAVES,
    LOST,
    MOST_CONNECTIONS,
    PHASE,
    STRAY,
    TIMERS,
    TRACED,
    UNTIL,
    WRONG,
    World,
)  # fmt: skip
from antecast.sim.overlay.compiled.churning import became_safe, give_up, see_off, strike, wake
from antecast.sim.overlay.compiled.connecting import (
    BROADCAST,
    FAREWELL,
    FAULT,
    GIVE_UP,
    HELLO,
    JOIN_LATE,
    MESSAGE,
    PING,
    PLAIN,
    PONG,
    RELAY,
    SEE_OFF,
    START,
    SYNC,
    SYNC_LATE,
    TICK,
    connect,
    find,
    make_safe,
    pong_arrived,
    schedule,
    send,
)  # fmt: skip
from antecast.sim.overlay.compiled.exchanging import exchange, lives_change, succeed
from antecast.sim.overlay.compiled.syncing import (
    answers_farewells,
    farewell_answered,
    join_late,
    offered,
    start_arrived,
    sync_arrived,
    sync_late,
)

REACHED, WANTS_EVENTS, WANTS_LINKS, WANTS_TRACE, FAILED = range(5)
"""Why the loop stopped."""

MOST_TIMERS = MOST_CONNECTIONS - (1 << 20)
"""Timers in one run, with a margin for what one event can set."""


@compiled
def begin(
    world: World,
    pairs: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    strikes: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    """The first instant, in the order of `Engine.__init__`: broadcasts, exchanges, connections, faults."""
    queue, links, views, plan = world.queue, world.links, world.views, world.plan
    every, until = world.rules[EVERY], world.rules[UNTIL]
    for each in range(len(plan.first)):
        schedule(queue, plan.at[plan.first[each]], BROADCAST, 0, 0, plan.first[each], 0)
    for p in range(len(views.sizes)):
        first = wide_below(mix(child(world.keys[PHASE], p), np.uint64(1)), max(1, every))
        if every > 0 and first < until and (not lives_change(world) or world.lives.up[p]):
            schedule(queue, first, TICK, 0, 0, p, 0)
    for at in range(len(pairs)):
        c = connect(links, world.counts, pairs[at, 0], pairs[at, 1], world.keys[DELAY], 1)
        if c < 0:
            return
        make_safe(links, 2 * c)
        make_safe(links, 2 * c + 1)
    for p in range(len(views.sizes)):
        for at in range(views.sizes[p]):
            links.arcs[find(links, p, views.peers[p, at]) >> 1] += 1
    for row in range(len(strikes)):
        schedule(queue, strikes[row], FAULT, 0, 0, row, 0)


@part
def most_scheduled(world: World) -> Whole:
    """The most that one event can schedule: a frame on every link, twice; or a whole log. A process that is gone
    may leave newcomers behind, each of whom is introduced to a whole view."""
    width = world.links.of.shape[1]
    most = 2 * width + world.messages.log.shape[1] + 8 * world.views.peers.shape[1] + 2
    return most + 8 * width * width if lives_change(world) else most


@compiled
def advance(world: World, stop: int) -> int:
    """Run all events up to and including a time, or to the first event that there is no room for."""
    queue, links, views, messages = world.queue, world.links, world.views, world.messages
    plan, counts, model, lives = world.plan, world.counts, world.model, world.lives
    what, at = queue.what, queue.at
    count = counts.of
    unheard = messages.unheard
    every, until = world.rules[EVERY], world.rules[UNTIL]
    changing = lives_change(world)
    width = links.of.shape[1]
    reserve = most_scheduled(world)
    new_links = width * (width + 2) if changing else 2 * views.peers.shape[1]
    plain = len(messages.plain_hops) > 0
    timed, plain_timed = len(messages.arrival) > 0, len(messages.plain_arrival) > 0
    while True:
        state = ready(queue)
        if state == EMPTY or (state != SHORT and queue.heap[0, 0] > stop):
            break
        if state == SHORT or room_in(queue) < reserve:
            return WANTS_EVENTS
        if links.at[0] < new_links:
            return WANTS_LINKS
        if count[TRACED] == len(counts.trace) and count[TRACED] > 0:
            return WANTS_TRACE
        if count[WRONG] != FINE:
            return FAILED
        now, slot = queue.heap[0, 0], slot_of(queue.heap[0, 1])
        kind, number = what[slot, 0], what[slot, 2]
        d, a, b = np.int64(what[slot, 1]), np.int64(what[slot, 3]), np.int64(what[slot, 4])
        remove_first(queue)

        if kind <= BROADCAST and (at[SEQUENCE] >= MOST_SCHEDULED or (changing and lives.at[TIMERS] > MOST_TIMERS)):
            count[WRONG] = ENDLESS
            return FAILED
        if kind == TICK:
            if now + every < until:
                schedule(queue, now + every, TICK, 0, 0, a, 0)
            if changing:
                wake(world, now, a)
            else:
                exchange(world, now, a)
            continue
        p, sender, following = np.int64(-1), np.int64(-1), np.int64(-1)
        if kind == BROADCAST:
            p, following = np.int64(plan.node[a]), np.int64(plan.following[a])
            if changing and (not lives.up[p] or lives.going[p] == LEAVES):
                count[IDLE] += 1
                if following >= 0:
                    schedule(queue, plan.at[following], BROADCAST, 0, 0, following, 0)
                continue
            a, b = np.int64(count[BROADCASTS]), np.int64(0)
            count[BROADCASTS] += 1
            messages.origin[a], messages.at[a] = p, now
            if changing:
                lives.before[a], lives.latest[p] = lives.latest[p], a
            kind = np.int32(MESSAGE)
            if plain:
                messages.plain_hops[a, p] = 0
                if plain_timed:
                    messages.plain_arrival[a, p] = now
                for each in range(links.degree[p]):
                    send(queue, links, model, now, links.of[p, each], PLAIN, a, 1)
        elif kind < MESSAGE:
            if kind == FAULT:
                strike(world, now, a)
            elif kind == SEE_OFF:
                see_off(world, now, a)
            elif kind == JOIN_LATE:
                join_late(world, now, a, b)
            elif links.number[d >> 1] == number:
                if kind == SYNC_LATE:
                    sync_late(world, now, d, a)
                elif kind == GIVE_UP:
                    give_up(world, now, d)
            continue
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
                if changing:
                    if sender >= 0:
                        lives.heard[p] = True
                    if lives.before[a] >= 0 and messages.hops[lives.before[a], p] == unheard:
                        count[WRONG] = STRAY  # a gap, which safe links rule out
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
        elif kind == PONG:
            if changing:
                farewell_answered(world, d, b)
            elif pong_arrived(queue, links, messages, counts, model, now, d, b):
                c = d >> 1
                if links.safe[d] and links.by[c] >= 0:
                    succeed(world, now, c)
        elif kind == SYNC:
            if sync_arrived(world, now, d, a, b):
                became_safe(world, now, d ^ 1)
        elif kind == START:
            start_arrived(world, d)
        elif kind == HELLO:
            offered(world, now, p, sender)
        elif kind == FAREWELL and answers_farewells(world, p):
            send(queue, links, model, now, d ^ 1, PONG, 0, b)
    return REACHED if count[WRONG] == FINE else FAILED
