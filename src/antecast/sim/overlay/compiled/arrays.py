"""The state of the compiled engine, as arrays: this is where their layout is named.

What would be an object is a row number here, and its fields are columns. There are six groups of arrays
(`Queue`, `Links`, `Views`, `Messages`, `Lives`, `Counts`), and a row is one of these:

| letter | stands for | rows of |
|---|---|---|
| p, q, u, v, y | a process, 0 … n − 1 | `views.*`, `links.of`, `messages.log`, … |
| c | a connection between two processes | `links.number`, `by`, `stranger`, `arcs`, `holds`, `since` |
| d | a link, one direction of a connection | `links.to`, `key`, `drawn`, `last`, `safe`, `ping`, `start`, … |
| m | a message, in the order in which messages are broadcast | `messages.hops`, `origin`, `at`, … |
| slot | what an event is, while it waits | `queue.what` |

A connection c is the two links 2c, from the process that borrows an arc to its new neighbour, and 2c + 1 back. So
the other direction of link d is d ^ 1, its connection is d >> 1, and its sender is `to[d ^ 1]`. Rows of
connections are used again after they close; what is still under way on them is told apart by `number`.

The queue is that of all compiled engines (`sim.compiled.queue`). A row of its `what` is the kind of an event, a
link, the number of the link's connection when the event was scheduled, and two numbers whose meaning depends on
the kind (`connecting` lists the kinds).

What a frame needs of a connection lies together: 64 bytes, one line of the processor's cache (`_EACH_WAY`,
`_EACH`). The columns are views of that.

Nothing here is allocated while a kernel runs: it stops when room gets short, `with_room` or `roomier_links`
gives it more, and it continues.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.sim.compiled.draws import Model
from antecast.sim.compiled.queue import Queue, refill
from antecast.sim.overlay.memory import KEPT, MET

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Shorts: TypeAlias = NDArray[np.int16]
Hops: TypeAlias = NDArray[np.uint8] | NDArray[np.int32]

MOST_CONNECTIONS: Final = (1 << 31) - 1
"""Connections opened in one run: their numbers are 32 bits wide in `Queue.what`."""

MOST_ROWS: Final = 1 << 30
"""Connections at once: a link's row is 32 bits wide."""

UNHEARD: Final = 255
"""The hops of a message that has not arrived, where hops are bytes (see `Messages.unheard`)."""


class Links(NamedTuple):
    """Connections, their links, and the links of each process."""

    # A row for each link.
    to: Ints
    """Its receiver."""
    key: NDArray[np.uint64]
    """The stream of its delays."""
    drawn: Ints
    """How often a delay was drawn from that stream."""
    last: Longs
    """When the last frame arrives that was sent over it: none overtakes that one."""
    safe: Bools
    """Whether PC-broadcast uses it."""
    ping: Ints
    """The number of the ping that is to make it safe; with syncs, of its sender's farewell."""
    start: Ints
    """How long its sender's log was when that ping was sent: what came later is sent once the link is safe."""
    tries: Ints
    """How often its sender has asked for a sync since it came up."""
    alarm: Ints
    """The number of the timer after which it asks again; 0 if there is none."""
    joins: Bools
    """Whether its sender is a newcomer whom the receiver will introduce to others once both ways are safe."""
    # A row for each connection.
    number: Ints
    """Counts connections in the order of opening, those of the start are 1. It names the random streams; 0 where
    there is no connection in this row."""
    by: Ints
    """Until it is safe both ways: the process that lends the arc for it. Then -1."""
    stranger: Bools
    """Whether it is for a newcomer: no arc is lent, the process at its first end will get a new one."""
    arcs: Shorts
    """How many arcs need it, in either direction."""
    holds: Shorts
    """How many ping phases of others run over it."""
    since: Longs
    """When it was opened."""
    free: Ints
    """Rows that hold no connection: the first `at[0]` entries."""
    at: Longs
    """Two counters: free rows, and the last number that was given to a connection."""
    # A row for each process, as wide as the most links a process may have.
    of: Ints
    """Its links, in the order in which they came up: the first `degree` entries."""
    ends: Ints
    """Their receivers."""
    degree: Ints
    usable: Ints
    """Those that are safe, in the order in which they became so: the first `usable_degree` entries."""
    usable_degree: Ints


class Views(NamedTuple):
    """The arcs that each process holds: the first `sizes[p]` entries of row p, in the order of the reference."""

    peers: Ints
    ages: Ints
    lent: Bools
    names: Longs
    """Every arc has one, so that it can be found again when others have moved."""
    sizes: Ints
    drawn: Longs
    """How often each process has drawn from its stream."""
    left: Ints
    """Scratch of one exchange: the arcs still to choose from."""
    chosen: Longs
    """Scratch of one exchange: the names of those chosen, a row for each side."""


