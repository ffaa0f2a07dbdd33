"""A timetable and a day become trajectories.

`gtfs_mobility` is the way in: it reads a feed, gives the runs of a service day to vehicles and lets them move
along their paths. Time zero is the start of the service day, noon less twelve hours.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.settings import Duration, Settings
from antecast.traces.gtfs.calendar import Services, Span, day_zero
from antecast.traces.gtfs.feed import Feed
from antecast.traces.gtfs.network import Network, Stops, read_stops
from antecast.traces.gtfs.paths import Paths, trace_paths
from antecast.traces.gtfs.pieces import SECOND, Anchors, Pieces, anchor, join, lay_over, move
from antecast.traces.gtfs.projection import OFF
from antecast.traces.gtfs.routes import check_wanted, speed_limit
from antecast.traces.gtfs.timetable import Timetable, read_timetable
from antecast.traces.gtfs.vehicles import Fleet, Runs, assign, one_each
from antecast.traces.schema import TRAJECTORIES, node_order

Integers = NDArray[np.int64]


class GtfsSettings(Settings, frozen=True, kw_only=True):
    """What to take from a feed, and what to do where it leaves a choice."""

    route_types: tuple[str, ...] = ()
    """Kinds such as `bus`, or numbers. Default: all."""
    routes: tuple[str, ...] = ()
    """Ids or short names. Default: all."""
    start: Duration | None = None
    """Leave out what happens before this time of the service day."""
    end: Duration | None = None
    """Leave out what happens after it."""
    layover: Duration = Duration(60 * SECOND)
    """A vehicle stands at the terminus in layovers of up to this length; in longer ones it is off the road."""
    max_layover: Duration = Duration(1800 * SECOND)
    """How long a vehicle without block_id waits for a trip that it could take."""
    terminus_radius: float = 200.0
    """How close to its last stop that trip must begin, in metres."""
    vehicles: Literal["blocks", "trips"] = "blocks"
    """Whether vehicles drive the blocks of the feed, and chains of trips without one, or a single trip each."""
    overnight: bool = False
    """Also take the trips of the day before that are still under way."""


@dataclass(frozen=True)
class Mobility:
    """Trajectories, and what is worth knowing about them: plain values, ready for JSON."""

    trajectories: pa.Table
    summary: dict[str, Any]


def service_days(path: Path | str, settings: GtfsSettings | None = None) -> Span:
    """The days on which a feed offers what the settings ask for."""
    settings = settings or GtfsSettings()
    feed = Feed(path)
    check_wanted(settings.route_types)
    return _span(feed, Network(feed), Services(feed), settings)


def gtfs_mobility(path: Path | str, day: date, settings: GtfsSettings | None = None) -> Mobility:
    """The movement of a feed's vehicles on a service day."""
    settings = settings or GtfsSettings()
    check_wanted(settings.route_types)
    feed = Feed(path)
    network, services = Network(feed), Services(feed)
    shown = network.route_rows(settings.routes)
    today = network.trips_of(services.on(day), settings.route_types)
    if not shown[network.route[today]].any():
        span = _span(feed, network, services, settings)
        raise InputError(f"no {_asked_for(settings)} runs on {day}; {span}", path=path)
    yesterday = np.empty(0, np.int64)
    if settings.overnight:
        yesterday = network.trips_of(services.on(day - timedelta(days=1)), settings.route_types)
    stops = read_stops(feed)
    timetable = read_timetable(feed, network, stops, np.union1d(today, yesterday))
    paths = trace_paths(feed, network, stops, timetable)
    world = _World(feed, network, stops, timetable, paths, _anchors(feed, network, timetable, paths), settings)
    main = world.day(today, shown)
    if not len(main.pieces.owner):
        why = "; ".join(f"{text}: {count:,}" for text, count in feed.notes.items())
        raise InputError(f"no trip of {day} can be driven" + (f" ({why})" if why else ""), path=path)
    whole, names, late = main.pieces, main.fleet.names, 0
    if settings.overnight:
        night = world.day(yesterday, shown)
        rest = night.pieces.shifted(-_day_length(network, day)).clipped(0, None)
        late = len(np.unique(rest.owner))
        whole = join([whole, rest.owned_by(np.arange(len(night.fleet.names)) + len(names))])
        names = names + [f"{name}@{day - timedelta(days=1)}" for name in night.fleet.names]
    pieces = whole.clipped(settings.start, settings.end)
    if not len(pieces.owner):
        problem = f"nothing moves in this window; the day's trips last from {_clock(whole.t0.min())}"
        raise ConfigurationError(f"{problem} to {_clock(whole.t1.max())}", field="--from, --to")
    zero = day_zero(day, network.zone).isoformat() if network.zone else None
    summary = {
        "feed": str(path),
        "date": day.isoformat(),
        "zero": zero,
        "crs": stops.plane.crs,
        "in_feed": {
            table: feed.rows.get(table, 0) for table in ("routes", "trips", "stops", "stop_times", "shapes")
        },
        "routes_by_type": dict(Counter(network.kinds).most_common()),
        **main.summary(),
        "overnight_vehicles": late,
        **_measure(pieces, paths),
        "notes": [f"{text}: {count:,}" for text, count in feed.notes.items()],
    }
    facts = {
        "antecast.crs": stops.plane.crs,
        "antecast.zero": zero or "",
        "antecast.source": f"{Path(path).name} {day}",
    }
    return Mobility(_table(pieces, names, facts), summary)


