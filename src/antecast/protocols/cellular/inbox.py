"""What a host hears from its station: taken in any order, delivered in the station's order.

First come the messages that the host missed elsewhere (`CatchUp`, in their own order), then the cell's messages by
number, without those that `InitAck` named as delivered elsewhere. The position (how many catch-up messages are
done, the next number of the cell) survives a crash; what waits for its turn does not.
"""

from __future__ import annotations

from antecast.protocols.cellular.frames import Ack, Data, InitAck

_NOTHING: list[Data] = []


class Inbox:
    def __init__(self, window: int, *, selective: bool) -> None:
        self._window = window
        self._selective = selective
        # Durable.
        self.caught_up = 0
        """Catch-up messages delivered in the last established session."""
        self.next = 0
        """The next number of that session's cell."""
        # Of this session.
        self.to_catch_up = 0
        """How many messages come before the cell's own."""
        self.skip: set[int] = set()
        """Numbers that were delivered elsewhere."""
        self.taken = 0
        """Messages of the cell that came since the last report."""
        self._early_catch_up: dict[int, Data] = {}
        self._early: dict[int, Data] = {}

    def __len__(self) -> int:
        return len(self._early) + len(self._early_catch_up)

    def clear(self) -> None:
        """Numbers mean something only within a session."""
        self._early.clear()
        self._early_catch_up.clear()
        self.taken = 0

    def begin(self, frame: InitAck) -> None:
        self.caught_up, self.to_catch_up = 0, frame.catch_up
        self.next = frame.seqc
        self.skip = set(frame.skip)

    def begin_unannounced(self, most: int) -> None:
        """Printed rule `catch-up-first` (hole 9): nobody has said how many there are to catch up on."""
        self.caught_up = self.next = 0
        self.to_catch_up = most

    def step_over(self, number: int) -> list[Data]:
        """Printed rule `mark-copies` (hole 3): a copy says that it was delivered elsewhere."""
        if number < self.next:
            return []
        self.skip.add(number)
        return self._due()

    def take(self, number: int, message: Data) -> list[Data]:
        """A message of the cell; what can be delivered now. A station sends no further ahead than its window."""
        following = self.next
        if not following <= number < following + self._window:
            return _NOTHING
        if number not in self._early:
            self._early[number] = message
            self.taken += 1
        return self._due() if number == following else _NOTHING

    def take_catch_up(self, index: int, message: Data) -> list[Data]:
        if not self.caught_up <= index < self.caught_up + self._window:
            return []
        self._early_catch_up[index] = message
        return self._due()

    def _due(self) -> list[Data]:
        due: list[Data] = []
        while self.caught_up < self.to_catch_up:
            message = self._early_catch_up.pop(self.caught_up, None)
            if message is None:
                return due
            self.caught_up += 1
            due.append(message)
        while True:
            if self.next in self.skip:  # the station may no longer have it
                self.skip.remove(self.next)
                self._early.pop(self.next, None)
            elif (message := self._early.pop(self.next, None)) is not None:
                due.append(message)
            else:
                return due
            self.next += 1

    def report(self, session: int) -> Ack:
        """What is delivered, and which later messages are missing."""
        self.taken = 0
        top = max(self._early, default=-1) + 1 if self._selective else 0
        holes = [
            number for number in range(self.next, top) if number not in self._early and number not in self.skip
        ]
        return Ack(session, self.caught_up, self.next, top, holes)
