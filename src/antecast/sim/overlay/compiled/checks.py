"""What the compiled engine runs, and the errors for what it does not run.

The engine makes the run of the reference or none: whatever could make a difference is refused before the run
starts, with the field, its value and what would be right.

- Losses, bandwidths, links of their own, packets, other protocols, topologies, delays and workloads: there is no
  code for them. All messages are kept, and nobody may have to be announced (`founders`).
- PC-broadcast makes a link safe by a ping through the neighbour who introduced the two, by a flooded ping, or by a
  sync. The engine knows the first and the last, one of them in a run.
- With pings (`tries` at least 1) no ping phase may outlast `protocol.timeout` or the overlay's `patience`, and
  every link needs an introducer: no faults, and nobody who knows nobody and would ask for a contact.
- With syncs (`tries = 0`) processes may join, leave and crash for good, and none of that matters; but clocks must
  be right, since timers run out.
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from antecast.core import ConfigurationError
from antecast.core.settings import format_duration
from antecast.protocols.preventive.frames import PIECE
from antecast.protocols.preventive.links import SLOWEST
from antecast.protocols.preventive.settings import PreventiveSettings
from antecast.sim.compiled.draws import delay_model, longest_delay
from antecast.sim.fault_kinds import Crash, Join, Leave
from antecast.sim.overlay.compiled.arrays import Ints, Plan
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream
from antecast.sim.topology import Spray
from antecast.sim.workload_kinds import At, Periodic

LONGEST_RUN = 1 << 62
"""Nanoseconds, 146 years: twice as many still fit into 64 bits."""

HOPS_OF_A_PING_PHASE = 3
"""To the introducer, to the target, and back."""


def check_scenario(scenario: Scenario) -> Spray:
    """Refuse settings that the compiled engine does not know; returns the topology."""
    network, topology = scenario.network, scenario.network.topology
    if scenario.specification.name != "pc-broadcast":
        _refuse("protocol.name", f"runs pc-broadcast, not {scenario.specification.name}")
    if not isinstance(topology, Spray):
        _refuse("network.topology.kind", f"runs over spray, not {_tag(topology)}")
    delay_model(network.delay, bounded=True)
    if not network.fifo:
        _refuse("network.fifo", "needs links that keep order: fifo = true")
    for field, given, simple in (
        ("loss", network.loss, 0),
        ("bandwidth", network.bandwidth, None),
        ("processing", network.processing, 0),
        ("transmission", network.transmission, None),
        ("delays", network.delays, "frame"),
        ("notice", network.notice, None),
        ("links", network.links, []),
    ):
        if given != simple:
            shown = f"{len(given)} links of their own" if isinstance(given, list) else repr(given)
            _refuse(f"network.{field}", f"knows links that only take time, not {shown}; leave this out")
    if makes_syncs(scenario):
        _check_lives(scenario)
    elif scenario.faults:
        _refuse(
            "protocol.tries",
            f"supports faults only where links are made safe by syncs, and there are {len(scenario.faults)}: set"
            " this to 0, or leave the faults out",
        )
    for field, given in (("duration", scenario.horizon), ("network.topology.every", topology.every or 0)):
        if given >= LONGEST_RUN:
            _refuse(field, f"counts up to 146 years, drain included, not {format_duration(given)}")
    for index, workload in enumerate(scenario.workload):
        for each in workload.broadcasts if isinstance(workload, At) else [workload]:
            if getattr(each, "lifetime", None) is not None:
                _refuse(f"workload[{index}].lifetime", "runs pc-broadcast, which does not support lifetimes")
    return topology


def makes_syncs(scenario: Scenario) -> bool:
    """Whether links are made safe by syncs."""
    settings = scenario.protocol_settings
    return isinstance(settings, PreventiveSettings) and settings.tries == 0


def _check_lives(scenario: Scenario) -> None:
    """Refuse what the engine does not know where links are made safe by syncs."""
    settings = scenario.protocol_settings
    assert isinstance(settings, PreventiveSettings)
    for index, fault in enumerate(scenario.faults):
        if not isinstance(fault, Crash | Join | Leave):
            _refuse(f"faults[{index}].kind", f"knows processes that crash, join and leave, not {_tag(fault)}")
        if isinstance(fault, Join) and fault.peers and fault.peers[0] == fault.node:
            _refuse(f"faults[{index}].peers", "knows newcomers whose contact is another; name that one first")
    if settings.newcomers != "kept":
        _refuse("protocol.newcomers", 'lets newcomers start with what is kept: set it to "kept"')
    if scenario.clocks.largest_error(scenario.horizon):
        _refuse("clocks", "needs clocks that are right where links are made safe by syncs; leave this out")
    if settings.timeout >= LONGEST_RUN >> SLOWEST:
        _refuse("protocol.timeout", f"counts up to 9 years here, not {format_duration(settings.timeout)}")
    if scenario.network.topology.patience >= LONGEST_RUN:  # type: ignore[union-attr]
        _refuse("network.topology.patience", "counts up to 146 years")
    for index, workload in enumerate(scenario.workload):
        if isinstance(workload, Periodic) and workload.after_arrival is not None:
            _refuse(f"workload[{index}].after_arrival", "knows no broadcasts after an arrival where tries = 0")


def check_broadcasts(scenario: Scenario, topology: Spray, plan: Plan) -> None:
    """Refuse settings of the protocol that matter for these broadcasts, and that the engine does not know."""
    settings = scenario.protocol_settings
    assert isinstance(settings, PreventiveSettings)
    messages = len(plan.at)
    if messages > settings.retain:
        _refuse(
            "protocol.retain", f"keeps all messages: {settings.retain} is too few, set it to {messages} or more"
        )
    founders = scenario.nodes if settings.founders is None else settings.founders
    if messages and plan.node.max() >= founders:
        problem = (
            f"announces no sources, and node {plan.node.max()} broadcasts: set it to {plan.node.max() + 1} or more"
        )
        _refuse("protocol.founders", problem)
    if len(np.unique(plan.node)) > PIECE:
        _refuse("workload", f"runs up to {PIECE:,} sources, whom a sync can name in one frame")
    if not messages or not topology.every or settings.tries == 0:
        return  # no process has both a past and a new link, or links sync: there are no pings
    phase = HOPS_OF_A_PING_PHASE * longest_delay(scenario.network.delay)
    fastest = 1 + scenario.clocks.drift / 1e6  # a clock that runs fast times out early
    for field, limit, wanted in (
        ("protocol.timeout", settings.timeout, math.ceil(phase * fastest) + 2),
        ("network.topology.patience", topology.patience, phase + 1),
    ):
        if limit < wanted:
            problem = (
                f"supports no second try, and a ping phase may take {format_duration(phase)}: three times the"
                f" longest delay; {format_duration(limit)}"
                f" is too short, set it to {format_duration(wanted)} or more"
            )
            _refuse(field, problem)


def check_views(scenario: Scenario, topology: Spray, peers: Ints, sizes: Ints) -> None:
    """Refuse a start at which a process that knows nobody, and is known by nobody, would ask for a contact."""
    if not topology.every or scenario.nodes == 1 or makes_syncs(scenario):
        return
    alone = sizes == 0
    alone[peers[np.arange(peers.shape[1])[None, :] < sizes[:, None]]] = False
    for p in np.flatnonzero(alone).tolist():
        first_exchange = Stream(scenario.seed, "spray/phase", p).below(topology.every)
        if first_exchange < scenario.duration:
            given = "" if topology.arcs is None else f", and {topology.arcs} is too few"
            _refuse(
                "network.topology.arcs",
                f"runs overlays in which everyone has a neighbour: node {p} starts without one{given}; set this"
                " higher, leave it out, or let nobody exchange (every = 0)",
            )


def _refuse(field: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"the compiled engine {problem}", field=field)


def _tag(settings: object) -> str:
    return str(getattr(getattr(type(settings), "__struct_config__", None), "tag", type(settings).__name__))