@dataclass(frozen=True)
class _Day:
    """A service day, driven."""

    network: Network
    runs: Runs
    trips: Integers
    """The rows of the trips that run, and are shown."""
    shown: NDArray[np.bool_]
    """The runs that are asked for; the others only say what a vehicle does in between."""
    fleet: Fleet
    pieces: Pieces

    def summary(self) -> dict[str, Any]:
        vehicle = self.fleet.vehicle[self.shown]
        out, at = np.unique(vehicle, return_inverse=True)
        first = np.full(len(out), np.iinfo(np.int64).max)
        last = np.zeros(len(out), np.int64)
        np.minimum.at(first, at, self.runs.start[self.shown])
        np.maximum.at(last, at, self.runs.end[self.shown])
        blocks = np.array(self.fleet.in_block, np.bool_)[out]
        most, when = most_at_once(first, last)
        return {
            "routes": len(np.unique(self.network.route[self.trips])),
            "trips": len(self.trips),
            "trips_without_block": int(np.count_nonzero(self.network.block.codes[self.trips] < 0)),
            "runs": int(np.count_nonzero(self.shown)),
            "vehicles": len(out),
            "vehicles_at_once": most,
            "at_once_at": _clock(when * SECOND),
            "blocks": int(np.count_nonzero(blocks)),
            "blocks_at_once": most_at_once(first[blocks], last[blocks])[0],
            "chains": int(np.count_nonzero(~blocks)),
        }


@dataclass(frozen=True)
class _World:
    """All that was read, from which days are made."""

    feed: Feed
    network: Network
    stops: Stops
    timetable: Timetable
    paths: Paths
    anchors: Anchors
    settings: GtfsSettings

    def day(self, trips: Integers, routes: NDArray[np.bool_]) -> _Day:
        """Vehicles are made of all trips of a day, so that what is shown of them does not change them."""
        timetable, network, settings = self.timetable, self.network, self.settings
        mine = np.isin(timetable.trip[timetable.run_trip], trips)
        trip, shift = timetable.run_trip[mine], timetable.run_shift[mine]
        runs = self._runs(trip, shift)
        if settings.vehicles == "trips":
            fleet = one_each(runs)
        else:
            fleet = assign(
                runs,
                np.column_stack([self.stops.x, self.stops.y]),
                radius=settings.terminus_radius,
                max_layover=settings.max_layover / SECOND,
            )
        if fleet.split:
            self.feed.notes["vehicles more than blocks, because trips of one block overlap"] += fleet.split
        order = np.lexsort((runs.start, fleet.vehicle))
        shown = routes[runs.route]
        moved = move(trip[order], shift[order], self.anchors, self.paths)
        vehicle = fleet.vehicle[order]
        begins = np.searchsorted(moved.owner, np.arange(len(order) + 1))
        pieces = moved.owned_by(vehicle)
        follows = np.flatnonzero((vehicle[1:] == vehicle[:-1]) & shown[order][1:] & shown[order][:-1])
        limits = np.array([speed_limit(runs.kind[run]) for run in order[follows]])
        before, after = pieces.take(begins[follows + 1] - 1), pieces.take(begins[follows + 1])
        waits, jumps = lay_over(before, after, limits, settings.layover / SECOND)
        if jumps:
            self.feed.notes["changes between trips of a vehicle that are too far for the time, jumped"] += jumps
        visible = join([pieces.take(shown[order][moved.owner]), waits])
        return _Day(network, runs, trips[routes[network.route[trips]]], shown, fleet, visible)

    def _runs(self, trip: Integers, shift: Integers) -> Runs:
        timetable, network = self.timetable, self.network
        row = timetable.trip[trip]
        first, last = timetable.first[trip], timetable.first[trip + 1] - 1
        route = network.route[row]
        kind = [network.kinds[each] for each in route.tolist()]
        return Runs(
            start=timetable.depart[first] + shift,
            end=timetable.arrive[last] + shift,
            first_stop=timetable.stop[first],
            last_stop=timetable.stop[last],
            route=route,
            fleet=list(zip(network.agency[route].tolist(), kind, strict=True)),
            kind=kind,
            block=[network.block[each] for each in row.tolist()],
            label=[network.trips[each] for each in row.tolist()],
        )


