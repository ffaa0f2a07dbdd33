"""The registry: every protocol by name, with what it promises, what it needs and what it costs.

A protocol has one `Specification`. The command line, the scenarios, the documentation and the
conformance tests all work from it. A name is looked up in this order:

1. the protocols of Antecast, and what a program has put here with `register`;
2. the entry points of installed packages, group `antecast.protocols`, each of which loads a `Specification`;
3. a name with a colon is an import path, `package.module:ATTRIBUTE`; the working folder is searched too.

The code of a protocol from outside is part of the identity of its runs (`protocols.outside`).
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from antecast.core import ConfigurationError, Frame, NodeId, Protocol
from antecast.core.arguments import unexpected
from antecast.core.guarantees import Guarantee, Need
from antecast.core.settings import Settings, read_settings
from antecast.protocols import outside

__all__ = ["Guarantee", "Need", "Specification", "Unit", "register", "specification", "specifications"]


class Unit(StrEnum):
    """What a gauge counts."""

    MESSAGES = "messages"
    """Messages that a node keeps: waiting, stored to pass on, buffered."""
    ENTRIES = "entries"
    """Numbers that a node keeps: of clocks, barriers, known sources and hosts."""
    COUNTER = "counter"
    """How often something has happened, or how many links there are: no memory."""


REMEDIES: Mapping[Need, str] = {
    Need.RELIABLE_LINKS: "reliable links: network.loss = 0 and no queue_limit",
    Need.FIFO_LINKS: "links that keep the order of their frames: network.fifo = true",
    Need.STATIC_MEMBERS: "nodes and links that stay: no faults, and hosts or overlays that do not move",
    Need.COMPLETE_GRAPH: 'a link between every two nodes: topology = { kind = "complete" }',
    Need.CELLS: 'stations and cells: topology = { kind = "cells" }',
    Need.CLOCKS: "clocks no further apart than protocol.clock_bound: raise it, or lower clocks.offset and drift",
}
"""Each need in words, and what in a scenario would meet it."""


@dataclass(frozen=True, kw_only=True)
class Specification:
    name: str
    title: str
    """One line for tables."""
    reference: str
    """Where it was published, by title and authors."""
    guarantees: frozenset[Guarantee]
    needs: Callable[[Any], frozenset[Need]]
    """What it needs, given its settings."""
    control: str
    """Control information per message, as a formula of N sources."""
    memory: str
    """What a node keeps in memory, as a formula."""
    delivery: str
    """Work per delivery."""
    settings: type[Settings]
    make: Callable[[NodeId, Any], Protocol]
    loss_settings: Mapping[str, object] = field(default_factory=dict)
    """Settings under which the protocol also tolerates links that lose; empty if there are none."""
    lifetime: Callable[[Any], int | None] = lambda settings: None
    """The longest lifetime of a message, given the settings; None if messages do not expire."""
    clock_bound: Callable[[Any], int | None] = lambda settings: None
    """How far apart two clocks may be, given the settings; None if clocks do not matter."""
    heartbeats: Callable[[Any], tuple[type[Frame], ...]] = lambda settings: ()
    """The frames that are sent for ever when all is done, given the settings: signs of life, and what neighbours
    compare now and then. `antecast check` expects all others to end."""
    fit: Callable[[Any, int], Any] = lambda settings, nodes: settings
    """Completes settings with what follows from the number of nodes at the start."""
    draws: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """For tests that draw settings: the values of a field to try, instead of what its type suggests, the simplest
    first. Where the promises do not hold under all values, name those under which they do."""
    trusts_bases: bool = False
    """Whether a node takes a neighbour's word for what it missed and nobody keeps, without a message that depends
    on it: a member that names messages not yet broadcast, or still on their way, then makes it miss these."""
    trusts_order: bool = False
    """Whether messages carry nothing that tells their order, which rests on neighbours that pass on everything in
    the order in which they had it: a member that does not can break causal order at its neighbours."""
    trusts_closure: bool = False
    """Whether stamps name only what other messages do not imply, so that a base must hold, with each message, all
    that it depends on: a member that offers another one can break causal order at its neighbours."""
    make_station: Callable[[NodeId, Any], Protocol] | None = None
    """Where there are cells: makes a station; `make` makes a host."""
    gauges: Mapping[str, Unit] = field(default_factory=dict)
    """What each of the protocol's gauges counts; default: a counter."""

    @property
    def parts(self) -> tuple[object, ...]:
        """What it is made of, and the module it was found in: the code in these determines its runs."""
        made = (self.make, self.make_station, self.settings, self.needs, self.fit, self.lifetime)
        return (*(part for part in made if part is not None), *outside.module_of(address(self)))

    def configure(self, values: Mapping[str, object], *, path: str = "protocol") -> Settings:
        """The protocol's settings from plain values, checked."""
        return read_settings(values, self.settings, path=path)


_registry: dict[str, Specification] = {}


_addresses: dict[int, tuple[Specification, str]] = {}
"""Protocols found by entry point or import path, and by which; kept, so that their ids stay valid."""


def address(specification: Specification) -> str:
    """The name by which a scenario finds a protocol, here and on another machine."""
    found = _addresses.get(id(specification))
    if found is not None:
        return found[1]
    if _registry.get(specification.name) is not specification:
        module = sys.modules.get(str(getattr(specification.make, "__module__", "")))
        for name, value in vars(module).items() if module is not None else ():
            if value is specification:
                return f"{specification.make.__module__}:{name}"
    return specification.name


def code_of(specification: Specification) -> dict[str, str]:
    """Fingerprints of the code from outside that a protocol is made of; empty for one of Antecast's own."""
    return outside.code_of(specification.parts)


def pack(names: Iterable[str]) -> outside.Packed:
    """The code from outside of these protocols, to be sent to workers (`outside.unpack`)."""
    return outside.pack({name: specification(name).parts for name in names})


def register(specification: Specification) -> Specification:
    if not isinstance(specification, Specification):
        raise unexpected("specification", specification, "a Specification")
    if specification.name in _registry:
        raise ValueError(f"protocol {specification.name!r} is registered already")
    _registry[specification.name] = specification
    return specification


def specifications() -> list[Specification]:
    """All protocols: Antecast's own and registered ones in the order of their registration, then those of
    installed packages by name."""
    installed = outside.entry_points()
    return [*_registry.values(), *(specification(name) for name in sorted(installed.keys() - _registry.keys()))]


def specification(name: str, *, path: str = "protocol.name") -> Specification:
    """The protocol of that name or import path; a `ConfigurationError` with a suggestion if there is none."""
    if not isinstance(name, str):
        raise unexpected("name", name, "the name of a protocol or its import path")
    if name in _registry:
        return _registry[name]
    if outside.is_known(name):
        found = outside.load(name, path=path)
        if not isinstance(found, Specification):
            problem = f"{name} is a {type(found).__name__}, not a Specification"
            raise ConfigurationError(problem, field=path)
        _addresses[id(found)] = found, name
        return found
    known = [*_registry, *outside.entry_points()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
    raise ConfigurationError(
        f"unknown protocol {name!r}; {hint}; name your own by its import path, package.module:NAME",
        field=path,
    )
