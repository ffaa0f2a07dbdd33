"""What happens to nodes and contacts, as lines of a script: the trace that nodes follow, and faults.

The reference schedules most of it at the start, and the crashes and recoveries of churn one by one. So a line may
name another that is scheduled when it has been carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from antecast.sim.compiled.links import FAR
from antecast.sim.compiled.opportunistic.arrays import (
    APPEAR,
    CRASH,
    HEAL,
    LEAVE,
    LINK,
    MEET,
    PART,
    PARTITION,
    RECOVER,
)
from antecast.sim.compiled.queue import Longs
from antecast.sim.contact_plan import load_plan
from antecast.sim.fault_kinds import Churn, Crash, Cut, Fault, Heal, Leave, Link, Partition, Recover
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream
from antecast.sim.topology import Contacts

_ALONE = -1
_NOBODY = -1


def make_script(scenario: Scenario) -> tuple[Longs, Longs, Longs]:
    """The lines (time, what, two nodes, the line after it), those that are scheduled at the start, and the groups
    of partitions, a row for each."""
    trace = _trace(scenario)
    lines: list[tuple[int, int, int, int, int]] = []
    first = list(range(len(trace)))
    groups: list[list[int]] = []
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Churn):
            for node in range(scenario.nodes):
                chain = list(_churn(scenario, fault, index, node))
                start = len(trace) + len(lines)
                first += [start] if chain else []
                for place, (at, what) in enumerate(chain):
                    following = start + place + 1 if place + 1 < len(chain) else _ALONE
                    lines.append((at, what, node, 0, following))
        else:
            first.append(len(trace) + len(lines))
            lines.append(_line(fault, len(groups)))
            if isinstance(fault, Partition):
                number = {node: group for group, nodes in enumerate(fault.groups) for node in nodes}
                groups.append([number.get(node, _NOBODY) for node in range(scenario.nodes)])
    faults = np.array([(min(at, FAR), *rest) for at, *rest in lines], np.int64).reshape(-1, 5)
    return (
        np.concatenate([trace, faults]),
        np.array(first, np.int64),
        np.array(groups, np.int64).reshape(-1, scenario.nodes),
    )


def _line(fault: Fault, group: int) -> tuple[int, int, int, int, int]:
    match fault:
        case Crash(at=at, node=node):
            return at, CRASH, node, 0, _ALONE
        case Recover(at=at, node=node):
            return at, RECOVER, node, 0, _ALONE
        case Leave(at=at, node=node):
            return at, LEAVE, node, 0, _ALONE
        case Partition(at=at):
            return at, PARTITION, 0, group, _ALONE
        case Heal(at=at):
            return at, HEAL, 0, 0, _ALONE
        case Cut(at=at, a=a, b=b):
            return at, PART, a, b, _ALONE
        case Link(at=at, a=a, b=b):
            return at, LINK, a, b, _ALONE
    raise TypeError(f"there is no line for {fault}")


def _churn(scenario: Scenario, fault: Churn, index: int, node: int) -> Iterator[tuple[int, int]]:
    """The crashes and recoveries of a node, up to the first beyond the end of the run."""
    stream = Stream(scenario.seed, "churn", index, node)
    until = scenario.duration if fault.until is None else fault.until
    at = int(fault.start)
    for turn in count():
        crashes = turn % 2 == 0
        at += round((fault.uptime if crashes else fault.downtime) * stream.exponential())
        if crashes and at >= until:
            return
        yield at, CRASH if crashes else RECOVER
        if at > scenario.horizon:
            return


def _trace(scenario: Scenario) -> Longs:
    """What a trace says, in the order in which the reference schedules it."""
    topology = scenario.network.topology
    if not isinstance(topology, Contacts):
        return np.empty((0, 5), np.int64)
    plan, setup = load_plan(topology), min(int(topology.setup), FAR)
    stays = [(*span, node, span is spans[-1]) for node, spans in plan.presence.items() for span in spans]
    appear, leave, nodes, last = np.array(stays, np.int64).reshape(-1, 4).T
    start, end, a, b = np.array(plan.contacts, np.int64).reshape(-1, 4).T
    usable = start + setup < end
    start, end, a, b = (column[usable] for column in (start + setup, end, a, b))
    nothing = np.zeros(len(nodes), np.int64)
    return np.concatenate(
        [
            _alternating(
                (appear, nothing + APPEAR, nodes, nothing), (leave, np.where(last, LEAVE, CRASH), nodes, nothing)
            ),
            _alternating((start, 0 * a + MEET, a, b), (end, 0 * a + PART, a, b)),
        ]
    )


def _alternating(*kinds: tuple[Longs, Longs, Longs, Longs]) -> Longs:
    """Lines of one kind and of the other in turn."""
    rows = np.full((len(kinds[0][0]), len(kinds), 5), _ALONE, np.int64)
    for index, columns in enumerate(kinds):
        for place, column in enumerate(columns):
            rows[:, index, place] = column
    return rows.reshape(-1, 5)