def _anchors(feed: Feed, network: Network, timetable: Timetable, paths: Paths) -> Anchors:
    limits = np.array(
        [speed_limit(network.kinds[route]) for route in network.route[timetable.trip].tolist()], float
    )
    anchors = anchor(timetable, paths.place, limits)
    for problem, count in (
        ("stops whose times leave no time to get there or away, spread by distance", anchors.rounded),
        ("stops whose times run backwards, not used", anchors.backwards),
    ):
        if count:
            feed.notes[problem] += count
    return anchors


def _span(feed: Feed, network: Network, services: Services, settings: GtfsSettings) -> Span:
    trips = network.trips_of(None, settings.route_types)
    trips = trips[network.route_rows(settings.routes)[network.route[trips]]]
    span = services.span(Counter(network.service[row] for row in trips.tolist()))
    if span is None:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in Counter(network.kinds).most_common())
        raise InputError(f"no {_asked_for(settings)} runs on any day; routes by type: {kinds}", path=feed.path)
    return span


def _asked_for(settings: GtfsSettings) -> str:
    """A trip, in the words of the settings."""
    routes = f" of route {' or '.join(settings.routes)}" if settings.routes else ""
    return f"{' or '.join(settings.route_types)} trip{routes}".strip()


def _day_length(network: Network, day: date) -> int:
    """Nanoseconds from the beginning of the day before to that of the day; the clock may change in between."""
    if network.zone is None:
        return 86400 * SECOND
    between = day_zero(day, network.zone) - day_zero(day - timedelta(days=1), network.zone)
    return round(between.total_seconds()) * SECOND


def most_at_once(start: Integers, end: Integers) -> tuple[int, int]:
    """The largest number of intervals that share an instant, and the first such instant. Ends are open.

    >>> most_at_once(np.array([0, 5, 10]), np.array([10, 20, 20]))
    (2, 5)
    """
    if not len(start):
        return 0, 0
    events = np.concatenate([2 * end, 2 * start + 1])  # ends before starts of the same time
    events.sort()
    count = np.cumsum(2 * (events % 2) - 1)
    return int(count.max()), int(events[count.argmax()] // 2)


def _measure(pieces: Pieces, paths: Paths) -> dict[str, Any]:
    length = np.hypot(pieces.x1 - pieces.x0, pieces.y1 - pieces.y0)
    on_shape = paths.offset[paths.offset <= OFF]
    parts = (pieces.owner[1:] != pieces.owner[:-1]) | (pieces.t0[1:] != pieces.t1[:-1])
    appears, leaves = pieces.t0[np.append(True, parts)], pieces.t1[np.append(parts, True)]
    return {
        "on_the_road_at_once": most_at_once(appears, leaves)[0],
        "from": _clock(pieces.t0.min()),
        "to": _clock(pieces.t1.max()),
        "kilometres": round(float(length.sum()) / 1000, 1),
        "fastest_kmh": round(float((length / (pieces.t1 - pieces.t0)).max()) * SECOND * 3.6, 1),
        "stop_to_shape_m": round(float(np.median(on_shape)), 2) if on_shape.size else None,
        "nodes": len(np.unique(pieces.owner)),
        "pieces": len(pieces.owner),
    }


def _clock(ns: Any) -> str:
    """A time of the service day, for people.

    >>> _clock(90_061 * SECOND)
    '25:01:01'
    """
    minutes, seconds = divmod(int(ns) // SECOND, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def _table(pieces: Pieces, names: list[str], facts: dict[str, str]) -> pa.Table:
    """The table of `TRAJECTORIES`, by node and time."""
    owners = np.unique(pieces.owner)
    used = [names[owner] for owner in owners.tolist()]
    order = sorted(range(len(used)), key=lambda each: node_order(used[each]))
    rank = np.empty(len(used), np.int64)
    rank[order] = np.arange(len(used))
    rows = pieces.owned_by(rank[np.searchsorted(owners, np.arange(owners[-1] + 1))])
    rows = rows.take(np.lexsort((rows.t0, rows.owner)))
    node = pa.DictionaryArray.from_arrays(rows.owner.astype(np.int32), [used[each] for each in order])
    columns = [node, rows.t0, rows.x0, rows.y0, rows.t1, rows.x1, rows.y1]
    schema = TRAJECTORIES.with_metadata({**TRAJECTORIES.metadata, **facts})
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema)
