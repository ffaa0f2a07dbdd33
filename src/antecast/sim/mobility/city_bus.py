"""A city's buses: lines that meet at a hub, a timetable, and school buses that run twice a day.

Modelled on the city bus scenario of the barrier paper (section VI-A). Every line runs from a terminus along its
own street to the hub in the centre, stops there a little longer so that passengers can change, and goes on along
another street to its other terminus; then back. Its buses follow each other at equal intervals. They start
one by one in the morning and end one by one in the evening, always at a terminus. At every stop a bus is a
little early or late, and drives from stop to stop at constant speed, as a trace made from a timetable does.

How trips are chained: a bus that reaches a terminus turns round at once. A timetable's layovers are spread over
the trip instead, so no bus ever stands at a terminus. In the paper's trace buses that stand there do not
count as being in contact (its longest contact lasts 4'09"), and this way they are neither in contact nor gone.

A school bus runs from the villages to a school near the hub before lessons and back after them, and is gone
in between. Time zero is when service begins (05:30 in the paper).

Geometry uses the four operations and square roots only: a seed makes the same city on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, sqrt
from typing import Annotated, TypeAlias

import pyarrow as pa
from msgspec import Meta

from antecast.core.settings import Duration, Settings
from antecast.sim.mobility.pieces import Piece, movement_table
from antecast.sim.streams import Stream

_SECOND = 10**9
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE

_Point: TypeAlias = tuple[float, float]


class CityBus(Settings, frozen=True, kw_only=True, tag_field="kind", tag="city-bus"):
    duration: Annotated[Duration, Meta(description="The duration of service.")] = Duration(
        14 * _HOUR + 15 * _MINUTE
    )
    buses: Annotated[tuple[int, ...], Meta(min_length=2, description="Buses of each line.")] = (
        8, 7, 6, 6, 6, 6, 5, 5, 5,
    )  # fmt: skip
    school_buses: Annotated[int, Meta(ge=0, description="School buses.")] = 6
    morning: Annotated[Duration, Meta(description="How long after a line's first bus its last one starts.")] = (
        Duration(96 * _MINUTE)
    )
    evening: Annotated[Duration, Meta(description="How long before its first bus its last one ends.")] = Duration(
        96 * _MINUTE
    )
    nearest: Annotated[float, Meta(gt=0, description="From the hub to the nearest terminus, m.")] = 2500.0
    furthest: Annotated[float, Meta(gt=0, description="From the hub to the furthest terminus, m.")] = 5000.0
    spacing: Annotated[float, Meta(gt=0, description="Distance between stops, m.")] = 400.0
    sway: Annotated[
        float, Meta(ge=0, lt=0.5, description="How far stops are off a straight street, per metre from the hub.")
    ] = 0.08
    speed: Annotated[float, Meta(gt=0, description="Speed between stops, by the timetable, m/s.")] = 5.0
    stop: Annotated[Duration, Meta(description="Time at a stop.")] = Duration(20 * _SECOND)
    hub_stop: Annotated[Duration, Meta(description="Time at the hub.")] = Duration(120 * _SECOND)
    unpunctual: Annotated[Duration, Meta(description="The most that a bus is early or late at a stop.")] = (
        Duration(10 * _SECOND)
    )
    hub_unpunctual: Annotated[Duration, Meta(description="The most that a bus is early or late at the hub.")] = (
        Duration(40 * _SECOND)
    )
    school_shortest: Annotated[Duration, Meta(description="The shortest run of a school bus.")] = Duration(
        13 * _MINUTE
    )
    school_longest: Annotated[Duration, Meta(description="The longest run of a school bus.")] = Duration(
        60 * _MINUTE
    )
    school_to: Annotated[Duration, Meta(description="When lessons begin, from the start of service.")] = Duration(
        150 * _MINUTE
    )
    school_from: Annotated[Duration, Meta(description="When lessons end, from the start of service.")] = Duration(
        11 * _HOUR
    )
    school_spread: Annotated[Duration, Meta(description="The most that a school bus is early or late.")] = (
        Duration(45 * _MINUTE)
    )

    def __post_init__(self) -> None:
        if min(self.buses) < 1:
            raise ValueError("buses: every line needs one")
        if self.nearest > self.furthest:
            raise ValueError("nearest must not exceed furthest")
        if self.unpunctual + self.hub_unpunctual > 0.9 * self.spacing / self.speed * _SECOND:
            raise ValueError("unpunctual and hub_unpunctual together must be below the time from stop to stop")


@dataclass(frozen=True)
class _Call:
    """A bus at a place: when it comes and when it leaves, in nanoseconds."""

    x: float
    y: float
    arrival: int
    departure: int


@dataclass(frozen=True)
class _RoundTrip:
    """A line's timetable from one terminus to the other and back, up to where the next round trip begins."""

    calls: tuple[_Call, ...]
    hubs: frozenset[int]
    """Which calls are at the hub."""
    ends: frozenset[int]
    """Which calls are at a terminus."""
    length: int


