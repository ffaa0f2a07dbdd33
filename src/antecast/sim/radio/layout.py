"""The settings of a network of cells: where stations stand, how hosts move, what the radio is like.

Defaults are the evaluation of the paper on mobile hosts and support stations (Wilhelm, Arantes and Sens): 7
stations with a range of 120 m, one in the middle and six around it, cells that overlap so that no place
between them is left out. What the paper does not say about its radio is chosen as `docs/cellular.md` explains.
"""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

import msgspec

from antecast.core.settings import BitRate, Duration, FileName, Settings

Metres: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
Place: TypeAlias = tuple[float, float]


class Still(Settings, frozen=True, kw_only=True, tag_field="kind", tag="still"):
    """Hosts stay where they are."""


class Waypoint(Settings, frozen=True, kw_only=True, tag_field="kind", tag="waypoint"):
    """Hosts walk straight to a random place, rest, and walk on; never out of reach of all stations."""

    speed: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 1.38
    """Metres per second."""
    pause: Duration = Duration(0)


class Walk(Settings, frozen=True, kw_only=True, tag_field="kind", tag="trace"):
    """Hosts move as a trace says. Its nodes, in their order, are the hosts; where it has no place for a node, the
    host is out of reach."""

    file: FileName
    """A movement trace in any format that `antecast convert` reads."""
    shift: bool | None = None
    """Whether the start of the trace is time 0 of the run. Default: only if the trace counts from long before
    its start, such as from 1970."""


Mobility: TypeAlias = Still | Waypoint | Walk


class Fading(Settings, frozen=True, kw_only=True):
    """Spells in which a whole cell hears nothing, nor its station; both lengths exponential."""

    every: Duration
    """Mean time between two spells of a cell."""
    lasts: Duration
    """Mean length of a spell."""

    def __post_init__(self) -> None:
        if self.every + self.lasts < 10**6:
            raise ValueError(f"every and lasts must make 1ms at least, got {self.every} and {self.lasts}")


class Cells(Settings, frozen=True, kw_only=True, tag_field="kind", tag="cells"):
    """Stations, each with a cell, joined by wires in a tree; `nodes` counts the hosts. Stations are numbered
    behind all hosts. The network's delay, bandwidth and loss are those of the wires."""

    stations: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 7
    spacing: Metres = 150.0
    """Between neighbouring stations of the honeycomb in which they stand, unless their places are given."""
    places: list[Place] | None = None
    """Where the stations stand, in metres."""
    wires: list[tuple[int, int]] | None = None
    """Which stations are joined, counted from 0. Default: a tree of nearest neighbours."""
    hosts: list[Place] | None = None
    """Where hosts begin. Default: at random in the cells."""
    mobility: Mobility = msgspec.field(default_factory=Still)
    range: Metres = 120.0
    """How far a radio is heard, and how far it disturbs."""
    capture: Annotated[float, msgspec.Meta(ge=0)] = 1.6
    """A frame survives another one whose sender is this many times as far from the receiver (1.6 is 4 dB in
    free space); 0 means that any two frames that meet destroy each other."""
    bit_rate: BitRate = BitRate(2_000_000)
    preamble: Duration = Duration(192_000)
    """Time on the air before the first bit of a frame."""
    headers: Annotated[int, msgspec.Meta(ge=0)] = 64
    """Bytes around a frame: UDP 8, IPv4 20, LLC and MAC 36."""
    carrier_sense: bool = True
    """Whether a radio waits while it hears another one."""
    backoff: Duration = Duration(620_000)
    """A frame waits a random time up to this before it is sent, and after each time it found the air busy."""
    loss: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of receptions lost for other reasons than collisions."""
    fading: Fading | None = None
    queue: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Frames that may wait at a radio; one that finds no room is dropped. They wait a quarter of a second at most,
    and a window of messages finds room."""

    def __post_init__(self) -> None:
        if self.places is not None and not self.places:
            raise ValueError("places must name one station at least")
        for name in ("places", "hosts"):
            for index, place in enumerate(getattr(self, name) or ()):
                if not all(map(math.isfinite, place)):
                    raise ValueError(f"{name}[{index}] must be two finite numbers, got {list(place)}")
        for name in ("spacing", "range"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite")

    @property
    def count(self) -> int:
        return self.stations if self.places is None else len(self.places)


def distance2(a: Place, b: Place) -> float:
    """The square of a distance: by the four operations alone, which are the same on every machine."""
    dx, dy = a[0] - b[0], a[1] - b[1]
    return dx * dx + dy * dy


def station_places(cells: Cells) -> list[Place]:
    """Where the stations stand: as given, or a honeycomb grown in rings around the first."""
    if cells.places is not None:
        return [(float(x), float(y)) for x, y in cells.places]
    step, height = cells.spacing, cells.spacing * math.sqrt(3) / 2
    found: list[Place] = []
    ring = 0
    while len(found) < cells.stations:
        # Around the ring from its eastern corner, in axial coordinates of the honeycomb.
        q, r = ring, 0
        spots = [(0, 0)] if ring == 0 else []
        for dq, dr in ((-1, 1), (-1, 0), (0, -1), (1, -1), (1, 0), (0, 1)):
            for _ in range(ring):
                spots.append((q, r))
                q, r = q + dq, r + dr
        found += [(step * (q + r / 2), height * r) for q, r in spots]
        ring += 1
    return found[: cells.stations]


def station_wires(cells: Cells, places: list[Place]) -> list[tuple[int, int]]:
    """A tree over the stations: as given, or each joined with the nearest of those before it."""
    if cells.wires is not None:
        return [(min(pair), max(pair)) for pair in cells.wires]
    return [
        (min(range(each), key=lambda other: (round(distance2(places[each], places[other]), 3), other)), each)
        for each in range(1, len(places))
    ]


def wires_fault(cells: Cells) -> str | None:
    """Why the given wires are not a tree over the stations, or None."""
    if cells.wires is None:
        return None
    group = list(range(cells.count))

    def root(each: int) -> int:
        while group[each] != each:
            each = group[each]
        return each

    for a, b in cells.wires:
        unknown = [each for each in (a, b) if not 0 <= each < cells.count]
        if unknown:
            return f"there is no station {unknown[0]}; stations are 0 to {cells.count - 1}"
        if root(a) == root(b):
            return f"the wire {a} to {b} closes a circle; wires must make a tree"
        group[root(a)] = root(b)
    if len(cells.wires) != cells.count - 1:
        return f"{cells.count} stations need {cells.count - 1} wires to make a tree, got {len(cells.wires)}"
    return None