class Lives(NamedTuple):
    """Processes that come, go and lose each other, in runs whose links are made safe by syncs (`syncing`); without
    rows in others."""

    up: Bools
    known: Bools
    """Whether a process has appeared."""
    going: NDArray[np.int8]
    """`STAYS`, `LEAVES` or `GONE`: one that leaves is up until the others have let it go."""
    until: Longs
    """How long it waits for that at most."""
    owes: Bools
    """Whether nobody is known yet to have all that it had."""
    heard: Bools
    """Whether it has a message of another."""
    joining: Ints
    """The neighbour through whom it is joining; -1 for none."""
    alarm: Ints
    """The number of the timer after which it asks another; 0 if there is none."""
    offers: Ints
    """Neighbours with a past, while it has none: the first `offered` entries of its row, in order."""
    offered: Ints
    lost: Ints
    """Those it has lost touch with, in the order in which it will try them: the first `losses` entries of its row
    (`overlay.memory`)."""
    owed: Ints
    """How many arcs to each of them were let go."""
    losses: Ints
    met: Ints
    """Its last neighbours that were given away: the first `meetings` entries of its row."""
    meetings: Ints
    surplus: Ints
    """Arcs made beyond those owed, and not paid for yet."""
    seen: Ints
    """Scratch: a mark for each process."""
    covered: Ints
    """Scratch: a mark for each message."""
    told: Ints
    """Scratch: the processes that a contact tells of a newcomer, or that a process gives up."""
    before: Ints
    """For each planned broadcast, by message: the message of its origin before it; -1 for none."""
    latest: Ints
    """The last message of each process; -1 for none."""
    faults: Longs
    """What happens to whom: rows of kind, process and contact (-1: a random one)."""
    at: Longs
    """Counters and rules: `TIMERS` … `PATIENCE`."""


TIMERS, NAMES, MARK, UPS, TIMEOUT, PATIENCE = range(6)
"""Places in `Lives.at`: timers set so far; arcs named so far; the last mark in a scratch column; processes that
are up; how long a sync may take; how long a new connection may take to become safe."""

STAYS, LEAVES, GONE = range(3)

CRASH, LEAVE, JOIN = range(3)
"""Kinds of fault."""


class Plan(NamedTuple):
    """The broadcasts that the workloads will make, each known by its place in the plan (`broadcasts`)."""

    at: Longs
    node: Ints
    following: Ints
    """The broadcast that is scheduled when this one has been made; -1 for none."""
    first: Ints
    """Those that are scheduled at the start, in this order."""


class Messages(NamedTuple):
    """Messages, and where they have got to."""

    origin: Ints
    at: Longs
    """When each was broadcast."""
    hops: Hops
    """Of PC-broadcast: a row for each message, a column for each process; `unheard` where it has not arrived."""
    plain_hops: Hops
    """Of R-broadcast, if it flows beside; else without rows."""
    arrival: Longs
    """When it arrived by PC-broadcast, laid out as `hops`; without rows unless asked for."""
    plain_arrival: Longs
    log: Ints
    """A row for each process: the messages it has delivered, in order, the first `logged` entries."""
    logged: Ints
    pings: Ints
    """How many pings each process has sent."""
    unheard: int
    """The largest number that `hops` can hold."""


class Counts(NamedTuple):
    """What a run has counted so far."""

    of: Longs
    """See `COUNTS`."""
    exchanges: Ints
    """Those that each process has started."""
    trace: Longs
    """Frames received (time, process, sender, message or -1), if asked for: the first `of[TRACED]` rows."""


class World(NamedTuple):
    """All of it, for the parts of a kernel."""

    queue: Queue
    links: Links
    views: Views
    messages: Messages
    plan: Plan
    lives: Lives
    counts: Counts
    model: Model
    keys: NDArray[np.uint64]
    """Of the random streams: exchanges, delays, first exchanges (`SPRAY`, `DELAY`, `PHASE`)."""
    rules: Longs
    """`EVERY`: between two exchanges; `UNTIL`: when exchanges end."""


SPRAY, DELAY, PHASE = range(3)
EVERY, UNTIL = range(2)

COUNTS: Final = (
    "frames", "exchanges", "idle", "broadcasts", "lost", "opened", "pings", "flushed", "longest", "traced",
    "wrong",
)  # fmt: skip
FRAMES, EXCHANGES, IDLE, BROADCASTS, LOST, OPENED, PINGS, FLUSHED, LONGEST, TRACED, WRONG = range(len(COUNTS))
"""Frames delivered; exchanges; times that a process found no partner; broadcasts; frames lost with their
connection; connections opened; ping phases begun; messages sent from buffers; the longest ping phase;
rows of the trace; what went wrong."""

