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


class TooEager(Exception):
    """Frames that were taken to mean nothing, or to be only noted, are more than that."""

    def __init__(self, lively: set[Arriving], loud: set[Arriving]) -> None:
        super().__init__()
        self.lively, self.loud = lively, loud


class Eager:
    """Frames that mean nothing to their receiver arrive at once.

    A frame that leaves its receiver as it is, without an effect, could arrive at any time. If that stays so for as
    long as its link lives, then its arrival commutes with everything else that can happen, and a search that lets
    it arrive first, and looks at nothing else, sees all that the full search sees. That it stays so is assumed
    while the search runs, and verified now and then and at its end, for every local state that can follow the one
    in which it was assumed. Local states are few, so this costs little beside the search. What turns out not to
    hold is no longer assumed, and the search is made again.

    Frames that are only noted by their receiver arrive at once, too (`checking.noted`).

    States and frames have their contents for names here, so that what several processes found out can be put
    together.
    """

    def __init__(
        self,
        lively: Iterable[Arriving] = (),
        loud: Iterable[Arriving] = (),
        *,
        alike: bool = True,
        noting: bool = False,
    ) -> None:
        self.alike = alike
        """Whether worlds in which a node is down need not be seen: no property is about who is."""
        self.noting = noting
        """Whether frames that are only noted arrive at once."""
        self.loud = frozenset(loud)
        """Frames that turned out to be more than noted."""
        self.noted: set[tuple[int, NodeId, int]] = set()
        """States, senders and frames that were taken to be only noted in them."""
        self.assumed: dict[tuple[NodeId, NodeId, int], set[int]] = defaultdict(set)
        """For a receiver, a sender and a frame: the states in which the frame was taken to mean nothing."""
        self.lively = frozenset(lively)
        """Frames of which this does not hold."""
        self.left_between: dict[tuple[int, ...], tuple[int, int, int]] = {}
        """What is left between two nodes in some states, once such frames have arrived, and their states then:
        worked out once."""
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

    def may_be_noted(self, machine: Machine, node: NodeId, peer: NodeId, frame: int, state: int) -> bool:
        if self.loud and (node, peer, machine.frame_bytes[frame]) in self.loud:
            return False
        self.noted.add((state, peer, frame))
        return True

    def frames(self, machine: Machine) -> set[Arriving]:
        """All frames that were taken to arrive at once."""
        data = machine.frame_bytes
        found = {(node, peer, data[frame]) for node, peer, frame in self.assumed}
        return found | {(machine.node(state), peer, data[frame]) for state, peer, frame in self.noted}

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


class Images:
    """What renamings make of local states and frames, by their contents.

    What is assumed in a state is assumed in its images, too: a search looks at one of the worlds that are images
    of each other, so a run goes on from the image of a world in which something was assumed.
    """

    def __init__(self) -> None:
        self.nodes: tuple[tuple[int, ...], ...] = ()
        self.states: dict[bytes, tuple[bytes, ...]] = {}
        self.frames: dict[bytes, tuple[bytes, ...]] = {}

    @classmethod
    def of(cls, machine: Machine, symmetry: Symmetry | None, states: Iterable[bytes], held: Held) -> Images:
        found = cls()
        if symmetry is None:
            return found
        renamings, digests, data = symmetry.renamings, machine.digests, machine.frame_bytes
        found.nodes = tuple(renaming.nodes for renaming in renamings)
        for digest in states:
            state = machine.number_of(digest)
            if state is not None:
                found.states[digest] = tuple(digests[renaming.state(state)] for renaming in renamings)
        waiting = {each[2] for frames in held.values() for each in frames}
        while waiting:
            frame = waiting.pop()
            number = machine.frame_number(frame)
            assert number is not None
            found.frames[frame] = tuple(data[renaming.frame(number)] for renaming in renamings)
            waiting.update(image for image in found.frames[frame] if image not in found.frames)
        return found

    def add(self, other: Images) -> None:
        self.nodes = self.nodes or other.nodes
        self.states |= other.states
        self.frames |= other.frames

    def image(self, place: int, arriving: Arriving) -> Arriving:
        nodes, (node, peer, data) = self.nodes[place], arriving
        return nodes[node], nodes[peer], self.frames[data][place]


class _Sets:
    """Sets of frames as the bits of numbers: there are few of them in very many states."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._all: list[Arriving] = []
        self._bits: dict[Arriving, int] = {}
        self._made: dict[int, set[Arriving]] = {}
        self._image_of: dict[tuple[int, int], int] = {}
        self.by_peer: dict[NodeId | None, int] = defaultdict(int)

    def bit(self, arriving: Arriving) -> int:
        found = self._bits.get(arriving)
        if found is None:
            found = self._bits[arriving] = 1 << len(self._all)
            self._all.append(arriving)
            self.by_peer[arriving[1]] |= found
        return found

    def number(self, frames: Iterable[Arriving]) -> int:
        return sum(self.bit(each) for each in set(frames))

    def frames(self, number: int) -> set[Arriving]:
        found = self._made.get(number)
        if found is None:
            found = self._made[number] = {each for place, each in enumerate(self._all) if number >> place & 1}
        return found

    def image(self, place: int, number: int) -> int:
        found = self._image_of.get((place, number))
        if found is None:
            image = self._images.image
            found = self.number(image(place, each) for each in self.frames(number))
            self._image_of[place, number] = found
        return found


def inherited(followed: Iterable[Edge], held: Held, images: Images | None = None) -> Held:
    """What is assumed in each local state: there, in one that it can follow while the link lives, or in an image
    of it."""
    after: dict[bytes, list[tuple[bytes, NodeId | None]]] = defaultdict(list)
    images = images or Images()
    sets, bits = _Sets(images), dict.fromkeys(held, 0)
    for state, then, ended in followed:
        after[state].append((then, ended))
        bits[state] = bits[then] = 0
    for state, frames in held.items():
        bits[state] = sets.number(frames)
    waiting = dict.fromkeys(held)
    while waiting:
        state, _ = waiting.popitem()
        mine = bits[state]
        reached = [(then, mine & ~sets.by_peer[ended]) for then, ended in after[state]]
        for place, image in enumerate(images.states.get(state, ())):
            if image in bits:
                reached.append((image, sets.image(place, mine)))
        for then, handed in reached:
            if handed & ~bits[then]:
                bits[then] |= handed
                waiting[then] = None
    return {state: sets.frames(number) for state, number in bits.items() if number}
