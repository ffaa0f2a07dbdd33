"""What a host broadcasts: kept until a station has it, sent in a window, sent again in time."""

from __future__ import annotations

from antecast.core import MessageId, NodeId
from antecast.protocols.cellular.frames import Data
from antecast.protocols.cellular.round_trip import RoundTrip
from antecast.protocols.cellular.settings import CellularSettings


class Outbox:
    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        self._node = node
        self._settings = settings
        # Durable.
        self.last = 0
        """The number of the newest message broadcast."""
        self.sent = 0
        """No message beyond this number was ever sent."""
        self.unacknowledged: dict[int, Data] = {}
        # Of this session.
        self._sent_at: dict[int, int] = {}
        self._again: set[int] = set()
        """Messages sent more than once."""
        self._round_trip = RoundTrip(settings)

    def __len__(self) -> int:
        return len(self.unacknowledged)

    def add(self, message: Data) -> None:
        self.last = message.seq
        self.unacknowledged[message.seq] = message

    def begin(self) -> None:
        """A new session: whatever was sent in the last one may be lost."""
        self._sent_at.clear()
        self._again.clear()

    @property
    def interval(self) -> int:
        """After how long a message is sent again."""
        return self._round_trip.wait(len(self._sent_at))

    @property
    def due_at(self) -> int | None:
        """When the oldest message under way is to be sent again."""
        return min(self._sent_at.values()) + self.interval if self._sent_at else None

    def unsent(self, now: int) -> list[Data]:
        """What has not been sent in this session and fits into the window; it counts as sent now."""
        return self._send([seq for seq in self._in_window() if seq not in self._sent_at], now)

    def overdue(self, now: int) -> list[Data]:
        """What was sent long ago, or never; it counts as sent now."""
        before = now - self.interval
        return self._send([seq for seq in self._in_window() if self._sent_at.get(seq, before) <= before], now)

    def _in_window(self) -> list[int]:
        first = next(iter(self.unacknowledged), 0)
        return [seq for seq in self.unacknowledged if seq < first + self._settings.window]

    def _send(self, numbers: list[int], now: int) -> list[Data]:
        self._again.update(seq for seq in numbers if seq in self._sent_at)
        for seq in numbers:
            self._sent_at[seq] = now
            self.sent = max(self.sent, seq)
        return [self.unacknowledged[seq] for seq in numbers]

    def acknowledged(self, upto: int, now: int) -> list[MessageId]:
        """Everything below this number has reached a station; returns what is new of it."""
        done = [seq for seq in self.unacknowledged if seq < upto]
        if done and done[0] in self._sent_at and done[0] not in self._again:
            self._round_trip.took(now - self._sent_at[done[0]])
        for seq in done:
            del self.unacknowledged[seq]
            self._sent_at.pop(seq, None)
            self._again.discard(seq)
        return [MessageId(self._node, seq) for seq in done]
