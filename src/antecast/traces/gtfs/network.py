"""The tables that do not depend on the day: agencies, routes, trips, stops, and the plane they lie in.

Coordinates become metres in an azimuthal equidistant projection around the middle of all stops, the same
plane for every day of a feed. Over a city it is true to a few millionths, over 500 km to a thousandth.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError
from antecast.traces.gtfs.feed import Feed, Sheet
from antecast.traces.gtfs.routes import chosen, kind_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """A local plane around a place on Earth."""

    latitude: float
    longitude: float

    @property
    def crs(self) -> str:
        """The projection, as PROJ and pyproj take it."""
        centre = f"+lat_0={self.latitude:.5f} +lon_0={self.longitude:.5f}"
        return f"+proj=aeqd {centre} +datum=WGS84 +units=m +no_defs"

    def project(self, latitude: Array, longitude: Array) -> tuple[Array, Array]:
        """Metres east and north of the centre."""
        from pyproj import Transformer

        x, y = Transformer.from_crs("EPSG:4326", self.crs, always_xy=True).transform(longitude, latitude)
        return np.asarray(x), np.asarray(y)


@dataclass(frozen=True)
class Stops:
    """Stops by row of stops.txt; x and y are NaN where the feed does not say where a stop is."""

    rows: dict[str, int]
    x: Array
    y: Array
    plane: Plane


class Network:
    """Routes and trips by row of their tables."""

    def __init__(self, feed: Feed) -> None:
        routes = feed.sheet(
            "routes", ["route_id", "route_short_name", "route_type", "agency_id"], needs="route_id route_type"
        )
        self.routes = routes.names("route_id")
        self.labels = routes.names("route_short_name")
        self.types = routes.parsed("route_type", _route_type, -1)
        self.kinds = [kind_of(code) for code in self.types.tolist()]
        self.agency = routes.names("agency_id").codes
        trips = feed.sheet(
            "trips",
            ["trip_id", "route_id", "service_id", "block_id", "shape_id"],
            needs="trip_id route_id service_id",
        )
        self.trips = trips.names("trip_id")
        self.route = trips.names("route_id").look_up(self.routes.rows_by_name())
        self.service = trips.names("service_id")
        self.block = trips.names("block_id")
        self.shape = trips.names("shape_id")
        self.rows = self.trips.rows_by_name()
        """The row of each trip, the first where a trip is there twice."""
        repeated = int(np.count_nonzero(self.trips.codes >= 0)) - len(self.rows)
        if repeated:
            feed.notes["trips that are there twice, the first one taken"] += repeated
        if unknown := int(np.count_nonzero(self.route[list(self.rows.values())] < 0)):
            feed.notes["trips of a route that routes.txt does not know, left out"] += unknown
        self.zone = _time_zone(feed)

    @cached_property
    def _usable(self) -> NDArray[np.bool_]:
        usable = np.zeros(len(self.route), np.bool_)
        usable[list(self.rows.values())] = True
        return usable & (self.route >= 0)

    def trips_of(self, services: set[str] | None, route_types: Sequence[str]) -> NDArray[np.int64]:
        """The rows of the trips that some services run (None: any) with the wanted types of routes."""
        types = np.array([chosen(route_types, code) for code in self.types.tolist()] or [False], np.bool_)
        wanted = self._usable & types[self.route]
        if services is not None:
            runs = np.array([*(name in services for name in self.service.values), False], np.bool_)
            wanted &= runs[self.service.codes]
        return np.flatnonzero(wanted)

    def route_rows(self, wanted: Sequence[str]) -> NDArray[np.bool_]:
        """Which routes are meant by ids or short names. Default: all."""
        meant = np.full(len(self.routes.codes), not wanted, np.bool_)
        known = set(self.routes.values) | set(self.labels.values)
        for name in wanted:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known)[:20])}"
                raise ConfigurationError(f"no route has the id or short name {name!r}; {hint}", field="--route")
        for row in range(len(meant)):
            meant[row] |= self.routes[row] in wanted or self.labels[row] in wanted
        return meant


def read_stops(feed: Feed) -> Stops:
    """All stops, and the plane around them."""
    sheet = feed.sheet("stops", ["stop_id"], ["stop_lat", "stop_lon"], needs="stop_id stop_lat stop_lon")
    names = sheet.names("stop_id")
    latitude, longitude = read_places(sheet, "stop_lat", "stop_lon")
    known = ~np.isnan(latitude)
    if not known.any():
        raise feed.error("stops", "no stop has a latitude and a longitude")
    plane = _around(latitude[known], longitude[known])
    x, y = np.full(sheet.rows, np.nan), np.full(sheet.rows, np.nan)
    x[known], y[known] = plane.project(latitude[known], longitude[known])
    return Stops(names.rows_by_name(), x, y, plane)


def read_places(sheet: Sheet, latitude: str, longitude: str) -> tuple[Array, Array]:
    """Two columns of degrees, NaN where either is missing. 0° 0°, in the sea off Africa, means unknown."""
    found = sheet.numbers(latitude), sheet.numbers(longitude)
    for column, degrees, most in zip((latitude, longitude), found, (90, 180), strict=True):
        wrong = np.flatnonzero(np.abs(degrees) > most)
        if wrong.size:
            row = int(wrong[0])
            raise sheet.error(row, f"{column} is {degrees[row]:g}; degrees lie between -{most} and {most}")
    unknown = np.isnan(found[0]) | np.isnan(found[1]) | ((found[0] == 0) & (found[1] == 0))
    return np.where(unknown, np.nan, found[0]), np.where(unknown, np.nan, found[1])


def _around(latitude: Array, longitude: Array) -> Plane:
    """The plane around the mean direction, which has no seam at the date line."""
    phi, theta = np.radians(latitude), np.radians(longitude)
    x, y, z = (
        float(each.mean()) for each in (np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi))
    )
    return Plane(
        round(float(np.degrees(np.arctan2(z, np.hypot(x, y)))), 5), round(float(np.degrees(np.arctan2(y, x))), 5)
    )


def _route_type(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise ValueError(f"not a route type: {text!r}; a bus is 3 (or 700 to 799), a tram 0 (or 900 to 999)")
    return int(text)


def _time_zone(feed: Feed) -> ZoneInfo | None:
    """The agencies' time zone; it matters only where two days meet, so a feed may lack one."""
    zones = feed.sheet("agency", ["agency_timezone"]).names("agency_timezone").values
    try:
        return ZoneInfo(zones[0]) if zones else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
