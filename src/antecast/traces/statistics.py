"""What a trace looks like in numbers: how long nodes are there, how many at once, how long contacts last.

These are the figures by which the barrier paper describes its two scenarios (Tables I and IV). Times are
nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Spread:
    """Smallest, largest, mean and standard deviation of some values; all zero where there are none."""

    min: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    stdev: float = 0.0


@dataclass(frozen=True)
class MovementStatistics:
    """Who is there, and when."""

    nodes: int
    at_once: int
    """The most nodes that are there at the same time."""
    start: int
    end: int
    activity: Spread
    """How long a node is there, all of its stays together."""


@dataclass(frozen=True)
class ContactStatistics:
    contacts: int
    duration: Spread


def movement_statistics(trajectories: pa.Table) -> MovementStatistics:
    """Describe a table of the schema `TRAJECTORIES`."""
    lasting = trajectories.filter(_greater(trajectories["t1"], trajectories["t0"]))
    if not len(lasting):
        return MovementStatistics(0, 0, 0, 0, Spread())
    t0, t1 = (lasting[name].to_numpy() for name in ("t0", "t1"))
    stay = pa.table({"node": lasting["node"].cast(pa.string()), "time": t1 - t0})
    activity = stay.group_by("node").aggregate([("time", "sum")])["time_sum"].to_numpy()
    return MovementStatistics(len(activity), most_at_once(t0, t1), int(t0.min()), int(t1.max()), spread(activity))


def contact_statistics(contacts: pa.Table) -> ContactStatistics:
    """Describe a table of the schema `CONTACTS`."""
    return ContactStatistics(len(contacts), spread(contacts["end"].to_numpy() - contacts["start"].to_numpy()))


def most_at_once(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """The most intervals that hold one instant; ends are not included, so one may follow another."""
    times = np.concatenate([end, start])
    steps = np.repeat(np.array([-1, 1]), len(start))
    return int(np.cumsum(steps[np.argsort(times, kind="stable")]).max(initial=0))


def spread(values: NDArray[Any]) -> Spread:
    if not len(values):
        return Spread()
    return Spread(float(values.min()), float(values.max()), float(values.mean()), float(values.std()))


def _greater(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.Array:
    return pa.array(a.to_numpy() > b.to_numpy())
