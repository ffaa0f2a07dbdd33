"""Stamps and deliveries: causal barriers (`protocols.barrier` over `protocols.causal`) and Δ-causal ones
(`protocols.delta`).

Messages to deliver, and those that expired while they waited, are listed in `World.ready` and `World.dropped`;
`carry_out` writes them to the log.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.history.schema import Kind
from antecast.sim.compiled.book import DELIVER, NOTHING, Book, note
from antecast.sim.compiled.cells import NEXT as CELL_NEXT
from antecast.sim.compiled.cells import free_cell
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.opportunistic.arrays import (
    ANSWER,
    ANSWERING,
    AWAITED_FIRST,
    AWAITED_MESSAGE,
    AWAITED_NEXT,
    BARRIER,
    BARRIER_FIRST,
    BARRIER_LAST,
    BEFORE,
    CLOCK,
    CLOCK_BOUND,
    DEADLINE,
    DROPPED,
    EARLY,
    ENTRY,
    ENTRY_KNOWN,
    ENTRY_MESSAGE,
    ENTRY_NEXT,
    ENTRY_PREVIOUS,
    EXPIRIES,
    EXPIRY,
    FORGET_AT,
    KNOWN_FIRST,
    KNOWN_NEXT,
    LAST_DELIVERED,
    LAST_TAG,
    LIFETIME,
    LONGEST_LIFETIME,
    MOST_SOURCES,
    NAMED,
    NAMED_USED,
    NEVER,
    ORDERED,
    ORIGIN,
    PAYLOAD,
    PENDING,
    PRUNED,
    REACH,
    READY,
    SAFE,
    SEQ,
    SHORTEST,
    SOONEST,
    SOURCE_NEXT,
    STAMP,
    TAG_FIRST,
    TAGS,
    TIMED,
    TOO_SPREAD,
    WAITER_FIRST,
    WAITER_LAST,
    WAKE_AT,
    World,
)
from antecast.sim.compiled.opportunistic.sending import OTHERS, schedule, set_timer
from antecast.sim.compiled.opportunistic.waiting import (
    charge,
    clear_expiries,
    end_await,
    find_awaited,
    forget_if_idle,
    hold,
    known_of,
    noted_of,
    tag_of,
    take_all,
    take_waiters,
    weight,
)
from antecast.sim.compiled.pool import give_back, take_row
from antecast.sim.compiled.queue import Queue
from antecast.sim.compiled.sets import add, has
from antecast.sim.compiled.skew import KEY, without_first
from antecast.sim.compiled.skew import WHAT as AWAITED
from antecast.sim.compiled.wire import head_bytes, number_bytes, whole_bytes
from antecast.sim.compiled.workload import Chat, answers, thinking_time

EXPIRE = int(Kind.EXPIRE)

_FORGET_SHARE = 64
_NO_STAMP = 1


# Barriers.


@part
def _leave_out(world: World, p: Whole, entry: Whole) -> None:
    """Take an entry out of a node's barrier."""
    of, node = world.rows.of, world.nodes[p]
    before, after, known = of[entry, ENTRY_PREVIOUS], of[entry, ENTRY_NEXT], of[entry, ENTRY_KNOWN]
    if before < 0:
        node[BARRIER_FIRST] = after
    else:
        of[before, ENTRY_NEXT] = after
    if after < 0:
        node[BARRIER_LAST] = before
    else:
        of[after, ENTRY_PREVIOUS] = before
    node[BARRIER] -= 1
    world.rows.of[known, ENTRY] = -1
    give_back(world.rows, entry)


@part
def _clear_barrier(world: World, p: Whole) -> None:
    node = world.nodes[p]
    while node[BARRIER_FIRST] >= 0:
        known = world.rows.of[node[BARRIER_FIRST], ENTRY_KNOWN]
        _leave_out(world, p, node[BARRIER_FIRST])
        forget_if_idle(world, p, known)


@inlined_part
def _name(world: World, p: Whole, known: Whole, m: Whole) -> None:
    """A node's barrier names a message, where it named an earlier one of its source or at the end."""
    node, of = world.nodes[p], world.rows.of
    entry = world.rows.of[known, ENTRY]
    if entry >= 0:
        if world.messages[of[entry, ENTRY_MESSAGE], SEQ] < world.messages[m, SEQ]:
            of[entry, ENTRY_MESSAGE] = m
        return
    entry = take_row(world.rows)
    of[entry, ENTRY_MESSAGE], of[entry, ENTRY_KNOWN] = m, known
    of[entry, ENTRY_PREVIOUS], of[entry, ENTRY_NEXT] = node[BARRIER_LAST], -1
    if node[BARRIER_LAST] < 0:
        node[BARRIER_FIRST] = entry
    else:
        of[node[BARRIER_LAST], ENTRY_NEXT] = entry
    node[BARRIER_LAST] = entry
    node[BARRIER] += 1
    world.rows.of[known, ENTRY] = entry


