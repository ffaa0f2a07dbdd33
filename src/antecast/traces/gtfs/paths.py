"""The way each trip takes: the line of its shape, and where along it the trip stops.

Stops are projected onto the shape (see `projection`); `shape_dist_traveled` is not used, since feeds are
found whose column disagrees with their own shapes. To and from a stop that is not on the shape, and all the
way where there is no shape, a trip goes in straight lines. Trips with the same shape and the same stops
share one path, which begins at the first stop and ends at the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.traces.gtfs.feed import Feed
from antecast.traces.gtfs.network import Network, Plane, Stops, read_places
from antecast.traces.gtfs.projection import OFF, lengths, point_at, project
from antecast.traces.gtfs.timetable import Timetable

Array = NDArray[np.float64]

SAME_POINT = 0.01
"""Metres within which two vertices in a row are one."""


@dataclass(frozen=True)
class Paths:
    """The vertices of path i are first[i] to first[i + 1] of x, y and along."""

    first: NDArray[np.int64]
    x: Array
    y: Array
    along: Array
    of_trip: NDArray[np.int64]
    """The path of each trip of the timetable."""
    place: Array
    """For each stop of the timetable how far along its path it is."""
    offset: Array
    """How far each stop is from its shape; NaN where there is none."""


def trace_paths(feed: Feed, network: Network, stops: Stops, timetable: Timetable) -> Paths:
    """The paths of the trips of a timetable."""
    shape = network.shape.codes[timetable.trip]
    shapes = _read_shapes(feed, stops.plane, {network.shape.values[code] for code in np.unique(shape[shape >= 0])})
    known: dict[tuple[int, bytes], int] = {}
    paths: list[tuple[Array, Array, Array]] = []
    of_trip = np.empty(len(timetable.trip), np.int64)
    for trip, code in enumerate(shape.tolist()):
        at = slice(int(timetable.first[trip]), int(timetable.first[trip + 1]))
        stop = timetable.stop[at]
        of_trip[trip] = path = known.setdefault((code, stop.tobytes()), len(paths))
        if path == len(paths):
            points = np.column_stack([stops.x[stop], stops.y[stop]])
            line = shapes.get(network.shape.values[code]) if code >= 0 else None
            if line is None:
                paths.append((points, lengths(points), np.full(len(points), np.nan)))
            else:
                progress = _progress(points, timetable.arrive[at], timetable.depart[at])
                paths.append(_follow(line, points, progress))
    drawn = np.array([*(name in shapes for name in network.shape.values), False])[shape]
    joined = np.concatenate([*(line for line, _, _ in paths), np.empty((0, 2))])
    offset = np.concatenate([*(paths[path][2] for path in of_trip), np.empty(0)])
    for problem, which in (
        ("trips without a shape, in straight lines from stop to stop", shape < 0),
        ("trips whose shape is not in shapes.txt, in straight lines from stop to stop", (shape >= 0) & ~drawn),
        (f"stops of trips more than {OFF:.0f} m off the shape, reached in straight lines", offset > OFF),
    ):
        if which.any():
            feed.notes[problem] += int(np.count_nonzero(which))
    return Paths(
        first=np.append(0, np.cumsum([len(line) for line, _, _ in paths], dtype=np.int64)),
        x=joined[:, 0].copy(),
        y=joined[:, 1].copy(),
        along=np.concatenate([*(lengths(line) for line, _, _ in paths), np.empty(0)]),
        of_trip=of_trip,
        place=np.concatenate([*(paths[path][1] for path in of_trip), np.empty(0)]),
        offset=offset,
    )


def _follow(shape: Array, points: Array, progress: Array) -> tuple[Array, Array, Array]:
    """A path along a shape: its line, the places of the stops on it, their distances from the shape."""
    place, offset = project(shape, points, progress * lengths(shape)[-1])
    if np.count_nonzero(offset > OFF) > len(points) / 2:
        # Some feeds draw a street once, for both directions.
        turned = shape[::-1]
        other, others_offset = project(turned, points, progress * lengths(turned)[-1])
        if np.count_nonzero(others_offset > OFF) < np.count_nonzero(offset > OFF):
            shape, place, offset = turned, other, others_offset
    along = lengths(shape)
    on = offset <= OFF
    spots = np.where(on[:, None], point_at(shape, along, place), points)
    line, corner = [spots[:1]], [0]
    for stop in range(1, len(points)):
        if on[stop - 1] and on[stop]:
            inner = slice(*np.searchsorted(along, [place[stop - 1], place[stop]], "right"))
            line.append(shape[inner][along[inner] < place[stop]])
        line.append(spots[stop : stop + 1])
        corner.append(sum(map(len, line)) - 1)
    joined = np.concatenate(line)
    return joined, lengths(joined)[corner], offset


def _progress(points: Array, arrive: NDArray[np.int64], depart: NDArray[np.int64]) -> Array:
    """The share of its way that a trip should have covered at each stop: that of its running time."""
    crow = lengths(points)
    timed = arrive >= 0
    waited = np.cumsum((depart - arrive)[timed]) - (depart - arrive)[timed]
    running = np.maximum.accumulate(arrive[timed] - waited)
    running = np.interp(crow, crow[timed], running - running[0])
    total = running if running[-1] > 0 else crow
    return total / total[-1] if total[-1] > 0 else total


def _read_shapes(feed: Feed, plane: Plane, wanted: set[str]) -> dict[str, Array]:
    """Some shapes as rows of x and y, in the order of their sequence, without points that repeat."""
    if not wanted:
        return {}
    sheet = feed.sheet("shapes", ["shape_id"], ["shape_pt_lat", "shape_pt_lon", "shape_pt_sequence"])
    ordered = sorted(wanted)
    shape = sheet.names("shape_id").look_up({name: place for place, name in enumerate(ordered)})
    latitude, longitude = read_places(sheet, "shape_pt_lat", "shape_pt_lon")
    order = sheet.numbers("shape_pt_sequence")
    if lost := int(np.count_nonzero((shape >= 0) & np.isnan(latitude))):
        feed.notes["points of shapes without coordinates, left out"] += lost
    rows = np.flatnonzero((shape >= 0) & ~np.isnan(latitude))
    rows = rows[np.lexsort((order[rows], shape[rows]))]
    line = np.column_stack(plane.project(latitude[rows], longitude[rows]))
    bounds = np.searchsorted(shape[rows], np.arange(len(ordered) + 1))
    found = {}
    for place, name in enumerate(ordered):
        points = line[bounds[place] : bounds[place + 1]]
        points = points[np.append(True, np.diff(lengths(points)) > SAME_POINT)[: len(points)]]
        if len(points) > 1:
            found[name] = points
    return found
