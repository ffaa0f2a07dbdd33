"""Parts of the compiled engine: frames, connections and ping phases, as links, hosts and PC-broadcast have them.

Where the order of two steps decides which random number is drawn by whom, or which event comes first, it is that
of the reference; the comments name the place.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Model, Whole, child, delay
from antecast.sim.compiled.queue import Queue, new_event
from antecast.sim.overlay.compiled.arrays import (
    FLUSHED,
    LONGEST,
    NARROW,
    PINGS,
    STRAY,
    WRONG,
    Counts,
    Links,
    Messages,
)  # fmt: skip

TICK, BROADCAST, FAULT, SEE_OFF, JOIN_LATE, SYNC_LATE, GIVE_UP = range(7)
MESSAGE, PLAIN, PING, RELAY, PONG, HELLO, SYNC, START, FAREWELL = range(7, 16)
"""Kinds of event, and what their last two numbers are.

Without a link: TICK (process, -), BROADCAST (place in the plan, -), FAULT (its row, -), SEE_OFF (process, -),
JOIN_LATE (process, number of the timer). Of a link, if it is still there: SYNC_LATE (number of the timer, -),
GIVE_UP (-, -). Frames: MESSAGE and PLAIN (message, hops so far), PING (target, number of the ping), RELAY (origin,
number), PONG (-, number), HELLO (-, -), SYNC (length of the sender's log, whether it wants the same in return),
START (-, -), FAREWELL (-, number). A ping goes to the introducer, who relays it to its target."""


@part
def schedule(queue: Queue, time: Whole, kind: Whole, link: Whole, number: Whole, a: Whole, b: Whole) -> None:
    at = new_event(queue, time)
    row = queue.what[at] if at >= 0 else queue.wheel.what[-1 - at]
    row[0], row[1], row[2], row[3], row[4] = kind, link, number, a, b


@part
def send(queue: Queue, links: Links, model: Model, now: Whole, d: Whole, kind: Whole, a: Whole, b: Whole) -> None:
    """Put a frame on a link that keeps order (`Link.send`)."""
    links.drawn[d] += 1
    arrives = now + delay(model, links.key[d], links.drawn[d], now)
    if arrives < links.last[d]:
        arrives = links.last[d]
    links.last[d] = arrives
    schedule(queue, arrives, kind, d, links.number[d >> 1], a, b)


@part
def find(links: Links, p: Whole, q: Whole) -> Whole:
    """The link from p to q, or -1."""
    for at in range(links.degree[p]):
        if links.ends[p, at] == q:
            return np.int64(links.of[p, at])
    return np.int64(-1)


@part
def connect(links: Links, counts: Counts, a: Whole, b: Whole, key: np.uint64, number: Whole) -> Whole:
    """A new connection, with nothing sent over it yet; -1 if there is no room at one of its ends."""
    width = links.of.shape[1]
    if links.degree[a] == width or links.degree[b] == width:
        counts.of[WRONG] = NARROW
        return np.int64(-1)
    links.at[0] -= 1
    c = np.int64(links.free[links.at[0]])
    links.number[c], links.by[c], links.arcs[c], links.holds[c] = number, -1, 0, 0
    links.stranger[c] = False
    for side in range(2):
        d = 2 * c + side
        p, q = (a, b) if side == 0 else (b, a)
        links.to[d] = q
        links.key[d] = child(child(child(key, p), q), number)
        links.drawn[d], links.last[d], links.safe[d], links.ping[d] = 0, 0, False, 0
        links.tries[d], links.alarm[d], links.joins[d] = 0, 0, False
        links.of[p, links.degree[p]], links.ends[p, links.degree[p]] = d, q
        links.degree[p] += 1
    return c


@part
def make_safe(links: Links, d: Whole) -> None:
    p = links.to[d ^ 1]
    links.safe[d] = True
    links.usable[p, links.usable_degree[p]] = d
    links.usable_degree[p] += 1


@part
def safe_both_ways(links: Links, d: Whole) -> bool:
    """Whether there is a link, and both it and the one back are safe."""
    return bool(d >= 0 and links.safe[d] and links.safe[d ^ 1])


@part
def unlink(links: Links, c: Whole) -> None:
    """A connection goes down; what is in flight on it is lost, since its number is gone."""
    for side in range(2):
        d = 2 * c + side
        p = links.to[d ^ 1]
        kept = 0
        for at in range(links.degree[p]):
            if links.of[p, at] != d:
                links.of[p, kept], links.ends[p, kept] = links.of[p, at], links.ends[p, at]
                kept += 1
        links.degree[p] = kept
        kept = 0
        for at in range(links.usable_degree[p]):
            if links.usable[p, at] != d:
                links.usable[p, kept] = links.usable[p, at]
                kept += 1
        links.usable_degree[p] = kept
    links.number[c] = 0
    links.free[links.at[0]] = c
    links.at[0] += 1


@part
def come_up(
    queue: Queue, links: Links, messages: Messages, counts: Counts, model: Model, now: Whole, d: Whole, by: Whole
) -> None:
    """One end of a new connection: safe at once without a past, else pinged through `by` (`link_up`)."""
    p = links.to[d ^ 1]
    if messages.logged[p] == 0:
        make_safe(links, d)
        return
    way = find(links, p, by)
    if way < 0 or not links.safe[way]:
        counts.of[WRONG] = STRAY
        return
    messages.pings[p] += 1
    links.ping[d] = messages.pings[p]
    links.start[d] = messages.logged[p]
    counts.of[PINGS] += 1
    send(queue, links, model, now, way, PING, links.to[d], messages.pings[p])


@part
def pong_arrived(
    queue: Queue, links: Links, messages: Messages, counts: Counts, model: Model, now: Whole, d: Whole, ping: Whole
) -> bool:
    """Rule 3 of PC-broadcast for the link that a pong came back on, the other way; whether it is safe now."""
    mine = d ^ 1
    if links.safe[mine] or links.ping[mine] != ping:
        return False
    p = links.to[d]
    for at in range(links.start[mine], messages.logged[p]):
        m = messages.log[p, at]
        send(queue, links, model, now, mine, MESSAGE, m, messages.hops[m, p] + 1)
        counts.of[FLUSHED] += 1
    make_safe(links, mine)
    if now - links.since[mine >> 1] > counts.of[LONGEST]:
        counts.of[LONGEST] = now - links.since[mine >> 1]
    return True
