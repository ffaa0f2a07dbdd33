"""Who can run on a network: every registered protocol, with its settings, or what it lacks.

Rules:
1. The network is the user's and is not touched. A protocol whose needs it does not meet does not run unless it is
   named, and is listed with what would have to change (`sim.needs`, the rule of runs and sweeps too). One that is
   named runs where it has a role at all; order that it keeps there is not counted as guaranteed.
2. A protocol runs with its defaults, fitted to the network. The scenario's own settings are for its own protocol;
   settings named one by one come on top. Where only its defaults do not bear the network (links that lose, nodes
   that crash) and the registry knows settings that do, it runs with those, and the comparison says so.
3. All are offered the same: the scenario but for its protocol. A workload whose messages have lifetimes cannot be
   offered to protocols that know none.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antecast.core import ConfigurationError, LocalMisuse
from antecast.core.settings import format_duration, plain_settings
from antecast.protocols import Need, Specification, specification, specifications
from antecast.protocols.registry import REMEDIES, address
from antecast.sim.needs import unmet_words
from antecast.sim.network import NetworkSettings
from antecast.sim.radio.layout import Cells
from antecast.sim.scenario import Scenario, make_scenario, override, resolve_files
from antecast.sim.study import Axis, Study


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A protocol beside this network."""

    specification: Specification
    settings: Mapping[str, Any]
    """What it is given beyond its defaults, as plain values."""
    adjusted: tuple[str, ...] = ()
    """Which of these were chosen so that it bears this network."""
    needs: tuple[Need, ...] = ()
    """What it assumes, with these settings."""
    lacks: tuple[str, ...] = ()
    """What it would need and does not have here, in words; empty if it can run."""
    unmet: tuple[Need, ...] = ()
    """What it needs, does not have here, and runs without, since it was named."""

    @property
    def name(self) -> str:
        """As scenarios spell it."""
        return address(self.specification)

    @property
    def table(self) -> dict[str, Any]:
        """The scenario's `[protocol]` for it."""
        return {"name": self.name, **self.settings}


def parse_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Settings by protocol from texts such as `delta.lifetime=20min`, each of them checked.

    >>> parse_settings(["delta.lifetime=20min", "vector.repair=100ms"])
    {'delta': {'lifetime': '20min'}, 'vector': {'repair': '100ms'}}
    """
    given: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, dot, rest = text.partition(".")
        key, equals, _ = rest.partition("=")
        if not (dot and equals and name.strip() and key.strip()):
            problem = f"expected PROTOCOL.SETTING=VALUE, such as delta.lifetime=20min, got {text!r}"
            raise ConfigurationError(problem, field="--with")
        spec = specification(name.strip(), path="--with")
        override(given.setdefault(address(spec), {}), [rest])
    for name, values in given.items():
        specification(name).configure(values, path=f"--with {name}")
    return given


def base_scenario(values: Mapping[str, Any], folder: Path, *, source: str | None = None) -> Scenario:
    """The scenario as it stands, checked; where it names no protocol, with any that its network knows."""
    whole: dict[str, Any] = {"protocol": {"name": _any_protocol(values)}} | copy.deepcopy(dict(values))
    resolve_files(whole, folder)
    scenario = make_scenario(whole, source=source)
    if not scenario.workload:
        problem = "nothing is broadcast, so there is nothing to compare; add a [[workload]]"
        raise ConfigurationError(problem, field="workload", source=source)
    return scenario


def describe_network(scenario: Scenario) -> dict[str, str]:
    """What protocols are compared on, for people."""
    plain = plain_settings(scenario)
    network, changed = plain["network"], []
    delay = network["delay"]
    for key, value in network.items():
        if key not in ("topology", "delay", "links") and value != plain_settings(NetworkSettings())[key]:
            changed.append(f"{key} {value}")
    if isinstance(delay, dict):
        delay = " ".join([delay["kind"], *(f"{key} {value}" for key, value in delay.items() if key != "kind")])
    kinds = [workload["kind"] for workload in plain["workload"]]
    facts = {
        "network": f"{scenario.nodes} nodes, {network['topology']['kind']}, delay {delay}",
        "duration": f"{plain['duration']} of broadcasts, {plain['drain']} at most to drain",
        "workload": ", ".join(kinds),
    }
    if changed:
        facts["network"] += f", {', '.join(changed)}"
    if plain["faults"]:
        facts["faults"] = ", ".join(fault["kind"] for fault in plain["faults"])
    return facts


def _any_protocol(values: Mapping[str, Any]) -> str:
    network = values.get("network")
    topology = network.get("topology") if isinstance(network, Mapping) else None
    cells = isinstance(topology, Mapping) and topology.get("kind") == "cells"
    return next(each.name for each in specifications() if (each.make_station is not None) == cells)


def find_candidates(
    scenario: Scenario,
    *,
    own: Mapping[str, Any] | None = None,
    chosen: Sequence[str] = (),
    given: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Candidate]:
    """Every protocol, or those chosen, beside a network; `own` is the scenario's `[protocol]`, if it has one."""
    specs = [specification(name, path="--protocol") for name in dict.fromkeys(chosen)] or specifications()
    given = dict(given or {})
    for name in given:
        if name not in map(address, specs):
            raise ConfigurationError(f"{name} is not among the protocols compared", field="--with")
    own = dict(own or {})
    found = []
    for spec in specs:
        settings = (
            {key: value for key, value in own.items() if key != "name"} if own.get("name") == address(spec) else {}
        )
        settings |= dict(given.get(address(spec), {}))
        found.append(_candidate(scenario, spec, settings, named=bool(chosen)))
    return found


