"""What a scenario in cells must be: the wires' defaults, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from antecast.core import ConfigurationError
from antecast.core.settings import BitRate
from antecast.protocols import specifications
from antecast.sim.fault_kinds import CellCrash, Churn, Crash, Join, Leave, Rebirth, Recover
from antecast.sim.radio.layout import Cells, Walk, wires_fault
from antecast.sim.radio.movement import load_walks
from antecast.sim.scenario import Scenario

_WIRES = {"fifo": True, "queue": "link", "bandwidth": BitRate(10_000_000)}
"""In cells, links are the wires between stations: TCP over 10 Mb/s, unless something else is said."""


def complete_cells(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Fill in what cells imply, where the scenario does not say it."""
    topology = scenario.network.topology
    if not isinstance(topology, Cells):
        return scenario
    said = values.get("network", {})
    network = {key: value for key, value in _WIRES.items() if key not in said}
    changes: dict[str, Any] = {"network": msgspec.structs.replace(scenario.network, **network)}
    if isinstance(topology.mobility, Walk) and "nodes" not in values:
        changes["nodes"] = max(1, len(load_walks(topology.mobility).walks))
    return msgspec.structs.replace(scenario, **changes)


def check_cells(scenario: Scenario) -> None:
    """Refuse protocols on networks in which they have no role, and faults that the network does not know."""
    spec, topology = scenario.specification, scenario.network.topology
    if isinstance(topology, Cells):
        _check_layout(scenario, topology)
    elif spec.make_station is not None:
        problem = f'{spec.name} needs stations and cells: topology = {{ kind = "cells" }}'
        raise ConfigurationError(problem, field="network.topology.kind")
    for index, fault in enumerate(scenario.faults):
        field = f"faults[{index}]"
        if not isinstance(topology, Cells):
            if isinstance(fault, CellCrash):
                raise ConfigurationError('this fault needs topology = { kind = "cells" }', field=f"{field}.kind")
        elif not isinstance(fault, Crash | Recover | Rebirth | Join | Leave | Churn | CellCrash):
            raise ConfigurationError(
                "hosts in cells have no links that could break or heal", field=f"{field}.kind"
            )
        elif isinstance(fault, CellCrash) and fault.station >= topology.count:
            problem = f"there is no station {fault.station}; stations are 0 to {topology.count - 1}"
            raise ConfigurationError(problem, field=f"{field}.station")


def _check_layout(scenario: Scenario, cells: Cells) -> None:
    spec = scenario.specification
    if spec.make_station is None:
        able = " or ".join(each.name for each in specifications() if each.make_station is not None)
        raise ConfigurationError(f"{spec.name} has no stations; in cells choose {able}", field="protocol.name")
    if fault := wires_fault(cells):
        raise ConfigurationError(fault, field="network.topology.wires")
    if isinstance(cells.mobility, Walk) and scenario.total_nodes > (
        walkers := len(load_walks(cells.mobility).walks)
    ):
        problem = f"the trace moves {walkers} hosts, the scenario has {scenario.total_nodes}"
        raise ConfigurationError(problem, field="network.topology.mobility.file")