@inlined_part
def _name_delivered(world: World, p: Whole, m: Whole) -> None:
    """A message is delivered: the next stamp names it, and where barriers are pruned not what it names."""
    row = world.messages[m]
    if world.at[PRUNED]:
        for each in range(row[STAMP], row[STAMP] + row[NAMED]):
            x = np.int64(world.named[each])
            known = known_of(world, p, world.messages[x, ORIGIN])
            if known >= 0:
                entry = world.rows.of[known, ENTRY]
                if entry >= 0:
                    named = world.rows.of[entry, ENTRY_MESSAGE]
                    if world.messages[named, SEQ] <= world.messages[x, SEQ]:
                        _leave_out(world, p, entry)
                        forget_if_idle(world, p, known)
    known = known_of(world, p, row[ORIGIN])
    _name(world, p, known if known >= 0 else noted_of(world, p, row[ORIGIN]), m)


@part
def stamp(world: World, p: Whole, m: Whole, local: Whole, lifetime: Whole) -> Whole:
    """Stamp a node's own message, which counts as delivered from now on; how many bytes the stamp takes."""
    row, node, of = world.messages[m], world.nodes[p], world.messages
    row[STAMP], row[NAMED], row[DEADLINE] = world.at[NAMED_USED], 0, NEVER
    if not world.at[ORDERED]:
        return np.int64(_NO_STAMP)
    timed = world.at[TIMED]
    wanted = world.at[LIFETIME] if lifetime < 0 else lifetime
    tag, gone = max(local + wanted, node[LAST_TAG] + 1), local
    if world.at[SAFE]:
        gone = min(local, tag - world.at[LONGEST_LIFETIME]) - world.at[CLOCK_BOUND]
    size = np.int64(0)
    entry = node[BARRIER_FIRST]
    while entry >= 0:
        x = world.rows.of[entry, ENTRY_MESSAGE]
        if not timed or of[x, DEADLINE] >= gone:
            world.named[row[STAMP] + row[NAMED]] = x
            row[NAMED] += 1
            size += number_bytes(of[x, ORIGIN]) + whole_bytes(of[x, DEADLINE] if timed else of[x, SEQ])
        entry = world.rows.of[entry, ENTRY_NEXT]
    world.at[NAMED_USED] += row[NAMED]
    if row[NAMED] > world.at[MOST_SOURCES]:
        world.at[REACH] = TOO_SPREAD
    size += head_bytes(row[NAMED])
    _clear_barrier(world, p)
    add(world.sets, len(world.nodes) + p, m)
    if not timed:
        node[CLOCK] += row[SEQ] == 1
        return size
    node[LAST_TAG] = row[DEADLINE] = tag
    node[SHORTEST] = min(node[SHORTEST], wanted)
    known = noted_of(world, p, p)
    _name(world, p, known, m)
    node[CLOCK] += world.rows.of[known, LAST_DELIVERED] < 0
    world.rows.of[known, LAST_DELIVERED] = m
    return size + 1 + whole_bytes(row[DEADLINE])


# Deliveries.


@inlined_part
def accept(world: World, p: Whole, m: Whole, local: Whole) -> None:
    """Take a message in: it is delivered, with those that waited for it, or waits."""
    world.tally[READY] = world.tally[DROPPED] = 0
    if not world.at[ORDERED]:
        _ready(world, m)
        return
    x = _missing(world, p, m, local)
    if x >= 0:
        hold(world, p, m, x)
        charge(world, p, m)
        return
    _ready(world, m)
    if world.at[TIMED]:
        _release_timed(world, p, local, 0)
        if not world.at[SAFE]:  # Code 13: pending messages are looked through after a delivery
            expire(world, p, local)
    else:
        _release(world, p, local)


@inlined_part
def _ready(world: World, m: Whole) -> None:
    world.lists[READY, world.tally[READY]] = m
    world.tally[READY] += 1


@inlined_part
def _drop(world: World, m: Whole) -> None:
    world.lists[DROPPED, world.tally[DROPPED]] = m
    world.tally[DROPPED] += 1


