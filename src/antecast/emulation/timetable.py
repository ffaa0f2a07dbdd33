"""The timetable of an emulation: what happens to which node when, taken from the simulator's run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from antecast.core import ConfigurationError
from antecast.sim.fault_kinds import Churn, Crash, Join, Leave, Link, Rebirth, Recover
from antecast.sim.radio.layout import Cells
from antecast.sim.run import RunResult
from antecast.sim.run import run as simulate
from antecast.sim.scenario import Scenario
from antecast.sim.topology import Complete, Contacts, Spray, edges

Delivered = tuple[int, int, int]
"""Node, origin, and which of the broadcasts of the origin it is, from 0. Numbers of messages would not do: some
protocols number what they tell a new link too, and that falls between other broadcasts in another run."""

_COLUMNS = ("node", "t", "kind", "origin", "seq", "peer", "bytes")


class Step(NamedTuple):
    t: int
    """Simulated time, in nanoseconds."""
    kind: str
    """broadcast, link, cut, crash, recover, join or leave."""
    node: int
    other: int = -1
    """The other end of a link; the bytes of a broadcast."""


@dataclass(frozen=True)
class Timetable:
    scenario: Scenario
    simulated: RunResult
    present: frozenset[int]
    """Nodes that are there from the start."""
    links: tuple[tuple[int, int], ...]
    """Links that are there from the start; none where nodes choose their neighbours themselves."""
    steps: tuple[Step, ...]
    delivered: frozenset[Delivered]
    """What the simulator's nodes delivered."""

    @property
    def nodes(self) -> int:
        return self.scenario.total_nodes


def make_timetable(scenario: Scenario) -> Timetable:
    """Run the simulator, and read its log."""
    _check(scenario)
    quiet = msgspec.structs.replace(scenario.log, events="order")
    result = simulate(msgspec.structs.replace(scenario, log=quiet))
    rows = _rows(result.events)
    steps = sorted(_steps(rows), key=lambda step: step.t)
    if isinstance(scenario.network.topology, Spray):
        steps = [step for step in steps if step.kind not in ("link", "cut")]
    late = {step.node for step in steps if step.kind == "join"}
    topology, nodes = scenario.network.topology, range(scenario.nodes)
    present = frozenset(nodes) - late
    if isinstance(topology, Complete):
        links: Iterable[tuple[int, int]] = combinations(nodes, 2)
    else:
        links = () if isinstance(topology, Contacts | Spray) else edges(topology, scenario.nodes, scenario.seed)
    return Timetable(
        scenario=scenario,
        simulated=result,
        present=present,
        links=tuple((a, b) for a, b in links if a in present and b in present),
        steps=tuple(steps),
        delivered=deliveries_of(result.events),
    )


def deliveries_of(events: pa.Table) -> frozenset[Delivered]:
    """Who delivered what, from the event log of all nodes."""
    rows = _rows(events)
    broadcasts = sorted((row["origin"], row["seq"]) for row in rows if row["kind"] == "broadcast")
    counts: Counter[int] = Counter()
    places: dict[tuple[int, int], int] = {}
    for origin, seq in broadcasts:
        places[origin, seq] = counts[origin]
        counts[origin] += 1
    found = ((row["node"], row["origin"], row["seq"]) for row in rows if row["kind"] == "deliver")
    return frozenset((node, origin, places.get((origin, seq), -seq)) for node, origin, seq in found)


def _rows(events: pa.Table) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = events.select(list(_COLUMNS)).to_pylist()
    return kept


def _steps(rows: list[dict[str, Any]]) -> Iterable[Step]:
    """A link comes when its second end has noticed, and goes when the first has."""
    ends: Counter[tuple[int, int]] = Counter()
    up: set[tuple[int, int]] = set()
    for row in rows:
        t, kind, node, peer = row["t"], row["kind"], row["node"], row["peer"]
        if kind == "broadcast":
            yield Step(t, "broadcast", node, row["bytes"])
        elif kind in ("crash", "recover", "join", "leave"):
            yield Step(t, kind, node)
        elif kind in ("up", "down"):
            pair = (min(node, peer), max(node, peer))
            if kind == "up":
                ends[pair] += 1
                if ends[pair] >= 2:
                    ends[pair] = 0
                    up.add(pair)
                    yield Step(t, "link", *pair)
            elif ends.pop(pair, 0) == 0 or pair in up:
                up.discard(pair)
                yield Step(t, "cut", *pair)


def _check(scenario: Scenario) -> None:
    """What processes on loopback cannot do, or this version does not."""
    topology = scenario.network.topology
    if isinstance(topology, Cells):
        raise ConfigurationError("an emulation has no cells; antecast run has", field="network.topology")
    overlay = isinstance(topology, Spray)
    if isinstance(topology, Spray) and not topology.every:
        problem = "an emulation has no overlay without exchanges; set `every`, or give the links"
        raise ConfigurationError(problem, field="network.topology.every")
    for place, fault in enumerate(scenario.faults):
        if overlay and not isinstance(fault, Churn | Crash | Recover | Join | Leave):
            problem = (
                "in an emulation, members of an overlay choose their links; only nodes may come, go and crash"
            )
            raise ConfigurationError(problem, field=f"faults[{place}]")
        if isinstance(fault, Rebirth) or (isinstance(fault, Link) and fault.by is not None):
            problem = "an emulation has no rebirths and no introductions; antecast run has"
            raise ConfigurationError(problem, field=f"faults[{place}]")
    for place, workload in enumerate(scenario.workload):
        if getattr(workload, "lifetime", None) is not None:
            problem = "an emulation broadcasts without lifetimes of single messages"
            raise ConfigurationError(problem, field=f"workload[{place}].lifetime")
