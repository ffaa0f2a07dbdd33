"""Frames that go to and fro for ever, and never let the network come to rest.

A search judges worlds at rest. That every path comes to rest is first shown from local calls alone. If frames
went on arriving for ever, the worlds of a finite search would repeat, and with them the states of each node. None
do, if

- no node comes back to an earlier state by receiving frames, and
- where a frame makes its receiver send others, but leaves its state as it is, those do not lead back to that frame
  in the same manner.

Most protocols remember what they have received, so this holds. Where it does not, the search is made again,
without renaming the nodes, and remembers which worlds follow which by themselves. Worlds each of which can be
reached from each are a *lasso*; it is *fair* if nothing in it waits for ever: what can happen by itself in all of
its worlds happens in it. A fair lasso is a counterexample.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from antecast.core import NodeId

if TYPE_CHECKING:
    from antecast.checking.machine import Machine
    from antecast.checking.performing import Action, World
    from antecast.checking.world import Worlds

BY_ITSELF: Final = frozenset({"recover", "link", "up", "down", "receive", "hear"})
"""What happens in a network where all is well, but for timers."""

REPEATS: Final = "from here on everything repeats"

ENDLESS: Final = "frames go to and fro without an end"

STORM: Final = 5_000
"""Things that may happen by themselves, one after the other, before it is said that they never end."""

Echo: TypeAlias = tuple[NodeId, bytes]
"""A receiver and a frame."""


class MayGoOn(Exception):
    """Local calls do not show that frames come to rest."""


@dataclass
class Receptions:
    """What receiving frames does: the states that follow each other, and frames that only make others."""

    states: set[tuple[bytes, bytes]] = field(default_factory=set)
    echoes: set[tuple[Echo, Echo]] = field(default_factory=set)

    @classmethod
    def of(cls, machine: Machine) -> Receptions:
        """By all calls that a search has made. Contents stand for numbers: they are the same in every process."""
        found, digests, data = cls(), machine.digests, machine.frame_bytes
        for key, step in machine.memo.items():
            if key[2] != "receive" or step.refused or step.problem is not None:
                continue
            state, frame = key[0], key[3]
            if step.state != state:
                found.states.add((digests[state], digests[step.state]))
            elif step.sends:
                node = machine.node(state)
                for to, sent in step.sends:  # by radio: whoever hears it
                    peers = machine.everyone if to < 0 else (to,)
                    found.echoes.update(((node, data[frame]), (peer, data[sent])) for peer in peers)
        return found

    def add(self, other: Receptions) -> None:
        self.states |= other.states
        self.echoes |= other.echoes

    def come_to_rest(self) -> bool:
        """Whether they show that no path goes on for ever."""
        return not (_has_cycle(self.states) or _has_cycle(self.echoes))


def _has_cycle(edges: Iterable[tuple[Hashable, Hashable]]) -> bool:
    after: dict[Hashable, list[Hashable]] = {}
    before: dict[Hashable, int] = {}
    for here, there in edges:
        after.setdefault(here, []).append(there)
        before[there] = before.get(there, 0) + 1
        before.setdefault(here, 0)
    free = [each for each, count in before.items() if not count]
    taken = 0
    while free:
        taken += 1
        for there in after.get(free.pop(), ()):
            before[there] -= 1
            if not before[there]:
                free.append(there)
    return taken < len(before)


class Lassos:
    """Which worlds follow which by themselves, by their places in a search."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self._from, self._to, self._lane = array("q"), array("q"), array("q")
        self._lanes: dict[tuple[Any, ...], int] = {}

    def note(self, place: int, world: World, action: Action, then: int) -> None:
        self._from.append(place)
        self._to.append(then)
        self._lane.append(self._lanes.setdefault(self.lane(world, action), len(self._lanes)))

    def lane(self, world: World, action: Action) -> tuple[Any, ...]:
        """What must not wait for ever if it can always happen: a frame, or the next of a link that keeps order."""
        worlds = self._worlds
        match action[0]:
            case "receive" if worlds.wires.fifo:
                return action[:4]
            case "receive":
                return (*action[:4], worlds.frame_under_way(world, *action[1:5]))
            case "hear":
                return (*action[:3], worlds.values[world[worlds.AIR]][action[3]][2])
        return tuple(action)

    def fair(self) -> tuple[int, list[tuple[int, int]]] | None:
        """A world in a fair lasso, and a way round that leaves nothing waiting: lanes, and where they lead."""
        edges: dict[int, list[tuple[int, int]]] = {}
        for here, there, lane in zip(self._from, self._to, self._lane, strict=True):
            edges.setdefault(here, []).append((lane, there))
        for members in _components({here: [there for _, there in each] for here, each in edges.items()}):
            inside = {
                here: [(lane, there) for lane, there in edges.get(here, ()) if there in members]
                for here in members
            }
            if not any(inside.values()):
                continue
            possible = [{lane for lane, _ in edges.get(here, ())} for here in members]
            always = set.intersection(*possible)
            taken = {lane for each in inside.values() for lane, _ in each}
            if always <= taken:
                sometimes = set.union(*possible) - always
                first = min(members)
                return first, _round(first, inside, edges, always or {min(taken)}, sometimes)
        return None

    def lane_number(self, world: World, action: Action) -> int | None:
        return self._lanes.get(self.lane(world, action))


def _round(
    first: int,
    inside: Mapping[int, list[tuple[int, int]]],
    edges: Mapping[int, list[tuple[int, int]]],
    taken: Iterable[int],
    left: Iterable[int],
) -> list[tuple[int, int]]:
    """A closed way that takes some lanes, and passes a world in which each of the others has nothing."""
    here, way = first, []
    for lane in sorted(taken):
        way += _path(here, {each for each, out in inside.items() if any(lane == by for by, _ in out)}, inside)
        here = way[-1][1] if way else first
        way.append(next((by, there) for by, there in inside[here] if by == lane))
        here = way[-1][1]
    for lane in sorted(left):
        way += _path(here, {each for each in inside if all(lane != by for by, _ in edges.get(each, ()))}, inside)
        here = way[-1][1]
    return way + _path(here, {first}, inside)


def _path(start: int, goals: set[int], inside: Mapping[int, list[tuple[int, int]]]) -> list[tuple[int, int]]:
    came: dict[int, tuple[int, int]] = {}
    waiting, seen = deque([start]), {start}
    while waiting:
        here = waiting.popleft()
        if here in goals:
            way = []
            while here != start:
                before, lane = came[here]
                way.append((lane, here))
                here = before
            return way[::-1]
        for lane, there in inside[here]:
            if there not in seen:
                seen.add(there)
                came[there] = (here, lane)
                waiting.append(there)
    raise AssertionError("each world of a lasso can be reached from each")


def _components(after: Mapping[int, list[int]]) -> Iterator[set[int]]:
    """Sets of places each of which can be reached from each (Tarjan)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_places: list[int] = []
    is_open: set[int] = set()
    for root in after:
        if root in order:
            continue
        stack: list[tuple[int, Iterator[int]]] = [(root, iter(after[root]))]
        order[root] = low[root] = len(order)
        open_places.append(root)
        is_open.add(root)
        while stack:
            here, rest = stack[-1]
            for there in rest:
                if there not in order:
                    order[there] = low[there] = len(order)
                    open_places.append(there)
                    is_open.add(there)
                    stack.append((there, iter(after.get(there, ()))))
                    break
                if there in is_open:
                    low[here] = min(low[here], order[there])
            else:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[here])
                if low[here] == order[here]:
                    found: set[int] = set()
                    while here not in found:
                        found.add(open_places.pop())
                    is_open -= found
                    yield found
