"""Where hosts are: straight pieces of movement, one after the other, and the cells they lead through.

A host belongs to the nearest station within range, the first of two that are equally near. On a straight
piece the instants at which that changes are found exactly: the difference of two squared distances is linear
in time, a distance crosses the range at the roots of a quadratic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from antecast.core import InputError
from antecast.sim.radio.layout import Cells, Place, Still, Walk, Waypoint, distance2
from antecast.sim.streams import Stream
from antecast.traces.origin import describe_origin, find_origin

FOREVER = 1 << 62
_SECOND = 10**9
_TRIES = 1000
"""Places drawn until one can be used; cells that cover less than this share of their box are too thin."""


class Piece(NamedTuple):
    """A straight walk from (x0, y0) at t0 to (x1, y1) at t1."""

    t0: int
    x0: float
    y0: float
    t1: int
    x1: float
    y1: float

    def at(self, t: int) -> Place:
        if t >= self.t1:
            return self.x1, self.y1
        part = (t - self.t0) / (self.t1 - self.t0) if t > self.t0 else 0.0
        return self.x0 + part * (self.x1 - self.x0), self.y0 + part * (self.y1 - self.y0)


Change: TypeAlias = tuple[int, int | None]
"""From this time on the host is in the cell of this station, by its index, or in none."""


def nearest(place: Place, stations: list[Place], reach: float) -> int | None:
    """The station whose cell a place lies in."""
    best, least = None, reach * reach
    for index, (x, y) in enumerate(stations):
        square = distance2(place, (x, y))
        if square < least or (best is None and square <= least):
            best, least = index, square
    return best


def changes(piece: Piece, stations: list[Place], reach: float) -> list[Change]:
    """The cells along a piece, from its start on."""
    first = nearest(piece.at(piece.t0), stations, reach)
    if piece.x0 == piece.x1 and piece.y0 == piece.y1:
        return [(piece.t0, first)]
    shares = {0.0, 1.0}
    dx, dy = piece.x1 - piece.x0, piece.y1 - piece.y0
    length = dx * dx + dy * dy
    close = []
    for index, (x, y) in enumerate(stations):
        # |start + share · d − station|² = reach²
        along = ((piece.x0 - x) * dx + (piece.y0 - y) * dy) / length
        offset = (distance2((piece.x0, piece.y0), (x, y)) - reach * reach) / length
        inside = along * along - offset
        if inside >= 0:
            root = math.sqrt(inside)
            if -along + root >= 0 and -along - root <= 1:
                close.append(index)
                shares |= {-along - root, -along + root}
    for position, i in enumerate(close):
        for j in close[position + 1 :]:
            (ax, ay), (bx, by) = stations[i], stations[j]
            slope = 2 * (dx * (bx - ax) + dy * (by - ay))
            if slope:
                here = (piece.x0, piece.y0)
                shares.add((distance2(here, stations[j]) - distance2(here, stations[i])) / slope)
    cuts = sorted(share for share in shares if 0.0 <= share <= 1.0)
    found: list[Change] = [(piece.t0, first)]
    span = piece.t1 - piece.t0
    for low, high in pairwise(cuts):
        middle = (low + high) / 2
        cell = nearest((piece.x0 + middle * dx, piece.y0 + middle * dy), stations, reach)
        if cell != found[-1][1]:
            found.append((piece.t0 + math.ceil(low * span), cell))
    return found


def covered(a: Place, b: Place, stations: list[Place], reach: float) -> bool:
    """Whether the straight way between two places never leaves the cells."""
    piece = Piece(0, a[0], a[1], _SECOND, b[0], b[1])
    return all(cell is not None for _, cell in changes(piece, stations, reach))


def random_place(stations: list[Place], reach: float, stream: Stream, *, seen_from: Place | None = None) -> Place:
    """A uniform place in the cells; if asked, one that a straight way within them leads to."""
    left, right = min(x for x, _ in stations) - reach, max(x for x, _ in stations) + reach
    low, high = min(y for _, y in stations) - reach, max(y for _, y in stations) + reach
    for _ in range(_TRIES):
        place = (left + (right - left) * stream.uniform(), low + (high - low) * stream.uniform())
        if nearest(place, stations, reach) is None:
            continue
        if seen_from is None or covered(seen_from, place, stations, reach):
            return place
    return seen_from if seen_from is not None else stations[0]


def pieces(cells: Cells, stations: list[Place], seed: int, host: int) -> Iterator[Piece]:
    """A host's movement from time 0 on; where there is no piece it is out of reach."""
    if isinstance(cells.mobility, Walk):
        walks = load_walks(cells.mobility).walks
        yield from walks[host] if host < len(walks) else ()
        return
    stream = Stream(seed, "place", host)
    if cells.hosts is not None and host < len(cells.hosts):
        x, y = cells.hosts[host]
    else:
        x, y = random_place(stations, cells.range, stream)
    if isinstance(cells.mobility, Still):
        yield Piece(0, x, y, FOREVER, x, y)
        return
    yield from _waypoints((x, y), cells.mobility, cells, stations, stream)


def _waypoints(
    start: Place, walk: Waypoint, cells: Cells, stations: list[Place], stream: Stream
) -> Iterator[Piece]:
    t, (x, y) = 0, start
    while True:
        place = random_place(stations, cells.range, stream, seen_from=(x, y))
        arrives = t + max(1, round(math.sqrt(distance2((x, y), place)) / walk.speed * _SECOND))
        yield Piece(t, x, y, arrives, *place)
        t, (x, y) = arrives, place
        if walk.pause:
            yield Piece(t, x, y, t + walk.pause, x, y)
            t += walk.pause


class Walks(NamedTuple):
    """The movement of a trace's nodes, in their order, on the time of the run."""

    walks: list[list[Piece]]
    origin: int
    """What the trace calls the time that is 0 here."""
    notes: tuple[str, ...]


def load_walks(walk: Walk) -> Walks:
    """The movement of a trace; read again only when the file has changed."""
    try:
        status = Path(walk.file).stat()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=walk.file) from None
    return _load_walks(walk.file, walk.shift, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _load_walks(file: str, shift: bool | None, changed: int, size: int) -> Walks:
    from antecast.traces import node_order, read

    trace = read(Path(file))
    if trace.kind != "movement":
        raise InputError("holds contacts, not movement; hosts in cells need to know where they are", path=file)
    columns = {name: trace.table[name].to_pylist() for name in ("node", "t0", "x0", "y0", "t1", "x1", "y1")}
    walks: dict[str, list[Piece]] = {}
    origin = find_origin(*trace.span, shift)
    for node, t0, x0, y0, t1, x1, y1 in zip(*columns.values(), strict=True):
        walks.setdefault(node, []).append(Piece(t0 - origin, x0, y0, t1 - origin, x1, y1))
    notes = [*trace.notes, *([describe_origin(origin)] if origin else ())]
    return Walks(
        [sorted(walks[node]) for node in sorted(walks, key=node_order)],
        origin,
        tuple(f"{Path(file).name}: {note}" for note in notes),
    )
