"""The state of a compiled run of epidemic exchange, as arrays: this is where their layout is named.

| letter | stands for | rows of |
|---|---|---|
| p, q | a node, 0 … n − 1 | `Nodes.of`, and the first n of `Sets.words` |
| m | a message, in the order in which messages are broadcast | `Messages.of`; a bit of every set |
| c | one side of a contact: c of the node, c ^ 1 of its peer | `Contacts.of` |
| row | a set of messages | `Sets.words` |
| cell | one entry of a list | `Cells.of` |

A set has a bit for each message. A node has one, of what it holds. Offers and requests are copies on their way;
then what a peer offered belongs to the contact, and so does what a peer was asked for and what others were asked
for instead. Every set has one owner, who gives it back.

Sides of contacts are used again after the contact has ended. What is still under way then is told apart by the
serial number of the contact.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.sim.compiled.cells import Cells
from antecast.sim.compiled.queue import Ints, Longs
from antecast.sim.compiled.table import Table

ORIGIN, SEQ, PAYLOAD, BEFORE, AFTER = range(5)
"""Columns of `Messages.of`: source and number; bytes of the payload; the source's message before and after it."""

UP, LATEST, HELD, MEETINGS, FIRST, LAST, ASK_AT, GENERATION = range(8)
"""Columns of `Nodes.of`: whether it is there; its own last message, or -1; how many messages it holds; how many
contacts it has had; its first and its last side of a contact, or -1; when it asks again, or -1, and the number of
the timer for that."""

NODE, PEER, SERIAL, OFFERED, ASKED, ASKED_LAST, WITHHELD, WITHHELD_LAST, NEXT, PREVIOUS, DRAWN, LOSSES, ARRIVES = (
    range(13)
)
"""Columns of `Contacts.of`: the node and its peer; the number of the contact; the set that the peer offered, or
-1; lists of what it was asked for (when, and a set) and of what others were asked for instead (a set); the sides
before and after it at its node; how often delays and losses were drawn for frames to the peer, and when the last
arrives."""

MESSAGE, OFFER, REQUEST, PLANNED, TICK, TIMER, APPEAR, LEAVE, MEET, PART, SAMPLE = range(11)
"""What an event is: a frame over a side of a contact, with a message or a set; a broadcast of the plan; the next
broadcast since a node's arrival; a node's timer, with its number; what the trace says; a time to sample."""

WHAT, SIDE, NUMBER, WHICH = range(4)
"""Columns of `Queue.what`."""

LINKED, WANTED, BROKEN = range(3)
"""What the table has for a pair of nodes: their contact; that they should have one; how many have ended."""

PATIENCE, FIFO, FRAMES_LOST, MADE, SERIALS, HOSTS, EVERYTHING = range(7)
"""Places in `World.at`: a setting of the protocol and one of links; frames lost; messages, contacts and nodes so
far; whether frames are logged."""

MOST_NAMED: Final = 1 << 16
"""Sources and numbers that one offer can name."""


class Sets(NamedTuple):
    words: NDArray[np.uint64]
    length: Ints
    """Words of each set that count: the others are empty."""
    free: Ints
    at: Longs
    """How many rows are free."""


class World(NamedTuple):
    messages: Longs
    nodes: Longs
    order: Ints
    """The nodes, in the order in which they appeared."""
    contacts: Longs
    keys: NDArray[np.uint64]
    """For each side the streams of delays and losses."""
    free: Ints
    """Pairs of sides that are free: the first `room[0]`."""
    room: Longs
    sets: Sets
    table: Table
    cells: Cells
    purposes: NDArray[np.uint64]
    models: NDArray[np.float64]
    losses: NDArray[np.uint64]
    counts: Ints
    """Scratch: for each source, the ends of runs in a request."""
    chosen: Longs
    """Scratch: messages to hand over, with the keys that sort them."""
    sent: Longs
    """Of one event: frames sent; the last one's side and arrival; how many travel with the one before; the side of
    all, or -1; whether there was anything else."""
    at: Longs
