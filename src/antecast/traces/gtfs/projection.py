"""Where along a line a trip's stops lie.

Stops are placed on a polyline so that their positions never go back along the trip and the sum of squared
distances between stops and their positions is least. A stop that is farther off than `OFF` counts as no worse
than that: a terminus that the shape does not reach must not drag its neighbours along.

The nearest point of each stop on its own does not work: on a loop, or a street driven out and back, the nearest
pass may be the wrong one, and a greedy walk that takes one wrong pass cannot return. So this is a dynamic
programme over a grid of positions: all vertices, and the feet of the perpendiculars from the stops.

Where two passes are equally near (a street drawn once for both directions), geometry cannot tell them apart
but the timetable can: a slight pull towards the position that the time of the stop suggests decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled

Array = NDArray[np.float64]

OFF = 100.0
"""Metres from the line beyond which a stop is not on it."""

PULL = 0.005
"""Metres of distance from the line that a position one metre nearer to the suggested one is worth."""


def project(line: Array, stops: Array, hint: Array) -> tuple[Array, Array]:
    """Positions of stops along a line in metres, never decreasing, and their distances from it.

    `line` and `stops` are rows of x and y; the line has two vertices or more, no two alike in a row. `hint`
    holds for each stop the position to prefer among equals.
    """
    along = lengths(line)
    grid = _grid(line[:, 0], line[:, 1], along, stops[:, 0], stops[:, 1], OFF)
    grid = grid[np.argsort(grid[:, 0], kind="stable")]
    chosen = _cheapest(grid, stops[:, 0], stops[:, 1], hint, OFF**2, PULL**2)
    found = grid[chosen]
    return found[:, 0], np.hypot(found[:, 1] - stops[:, 0], found[:, 2] - stops[:, 1])


def lengths(line: Array) -> Array:
    """How far along a line each of its vertices is.

    >>> lengths(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])).tolist()
    [0.0, 5.0, 6.0]
    """
    return np.append(0.0, np.cumsum(np.hypot(np.diff(line[:, 0]), np.diff(line[:, 1]))))


def point_at(line: Array, along: Array, place: Array) -> Array:
    """The points of a line at some places, as rows of x and y.

    >>> point_at(np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([0.0, 10.0]), np.array([4.0])).tolist()
    [[4.0, 0.0]]
    """
    return np.column_stack([np.interp(place, along, line[:, 0]), np.interp(place, along, line[:, 1])])


@compiled
def _grid(x: Array, y: Array, along: Array, sx: Array, sy: Array, off: float) -> Array:
    """Rows of position, x, y: the vertices, and the feet of the stops that are on the line."""
    segments = len(x) - 1
    feet = [(along[0], x[0], y[0])]
    for vertex in range(1, segments + 1):
        feet.append((along[vertex], x[vertex], y[vertex]))
    for stop in range(len(sx)):
        for each in range(segments):
            dx, dy = x[each + 1] - x[each], y[each + 1] - y[each]
            share = ((sx[stop] - x[each]) * dx + (sy[stop] - y[each]) * dy) / (dx * dx + dy * dy)
            if 0.0 < share < 1.0:
                px, py = x[each] + share * dx, y[each] + share * dy
                if np.hypot(px - sx[stop], py - sy[stop]) <= off:
                    feet.append((along[each] + share * (along[each + 1] - along[each]), px, py))
    grid = np.empty((len(feet), 3))
    for place in range(len(feet)):
        grid[place, 0], grid[place, 1], grid[place, 2] = feet[place]
    return grid


@compiled
def _cheapest(grid: Array, sx: Array, sy: Array, hint: Array, off: float, pull: float) -> NDArray[np.int64]:
    """The rows of a sorted grid, never going back, that cost least; the earliest among equals.

    cost[k] is the least that the stops so far cost if the last of them is at k. The stop before it may be
    anywhere up to k, so a running minimum makes the pass over a stop linear in the grid.
    """
    size = len(grid)
    cost = np.zeros(size)
    before = np.empty((len(sx), size), np.int32)
    for stop in range(len(sx)):
        least = 0
        for k in range(size):
            if cost[k] < cost[least]:
                least = k
            before[stop, k] = least
        # From the back, since cost[before] must still be that of the stop before.
        for k in range(size - 1, -1, -1):
            dx, dy, ahead = grid[k, 1] - sx[stop], grid[k, 2] - sy[stop], grid[k, 0] - hint[stop]
            cost[k] = cost[before[stop, k]] + min(dx * dx + dy * dy, off) + pull * ahead * ahead
    chosen = np.empty(len(sx), np.int64)
    at = np.int64(np.argmin(cost))
    for stop in range(len(sx) - 1, -1, -1):
        chosen[stop] = at
        at = np.int64(before[stop, at])
    return chosen