def city_bus(seed: int, settings: CityBus | None = None) -> pa.Table:
    """Movement of the city's buses: `L01-1` is the first of line 1, `S01` a school bus."""
    settings = settings or CityBus()
    lines = len(settings.buses)
    streets = _streets(2 * lines)
    draw = Stream(seed, "city-bus/streets")
    ranks = draw.sample(2 * lines, 2 * lines)  # lengths are evenly spread, so that cities differ little in size
    stride = next(step for step in range(2 if lines > 2 else 1, 2 * lines) if gcd(step, lines) == 1)
    pieces: list[Piece] = []
    names: list[str] = []
    for line, buses in enumerate(settings.buses):
        # Lines that are neighbours on one side of the hub are not on the other, or they would run side by side.
        arms = [
            _arm(
                settings, streets[street], ranks[street] / (2 * lines - 1), Stream(seed, "city-bus/street", street)
            )
            for street in (line, lines + line * stride % lines)
        ]
        trip = _timetable(settings, [*reversed(arms[0]), (0.0, 0.0), *arms[1]], len(arms[0]))
        first = round(5 * _MINUTE * draw.uniform())
        for bus in range(buses):
            share = bus / max(1, buses - 1)
            begin = round(settings.morning * share)
            end = settings.duration - round(settings.evening * share)
            phase = first + trip.length * bus // buses
            calls = _service(settings, trip, phase, begin, end, Stream(seed, "city-bus/bus", line, bus))
            pieces += _drive(len(names), calls)
            names.append(f"L{line + 1:02}-{bus + 1}")
    for bus in range(settings.school_buses):
        between = _between(streets[(3 * bus + 1) % len(streets)], streets[(3 * bus + 2) % len(streets)])
        for calls in _school_runs(settings, bus, between, Stream(seed, "city-bus/school", bus)):
            pieces += _drive(len(names), calls)
        names.append(f"S{bus + 1:02}")
    return movement_table(names, pieces)


def _streets(count: int) -> list[_Point]:
    """Directions all around the hub: points at equal distances along a square, brought to length 1."""
    around = []
    for number in range(count):
        side, along = divmod(8 * (number + 0.5) / count, 2)
        x, y = [(1.0, along - 1), (1 - along, 1.0), (-1.0, 1 - along), (along - 1, -1.0)][int(side)]
        around.append(_unit(x, y))
    return around


def _unit(x: float, y: float) -> _Point:
    length = sqrt(x * x + y * y)
    return x / length, y / length


def _between(a: _Point, b: _Point) -> _Point:
    return _unit(a[0] + b[0], a[1] + b[1])


def _arm(settings: CityBus, way: _Point, share: float, draw: Stream) -> list[_Point]:
    """The stops of a street, from the first after the hub to the terminus."""
    length = settings.nearest + (settings.furthest - settings.nearest) * share
    stops = []
    for number in range(1, max(1, round(length / settings.spacing)) + 1):
        along = number * settings.spacing
        aside = settings.sway * along * (2 * draw.uniform() - 1)
        stops.append((way[0] * along - way[1] * aside, way[1] * along + way[0] * aside))
    return stops


def _timetable(settings: CityBus, stops: list[_Point], hub: int) -> _RoundTrip:
    last = len(stops) - 1
    order = [*range(last + 1), *range(last - 1, 0, -1)]
    calls, t = [], 0
    for here, there in zip(order, [*order[1:], 0], strict=True):
        stay = settings.hub_stop if here == hub else 0 if here in (0, last) else settings.stop
        (x, y), next_stop = stops[here], stops[there]
        calls.append(_Call(x, y, t, t + stay))
        t += stay + round(_distance((x, y), next_stop) / settings.speed * _SECOND)
    hubs = frozenset(number for number, stop in enumerate(order) if stop == hub)
    return _RoundTrip(tuple(calls), hubs, frozenset((0, last)), t)


def _distance(a: _Point, b: _Point) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    return sqrt(dx * dx + dy * dy)


def _service(settings: CityBus, trip: _RoundTrip, phase: int, begin: int, end: int, draw: Stream) -> list[_Call]:
    """The calls of a bus in a day: from a terminus not before `begin` to a terminus not after `end`."""
    day: list[_Call] = []
    ends: list[int] = []
    start = phase - trip.length * (phase // trip.length + 1)  # at or before time zero
    while start <= end:
        for number, call in enumerate(trip.calls):
            off = round(settings.unpunctual * (2 * draw.uniform() - 1))
            if number in trip.hubs:
                off += round(settings.hub_unpunctual * (2 * draw.uniform() - 1))
            at = _Call(call.x, call.y, start + call.arrival + off, start + call.departure + off)
            if number in trip.ends and begin <= at.arrival <= end:
                ends.append(len(day))
            day.append(at)
        start += trip.length
    return day[ends[0] : ends[-1] + 1] if ends else []


def _school_runs(settings: CityBus, bus: int, way: _Point, draw: Stream) -> Iterator[list[_Call]]:
    """To school, 250 m from the hub, and back; the runs of all buses are evenly spread in length."""
    share = bus / max(1, settings.school_buses - 1)
    lasts = settings.school_shortest + round((settings.school_longest - settings.school_shortest) * share)
    legs = max(1, round(lasts / (settings.spacing / settings.speed * _SECOND + settings.stop)))
    route = [
        (way[0] * (250.0 + at * settings.spacing), way[1] * (250.0 + at * settings.spacing))
        for at in range(legs + 1)
    ]
    arrives = settings.school_to + round(settings.school_spread * (2 * draw.uniform() - 1))
    leaves = settings.school_from + round(settings.school_spread * (2 * draw.uniform() - 1))
    for stops, start in ((route[::-1], arrives - lasts), (route, leaves)):
        calls = []
        for number, (x, y) in enumerate(stops):
            arrival = start + lasts * number // legs
            calls.append(_Call(x, y, arrival, arrival + (settings.stop if 0 < number < legs else 0)))
        yield calls


def _drive(bus: int, calls: Sequence[_Call]) -> Iterator[Piece]:
    """Stand at every call and drive to the next at constant speed, from leaving the first to reaching the last."""
    for call, following in pairwise(calls):
        yield bus, call.departure, call.x, call.y, following.arrival, following.x, following.y
    for call in calls[1:-1]:
        yield bus, call.arrival, call.x, call.y, call.departure, call.x, call.y
