"""The state of the compiled engine: processes, connections, views, messages and events as arrays.

Nothing here allocates while a run goes on: the engine stops when room gets short, `roomier` gives it more, and it
goes on. Columns that would be fields of an object are arrays; an object is an index.

A connection c is two links: 2c from the process that borrows to its new neighbour, 2c + 1 back. So the other
direction of link d is d ^ 1, and its sender is `to[d ^ 1]`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]

SLOT_BITS: Final = 24
"""Of an event's order: which entry holds what the event is; the rest counts what was scheduled."""

SIZE, SEQUENCE, FREE = 0, 1, 2
"""Places in `Queue.at`."""

UNHEARD: Final = 255
"""The hops of a message that has not arrived. None takes as many: that would be a path, not an overlay."""


class Queue(NamedTuple):
    """Events to come."""

    heap: Longs
    """(time, order), the first on top."""
    what: Ints
    """Kind of event, link, number of its connection, and two more numbers."""
    free: Ints
    """Entries of `what` that hold nothing, the first `at[FREE]` of them."""
    at: Longs


class Links(NamedTuple):
    """Connections, and the links of each process in the order in which they came up."""

    to: Ints
    key: NDArray[np.uint64]
    """The stream of a link's delays, and how often it was drawn from."""
    drawn: Ints
    last: Longs
    """When the last frame arrives that was sent over a link: none overtakes it."""
    safe: Bools
    ping: Ints
    """The number of the ping that is to make a link safe, and where its sender's log ended."""
    start: Ints
    number: Ints
    """Of a connection: it names the random streams; 0 where there is none."""
    by: Ints
    """Of a connection that is not safe both ways: who lends the arc for it; -1 once it is."""
    arcs: Ints
    holds: Ints
    since: Longs
    free: Ints
    """Connections that are none, the first `at[0]` of them; `at[1]` is the last number given."""
    at: Longs
    of: Ints
    """Links of each process, all and those that are safe, each in the order in which they became so."""
    degree: Ints
    usable: Ints
    usable_degree: Ints


class Views(NamedTuple):
    """The arcs that each process holds."""

    peers: Ints
    ages: Ints
    lent: Bools
    names: Longs
    """Every arc has one, so that it can be found again when others have moved."""
    sizes: Ints
    drawn: Longs
    """How often each process has drawn from its stream."""
    left: Ints
    """Of one exchange: the arcs still to choose from, and those chosen on each side, by name."""
    chosen: Longs


class Messages(NamedTuple):
    """Broadcasts, and where they have got to."""

    origin: Ints
    hops: Bytes
    """Of PC-broadcast, a row a message; `UNHEARD` where it has not arrived."""
    plain_hops: Bytes
    """Of R-broadcast, if it flows beside; else without rows."""
    arrival: Longs
    plain_arrival: Longs
    """When; without rows unless wanted."""
    log: Ints
    """What each process has delivered, in order."""
    logged: Ints
    pings: Ints


class Counts(NamedTuple):
    """What a run has counted so far; see `COUNTS`."""

    of: Longs
    exchanges: Ints
    """Those that each process has started."""
    trace: Longs
    """Frames received (time, process, sender, message or -1), if wanted: `of[TRACED]` of them."""


COUNTS: Final = (
    "frames", "exchanges", "idle", "broadcasts", "lost", "opened", "pings", "flushed", "longest", "traced",
    "wrong",
)  # fmt: skip
FRAMES, EXCHANGES, IDLE, BROADCASTS, LOST, OPENED, PINGS, FLUSHED, LONGEST, TRACED, WRONG = range(len(COUNTS))
"""Frames delivered; exchanges; times that a process found no partner; broadcasts; frames lost with their
connection; connections opened; ping phases begun; messages sent from buffers; the longest ping phase;
rows of the trace; what went wrong."""

FINE, NARROW, STRAY = 0, 1, 2
"""What went wrong: nothing; a process had more links or arcs than the arrays are wide; a connection was not
where it had to be."""


def make_queue(room: int) -> Queue:
    free = np.arange(room, dtype=np.int32)[::-1].copy()
    return Queue(np.empty((room, 2), np.int64), np.zeros((room, 5), np.int32), free, np.array([0, 0, room]))


_EACH_WAY: Final = {
    "to": np.int32, "key": np.uint64, "drawn": np.int32, "last": np.int64, "safe": np.bool_, "ping": np.int32,
    "start": np.int32,
}  # fmt: skip
_EACH: Final = {"number": np.int32, "by": np.int32, "arcs": np.int32, "holds": np.int32, "since": np.int64}
"""Columns with an entry a link, and with one a connection."""


def make_links(nodes: int, room: int, width: int) -> Links:
    columns: dict[str, Any] = {name: np.zeros(2 * room, kind) for name, kind in _EACH_WAY.items()}
    columns |= {name: np.zeros(room, kind) for name, kind in _EACH.items()}
    for name in ("of", "usable"):
        columns[name] = np.zeros((nodes, width), np.int32)
    for name in ("degree", "usable_degree"):
        columns[name] = np.zeros(nodes, np.int32)
    return Links(**columns, free=np.arange(room, dtype=np.int32)[::-1].copy(), at=np.array([room, 1]))


def roomier_queue(queue: Queue) -> Queue:
    """The same events, with room for twice as many."""
    room = len(queue.heap)
    if 2 * room > 1 << SLOT_BITS:
        raise MemoryError(f"more than {1 << SLOT_BITS} events wait at once; simulate fewer processes or messages")
    more = make_queue(2 * room)
    more.heap[:room], more.what[:room], more.at[:] = queue.heap, queue.what, queue.at
    _refill(queue.free, more.free, more.at, FREE, room)
    return more


def roomier_links(links: Links) -> Links:
    """The same connections, with room for twice as many."""
    room = len(links.number)
    columns: dict[str, NDArray[Any]] = {name: getattr(links, name) for name in (*_EACH_WAY, *_EACH)}
    grown: dict[str, Any] = {
        name: np.concatenate([column, np.zeros_like(column)]) for name, column in columns.items()
    }
    free, at = np.empty(2 * room, np.int32), links.at.copy()
    _refill(links.free, free, at, 0, room)
    return links._replace(**grown, free=free, at=at)


def _refill(old: Ints, new: Ints, at: Longs, place: int, room: int) -> None:
    left = int(at[place])
    new[:room] = np.arange(2 * room - 1, room - 1, -1)
    new[room : room + left] = old[:left]
    at[place] = room + left
