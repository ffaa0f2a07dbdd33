"""Virtual time: one clock for the bench, one with an offset for each node, timers, and an agenda."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import count

from antecast.core import NodeId, Timer

STORM = 100_000
"""More frames at one moment than a network of this size sends, unless something goes round in circles."""


class ContractBroken(AssertionError):
    """A protocol did what the contract forbids; `kind` is a word for it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class VirtualTime:
    def __init__(self, offsets: Mapping[NodeId, int]) -> None:
        self.now = 0
        self.timers: dict[NodeId, dict[Timer, int]] = defaultdict(dict)
        """When each timer fires, on the clock of its node."""
        self._offsets = dict(offsets)
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._number = count().__next__

    def clock(self, node: NodeId) -> int:
        return self.now + self._offsets.get(node, 0)

    def leap(self, node: NodeId, by: int) -> None:
        """The clock of a node leaps ahead."""
        self._offsets[node] = self._offsets.get(node, 0) + by

    def advance(self, to: int) -> None:
        self.now = max(self.now, to)

    def after(self, delay: int, action: Callable[[], object]) -> None:
        """At once, if there is no delay."""
        if delay:
            heapq.heappush(self._agenda, (self.now + delay, self._number(), action))
        else:
            action()

    def due(self, node: NodeId, token: Timer) -> int:
        """When a timer fires, on the clock of the bench."""
        return max(self.now, self.timers[node][token] - self._offsets.get(node, 0))

    def _next_timer(self) -> tuple[int, NodeId, Timer] | None:
        now, soonest, first = self.now, 0, None
        for node, timers in self.timers.items():
            offset = self._offsets.get(node, 0)
            for token, at in timers.items():
                due = max(now, at - offset)
                if first is None or due < soonest or (due == soonest and (node, token) < first):
                    soonest, first = due, (node, token)
        return None if first is None else (soonest, *first)

    def pass_until(
        self,
        until: int,
        *,
        fire: Callable[[NodeId, Timer], None],
        arrival: Callable[[], int | None],
        arrive: Callable[[], None],
    ) -> None:
        """Let the clock run. On the way timers fire, frames arrive (`arrival` is the time of the next, None if
        there is none), and what is on the agenda happens: at one moment frames first, timers last."""
        calls = 0
        while True:
            timer = self._next_timer()
            frame, action = arrival(), self._agenda[0][0] if self._agenda else None
            soonest = until + 1 if timer is None else timer[0]
            if frame is not None and frame < soonest:
                soonest = frame
            if action is not None and action < soonest:
                soonest = action
            if soonest > until:
                break
            calls = calls + 1 if soonest <= self.now else 0
            if calls > STORM:
                raise ContractBroken("storm", "time stands still: timers or frames never end")
            self.advance(soonest)
            if frame == soonest:
                arrive()
            elif action == soonest:
                heapq.heappop(self._agenda)[2]()
            elif timer is not None:
                fire(timer[1], timer[2])
        self.advance(until)
