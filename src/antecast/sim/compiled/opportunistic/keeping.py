"""What a node holds, and until when (`protocols.message_cache`, without a limit)."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import inlined_part, part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.opportunistic.arrays import (
    DEADLINE,
    FORGOTTEN,
    HELD,
    LONGEST,
    MOST_SOURCES,
    NEVER,
    NEXT_DEADLINE,
    NEXT_FORGOTTEN,
    PURGE,
    PURGE_AT,
    REACH,
    TIMED,
    TOO_SPREAD,
    World,
)
from antecast.sim.compiled.opportunistic.sending import set_timer
from antecast.sim.compiled.queue import Queue
from antecast.sim.compiled.sets import END, START, add, has, lowest, trim

_PURGE_SHARE = 64
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@inlined_part
def keep(world: World, queue: Queue, now: Whole, local: Whole, p: Whole, m: Whole) -> None:
    """A node has a message from now on."""
    row = world.nodes[p]
    add(world.sets, p, m)
    row[HELD] += 1
    if row[HELD] > world.at[MOST_SOURCES]:
        world.at[REACH] = TOO_SPREAD
    if not world.at[TIMED]:
        return
    deadline = world.messages[m, DEADLINE]
    row[NEXT_DEADLINE] = min(row[NEXT_DEADLINE], deadline)
    row[LONGEST] = max(row[LONGEST], deadline - local)
    if row[PURGE_AT] == NEVER:
        purge_later(world, queue, now, p)


@part
def purge_later(world: World, queue: Queue, now: Whole, p: Whole) -> None:
    """Set the timer at which expired messages are dropped, if nothing happens before."""
    row = world.nodes[p]
    row[PURGE_AT] = NEVER
    if row[NEXT_DEADLINE] < NEVER:
        row[PURGE_AT] = row[NEXT_DEADLINE] + 1 + row[LONGEST] // _PURGE_SHARE
        set_timer(world, queue, now, p, PURGE, row[PURGE_AT])


@inlined_part
def purge(world: World, p: Whole, local: Whole, removed: Whole) -> bool:
    """Drop what has expired, and forget what expired long ago; whether anything was dropped, which goes into a
    set, unless that is -1."""
    row = world.nodes[p]
    if row[NEXT_DEADLINE] >= local and row[NEXT_FORGOTTEN] + row[LONGEST] >= local:
        return False
    return _purge(world, p, local, removed)


@part
def _purge(world: World, p: Whole, local: Whole, removed: Whole) -> bool:
    row = world.nodes[p]
    sets, of, gone = world.sets, world.messages, 2 * len(world.nodes) + p
    changed = False
    if row[NEXT_DEADLINE] < local:
        first = np.int64(NEVER)
        for word in range(sets.of[p, START], sets.of[p, END]):
            bits = sets.words[p, word]
            while bits != _ZERO:
                m = (word << 6) | lowest(bits)
                lowest_bit = bits & (~bits + _ONE)
                bits ^= lowest_bit
                if of[m, DEADLINE] < local:
                    sets.words[p, word] ^= lowest_bit
                    row[HELD] -= 1
                    add(sets, gone, m)
                    row[NEXT_FORGOTTEN] = min(row[NEXT_FORGOTTEN], of[m, DEADLINE])
                    if removed >= 0:
                        add(sets, removed, m)
                    changed = True
                else:
                    first = min(first, of[m, DEADLINE])
        row[NEXT_DEADLINE] = first
        trim(sets, p)
    if row[NEXT_FORGOTTEN] + row[LONGEST] < local:
        first = np.int64(NEVER)
        for word in range(sets.of[gone, START], sets.of[gone, END]):
            bits = sets.words[gone, word]
            while bits != _ZERO:
                m = (word << 6) | lowest(bits)
                lowest_bit = bits & (~bits + _ONE)
                bits ^= lowest_bit
                if of[m, DEADLINE] + row[LONGEST] < local:
                    sets.words[gone, word] ^= lowest_bit
                    row[FORGOTTEN] = max(row[FORGOTTEN], of[m, DEADLINE])
                else:
                    first = min(first, of[m, DEADLINE])
        row[NEXT_FORGOTTEN] = first
        trim(sets, gone)
    return changed


@inlined_part
def never_seen(world: World, p: Whole, m: Whole) -> bool:
    """Whether a message that is not here has surely never been."""
    if world.messages[m, DEADLINE] <= world.nodes[p, FORGOTTEN]:
        return False
    n = len(world.nodes)
    return not (has(world.sets, 2 * n + p, m) or has(world.sets, 3 * n + p, m))
