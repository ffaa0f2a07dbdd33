"""Which services run on which day: `calendar.txt` with the exceptions of `calendar_dates.txt`.

Either table may be missing. A service day begins at noon less twelve hours, which is midnight except on
the two days per year on which the clock changes; times of trips count from there and may pass 24:00.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from antecast.traces.gtfs.feed import Feed

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True)
class Span:
    """The days a feed covers. `counts` holds the number of trips for each day from the first on."""

    first: date
    counts: NDArray[np.int64]

    def __str__(self) -> str:
        last = self.first + timedelta(days=len(self.counts) - 1)
        busiest = self.first + timedelta(days=int(self.counts.argmax()))
        trips = f"{self.counts.max():,} trips"
        return f"{self.first} is the first day with service, {last} the last, {busiest} the busiest ({trips})"


class Services:
    """The calendar of a feed."""

    def __init__(self, feed: Feed) -> None:
        weekly = feed.sheet("calendar", ["service_id", *WEEKDAYS, "start_date", "end_date"])
        self._weekly = weekly.names("service_id")
        self._days = np.column_stack([weekly.parsed(day, _flag, 0) for day in WEEKDAYS])
        self._start = weekly.parsed("start_date", _ordinal, 0)
        self._end = weekly.parsed("end_date", _ordinal, 0)
        for column, found in (("start_date", self._start), ("end_date", self._end)):
            undated = np.flatnonzero((found == 0) & (self._weekly.codes >= 0))
            if undated.size:
                raise weekly.error(int(undated[0]), f"{column} is empty; a date is written as 20260321")
        single = feed.sheet("calendar_dates", ["service_id", "date", "exception_type"])
        self._single = single.names("service_id")
        self._date = single.parsed("date", _ordinal, 0)
        self._added = single.parsed("exception_type", _exception, 0)
        if not weekly.rows and not single.rows:
            raise feed.error("calendar", "neither calendar.txt nor calendar_dates.txt names a day of service")

    def on(self, day: date) -> set[str]:
        """The services that run on a day."""
        today = day.toordinal()
        weekly = (self._days[:, day.weekday()] == 1) & (self._start <= today) & (today <= self._end)
        running = {self._weekly[row] for row in np.flatnonzero(weekly).tolist()}
        single = self._date == today
        running |= {self._single[row] for row in np.flatnonzero(single & (self._added == 1)).tolist()}
        running -= {self._single[row] for row in np.flatnonzero(single & (self._added == 2)).tolist()}
        return running - {""}

    def span(self, trips: Mapping[str, int]) -> Span | None:
        """The days with service, given how many trips each service has; None if there is none at all."""
        ends = [*self._start, *self._end, *self._date]
        dated = [int(day) for day in ends if day > 0]
        if not dated:
            return None
        first = min(dated)
        counts = np.zeros(max(dated) - first + 1, np.int64)
        weekday = (np.arange(len(counts)) + date.fromordinal(first).weekday()) % 7
        runs: dict[str, NDArray[np.bool_]] = {}
        for row in range(len(self._weekly.codes)):
            name = self._weekly[row]
            if trips.get(name):
                at = slice(int(self._start[row]) - first, int(self._end[row]) - first + 1)
                mine = runs.setdefault(name, np.zeros(len(counts), np.bool_))
                mine[at] |= self._days[row][weekday[at]] == 1
        for row in np.argsort(self._added, kind="stable").tolist():
            name = self._single[row]
            if trips.get(name) and self._date[row] > 0:
                mine = runs.setdefault(name, np.zeros(len(counts), np.bool_))
                mine[self._date[row] - first] = self._added[row] == 1
        for name, mine in runs.items():
            counts[mine] += trips[name]
        busy = np.flatnonzero(counts)
        if not busy.size:
            return None
        return Span(date.fromordinal(first + int(busy[0])), counts[busy[0] : busy[-1] + 1])


def parse_date(text: str) -> date:
    """A day, as GTFS writes it or with hyphens.

    >>> parse_date("20260321") == parse_date("2026-03-21") == date(2026, 3, 21)
    True
    """
    match = re.fullmatch(r"(\d{4})(-?)(\d{2})\2(\d{2})", text)
    try:
        if match:
            return date(int(match[1]), int(match[3]), int(match[4]))
    except ValueError:
        pass
    raise ValueError(f"no such date as {text!r}; a date is written as 20260321")


def parse_clock(text: str) -> int:
    """Seconds since the service day began. Hours may pass 24, seconds may be missing.

    >>> parse_clock("5:15:30"), parse_clock("25:10")
    (18930, 90600)
    """
    match = re.fullmatch(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d))?", text)
    if not match:
        raise ValueError(f"no time of day: {text!r}; it is written as 05:15:00, past midnight as 25:15:00")
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)


def day_zero(day: date, zone: ZoneInfo) -> datetime:
    """The instant from which a service day's times count: noon less twelve hours.

    >>> str(day_zero(date(2026, 3, 29), ZoneInfo("Europe/Paris")))
    '2026-03-28 23:00:00+01:00'
    """
    noon = datetime.combine(day, time(12), zone)
    return (noon.astimezone(UTC) - timedelta(hours=12)).astimezone(zone)


def _ordinal(text: str) -> int:
    return parse_date(text).toordinal()


def _flag(text: str) -> int:
    if text not in ("0", "1"):
        raise ValueError(f"expected 0 or 1, got {text!r}")
    return int(text)


def _exception(text: str) -> int:
    if text not in ("1", "2"):
        raise ValueError(f"expected 1 (service added) or 2 (service removed), got {text!r}")
    return int(text)
