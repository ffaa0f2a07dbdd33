"""A pedestrian district: walkers enter by its passages, wander along its streets, and leave.

Modelled on the Östermalm scenario of the barrier paper (section VI-B). Arrivals are a Poisson process, each at a
passage chosen at random; a walker keeps one speed, drawn from a truncated normal distribution. At a junction it
goes straight on, turns or takes a passage out, at random, and never turns back. Walkers who would still be inside
at the end are left out: every walk is whole.

The streets are a grid; every street ends in a passage on either side. The defaults are those of the data set (its
376 × 364 m, speeds of 0.6 to 2.0 m/s around 1.3) and, for the streets and the weights of turns, a fit: with
them the figures of Table IV come out as means over seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, TypeAlias

import pyarrow as pa
from msgspec import Meta

from antecast.core.settings import Duration, Settings
from antecast.sim.mobility.pieces import Piece, movement_table
from antecast.sim.streams import Stream

_Corner: TypeAlias = tuple[int, int]
"""Numbers of a column and a row of streets; one beyond the first or the last is a passage."""


class Pedestrians(Settings, frozen=True, kw_only=True, tag_field="kind", tag="pedestrians"):
    duration: Annotated[Duration, Meta(description="How long walkers keep coming.")] = Duration(5 * 3600 * 10**9)
    walkers: Annotated[float, Meta(gt=0, description="How many come in this time, on average.")] = 2130.0
    speed: Annotated[float, Meta(gt=0, description="Mean speed, m/s.")] = 1.3
    speed_stdev: Annotated[float, Meta(ge=0, description="Standard deviation of speeds, m/s.")] = 0.3
    slowest: Annotated[float, Meta(gt=0, description="Lower speeds are drawn again, m/s.")] = 0.6
    fastest: Annotated[float, Meta(gt=0, description="Higher speeds are drawn again, m/s.")] = 2.0
    columns: Annotated[
        tuple[float, ...], Meta(min_length=1, description="x of the streets that run north, m.")
    ] = (
        7.5,
        127.0,
        249.0,
        368.5,
    )
    rows: Annotated[tuple[float, ...], Meta(min_length=1, description="y of the streets that run east, m.")] = (
        7.5,
        182.0,
        356.5,
    )
    straight: Annotated[float, Meta(gt=0, description="Weight of going straight on; that of a turn is 1.")] = 3.5
    leave: Annotated[float, Meta(gt=0, description="The factor on the weight of a way out of the district.")] = (
        0.77
    )

    def __post_init__(self) -> None:
        if not self.slowest <= self.speed <= self.fastest:
            raise ValueError(f"speed ({self.speed:g}) must lie between slowest and fastest")
        if self.fastest - self.slowest < self.speed_stdev / 100:
            raise ValueError("slowest and fastest are too close for speed_stdev")
        for name, streets in (("columns", self.columns), ("rows", self.rows)):
            if streets[0] <= 0 or any(a >= b for a, b in pairwise(streets)):
                raise ValueError(f"{name} must be above zero and increasing; the border is at zero")


def pedestrians(seed: int, settings: Pedestrians | None = None) -> pa.Table:
    """Movement of the district's walkers, numbered in the order in which they come."""
    settings = settings or Pedestrians()
    arrivals = Stream(seed, "pedestrians/arrivals")
    mean_gap = settings.duration / settings.walkers
    pieces: list[Piece] = []
    names: list[str] = []
    came, t = 0, round(mean_gap * arrivals.exponential())
    while t < settings.duration:
        walk = list(_walk(settings, Stream(seed, "pedestrians/walker", came), len(names), t))
        if walk[-1][4] <= settings.duration:
            pieces += walk
            names.append(f"w{len(names) + 1}")
        came, t = came + 1, t + round(mean_gap * arrivals.exponential())
    return movement_table(names, pieces)


def _walk(settings: Pedestrians, stream: Stream, walker: int, t: int) -> Iterator[Piece]:
    """From a passage to a passage."""
    speed = settings.speed + settings.speed_stdev * stream.normal()
    while not settings.slowest <= speed <= settings.fastest:
        speed = settings.speed + settings.speed_stdev * stream.normal()
    columns, rows = len(settings.columns), len(settings.rows)
    ways_in = [((i, j), (0, 1 if j < 0 else -1)) for i in range(columns) for j in (-1, rows)]
    ways_in += [((i, j), (1 if i < 0 else -1, 0)) for j in range(rows) for i in (-1, columns)]
    here, heading = ways_in[stream.below(len(ways_in))]
    x, y = _place(settings, here)
    while True:
        here = here[0] + heading[0], here[1] + heading[1]
        x1, y1 = _place(settings, here)
        t1 = t + round((abs(x1 - x) + abs(y1 - y)) / speed * 1e9)
        yield walker, t, x, y, t1, x1, y1
        if not _inside(settings, here) or t1 > settings.duration:
            return
        t, x, y = t1, x1, y1
        heading = _turn(settings, stream, here, heading)


def _turn(settings: Pedestrians, stream: Stream, here: _Corner, heading: _Corner) -> _Corner:
    """Straight on, left or right, by their weights."""
    (dx, dy), (i, j) = heading, here
    ways = [(dx, dy), (-dy, dx), (dy, -dx)]
    weights = [settings.straight, 1.0, 1.0]
    for number, way in enumerate(ways):
        if not _inside(settings, (i + way[0], j + way[1])):
            weights[number] *= settings.leave
    left = stream.uniform() * sum(weights)
    for way, weight in zip(ways, weights, strict=True):
        left -= weight
        if left < 0:
            return way
    return ways[-1]


def _inside(settings: Pedestrians, corner: _Corner) -> bool:
    return 0 <= corner[0] < len(settings.columns) and 0 <= corner[1] < len(settings.rows)


def _place(settings: Pedestrians, corner: _Corner) -> tuple[float, float]:
    """Metres from the south-west; the border lies as far beyond the last street as before the first."""
    x, y = (
        0.0 if at < 0 else streets[at] if at < len(streets) else streets[-1] + streets[0]
        for at, streets in zip(corner, (settings.columns, settings.rows), strict=True)
    )
    return x, y
