"""The registry: every protocol by name, with what it promises, what it needs and what it costs.

A protocol registers one `Specification`. The command line, the scenarios, the documentation and the
conformance tests all work from it: a protocol registered here is run through the whole conformance
suite without a line of new test code.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from antecast.core import ConfigurationError, NodeId, Protocol
from antecast.core.settings import Settings, read_settings


class Guarantee(StrEnum):
    """What holds in every run that meets the protocol's needs (and safety in every run at all)."""

    INTEGRITY = "integrity"
    """A message is delivered at most once a node, and only if it was broadcast."""
    FIFO = "fifo"
    """Messages of one source are delivered in the order of its broadcasts."""
    CAUSAL = "causal"
    """A message is delivered after all messages of its causal past that are delivered there."""
    AGREEMENT = "agreement"
    """What one node delivers, all nodes deliver that stay connected, or come back in time."""


class Need(StrEnum):
    """What a protocol needs of the network to keep its promises."""

    RELIABLE_LINKS = "reliable links"
    """A frame sent over a link that stays up arrives."""
    FIFO_LINKS = "FIFO links"
    """Frames arrive in the order they were sent over the link."""
    STATIC_MEMBERS = "static membership"
    """Nodes do not crash, join or leave, and links stay."""
    COMPLETE_GRAPH = "complete graph"
    """Every two nodes have a link, while both are up and no partition lies between them."""
    CELLS = "cells"
    """Stations joined by wires in a tree, and hosts in their cells; the needs of links are those of the wires."""


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
    """Control information on a message, as a formula of N sources."""
    memory: str
    """What a node keeps, as a formula."""
    delivery: str
    """Work for one delivery."""
    settings: type[Settings]
    make: Callable[[NodeId, Any], Protocol]
    loss_settings: Mapping[str, object] = field(default_factory=dict)
    """Settings under which the protocol also bears links that lose; empty if there are none."""
    fit: Callable[[Any, int], Any] = lambda settings, nodes: settings
    """Settings completed with what a network of so many nodes at its start implies."""
    draws: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """For tests that draw settings: the values to try of a field, in place of what its type suggests; the simplest
    first. Name the values under which the promises hold, where they do not hold under all."""
    make_station: Callable[[NodeId, Any], Protocol] | None = None
    """Where there are cells: `make` makes a host, this a station."""

    def configure(self, values: Mapping[str, object], *, path: str = "protocol") -> Settings:
        """The protocol's settings from plain values, checked."""
        return read_settings(values, self.settings, path=path)


_registry: dict[str, Specification] = {}


def register(specification: Specification) -> Specification:
    if specification.name in _registry:
        raise ValueError(f"protocol {specification.name!r} is registered already")
    _registry[specification.name] = specification
    return specification


def specifications() -> list[Specification]:
    """All protocols, in the order of their registration."""
    return list(_registry.values())


def specification(name: str, *, path: str = "protocol.name") -> Specification:
    """The protocol of that name; a `ConfigurationError` with a suggestion if there is none."""
    try:
        return _registry[name]
    except KeyError:
        near = difflib.get_close_matches(name, _registry, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(_registry)}"
        raise ConfigurationError(f"unknown protocol {name!r}; {hint}", field=path) from None
