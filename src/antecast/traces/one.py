"""The ONE simulator's two text formats: connectivity (`time CONN a b up|down`) and external movement.

The grammar follows ONE's own readers, StandardEventsReader and ExternalMovementReader, and is more lenient:
rows may be unsorted and unevenly spaced, and impossible rows are counted and ignored where ONE would stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.traces.assemble import counted, encode, join_contacts, join_points, joining_notes
from antecast.traces.spelling import Contacts, Pieces, integer_names, legend, plain, put, seconds, spelled
from antecast.traces.text import NUMBER, FloatArray, IntArray, Text, times
from antecast.traces.trace import Format, Trace, duration, share

CONNECTIVITY = "time CONN a b up|down"
HEADER = "minTime maxTime minX maxX minY maxY [minZ maxZ]"
MOVEMENT = "time id x y"

_MESSAGES = ["C", "S", "DE", "A", "DR", "R"]
"""ONE's events of messages, which its reports may mix with those of connections."""


def score_connectivity(lines: Sequence[str]) -> float:
    return share(lines, lambda words: len(words) >= 5 and words[1].upper() == "CONN")


def read_connectivity(text: Text) -> Trace:
    """Contacts from ONE connectivity."""
    rows = text.rows(CONNECTIVITY)
    other = np.asarray(pc.is_in(rows.word(1), pa.array(_MESSAGES, pa.large_string()))).astype(bool)
    rows = rows.keep(~other)
    rows.expect(5, 6)  # the sixth word names an interface
    rows.refuse(np.asarray(pc.not_equal(pc.utf8_upper(rows.word(1)), "CONN")).astype(bool))
    state = pc.utf8_lower(rows.word(4))
    up, down = (np.asarray(pc.equal(state, word)).astype(bool) for word in ("up", "down"))
    rows.refuse(~(up | down))
    table, joined = join_contacts(rows.word(2), rows.word(3), rows.time(0), up)
    messages = counted([(int(other.sum()), "event of a message ignored", "events of messages ignored")])
    return Trace("contacts", table, "one", (*joining_notes(joined, events=True), *messages))


def write_connectivity(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Contacts as ONE connectivity; nodes are whole numbers."""
    contacts = Contacts.of(table)
    names, notes = integer_names(contacts.names)
    count = len(contacts.a)
    t = np.concatenate([contacts.end, contacts.start])
    order = np.argsort(t, kind="stable")  # what ends goes before what begins
    pairs = [f"CONN {names[a]} {names[b]}" for a, b in zip(contacts.a.tolist(), contacts.b.tolist(), strict=True)]
    events = zip(spelled(t[order]), order.tolist(), strict=True)
    put(file, legend(contacts.names, names))
    put(file, (f"{when} {pairs[each % count]} {'down' if each < count else 'up'}" for when, each in events))
    return notes


def score_movement(lines: Sequence[str]) -> float:
    """Without a header it is not external movement; with one, the share of rows is what counts."""
    header, rest = lines[0].split(), lines[1:]
    if len(header) not in (6, 8) or not all(map(NUMBER.fullmatch, header)) or not rest:
        return 0.0
    bounds = [float(word) for word in header]
    if any(low > high for low, high in zip(bounds[::2], bounds[1::2], strict=True)):
        return 0.0
    return share(rest, lambda words: len(words) == 4)


def read_movement(text: Text) -> Trace:
    """Movement from ONE external movement: straight lines from row to row of a node."""
    rows = text.rows(HEADER)
    header = rows.keep(np.arange(len(rows)) == 0)
    header.expect(6, 8)
    bounds = [header.number(column)[0] for column in range(2, int(header.lengths[0]))]
    header.refuse(np.array([any(low > high for low, high in zip(bounds[::2], bounds[1::2], strict=True))]))
    latest = int(times(header.word(1), header.fail)[0])
    rows = text.rows(MOVEMENT).keep(np.arange(len(rows)) > 0)
    if not len(rows):
        text.fail(f'expected "{MOVEMENT}" after the header, got the end of the file')
    rows.expect(4)
    names, (node,) = encode(rows.word(1))
    t = rows.time(0)
    until = max(latest, int(t.max()))
    table, alone = join_points(names, node, t, rows.number(2), rows.number(3), until=until)
    still = f"standing there until {seconds(until)} s"
    one, many = f"node with one row, {still}", f"nodes with one row, {still}"
    return Trace("movement", table, "one-movement", counted([(alone, one, many)]))


def write_movement(table: pa.Table, file: TextIO, *, step: int | None = None) -> tuple[str, ...]:
    """Movement as ONE external movement: the places where pieces begin and end, or one place each `step`."""
    pieces = Pieces.of(table)
    names, notes = integer_names(pieces.names)
    node, t, x, y = pieces.points() if step is None else _sampled(pieces, step)
    order = np.argsort(t, kind="stable")
    node, t, x, y = node[order], t[order], x[order], y[order]
    if len(t):
        edges = [*spelled(t[[0, -1]]), *plain(np.array([x.min(), x.max(), y.min(), y.max()]))]
        file.write(" ".join(edges) + "\n")
    rows = zip(spelled(t), [names[each] for each in node.tolist()], plain(x), plain(y), strict=True)
    put(file, (" ".join(row) for row in rows))
    put(file, legend(pieces.names, names))  # ONE takes no comment before the first row
    uneven = () if len(np.unique(np.diff(np.unique(t)))) <= 1 else (_UNEVEN,)
    return (*notes, *pieces.absence_notes(), *uneven)


_UNEVEN = "rows are unevenly spaced, which ONE itself does not read; --set step=1s samples them evenly"


def _sampled(pieces: Pieces, step: int) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Each node's place at whole multiples of a step, while it is there."""
    first, beyond = -(-pieces.t0 // step), -(-pieces.t1 // step)
    ends = pieces.vanishes()
    beyond[ends] = pieces.t1[ends] // step + 1
    counts = np.maximum(beyond - first, 0)
    piece = np.repeat(np.arange(len(counts)), counts)
    offset = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    t = (first[piece] + offset) * step
    part = (t - pieces.t0[piece]) / (pieces.t1 - pieces.t0)[piece]
    x = pieces.x0[piece] + part * (pieces.x1 - pieces.x0)[piece]
    y = pieces.y0[piece] + part * (pieces.y1 - pieces.y0)[piece]
    return pieces.node[piece], t, x, y


CONNECTIVITY_FORMAT = Format(
    name="one",
    title="ONE connectivity",
    holds=("contacts",),
    score=score_connectivity,
    read=read_connectivity,
    write=write_connectivity,
    suffixes=("one",),
)
MOVEMENT_FORMAT = Format(
    name="one-movement",
    title="ONE external movement",
    holds=("movement",),
    score=score_movement,
    read=read_movement,
    write=write_movement,
    suffixes=("one",),
    writing={"step": duration},
)
