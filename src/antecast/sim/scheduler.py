"""The scheduler: a heap of (time, sequence, action, argument), run in that order.

Events of one instant run in the order in which they were scheduled. That is the only rule for ties,
and it depends on nothing but the run itself. Cancelling is not its business: whoever schedules an
event knows, when it fires, whether it still matters.

When very many events are scheduled (a hundred thousand packets on their way), a heap of all of them no longer
fits into the caches, and each step down it waits for memory. So a heap that has grown large keeps what comes next
and puts the rest on *shelves*, a stretch of time each, unsorted, one event behind the other in the order in which
they were scheduled. Where the shelves begin, the heap has an event of the scheduler's own, which brings in the
next ones. Where an event lies has no influence on the order: everything in the heap comes before everything on
shelves, and events are numbered, which decides between those of one instant, as they enter the heap.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import repeat
from typing import Any, TypeAlias

Action: TypeAlias = Callable[[Any], object]

_Event: TypeAlias = tuple[int, int, Action, Any]
"""Time, number, and what to do."""

_FIRST = 0
"""A sequence number before all others, for what brings in the next events of its instant."""

_LAST = 1 << 62
"""A sequence number behind all others, for the event that ends a run."""

_NEVER = 1 << 100

BURST = 1 << 14
"""Events between two looks at the outside world (progress, interrupts)."""

NEXT = 1 << 11
"""How many events are left in a heap that has grown large: they fit into the nearest caches."""

LARGE = 1 << 14
"""More events than this in the heap are too many."""


class _End(Exception):
    """Raised by the event that ends a run: cheaper than a test before every event."""


class _Shelves(dict[int, list[Any]]):
    """Events by number of the shelf, each as time, action, argument in a row; a shelf that is not there yet is
    made."""

    def __init__(self) -> None:
        super().__init__()
        self._order: list[int] = []

    def __missing__(self, number: int) -> list[Any]:
        heappush(self._order, number)
        shelf: list[Any] = []
        self[number] = shelf
        return shelf

    def take(self) -> tuple[int, list[Any]]:
        """The first shelf, and its number."""
        number = heappop(self._order)
        return number, self.pop(number)


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

    __slots__ = ("_edge", "_heap", "_number", "_put_back", "_shelves", "_width", "now")

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[_Event] = []
        self._shelves = _Shelves()
        """By time // width. All of them begin at `edge` or later, where a shelf begins."""
        self._width = 1
        self._edge = _NEVER
        self._number = 0
        self._put_back = 0

    def at(self, time: int, action: Action, argument: Any) -> None:
        """Call `action(argument)` at a time; a time that has passed means as soon as possible."""
        if time < self._edge:
            self._number = number = self._number + 1
            heappush(self._heap, (time, number, action, argument))
        else:
            self._shelves[time // self._width].extend((time, action, argument))

    def __len__(self) -> int:
        return sum(map(len, self._shelves.values())) // 3 + self._next

    @property
    def _next(self) -> int:
        """Events in the heap, without the scheduler's own."""
        return len(self._heap) - (self._edge is not _NEVER)

    @property
    def _ran(self) -> int:
        """Events run so far: those that have left the heap for good."""
        return self._number - self._put_back - self._next

    def run(self, until: int, *, between: Callable[[], bool] | None = None) -> int:
        """Run all events up to and including a time; the number of events run.

        Every few thousand events `between()` is called; the run stops early when it returns False.
        """
        heap = self._heap
        before = self._ran

        def end(_: None) -> None:
            raise _End

        ending: _Event = (until, _LAST, end, None)
        heappush(heap, ending)
        try:
            while True:
                if len(heap) > LARGE:
                    self._shelve()
                for _ in repeat(None, BURST):
                    self.now, _, action, argument = heappop(heap)
                    action(argument)
                if between is not None and not between():
                    heap.remove(ending)
                    heapify(heap)
                    break
        except _End:
            pass
        return self._ran - before

    def _shelve(self) -> None:
        """Leave only the next events in the heap. Existing shelves proved too wide: they are filled anew."""
        heap, shelves = self._heap, _Shelves()
        ending = [event for event in heap if event[1] == _LAST]
        events = sorted(event for event in heap if _FIRST < event[1] < _LAST)
        rest = [event for number in sorted(self._shelves) for event in self._numbered(self._shelves[number])]
        rest.sort()
        events += rest
        width = max(1, events[NEXT][0] - events[0][0])
        edge = (events[0][0] // width + 1) * width
        split = bisect_left(events, (edge,))
        for time, _, action, argument in events[split:]:
            shelves[time // width].extend((time, action, argument))
        self._put_back += len(events) - split
        self._shelves, self._width, self._edge = shelves, width, edge
        heap[:] = events[:split] + ending
        self._mark()

    def _numbered(self, shelf: list[Any]) -> Iterable[_Event]:
        """The events of a shelf, as they enter the heap."""
        first = self._number + 1
        self._number += len(shelf) // 3
        return zip(shelf[::3], range(first, self._number + 1), shelf[1::3], shelf[2::3], strict=True)

    def _unshelve(self, _: None) -> None:
        """Everything before the edge has run: bring in the next shelves, one or as many as are worth it."""
        heap, shelves = self._heap, self._shelves
        if not shelves:
            self._edge = _NEVER
            return
        while shelves and len(heap) < NEXT:
            number, events = shelves.take()
            heap += self._numbered(events)
            self._edge = (number + 1) * self._width
        self._mark()

    def _mark(self) -> None:
        self._heap.append((self._edge, _FIRST, self._unshelve, None))
        heapify(self._heap)
