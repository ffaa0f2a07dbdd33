"""A breadth-first search whose worlds are told by the ways that lead to them, so that a cluster can share it.

A world is told by its *way*: the actions from the beginning, without those that happen at once. Whoever looks into
it walks there first; ways that are sorted have most of their steps in common with the one before. The worlds of
one depth are looked into by any number of tasks that know nothing of each other; what they reach is compared by
fingerprint, whoever keeps those. A task that is made twice does no harm.

What the reduction rests on is verified by the tasks (symmetry, for all local calls that a task has made), and at
the end by the first process (frames that mean nothing, or are only noted): tasks tell it which local states
followed which, and the calls that they made, and it makes these, too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import msgspec

from antecast.checking.calls import Told, ToldLag, forget, make_all, told
from antecast.checking.lassos import Receptions
from antecast.checking.limits import Progress
from antecast.checking.machine import Machine
from antecast.checking.noted import Lag
from antecast.checking.properties import BoundedBuffers, are_local, own_property
from antecast.checking.reduction import Arriving, Eager, Edge, Held, TooEager, inherited
from antecast.checking.scope import Scope
from antecast.checking.search import CUT_SHORT, Found, Search
from antecast.checking.symmetry import NotSymmetric
from antecast.checking.world import Action, World, Worlds
from antecast.core.settings import read_settings
from antecast.protocols import specification
from antecast.protocols.registry import Guarantee

Way: TypeAlias = bytes
"""Actions as MessagePack."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is searched, in plain values: it goes to other machines."""

    protocol: str
    settings: dict[str, Any]
    scope: dict[str, Any]
    promises: tuple[str, ...]
    properties: tuple[str, ...] = ()
    bounds: dict[str, int] = field(default_factory=dict)
    reduce: bool = True
    symmetric: bool = True
    lively: frozenset[Arriving] = frozenset()
    loud: frozenset[Arriving] = frozenset()


@dataclass
class Looked:
    """What came of looking into some worlds."""

    transitions: int = 0
    reached: dict[int, Way] = field(default_factory=dict)
    """Fingerprints, and the first way to each."""
    violations: set[tuple[bool, Way]] = field(default_factory=set)
    """Whether something that can happen breaks a promise, not the world itself; and the way to it."""
    edges: set[Edge] = field(default_factory=set)
    held: Held = field(default_factory=lambda: defaultdict(set))
    calls: set[Told] = field(default_factory=set)
    noted: set[ToldLag] = field(default_factory=set)
    times: set[int] = field(default_factory=set)
    receptions: Receptions = field(default_factory=Receptions)
    cut_short: bool = False
    symmetric: bool = True

    def add(self, other: Looked) -> None:
        """All but the worlds reached."""
        self.transitions += other.transitions
        self.violations |= other.violations
        self.edges |= other.edges
        for state, frames in other.held.items():
            self.held[state] |= frames
        self.calls |= other.calls
        self.noted |= other.noted
        self.times |= other.times
        self.receptions.add(other.receptions)
        self.cut_short |= other.cut_short
        self.symmetric &= other.symmetric


class Frontier(Protocol):
    """Where the worlds of one depth wait, and who looks into them."""

    def look(self, order: Order) -> Looked:
        """Look into all of them; what they reach is kept here."""

    def advance(self) -> tuple[int, int]:
        """Go on to the worlds that are new: how many there are now, and how many there have been."""

    def close(self) -> None:
        """Nothing more is asked for."""


class LocalFrontier:
    """A frontier in this process."""

    def __init__(self, order: Order, key: int, way: Way, *, tasks: int = 1) -> None:
        self._explorers = [Explorer(order) for _ in range(tasks)]
        self.seen, self.waiting = {key}, {key: way}
        self._reached: dict[int, Way] = {}

    def look(self, order: Order) -> Looked:
        ways, total = sorted(self.waiting.values()), Looked()
        for place, explorer in enumerate(self._explorers):
            done = explorer.look(ways[place :: len(self._explorers)])
            for key, way in done.reached.items():
                self._reached[key] = min(way, self._reached.get(key, way))
            total.add(done)
        return total

    def advance(self) -> tuple[int, int]:
        self.waiting = {key: way for key, way in self._reached.items() if key not in self.seen}
        self.seen |= self.waiting.keys()
        self._reached = {}
        return len(self.waiting), len(self.seen)

    def close(self) -> None:
        self._explorers.clear()