def _candidate(scenario: Scenario, spec: Specification, settings: dict[str, Any], *, named: bool) -> Candidate:
    in_cells = isinstance(scenario.network.topology, Cells)
    unmet = _unmet(scenario, spec, settings)
    adjusted: dict[str, Any] = {}
    if unmet:
        adjusted = {key: value for key, value in spec.loss_settings.items() if key not in settings}
        if _unmet(scenario, spec, settings | adjusted):
            adjusted = {}
        else:
            settings, unmet = settings | adjusted, []
    # Without cells there are no wires whose order or reliability could matter.
    lacks = [REMEDIES[need] for need in ([Need.CELLS] if Need.CELLS in unmet else [] if named else unmet)]
    if in_cells and spec.make_station is None:
        lacks = ["links between nodes, and not hosts in cells: any topology but cells"]
    longest = max((lifetime for _, lifetime in scenario.lifetimes()), default=None)
    if longest is not None:
        bound = spec.lifetime(spec.configure(settings))
        if not _knows_lifetimes(spec, settings):
            lacks.append("messages without lifetimes: no lifetime in the workload")
        elif bound is not None and longest > bound:
            if "max_lifetime" in settings:
                lacks.append(f"lifetimes of {format_duration(bound)} at most, by its max_lifetime")
            else:
                adjusted = {**adjusted, "max_lifetime": format_duration(longest)}
                settings = settings | adjusted
    needs = spec.needs(spec.fit(spec.configure(settings), scenario.nodes))
    return Candidate(
        specification=spec,
        settings=settings,
        adjusted=tuple(adjusted),
        needs=tuple(sorted(needs)),
        lacks=tuple(lacks),
        unmet=() if lacks else tuple(unmet),
    )


def describe_unmet_candidate(candidate: Candidate) -> list[str]:
    """What a protocol that was named has to do without, in the words of `sim.needs`."""
    return [unmet_words(candidate.name, need) for need in candidate.unmet]


def _unmet(scenario: Scenario, spec: Specification, settings: Mapping[str, Any]) -> list[Need]:
    return msgspec.structs.replace(scenario, protocol={"name": address(spec), **settings}).unmet_needs()


def _knows_lifetimes(spec: Specification, settings: Mapping[str, Any]) -> bool:
    try:
        spec.make(0, spec.fit(spec.configure(settings), 1)).broadcast(b"", 0, lifetime=1)
    except LocalMisuse:
        return False
    return True


def comparison_study(
    scenario: Mapping[str, Any],
    candidates: Sequence[Candidate],
    *,
    name: str,
    folder: Path,
    seeds: int,
    source: str | None = None,
) -> Study:
    """The runs of those who can run: every protocol with every seed, from the scenario's own seed on.

    Frames are logged whatever the scenario says: without them nobody knows what order costs.
    """
    able = [each for each in candidates if not each.lacks]
    values = copy.deepcopy({key: value for key, value in scenario.items() if key != "protocol"})
    values["log"] = {**values.get("log", {}), "events": "all"}
    first = values.get("seed", 1)
    return Study(
        name=name,
        scenario=values,
        axes=(
            Axis(("protocol",), tuple((each.table,) for each in able)),
            Axis(("seed",), tuple((first + number,) for number in range(seeds))),
        ),
        folder=folder.resolve(),
        source=source,
    )
