"""The searches: breadth first, depth first, random walks, and a bound on adversity that grows."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeAlias

from antecast.checking.calm import Calm
from antecast.checking.records import Problem
from antecast.checking.world import Action, World, Worlds

Verdict: TypeAlias = Literal["exhausted", "violated", "not exhausted"]


@dataclass(frozen=True)
class Found:
    """What a search found out."""

    verdict: Verdict
    states: int
    transitions: int
    depth: int
    """Of the counterexample, or of the furthest world reached."""
    frontier: int
    """Worlds that were reached and not looked into."""
    seconds: float
    problem: Problem | None = None
    actions: tuple[Action, ...] = ()
    """The counterexample."""
    why: str = ""
    """Why the search ended before it had seen everything."""
    notes: tuple[str, ...] = field(default=())
    collision: float = 0.0
    """The probability that two worlds were taken for one."""


Progress: TypeAlias = Callable[[int, int, int, int], bool]
"""Told states, transitions, frontier and depth now and then; True ends the search."""


class Graph:
    """The worlds seen so far, each with the action that led there first."""

    def __init__(self) -> None:
        self.places: dict[World, int] = {}
        self.parents = array("q")
        self.actions: list[Action] = []

    def __len__(self) -> int:
        return len(self.places)

    def add(self, world: World, parent: int, action: Action) -> int:
        place = self.places[world] = len(self.parents)
        self.parents.append(parent)
        self.actions.append(action)
        return place

    def way(self, place: int) -> list[Action]:
        """The actions that lead from the beginning to a world."""
        found: list[Action] = []
        while self.parents[place] >= 0:
            found.append(self.actions[place])
            place = self.parents[place]
        return found[::-1]


def breadth_first(
    worlds: Worlds, *, limit: int = 0, progress: Progress | None = None, deadline: float | None = None
) -> Found:
    """Look at all worlds, those that are reached in the fewest steps first: the first violation is a shortest."""
    started = time.process_time()
    calm = Calm(worlds)
    graph = Graph()
    beginning, _ = worlds.beginning()
    graph.add(beginning, -1, ())
    frontier: deque[tuple[World, int]] = deque([(beginning, 0)])
    transitions, depth = 0, 0
    level_end, places = 1, graph.places

    def found(verdict: Verdict, **more: object) -> Found:
        spent = time.process_time() - started
        return Found(verdict, len(graph), transitions, depth, len(frontier), spent, **more)  # type: ignore[arg-type]

    looked = 0
    while frontier:
        world, place = frontier.popleft()
        if looked == level_end:
            depth += 1
            level_end = looked + len(frontier) + 1
        looked += 1
        if calm.is_quiet(world) and (bad := calm.judge(world)) is not None:
            return found("violated", problem=bad[0], actions=(*graph.way(place), *bad[1]))
        for action, after, problem in worlds.expand(world):
            transitions += 1
            if problem is not None:
                return found("violated", problem=problem, actions=(*graph.way(place), action))
            if after not in places:
                frontier.append((after, graph.add(after, place, action)))
        if not looked & 1023:
            if progress is not None and progress(len(graph), transitions, len(frontier), depth):
                return found("not exhausted", why="stopped")
            if limit and len(graph) > limit:
                return found("not exhausted", why=f"more than {limit} states")
    return found("exhausted")
