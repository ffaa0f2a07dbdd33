"""Reduction: worlds that need not be looked at, since others show the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from antecast.core import NodeId

if TYPE_CHECKING:
    from antecast.checking.machine import Machine


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
        after: dict[int, list[tuple[int, str, object]]] = defaultdict(list)
        for key, step in list(machine.memo.items()):
            state, method = key[0], key[2]
            if step.state != state:
                after[state].append((step.state, method, key[3] if len(key) > 3 else None))
        failed = set()
        for (node, peer, frame), states in self.assumed.items():
            seen, queue = set(states), list(states)
            for place, state in enumerate(queue):
                if not place & 63 and (why := enough()):
                    raise Unverified(why)
                for now in times:
                    if not machine.step(state, node, now, "receive", frame, peer).idle:
                        failed.add((node, peer, frame))
                        break
                else:
                    for then, method, about in after[state]:
                        if then not in seen and not (method in ("link_up", "link_down") and about == peer):
                            seen.add(then)
                            queue.append(then)
                    continue
                break
        return failed
