"""The state of a compiled run of opportunistic exchange, as arrays: this is where their layout is named.

| letter | stands for | rows of |
|---|---|---|
| p, q | a node, 0 … n − 1 | `World.nodes`, `World.clocks`, the first n of `World.ports` |
| m, x | a message, in the order in which messages are broadcast | `World.messages`; a bit of every set |
| c | one side of a contact: c of the node, c ^ 1 of its peer | `World.contacts`, and n + c of `World.ports` |
| row | a set of messages | `World.sets` |
| known | what a node knows of a source | `World.rows` |
| entry | a message that a node's barrier names | `World.rows` |
| awaited | a message that others wait for at a node, and they | `World.rows` |
| cell | one entry of a list | `World.cells` |

A set has a bit for each message. Node p has row p, of what it holds; with an order, row n + p, of what it has
delivered; with lifetimes, row 2 n + p, of what has expired there lately, and row 3 n + p, of what had expired
before it came. Offers and requests are copies on their
way; then what a peer offered belongs to the contact, and so does what a peer was asked for and what others were
asked for instead. Every set has one owner, who gives it back.

A stamp is a list of messages: the source and the number of each, or its deadline, are what is encoded.

Sides of contacts are used again after the contact has ended. What is still under way then is told apart by the
serial number of the contact.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.sim.compiled.cells import Cells
from antecast.sim.compiled.pool import Pool
from antecast.sim.compiled.queue import Ints, Longs
from antecast.sim.compiled.sets import Sets
from antecast.sim.compiled.table import Table

NEVER: Final = 1 << 62
"""After every time that a clock shows; instead of a time that is not set."""
LONG_AGO: Final = -(1 << 62) - 1
"""Before every time that a clock shows."""

ORIGIN, SEQ, PAYLOAD, BEFORE, AFTER, SIZE, DEADLINE, STAMP, NAMED = range(9)
"""Columns of `World.messages`: source and number; bytes of the payload; the source's message before and after it,
or -1; bytes of its encoding; until when it lives; where in `World.named` its stamp begins and how many messages it
names."""

(
    HOST, UP, GONE, SAVED, ARRIVALS, GROUP, MEETINGS, FIRST, LAST, SIDES, LISTED, WANTED, WANTS, GENERATION,
    LATEST, HELD, REFUSED, TOLD, ASK_AT, PURGE_AT, WAKE_AT, LONGEST, NEXT_DEADLINE, NEXT_FORGOTTEN, FORGOTTEN,
    PENDING, EARLY, CLOCK, BARRIER, BARRIER_FIRST, BARRIER_LAST, AWAITED_FIRST, AWAITED_LAST, KNOWN_FIRST,
    LAST_TAG, EXPIRIES, SOONEST, FORGET_AT, SHORTEST, TIMERS,
) = range(40)  # fmt: skip
"""Columns of `World.nodes`.

- Whether it has ever been there; is there; is gone for good; has crashed and may recover; how often it has
  appeared; its group in a partition.
- How many contacts it has had; its first and its last side of a contact, or -1, and how many it has; entries in
  the lists of these; the list of the nodes that it should be in contact with, and how many they are; how many
  timers it has set.
- Its own last message, or -1; how many messages it holds, has refused since it last appeared, and has ever refused
  because they came too late; when it asks again, drops what has expired, looks what has expired among those that
  wait; the longest time that a message had to live here; the first deadline of what it holds, and of what has
  expired here; the last deadline of what it has forgotten.
- How many messages wait, and about how many bytes they take; of how many sources it knows the last delivery;
  entries of its barrier, the first and the last; the first and the last message awaited (`barrier`) or source of
  such (`delta`); the first source that it knows.
- The largest tag of its past; the queue of tags that are awaited; no message that waits expires before this; when
  entries that have expired are next looked for; the shortest lifetime that a message of its own had.
