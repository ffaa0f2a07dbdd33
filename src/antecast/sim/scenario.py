"""Scenarios: everything that determines a run but the code, as typed settings read from TOML.

Unknown keys, values out of range and references to nodes that do not exist are refused with the
path of the field. `docs/scenarios.md` explains every key. The tables of a scenario are typed in `network`,
`workload_kinds`, `fault_kinds`, `clocks` and `topology`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from antecast.core.arguments import check_path, unexpected
from antecast.core.errors import ConfigurationError, InputError
from antecast.core.settings import Duration, Settings, format_duration, plain_settings, read_settings
from antecast.protocols import Need, Specification, specification
from antecast.protocols.registry import address
from antecast.sim.clocks import ClockSettings
from antecast.sim.fault_kinds import Fault, Join, Partition, Rebirth
from antecast.sim.network import NetworkSettings
from antecast.sim.radio.layout import Cells, Still, Walk
from antecast.sim.sense import check_sense, remarks
from antecast.sim.topology import Complete, Contacts, Explicit, Spray
from antecast.sim.workload_kinds import At, Trace, Workload

DEFAULT_PROTOCOL = "vector"


class LogSettings(Settings, frozen=True, kw_only=True):
    events: Literal["all", "order"] = "all"
    """`order` leaves out frames sent and received: enough for an audit, and far smaller."""
    sample: Duration | None = None
    """How often gauges are sampled; 0 for never. Default: a fiftieth of the duration."""


class Scenario(Settings, frozen=True, kw_only=True):
    """One network, one protocol, one workload."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[\w .-]+$")] = "scenario"
    seed: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 1
    nodes: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 8
    duration: Duration = Duration(10 * 10**9)
    """How long applications broadcast."""
    drain: Duration = Duration(60 * 10**9)
    """How long messages may travel after that; the run ends earlier if nothing is left to happen."""
    protocol: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": DEFAULT_PROTOCOL})
    """`name`, and the protocol's own settings."""
    network: NetworkSettings = msgspec.field(default_factory=NetworkSettings)
    clocks: ClockSettings = msgspec.field(default_factory=ClockSettings)
    workload: list[Workload] = []
    faults: list[Fault] = []
    log: LogSettings = msgspec.field(default_factory=LogSettings)
    engine: Literal["auto", "reference", "compiled"] = "auto"
    """What makes the run: `compiled` is faster and supports less; `auto` takes it where it supports the scenario.
    Both make the same run."""

    @property
    def specification(self) -> Specification:
        name = self.protocol.get("name")
        if not isinstance(name, str):
            raise ConfigurationError(
                'expected the name of a protocol, such as name = "vector"', field="protocol.name"
            )
        return specification(name)

    @property
    def protocol_settings(self) -> Settings:
        spec = self.specification
        settings = spec.configure({k: v for k, v in self.protocol.items() if k != "name"})
        fitted: Settings = spec.fit(settings, self.nodes)
        return fitted

    @property
    def horizon(self) -> int:
        return self.duration + self.drain

    @property
    def total_nodes(self) -> int:
        """Nodes at the start and those that join."""
        return max([self.nodes, *(number + 1 for _, number in self._newcomers())])

    @property
    def members(self) -> list[int]:
        """The numbers of all nodes, those that join included; these may leave numbers out."""
        return [*range(self.nodes), *sorted({number for _, number in self._newcomers()})]

    def _newcomers(self) -> Iterator[tuple[str, int]]:
        """The nodes that appear during the run, and which field names each."""
        for index, fault in enumerate(self.faults):
            if isinstance(fault, Join):
                yield f"faults[{index}].node", fault.node
            elif isinstance(fault, Rebirth):
                yield f"faults[{index}].number", fault.number

    def unmet_needs(self) -> list[Need]:
        """What the protocol needs and this network does not give."""
        network = self.network
        lossy = network.loss > 0 or network.queue_limit is not None or any(link.loss for link in network.links)
        unmet = {
            Need.RELIABLE_LINKS: lossy,
            Need.FIFO_LINKS: not network.fifo,
            Need.STATIC_MEMBERS: bool(self.faults)
            or isinstance(network.topology, Spray)
            or (isinstance(network.topology, Cells) and not isinstance(network.topology.mobility, Still)),
            Need.COMPLETE_GRAPH: not isinstance(network.topology, Complete),
            Need.CELLS: not isinstance(network.topology, Cells),
            Need.CLOCKS: self._clocks_too_far_apart(),
        }
        return sorted(need for need in self.specification.needs(self.protocol_settings) if unmet[need])

    def _clocks_too_far_apart(self) -> bool:
        bound = self.specification.clock_bound(self.protocol_settings)
        return bound is not None and self.clocks.spread(self.total_nodes, self.horizon) > bound

    def lifetimes(self) -> Iterator[tuple[str, int]]:
        """The lifetimes that the workload asks for, and where it says so."""
        for index, workload in enumerate(self.workload):
            if isinstance(workload, At):
                for number, broadcast in enumerate(workload.broadcasts):
                    if broadcast.lifetime is not None:
                        yield f"workload[{index}].broadcasts[{number}].lifetime", broadcast.lifetime
            elif not isinstance(workload, Trace) and workload.lifetime is not None:
                yield f"workload[{index}].lifetime", workload.lifetime

    def latest_delivery(self) -> int | None:
        """How long after its broadcast a message may be delivered, in true time; None if messages do not expire.

        A deadline is the source's time and a lifetime, judged by the receiver's: both clocks may be off.
        """
        lifetime = self.specification.lifetime(self.protocol_settings)
        return None if lifetime is None else lifetime + 2 * self.clocks.largest_error(self.horizon)

    def check(self) -> None:
        """Refuse what types alone cannot refuse: unknown protocols, nodes that do not exist."""
        _ = self.protocol_settings
        known = set(range(self.nodes)) | {number for _, number in self._newcomers()}
        for field, node in self._mentioned_nodes():
            if node not in known:
                highest = max(known)
                raise ConfigurationError(f"there is no node {node}; nodes are 0 to {highest}", field=field)
        from antecast.sim.radio.rules import check_cells

        check_cells(self)
        longest = self.specification.lifetime(self.protocol_settings)
        for field, lifetime in self.lifetimes():
            if longest is not None and lifetime > longest:
                limit = format_duration(longest)
                problem = f"{format_duration(lifetime)} exceeds the protocol's longest lifetime, which is {limit}"
                raise ConfigurationError(f"{problem}; raise protocol.max_lifetime", field=field)
        for field, number in self._newcomers():
            if number < self.nodes:
                problem = f"node {number} is there from the start; number those that join from {self.nodes} on"
                raise ConfigurationError(problem, field=field)
        check_sense(self)
        if self.engine == "compiled":
            from antecast.sim.compiled.choice import choose

            choose(self)

    def _mentioned_nodes(self) -> Iterator[tuple[str, int]]:
        for index, link in enumerate(self.network.links):
            yield from ((f"network.links[{index}].{end}", getattr(link, end)) for end in ("a", "b"))
        if isinstance(self.network.topology, Explicit):
            for index, pair in enumerate(self.network.topology.links):
                yield from ((f"network.topology.links[{index}]", node) for node in pair)
        for index, workload in enumerate(self.workload):
            if isinstance(workload, At):
                yield from (
                    (f"workload[{index}].broadcasts[{i}].node", b.node) for i, b in enumerate(workload.broadcasts)
                )
            elif not isinstance(workload, Trace):
                yield from ((f"workload[{index}].senders", node) for node in workload.senders or ())
        for index, fault in enumerate(self.faults):
            for name in ("node", "a", "b", "by"):
                if getattr(fault, name, None) is not None:
                    yield f"faults[{index}].{name}", getattr(fault, name)
            groups = fault.groups if isinstance(fault, Partition) else ()
            yield from ((f"faults[{index}].groups", node) for group in groups for node in group)
            yield from ((f"faults[{index}].peers", node) for node in getattr(fault, "peers", None) or ())
        yield from (("clocks.fixed", int(node)) for node in self.clocks.fixed if node.isdigit())

    def trace_origin(self) -> tuple[int, tuple[str, ...]]:
        """What the trace that nodes follow calls time 0 of the run, and notes on how it was read."""
        topology = self.network.topology
        if isinstance(topology, Contacts):
            from antecast.sim.contact_plan import load_plan

            plan = load_plan(topology)
            return plan.origin, plan.notes
        if isinstance(topology, Cells) and isinstance(topology.mobility, Walk):
            from antecast.sim.radio.movement import load_walks

            walks = load_walks(topology.mobility)
            return walks.origin, walks.notes
        return 0, ()

    def notes(self) -> list[str]:
        """What the user should know: how a trace was read, and which faults do nothing."""
        return [*self.trace_origin()[1], *remarks(self)]

    def files(self) -> list[str]:
        """The files that the scenario reads."""
        found = [workload.file for workload in self.workload if isinstance(workload, Trace)]
        if isinstance(topology := self.network.topology, Cells) and isinstance(topology.mobility, Walk):
            found.append(topology.mobility.file)
        elif isinstance(topology, Contacts):
            found += [file for file in (topology.file, topology.presence) if file]
        return found

    def plain(self) -> dict[str, Any]:
        """The scenario as plain values, with every default written out."""
        plain = plain_settings(self)
        plain["protocol"] = {"name": address(self.specification)} | plain_settings(self.protocol_settings)
        return plain


