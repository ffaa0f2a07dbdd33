"""The exchange (`protocols.epidemic`): offers, requests and messages."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.book import BROADCAST, DELIVER, NOTHING, Book, note
from antecast.sim.compiled.cells import NEXT as CELL_NEXT
from antecast.sim.compiled.cells import free_cell, new_cell
from antecast.sim.compiled.clocks import local_time
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.opportunistic.arrays import (
    AFTER,
    ANSWERING,
    ASK,
    ASK_AT,
    ASKED,
    ASKED_LAST,
    BEFORE,
    DEADLINE,
    FIRST,
    LATEST,
    LISTED,
    MADE,
    MEETINGS,
    MESSAGE,
    MOST_NAMED,
    MOST_TOLD,
    NAMED,
    NEXT,
    NODE,
    OFFER,
    OFFERED,
    ORIGIN,
    PATIENCE,
    PAYLOAD,
    PEER,
    REACH,
    REFUSED,
    REQUEST,
    SEQ,
    SIZE,
    STAMP,
    TIMED,
    TOLD,
    TOO_LATE,
    TOO_MANY,
    WITHHELD,
    WITHHELD_LAST,
    World,
)
from antecast.sim.compiled.opportunistic.keeping import keep, never_seen, purge, purge_later
from antecast.sim.compiled.opportunistic.ordering import EXPIRE, accept, carry_out, expire, set_wakeup, stamp
from antecast.sim.compiled.opportunistic.sending import OTHERS, measure, performed, send, send_at_once, set_timer
from antecast.sim.compiled.queue import Queue
from antecast.sim.compiled.sets import (
    END,
    START,
    add,
    copy_set,
    drop,
    free_set,
    has,
    is_empty,
    lowest,
    new_set,
    take_away,
)
from antecast.sim.compiled.sorting import sort_pairs
from antecast.sim.compiled.wire import VERSION_BYTES, message_bytes
from antecast.sim.compiled.workload import Chat

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_G, _C, _K = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xBF58476D1CE4E5B9)
_U30, _SIGN = np.uint64(30), np.uint64(1 << 63)


@inlined_part
def say(world: World, queue: Queue, book: Book, now: Whole, c: Whole) -> None:
    """Tell a peer what is here."""
    p = world.contacts[c, NODE]
    if world.at[TIMED]:
        purge(world, p, local_time(world.clocks, p, now), -1)
    offered = copy_set(world.sets, p)
    _check_length(world, offered)
    send(world, queue, book, now, c, OFFER, offered)


@part
def _check_length(world: World, row: Whole) -> None:
    """Whether one frame can name the messages of a set; the reference would send several."""
    most = world.at[MOST_NAMED]
    if 3 * ((world.sets.of[row, END] - world.sets.of[row, START]) << 6) > most and measure(world, row) > most:
        world.at[REACH] = TOO_MANY


@inlined_part
def compare(world: World, queue: Queue, book: Book, now: Whole, c: Whole, offered: Whole) -> None:
    """A peer has said what it holds: ask for what is new."""
    p, sets = world.contacts[c, NODE], world.sets
    local = local_time(world.clocks, p, now)
    world.contacts[c, OFFERED] = offered
    news = copy_set(sets, offered)
    if world.at[TIMED]:
        removed = new_set(sets)
        if purge(world, p, local, removed):
            _leave_out_known(world, p, news, removed)
        free_set(sets, removed)
    ask(world, queue, book, now, local, c, news)
    free_set(sets, news)


@inlined_part
def _leave_out_known(world: World, p: Whole, news: Whole, removed: Whole) -> None:
    """Of a source that was known here just as it is offered there is no news, though some of it has expired here
    by now. (What is compared is what was known before.)"""
    sets, of = world.sets, world.messages
    for word in range(
        max(sets.of[news, START], sets.of[removed, START]), min(sets.of[news, END], sets.of[removed, END])
    ):
        bits = sets.words[news, word] & sets.words[removed, word]
        while bits != _ZERO:
            m = (word << 6) | lowest(bits)
            bits &= bits - _ONE
            first = m
            while of[first, BEFORE] >= 0:
                first = of[first, BEFORE]
            same, x = True, first
            while x >= 0 and same:
                same = has(sets, news, x) == (has(sets, p, x) or has(sets, removed, x))
                x = of[x, AFTER]
            if same:
                x = first
                while x >= 0:
                    drop(sets, news, x)
                    x = of[x, AFTER]


@inlined_part
def _leave_out_own(world: World, p: Whole, wanted: Whole) -> None:
    """Nobody is asked for this node's own messages, which may have expired here."""
    m = world.nodes[p, LATEST]
    while m >= 0 and m >> 6 >= world.sets.of[wanted, START]:
        drop(world.sets, wanted, m)
        m = world.messages[m, BEFORE]