- From the last column on, the timer that each of the three times belongs to, by its number, or -1."""

ASK, PURGE, EXPIRY = range(3)
"""The timers."""

NODE_COLUMNS: Final = TIMERS + 3

(
    NODE, PEER, SERIAL, OFFERED, ASKED, ASKED_LAST, WITHHELD, WITHHELD_LAST, NEXT, PREVIOUS, DRAWN, LOSSES,
    ARRIVES, QUEUED,
) = range(14)  # fmt: skip
"""Columns of `World.contacts`: the node and its peer; the number of the contact; the set that the peer offered, or
-1; lists of what it was asked for (when, and a set) and of what others were asked for instead (a set); the sides
before and after it at its node; how often delays and losses were drawn for frames to the peer, and when the last
arrives; how many frames to the peer wait to be sent."""

FREE_AT, ON_AIR, WAKES_AT, QUEUE_FIRST, QUEUE_LAST, WAITING = range(6)
"""Columns of `World.ports`: when the frame on the air will have been sent, and its side, or -1; when the next one
is sent, or -1; the first and the last frame that waits; how many do, without those whose contact has ended."""

FRAME_NEXT, FRAME_SIDE, FRAME_SERIAL, FRAME_WHAT, FRAME_WHICH, FRAME_SIZE = range(6)
"""Columns of `World.frames`, which wait to be sent: the next one; its side and contact; what it is; its bytes."""

KNOWN_NEXT, KNOWN_PREVIOUS, SOURCE, LAST_DELIVERED, ENTRY, TAG_FIRST, TAG_LAST, SOURCE_NEXT, SOURCE_PREVIOUS = (
    range(9)
)
"""Columns of what is known of a source: the node's next and previous; the source, its last message delivered and
its entry in the barrier, each or -1; the first and the last of its messages that are awaited, or -1, and the next
and previous source of which there are any."""

ENTRY_NEXT, ENTRY_PREVIOUS, ENTRY_MESSAGE, ENTRY_KNOWN = range(4)
"""Columns of an entry, of barriers: the next and the previous one; the message; what is known of its
source."""

AWAITED_NEXT, AWAITED_PREVIOUS, AWAITED_MESSAGE, WAITER_FIRST, WAITER_LAST, AWAITED_KNOWN = range(6)
"""Columns of what is awaited: the next and the previous of its list; the message, or -1 where all are looked at
again at once; the list of those that wait for it; what is known of its source."""

(
    MESSAGE, OFFER, REQUEST, PLANNED, TICK, TIMER, WAKE, ANSWER, APPEAR, CRASH, RECOVER, LEAVE, MEET, PART, LINK,
    PARTITION, HEAL, SAMPLE,
) = range(18)  # fmt: skip
"""What an event is: a frame over a side of a contact, with a message or a set; a broadcast of the plan; the next
broadcast since a node's arrival; a node's timer, with its number; a port that sends its next frame; an answer;
what the trace or a fault says; a time to sample."""

WHAT, SIDE, NUMBER, WHICH = range(4)
"""Columns of `Queue.what`."""

LINKED, BROKEN, KNOWN, AWAITED = range(4)
"""What the table has: for two nodes their contact, and how many have ended; for a node what it knows of a source,
and who waits for a message there."""

(
    PATIENCE, FIFO, BANDWIDTH, PER_LINK, ORDERED, TIMED, SAFE, PRUNED, CLOCK_BOUND, LIFETIME, LONGEST_LIFETIME,
    ROOM_FOR_EARLY, MEASURED, EVERYTHING, MOST_NAMED, MOST_SOURCES, PARTED, FRAMES_LOST, MADE, NAMED_USED, SERIALS,
    HOSTS, REACH, HORIZON, STEPS,
) = range(25)  # fmt: skip
"""Places in `World.at`. Settings: patience; whether links keep order; bits per second, or 0, and whether each link
has its own queue; whether there is an order, are lifetimes, is the safe rule, are barriers pruned; how far clocks
may be apart; a lifetime, and the longest; bytes of early messages; whether the bytes of frames matter; whether
frames are logged; sources and numbers that an offer can name; messages that a node may hold, and name in a stamp,
before more sources could be among them than a stamp can name.
The run: whether there is a partition; frames lost; messages, entries of stamps, contacts and nodes so far; why the
reference has to make the run, if it has to; its end; how many events were made."""

IN_REACH, TOO_EARLY, TOO_MANY, TOO_LATE, TOO_SPREAD, TOO_LONG = range(6)
"""Why not: more early messages than one neighbour may send; more held than one offer can name; more messages that
had expired before they came than are remembered; perhaps more sources than a stamp can name; more contacts, or
timers of a node, than there are numbers for."""

MOST_TOLD: Final = 1 << 16
"""So many messages that came too late are remembered."""

MOST_NUMBERED: Final = (1 << 31) - 1
"""So many contacts of all nodes, and timers of one, have numbers: an event has 32 bits for them."""

FAULT_AT, FAULT_WHAT, FAULT_ONE, FAULT_OTHER, FAULT_NEXT = range(5)
"""Columns of the script, of what traces and faults do: when, what, with whom, and which line is scheduled then."""


class World(NamedTuple):
    messages: Longs
    named: Ints
    nodes: Longs
    clocks: Longs
    order: Ints
    """The nodes, in the order in which they appeared."""
    contacts: Longs
    keys: NDArray[np.uint64]
    """For each side the streams of delays and losses."""
    free: Ints
    """Pairs of sides that are free: the first `room[0]`."""
    room: Longs
    ports: Longs
    frames: Pool
    sets: Sets
    table: Table
    cells: Cells
    rows: Pool
    """Of four kinds: what nodes know of sources, entries of barriers, what is awaited, and queues of tags
    (`skew`)."""
    purposes: NDArray[np.uint64]
    models: NDArray[np.float64]
    losses: NDArray[np.uint64]
    counts: Ints
    """Scratch: for each source, the ends of runs in an offer or a request."""
    sources: Ints
    """Scratch: the sources that have any."""
    chosen: Longs
    """Scratch: messages to hand over, with the keys that sort them."""
    lists: Longs
    """Scratch, four lists: messages to deliver; those that expired while they waited; messages of a source that
    are awaited; answers to what is being delivered."""
    tally: Longs
    """How many there are in each."""
    sent: Longs
    """Of one event: frames sent; the last one's side and arrival; how many travel with the one before; the side of
    all, or -1; whether there was anything else."""
    at: Longs


READY, DROPPED, TAGS, ANSWERING = range(4)
"""The lists."""
