"""Parts of the compiled engine: arcs, introductions and exchanges, as `spray` has them."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole, below, child, mix
from antecast.sim.overlay.compiled.arrays import (
    DELAY,
    ENDLESS,
    EXCHANGES,
    IDLE,
    MOST_CONNECTIONS,
    NAMES,
    NARROW,
    OPENED,
    PATIENCE,
    SPRAY,
    STRAY,
    WRONG,
    Counts,
    Views,
    World,
)
from antecast.sim.overlay.compiled.connecting import (
    GIVE_UP,
    come_up,
    connect,
    find,
    safe_both_ways,
    schedule,
    unlink,
)
from antecast.sim.overlay.compiled.remembering import part_from, remember
from antecast.sim.overlay.compiled.syncing import link_down, link_up


@part
def lives_change(world: World) -> bool:
    """Whether processes come and go, or links are made safe by syncs: then more has to be kept in mind."""
    return len(world.lives.up) > 0


# Arcs, and the connections that they need.


@part
def remove_arc(views: Views, p: Whole, at: Whole) -> None:
    for after in range(at + 1, views.sizes[p]):
        views.peers[p, after - 1] = views.peers[p, after]
        views.ages[p, after - 1] = views.ages[p, after]
        views.lent[p, after - 1] = views.lent[p, after]
        views.names[p, after - 1] = views.names[p, after]
    views.sizes[p] -= 1


@part
def add_arc(views: Views, counts: Counts, p: Whole, peer: Whole, age: Whole, name: Whole) -> None:
    at = views.sizes[p]
    if at == views.peers.shape[1]:
        counts.of[WRONG] = NARROW
        return
    views.peers[p, at], views.ages[p, at], views.lent[p, at], views.names[p, at] = peer, age, False, name
    views.sizes[p] += 1


@part
def need(world: World, p: Whole, peer: Whole) -> None:
    """One arc more needs the connection, if there is one."""
    d = find(world.links, p, peer)
    if d >= 0:
        world.links.arcs[d >> 1] += 1


@part
def take(world: World, p: Whole, peer: Whole) -> None:
    """`SprayOverlay._take`: a new arc."""
    world.lives.at[NAMES] += 1
    add_arc(world.views, world.counts, p, peer, 0, world.lives.at[NAMES])
    need(world, p, peer)


@part
def close_if_unneeded(world: World, now: Whole, d: Whole) -> None:
    """The overlay closes a connection that neither an arc nor a hold needs; d is the link of the process that
    does so."""
    links, c = world.links, d >> 1
    if links.arcs[c] < 0 or links.holds[c] < 0:
        world.counts.of[WRONG] = STRAY
    if links.arcs[c] > 0 or links.holds[c] > 0:
        return
    a, b = np.int64(links.to[d ^ 1]), np.int64(links.to[d])
    if lives_change(world):
        if links.by[c] >= 0 or links.joins[d] or links.joins[d ^ 1]:
            world.counts.of[WRONG] = STRAY
        unlink(links, c)
        link_down(world, now, a, b)
        link_down(world, now, b, a)
        for side in range(2):
            p, q = (a, b) if side == 0 else (b, a)
            part_from(world.lives, p, q)
            note_last(world, p, q)
    else:
        unlink(links, c)


@part
def note_last(world: World, p: Whole, q: Whole) -> None:
    """A process without arcs and links remembers its last neighbour, to whom it had no arc."""
    if world.lives.up[p] and world.views.sizes[p] == 0 and world.links.degree[p] == 0:
        remember(world.lives, p, q, 0)


@part
def drop(world: World, now: Whole, p: Whole, peer: Whole) -> None:
    """One arc less needs the connection. Of one that broke nobody keeps count: one end of it is down for good."""
    d = find(world.links, p, peer)
    if d >= 0:
        world.links.arcs[d >> 1] -= 1
        close_if_unneeded(world, now, d)


@part
def release(world: World, now: Whole, p: Whole, peer: Whole) -> None:
    """One ping phase less runs over the connection."""
    d = find(world.links, p, peer)
    if d >= 0:
        world.links.holds[d >> 1] -= 1
        close_if_unneeded(world, now, d)


@part
def move_arc(world: World, now: Whole, u: Whole, v: Whole, at: Whole) -> None:
    """`SprayOverlay._move`: an arc of u's becomes v's, who has a connection for it."""
    views = world.views
    peer, age, name = np.int64(views.peers[u, at]), views.ages[u, at], views.names[u, at]
    if views.sizes[u] > 0:  # not if u has left meanwhile
        remove_arc(views, u, at)
        drop(world, now, u, peer)
    add_arc(views, world.counts, v, peer, age, name)
    need(world, v, peer)


@part
def lent_arc(views: Views, u: Whole, y: Whole) -> Whole:
    """The arc that u has lent to somebody who is to be linked with y; -1 for none."""
    for at in range(abs(views.sizes[u])):
        if views.peers[u, at] == y and views.lent[u, at]:
            return at
    return -1


# Introductions: connections on the way to being safe.


@part
def open_connection(world: World, now: Whole, a: Whole, b: Whole, by: Whole) -> Whole:
    """`Network.connect`: its number is used up even if the two are linked already; -1 if there is no room."""
    links, counts = world.links, world.counts
    if links.at[1] >= MOST_CONNECTIONS:
        counts.of[WRONG] = ENDLESS
        return np.int64(-1)
    links.at[1] += 1
    d = find(links, a, b)
    if d >= 0:
        return d >> 1
    c = connect(links, counts, a, b, world.keys[DELAY], links.at[1])
    if c < 0:
        return c
    counts.of[OPENED] += 1
    links.since[c] = now
    for side in range(2):
        if lives_change(world):
            link_up(world, now, 2 * c + side, by >= 0)
        else:
            come_up(world.queue, links, world.messages, counts, world.model, now, 2 * c + side, by)
    return c


@part
def introduce(world: World, now: Whole, by: Whole, a: Whole, b: Whole, at: Whole) -> Whole:
    """Open a connection between two neighbours of `by` and hold the two that its pings go over; -1 if there is no
    room. The arc that `by` lends for it is the one at a place of its view; -1 if b is a stranger to a."""
    links = world.links
    c = open_connection(world, now, a, b, by)
    if c < 0:
        return c
    links.by[c], links.stranger[c] = by, at < 0
    links.holds[find(links, by, a) >> 1] += 1
    links.holds[find(links, by, b) >> 1] += 1
    if at >= 0:
        world.views.lent[by, at] = True
    if safe_both_ways(links, 2 * c):
        succeed(world, now, c)
    elif lives_change(world):
        schedule(world.queue, now + world.lives.at[PATIENCE], GIVE_UP, 2 * c, links.number[c], 0, 0)
    return c


@part
def succeed(world: World, now: Whole, c: Whole) -> None:
    """`SprayOverlay._succeed`: a connection is safe both ways; the arc lent for it is given."""
    links, views = world.links, world.views
    u, v, y = np.int64(links.by[c]), np.int64(links.to[2 * c + 1]), np.int64(links.to[2 * c])
    links.by[c] = -1
    if links.stranger[c]:
        take(world, v, y)
    else:
        at = lent_arc(views, u, y)
        if at < 0:
            world.counts.of[WRONG] = STRAY
            return
        move_arc(world, now, u, v, at)
    release(world, now, u, v)
    release(world, now, u, y)


# Exchanges.


@part
def choose(world: World, side: Whole, p: Whole, partner: Whole, most: Whole) -> Whole:
    """Names of the arcs that p gives, drawn from those it may give; how many."""
    links, views = world.links, world.views
    count = 0
    for at in range(views.sizes[p]):
        if at != partner and not views.lent[p, at]:
            d = find(links, p, views.peers[p, at])
            if not safe_both_ways(links, d):
                if not lives_change(world):
                    world.counts.of[WRONG] = STRAY
            elif links.holds[d >> 1] == 0:
                views.left[count] = at
                count += 1
    mine = child(world.keys[SPRAY], p)
    chosen = min(most, count)
    for k in range(chosen):
        views.drawn[p] += 1
        pick = below(mix(mine, np.uint64(views.drawn[p])), count)
        views.chosen[side, k] = views.names[p, views.left[pick]]
        count -= 1
        views.left[pick] = views.left[count]
    return chosen


@part
def exchange(world: World, now: Whole, p: Whole) -> None:
    """`SprayOverlay._exchange`."""
    links, views, counts = world.links, world.views, world.counts
    partner = -1
    for at in range(views.sizes[p]):
        views.ages[p, at] += 1
        older = not views.lent[p, at] and (partner < 0 or views.ages[p, at] > views.ages[p, partner])
        if older and (not lives_change(world) or safe_both_ways(links, find(links, p, views.peers[p, at]))):
            partner = at
    if partner < 0:
        counts.of[IDLE] += 1
        return
    counts.of[EXCHANGES] += 1
    counts.exchanges[p] += 1
    q = np.int64(views.peers[p, partner])
    given = choose(world, 0, p, partner, (views.sizes[p] + 1) // 2 - 1)
    taken = choose(world, 1, q, -1, (views.sizes[q] + 1) // 2)
    turned = views.names[p, partner]
    remove_arc(views, p, partner)
    add_arc(views, counts, q, p, 0, turned)
    for side in range(2):
        u, v = (p, q) if side == 0 else (q, p)
        for k in range(given if side == 0 else taken):
            name = views.chosen[side, k]
            at = 0
            while views.names[u, at] != name:
                at += 1
            y = np.int64(views.peers[u, at])
            if y == v:
                remove_arc(views, u, at)
                add_arc(views, counts, v, u, 0, name)
                continue
            d = find(links, v, y)
            if safe_both_ways(links, d):
                move_arc(world, now, u, v, at)
            elif d < 0 and introduce(world, now, u, v, y, at) < 0:
                return
