"""The searches: breadth first, depth first, and random walks.

A search sees each world once. What it remembers of a world is a fingerprint of 64 bits; that two of n worlds have
the same one, and one of them is missed, has a probability of about n² / 2⁶⁵, which is told with the result. To see
worlds again, on the way of a counterexample, the way is walked once more.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from antecast.checking.calm import HELD_BACK, HOLDS, Calm
from antecast.checking.fingerprints import Fingerprints
from antecast.checking.lassos import BY_ITSELF, REPEATS, Lassos, MayGoOn, Receptions
from antecast.checking.limits import Meter, Progress
from antecast.checking.machine import AGAIN
from antecast.checking.noted import Lags
from antecast.checking.properties import BoundedBuffers, Property, are_local, broken_property, limited
from antecast.checking.records import Problem
from antecast.checking.reduction import (
    Arriving,
    Eager,
    Edge,
    Followed,
    Held,
    Images,
    TooEager,
    Unverified,
    inherited,
)
from antecast.checking.symmetry import NotSymmetric, Symmetry
from antecast.checking.world import ANSWER, Action, World, Worlds

Verdict: TypeAlias = Literal["exhausted", "violated", "not exhausted"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found out."""

    verdict: Verdict
    states: int
    transitions: int
    depth: int
    """Steps from the beginning to the furthest world that was reached."""
    frontier: int = 0
    """Worlds that were reached and not looked into."""
    seconds: float = 0.0
    """Of the processor, of all processes."""
    busiest: float = 0.0
    """Of the processor: the first process, and the busiest of those that shared the search. With a core for each
    of them, it takes about as long."""
    calls: int = 0
    """Calls of protocol objects that were really made in the first process; the others were remembered."""
    problem: Problem | None = None
    actions: tuple[Action, ...] = ()
    """The counterexample."""
    calm: int = 0
    """How many of its actions come before the network calms down."""
    why: str = ""
    """Why the search ended before it had seen everything."""
    reduction: tuple[str, ...] = ()
    """The reductions that were made, and those that could not be."""
    exact: bool = False

    @property
    def collision(self) -> float:
        """About the probability that two worlds were taken for one."""
        return 0.0 if self.exact else min(1.0, self.states**2 / 2**65)


class Reducer:
    """What a search remembers of a world, by the reductions in force."""

    def __init__(self, worlds: Worlds, eager: Eager | None, symmetry: Symmetry | None, *, exact: bool) -> None:
        self.worlds, self.eager, self.symmetry, self.exact = worlds, eager, symmetry, exact
        self.fingerprints = Fingerprints(worlds, () if symmetry is None else symmetry.renamings)

    def reduced(self, world: World) -> World:
        return world if self.eager is None else self.worlds.settled(world, self.eager)

    def key(self, world: World) -> World | int:
        """Of a reduced world: the same for all that differ only in the numbers of nodes."""
        if self.exact:
            return world if self.symmetry is None else self.symmetry.representative(world)
        return self.fingerprints.of(world)


