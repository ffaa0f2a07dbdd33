"""A check: a protocol, a scope, a strategy, and what came of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from antecast.checking.counterexample import Counterexample, counterexample
from antecast.checking.limits import Limits, Meter, Progress, memory_used, stopper
from antecast.checking.properties import BoundedBuffers, Property, addresses, check_limits
from antecast.checking.scope import ADVERSITY, BUDGET, Scope, check_scope, check_specification
from antecast.checking.search import SHARED_FROM, Found, explore
from antecast.checking.walks import shorten, walk
from antecast.checking.ways import Order
from antecast.checking.world import BadStart, Worlds
from antecast.core import ConfigurationError
from antecast.core.settings import plain_settings
from antecast.protocols.registry import Guarantee, Specification, address

Strategy: TypeAlias = Literal["breadth", "depth", "growing", "walk", "overtaking", "patient"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
WALKS = ("walk", "overtaking", "patient")

ROOM = 50_000
"""States that a growing bound is given before it is walked through at random."""
ROUNDS = (1_000, 4_000, 16_000)
"""How many walks it makes at each bound, from that one on, one round after the other."""
TOO_MANY = f"more than {ROOM:,} states"
BY_WALK = "found by a random walk"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found out."""

    protocol: str
    scope: Scope
    """The bound that was reached, where it grows."""
    found: Found
    counterexample: Counterexample | None = None
    wall: float = 0.0
    calm_timers: bool = False
    """Whether there were faults and timers, and timers fired only once all was calm: none in between."""


def check(
    spec: Specification,
    scope: Scope,
    *,
    settings: Mapping[str, object] | None = None,
    promises: frozenset[Guarantee] | None = None,
    properties: tuple[Property, ...] = (),
    bounds: Mapping[str, int] | None = None,
    strategy: Strategy = "breadth",
    reduce: bool = True,
    exact: bool = False,
    seed: int = 0,
    jobs: int = 1,
    share_from: int = SHARED_FROM,
    elsewhere: Callable[[Order, Progress], Found] | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int, int, int], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Checked:
    """Look at everything that can happen to a protocol within a scope.

    The frontier of a breadth-first search is shared between so many `jobs`, once it has seen `share_from` worlds.
    `bounds` are limits of gauges, by name. `elsewhere` makes the search in place of this process, as Spark does.
    """
    if strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise ConfigurationError(f"unknown strategy {strategy!r}; choose one of {known}", field="strategy")
    limits = limits or Limits()
    configured = spec.configure(settings or {})
    check_specification(spec, configured)
    fitted: Any = spec.fit(configured, scope.nodes)
    check_scope(spec, fitted, scope)
    if promises is not None and Guarantee.DEADLINE in promises and spec.lifetime(fitted) is None:
        raise ConfigurationError(f"{spec.name} has no lifetimes, so nothing is ever late", field="promise")
    first = Worlds(spec, fitted, scope, promises=promises)
    try:
        first.beginning()
    except BadStart as bad:
        return Checked(
            protocol=spec.name,
            scope=scope,
            found=Found(verdict="violated", states=1, transitions=0, depth=0, problem=bad.problem),
            counterexample=counterexample(first, bad.problem, (), 0),
        )
    if bounds:
        check_limits(bounds, first)
        properties = (*properties, BoundedBuffers(bounds))
    if limits.memory is not None:
        gc.collect()  # a search before this one is no longer needed
    started = time.monotonic()
    meter = Meter()
    stop = stopper(limits, progress, interrupted, meter)

    def worlds(scope: Scope) -> Worlds:
        return Worlds(spec, fitted, scope, promises=promises)

    def walked(scope: Scope, way: Strategy, walks: int | None = None) -> tuple[Worlds, Found]:
        made = worlds(scope)
        kind: dict[str, Any] = {"overtaking": way == "overtaking", "patient": way == "patient"}
        return made, walk(made, seed=seed, walks=walks, properties=properties, progress=stop, **kind)

    def search(scope: Scope, stop: Progress = stop) -> tuple[Worlds, Found]:
        if strategy in WALKS:
            return walked(scope, strategy)

        def anew() -> Worlds:
            gc.collect()
            return worlds(scope)

        made = worlds(scope)
        if elsewhere is not None:
            order = Order(
                protocol=address(spec),
                settings=plain_settings(fitted),
                scope=plain_settings(scope),
                promises=tuple(made.promises),
                properties=tuple(addresses(properties)),
                bounds=dict(bounds or {}),
                reduce=reduce,
            )
            return made, elsewhere(order, stop)
        options: dict[str, Any] = {"reduce": reduce, "exact": exact, "properties": properties, "progress": stop}
        options |= {"meter": meter, "jobs": jobs, "share_from": share_from}
        found = explore(made, depth_first=strategy == "depth", **options)
        if found.why.startswith("memory"):
            rest = replace(limits, memory=None, states=None, seconds=limits.seconds or 60.0)
            timers = made.machine.first_set
            del made  # a walk has the memory of the search, and forgets what it knows when that is used up
            more = walk(
                anew(),
                seed=seed,
                properties=properties,
                progress=stopper(rest, progress, interrupted, Meter()),
                anew=lambda: anew() if memory_used() > (limits.memory or 0) else None,
            )
            made = anew()
            if more.verdict == "violated":
                return made, more
            made.machine.first_set |= timers
            return made, replace(found, why=f"{found.why}; then {more.why}")
        return made, found

    if strategy == "growing":
        made, found, scope = _growing(scope, search, walked, stop)
    else:
        made, found = search(scope)
    example = None
    if found.problem is not None:
        found = shorten(made, found, properties)
        assert found.problem is not None
        example = counterexample(made, found.problem, found.actions, found.calm, properties=properties)
    faults = any(getattr(scope, name) for name in ADVERSITY)
    return Checked(
        protocol=spec.name,
        scope=scope,
        found=found,
        counterexample=example,
        wall=time.monotonic() - started,
        calm_timers=faults and not scope.timeouts and bool(made.machine.first_set),
    )


def _growing(
    scope: Scope,
    search: Callable[[Scope, Progress], tuple[Worlds, Found]],
    walked: Callable[[Scope, Strategy, int], tuple[Worlds, Found]],
    stop: Progress,
) -> tuple[Worlds, Found, Scope]:
    """Search with a bound that grows by one, up to that of the scope.

    What takes several faults in a large world shows at a bound that would take very long to exhaust. So the first
    bound with more than `ROOM` states, and all that follow, are walked through before the search goes on.
    """
    whole = scope.bound or sum(getattr(scope, name) for name in BUDGET)
    bounds = [msgspec.structs.replace(scope, bound=bound) for bound in range(1, whole + 1)]

    def capped(states: int, transitions: int, frontier: int, depth: int) -> str | None:
        return stop(states, transitions, frontier, depth) or (TOO_MANY if states > ROOM else None)

    has_walked, started = False, time.process_time()
    for place, bounded in enumerate(bounds):
        made, found = search(bounded, stop if has_walked else capped)
        if found.why.endswith(TOO_MANY):
            for walks in ROUNDS:
                for larger in bounds[place:]:
                    made, found = walked(larger, "patient", walks)
                    if found.verdict == "violated":
                        used = time.process_time() - started
                        return made, replace(found, reduction=(BY_WALK,), seconds=used), larger
                    if found.states < walks:  # a limit is reached
                        return made, found, larger
            has_walked = True
            made, found = search(bounded, stop)
        if found.verdict != "exhausted":
            break
    return made, found, bounded
