"""Parts of the compiled engine: processes that join, leave and crash, and what their neighbours do about it, as
`spray` and the engine have it.

Nobody who is down comes back. So a connection that a fault broke never opens again, and how many arcs still lead
over it makes no difference.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole, below, child, mix, uniform, wide_below
from antecast.sim.overlay.compiled.arrays import (
    CRASH,
    EVERY,
    GONE,
    JOIN,
    LEAVES,
    MARK,
    PHASE,
    SPRAY,
    STAYS,
    UNTIL,
    UPS,
    World,
)
from antecast.sim.overlay.compiled.connecting import SEE_OFF, TICK, find, safe_both_ways, schedule, unlink
from antecast.sim.overlay.compiled.exchanging import (
    close_if_unneeded,
    exchange,
    introduce,
    lent_arc,
    note_last,
    open_connection,
    release,
    remove_arc,
    succeed,
    take,
)
from antecast.sim.overlay.compiled.remembering import (
    forget,
    owed_in_all,
    part_from,
    place_of,
    recall,
    remember,
    turn,
)
from antecast.sim.overlay.compiled.syncing import bid_farewell, link_down

FAREWELL_LASTS, LOOK = 10 * 10**9, 10**7
"""How long a leaving process may take to say goodbye, and how often it is checked meanwhile."""


@part
def bits(world: World, p: Whole) -> np.uint64:
    """The next draw of a process."""
    world.views.drawn[p] += 1
    return mix(child(world.keys[SPRAY], p), np.uint64(world.views.drawn[p]))


# Faults.


@part
def strike(world: World, now: Whole, row: Whole) -> None:
    """`Engine._fault`."""
    lives = world.lives
    kind, p, contact = lives.faults[row, 0], lives.faults[row, 1], lives.faults[row, 2]
    if kind == CRASH:
        if lives.known[p] and lives.up[p]:
            stop(world, now, p)
    elif kind == JOIN:
        if not lives.known[p]:
            join(world, now, p, contact)
    elif lives.known[p] and lives.up[p] and lives.going[p] == STAYS:
        lives.going[p], lives.until[p] = LEAVES, now + FAREWELL_LASTS
        lives.owes[p] = world.messages.logged[p] > 0
        for at in range(world.links.usable_degree[p]):
            bid_farewell(world, now, world.links.usable[p, at])
        see_off(world, now, p)
    else:
        be_gone(world, now, p)


@part
def see_off(world: World, now: Whole, p: Whole) -> None:
    """`Engine._see_off`: a process that leaves stops once a neighbour has all that it had, or after a while."""
    lives = world.lives
    if not lives.owes[p] or now >= lives.until[p] or not lives.up[p]:
        lives.going[p] = STAYS
        be_gone(world, now, p)
    else:
        schedule(world.queue, min(now + LOOK, lives.until[p]), SEE_OFF, 0, 0, p, 0)


@part
def be_gone(world: World, now: Whole, p: Whole) -> None:
    """`Engine._gone`: for good; its arcs are nobody's. Those that it has lent are kept for the borrowers, in a row
    of negative size."""
    lives, views = world.lives, world.views
    if not lives.known[p] or lives.going[p] != STAYS:
        return
    if lives.up[p]:
        stop(world, now, p)
    lives.going[p] = GONE
    lives.losses[p], lives.meetings[p], lives.surplus[p] = 0, 0, 0
    views.sizes[p] = -views.sizes[p]


@part
def stop(world: World, now: Whole, p: Whole) -> None:
    """`Engine._stop`: its connections break, in the order of their other ends."""
    links, lives = world.links, world.lives
    lives.up[p] = False
    lives.at[UPS] -= 1
    while links.degree[p] > 0:
        first = links.of[p, 0]
        for at in range(1, links.degree[p]):
            if links.to[links.of[p, at]] < links.to[first]:
                first = links.of[p, at]
        break_off(world, now, np.int64(first))


@part
def break_off(world: World, now: Whole, d: Whole) -> None:
    """`Engine._disconnect` by a fault, and `SprayOverlay.broke`; d is the link of the process that is down."""
    links, lives, views = world.links, world.lives, world.views
    c = d >> 1
    a, b = np.int64(links.to[d ^ 1]), np.int64(links.to[d])
    by, stranger = np.int64(links.by[c]), links.stranger[c]
    v, y = np.int64(links.to[2 * c + 1]), np.int64(links.to[2 * c])
    was_needed = links.arcs[c] > 0 or links.holds[c] > 0
    a_joins, b_joins = links.joins[d], links.joins[d ^ 1]
    unlink(links, c)
    link_down(world, now, a, b)
    link_down(world, now, b, a)
    if by >= 0:
        abandon(world, now, by, v, y, stranger)
    for side in range(2):
        p, q = (a, b) if side == 0 else (b, a)
        if was_needed:
            recall(lives, p)
        else:
            part_from(lives, p, q)
        if a_joins if side == 0 else b_joins:
            if lives.up[p]:  # the contact is gone: the newcomer needs another
                for at in range(views.sizes[p] - 1, -1, -1):
                    if views.peers[p, at] == q:
                        remove_arc(views, p, at)
                seek(world, now, p, -1, True)
        else:
            note_last(world, p, q)


@part
def abandon(world: World, now: Whole, u: Whole, v: Whole, y: Whole, stranger: Whole) -> None:
    """`SprayOverlay._give_up`: v and y are not linked, or have not become safe in time."""
    if stranger:
        stand_in(world, u, y)
    else:
        at = lent_arc(world.views, u, y)
        if at >= 0:
            world.views.lent[u, at] = False
    d = find(world.links, v, y)
    if d >= 0:
        close_if_unneeded(world, now, d)
    release(world, now, u, v)
    release(world, now, u, y)


@part
def give_up(world: World, now: Whole, d: Whole) -> None:
    """The patience with a new connection has ended."""
    links, c = world.links, d >> 1
    u = np.int64(links.by[c])
    if u >= 0:
        links.by[c] = -1
        abandon(world, now, u, np.int64(links.to[2 * c + 1]), np.int64(links.to[2 * c]), links.stranger[c])


# Newcomers, and those who have lost all neighbours.


@part
def join(world: World, now: Whole, p: Whole, contact: Whole) -> None:
    """`SprayOverlay.join`."""
    lives, every = world.lives, world.rules[EVERY]
    lives.known[p], lives.up[p] = True, True
    lives.at[UPS] += 1
    first = now + wide_below(mix(child(world.keys[PHASE], p), np.uint64(1)), max(np.int64(1), every))
    if every > 0 and first < world.rules[UNTIL]:
        schedule(world.queue, first, TICK, 0, 0, p, 0)
    seek(world, now, p, contact, True)


@part
def seek(world: World, now: Whole, p: Whole, contact: Whole, forward: Whole) -> None:
    """`SprayOverlay._seek`: link with a contact, a random one by default; it then tells others of a newcomer."""
    links, lives = world.links, world.lives
    if contact < 0 or not lives.up[contact]:
        if lives.at[UPS] < 2:
            return
        contact = present(world, p, below(bits(world, p), lives.at[UPS] - 1))
    c = open_connection(world, now, p, contact, -1)
    if c < 0:
        return
    take(world, p, contact)
    if owed_in_all(lives, p) > 0:
        lives.surplus[p] += 1  # what it had will come back too
    if forward:
        d = find(links, p, contact)
        if safe_both_ways(links, d):
            tell_others(world, now, p, contact)
        else:
            links.joins[d] = True


@part
def present(world: World, p: Whole, place: Whole) -> Whole:
    """Of the processes that are up, p aside, the one at a place."""
    up = world.lives.up
    q = np.int64(0)
    while q == p or not up[q] or place > 0:
        if q != p and up[q]:
            place -= 1
        q += 1
    return q


@part
def tell_others(world: World, now: Whole, p: Whole, contact: Whole) -> None:
    """`SprayOverlay._forward`: the contact tells its neighbours, and stands in for those it cannot tell."""
    links, views, told = world.links, world.views, world.lives.told
    count = max(np.int64(1), np.int64(views.sizes[contact]))
    told[0] = p
    for at in range(views.sizes[contact]):
        told[at] = views.peers[contact, at]
    for at in range(count):
        x = np.int64(told[at])
        if x != p and safe_both_ways(links, find(links, contact, x)) and find(links, x, p) < 0:
            if introduce(world, now, contact, x, p, -1) < 0:
                return
        else:
            stand_in(world, contact, p)


@part
def stand_in(world: World, p: Whole, peer: Whole) -> None:
    if world.lives.up[p] and find(world.links, p, peer) >= 0:
        take(world, p, peer)


@part
def became_safe(world: World, now: Whole, d: Whole) -> None:
    """`SprayOverlay.became_safe`: a link is safe now; if the one back is too, what waited for that goes on."""
    links = world.links
    if not links.safe[d ^ 1]:
        return
    if links.by[d >> 1] >= 0:
        succeed(world, now, d >> 1)
    for side in range(2):
        e = d ^ side
        if links.joins[e]:
            links.joins[e] = False
            tell_others(world, now, np.int64(links.to[e ^ 1]), np.int64(links.to[e]))


# Exchanges.


@part
def wake(world: World, now: Whole, p: Whole) -> None:
    """`SprayOverlay._tick` of a process that may have lost some of its neighbours."""
    if world.lives.up[p]:
        forget_unreachable(world, p)
        look_for_the_lost(world, now, p)
        if world.views.sizes[p] == 0 and world.links.degree[p] == 0:
            seek(world, now, p, -1, False)
        exchange(world, now, p)


@part
def forget_unreachable(world: World, p: Whole) -> None:
    links, views, lives = world.links, world.views, world.lives
    size, losses = views.sizes[p], 0
    for at in range(size):
        if not views.lent[p, at] and find(links, p, views.peers[p, at]) < 0:
            lives.told[losses] = views.peers[p, at]
            losses += 1
    if losses == 0:
        return
    for at in range(size - 1, -1, -1):
        if not views.lent[p, at] and find(links, p, views.peers[p, at]) < 0:
            remove_arc(views, p, at)
    known = views.sizes[p]
    for k in range(losses):
        owed = 0
        if lives.surplus[p] > 0:
            lives.surplus[p] -= 1
        elif known > 0 and uniform(bits(world, p)) > 1.0 / size:
            take(world, p, np.int64(views.peers[p, below(bits(world, p), known)]))
        else:
            owed = 1
        remember(lives, p, lives.told[k], owed)


@part
def look_for_the_lost(world: World, now: Whole, p: Whole) -> None:
    """Try one of those that p has lost; if it has no neighbour left, all of them, until one is there."""
    links, lives = world.links, world.lives
    trials = min(np.int64(1), np.int64(lives.losses[p])) if links.degree[p] > 0 else np.int64(lives.losses[p])
    for _ in range(trials):
        peer = np.int64(turn(lives, p))
        place = place_of(lives, p, peer)
        is_linked = find(links, p, peer) >= 0
        if lives.owed[p, place] == 0 and (is_linked or are_close(world, p, peer)):
            forget(lives, p, place)  # there is a way to it already
            return
        if is_linked or lives.up[peer]:
            if not is_linked and open_connection(world, now, p, peer, -1) < 0:
                return
            owed = forget(lives, p, place)
            lives.surplus[p] += owed == 0
            for _ in range(max(1, owed)):
                take(world, p, peer)
            return


@part
def are_close(world: World, p: Whole, peer: Whole) -> bool:
    """Whether the two have a process in common among themselves, neighbours and neighbours' neighbours."""
    links, seen = world.links, world.lives.seen
    world.lives.at[MARK] += 1
    mark = world.lives.at[MARK]
    for side in range(2):
        root = p if side == 0 else peer
        for i in range(-1, links.degree[root]):
            y = root if i < 0 else np.int64(links.ends[root, i])
            for j in range(-1, links.degree[y]):
                z = y if j < 0 else np.int64(links.ends[y, j])
                if side == 0:
                    seen[z] = mark
                elif seen[z] == mark:
                    return True
    return False