@part
def _ask_later(world: World, queue: Queue, now: Whole, p: Whole, at: Whole) -> None:
    row = world.nodes[p]
    if at < row[ASK_AT]:
        row[ASK_AT] = at
        set_timer(world, queue, now, p, ASK, at)


@part
def ask(world: World, queue: Queue, book: Book, now: Whole, local: Whole, c: Whole, offered: Whole) -> None:
    """Ask a peer for what it offers, and is not here, and nobody was asked for lately. `offered` stays as it
    is."""
    sets, cells, side = world.sets, world.cells, world.contacts[c]
    p = side[NODE]
    wanted = copy_set(sets, offered)
    take_away(sets, wanted, p)
    if world.at[TIMED]:
        _leave_out_own(world, p, wanted)
    cell = side[ASKED]
    while cell >= 0:
        take_away(sets, wanted, cells.of[cell, 1])
        cell = cells.of[cell, CELL_NEXT]
    if is_empty(sets, wanted):
        free_set(sets, wanted)
        return
    whole, is_asked, until = np.int64(-1), False, np.int64(0)
    other = world.nodes[p, FIRST]
    while other >= 0:
        if other != c:
            cell = world.contacts[other, ASKED]
            while cell >= 0:
                ends = cells.of[cell, 0] + world.at[PATIENCE]
                if local < ends:
                    if whole < 0:
                        whole = copy_set(sets, wanted)
                    if take_away(sets, wanted, cells.of[cell, 1]):
                        until = min(until, ends) if is_asked else ends
                        is_asked = True
                cell = cells.of[cell, CELL_NEXT]
        other = world.contacts[other, NEXT]
    if is_asked:
        take_away(sets, whole, wanted)
        new = new_cell(cells, whole, 0, -1)
        world.nodes[p, LISTED] += 1
        if side[WITHHELD] < 0:
            side[WITHHELD] = new
        else:
            cells.of[side[WITHHELD_LAST], CELL_NEXT] = new
        side[WITHHELD_LAST] = new
        _ask_later(world, queue, now, p, until)
    elif whole >= 0:
        free_set(sets, whole)
    if is_empty(sets, wanted):
        free_set(sets, wanted)
        return
    new = new_cell(cells, local, wanted, -1)
    world.nodes[p, LISTED] += 1
    if side[ASKED] < 0:
        side[ASKED] = new
    else:
        cells.of[side[ASKED_LAST], CELL_NEXT] = new
    side[ASKED_LAST] = new
    _check_length(world, wanted)
    send(world, queue, book, now, c, REQUEST, copy_set(sets, wanted))


@part
def ask_for_withheld(world: World, queue: Queue, book: Book, now: Whole, p: Whole) -> None:
    local = local_time(world.clocks, p, now)
    c = world.nodes[p, FIRST]
    while c >= 0:
        cell = world.contacts[c, WITHHELD]
        world.contacts[c, WITHHELD] = -1
        while cell >= 0:
            offered = world.cells.of[cell, 0]
            cell = free_cell(world.cells, cell)
            world.nodes[p, LISTED] -= 1
            ask(world, queue, book, now, local, c, offered)
            free_set(world.sets, offered)
        c = world.contacts[c, NEXT]


@inlined_part
def hand_over(world: World, queue: Queue, book: Book, now: Whole, c: Whole, wanted: Whole) -> None:
    """Send what a peer asked for, in an order that differs from contact to contact."""
    sets, of, chosen, side = world.sets, world.messages, world.chosen, world.contacts[c]
    p = side[NODE]
    if world.at[TIMED]:
        purge(world, p, local_time(world.clocks, p, now), -1)
    salt = np.uint64((p << 40) ^ (side[PEER] << 20) ^ world.nodes[p, MEETINGS])
    count = 0
    for word in range(max(sets.of[wanted, START], sets.of[p, START]), min(sets.of[wanted, END], sets.of[p, END])):
        bits = sets.words[wanted, word] & sets.words[p, word]
        while bits != _ZERO:
            m = (word << 6) | lowest(bits)
            bits &= bits - _ONE
            z = (np.uint64(of[m, ORIGIN]) * _G) ^ (np.uint64(of[m, SEQ]) * _C) ^ salt
            chosen[count, 0] = np.int64(((z ^ (z >> _U30)) * _K) ^ _SIGN)
            chosen[count, 1] = m
            count += 1
    sort_pairs(chosen, count)
    for each in range(count):
        send_at_once(world, queue, book, now, c, MESSAGE, chosen[each, 1])


