"""What the compiled engine for opportunistic exchange supports; everything else is refused, by field."""

from __future__ import annotations

from antecast.core import ConfigurationError
from antecast.protocols import Need
from antecast.protocols.opportunistic import DeltaSettings, EpidemicSettings
from antecast.sim.compiled.links import LONGEST, check_links
from antecast.sim.compiled.workload import check_workload
from antecast.sim.fault_kinds import CellCrash, Join, Rebirth
from antecast.sim.radio.layout import Cells
from antecast.sim.scenario import Scenario
from antecast.sim.topology import Spray


def check(scenario: Scenario) -> None:
    """Refuse what this engine would not run as the reference does, with the field that says so."""
    settings, network = scenario.protocol_settings, scenario.network
    assert isinstance(settings, EpidemicSettings)
    name = scenario.specification.name
    if settings.capacity is not None:
        _refuse("protocol.capacity", "has caches without a limit; leave this out")
    if settings.order != "random":
        _refuse("protocol.order", 'hands messages over in random order; set this to "random"')
    times = {"patience": settings.patience}
    if isinstance(settings, DeltaSettings):
        longest = settings.lifetime if settings.max_lifetime is None else settings.max_lifetime
        times |= {"max_lifetime": longest, "clock_bound": settings.clock_bound}
    for field, time in times.items():
        if time > LONGEST:
            _refuse(f"protocol.{field}", "counts up to 104 days")
    if Need.CLOCKS in scenario.unmet_needs():
        _refuse("clocks", "needs clocks no further apart than protocol.clock_bound; raise it")
    if scenario.clocks.largest_error(scenario.horizon) > LONGEST:
        _refuse("clocks", "knows clocks that are off by up to 104 days")
    if isinstance(network.topology, Spray | Cells):
        _refuse("network.topology.kind", f"runs {name} over contacts and links, not {network.topology}")
    if network.packets or network.links:
        _refuse("network", f"runs {name} over links that are all alike and no packet network")
    check_links(scenario, bandwidth=True, faults=True)
    check_workload(scenario, lifetimes=scenario.specification.lifetime(settings) is not None)
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Join | Rebirth | CellCrash):
            _refuse(f"faults[{index}].kind", "supports no nodes that join by a fault")


def _refuse(field: str, problem: str) -> None:
    raise ConfigurationError(f"the compiled engine {problem}", field=field)
