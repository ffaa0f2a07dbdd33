"""From stops with times to straight pieces of movement.

Between two timed stops a vehicle covers its path at constant speed, corner by corner; untimed stops on the way
get their time from their place. While it has a time to leave that is later than its arrival, it stands.

Timetables are rounded, mostly to the minute, so that legs of no time, or of a speed that nothing drives, are
common. A time that would need more than the speed limit, counted from the last time that was kept, or that
lies before it, is dropped as if the stop were untimed: of stops that share a minute the first keeps
it, the others are spread by distance up to the next minute. The last arrival is always kept, and times
before it give way if they must. So no vehicle jumps, and none is infinitely fast.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.traces.gtfs.paths import Paths
from antecast.traces.gtfs.projection import OFF
from antecast.traces.gtfs.timetable import Timetable

Integers = NDArray[np.int64]
Array = NDArray[np.float64]

SECOND = 10**9

DEADHEAD_SPEED = 30 / 3.6
"""Metres per second, as the crow flies, of a vehicle that drives from one trip's end to the next one's start."""


@dataclass(frozen=True)
class Anchors:
    """The times that were kept: those of trip i are first[i] to first[i + 1]."""

    first: Integers
    place: Array
    """Metres along the trip's path."""
    time: Integers
    """Seconds."""
    rounded: int
    """Stops with a time that was dropped because it asked for too much speed."""
    backwards: int
    """Stops with a time that was dropped because it lies before an earlier stop's."""


@dataclass(frozen=True)
class Pieces:
    """Columns of `TRAJECTORIES`, with a number for the owner in place of a name."""

    owner: Integers
    t0: Integers
    x0: Array
    y0: Array
    t1: Integers
    x1: Array
    y1: Array

    def take(self, rows: NDArray[np.bool_] | Integers | slice) -> Pieces:
        return Pieces(*(getattr(self, column.name)[rows] for column in fields(self)))

    def owned_by(self, owners: Integers) -> Pieces:
        """The same pieces, each with the new owner that its old one has."""
        return Pieces(owners[self.owner], self.t0, self.x0, self.y0, self.t1, self.x1, self.y1)

    def shifted(self, by: int) -> Pieces:
        return Pieces(self.owner, self.t0 + by, self.x0, self.y0, self.t1 + by, self.x1, self.y1)

    def clipped(self, start: int | None, end: int | None) -> Pieces:
        """What lies in a window of time; pieces that reach out of it are cut at its edge."""
        if start is None and end is None:
            return self
        low = self.t0 if start is None else np.maximum(self.t0, start)
        high = self.t1 if end is None else np.minimum(self.t1, end)
        length = self.t1 - self.t0
        begin, stop = (low - self.t0) / length, (high - self.t0) / length
        dx, dy = self.x1 - self.x0, self.y1 - self.y0
        whole = stop == 1.0  # keeps ends exact
        cut = Pieces(
            self.owner,
            low,
            self.x0 + begin * dx,
            self.y0 + begin * dy,
            high,
            np.where(whole, self.x1, self.x0 + stop * dx),
            np.where(whole, self.y1, self.y0 + stop * dy),
        )
        return cut.take(high > low)


def join(parts: list[Pieces]) -> Pieces:
    """All pieces, one part behind the other."""
    return Pieces(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Pieces)))


def anchor(timetable: Timetable, place: Array, limits: Array) -> Anchors:
    """Choose the times to keep; `limits` holds each trip's speed limit."""
    most = 2 * len(place)
    first = np.empty(len(timetable.trip) + 1, np.int64)
    places, times = np.empty(most), np.empty(most, np.int64)
    rounded, backwards = _anchor(
        timetable.first, place, timetable.arrive, timetable.depart, limits, first, places, times
    )
    return Anchors(first, places[: first[-1]], times[: first[-1]], rounded, backwards)


@compiled
def _anchor(
    stops: Integers,
    place: Array,
    arrive: Integers,
    depart: Integers,
    limits: Array,
    first: Integers,
    places: Array,
    times: Integers,
) -> tuple[int, int]:
    kept, rounded, backwards, dropped = 0, 0, 0, -1
    for trip in range(len(stops) - 1):
        first[trip] = begin = kept
        low, high, limit = stops[trip], stops[trip + 1] - 1, limits[trip]
        for stop in range(low, high + 1):
            # A trip begins with its first departure and ends with its last arrival.
            for leaves in range(stop == low, 2 - (stop == high)):
                time = depart[stop] if leaves else arrive[stop]
                if time < 0:
                    continue
                if stop == high:
                    while kept - 1 > begin and place[stop] - places[kept - 1] > limit * (time - times[kept - 1]):
                        kept -= 1
                        if places[kept] > places[kept - 1]:
                            backwards += times[kept] > time
                            rounded += times[kept] <= time
                elif kept > begin and place[stop] - places[kept - 1] > limit * (time - times[kept - 1]):
                    if stop != dropped:
                        backwards += time < times[kept - 1]
                        rounded += time >= times[kept - 1]
                    dropped = stop
                    continue
                places[kept], times[kept] = place[stop], time
                kept += 1
    first[len(stops) - 1] = kept
    return rounded, backwards


