"""Local clocks for compiled kernels: those of `sim.clocks`, to the nanosecond."""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import part
from antecast.sim.clocks import ClockSettings, make_clock
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Longs
from antecast.sim.scenario import Scenario

_OFFSET, _DRIFT, _BOUND = range(3)
_BILLION = 10**9


def make_clocks(scenario: Scenario) -> Longs:
    """For each node its offset, its drift, and how far off it may be (-1: any time)."""
    clocks = np.zeros((scenario.nodes, 3), np.int64)
    clocks[:, _BOUND] = -1
    for node in range(scenario.nodes) if scenario.clocks != ClockSettings() else ():
        clock = make_clock(scenario.clocks, scenario.seed, node)
        if clock is not None:
            bound = scenario.clocks.bound
            clocks[node] = clock.offset, clock.drift, -1 if bound is None else bound
    return clocks


@part
def local_time(clocks: Longs, p: Whole, now: Whole) -> Whole:
    clock = clocks[p]
    error = clock[_OFFSET]
    if clock[_DRIFT] != 0:  # now × drift does not fit into a word: seconds and the rest apart
        error += now // _BILLION * clock[_DRIFT] + now % _BILLION * clock[_DRIFT] // _BILLION
    if clock[_BOUND] >= 0:
        error = max(-clock[_BOUND], min(clock[_BOUND], error))
    return now + error


@part
def when(clocks: Longs, p: Whole, local: Whole) -> Whole:
    """The first instant at which a node's clock shows a time or more, 0 at the earliest."""
    clock = clocks[p]
    if clock[_DRIFT] == 0:
        return max(np.int64(0), local - (local_time(clocks, p, np.int64(0))))
    low, high = np.int64(0), max(local, np.int64(0)) + abs(clock[_OFFSET]) + 1
    while local_time(clocks, p, high) < local:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if local_time(clocks, p, middle) >= local:
            high = middle
        else:
            low = middle + 1
    return low
