"""The broadcasts of a scenario's workloads, planned before the run: when, by whom, and in which order.

The reference schedules the broadcasts of a sender one by one: the next when the last has been made. Between
events of one instant the order of scheduling decides, so the plan keeps these chains instead of a sorted list.
What is listed one by one (`at`, `trace`) is scheduled at the start, as chains of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np

from antecast.core import ConfigurationError
from antecast.sim.overlay.compiled.arrays import Plan
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream
from antecast.sim.workload_kinds import At, Chatter, Once, Periodic, Poisson, Trace
from antecast.sim.workloads import broadcast_times, origin_of, read_broadcasts


def plan_broadcasts(scenario: Scenario) -> Plan:
    """All broadcasts up to the scenario's horizon, in the chains and the order of `sim.workloads`."""
    at: list[int] = []
    node: list[int] = []
    following: list[int] = []
    first: list[int] = []
    for sender, times in _chains(scenario):
        before = -1
        for t in takewhile(lambda t: t <= scenario.horizon, times):
            if before < 0:
                first.append(len(at))
            else:
                following[before] = len(at)
            before = len(at)
            at.append(t)
            node.append(sender)
            following.append(-1)
    return Plan(
        np.array(at, np.int64), np.array(node, np.int32), np.array(following, np.int32), np.array(first, np.int32)
    )


def _chains(scenario: Scenario) -> Iterator[tuple[int, Iterable[int]]]:
    """For each chain its sender and its instants, which never go back."""
    everyone = range(scenario.total_nodes)
    on_arrival: list[Periodic] = []
    for index, workload in enumerate(scenario.workload):
        match workload:
            case Periodic(after_arrival=int()):
                on_arrival.append(workload)
            case Periodic() | Poisson() | Once():
                until = scenario.duration if workload.until is None else workload.until
                for node in everyone if workload.senders is None else workload.senders:
                    yield node, broadcast_times(workload, until, Stream(scenario.seed, "workload", index, node))
            case At(broadcasts=broadcasts):
                yield from ((each.node, (each.t,)) for each in broadcasts)
            case Trace(file=file):
                rows = list(read_broadcasts(Path(file), scenario.total_nodes))
                origin = origin_of(scenario, [t for t, _, _ in rows])
                yield from ((node, (t - origin,)) for t, node, _ in rows)
            case Chatter():
                raise ConfigurationError(
                    "the compiled engine supports no answers (chatter); it supports the kinds at, trace, periodic,"
                    " poisson and once",
                    field=f"workload[{index}].kind",
                )
    for node in everyone:
        for workload in on_arrival:
            if workload.senders is None or node in workload.senders:
                yield node, _since_arrival(workload, scenario)


def _since_arrival(workload: Periodic, scenario: Scenario) -> Iterator[int]:
    """Of a node that is there from the start."""
    assert workload.after_arrival is not None
    until = scenario.duration if workload.until is None else workload.until
    t = int(workload.after_arrival)
    while workload.start <= t < until:
        yield t
        t += max(1, workload.every)