@inlined_part
def _missing(world: World, p: Whole, m: Whole, local: Whole) -> Whole:
    """A message that another has to wait for, or -1."""
    row, of, delivered = world.messages[m], world.messages, len(world.nodes) + p
    if not world.at[TIMED] and row[BEFORE] >= 0 and not has(world.sets, delivered, row[BEFORE]):
        return row[BEFORE]
    for each in range(row[STAMP], row[STAMP] + row[NAMED]):
        x = np.int64(world.named[each])
        if has(world.sets, delivered, x):
            continue
        if not world.at[TIMED]:
            return x
        if of[x, DEADLINE] >= local:
            known = known_of(world, p, of[x, ORIGIN])
            last = world.rows.of[known, LAST_DELIVERED] if known >= 0 else np.int64(-1)
            if last < 0 or of[last, SEQ] < of[x, SEQ]:
                return x
    return np.int64(-1)


@inlined_part
def _release(world: World, p: Whole, local: Whole) -> None:
    """Deliver what is ready, and what waited for it."""
    node, at = world.nodes[p], 0
    while at < world.tally[READY]:  # grows while it is walked
        m = world.lists[READY, at]
        add(world.sets, len(world.nodes) + p, m)
        node[CLOCK] += world.messages[m, SEQ] == 1
        if node[PENDING] > 0:
            _look_again(world, p, take_waiters(world, p, m), local)
        at += 1
    for each in range(world.tally[READY]):
        _name_delivered(world, p, world.lists[READY, each])


@part
def _look_again(world: World, p: Whole, cell: Whole, local: Whole) -> None:
    """Look at messages that waited: each is ready, waits for another, or has expired."""
    while cell >= 0:
        m = world.cells.of[cell, 0]
        cell = free_cell(world.cells, cell)
        world.nodes[p, PENDING] -= 1
        if world.messages[m, DEADLINE] < local:
            _drop(world, m)
            continue
        x = _missing(world, p, m, local)
        if x >= 0:
            hold(world, p, m, x)
        else:
            _ready(world, m)


@part
def _release_timed(world: World, p: Whole, local: Whole, begin: Whole) -> None:
    """Deliver what is ready from a place on, and what waited for it or for an earlier one of its source."""
    node, at, of = world.nodes[p], begin, world.messages
    while at < world.tally[READY]:
        m = world.lists[READY, at]
        origin = of[m, ORIGIN]
        add(world.sets, len(world.nodes) + p, m)
        _name_delivered(world, p, m)
        known = known_of(world, p, origin)
        last = world.rows.of[known, LAST_DELIVERED]
        if last < 0 or of[last, SEQ] < of[m, SEQ]:
            node[CLOCK] += last < 0
            world.rows.of[known, LAST_DELIVERED] = m
        if world.at[SAFE]:
            node[LAST_TAG] = max(node[LAST_TAG], of[m, DEADLINE])
        awaited = world.rows.of[known, TAG_FIRST]
        if awaited >= 0:
            world.tally[TAGS] = 0
            while awaited >= 0:
                x = world.rows.of[awaited, AWAITED_MESSAGE]
                if tag_of(world, x) < of[m, DEADLINE]:
                    world.lists[TAGS, world.tally[TAGS]] = x
                    world.tally[TAGS] += 1
                awaited = world.rows.of[awaited, AWAITED_NEXT]
            _look_again(world, p, take_waiters(world, p, m), local)
            for each in range(world.tally[TAGS]):
                _look_again(world, p, take_waiters(world, p, world.lists[TAGS, each]), local)
        at += 1
    if node[AWAITED_FIRST] < 0:
        clear_expiries(world, p)


@part
def expire(world: World, p: Whole, local: Whole) -> None:
    """Time has passed: what this sets free is delivered, and what has expired is dropped."""
    node, begin = world.nodes[p], world.tally[READY]
    while node[EXPIRIES] >= 0:
        first = world.rows.of[node[EXPIRIES]]
        x = first[AWAITED]
        if first[KEY] >= local and find_awaited(world, p, x) >= 0:
            break
        node[EXPIRIES] = without_first(world.rows, node[EXPIRIES])
        _look_again(world, p, take_waiters(world, p, x), local)
    if not world.at[SAFE] and node[SOONEST] < local:
        _drop_expired(world, p, local)
    if local >= node[FORGET_AT]:
        node[FORGET_AT] = local + world.at[LIFETIME] // _FORGET_SHARE
        _forget_expired(world, p, local)
    _release_timed(world, p, local, begin)


