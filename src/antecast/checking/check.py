"""A check: a protocol, a scope, a strategy, and what came of it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from antecast.checking.counterexample import Counterexample, counterexample
from antecast.checking.scope import BUDGET, Scope, check_scope
from antecast.checking.search import Found, Progress, Property, explore
from antecast.checking.walks import shorten, walk
from antecast.checking.world import Worlds
from antecast.core import ConfigurationError
from antecast.protocols.registry import Guarantee, Specification

Strategy: TypeAlias = Literal["breadth", "depth", "growing", "walk"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found out."""

    protocol: str
    scope: Scope
    """The bound that was reached, where it grows."""
    found: Found
    counterexample: Counterexample | None = None
    wall: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a search ends before it has seen everything."""

    states: int | None = None
    memory: int | None = None
    """Bytes of the whole process."""
    seconds: float | None = None
    cpu: float | None = None
    """Seconds of the processor: the same search, however busy the machine is."""


def check(
    spec: Specification,
    scope: Scope,
    *,
    settings: Mapping[str, object] | None = None,
    promises: frozenset[Guarantee] | None = None,
    properties: tuple[Property, ...] = (),
    strategy: Strategy = "breadth",
    reduce: bool = True,
    exact: bool = False,
    seed: int = 0,
    limits: Limits | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Checked:
    """Look at everything that can happen to a protocol within a scope."""
    if strategy not in STRATEGIES:
        raise ConfigurationError(f"unknown strategy {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    limits = limits or Limits()
    fitted: Any = spec.fit(spec.configure(settings or {}), scope.nodes)
    check_scope(spec, fitted, scope)
    started = time.monotonic()
    stop = _stopper(limits, progress, interrupted)

    def worlds(scope: Scope) -> Worlds:
        return Worlds(spec, fitted, scope, promises=promises)

    def search(scope: Scope) -> tuple[Worlds, Found]:
        made = worlds(scope)
        if strategy == "walk":
            return made, walk(made, seed=seed, properties=properties, progress=stop)
        options: dict[str, Any] = {"reduce": reduce, "exact": exact, "properties": properties, "progress": stop}
        found = explore(made, depth_first=strategy == "depth", **options)
        if found.why.startswith("memory"):
            rest = replace(limits, memory=None, states=None, seconds=limits.seconds or 60.0)
            more = walk(made, seed=seed, properties=properties, progress=_stopper(rest, progress, interrupted))
            if more.verdict == "violated":
                return made, more
            return made, replace(found, why=f"{found.why}; then {more.why}")
        return made, found

    if strategy == "growing":
        whole = sum(getattr(scope, name) for name in BUDGET)
        for bound in range(1, (scope.bound or whole) + 1):
            scope = msgspec.structs.replace(scope, bound=bound)
            made, found = search(scope)
            if found.verdict != "exhausted":
                break
    else:
        made, found = search(scope)
    example = None
    if found.problem is not None:
        found = shorten(made, found)
        assert found.problem is not None
        example = counterexample(made, found.problem, found.actions, found.calm)
    return Checked(
        protocol=spec.name, scope=scope, found=found, counterexample=example, wall=time.monotonic() - started
    )


def _stopper(
    limits: Limits, progress: Callable[[int, int, int, int], None] | None, interrupted: Callable[[], bool]
) -> Progress:
    until = None if limits.seconds is None else time.monotonic() + limits.seconds
    spent = None if limits.cpu is None else time.process_time() + limits.cpu

    def stop(states: int, transitions: int, frontier: int, depth: int) -> str | None:
        if progress is not None:
            progress(states, transitions, frontier, depth)
        if interrupted():
            return "interrupted"
        if limits.states is not None and states > limits.states:
            return f"more than {limits.states} states"
        if limits.memory is not None and _memory() > limits.memory:
            return "memory is used up"
        if until is not None and time.monotonic() > until:
            return f"{limits.seconds:g} s have passed"
        if spent is not None and time.process_time() > spent:
            return f"{limits.cpu:g} CPU seconds are used up"
        return None

    return stop


def _memory() -> int:
    """The most memory that this process has used, in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
