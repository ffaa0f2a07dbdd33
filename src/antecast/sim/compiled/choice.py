"""Which engine makes a run: the reference, or a compiled one that makes the same run faster.

`engine = "auto"` takes a compiled engine that supports everything a scenario asks for, unless the run is so short
that loading compiled code would take longer than the run. What an engine does not support it refuses, by field;
the refusal is the reason why the reference made the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

from antecast.core import ConfigurationError
from antecast.core.compiled import is_cached, is_kept
from antecast.history.log import DiscardSink, EventWriter, SampleWriter
from antecast.protocols import specification
from antecast.sim.compiled.engine import Made
from antecast.sim.compiled.table import make_table, roomier_table
from antecast.sim.scenario import Scenario, make_scenario
from antecast.sim.study import expected_broadcasts

Maker: TypeAlias = Callable[[Scenario, EventWriter, SampleWriter], Made]

SHORT = 100_000
"""Deliveries that the reference makes in about the time in which compiled code is loaded."""


@dataclass(frozen=True)
class Choice:
    """The engine of a run, and why it is that one."""

    engine: Literal["reference", "compiled"]
    why: str


def choose(scenario: Scenario) -> Choice:
    """The engine that a scenario asks for; one that it cannot have raises `ConfigurationError`."""
    if scenario.engine == "reference":
        return Choice("reference", "asked for")
    try:
        _check(scenario)
    except ConfigurationError as error:
        if scenario.engine == "compiled":
            raise ConfigurationError(f'{error.problem}, or set engine to "auto"', field=error.field) from None
        return Choice("reference", str(error))
    if scenario.engine == "compiled":
        return Choice("compiled", "asked for")
    steps = round(expected_broadcasts(scenario) * scenario.nodes)
    if steps < SHORT:
        return Choice("reference", f"the run is short: about {steps:,} deliveries, fewer than {SHORT:,}")
    return Choice("compiled", "it supports all that the scenario asks for")


def has_compiled_engine(protocol: str) -> bool:
    """Whether there is a compiled engine for a protocol; what it supports is another question."""
    return protocol in _PACKAGES


_PACKAGES: Final = {
    "vcube": "vcube",
    "vcube-single": "vcube",
    "epidemic": "opportunistic",
    "barrier": "opportunistic",
    "delta": "opportunistic",
}
"""The engine of each protocol: a package beside this file, with `engine` and `kernel` in it."""

_SMALLEST: Final = {"vcube": {"name": "vcube", "diagnosis": 0}, "opportunistic": {"name": "delta"}}
"""For each engine a protocol that it runs."""


def _part(protocol: str, name: str) -> Any:
    return import_module(f"antecast.sim.compiled.{_PACKAGES[protocol]}.{name}")


def _check(scenario: Scenario) -> None:
    found = scenario.specification
    if not has_compiled_engine(found.name) or found is not specification(found.name):
        raise ConfigurationError(
            f"there is no compiled engine for {found.name}, only for {', '.join(_PACKAGES)}; name one of these",
            field="protocol.name",
        )
    _part(found.name, "engine").check(scenario)


def compiled_engine(scenario: Scenario) -> Maker:
    """The compiled engine for a scenario that it supports."""
    make: Maker = _part(scenario.specification.name, "engine").ENGINE
    return make


def is_ready(protocol: str) -> bool:
    """Whether the engine of a protocol lies on disk as machine code; if not, its first run compiles it."""
    return is_cached(_part(protocol, "kernel").advance)


COMPILING = "compiling the engine: this takes some 20 seconds, once; the machine code is kept for later runs"
COMPILING_ALWAYS = (
    "compiling the engine: this takes some 20 seconds in every process, since there is no folder in which the"
    " machine code could be kept; set NUMBA_CACHE_DIR to one"
)


def what_takes_time(protocol: str) -> str | None:
    """What a user should know before the engine of a protocol is loaded; None if it is ready."""
    if is_ready(protocol):
        return None
    return COMPILING if is_kept(_part(protocol, "kernel").advance) else COMPILING_ALWAYS


def prepare(protocol: str, on_note: Callable[[str], None] | None = None) -> None:
    """Load the engine of a protocol, and compile it where that has not been done; says so before it begins."""
    if on_note is not None and (said := what_takes_time(protocol)):
        on_note(said)
    smallest = make_scenario(
        {
            "engine": "compiled",
            "nodes": 2,
            "protocol": _SMALLEST[_PACKAGES[protocol]],
            "workload": [{"kind": "at", "broadcasts": [{"t": 0, "node": 0}]}],
        }
    )
    sinks = EventWriter("", DiscardSink()), SampleWriter("", DiscardSink())
    compiled_engine(smallest)(smallest, *sinks).run()
    roomier_table(make_table(1))  # a kernel of its own, which no small run needs
