"""Holding back: what a child could not deliver yet is not sent to it yet.

A node that received m but not x, on which m depends, and that is the parent of the same child k in the trees of
both, knows that k cannot deliver m: k will get x from nobody else. It holds m back and sends both in one
packet when x comes. (Line 26 of Algorithm 2, CheckAgg, read as a rule: a message goes to k once all of its
dependencies that k gets from here have been received here.)

What makes this cheap:

- A node has one child per cluster, and it is the parent of child s in the tree of l exactly when its
  height there is at least s. So a missing dependency on a source in whose tree the height is h holds a message
  back from children 1 to h, and from no other: of all that is missing only the greatest height matters. It is
  the message's *level*, and it only falls.
- A held message waits under one missing dependency, the one that makes its level, and is looked at again when
  that one has come. What is missing is listed once, by height; the cost of a message depends on the changed
  entries of its clock and on what it was held for, not on what is pending, and not on N.
- Clocks on the wire hold only what changed since the source's previous message. The rest was missing for that
  one too, if it is missing at all: a message takes over what its source's previous message still waits for.

Holding back saves packets and is never needed for order, so where the lists of what is missing grow too long
(a broken source can make them) messages are no longer held.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from antecast.core import Message, NodeId
from antecast.protocols.received import Received

LISTED: Final = 1 << 20
"""Entries in the lists of what is missing, at most: some 100 MiB. Runs of 256 busy nodes have a few dozen."""


class Part(NamedTuple):
    """A message that may go to children `above` + 1 to `upto`."""

    message: Message[Any]
    above: int
    upto: int


class _Held:
    __slots__ = ("height", "level", "message", "missing", "order")

    def __init__(self, message: Message[Any], height: int, order: int) -> None:
        self.message = message
        self.height = height
        self.level = height
        self.missing: list[tuple[int, NodeId, int]] | None = None
        """(height, source, number), the greatest height last; None until the source's own past is here."""
        self.order = order


class HoldBack:
    """The messages held back, by name (`_held`) and by the missing dependency they wait under (`_waiting`)."""

    def __init__(self, received: Received, height: Callable[[NodeId], int]) -> None:
        self._received = received
        self._height = height
        self._held: dict[tuple[NodeId, int], _Held] = {}
        self._waiting: dict[tuple[NodeId, int], list[_Held]] = {}
        self._order = 0
        self._listed = 0

    def __len__(self) -> int:
        return len(self._held)

    def keep(self, message: Message[Any], height: int) -> int:
        """Take in a message that has just been received, with this many children; returns the level it is held at.

        It may go on to the children above that level at once.
        """
        origin, seq = message.origin, message.seq
        upto = self._received.upto
        if upto.get(origin, 0) < seq:
            held = self._hold(message, height)
            self._waiting.setdefault((origin, seq), []).append(held)
            return height
        missing = self._missing(message, height)
        if not missing:
            return 0
        held = self._hold(message, height)
        held.missing = missing
        self._listed += len(missing)
        return self._wait(held)

    def _hold(self, message: Message[Any], height: int) -> _Held:
        self._order += 1
        held = self._held[message.origin, message.seq] = _Held(message, height, self._order)
        return held

    def release(self, origin: NodeId, before: int) -> list[Part]:
        """A source's messages beyond number `before` have come, without a gap up to the count in `received`;
        returns what this lets go, in the order in which it came."""
        if not self._waiting:
            return []
        released: list[tuple[int, Part]] = []
        for number in range(before + 1, self._received.upto.get(origin, 0) + 1):
            for held in self._waiting.pop((origin, number), ()):
                level = held.level
                if held.missing is None:
                    held.missing = self._missing(held.message, held.height)
                    self._listed += len(held.missing)
                if self._wait(held) < level:
                    released.append((held.order, Part(held.message, held.level, level)))
        released.sort()
        return [part for _, part in released]

    def let_go(self) -> list[Part]:
        """Everything that is held, to all children it is held from: trees have changed."""
        parts = [Part(held.message, 0, held.level) for held in sorted(self._held.values(), key=lambda h: h.order)]
        self._held.clear()
        self._waiting.clear()
        self._listed = 0
        return parts

    def _missing(self, message: Message[Any], height: int) -> list[tuple[int, NodeId, int]]:
        """What holds a message back: (height, source, number), the greatest height last."""
        if self._listed > LISTED:
            return []
        upto, entries, missing = self._received.upto, message.stamp.items(), []
        # First messages mostly depend on first messages: where no count is ahead, one look at the whole is enough.
        if message.seq > 1 or not entries <= upto.items():
            get, height_of = upto.get, self._height
            missing = [
                (level, source, number)
                for source, number in entries
                if get(source, 0) < number and (level := min(height, height_of(source)))
            ]
        previous = self._held.get((message.origin, message.seq - 1))
        if previous is not None and previous.missing:
            missing += [(min(height, level), source, number) for level, source, number in previous.missing]
        missing.sort()
        return missing

    def _wait(self, held: _Held) -> int:
        """Drop what has come from the top of the list, wait under what is next; returns the level."""
        missing, get = held.missing, self._received.upto.get
        assert missing is not None
        while missing and get(missing[-1][1], 0) >= missing[-1][2]:
            missing.pop()
            self._listed -= 1
        if missing:
            held.level, source, number = missing[-1]
            self._waiting.setdefault((source, number), []).append(held)
        else:
            held.level = 0
            del self._held[held.message.origin, held.message.seq]
        return held.level
