"""The messages that a station keeps for its cell: a run of numbers [low, next)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from antecast.core import Message, MessageId
from antecast.protocols.cellular.frames import Data


class CellBuffer:
    """Every message gets the next number of its station and is kept until all hosts of the cell have it: `low`
    is the least number that one of them may still need."""

    __slots__ = ("first_turn", "low", "messages", "numbers", "sent_at", "sent_upto", "turn", "turns")

    def __init__(self) -> None:
        self.low = 0
        self.messages: deque[Data] = deque()
        self.numbers: dict[MessageId, int] = {}
        """The number of each message kept."""
        self.sent_at: deque[int] = deque()
        """When each of them was last sent."""
        self.sent_upto = 0
        """All numbers below have been sent at least once."""
        self.turns = 0
        """How many have been sent in all, copies too."""
        self.turn: deque[int] = deque()
        """When each of the messages was last sent, in turns; 0 for never."""
        self.first_turn: deque[int] = deque()
        """When each was first sent."""

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, number: int) -> Data:
        return self.messages[number - self.low]

    @property
    def next(self) -> int:
        return self.low + len(self.messages)

    def append(self, message: Data, now: int) -> int:
        """Number a message and keep it."""
        number = self.next
        self.numbers[message.id] = number
        self.messages.append(Message(message.origin, message.seq, message.payload, number))
        self.sent_at.append(now)
        self.turn.append(0)
        self.first_turn.append(0)
        return number

    def sent(self, number: int, now: int) -> None:
        index = number - self.low
        self.turns += 1
        self.sent_at[index] = now
        self.turn[index] = self.turns
        if not self.first_turn[index]:
            self.first_turn[index] = self.turns

    def sent_once(self, number: int) -> int | None:
        """When a message was sent, if it was sent once."""
        index = number - self.low
        if 0 <= index < len(self.messages) and self.turn[index] == self.first_turn[index] > 0:
            return self.sent_at[index]
        return None

    def drop_below(self, low: int) -> None:
        while self.low < low:
            message = self.messages.popleft()
            self.sent_at.popleft()
            self.turn.popleft()
            self.first_turn.popleft()
            self.numbers.pop(message.id, None)
            self.low += 1

    def ids(self, numbers: Iterable[int]) -> list[MessageId]:
        return [self.messages[number - self.low].id for number in numbers]
