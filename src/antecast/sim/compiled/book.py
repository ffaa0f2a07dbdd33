"""The log of a compiled run: rows as `history.log.EventWriter` packs them, written to a buffer that Python drains.

The kinds of event are numbers here, as in the log (`history.schema.Kind`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import part
from antecast.history.log import NONE, EventWriter
from antecast.history.schema import Kind
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Longs

BROADCAST, SEND, RECEIVE, DELIVER = (int(k) for k in (Kind.BROADCAST, Kind.SEND, Kind.RECEIVE, Kind.DELIVER))

NOTHING = int(NONE)

_COLUMNS = 8


class Book(NamedTuple):
    rows: Longs
    """Node, position, time, kind, origin, number, peer, bytes."""
    at: Longs
    """How many rows are written and not drained; whether frames are logged."""
    pos: Longs
    """For each node, how many rows it has written."""


def make_book(nodes: int, room: int, *, frames: bool) -> Book:
    return Book(np.empty((room, _COLUMNS), np.int64), np.array([0, int(frames)]), np.zeros(nodes, np.int64))


def roomier_book(book: Book) -> Book:
    more = np.empty((2 * len(book.rows), _COLUMNS), np.int64)
    more[: len(book.rows)] = book.rows
    return book._replace(rows=more)


def drain(book: Book, events: EventWriter, *, whole: bool = False) -> None:
    """Write to the log what fills batches, or all of it; what is left moves to the front."""
    count = int(book.at[0])
    written = count if whole else count - count % events.batch_rows
    events.append_rows(book.rows[:written])
    book.rows[: count - written] = book.rows[written:count]
    book.at[0] = count - written


@part
def note(
    book: Book, node: Whole, now: Whole, kind: Whole, origin: Whole, seq: Whole, peer: Whole, size: Whole
) -> None:
    """Write a row. The buffer must have room for it."""
    at, pos = book.at[0], book.pos[node]
    row = book.rows[at]
    row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] = node, pos, now, kind, origin, seq, peer, size
    book.at[0] = at + 1
    book.pos[node] = pos + 1
