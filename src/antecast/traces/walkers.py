"""CRAWDAD kth/walkers: pedestrians that are created, sent from place to place and destroyed.

A node walks straight from where it is to the target of a `setdest` and is there at the time of arrival that
the line gives; the speed in it is redundant and rounded. It stands until its next command, which may also come
before it has arrived. Without a `destroy` it ends where its last `setdest` takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.traces.assemble import Tracks, counted, encode
from antecast.traces.spelling import Pieces, integer_names, legend, plain, put, spelled
from antecast.traces.text import BoolArray, Text
from antecast.traces.trace import Format, Trace, share

GRAMMAR = "time create id x y z, time setdest id x y z speed arrival, or time destroy id"

_CREATE, _SETDEST, _DESTROY = "create", "setdest", "destroy"


def score(lines: Sequence[str]) -> float:
    return share(lines, lambda words: len(words) > 2 and words[1] in (_CREATE, _SETDEST, _DESTROY))


def read(text: Text) -> Trace:
    """Movement from walkers' commands."""
    rows = text.rows(GRAMMAR)
    command = rows.word(1)

    def is_a(name: str) -> BoolArray:
        return np.asarray(pc.equal(command, name)).astype(bool)

    creating, going, leaving = is_a(_CREATE), is_a(_SETDEST), is_a(_DESTROY)
    rows.refuse(~(creating | going | leaving))
    fit = (
        (creating & np.isin(rows.lengths, (5, 6)))
        | (going & (rows.lengths == 8))
        | (leaving & (rows.lengths == 3))
    )
    rows.refuse(~fit)
    names, (node,) = encode(rows.word(2))
    t, place, arrival = rows.time(0), np.zeros((len(rows), 2)), np.zeros(len(rows), np.int64)
    moving = rows.keep(~leaving)
    place[~leaving] = np.column_stack([moving.number(3), moving.number(4)])
    sent = rows.keep(going)
    arrival[going] = sent.time(7)
    if (early := going & (arrival < t)).any():
        rows.fail(int(np.argmax(early)), "expected an arrival after the time of the command")

    tracks = Tracks()
    strangers = unknown = 0
    order = np.argsort(t, kind="stable").tolist()
    times, nodes, places, arrivals = t.tolist(), node.tolist(), place.tolist(), arrival.tolist()
    for row in order:
        now, who, (x, y) = times[row], nodes[row], places[row]
        if creating[row]:
            tracks.remove(who, now)
            tracks.place(who, now, x, y)
        elif leaving[row]:
            unknown += who not in tracks
            tracks.remove(who, now)
        elif who in tracks:
            tracks.position(who, now)
            tracks.go(who, x, y, arrivals[row])
        else:  # where it comes from is not told: it appears where it is sent
            strangers += 1
            tracks.place(who, arrivals[row], x, y)
    tracks.arrive()
    table = tracks.table(names)
    lost = len(names) - len(pc.unique(table["node"].cast(pa.string())))
    notes = counted(
        [
            (
                strangers,
                "node sent before it is created appears at its target",
                "nodes sent before they are created appear at their targets",
            ),
            (
                unknown,
                "destroy of a node that is not there ignored",
                "destroys of nodes that are not there ignored",
            ),
            (lost, "node without movement left out", "nodes without movement left out"),
        ]
    )
    return Trace("movement", table, "walkers", notes)


def write(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Movement as walkers' commands: exact, coming and going included."""
    pieces = Pieces.of(table)
    names, notes = integer_names(pieces.names)
    who = [names[each] for each in pieces.node.tolist()]
    begin, end = spelled(pieces.t0), spelled(pieces.t1)
    x0, y0, x1, y1 = (plain(column) for column in (pieces.x0, pieces.y0, pieces.x1, pieces.y1))
    speed = plain(pieces.speed())
    lines = [
        (int(pieces.t0[row]), 1, f"{begin[row]} {_CREATE} {who[row]} {x0[row]} {y0[row]} 0.0")
        for row in pieces.appears().tolist()
    ]
    lines += [
        (t, 2, f"{begin[row]} {_SETDEST} {who[row]} {x1[row]} {y1[row]} 0.0 {speed[row]} {end[row]}")
        for row, t in enumerate(pieces.t0.tolist())
    ]
    lines += [(int(pieces.t1[row]), 0, f"{end[row]} {_DESTROY} {who[row]}") for row in pieces.vanishes().tolist()]
    put(file, legend(pieces.names, names))
    put(file, (line for _, _, line in sorted(lines, key=lambda each: each[:2])))
    return notes


FORMAT = Format(
    name="walkers",
    title="CRAWDAD kth/walkers",
    holds=("movement",),
    score=score,
    read=read,
    write=write,
    suffixes=("walkers",),
)
