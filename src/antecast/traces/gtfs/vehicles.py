"""Who drives which run: blocks where the feed names them, chains where it does not.

- Runs with the same block_id on one service day, by vehicles of one kind, are one vehicle's. Where they overlap
  in time (an error of the feed, or repeats of frequencies.txt) a block is split: each run goes to a vehicle
  of the block that is free, the nearest one, and if there is none to a new one.
- Runs without block_id are chained. A vehicle that ends a run waits at that terminus; a run takes a vehicle
  that waits within `radius` metres of its first stop and not longer than `max_layover`, of the same agency
  and kind. One that came in on the same route goes first, then the one that has waited longest (first in,
  first out). If nobody waits, another vehicle comes out.

Tried on feeds that have blocks, with these taken away: 67 vehicles for 72 blocks and 83 % of the successions of
trips found again (a city's buses on a Saturday), 20 for 20 and 79 % (its trams), 33 for 30 and 79 % (a town whose
buses all meet at one hub). Last in, first out, or no preference for the same route, found fewer.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Runs:
    """Runs to be driven: times in seconds, where they begin and end, and what they have in common."""

    start: Integers
    end: Integers
    first_stop: Integers
    last_stop: Integers
    route: Integers
    fleet: list[Hashable]
    """Runs of different fleets are never one vehicle's: an agency's vehicles of a kind."""
    kind: list[str]
    block: list[str]
    """Empty where the feed names none."""
    label: list[str]
    """The trip's name: with the time, what settles the order of runs."""


@dataclass
class Fleet:
    """The outcome: the vehicle of each run, and the vehicles' names."""

    vehicle: Integers
    names: list[str] = field(default_factory=list)
    in_block: list[bool] = field(default_factory=list)
    split: int = 0
    """Vehicles more than blocks, because runs of one block overlapped."""

    def add(self, *, in_block: bool) -> int:
        self.names.append("")
        self.in_block.append(in_block)
        return len(self.names) - 1


def assign(runs: Runs, stops: Array, *, radius: float, max_layover: float) -> Fleet:
    """Give every run a vehicle. `stops` are rows of x and y; `max_layover` is in seconds."""
    order = sorted(range(len(runs.start)), key=lambda run: (runs.start[run], runs.end[run], runs.label[run]))
    fleet = Fleet(np.full(len(runs.start), -1, np.int64))
    blocks: dict[tuple[str, str], list[int]] = {}
    chains: dict[Hashable, list[int]] = {}
    for run in order:
        if runs.block[run]:
            blocks.setdefault((runs.block[run], runs.kind[run]), []).append(run)
        else:
            chains.setdefault(runs.fleet[run], []).append(run)
    taken: set[str] = set()
    for (name, kind), members in blocks.items():
        _drive_block(runs, members, stops, fleet)
        base = f"{name}-{kind}" if name in taken else name
        for number, vehicle in enumerate(dict.fromkeys(fleet.vehicle[members].tolist())):
            fleet.names[vehicle] = _unused(taken, base, number)
    for members in chains.values():
        _drive_chains(runs, members, stops, fleet, radius, max_layover)
    chained = [vehicle for vehicle in dict.fromkeys(fleet.vehicle[order].tolist()) if not fleet.in_block[vehicle]]
    for number, vehicle in enumerate(chained, 1):
        fleet.names[vehicle] = _unused(taken, f"chain-{number}", 0)
    return fleet


def one_each(runs: Runs) -> Fleet:
    """A vehicle for every run, named after its trip."""
    order = sorted(range(len(runs.start)), key=lambda run: (runs.start[run], runs.end[run], runs.label[run]))
    fleet = Fleet(np.full(len(runs.start), -1, np.int64))
    taken: set[str] = set()
    for run in order:
        fleet.vehicle[run] = vehicle = fleet.add(in_block=False)
        fleet.names[vehicle] = _unused(taken, runs.label[run], 0)
    return fleet


def _unused(taken: set[str], name: str, number: int) -> str:
    """The name, with a number behind it where it needs one, marked as taken."""
    found = f"{name}/{number + 1}" if number else name
    while found in taken:
        number += 1
        found = f"{name}/{number + 1}"
    taken.add(found)
    return found


def _drive_block(runs: Runs, members: list[int], stops: Array, fleet: Fleet) -> None:
    """Members come in the order of their start; almost always one vehicle is enough."""
    vehicles: list[int] = []
    ends, places = np.empty(len(members), np.int64), np.empty((len(members), 2))
    for run in members:
        free = np.flatnonzero(ends[: len(vehicles)] <= runs.start[run])
        if free.size:
            away = np.hypot(*(places[free] - stops[runs.first_stop[run]]).T)
            one = int(free[np.lexsort((ends[free], away))[0]])
        else:
            one = len(vehicles)
            fleet.split += one > 0
            vehicles.append(fleet.add(in_block=True))
        fleet.vehicle[run] = vehicles[one]
        ends[one], places[one] = runs.end[run], stops[runs.last_stop[run]]


def _drive_chains(
    runs: Runs, members: list[int], stops: Array, fleet: Fleet, radius: float, max_layover: float
) -> None:
    termini = np.unique(runs.last_stop[members])
    near: dict[int, list[int]] = {}
    waiting: dict[int, dict[int, deque[tuple[int, int]]]] = {}  # stop, route: (since when, who), oldest first
    running: list[tuple[int, int, int]] = []  # (end, order of start, run)

    def oldest(places: list[int], now: int, route: int | None) -> deque[tuple[int, int]] | None:
        """The queue whose head has waited longest, among those of a route (None: of any)."""
        best = None
        for place in places:
            queues = waiting.get(place, {})
            for queue in queues.values() if route is None else [queues.get(route)]:
                while queue and now - queue[0][0] > max_layover:
                    queue.popleft()
                if queue and (best is None or queue[0] < best[0]):
                    best = queue
        return best

    for number, run in enumerate(members):
        now, route, stop = int(runs.start[run]), int(runs.route[run]), int(runs.first_stop[run])
        while running and running[0][0] <= now:
            since, _, done = heapq.heappop(running)
            queues = waiting.setdefault(int(runs.last_stop[done]), {})
            queues.setdefault(int(runs.route[done]), deque()).append((since, int(fleet.vehicle[done])))
        if stop not in near:
            near[stop] = termini[np.hypot(*(stops[termini] - stops[stop]).T) <= radius].tolist()
        queue = oldest(near[stop], now, route) or oldest(near[stop], now, None)
        fleet.vehicle[run] = queue.popleft()[1] if queue else fleet.add(in_block=False)
        heapq.heappush(running, (int(runs.end[run]), number, run))
