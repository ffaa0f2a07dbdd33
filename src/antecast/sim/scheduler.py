"""The scheduler: a heap of (time, sequence, action, argument), run in that order.

Events of one instant run in the order in which they were scheduled. That is the only rule for ties,
and it depends on nothing but the run itself. Cancelling is not its business: whoever schedules an
event knows, when it fires, whether it still matters.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import Any, TypeAlias

Action: TypeAlias = Callable[[Any], object]

_LAST = 1 << 62
"""A sequence number behind all others, for the event that ends a run."""

BURST = 1 << 14
"""Events between two looks at the outside world (progress, interrupts)."""


class _End(Exception):
    """Raised by the event that ends a run: cheaper than a test before every event."""


class Scheduler:
    """Runs actions at their times.

    >>> scheduler, seen = Scheduler(), []
    >>> scheduler.at(20, seen.append, "second")
    >>> scheduler.at(10, seen.append, "first")
    >>> scheduler.run(until=100)
    2
    >>> seen, scheduler.now
    (['first', 'second'], 100)
    """

    __slots__ = ("_heap", "_scheduled", "now")

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Action, Any]] = []
        self._scheduled = 0

    def at(self, time: int, action: Action, argument: Any) -> None:
        """Call `action(argument)` at a time; a time that has passed means as soon as possible."""
        self._scheduled = number = self._scheduled + 1
        heappush(self._heap, (time, number, action, argument))

    def __len__(self) -> int:
        return len(self._heap)

    def run(self, until: int, *, between: Callable[[], bool] | None = None) -> int:
        """Run all events up to a time, that included; the number of events run.

        Every few thousand events `between()` is called; the run stops early when it returns False.
        """
        heap = self._heap
        before = self._scheduled - len(heap)

        def end(_: None) -> None:
            raise _End

        ending: tuple[int, int, Action, Any] = (until, _LAST, end, None)
        heappush(heap, ending)
        try:
            while True:
                for _ in repeat(None, BURST):
                    self.now, _, action, argument = heappop(heap)
                    action(argument)
                if between is not None and not between():
                    heap.remove(ending)
                    heapify(heap)
                    break
        except _End:
            pass
        return self._scheduled - len(heap) - before