@inlined_part
def _drop_expired(world: World, p: Whole, local: Whole) -> None:
    """Take out messages that wait and have expired."""
    node, of, cells = world.nodes[p], world.rows.of, world.cells.of
    node[SOONEST] = NEVER
    known = node[AWAITED_FIRST]
    while known >= 0:
        following = world.rows.of[known, SOURCE_NEXT]
        awaited = world.rows.of[known, TAG_FIRST]
        while awaited >= 0:
            next_awaited = of[awaited, AWAITED_NEXT]
            cell, of[awaited, WAITER_FIRST] = of[awaited, WAITER_FIRST], -1
            while cell >= 0:
                m, next_cell = cells[cell, 0], cells[cell, CELL_NEXT]
                if world.messages[m, DEADLINE] < local:
                    _drop(world, m)
                    node[PENDING] -= 1
                    free_cell(world.cells, cell)
                else:
                    node[SOONEST] = min(node[SOONEST], world.messages[m, DEADLINE])
                    cells[cell, CELL_NEXT] = -1
                    if of[awaited, WAITER_FIRST] < 0:
                        of[awaited, WAITER_FIRST] = cell
                    else:
                        cells[of[awaited, WAITER_LAST], CELL_NEXT] = cell
                    of[awaited, WAITER_LAST] = cell
                cell = next_cell
            if of[awaited, WAITER_FIRST] < 0:
                end_await(world, p, awaited)
            awaited = next_awaited
        known = following


@inlined_part
def _forget_expired(world: World, p: Whole, local: Whole) -> None:
    """What has expired here needs no entry: nothing that arrives can still depend on it."""
    node, of = world.nodes[p], world.messages
    kept = local
    if world.at[SAFE]:
        kept -= world.at[LONGEST_LIFETIME] + world.at[CLOCK_BOUND] - node[SHORTEST]
    known = node[KNOWN_FIRST]
    while known >= 0:
        row = world.rows.of[known]
        following = row[KNOWN_NEXT]
        if row[LAST_DELIVERED] >= 0 and of[row[LAST_DELIVERED], DEADLINE] < local:
            row[LAST_DELIVERED] = -1
            node[CLOCK] -= 1
        if row[ENTRY] >= 0 and of[world.rows.of[row[ENTRY], ENTRY_MESSAGE], DEADLINE] < kept:
            _leave_out(world, p, row[ENTRY])
        forget_if_idle(world, p, known)
        known = following


@inlined_part
def restart(world: World, p: Whole) -> None:
    """A node recovers with the messages that waited."""
    node = world.nodes[p]
    if not world.at[ORDERED]:
        return
    take_all(world, p)
    node[FORGET_AT], node[SOONEST] = -NEVER, NEVER
    for each in range(world.tally[READY]):
        m = world.lists[READY, each]
        hold(world, p, m, np.int64(-1) if world.at[TIMED] else _missing(world, p, m, 0))
    world.tally[READY] = world.tally[DROPPED] = 0


@inlined_part
def forget_all(world: World, p: Whole) -> None:
    """A node goes for good, and nobody asks any more what it knew."""
    if not world.at[ORDERED]:
        return
    node = world.nodes[p]
    take_all(world, p)
    world.tally[READY] = node[EARLY] = 0
    _clear_barrier(world, p)
    while node[KNOWN_FIRST] >= 0:
        known = node[KNOWN_FIRST]
        world.rows.of[known, LAST_DELIVERED] = -1
        forget_if_idle(world, p, known)


# Effects.


@inlined_part
def carry_out(world: World, queue: Queue, book: Book, chat: Chat, now: Whole, p: Whole, arrived: Whole) -> None:
    """Log what was dropped and what is delivered, of which `arrived` has not waited, and let nodes answer."""
    node = world.nodes[p]
    for each in range(world.tally[DROPPED]):
        m = world.lists[DROPPED, each]
        node[EARLY] -= weight(world, m)
        world.sent[OTHERS] = 1
        note(book, p, now, EXPIRE, world.messages[m, ORIGIN], world.messages[m, SEQ], NOTHING, NOTHING)
    for each in range(world.tally[READY]):
        m = world.lists[READY, each]
        row = world.messages[m]
        if m != arrived:
            node[EARLY] -= weight(world, m)
        world.sent[OTHERS] = 1
        note(book, p, now, DELIVER, row[ORIGIN], row[SEQ], NOTHING, row[PAYLOAD])
        for asked in range(len(chat.start)):
            if answers(chat, asked, p, now):
                if chat.inside[asked]:
                    world.lists[ANSWERING, world.tally[ANSWERING]] = asked
                    world.tally[ANSWERING] += 1
                else:
                    schedule(queue, now + thinking_time(chat, asked, p, now), ANSWER, p, 0, asked)
    world.tally[READY] = world.tally[DROPPED] = 0


@inlined_part
def set_wakeup(world: World, queue: Queue, now: Whole, p: Whole) -> None:
    """Set the timer at which the next awaited message expires."""
    node = world.nodes[p]
    if world.at[TIMED] and world.at[SAFE] and node[EXPIRIES] >= 0:
        wakeup = world.rows.of[node[EXPIRIES], KEY] + 1
        if wakeup < node[WAKE_AT]:
            node[WAKE_AT] = wakeup
            set_timer(world, queue, now, p, EXPIRY, wakeup)
