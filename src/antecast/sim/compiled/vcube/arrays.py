"""The state of a compiled run of VCube, as arrays: this is where their layout is named.

| letter | stands for | rows of |
|---|---|---|
| p | a node, 0 … n − 1 | `Nodes.*`, `Cube.links` |
| m | a message, in the order in which messages are broadcast | `Messages.of` |
| link | one direction between a node and a child of it, or the root | `Links.of` |
| cell | one entry of a list | `Cells.of` |
| h | a message held back at a node | `Holds.of` |

Of one source, later messages have higher numbers m. So "the last message of a source", as a number m or -1, says
what a count says, and is compared like one: `received` and `delivered` hold these instead of counts, and stamps
name messages, not numbers of a source.

What a node has few of is in one hash table for all nodes, under the node, a message and the kind of thing (`key`):
messages received out of turn (`BEYOND`), lists of messages that wait for a delivery (`EARLY`), messages held back
(`HELD`), and lists of those held back that wait for a reception (`AWAITED`).

A packet is a message, as its number m, or several, as a list of cells: -2 less the first cell.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import part
from antecast.sim.compiled.cells import Cells
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Ints, Longs
from antecast.sim.compiled.table import Table

ORIGIN, SEQ, PAYLOAD, BYTES, BEFORE, AFTER, STAMP, ENTRIES, ABROAD = range(9)
"""Columns of `Messages.of`: source and number; bytes of the payload, and of the whole encoding; the source's
message before and after it, or -1; where its stamp begins and how many entries that has; whether it is on its way
to the root of the single tree."""

MADE, STAMPED = range(2)
"""Places in `Messages.at`: messages so far, and entries of their stamps."""

LATEST, PENDING, CLOCK, BARRIER, HOLDS, TURN, LISTED, BACKLOG = range(8)
"""Columns of `Nodes.of`: the node's own last message, or -1; messages that wait for a delivery; sources of which
something was delivered; entries of the next stamp; messages held back; how many ever were; entries in their lists
of what is missing; bytes of what waits."""

BEYOND, EARLY, HELD, AWAITED = range(4)
"""What is in the table."""

MESSAGE, HEIGHT, LEVEL, MISSING, ORDER = range(5)
"""Columns of `Holds.of`, see `protocols.vcube.holding`; `MISSING` is the first cell of a list, or one of these:"""
NONE_MISSING, NOT_LISTED = -1, -2

SINGLE, AGGREGATE, ROOM, DIMENSION, SIZE, END = range(6)
"""Places in `Cube.rules`; `ROOM` is for the bytes of a packet, `SIZE` is the number of nodes, `END` that of the
run."""

FRAME, PLANNED, ANSWER, SAMPLE = 0, -1, -2, -3
"""What an event is (`Queue.what`): a link, from 0 on, over which a packet arrives; a place of the plan; a row of
the chat and a node; a time to sample the gauges."""


class Cube(NamedTuple):
    """The trees: they do not change while all nodes work."""

    links: Ints
    """For each node, its links to the first node of cluster 1, 2, …, -1 where there is none; then, if there is a
    single tree, its link to the root."""
    rules: Longs


class Messages(NamedTuple):
    of: Longs
    stamps: Ints
    """Source and message, for each entry of each stamp, in the order of the reference."""
    at: Longs


class Nodes(NamedTuple):
    of: Longs
    received: Ints
    """A column for each source: its last message up to which all were received, or -1."""
    delivered: Ints
    """The same for deliveries."""
    changed: NDArray[np.bool_]
    """Whether something of a source was delivered since the node's last broadcast."""
    barrier: Ints
    """The sources of which that is so, in the order in which it became so: the first `BARRIER` entries."""


class Holds(NamedTuple):
    of: Longs
    free: Ints
    """Rows that hold nothing: the first `at[0]` entries."""
    at: Longs


class Scratch(NamedTuple):
    """What lives as long as one event."""

    ready: Ints
    """Messages delivered."""
    parts: Longs
    """Messages to pass on, each with the lowest and the highest child they go to, and their order."""
    listed: Longs
    """What is missing, to be sorted."""
    answers: Ints
    """Rows of the chat that answer."""
    at: Longs
    """Entries of `ready` and of `answers`; frames sent; the last one's link and arrival; how many of them travel
    together with the one before; the link of all, or -1."""


READY, ANSWERS, SENT, LAST_LINK, LAST_ARRIVAL, TOGETHER, ONE_LINK = range(7)
"""Places in `Scratch.at`."""

KEY_BITS: Final = 2
MESSAGE_BITS: Final = 31
MOST_NODES: Final = 1 << 15
"""With more sources the protocol no longer takes all messages."""


class World(NamedTuple):
    """All of it."""

    cube: Cube
    messages: Messages
    nodes: Nodes
    holds: Holds
    table: Table
    cells: Cells
    scratch: Scratch


@part
def key(p: Whole, m: Whole, kind: Whole) -> Whole:
    """Under what the table has something of a node."""
    return (np.int64(p) << (MESSAGE_BITS + KEY_BITS)) | (np.int64(m) << KEY_BITS) | kind