class Explorer:
    """Looks into worlds that are told by their ways."""

    def __init__(self, order: Order) -> None:
        spec = specification(order.protocol)
        settings: Any = spec.configure(order.settings)
        scope: Scope = read_settings(order.scope, Scope, path="scope")
        promises = frozenset(map(Guarantee, order.promises))
        self.worlds = Worlds(spec, settings, scope, promises=promises)
        properties = tuple(map(own_property, order.properties))
        if order.bounds:
            properties = (*properties, BoundedBuffers(order.bounds))
        alike = are_local(properties)
        noting = alike and not order.properties
        self.eager = Eager(order.lively, order.loud, alike=alike, noting=noting) if order.reduce else None
        symmetric = order.reduce and order.symmetric and alike
        self.search = Search(self.worlds, eager=self.eager, symmetric=symmetric, properties=properties)
        self._walked: list[tuple[Action | None, World]] = [
            (None, self.search.reducer.reduced(self.search.beginning))
        ]

    def beginning(self) -> tuple[int, Way]:
        return self.key(self._walked[0][1]), msgspec.msgpack.encode([])

    def key(self, world: World) -> int:
        found = self.search.reducer.key(world)
        assert isinstance(found, int)
        return found

    def world(self, way: Way) -> World:
        """The world at the end of a way."""
        actions = [tuple(each) for each in msgspec.msgpack.decode(way)]
        common = 0
        while common < len(actions) and common + 1 < len(self._walked):
            if self._walked[common + 1][0] != actions[common]:
                break
            common += 1
        del self._walked[common + 1 :]
        for action in actions[common:]:
            after, _ = self.worlds.perform(self._walked[-1][1], action)
            self._walked.append((action, self.search.reducer.reduced(after)))
        return self._walked[-1][1]

    def look(self, ways: Iterable[Way]) -> Looked:
        """Look into the worlds at the ends of some ways."""
        done, search, now = Looked(), self.search, self.worlds.NOW
        forget(self.worlds.machine)
        if self.eager is not None:
            self.eager.assumed.clear()
            self.eager.noted.clear()
            self.eager.left_between.clear()
        self.search.followed.pairs.clear()
        try:
            for way in sorted(ways):
                world, actions = self.world(way), msgspec.msgpack.decode(way)
                if search.judge(world) is not None:
                    done.violations.add((False, way))
                for action, after, problem in self.worlds.expand(world):
                    done.transitions += 1
                    if problem is not None:
                        done.violations.add((True, way))
                        break
                    after = search.reducer.reduced(after)
                    further = msgspec.msgpack.encode([*actions, action])
                    key = self.key(after)
                    known = done.reached.get(key)
                    if known is None or further < known:
                        done.reached[key] = further
                    search.followed.note(world, action, after)
                    done.times.add(after[now])
            search.compare_again(some=False)
            done.symmetric = search.symmetry is None or not search.symmetry.broken()
        except NotSymmetric:
            done.symmetric = False
        done.edges = self.search.followed.edges(self.worlds.machine)
        self.tell(done)
        done.receptions = Receptions.of(self.worlds.machine)
        done.cut_short = search.calm.cut_short
        return done

    def tell(self, done: Looked) -> None:
        """Note what was taken for granted, and the calls that were made."""
        if self.eager is not None:
            machine = self.worlds.machine
            done.calls, data = told(machine), machine.frame_bytes
            for state, frames in self.eager.held(machine).items():
                done.held[state] |= frames
            done.noted = {(machine.digests[state], peer, data[frame]) for state, peer, frame in self.eager.noted}

    def verify(self, seen: Looked, enough: Callable[[], str | None]) -> None:
        """Raise `TooEager` if frames were taken to mean nothing, or to be only noted, and are more than that."""
        if self.eager is None:
            return
        machine, symmetry = self.worlds.machine, self.search.symmetry
        make_all(machine, self.worlds.nodes, seen.calls)
        self.search.times |= seen.times
        noted, lags = list(_known(machine, seen.noted)), self.search.lags()
        lags.follow(noted)
        if lags.failed:
            raise TooEager(set(), self.eager.images(machine, symmetry, lags.failed))
        names = {(machine.node(state), peer, machine.frame_bytes[frame]) for state, peer, frame in noted}
        self.eager.count = len(names.union(*seen.held.values()))
        edges = seen.edges | lags.edges()
        held = inherited(edges, seen.held, self.search.images(edges, seen.held))
        failed = self.eager.failing(machine, held, self.search.times, enough)
        if failed:
            raise TooEager(self.eager.images(machine, symmetry, failed), set())

    def violated(self, violation: tuple[bool, Way], chain: list[int]) -> Found:
        return self.search.violated(chain, judged=not violation[0])

    def chain(self, way: Way) -> list[int]:
        """The fingerprints on a way, from the beginning."""
        actions = msgspec.msgpack.decode(way)
        return [self.key(self.world(msgspec.msgpack.encode(actions[:n]))) for n in range(len(actions) + 1)]


