"""One end of a TCP-like connection over a lossy medium, without I/O: whole messages instead of bytes.

What matters for the comparison is what TCP does: everything point to point and in order; several small
messages in one segment; a window of segments that opens slowly (slow start, congestion avoidance) and closes
on loss; a timer for the oldest segment that doubles with each attempt (Jacobson's estimate of the round trip,
Karn's rule, at least 200 ms); a segment sent again after three acknowledgements of the same number;
acknowledgements on a heartbeat of 200 ms, at once where something is out of order; and no small segment while
another is under way (Nagle).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from antecast.core import CancelTimer, Effect, Message, NodeId, RemoteFault, SetTimer, State, Timer, Transmit
from antecast.protocols.dither import dither
from antecast.protocols.tcp_flooding.frames import Segment, SegmentAck, TcpSettings

_DUPLICATES = 3
"""Acknowledgements of one number after which the next segment counts as lost."""

_UNEVEN = 16
"""Timers are late by up to this part of their time, like those of a real machine."""


class _Sent(NamedTuple):
    segment: tuple[Message[None], ...]
    at: int
    again: bool


class Connection:
    """Sends messages to one peer, and hands up what the peer sends, each once and in order."""

    def __init__(
        self, node: NodeId, peer: NodeId, settings: TcpSettings, deliver: Callable[[Message[Any]], None]
    ) -> None:
        self.peer = peer
        self._node = node
        self._settings = settings
        self._deliver = deliver
        self._rto_timer: Timer = f"rto/{peer}"
        self._ack_timer: Timer = f"ack/{peer}"
        # Sending.
        self._waiting: deque[Message[None]] = deque()
        self._flight: deque[_Sent] = deque()
        self._first = 0
        """Number of the oldest segment under way."""
        self._window = 2.0
        self._threshold = float(settings.window)
        self._round_trip: float | None = None
        self._variation = 0.0
        self._rto: int = settings.retransmit
        self._timer_set = False
        self._waits = 0
        self._duplicates = 0
        # Receiving.
        self._expected = 0
        self._early: dict[int, tuple[Message[None], ...]] = {}
        self._ack_set = False

    @property
    def pending(self) -> int:
        """Messages not yet acknowledged."""
        return len(self._waiting) + sum(len(sent.segment) for sent in self._flight)

    @property
    def early(self) -> int:
        return sum(len(segment) for segment in self._early.values())

    @property
    def unacknowledged(self) -> list[Message[None]]:
        """In the order of sending."""
        return [*(message for sent in self._flight for message in sent.segment), *self._waiting]

    def send(self, message: Message[None], now: int, out: list[Effect]) -> None:
        self._waiting.append(message)
        self._push(now, out)

    # Sending.

    def _push(self, now: int, out: list[Effect]) -> None:
        """Send what the window and Nagle's rule allow."""
        while self._waiting and len(self._flight) < min(int(self._window), self._settings.window):
            size, count = 0, 0
            for message in self._waiting:
                if count and size + len(message.payload) > self._settings.segment:
                    break
                size += len(message.payload)
                count += 1
            if (
                self._settings.nagle
                and self._flight
                and count == len(self._waiting)
                and size < self._settings.segment
            ):
                break
            segment = tuple(self._waiting.popleft() for _ in range(count))
            self._flight.append(_Sent(segment, now, False))
            self._emit(self._first + len(self._flight) - 1, segment, now, out)
        self._set_timer(now, out)

    def _emit(self, number: int, segment: tuple[Message[None], ...], now: int, out: list[Effect]) -> None:
        out.append(Transmit(Segment(self.peer, number, self._expected, list(segment))))
        if self._ack_set:  # it travels along
            self._ack_set = False
            out.append(CancelTimer(self._ack_timer))

    def _set_timer(self, now: int, out: list[Effect], *, anew: bool = False) -> None:
        if not self._flight:
            if self._timer_set:
                self._timer_set = False
                out.append(CancelTimer(self._rto_timer))
        elif anew or not self._timer_set:
            self._timer_set = True
            self._waits += 1
            # Two stations with synchronised timers would destroy each other's segments for ever.
            late = dither(self._node, self._waits, self._rto // _UNEVEN)
            out.append(SetTimer(self._rto_timer, now + self._rto + late))

    def timed_out(self, now: int, out: list[Effect]) -> None:
        """Nothing was heard of the oldest segment: wait twice as long, and start with one segment again."""
        self._timer_set = False
        if self._flight:
            self._threshold = max(2.0, len(self._flight) / 2)
            self._window = 1.0
            self._rto = min(2 * self._rto, self._settings.retransmit_most)
            self._again(now, out)

    def _again(self, now: int, out: list[Effect]) -> None:
        segment = self._flight[0].segment
        self._flight[0] = _Sent(segment, now, True)
        self._emit(self._first, segment, now, out)
        self._set_timer(now, out, anew=True)

    def acknowledged(self, upto: int, now: int, out: list[Effect], *, pure: bool) -> None:
        """The peer has everything below this number."""
        if upto > self._first + len(self._flight):
            return  # of another connection
        if upto == self._first and self._flight and pure:
            self._duplicates += 1
            if self._duplicates == _DUPLICATES:
                self._threshold = self._window = max(2.0, len(self._flight) / 2)
                self._again(now, out)
        if upto <= self._first:
            return
        self._duplicates = 0
        while self._first < upto:
            sent = self._flight.popleft()
            self._first += 1
            if not sent.again:  # Karn: only these tell the round trip, and end the doubling
                self._measure(now - sent.at)
            self._window += 1.0 if self._window < self._threshold else 1.0 / self._window
        self._window = min(self._window, float(self._settings.window))
        self._set_timer(now, out, anew=True)
        self._push(now, out)

    def _measure(self, took: int) -> None:
        if self._round_trip is None:
            self._round_trip, self._variation = float(took), took / 2
        else:
            self._variation += (abs(took - self._round_trip) - self._variation) / 4
            self._round_trip += (took - self._round_trip) / 8
        self._rto = max(self._settings.retransmit, round(self._round_trip + 4 * self._variation))

    # Receiving.

    def check(self, frame: Segment) -> None:
        """Refuse a segment that the peer's window does not allow yet."""
        if frame.number >= self._expected + self._settings.window:
            raise RemoteFault(
                f"segment {frame.number} of {self.peer} is beyond the window; expected {self._expected}"
            )

    def received(self, frame: Segment, now: int, out: list[Effect]) -> None:
        self.acknowledged(frame.ack, now, out, pure=False)
        if frame.number != self._expected:
            if frame.number > self._expected:
                self._early[frame.number] = tuple(frame.messages)
            self.acknowledge(now, out)  # out of order, or again: say at once what is expected
            return
        segment: tuple[Message[None], ...] | None = tuple(frame.messages)
        while segment is not None:
            self._expected += 1
            for message in segment:
                self._deliver(message)
            segment = self._early.pop(self._expected, None)
        if not self._ack_set:
            self._ack_set = True
            beat = self._settings.ack
            phase = self._node * 7919 * 1_000_003 % beat  # nodes must not be synchronised
            out.append(SetTimer(self._ack_timer, now + beat - (now - phase) % beat))

    def acknowledge(self, now: int, out: list[Effect]) -> None:
        if self._ack_set:
            self._ack_set = False
            out.append(CancelTimer(self._ack_timer))
        out.append(Transmit(SegmentAck(self.peer, self._expected)))

    def ack_due(self, now: int, out: list[Effect]) -> None:
        if self._ack_set:
            self._ack_set = False
            out.append(Transmit(SegmentAck(self.peer, self._expected)))

    def cancel(self) -> list[Effect]:
        """The connection is over: nothing of it fires any more."""
        timers = ((self._timer_set, self._rto_timer), (self._ack_set, self._ack_timer))
        self._timer_set = self._ack_set = False
        return [CancelTimer(token) for was_set, token in timers if was_set]

    # Crashes.

    def snapshot(self) -> State:
        """Both directions. What was under way counts as lost: the timer starts anew, with one segment."""
        return {
            "peer": self.peer,
            "waiting": [plain(message) for message in self._waiting],
            "flight": [[plain(message) for message in sent.segment] for sent in self._flight],
            "first": self._first,
            "expected": self._expected,
            "early": [[number, [plain(each) for each in early]] for number, early in sorted(self._early.items())],
        }

    def restore(self, state: State) -> None:
        self._waiting = deque(map(message_of, state["waiting"]))
        self._flight = deque(_Sent(tuple(map(message_of, each)), 0, True) for each in state["flight"])
        self._first, self._expected = state["first"], state["expected"]
        self._early = {number: tuple(map(message_of, early)) for number, early in state["early"]}

    def resume(self, now: int, out: list[Effect]) -> None:
        """The first call after `restore`: the peer is told what is expected, and sent what it may lack."""
        self.acknowledge(now, out)
        self._set_timer(now, out, anew=True)
        self._push(now, out)


def plain(message: Message[None]) -> list[object]:
    return [message.origin, message.seq, message.payload]


def message_of(values: Sequence[Any]) -> Message[None]:
    origin, seq, payload = values
    return Message(origin, seq, payload, None)
