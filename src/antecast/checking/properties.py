"""Properties beside what a protocol promises: bounded buffers, and functions of one's own.

A property is a function of a world: what is wrong with it, in words, or None. One that looks at each node by
itself, and treats all alike, says so with an attribute `local = True`: then worlds may be left out that differ
only in the numbers of nodes or in who is down.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from antecast.checking.hidden import FAULTS, Raised
from antecast.checking.records import Problem
from antecast.core import ConfigurationError
from antecast.protocols import outside

if TYPE_CHECKING:
    from antecast.checking.world import World, Worlds

_EXPECTED = "expected package.module:function"

Property: TypeAlias = Callable[["View"], str | None]
"""A property of one's own: what is wrong with a world, in words, or None."""


class View:
    """A world, to be looked at by a property. Nothing in it may be changed."""

    def __init__(self, worlds: Worlds, world: World) -> None:
        self._worlds, self._world = worlds, world
        self.nodes = worlds.protocols(world)
        """The protocol objects of the nodes that are up."""
        self.now = world[worlds.NOW]

    def delivered(self, node: int) -> set[object]:
        """The names of the messages that a node has delivered."""
        bits = self._worlds.record(self._world, node).delivered
        names = self._worlds.machine.messages
        return {name for place, name in enumerate(names) if bits >> place & 1}

    def gauges(self, node: int) -> Mapping[str, int]:
        """The sizes of a node's buffers and registries, by name."""
        return self._worlds.gauges(self._world[node])


class BoundedBuffers:
    """No node ever keeps more than a limit: `{"pending": 2}` allows two messages that wait."""

    local = True
    __name__ = "bounded buffers"

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)

    def __call__(self, view: View) -> str | None:
        for node in view.nodes:
            gauges = view.gauges(node)
            for name, limit in self.limits.items():
                size = gauges.get(name, 0)
                if size > limit:
                    return f"node {node} keeps {size} ({name}); the limit is {limit}"
        return None


def check_limits(limits: Mapping[str, int], worlds: Worlds) -> None:
    """Refuse limits on what a protocol has no gauge for."""
    states = worlds.beginning()[: worlds.n]
    known = sorted({name for state in states if state for name in worlds.gauges(state)})
    for name, limit in limits.items():
        if name not in known:
            shown = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigurationError(f"{worlds.spec.name} has no gauge {name!r}; {shown}", field="limits")
        if limit < 0:
            raise ConfigurationError(f"{name}: {limit} is less than nothing; 0 at least", field="limits")


def are_local(properties: Iterable[Property]) -> bool:
    return all(getattr(each, "local", False) for each in properties)


def limited(properties: Iterable[Property]) -> list[str]:
    """The gauges that have a limit."""
    return [name for each in properties if isinstance(each, BoundedBuffers) for name in each.limits]


def broken_property(worlds: Worlds, world: World, properties: Iterable[Property]) -> Problem | None:
    """The first of these properties that a world breaks, and how."""
    view = None
    for each in properties:
        view = view or View(worlds, world)
        name = getattr(each, "__name__", "property")
        try:
            said: object = each(view)
        except Raised as error:
            return Problem("exception", str(error))
        except FAULTS as error:
            raise ConfigurationError(
                f"{name}{_where(error)} raised {type(error).__name__}: {error}", field="property"
            ) from error
        if said is None:
            continue
        if not (isinstance(said, str) and said):
            raise ConfigurationError(
                f"{name} gave {said!r}; a property says in words what is wrong, or gives None", field="property"
            )
        return Problem(name, said)
    return None


def _where(error: BaseException) -> str:
    """The line of a property that raised."""
    lines = traceback.extract_tb(error.__traceback__)[1:]
    return f" ({Path(lines[-1].filename).name}, line {lines[-1].lineno})" if lines else ""


def addresses(properties: Iterable[Property]) -> list[str]:
    """The names by which functions are found again; those without one (of a test, say) are left out."""
    found = []
    for each in properties:
        module, name = getattr(each, "__module__", ""), getattr(each, "__qualname__", "")
        if not isinstance(each, BoundedBuffers) and getattr(sys.modules.get(module), name, None) is each:
            found.append(f"{module}:{name}")
    return found


def own_property(name: str) -> Property:
    """A property by its address, `package.module:function`."""
    if ":" not in name:
        raise ConfigurationError(f"unknown property {name!r}: {_EXPECTED}", field="--property")
    try:
        found = outside.load(name, path="--property", expected=_EXPECTED)
    except ConfigurationError as error:
        raise ConfigurationError(f"unknown property {name!r}: {error.problem}", field="--property") from error
    if not callable(found):
        raise ConfigurationError(f"{name!r} is not a function of a world", field="--property")
    made: Property = found
    return made