def explore_ways(
    order: Order, begin: Callable[[Order, int, Way], Frontier], *, progress: Progress | None = None
) -> Found:
    """Search all worlds of an order, as `search.explore` does. `begin` makes the frontier of the first world."""
    started, notes = time.process_time(), []
    while True:
        explorer = Explorer(order)
        frontier = begin(order, *explorer.beginning())
        try:
            found, seen = _explored(order, explorer, frontier, progress)
        except TooEager as failed:
            order = replace(order, lively=order.lively | failed.lively, loud=order.loud | failed.loud)
            continue
        except NotSymmetric:
            seen = Looked(symmetric=False)
        finally:
            frontier.close()
        if not seen.symmetric:
            order = replace(order, symmetric=False)
            notes.append("the nodes turned out not to be interchangeable")
            continue
        if order.lively or order.loud:
            notes.append(f"{len(order.lively | order.loud)} frames turned out to mean something later")
        if explorer.eager is not None:
            notes.append(f"{explorer.eager.count} frames without effect arrive at once")
        if seen.cut_short:
            notes.append(CUT_SHORT)
        if explorer.search.symmetry is not None:
            notes.append(f"{len(explorer.search.symmetry.renamings) + 1} ways to number the nodes")
        return replace(found, reduction=tuple(notes), seconds=time.process_time() - started)


def _explored(
    order: Order, explorer: Explorer, frontier: Frontier, progress: Progress | None
) -> tuple[Found, Looked]:
    """One search: what it found, and all that was told."""
    seen, states, waiting, depth, why = Looked(), 1, 1, 0, ""
    explorer.tell(seen)

    def enough() -> str | None:
        return None if progress is None else progress(states, seen.transitions, waiting, depth)

    while True:
        seen.add(frontier.look(order))
        counts: dict[str, Any] = {"transitions": seen.transitions, "depth": depth, "states": states}
        if not seen.symmetric:
            return explorer.search.found("not exhausted", **counts), seen
        if seen.violations:
            first = min(seen.violations)
            made = explorer.violated(first, explorer.chain(first[1]))
            return replace(made, **counts), seen
        waiting, states = frontier.advance()
        counts["states"] = states
        if not waiting:
            break
        depth += 1
        why = enough() or ""
        if why:
            return explorer.search.found("not exhausted", **counts, why=why, frontier=waiting), seen
    explorer.verify(seen, enough)
    if not seen.receptions.come_to_rest():
        why = "local calls do not show that frames come to rest; without --master it is looked for in all worlds"
        return explorer.search.found("not exhausted", **counts, why=why), seen
    return explorer.search.found("exhausted", **counts), seen


def _known(machine: Machine, noted: Iterable[ToldLag]) -> Iterator[Lag]:
    for digest, peer, data in noted:
        state, frame = machine.number_of(digest), machine.frame_number(data)
        assert state is not None and frame is not None  # each comes from a call that was made
        yield state, peer, frame
