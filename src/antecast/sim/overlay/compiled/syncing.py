"""Parts of the compiled engine: PC-broadcast whose links are made safe by syncs (`tries = 0`), as `catching_up`
has it where all messages are kept.

A sync tells what a process has. Nobody drops messages here, so that is the beginning of its log, and a number says
it all: how long the log was. Whoever gets it sends the rest of its own log, and its link is safe.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.protocols.preventive.links import SLOWEST
from antecast.sim.compiled.draws import Whole
from antecast.sim.overlay.compiled.arrays import FLUSHED, LEAVES, MARK, STAYS, TIMEOUT, TIMERS, World
from antecast.sim.overlay.compiled.connecting import (
    FAREWELL,
    HELLO,
    JOIN_LATE,
    MESSAGE,
    START,
    SYNC,
    SYNC_LATE,
    find,
    make_safe,
    schedule,
    send,
)


@part
def post(world: World, now: Whole, d: Whole, kind: Whole, a: Whole, b: Whole) -> None:
    """Put a frame on a link."""
    send(world.queue, world.links, world.model, now, d, kind, a, b)


@part
def tell(world: World, now: Whole, d: Whole, want: Whole) -> None:
    """`CatchingUp.tell`: the sender of a link says what it has."""
    post(world, now, d, SYNC, world.messages.logged[world.links.to[d ^ 1]], want)


@part
def attempt(world: World, now: Whole, d: Whole) -> None:
    """`_attempt`: ask for a sync, and again if that takes too long."""
    links, at = world.links, world.lives.at
    tell(world, now, d, 1)
    wait = at[TIMEOUT] << min(np.int64(links.tries[d]), np.int64(SLOWEST))
    links.tries[d] += 1
    at[TIMERS] += 1
    links.alarm[d] = at[TIMERS]
    schedule(world.queue, now + wait, SYNC_LATE, d, links.number[d >> 1], at[TIMERS], 0)


@part
def link_up(world: World, now: Whole, d: Whole, introduced: Whole) -> None:
    """A link has come up at its sender: safe at once without a past, else by a sync."""
    if world.messages.logged[world.links.to[d ^ 1]] == 0:
        make_safe(world.links, d)
        return
    if not introduced:
        post(world, now, d, HELLO, 0, 0)
    attempt(world, now, d)


@part
def link_down(world: World, now: Whole, p: Whole, q: Whole) -> None:
    """The link from p to q has gone; a newcomer that was joining through q asks another."""
    lives = world.lives
    if not lives.up[p]:
        return
    kept = 0
    for at in range(lives.offered[p]):
        if lives.offers[p, at] != q:
            lives.offers[p, kept] = lives.offers[p, at]
            kept += 1
    lives.offered[p] = kept
    if lives.joining[p] == q:
        lives.joining[p] = -1
        if kept > 0:
            offered(world, now, p, lives.offers[p, 0])


@part
def offered(world: World, now: Whole, p: Whole, q: Whole) -> None:
    """`CatchingUp.offered`: q has a past; a newcomer joins through the first who says so."""
    lives = world.lives
    if lives.heard[p]:
        return
    known = False
    for at in range(lives.offered[p]):
        known = known or lives.offers[p, at] == q
    if not known:
        lives.offers[p, lives.offered[p]] = q
        lives.offered[p] += 1
    if lives.joining[p] < 0 or lives.joining[p] == q:
        lives.joining[p] = q
        tell(world, now, find(world.links, p, q), 0)
        lives.at[TIMERS] += 1
        lives.alarm[p] = lives.at[TIMERS]
        schedule(world.queue, now + (lives.at[TIMEOUT] << SLOWEST), JOIN_LATE, 0, 0, p, lives.at[TIMERS])


@part
def join_late(world: World, now: Whole, p: Whole, timer: Whole) -> None:
    """`CatchingUp.join_elsewhere`: who was to help has not answered. Ask the next, or the same again."""
    lives = world.lives
    if not lives.up[p] or lives.alarm[p] != timer:
        return
    lives.alarm[p] = 0
    late = lives.joining[p]
    lives.joining[p] = -1
    found = -1
    for at in range(lives.offered[p]):
        if late >= 0 and lives.offers[p, at] == late:
            found = at
    if found >= 0:
        for at in range(found + 1, lives.offered[p]):
            lives.offers[p, at - 1] = lives.offers[p, at]
        lives.offers[p, lives.offered[p] - 1] = late
        offered(world, now, p, lives.offers[p, 0])


@part
def sync_late(world: World, now: Whole, d: Whole, timer: Whole) -> None:
    links = world.links
    if world.lives.up[links.to[d ^ 1]] and links.alarm[d] == timer:
        links.alarm[d] = 0
        if not links.safe[d]:
            attempt(world, now, d)


@part
def sync_arrived(world: World, now: Whole, d: Whole, length: Whole, want: Whole) -> bool:
    """`_sync_arrived`, over link d; whether the link back has become safe."""
    links, messages, lives = world.links, world.messages, world.lives
    mine, p, q = d ^ 1, np.int64(links.to[d]), np.int64(links.to[d ^ 1])
    is_new = not links.safe[mine]
    if is_new:
        post(world, now, mine, START, 0, 0)
        lives.at[MARK] += 1
        mark = lives.at[MARK]
        for at in range(length):
            lives.covered[messages.log[q, at]] = mark
        for at in range(messages.logged[p]):
            m = messages.log[p, at]
            if lives.covered[m] != mark:
                post(world, now, mine, MESSAGE, m, messages.hops[m, p] + 1)
                world.counts.of[FLUSHED] += 1
        make_safe(links, mine)
        links.tries[mine], links.alarm[mine] = 0, 0
        if lives.going[p] == LEAVES:
            bid_farewell(world, now, mine)
    elif not want:
        post(world, now, mine, START, 0, 0)
    if want:
        others = False
        for at in range(length):
            if messages.origin[messages.log[q, at]] != p:
                others = True
                break
        if others and not lives.heard[p]:
            offered(world, now, p, q)
        elif lives.joining[p] < 0:
            tell(world, now, mine, 0)
    return is_new


@part
def start_arrived(world: World, d: Whole) -> None:
    """`CatchingUp.started`: a newcomer has joined."""
    links, lives = world.links, world.lives
    p = links.to[d]
    if lives.joining[p] == links.to[d ^ 1]:
        lives.joining[p], lives.offered[p], lives.alarm[p] = -1, 0, 0


@part
def bid_farewell(world: World, now: Whole, d: Whole) -> None:
    """`Pings.farewell`: has all arrived that went before?"""
    links, messages = world.links, world.messages
    p = links.to[d ^ 1]
    messages.pings[p] += 1
    links.ping[d] = messages.pings[p]
    post(world, now, d, FAREWELL, 0, messages.pings[p])


@part
def farewell_answered(world: World, d: Whole, number: Whole) -> None:
    links = world.links
    if links.ping[d ^ 1] == number:
        links.ping[d ^ 1] = 0
        world.lives.owes[links.to[d]] = False


@part
def answers_farewells(world: World, p: Whole) -> bool:
    """Not if it is leaving itself: it may not pass on what came before."""
    return bool(world.lives.going[p] == STAYS)
