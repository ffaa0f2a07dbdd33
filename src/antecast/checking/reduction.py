"""Reduction: worlds that need not be looked at, since others show the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from antecast.checking.machine import ABSENT
from antecast.checking.performing import CALLS, Action, World
from antecast.core import NodeId

if TYPE_CHECKING:
    from antecast.checking.machine import Machine
    from antecast.checking.scope import Scope
    from antecast.checking.symmetry import Symmetry

Arriving: TypeAlias = tuple[NodeId, NodeId, bytes]
"""A receiver, a sender and a frame."""

Edge: TypeAlias = tuple[bytes, bytes, NodeId | None]
"""A local state, one that follows it, and the peer whose link ended or began with that, if one did."""

Held: TypeAlias = dict[bytes, set[Arriving]]
"""The frames that are assumed to mean nothing in a local state, by its digest."""


class Unverified(Exception):
    """There was no time to verify what the reduction rests on."""


class Eager:
    """Frames that mean nothing to their receiver arrive at once.

    A frame that leaves its receiver as it is, without an effect, could arrive at any time. If that stays so for as
    long as its link lives, then its arrival commutes with everything else that can happen, and a search that lets
    it arrive first, and looks at nothing else, sees all that the full search sees. That it stays so is assumed
    while the search runs, and verified now and then and at its end, for every local state that can follow the one
    in which it was assumed. Local states are few, so this costs little beside the search. What turns out not to
    hold is no longer assumed, and the search is made again.

    States and frames have their contents for names here, so that what several processes found out can be put
    together.
    """

    def __init__(self, lively: Iterable[Arriving] = (), *, alike: bool = True) -> None:
        self.alike = alike
        """Whether worlds in which a node is down need not be seen: no property is about who is."""
        self.assumed: dict[tuple[NodeId, NodeId, int], set[int]] = defaultdict(set)
        """For a receiver, a sender and a frame: the states in which the frame was taken to mean nothing."""
        self.lively = frozenset(lively)
        """Frames of which this does not hold."""
        self.left_between: dict[tuple[int, ...], int] = {}
        """What is left between two nodes in some states, once such frames have arrived: worked out once."""
        self.count = 0
        """Frames that were taken to mean nothing, by all workers of a shared search."""
        self._verified: dict[tuple[bytes, int], frozenset[Arriving]] = {}
        """Per state and time, the frames that mean nothing there: looked at once."""

    def may_skip_inside(self, scope: Scope) -> bool:
        """Whether a crash in the middle of a call shows nothing that one after it does not.

        It keeps back the last frames of the call, and owes its last deliveries. After the call, each peer may see
        its link break before those frames arrive, and what is owed is delivered on recovery. By radio no link
        breaks; and a call may be the last of a node that leaves.
        """
        return self.alike and not scope.stations and not scope.leaves

    def may_go_first(self, machine: Machine, node: NodeId, peer: NodeId, frame: int, state: int) -> bool:
        if self.lively and (node, peer, machine.frame_bytes[frame]) in self.lively:
            return False
        self.assumed[node, peer, frame].add(state)
        return True

    def broken(
        self, machine: Machine, followed: Followed, times: Iterable[int], enough: Callable[[], str | None]
    ) -> set[Arriving]:
        """The assumptions that do not hold in some state that can follow, at some time that there was."""
        return self.failing(machine, inherited(followed.edges(machine), self.held(machine)), times, enough)

    def held(self, machine: Machine) -> Held:
        found: Held = defaultdict(set)
        for (node, peer, frame), states in self.assumed.items():
            for state in states:
                found[machine.digests[state]].add((node, peer, machine.frame_bytes[frame]))
        return found

    def failing(
        self, machine: Machine, held: Held, times: Iterable[int], enough: Callable[[], str | None]
    ) -> set[Arriving]:
        """The frames that mean something in the states that are given. If `enough` says why it should end sooner,
        this is `Unverified`."""
        failed: set[Arriving] = set()
        for place, (digest, frames) in enumerate(held.items()):
            if not place & 63 and (why := enough()):
                raise Unverified(why)
            state = machine.number_of(digest)
            assert state is not None
            for now in times:
                left = frames - self._verified.get((digest, now), frozenset()) - failed
                if left and not machine.all_idle(state, now, [(data, peer) for _, peer, data in left]):
                    failed |= {each for each in left if not machine.all_idle(state, now, [each[:0:-1]])}
                self._verified[digest, now] = frozenset(frames)
        return failed

    def images(self, machine: Machine, symmetry: Symmetry | None, frames: Iterable[Arriving]) -> set[Arriving]:
        """Frames with all that renamings make of them: what is not assumed of one is not assumed of the others, so
        that it does not matter which of several worlds that are images of each other is looked at."""
        found = set(frames)
        renamings = [] if symmetry is None else symmetry.renamings
        for (node, peer, data), renaming in product(frames, renamings):
            number = machine.frame_number(data)
            if number is not None:
                image = machine.frame_bytes[renaming.frame(number)]
                found.add((renaming.nodes[node], renaming.nodes[peer], image))
        return found


class Followed:
    """Which local states follow which in the worlds of a search, while the links of their node live on."""

    def __init__(self, nodes: int) -> None:
        self._nodes = range(nodes)
        self.pairs: set[tuple[int, int, NodeId | None]] = set()

    def note(self, world: World, action: Action, after: World) -> None:
        for node in self._nodes:
            before, then = world[node], after[node]
            if before != then and before != ABSENT and then != ABSENT:
                verb, ended = action[0], None
                if action[1:2] == (node,):  # a tick has no node
                    if verb == "crash" or (verb in CALLS and action[-1] >= 0):
                        continue  # its links are gone
                    ended = action[2] if verb in ("up", "late", "down") else None
                self.pairs.add((before, then, ended))

    def edges(self, machine: Machine) -> set[Edge]:
        digests = machine.digests
        return {(digests[before], digests[then], ended) for before, then, ended in self.pairs}


def inherited(followed: Iterable[Edge], held: Held) -> Held:
    """What is assumed in each local state: there, or in one that it can follow while the link lives."""
    after: dict[bytes, list[tuple[bytes, NodeId | None]]] = defaultdict(list)
    for state, then, ended in followed:
        after[state].append((then, ended))
    waiting = dict.fromkeys(held)
    while waiting:
        state, _ = waiting.popitem()
        for then, ended in after[state]:
            more = {each for each in held[state] if each[1] != ended} - held[then]
            if more:
                held[then] |= more
                waiting[then] = None
    return held
