"""Parts of the compiled engine: views and exchanges, as `spray` has them, for a network without faults."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Model, Whole, below, child, mix
from antecast.sim.overlay.compiled.arrays import (
    EXCHANGES,
    IDLE,
    NARROW,
    STRAY,
    WRONG,
    Counts,
    Links,
    Messages,
    Queue,
    Views,
)
from antecast.sim.overlay.compiled.connecting import close_if_unneeded, find, introduce


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
def move_arc(links: Links, views: Views, counts: Counts, u: Whole, v: Whole, at: Whole) -> None:
    """`SprayOverlay._move`: an arc of u's becomes v's, who has a connection for it."""
    peer, age, name = views.peers[u, at], views.ages[u, at], views.names[u, at]
    remove_arc(views, u, at)
    c = find(links, u, peer) >> 1
    links.arcs[c] -= 1
    close_if_unneeded(links, counts, c)
    add_arc(views, counts, v, peer, age, name)
    links.arcs[find(links, v, peer) >> 1] += 1


@part
def succeed(links: Links, views: Views, counts: Counts, c: Whole) -> None:
    """`SprayOverlay._succeed`: a connection is safe both ways; the arc lent for it is given."""
    u, v, y = links.by[c], links.to[2 * c + 1], links.to[2 * c]
    links.by[c] = -1
    at = 0
    while at < views.sizes[u] and not (views.peers[u, at] == y and views.lent[u, at]):
        at += 1
    if at == views.sizes[u]:
        counts.of[WRONG] = STRAY
        return
    move_arc(links, views, counts, u, v, at)
    for end in (v, y):
        held = find(links, u, end) >> 1
        links.holds[held] -= 1
        close_if_unneeded(links, counts, held)


@part
def choose(
    links: Links, views: Views, counts: Counts, side: Whole, p: Whole, partner: Whole, most: Whole, key: np.uint64
) -> Whole:
    """Names of the arcs that p gives, drawn from those it may give; how many."""
    count = 0
    for at in range(views.sizes[p]):
        if at != partner and not views.lent[p, at]:
            c = find(links, p, views.peers[p, at]) >> 1
            if not (links.safe[2 * c] and links.safe[2 * c + 1]):
                counts.of[WRONG] = STRAY
            if links.holds[c] == 0:
                views.left[count] = at
                count += 1
    mine = child(key, p)
    chosen = min(most, count)
    for k in range(chosen):
        views.drawn[p] += 1
        pick = below(mix(mine, np.uint64(views.drawn[p])), count)
        views.chosen[side, k] = views.names[p, views.left[pick]]
        count -= 1
        views.left[pick] = views.left[count]
    return chosen


@part
def exchange(
    queue: Queue,
    links: Links,
    views: Views,
    messages: Messages,
    counts: Counts,
    model: Model,
    spray_key: np.uint64,
    delay_key: np.uint64,
    now: Whole,
    p: Whole,
) -> None:
    """`SprayOverlay._exchange`."""
    partner = -1
    for at in range(views.sizes[p]):
        views.ages[p, at] += 1
        if not views.lent[p, at] and (partner < 0 or views.ages[p, at] > views.ages[p, partner]):
            partner = at
    if partner < 0:
        counts.of[IDLE] += 1
        return
    counts.of[EXCHANGES] += 1
    counts.exchanges[p] += 1
    q = np.int64(views.peers[p, partner])
    given = choose(links, views, counts, 0, p, partner, (views.sizes[p] + 1) // 2 - 1, spray_key)
    taken = choose(links, views, counts, 1, q, -1, (views.sizes[q] + 1) // 2, spray_key)
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
            if d >= 0 and links.safe[d] and links.safe[d ^ 1]:
                move_arc(links, views, counts, u, v, at)
            elif d < 0:
                c = introduce(queue, links, messages, counts, model, delay_key, now, u, v, y)
                if c < 0:
                    return
                views.lent[u, at] = True
                if links.safe[2 * c] and links.safe[2 * c + 1]:
                    succeed(links, views, counts, c)