def move(trips: Integers, shifts: Integers, anchors: Anchors, paths: Paths) -> Pieces:
    """The pieces of some runs, owned by the run's number and in the order of runs and time."""
    path = paths.of_trip[trips]
    most = int((anchors.first[trips + 1] - anchors.first[trips] + paths.first[path + 1] - paths.first[path]).sum())
    integers, floats = np.empty((3, most), np.int64), np.empty((4, most))
    made = _move(
        trips,
        shifts,
        path,
        anchors.first,
        anchors.place,
        anchors.time,
        paths.first,
        paths.x,
        paths.y,
        paths.along,
        integers,
        floats,
    )
    owner, t0, t1 = integers[:, :made]
    x0, y0, x1, y1 = floats[:, :made]
    return Pieces(owner, t0, x0, y0, t1, x1, y1)


@compiled
def _move(
    trips: Integers,
    shifts: Integers,
    path: Integers,
    first: Integers,
    place: Array,
    time: Integers,
    corners: Integers,
    xs: Array,
    ys: Array,
    along: Array,
    integers: NDArray[np.int64],
    floats: Array,
) -> int:
    made = 0
    for run in range(len(trips)):
        trip = trips[run]
        corner, end = corners[path[run]], corners[path[run] + 1]
        x, y, t, begun = 0.0, 0.0, 0, False
        for each in range(first[trip], first[trip + 1]):
            s1, t1 = place[each], (time[each] + shifts[run]) * 1_000_000_000
            s0 = place[each - 1] if begun else s1
            t0 = (time[each - 1] + shifts[run]) * 1_000_000_000 if begun else t1
            arrived = False
            while not arrived:
                # The next point: the next corner if it comes before the anchor, else the anchor.
                if corner + 1 < end and along[corner + 1] < s1:
                    corner += 1
                    px, py = xs[corner], ys[corner]
                    pt = t0 + int((along[corner] - s0) / (s1 - s0) * (t1 - t0)) if s1 > s0 else t1
                else:
                    arrived = True
                    px, py, pt = xs[corner], ys[corner], t1
                    if corner + 1 < end and along[corner + 1] > along[corner]:
                        share = (s1 - along[corner]) / (along[corner + 1] - along[corner])
                        px += share * (xs[corner + 1] - xs[corner])
                        py += share * (ys[corner + 1] - ys[corner])
                if not begun:
                    x, y, t = px, py, pt
                elif pt > t:
                    integers[0, made], integers[1, made], integers[2, made] = run, t, pt
                    floats[0, made], floats[1, made], floats[2, made], floats[3, made] = x, y, px, py
                    made += 1
                    x, y, t = px, py, pt
            begun = True
    return made


def lay_over(before: Pieces, after: Pieces, limits: Array, longest: float) -> tuple[Pieces, int]:
    """What vehicles do between a run's last piece and the next run's first one, row by row.

    In a layover of up to `longest` seconds a vehicle stands at the terminus and then drives straight to where the
    next run begins, just in time; in a longer one it is off the road. The second value counts
    changes of place that no vehicle could make in time: it is off the road for those, too.
    """
    gap = after.t0 - before.t1
    distance = np.hypot(after.x0 - before.x1, after.y0 - before.y1)
    reach = limits * np.maximum(gap, 0) / SECOND
    impossible = distance > reach + OFF  # a few metres are the width of a street
    here = (gap > 0) & (gap <= longest * SECOND) & (distance <= reach)
    before, after, gap, distance = before.take(here), after.take(here), gap[here], distance[here]
    leave = after.t0 - np.minimum(gap, (distance / DEADHEAD_SPEED * SECOND).astype(np.int64))
    stand = Pieces(before.owner, before.t1, before.x1, before.y1, leave, before.x1, before.y1)
    drive = Pieces(before.owner, leave, before.x1, before.y1, after.t0, after.x0, after.y0)
    both = join([stand, drive])
    return both.take(both.t1 > both.t0), int(np.count_nonzero(impossible))
