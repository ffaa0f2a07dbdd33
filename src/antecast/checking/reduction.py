"""Reduction: worlds that need not be looked at, since others show the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from antecast.core import NodeId

if TYPE_CHECKING:
    from antecast.checking.machine import Machine
    from antecast.checking.scope import Scope


class Unverified(Exception):
    """There was no time to verify what the reduction rests on."""


class Eager:
    """Frames that mean nothing to their receiver arrive at once.

    A frame that leaves its receiver as it is, without an effect, could arrive at any time. If that stays so for as
    long as its link lives, then its arrival commutes with everything else that can happen, and a search that lets
    it arrive first, and looks at nothing else, sees all that the full search sees. That it stays so is assumed
    while the search runs, and verified afterwards (`broken`), for every local state that can follow the one in
    which it was assumed. Local states are few, so this costs little beside the search. What turns out not to hold
    is no longer assumed, and the search is made again.
    """

    def __init__(self, lively: Iterable[tuple[NodeId, NodeId, int]] = ()) -> None:
        self.assumed: dict[tuple[NodeId, NodeId, int], set[int]] = defaultdict(set)
        """For a receiver, a sender and a frame: the states in which the frame was taken to mean nothing."""
        self.lively = set(lively)
        """Frames of which this does not hold."""
        self._verified: dict[tuple[int, int], frozenset[tuple[NodeId, NodeId, int]]] = {}
        """Per state and time, the frames that mean nothing there: looked at once."""

    @staticmethod
    def may_skip_inside(scope: Scope) -> bool:
        """Whether a crash in the middle of a call shows nothing that one after it does not.

        It keeps back the last frames of the call, and owes its last deliveries. After the call, each peer may see
        its link break before those frames arrive, and what is owed is delivered on recovery. By radio no link
        breaks; and a call may be the last of a node that leaves.
        """
        return not scope.stations and not scope.leaves

    def may_go_first(self, node: NodeId, peer: NodeId, frame: int, state: int) -> bool:
        key = (node, peer, frame)
        if key in self.lively:
            return False
        self.assumed[key].add(state)
        return True

    def broken(
        self, machine: Machine, times: Iterable[int], enough: Callable[[], str | None]
    ) -> set[tuple[NodeId, NodeId, int]]:
        """The assumptions that do not hold in some state that can follow, at some time that there was. If `enough`
        says why it should end sooner, this is `Unverified`."""
        failed: set[tuple[NodeId, NodeId, int]] = set()
        for place, (state, frames) in enumerate(self._inherited(machine).items()):
            if not place & 63 and (why := enough()):
                raise Unverified(why)
            for now in times:
                left = frames - self._verified.get((state, now), frozenset()) - failed
                found = machine.states[state]
                if not left or found is None:
                    continue
                pairs = [(frame, peer) for _, peer, frame in left]
                if not machine.all_idle(state, found.node, now, pairs):
                    bad = {each for each in left if not machine.all_idle(state, found.node, now, [each[:0:-1]])}
                    failed |= bad
                self._verified[state, now] = frozenset(frames)
        return failed

    def _inherited(self, machine: Machine) -> dict[int, set[tuple[NodeId, NodeId, int]]]:
        """The frames that are assumed to mean nothing in each local state: there, or in one that it can follow."""
        after: dict[int, list[tuple[int, NodeId | None]]] = defaultdict(list)
        for key, step in machine.memo.items():
            if step.state != key[0] and key[2] != "recover":
                ended = key[3] if key[2] in ("link_up", "link_down") else None
                after[key[0]].append((step.state, ended))
        held: dict[int, set[tuple[NodeId, NodeId, int]]] = defaultdict(set)
        for frame, states in self.assumed.items():
            for state in states:
                held[state].add(frame)
        waiting = dict.fromkeys(held)
        while waiting:
            state, _ = waiting.popitem()
            for then, ended in after[state]:
                more = {each for each in held[state] if each[1] != ended} - held[then]
                if more:
                    held[then] |= more
                    waiting[then] = None
        return held