@inlined_part
def take(world: World, queue: Queue, book: Book, chat: Chat, now: Whole, c: Whole, m: Whole) -> None:
    """A message has come: keep it, pass it on to all who did not offer it, deliver it when its turn comes."""
    p, row = world.contacts[c, NODE], world.messages[m]
    if has(world.sets, p, m) or row[ORIGIN] == p:
        return
    local = local_time(world.clocks, p, now)
    if row[DEADLINE] < local:
        if never_seen(world, p, m):
            world.nodes[p, REFUSED] += 1
            world.nodes[p, TOLD] += 1
            add(world.sets, 3 * len(world.nodes) + p, m)
            if world.nodes[p, TOLD] > MOST_TOLD:
                world.at[REACH] = TOO_LATE
            world.sent[OTHERS] = 1
            note(book, p, now, EXPIRE, row[ORIGIN], row[SEQ], NOTHING, NOTHING)
        return
    keep(world, queue, now, local, p, m)
    other = world.nodes[p, FIRST]
    while other >= 0:
        if other != c:
            offered = world.contacts[other, OFFERED]
            if offered < 0 or not has(world.sets, offered, m):
                send_at_once(world, queue, book, now, other, MESSAGE, m)
        other = world.contacts[other, NEXT]
    accept(world, p, m, local)
    carry_out(world, queue, book, chat, now, p, m)
    set_wakeup(world, queue, now, p)
    if world.tally[ANSWERING] > 0:
        give_answers(world, queue, book, chat, now, p)


@part
def broadcast(
    world: World, queue: Queue, book: Book, now: Whole, p: Whole, payload: Whole, lifetime: Whole
) -> None:
    performed(world)
    m, latest, local = world.at[MADE], world.nodes[p, LATEST], local_time(world.clocks, p, now)
    row = world.messages[m]
    seq = world.messages[latest, SEQ] + 1 if latest >= 0 else np.int64(1)
    row[ORIGIN], row[SEQ], row[PAYLOAD], row[BEFORE], row[AFTER] = p, seq, payload, latest, -1
    row[STAMP] = row[NAMED] = 0
    if latest >= 0:
        world.messages[latest, AFTER] = m
    world.nodes[p, LATEST] = m
    world.at[MADE] = m + 1
    row[SIZE] = VERSION_BYTES + message_bytes(p, seq, payload, stamp(world, p, m, local, lifetime))
    note(book, p, now, BROADCAST, p, seq, NOTHING, payload)
    keep(world, queue, now, local, p, m)
    c = world.nodes[p, FIRST]
    while c >= 0:
        send(world, queue, book, now, c, MESSAGE, m)
        c = world.contacts[c, NEXT]
    world.sent[OTHERS] = 1
    note(book, p, now, DELIVER, p, seq, NOTHING, payload)
    performed(world)


@part
def give_answers(world: World, queue: Queue, book: Book, chat: Chat, now: Whole, p: Whole) -> None:
    """Broadcast what the application answers, once the effects of a call are done."""
    performed(world)
    for each in range(world.tally[ANSWERING]):
        row = world.lists[ANSWERING, each]
        broadcast(world, queue, book, now, p, chat.payload[row], chat.lifetime[row])
    world.tally[ANSWERING] = 0


@part
def expired(world: World, queue: Queue, book: Book, chat: Chat, now: Whole, p: Whole, local: Whole) -> None:
    """Messages have reached the end of their lifetimes."""
    expire(world, p, local)
    carry_out(world, queue, book, chat, now, p, -1)
    set_wakeup(world, queue, now, p)


@inlined_part
def purge_now(world: World, queue: Queue, book: Book, chat: Chat, now: Whole, p: Whole) -> None:
    """The timer at which expired messages are dropped."""
    local = local_time(world.clocks, p, now)
    purge(world, p, local, -1)
    purge_later(world, queue, now, p)
    expired(world, queue, book, chat, now, p, local)
    give_answers(world, queue, book, chat, now, p)
