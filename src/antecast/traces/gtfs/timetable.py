"""Who stops where and when: `stop_times.txt` and `frequencies.txt`, put in order.

A *trip* is one row of trips.txt with its stops. A *run* is one time that it is made: once as the
timetable says, or repeatedly as frequencies.txt says. Times are seconds of the service day.

Rows are sorted by stop_sequence. A stop with only one of arrival and departure takes it for both, one
with neither is untimed and its time follows from its place. A trip begins and ends at timed stops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from antecast.traces.gtfs.calendar import parse_clock
from antecast.traces.gtfs.feed import Feed, Sheet
from antecast.traces.gtfs.network import Network, Stops

Integers = NDArray[np.int64]

UNTIMED = -1


@dataclass(frozen=True)
class Timetable:
    """Trips by position; the stops of trip i are first[i] to first[i + 1] of the arrays of stops."""

    trip: Integers
    """The row in the network's trips."""
    first: Integers
    stop: Integers
    """The row in the stops."""
    arrive: Integers
    depart: Integers
    run_trip: Integers
    run_shift: Integers
    """Seconds by which a run is later than its trip's times."""

    def keep(self, trips: NDArray[np.bool_]) -> Timetable:
        """The timetable of some of the trips."""
        stops = np.repeat(trips, np.diff(self.first))
        place = np.cumsum(trips) - 1
        runs = trips[self.run_trip]
        return Timetable(
            self.trip[trips],
            _offsets(np.diff(self.first)[trips]),
            self.stop[stops],
            self.arrive[stops],
            self.depart[stops],
            place[self.run_trip[runs]],
            self.run_shift[runs],
        )


def read_timetable(feed: Feed, network: Network, stops: Stops, wanted: Integers) -> Timetable:
    """The timetable of some trips, given by row."""
    sheet = feed.sheet(
        "stop_times",
        ["trip_id", "stop_id", "arrival_time", "departure_time"],
        ["stop_sequence"],
        needs="trip_id stop_id stop_sequence",
    )
    if not sheet.has("arrival_time") and not sheet.has("departure_time"):
        raise feed.error("stop_times", "has neither arrival_time nor departure_time", row=-1)
    places = {network.trips[row]: place for place, row in enumerate(wanted.tolist())}
    trip = sheet.names("trip_id").look_up(places)
    rows = np.flatnonzero(trip >= 0)
    rows = rows[_placed(sheet, stops, rows)]
    order = sheet.numbers("stop_sequence")[rows]
    if (wrong := np.flatnonzero(np.isnan(order))).size:
        raise sheet.error(
            int(rows[wrong[0]]), "stop_sequence is empty; it is a whole number that grows along a trip"
        )
    rows = rows[np.lexsort((order, trip[rows]))]
    arrive = sheet.parsed("arrival_time", parse_clock, UNTIMED, rows)
    depart = sheet.parsed("departure_time", parse_clock, UNTIMED, rows)
    arrive, depart = np.where(arrive < 0, depart, arrive), np.where(depart < 0, arrive, depart)
    inner = _between_timed(trip[rows], arrive >= 0)
    if outer := int(np.count_nonzero(~inner)):
        feed.notes["untimed stops before the first or after the last timed one of a trip, left out"] += outer
    rows, arrive, depart = rows[inner], arrive[inner], depart[inner]
    if back := int(np.count_nonzero(depart < arrive)):
        feed.notes["departures before the arrival at the same stop, set to it"] += back
    length = np.bincount(trip[rows], minlength=len(wanted))
    timetable = Timetable(
        trip=wanted,
        first=_offsets(length),
        stop=sheet.names("stop_id").take(rows).look_up(stops.rows),
        arrive=arrive,
        depart=np.maximum(depart, arrive),
        run_trip=np.arange(len(wanted)),
        run_shift=np.zeros(len(wanted), np.int64),
    )
    timetable = timetable.keep(length >= 2)
    if dropped := len(wanted) - len(timetable.trip):
        feed.notes["trips with fewer than two timed stops, left out"] += dropped
    lasting = timetable.arrive[timetable.first[1:] - 1] > timetable.depart[timetable.first[:-1]]
    if dropped := int(np.count_nonzero(~lasting)):
        feed.notes["trips that end when they begin, or before, left out"] += dropped
    return _repeat(feed, network, timetable.keep(lasting))


