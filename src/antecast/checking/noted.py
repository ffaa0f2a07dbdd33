"""Frames that their receiver only notes arrive at once, as idle ones do.

A frame is *noted* if it changes the state of its receiver and has no effect: an offer of what the receiver has
already, say. It could arrive at any time while its link lives. Let x be a state in which a frame f may still be to
come, and f(x) the state when it has arrived: x *lags behind* f(x). If for each such pair

- f is noted in x, with the same result at every time that there was;
- each call that a node in f(x) may get does the same in x: the same effects, to the state c(x), and f(c(x)) is
  c(f(x)), so that c(x) lags behind c(f(x)); a call that ends the link, and f with it, leads both to one state;
- a crash saves the same in both, and what is judged of a node (gauges with a limit, whether it is let go) is the
  same in both,

then each run in which f arrives late goes through worlds that differ from those of a run in which it arrives at
once by the lag alone: with the same frames under way, the same deliveries and the same that can happen next. So
only the latter is looked at. Where a frame may still be lost it does not arrive at once. All this is assumed
during the search and verified at its end, for every state that lags behind one which the search has seen, and, as
several frames may be to come, for those that lag behind these. The calls are those that the search has made; the
protocol makes them once more in the states that lag.

An idle frame is to stay idle in states that lag, too; so what is assumed of it in a state is handed on to these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from antecast.checking.hidden import Raised
from antecast.checking.reduction import Arriving, Edge, Unverified
from antecast.core import Leaving, NodeId

if TYPE_CHECKING:
    from antecast.checking.steps import Step
    from antecast.checking.symmetry import Symmetry
    from antecast.checking.world import Worlds

Lag: TypeAlias = tuple[int, NodeId, int]
"""A local state in which a frame may be to come, its sender, and the frame."""

Call: TypeAlias = tuple[Any, ...]
"""A local call, as the machine remembers it."""


class Lags:
    """The states that lag behind others, and whether what nodes do in both is the same."""

    def __init__(
        self,
        worlds: Worlds,
        times: Iterable[int],
        *,
        symmetry: Symmetry | None,
        judged: Iterable[str],
        enough: Callable[[], str | None],
    ) -> None:
        self._worlds, self._machine = worlds, worlds.machine
        self._times = sorted(times)
        self._renamings = [] if symmetry is None else symmetry.renamings
        self._judged = tuple(judged)
        self._enough = enough
        self.failed: set[Arriving] = set()
        """Frames that are not noted whenever they may arrive, or for which something else does not hold."""
        self._ahead: dict[Lag, int] = {}
        """The state when the frame has arrived."""
        self._behind: dict[int, list[Lag]] = defaultdict(list)
        """By the state when the frame has arrived."""
        self._calls: dict[int, dict[Call, None]] = defaultdict(dict)
        """The calls of the search by state, and those that were made here in states that lag."""
        for call, step in self._machine.memo.items():
            if not step.aside and call[2] != "recover":
                self._calls[call[0]][call] = None
        self._waiting: list[tuple[Lag, Call]] = []
        self._edges: set[tuple[int, int, NodeId | None]] = set()

    def __iter__(self) -> Iterator[Lag]:
        return iter(self._ahead)

    def __len__(self) -> int:
        return len(self._ahead)

    def follow(self, lags: Iterable[Lag]) -> None:
        """Take in states that lag, and all that follow from them."""
        looked = 0
        with self._machine.judging():
            for lag in lags:
                self._add(*lag)
            while self._waiting:
                looked += 1
                if not looked & 63 and (why := self._enough()):
                    raise Unverified(why)
                lag, call = self._waiting.pop()
                if self._name(lag) not in self.failed and not self._agree(lag, call):
                    self.failed.add(self._name(lag))

    def edges(self) -> set[Edge]:
        """Where what is assumed of an idle frame has to be handed on: to states that lag, and from these."""
        digests = self._machine.digests
        return {(digests[here], digests[there], ended) for here, there, ended in self._edges}

    def _name(self, lag: Lag) -> Arriving:
        return self._machine.node(lag[0]), lag[1], self._machine.frame_bytes[lag[2]]

    def _add(self, behind: int, peer: NodeId, frame: int) -> int | None:
        """The state when the frame has arrived; None if it is not noted."""
        lag = (behind, peer, frame)
        found = self._ahead.get(lag)
        if found is None and self._name(lag) not in self.failed:
            found = self._noted(lag)
            if found is None:
                self.failed.add(self._name(lag))
                return None
            self._ahead[lag] = found
            self._behind[found].append(lag)
            self._waiting += [(lag, call) for call in self._calls[found]]
            if found != behind:
                self._edges |= {(behind, found, None), (found, behind, None)}
            for renaming in self._renamings:
                self._add(renaming.state(behind), renaming.nodes[peer], renaming.frame(frame))
        return found

    def _noted(self, lag: Lag) -> int | None:
        machine, (behind, peer, frame) = self._machine, lag
        if machine.protocol(behind) is None:
            return None
        steps = [machine.step(behind, machine.node(behind), t, "receive", frame, peer) for t in self._times]
        ahead = steps[0].state
        if all(step.quiet and step.state == ahead for step in steps) and self._alike(behind, ahead):
            return ahead
        return None

    def _alike(self, behind: int, ahead: int) -> bool:
        """Whether what is judged of a node is the same in both states."""
        try:
            gauges, others = self._worlds.gauges(behind), self._worlds.gauges(ahead)
        except Raised:
            return False
        one: object = self._machine.protocol(behind)
        other: object = self._machine.protocol(ahead)
        if isinstance(one, Leaving) and isinstance(other, Leaving) and one.left != other.left:
            return False
        return all(gauges.get(name) == others.get(name) for name in self._judged)

    def _agree(self, lag: Lag, call: Call) -> bool:
        """Whether a call does the same in a state and in the one that lags behind it."""
        machine, (behind, peer, frame) = self._machine, lag
        _, now, method, *arguments = call
        if method == "receive" and arguments[1] == peer and self._worlds.wires.fifo:
            return True  # it comes behind the frame
        step = machine.memo[call]
        if method == "crash":
            try:
                stopped = machine.crash(behind, machine.node(behind), *arguments)
            except Raised:
                return False
            self._made(behind, (behind, *call[1:]))
            return stopped == step.state
        other = machine.step(behind, machine.node(behind), now, method, *arguments)
        self._made(behind, (behind, *call[1:]))
        if _told(other) != _told(step):
            return False
        if other.problem is not None or other.refused:
            return True
        ended = arguments[0] if method in ("link_up", "link_down") else None
        if other.state != behind:
            self._edges.add((behind, other.state, ended))
        return step.state == (other.state if ended == peer else self._add(other.state, peer, frame))

    def _made(self, state: int, call: Call) -> None:
        if call not in self._calls[state]:
            self._calls[state][call] = None
            self._waiting += [(lag, call) for lag in self._behind[state]]


def _told(step: Step) -> tuple[object, ...]:
    return step.effects, step.problem is None, bool(step.refused)
