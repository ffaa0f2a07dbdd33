"""What a search cannot see through: state outside of a protocol's attributes, and questions that go wrong.

A search rests on rules 1 and 8 of `core.protocol`: what a call does depends on the state and the call alone, and
all of the state is in the object. A protocol that hides some of it elsewhere is refused, as far as that can be
noticed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

from antecast.core import ConfigurationError, Protocol
from antecast.core.canonical import canonical_form
from antecast.core.structure import NotAStructure

FAULTS: Final = (Exception, SystemExit, GeneratorExit)
"""What a protocol or a property may raise by mistake. One that calls `sys.exit` must not end a check as if all
were well; Ctrl-C may."""

_OF_NO_INTEREST = (type, ModuleType, property)


class HiddenState(ConfigurationError):
    """A protocol does two things in what should be one state."""

    def __init__(self, problem: str) -> None:
        rules = "draws no random numbers, and all its state is in its attributes (rules 1 and 8 of core.protocol)"
        super().__init__(f"{problem}: a protocol {rules}")


class Raised(Exception):
    """A protocol raised where it is not called but asked: for its state, its gauges, or how far it is."""


def outside_of(protocols: Iterable[Protocol]) -> dict[tuple[int, str], object]:
    """What the classes and modules of some protocols hold: nothing that may change. Functions are looked at, too,
    since they keep something between calls as their defaults, in a closure, or as attributes."""
    kinds = {kind for protocol in protocols for kind in type(protocol).__mro__ if issubclass(kind, Protocol)}
    modules = {kind.__module__: sys.modules.get(kind.__module__) for kind in kinds}
    homes: list[Any] = [*(kinds - {Protocol}), *modules.values()]
    found: dict[tuple[int, str], object] = {}
    for home in homes:
        for name, value in vars(home).items() if home is not None else ():
            if not isinstance(value, _OF_NO_INTEREST) and not name.startswith("__"):
                inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                with suppress(NotAStructure):
                    found[id(home), name] = canonical_form(inner)
    return found


def odd_gauges(protocol: Protocol) -> str | None:
    """What is wrong with the gauges of a node, in words, or None."""
    try:
        odd = [name for name, size in protocol.gauges().items() if not hasattr(size, "__index__")]
    except FAULTS as error:
        return f"gauges raised {type(error).__name__}: {error}"
    return f"the gauge {odd[0]} is not a whole number" if odd else None
