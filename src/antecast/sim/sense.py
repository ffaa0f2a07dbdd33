"""Scenarios that are well formed and mean nothing: refused if they cannot be meant, noted if they do nothing.

`check_sense` refuses what cannot be meant: a node in two groups of a partition, a link of the network to itself,
more neighbours than there are nodes, faults that come after the end.

`remarks` notes faults that do nothing when their time comes: they undo what never happened, cut a link that is
not there, or concern a node that has left or has not joined. Generated lists of faults end with some (every node
recovers, every partition heals), so they are not refused. Faults are followed in the order in which the run plays
them; where chance decides (churn, presence by a trace, overlays), a fault is given the benefit of the doubt.

`idle` says why a scenario broadcasts nothing. A library may run such a network; a person who asks for a verdict
has forgotten something.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from antecast.core.errors import ConfigurationError
from antecast.core.settings import format_duration
from antecast.sim.topology import Complete, Contacts, Explicit, Random, Ring, Spray, edges

if TYPE_CHECKING:
    from antecast.sim.fault_kinds import Fault
    from antecast.sim.scenario import Scenario


def check_sense(scenario: Scenario) -> None:
    """Refuse what means nothing, with the field that says it."""
    for field, problem in (*_links(scenario), *_degrees(scenario), *_late(scenario), *_groups(scenario)):
        raise ConfigurationError(problem, field=field)


def remarks(scenario: Scenario) -> list[str]:
    """What does nothing in a run of this scenario, in the order of time."""
    return [f"{field}: {problem}" for field, problem in _faults(scenario)]


def idle(scenario: Scenario) -> tuple[str, str] | None:
    """The field to fix and why nothing will be broadcast; None if something may be."""
    from antecast.sim.workload_kinds import At, Chatter, Once, Trace

    if not scenario.workload:
        return "workload", "nothing is broadcast, so there is nothing to judge; add a [[workload]]"
    if scenario.duration <= 0:
        return "duration", f"got {format_duration(scenario.duration)}, which leaves no time to broadcast"
    reasons = []
    for index, work in enumerate(scenario.workload):
        field = f"workload[{index}]"
        if isinstance(work, Trace):
            return None
        if isinstance(work, At):
            if any(each.t <= scenario.horizon for each in work.broadcasts):
                return None
            reasons.append((f"{field}.broadcasts", "none of them comes before the end of the run"))
        elif isinstance(work, Chatter):
            reasons.append((field, "answers what others broadcast, and nothing else is; add another [[workload]]"))
        elif work.senders == []:
            reasons.append((f"{field}.senders", "names no node; leave it out for all of them"))
        else:
            until = scenario.duration if work.until is None else work.until
            if isinstance(work, Once) or work.start < until:
                return None
            ends = format_duration(until)
            reasons.append((f"{field}.start", f"starts at {format_duration(work.start)}, and ends at {ends}"))
    return reasons[0]


def _links(scenario: Scenario) -> Iterator[tuple[str, str]]:
    network = scenario.network
    pairs = [(f"network.links[{index}]", link.a, link.b) for index, link in enumerate(network.links)]
    if isinstance(network.topology, Explicit):
        pairs += [(f"network.topology.links[{index}]", *pair) for index, pair in enumerate(network.topology.links)]
    for field, a, b in pairs:
        if a == b:
            yield field, f"node {a} cannot be linked with itself"


def _degrees(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Only what was chosen: the defaults fit themselves to small networks."""
    topology, others = scenario.network.topology, scenario.nodes - 1
    of = "1 node" if scenario.nodes == 1 else f"{scenario.nodes} nodes"
    if isinstance(topology, Random) and topology.degree > max(others, Random().degree):
        yield (
            "network.topology.degree",
            f"got {topology.degree}; in a network of {of} each has at most {others} neighbours",
        )
    if isinstance(topology, Ring) and topology.reach > max(scenario.nodes // 2, Ring().reach):
        most = scenario.nodes // 2
        yield "network.topology.reach", f"got {topology.reach}; around a ring of {of} it is at most {most}"


def _late(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Faults that come after the end."""
    from antecast.sim.fault_kinds import Churn

    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Churn):
            until = scenario.duration if fault.until is None else fault.until
            if fault.start >= until:
                ends = format_duration(until)
                yield f"faults[{index}].start", f"got {format_duration(fault.start)}, and churn ends at {ends}"
        elif fault.at > scenario.horizon:
            ends = f"{format_duration(scenario.horizon)} (duration and drain)"
            yield f"faults[{index}].at", f"got {format_duration(fault.at)}, after the end of the run at {ends}"


def _groups(scenario: Scenario) -> Iterator[tuple[str, str]]:
    from antecast.sim.fault_kinds import Partition

    for index, fault in enumerate(scenario.faults):
        groups = fault.groups if isinstance(fault, Partition) else []
        for one, other in pairwise(sorted(node for group in groups for node in group)):
            if one == other:
                yield f"faults[{index}].groups", f"node {one} is named twice; groups do not overlap"


def _faults(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """What undoes something that is not there to be undone."""
    from antecast.sim.fault_kinds import Churn, Heal, Partition

    timed = [
        (fault.at, index, fault) for index, fault in enumerate(scenario.faults) if not isinstance(fault, Churn)
    ]
    links = _Links(scenario)
    nodes = _Nodes(scenario, chance=len(timed) < len(scenario.faults) or _by_chance(scenario))
    parted = False
    for at, index, fault in sorted(timed, key=lambda each: each[:2]):
        field, when = f"faults[{index}]", format_duration(at)
        if isinstance(fault, Partition):
            if sum(map(bool, fault.groups)) + (sum(map(len, fault.groups)) < len(scenario.members)) < 2:
                yield f"{field}.groups", f"all nodes are in one group, so nothing is parted at {when}"
            parted = True
        elif isinstance(fault, Heal):
            if not parted:
                yield field, f"there is no partition to heal at {when}"
            parted = False
        elif problem := nodes.follow(fault, when):
            yield f"{field}.node", problem
        if problem := links.follow(fault):
            yield field, f"{problem} at {when}"


def _by_chance(scenario: Scenario) -> bool:
    """Whether nodes may be down at times that the faults do not name."""
    from antecast.sim.fault_kinds import CellCrash

    topology = scenario.network.topology
    traced = isinstance(topology, Contacts) and topology.presence is not None
    return traced or any(isinstance(fault, CellCrash) for fault in scenario.faults)


class _Nodes:
    """Which nodes are there, down or gone, as far as the scenario alone says it."""

    def __init__(self, scenario: Scenario, *, chance: bool) -> None:
        self._first = scenario.nodes
        self._chance = chance
        self._joined: set[int] = set()
        self._down: set[int] = set()
        self._gone: dict[int, str] = {}
        """Nodes that have left for good, and when."""

    def follow(self, fault: Fault, when: str) -> str | None:
        """Take note of a fault; why it does nothing to its node, if it does nothing."""
        from antecast.sim.fault_kinds import Crash, Join, Leave, Rebirth, Recover

        if isinstance(fault, Join):
            if fault.node in self._joined:
                return f"node {fault.node} has joined already, so it does not join at {when}"
            self._joined.add(fault.node)
            return None
        if not isinstance(fault, Crash | Recover | Leave | Rebirth):
            return None
        node, problem = fault.node, None
        if node in self._gone:
            return f"node {node} leaves for good at {self._gone[node]}, before this fault at {when}"
        if node >= self._first and node not in self._joined:
            return f"node {node} has not joined before this fault at {when}"
        if isinstance(fault, Crash):
            if node in self._down and not self._chance:
                problem = f"node {node} is down already, so it does not crash at {when}"
            self._down.add(node)
        elif isinstance(fault, Recover):
            if node not in self._down and not self._chance:
                problem = f"node {node} has not crashed, so it does not recover at {when}"
            self._down.discard(node)
        else:
            self._gone[node] = when
            if isinstance(fault, Rebirth):
                self._joined.add(fault.number)
        return problem


class _Links:
    """Which links are there, as far as the scenario alone says it; followed only if something is cut."""

    def __init__(self, scenario: Scenario) -> None:
        from antecast.sim.fault_kinds import Cut

        topology = scenario.network.topology
        cut = any(isinstance(fault, Cut) for fault in scenario.faults)
        self._known = cut and not isinstance(topology, Contacts | Spray | Random)
        self._whole = isinstance(topology, Complete)
        self._there: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()
        """Links of a complete network that were cut: it has too many to list them all."""
        self._newcomers: set[int] = set()
        """Nodes whose links chance chooses."""
        if self._known and not self._whole:
            self._there = set(edges(topology, scenario.nodes, scenario.seed))

    def follow(self, fault: Fault) -> str | None:
        """Take note of a fault; what is wrong if it cuts a link that is not there, or names a link to itself."""
        from antecast.sim.fault_kinds import Cut, Join, Link, Rebirth

        if isinstance(fault, Cut | Link) and fault.a == fault.b:
            return f"node {fault.a} has no link with itself"
        if not self._known:
            return None
        if isinstance(fault, Join | Rebirth):
            self._newcomers.add(fault.node if isinstance(fault, Join) else fault.number)
        elif isinstance(fault, Link):
            pair = min(fault.a, fault.b), max(fault.a, fault.b)
            self._there.add(pair)
            self._gone.discard(pair)
        elif isinstance(fault, Cut):
            pair = min(fault.a, fault.b), max(fault.a, fault.b)
            there = pair not in self._gone if self._whole else pair in self._there
            if not there and not set(pair) & self._newcomers:
                return f"there is no link between {pair[0]} and {pair[1]} to cut"
            self._there.discard(pair)
            self._gone.add(pair)
        return None