FINE, NARROW, STRAY, FAR, ENDLESS = range(5)
"""What went wrong: nothing; a process had more links or arcs than the arrays are wide; a connection was not
where it had to be; a message took more hops than `Messages.hops` can hold; a counter ran out."""


_LINE: Final = 64
"""Bytes of a line of the cache, and of a connection in each of two blocks: what frames need, and the rest."""

_EACH_WAY: Final = {
    "key": (0, np.uint64), "last": (8, np.int64), "to": (16, np.int32), "drawn": (20, np.int32),
    "safe": (24, np.bool_), "joins": (25, np.bool_),
    "ping": (64, np.int32), "start": (68, np.int32), "tries": (72, np.int32), "alarm": (76, np.int32),
}  # fmt: skip
_EACH: Final = {
    "arcs": (26, np.int16), "number": (28, np.int32), "holds": (58, np.int16), "by": (60, np.int32),
    "since": (80, np.int64), "stranger": (88, np.bool_),
}  # fmt: skip
"""Columns with an entry for each link, 32 bytes apart, and with one for each connection: where they begin in the
two blocks, from `_LINE` on in the second one."""


def make_lives(
    nodes: int, first: int, messages: int, width: int, timeout: int, patience: int, faults: Longs
) -> Lives:
    """Of so many processes, the first of which are there from the start."""
    there = np.arange(nodes) < first
    rows: dict[str, Any] = {name: np.zeros(nodes, np.int32) for name in _ONE_EACH}
    return Lives(
        up=there.copy(), known=there, going=np.zeros(nodes, np.int8), until=np.zeros(nodes, np.int64),
        owes=np.zeros(nodes, np.bool_), heard=np.zeros(nodes, np.bool_), joining=np.full(nodes, -1, np.int32),
        offers=np.zeros((nodes, width), np.int32), lost=np.zeros((nodes, KEPT + 1), np.int32),
        owed=np.zeros((nodes, KEPT + 1), np.int32), met=np.zeros((nodes, MET + 1), np.int32),
        covered=np.zeros(messages, np.int32), told=np.zeros(width, np.int32),
        before=np.full(messages, -1, np.int32), latest=np.full(nodes, -1, np.int32), faults=faults,
        at=np.array([0, nodes * width, 0, first, timeout, patience], np.int64), **rows,
    )  # fmt: skip


_ONE_EACH: Final = ("alarm", "offered", "losses", "meetings", "surplus", "seen")


def make_links(nodes: int, room: int, width: int) -> Links:
    _check_rows(room)
    columns: dict[str, Any] = _columns(room)
    for name in ("of", "ends", "usable"):
        columns[name] = np.zeros((nodes, width), np.int32)
    for name in ("degree", "usable_degree"):
        columns[name] = np.zeros(nodes, np.int32)
    return Links(**columns, free=np.arange(room, dtype=np.int32)[::-1].copy(), at=np.array([room, 1]))


def _columns(room: int) -> dict[str, NDArray[Any]]:
    """The columns of so many connections."""
    blocks = [_aligned(room * _LINE) for _ in range(2)]

    def column(at: int, kind: type, rows: int) -> NDArray[Any]:
        block, stride = blocks[at // _LINE], room * _LINE // rows
        return np.ndarray(rows, kind, block.data, at % _LINE, (stride,))

    ways = {name: column(*each, 2 * room) for name, each in _EACH_WAY.items()}
    return ways | {name: column(*each, room) for name, each in _EACH.items()}


def _aligned(size: int) -> NDArray[np.uint8]:
    """Bytes that begin with a line of the cache."""
    block = np.zeros(size + _LINE, np.uint8)
    start = -block.ctypes.data % _LINE
    return block[start : start + size]


def roomier_links(links: Links) -> Links:
    """The same connections, with room for twice as many."""
    room = len(links.number)
    _check_rows(2 * room)
    grown: dict[str, Any] = _columns(2 * room)
    for name, column in grown.items():
        before = getattr(links, name)
        column[: len(before)] = before
    free, at = np.empty(2 * room, np.int32), links.at.copy()
    refill(links.free, free, at, 0, room)
    return links._replace(**grown, free=free, at=at)


def _check_rows(room: int) -> None:
    if room > MOST_ROWS:
        raise ConfigurationError(
            f"the compiled engine would need room for {room:,} connections and has it for {MOST_ROWS:,};"
            " simulate fewer nodes, or fewer arcs",
            field="nodes",
        )