def _placed(sheet: Sheet, stops: Stops, rows: Integers) -> NDArray[np.bool_]:
    """Which of some stop times happen at a stop whose place is known; the others are counted."""
    names = sheet.names("stop_id").take(rows)
    stop = names.look_up(stops.rows)
    known = stop >= 0
    placed: NDArray[np.bool_] = known & ~np.isnan(np.append(stops.x, np.nan)[stop])
    notes = sheet.feed.notes
    for problem, count in (
        ("stop times without a stop, as for service on demand, left out", np.count_nonzero(names.codes < 0)),
        (
            "stop times at stops that stops.txt does not know, left out",
            np.count_nonzero(~known & (names.codes >= 0)),
        ),
        ("stop times at stops without coordinates, left out", np.count_nonzero(known & ~placed)),
    ):
        if count:
            notes[problem] += int(count)
    return placed


def _between_timed(trip: Integers, timed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows, sorted by trip, lie from the first to the last timed row of their trip."""
    so_far = np.cumsum(timed)
    starts = np.searchsorted(trip, trip, "left")
    ends = np.searchsorted(trip, trip, "right")
    before = np.append(0, so_far)[starts]
    total = np.append(0, so_far)[ends]
    inner: NDArray[np.bool_] = (so_far > before) & (so_far - timed < total)
    return inner


def _repeat(feed: Feed, network: Network, timetable: Timetable) -> Timetable:
    """Make runs of the trips that frequencies.txt repeats, in place of the trips themselves.

    The first run leaves the first stop at start_time, the others follow at the headway, before end_time.
    That is what exact_times = 1 means; where the feed promises only the headway (0) it is a guess.
    """
    sheet = feed.sheet("frequencies", ["trip_id", "start_time", "end_time"], ["headway_secs"])
    places = {network.trips[row]: place for place, row in enumerate(timetable.trip.tolist())}
    trip = sheet.names("trip_id").look_up(places)
    rows = np.flatnonzero(trip >= 0)
    if not rows.size:
        return timetable
    start = sheet.parsed("start_time", parse_clock, UNTIMED, rows)
    end = sheet.parsed("end_time", parse_clock, UNTIMED, rows)
    headway = sheet.numbers("headway_secs")[rows]
    for column, bad, right in (
        ("start_time", start < 0, "a time such as 06:00:00"),
        ("end_time", end < 0, "a time such as 22:00:00"),
        ("headway_secs", ~(headway >= 1), "seconds between departures, 1 or more"),
    ):
        if bad.any():
            raise sheet.error(int(rows[np.flatnonzero(bad)[0]]), f"{column} should be {right}")
    begins = timetable.depart[timetable.first[trip[rows]]]
    every = headway.astype(np.int64)
    count = np.maximum(0, -(-(end - start) // every))
    step = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    once = ~np.isin(timetable.run_trip, trip[rows])
    made_of = np.concatenate([timetable.run_trip[once], np.repeat(trip[rows], count)])
    shift = np.repeat(start - begins, count) + step * np.repeat(every, count)
    shifts = np.concatenate([timetable.run_shift[once], shift])
    feed.notes["runs made of trips in frequencies.txt"] += len(shift)
    _, distinct = np.unique(np.column_stack([made_of, shifts]), axis=0, return_index=True)
    distinct = np.sort(distinct)
    return replace(timetable, run_trip=made_of[distinct], run_shift=shifts[distinct])


def _offsets(lengths: NDArray[np.int64]) -> Integers:
    return np.append(0, np.cumsum(lengths))