_OF_STUDIES = {"scenario", "grid", "zip", "seeds"}


def make_scenario(values: Mapping[str, Any], *, source: str | None = None) -> Scenario:
    """A checked scenario from plain values."""
    from antecast.sim.radio.rules import complete_cells

    if not isinstance(values, Mapping):
        raise unexpected("values", values, "a mapping of a scenario's values; `load_scenario` reads a TOML file")
    values = _spelled_out(values)
    try:
        if set(values) & _OF_STUDIES:
            raise ConfigurationError("is a study, not a scenario; `antecast sweep` makes its runs")
        scenario = complete_cells(_follow_trace(read_settings(values, Scenario), values), values)
        scenario.check()
    except ConfigurationError as error:
        raise ConfigurationError(error.problem, field=error.field, source=source) from None
    return scenario


def _spelled_out(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A protocol that is only a name is one with its defaults; settings without a name are the default's."""
    protocol = values.get("protocol")
    if isinstance(protocol, str):
        return {**values, "protocol": {"name": protocol}}
    if isinstance(protocol, Mapping) and protocol and "name" not in protocol:
        return {**values, "protocol": {"name": DEFAULT_PROTOCOL, **protocol}}
    return values


def _follow_trace(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Take the number of nodes from a contact trace, and the duration if none is given."""
    if not isinstance(scenario.network.topology, Contacts):
        return scenario
    from antecast.sim.contact_plan import load_plan

    plan = load_plan(scenario.network.topology)
    if "nodes" in values and scenario.nodes != len(plan.names):
        problem = f"the contact trace has {len(plan.names)} nodes; leave this out"
        raise ConfigurationError(problem, field="nodes")
    changes: dict[str, Any] = {"nodes": max(1, len(plan.names))}
    if "duration" not in values:
        changes |= {"duration": Duration(plan.end), "drain": Duration(0)}
    return msgspec.structs.replace(scenario, **changes)


def load_scenario(path: Path | str, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario from a TOML file. Overrides are of the form `network.loss=0.1`.

    Files that the scenario names are found relative to it.
    """
    if not isinstance(path, Path | str):
        raise unexpected("path", path, "the path of a TOML file")
    check_path("path", path)
    values = override(read_toml(path), overrides)
    resolve_files(values, Path(path).parent)
    return make_scenario(values, source=str(path))


def resolve_files(values: dict[str, Any], folder: Path) -> None:
    """Make the paths of the files that a scenario names relative to a folder, in place."""
    workload, network = values.get("workload"), values.get("network")
    tables = [*workload] if isinstance(workload, list) else []
    if isinstance(network, dict):
        tables.append(network.get("topology"))
        if isinstance(tables[-1], dict):
            tables.append(tables[-1].get("mobility"))
    for table in tables:
        for key in ("file", "presence") if isinstance(table, dict) else ():
            if isinstance(table.get(key), str):
                table[key] = str(folder / table[key])


def read_toml(path: Path | str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not a text file in UTF-8 (byte {error.start})", path=path) from None
    except tomllib.TOMLDecodeError as error:
        message, _, where = str(error).partition(" (at ")
        digits = where.removeprefix("line ").split(",")[0]
        raise InputError(
            f"not valid TOML: {message}", path=path, line=int(digits) if digits.isdigit() else None
        ) from None
    except ValueError as error:  # a name with a NUL, which a study may give its scenario
        raise InputError(f"cannot read: {error}", path=path) from None


def override(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Set fields by path, in place: `network.loss=0.1`, `workload.0.rate=5`, `protocol.name=fifo`."""
    values.update(_spelled_out(values))
    for text in overrides:
        path, equals, value = text.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigurationError(
                f"expected FIELD=VALUE, such as network.loss=0.1, got {text!r}", field="--set"
            )
        if keys[0] in _OF_STUDIES - set(values):
            problem = f"{path.strip()} is not a field of a scenario; expected one such as nodes or network.loss"
            raise ConfigurationError(problem, field="--set")
        target: Any = values
        for depth, key in enumerate(keys):
            if isinstance(target, list):
                if not (key.isdigit() and int(key) < len(target)):
                    where = ".".join(keys[:depth])
                    raise ConfigurationError(
                        f"{where} has {len(target)} entries, numbered from 0; got {key!r}", field="--set"
                    )
            elif not isinstance(target, dict):
                raise ConfigurationError(f"{'.'.join(keys[:depth])} is not a table", field="--set")
            index: Any = int(key) if isinstance(target, list) else key
            if depth == len(keys) - 1:
                target[index] = _toml_value(value)
            else:
                target = target.setdefault(index, {}) if isinstance(target, dict) else target[index]
    values.update(_spelled_out(values))
    return values


def _toml_value(text: str) -> Any:
    """A value as TOML would read it; text that is not a TOML value is taken as a string."""
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