class Graph:
    """The worlds seen so far, and from which world each was reached first."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer
        self.places: dict[World | int, int] = {}
        self.parents = array("q")

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, key: World | int, parent: int) -> int:
        place = self.places[key] = len(self.parents)
        self.parents.append(parent)
        return place

    def chain(self, place: int) -> list[World | int]:
        """What the search remembers of the worlds on the way to a place, from the beginning."""
        chain = []
        while place >= 0:
            chain.append(place)
            place = self.parents[place]
        wanted = set(chain)
        keys = {place: key for key, place in self.places.items() if place in wanted}
        return [keys[place] for place in reversed(chain)]

    def way(self, chain: Sequence[World | int]) -> tuple[World, list[Action]]:
        """A real world that stands behind the last of a chain, and the actions that lead there."""
        worlds, reducer = self.reducer.worlds, self.reducer
        world, actions = self._at_once(worlds.beginning(), [])
        for wanted in chain[1:]:
            for action, after, problem in worlds.expand(world):
                if problem is None and reducer.key(reducer.reduced(after)) == wanted:
                    world, actions = self._at_once(after, [*actions, action])
                    break
            else:
                raise NotSymmetric
        return world, actions

    def step(
        self, world: World, actions: list[Action], wanted: World | int, lassos: Lassos, lane: int
    ) -> tuple[World, list[Action]]:
        """The world that a lane leads to, and the actions up to there."""
        for action, after, _ in self.reducer.worlds.expand(world):
            fits = action[0] in BY_ITSELF and lassos.lane_number(world, action) == lane
            if fits and self.reducer.key(self.reducer.reduced(after)) == wanted:
                return self._at_once(after, [*actions, action])
        raise NotSymmetric

    def _at_once(self, world: World, actions: list[Action]) -> tuple[World, list[Action]]:
        if self.reducer.eager is None:
            return world, actions
        world, more = self.reducer.worlds.at_once(world, self.reducer.eager)
        return world, [*actions, *more]


SHARED_FROM = 20_000
"""Worlds that one process looks at before it shares the rest with others."""

CUT_SHORT = "not every order of what timers set off at rest was looked at"

FIRST_VERIFIED = 1000
"""States after which assumptions are verified for the first time; then each time there are four times as many."""


class Search:
    """One search of all worlds, with the reductions that it is given."""

    def __init__(
        self,
        worlds: Worlds,
        *,
        eager: Eager | None,
        symmetric: bool,
        exact: bool = False,
        properties: Iterable[Property] = (),
        progress: Progress | None = None,
        meter: Meter | None = None,
        jobs: int = 1,
        share_from: int = SHARED_FROM,
        lassos: bool = False,
    ) -> None:
        self.worlds = worlds
        self.lassos = Lassos(worlds) if lassos else None
        self.meter = meter or Meter()
        self.jobs, self.share_from = 1 if exact else jobs, share_from
        worlds.inside = worlds.scope.inside and (eager is None or not eager.may_skip_inside(worlds.scope))
        self.beginning = worlds.beginning()
        worlds.machine.at_first = worlds.machine.at_first or worlds.machine.elsewhere()
        self.properties = tuple(properties)
        judged = (*HELD_BACK, HOLDS, *limited(self.properties))
        symmetry = Symmetry(worlds, self.beginning, judged) if symmetric else None
        self.symmetry = symmetry if symmetry is not None and symmetry.renamings else None
        self.reducer = Reducer(worlds, eager, self.symmetry, exact=exact)
        self.calm = Calm(worlds)
        self.graph = Graph(self.reducer)
        self.progress = progress
        self.transitions = 0
        self.depth = 0
        self.times = {self.beginning[worlds.NOW]}
        """All times that there have been."""
        self.followed = Followed(worlds.n)
        self._started = time.process_time()

    def found(self, verdict: Verdict, **more: object) -> Found:
        values = {
            "states": len(self.graph),
            "transitions": self.transitions,
            "depth": self.depth,
            "seconds": time.process_time() - self._started,
            "exact": self.reducer.exact,
        }
        return Found(verdict=verdict, **(values | more))  # type: ignore[arg-type]

    def unverified(self, late: Unverified, **more: object) -> Found:
        why = f"not all that the reduction rests on was verified: {late}"
        return self.found("not exhausted", **{"why": why} | more)

    def enough(self) -> str | None:
        """Why the search should end, if it should."""
        return (
            self.progress(len(self.graph), self.transitions, 0, self.depth) if self.progress is not None else None
        )

    def judge(self, world: World) -> tuple[Problem, list[Action]] | None:
        """What is wrong with a world, or with where it leads once all is calm."""
        problem = broken_property(self.worlds, world, self.properties)
        if problem is not None:
            return problem, []
        if not self.calm.is_quiet(world):
            return None
        with self.worlds.machine.judging():
            return self.calm.judge(world)

    def run(self, *, depth_first: bool = False) -> Found:
        """Look at all worlds: those reached in the fewest steps first, so that the first violation is a shortest;
        or the newest first, which keeps the worlds that wait few."""
        reducer, graph, worlds = self.reducer, self.graph, self.worlds
        beginning = reducer.reduced(self.beginning)
        waiting: deque[tuple[World, int, int]] = deque([(beginning, graph.add(reducer.key(beginning), -1), 0)])
        take = waiting.pop if depth_first else waiting.popleft
        places, looked = graph.places, 0
        verify_at, lassos = FIRST_VERIFIED, self.lassos
        while waiting:
            world, place, depth = take()
            if depth > self.depth:
                self.depth = depth
                if len(graph) >= verify_at:  # an assumption that fails had better fail early
                    verify_at = 4 * len(graph)
                    self.verify()
                if self.jobs > 1 and not depth_first and len(graph) >= self.share_from:
                    rest = [world, *(each[0] for each in waiting)]
                    return self._shared([(each, graph.reducer.key(each)) for each in rest], depth, verify_at)
            looked += 1
            bad = self.judge(world)
            if bad is not None:
                return self.violated(graph.chain(place), judged=True)
            for action, after, problem in worlds.expand(world):
                self.transitions += 1
                if problem is not None:
                    return self.violated(graph.chain(place), judged=False)
                after = reducer.reduced(after)
                self.followed.note(world, action, after)
                key = reducer.key(after)
                if key not in places:
                    waiting.append((after, graph.add(key, place), depth + 1))
                    self.times.add(after[worlds.NOW])
                if lassos is not None and action[0] in BY_ITSELF and action[-1] != ANSWER:
                    lassos.note(place, world, action, places[key])
            if not looked & 63 and self.progress is not None:
                why = self.progress(len(graph), self.transitions, len(waiting), depth)
                if why:
                    return self.found("not exhausted", why=why, frontier=len(waiting))
        return self._in_lasso() or self.found("exhausted")

    def _in_lasso(self) -> Found | None:
        """A violation, if there is a fair lasso of worlds that never come to rest. Where none was looked for,
        local calls have to show that there is none."""
        if self.lassos is None:
            if not Receptions.of(self.worlds.machine).come_to_rest():
                raise MayGoOn
            return None
        found = self.lassos.fair()
        if found is None:
            return None
        place, round_trip = found
        world, actions = self.graph.way(self.graph.chain(place))
        calm = len(actions)
        for lane, then in round_trip:
            world, actions = self.graph.step(world, actions, self.graph.chain(then)[-1], self.lassos, lane)
        words = f"nodes never stop talking; {REPEATS}"
        return self.found("violated", problem=Problem("termination", words), actions=tuple(actions), calm=calm)

    def _shared(self, frontier: list[tuple[World, Any]], depth: int, verify_at: int) -> Found:
        from antecast.checking.workers import Sharing

        return Sharing(self, frontier, self.jobs).run(depth, verify_at)

    def verify(self) -> None:
        """Raise `TooEager` or `NotSymmetric` if an assumption of the reduction does not hold, so far."""
        eager, machine = self.reducer.eager, self.worlds.machine
        if eager is not None:
            lags = self.lags()
            lags.follow(eager.noted)
            if lags.failed:
                raise TooEager(set(), eager.images(machine, self.symmetry, lags.failed))
            edges, held = self.followed.edges(machine) | lags.edges(), eager.held(machine)
            held = inherited(edges, held, self.images(edges, held))
            lively = eager.failing(machine, held, self.times, self.enough)
            if lively:
                raise TooEager(eager.images(machine, self.symmetry, lively), set())
        if self.symmetry is not None and self.symmetry.broken():
            raise NotSymmetric

    def lags(self) -> Lags:
        """The states that lag behind those of this search: none yet."""
        judged = limited(self.properties)
        return Lags(self.worlds, self.times, symmetry=self.symmetry, judged=judged, enough=self.enough)

    def images(self, edges: Iterable[Edge], held: Held) -> Images:
        """What renamings make of the states of this search."""
        states = {state for edge in edges for state in edge[:2]} | set(held)
        with self.worlds.machine.judging():
            return Images.of(self.worlds.machine, self.symmetry, states, held)

    def compare_again(self, *, some: bool = True) -> None:
        """Refuse a protocol that does something else by now. If its classes or modules hold something else than at
        the start, all calls are made again."""
        machine = self.worlds.machine
        changed = machine.elsewhere() != machine.at_first
        if changed or some:
            machine.compare_again(every=1 if changed else AGAIN)

    def violated(self, chain: Sequence[World | int], *, judged: bool) -> Found:
        """A violation at a real world that stands behind the last of a chain: by the world itself, or by something
        that can happen in it."""
        world, actions = self.graph.way(chain)
        if judged:
            bad = self.judge(world)
            if bad is None:
                raise NotSymmetric
            return self.found("violated", problem=bad[0], actions=(*actions, *bad[1]), calm=len(actions))
        for action, _, broken in self.worlds.expand(world):
            if broken is not None:
                actions.append(action)
                return self.found("violated", problem=broken, actions=tuple(actions), calm=len(actions))
        raise NotSymmetric


def explore(
    worlds: Worlds,
    *,
    reduce: bool = True,
    depth_first: bool = False,
    exact: bool = False,
    properties: Iterable[Property] = (),
    progress: Progress | None = None,
    meter: Meter | None = None,
    jobs: int = 1,
    share_from: int = SHARED_FROM,
) -> Found:
    """Search all worlds, reduced as far as the protocol allows.

    A reduction rests on assumptions that are verified when the search is done; if one fails, the search is made
    again without it. A violation needs no such care: its way is one that the protocol really goes.
    """
    properties = tuple(properties)
    alike = are_local(properties)
    noting = alike and all(isinstance(each, BoundedBuffers) for each in properties)
    eager = Eager(alike=alike, noting=noting) if reduce else None
    lively: set[Arriving] = set()
    loud: set[Arriving] = set()
    symmetric, lassos, notes, started = reduce and alike, False, [], time.process_time()
    meter = meter or Meter()
    while True:
        search = Search(
            worlds,
            eager=eager,
            symmetric=symmetric,
            exact=exact,
            properties=properties,
            progress=progress,
            meter=meter,
            jobs=jobs,
            share_from=share_from,
            lassos=lassos,
        )
        try:
            found = search.run(depth_first=depth_first)
            if found.verdict == "exhausted":
                search.verify()
                search.compare_again()
        except NotSymmetric:
            symmetric = False
            notes.append("the nodes turned out not to be interchangeable")
            continue
        except MayGoOn:
            lassos, symmetric, jobs = True, False, 1
            if eager is not None:
                noting, eager = False, Eager(lively, alike=alike)
            notes.append("that frames come to rest was seen in all worlds, not by local calls alone")
            continue
        except TooEager as failed:
            lively |= failed.lively
            loud |= failed.loud
            eager = Eager(lively, loud, alike=alike, noting=noting)
            continue
        except Unverified as late:
            found = search.unverified(late)
        if lively or loud:
            notes.append(f"{len(lively | loud)} frames turned out to mean something later")
        if eager is not None:
            count = eager.count or len(eager.frames(worlds.machine))
            notes.append(f"{count} frames without effect arrive at once")
        if search.calm.cut_short:
            notes.append(CUT_SHORT)
        if search.symmetry is not None:
            notes.append(f"{len(search.symmetry.renamings) + 1} ways to number the nodes")
        used = time.process_time() - started
        return replace(
            found,
            reduction=tuple(notes),
            seconds=used + meter.cpu,
            busiest=used + meter.busiest,
            calls=worlds.machine.calls,
        )
