"""The station, first layer: messages go out to the cell and on over the tree of wires (the paper's lines
marked *).

Every message gets the next number of this station, whichever way it came, and is passed on over all other
wires. Wires are FIFO and make a tree, so the order in which a station numbers messages is a causal one, and so
is every host's order of delivery, which follows the numbers. The messages kept are always a run of numbers
[low, next): low is the least number that some host of this cell may still need.

New messages go out as long as they are within `window` of the host that is furthest; what a host lacks of the
window that it takes is sent again in time. A host that has not been heard of for a while is only probed with
one message: one that has gone away must neither fill the air of those who stayed nor hold them up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from antecast.core import (
    Codec,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
    Transmit,
)
from antecast.protocols.cellular.frames import CODEC, Ack, Acks, CatchUp, Data
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import dither

RESEND: Timer = "resend"
ACKS: Timer = "acks"


class Cell(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        self.node = node
        self._settings = settings
        self._wires: list[NodeId] = []
        self._records: dict[NodeId, Record] = {}
        self._low = 0
        self._buffer: deque[Data] = deque()
        self._sent_at: deque[int] = deque()
        """When each message of the buffer was last sent."""
        self._sent_upto = 0
        """All numbers below have been sent at least once."""
        self._numbers: dict[MessageId, int] = {}
        """Of the messages in the buffer."""
        self._resend_set = False
        self._acks_set = False
        self._to_acknowledge: dict[NodeId, None] = {}
        self._dithered = 0

    @property
    def _next(self) -> int:
        return self._low + len(self._buffer)

    # The driver's side.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        raise LocalMisuse("a station has no application; hosts broadcast")

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        """A wire to another station. Stations and wires stay from the start on."""
        self._wires.append(peer)
        return []

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        self._wires.remove(peer)
        return []

    def snapshot(self) -> State:
        raise LocalMisuse("stations do not crash; what they know is not made to outlive them")

    def restore(self, state: State) -> None:
        raise LocalMisuse("stations do not crash; what they know is not made to outlive them")

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == RESEND:
            self._resend_set = False
            self._resend(now, out)
        elif token == ACKS:
            self._acks_set = False
            self._acknowledge(out)
        return out

    # Dissemination.

    def _disseminate(self, message: Data, came_from: NodeId | None, now: int, out: list[Effect]) -> None:
        """Number a message, pass it on over the other wires and send it to the cell."""
        self._flood(message, came_from, out)
        if not self._records:
            self._low += 1
            return
        number = self._next
        self._numbers[message.id] = number
        self._buffer.append(Message(message.origin, message.seq, message.payload, number))
        self._sent_at.append(now)
        for record in self._records.values():
            if record.pos == number:  # it had everything, and nothing to say
                record.owes = now
        self._send_window(now, out)

    def _flood(self, frame: Frame, came_from: NodeId | None, out: list[Effect]) -> None:
        out += [Send(peer, frame) for peer in self._wires if peer != came_from]

    def _send_window(self, now: int, out: list[Effect]) -> None:
        """Send what has not been sent yet, as far as a host takes it: a window, or one message if it is silent."""
        window = self._settings.window
        ends = (
            each.pos + (1 if self._silent(each, now) else window) for each in self._records.values() if each.holds
        )
        until = min(max(ends, default=0), self._next)
        for number in range(max(self._low, self._sent_upto), until):
            self._transmit(number - self._low, now, out)
        self._sent_upto = max(self._sent_upto, until)
        self._set_resend(now, out)

    def _transmit(self, index: int, now: int, out: list[Effect]) -> None:
        self._sent_at[index] = now
        out.append(Transmit(self._stamped(index)))

    def _stamped(self, index: int) -> Data:
        return self._buffer[index]

    def _trim(self, now: int, out: list[Effect]) -> None:
        """Drop what no host needs; room in the window lets others out."""
        low = min((record.pos for record in self._records.values()), default=self._next)
        while self._low < low:
            message = self._buffer.popleft()
            self._sent_at.popleft()
            self._numbers.pop(message.id, None)
            self._low += 1
        self._send_window(now, out)

    # Acknowledgements.

    def _app(self, message: Data, host: NodeId, now: int, out: list[Effect]) -> None:
        """A host's own message, up the radio: passed on in the host's order."""
        if message.origin != host:
            raise RemoteFault(f"host {host} sent a message of {message.origin} as its own")
        record = self._records.get(host)
        if record is None or not self._may_accept(record):
            return
        self._heard(record, now, out)
        record.fresh = False
        if record.seqh <= message.seq < record.seqh + self._settings.window:
            record.early[message.seq] = message
            while (due := record.early.pop(record.seqh, None)) is not None:
                record.seqh += 1
                self._disseminate(due, None, now, out)
        self._to_acknowledge[host] = None
        if not self._acks_set:
            self._acks_set = True
            wait = self._settings.ack
            out.append(SetTimer(ACKS, now + wait + self._dither(wait // 4)))

    def _may_accept(self, record: Record) -> bool:
        return record.holds

    def _acknowledge(self, out: list[Effect]) -> None:
        there = (host for host in self._to_acknowledge if host in self._records)
        numbers = {host: self._records[host].seqh for host in there if self._records[host].ready}
        self._to_acknowledge.clear()
        if numbers:
            out.append(Transmit(Acks(numbers)))

    def _ack(self, frame: Ack, host: NodeId, now: int, out: list[Effect]) -> None:
        record = self._records.get(host)
        if record is None or not record.holds or record.ses != frame.ses:
            return
        if frame.seqc > self._next:
            raise RemoteFault(f"host {host} acknowledges {frame.seqc}, the next number here is {self._next}")
        self._heard(record, now, out)
        record.fresh = False
        record.deliver_upto(frame.co, frame.seqc)
        record.top, record.holes = frame.top, frozenset(frame.holes)
        self._trim(now, out)

    def _heard(self, record: Record, now: int, out: list[Effect]) -> None:
        was_silent = self._silent(record, now)
        record.heard = now
        if was_silent:  # it takes part again
            self._send_window(now, out)
            self._set_resend(now, out, anew=True)

    # Sending again.

    def _silent(self, record: Record, now: int) -> bool:
        """Whether a host has not answered for a while; one that has everything need not."""
        return now - max(record.heard, record.owes) > self._settings.silence

    def _due(self, now: int) -> Iterator[tuple[int, int]]:
        """(when, index) of each message to send again."""
        sent, interval = self._sent_upto - self._low, self._settings.interval(len(self._buffer))
        wanted: set[int] = set()
        for record in self._records.values():
            index = record.pos - self._low
            if record.holds and index < sent:
                if self._silent(record, now):
                    yield self._sent_at[index] + self._settings.retransmit, index
                else:
                    wanted |= record.lacks(min(self._settings.window, sent - index))
        for number in wanted:
            index = number - self._low
            yield self._sent_at[index] + interval, index

    def _catch_up_due(self, record: Record, now: int) -> int:
        silent = self._silent(record, now)
        return record.catch_up_at + (
            self._settings.retransmit if silent else self._settings.interval(len(self._buffer))
        )

    def _set_resend(self, now: int, out: list[Effect], *, anew: bool = False) -> None:
        if self._resend_set and not anew:
            return
        times = [when for when, _ in self._due(now)]
        times += [self._catch_up_due(each, now) for each in self._records.values() if each.holds and each.catch_up]
        if times:
            self._resend_set = True
            at = max(now, min(times))
            out.append(SetTimer(RESEND, at + self._dither(self._settings.retransmit_least // 4)))

    def _resend(self, now: int, out: list[Effect]) -> None:
        for host, record in self._records.items():  # first: without these a host can do nothing with the others
            if record.holds and record.catch_up and self._catch_up_due(record, now) <= now:
                self._send_catch_up(host, record, now, out)
        for index in sorted({index for when, index in self._due(now) if when <= now}):
            self._transmit(index, now, out)
        self._set_resend(now, out)

    def _send_catch_up(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        record.catch_up_at = now
        count = 1 if self._silent(record, now) else min(self._settings.window, len(record.catch_up))
        for index in range(count):
            message = record.catch_up[index]
            stamp = CatchUp(host, record.ses, record.caught_up + index)
            out.append(Transmit(Message(message.origin, message.seq, message.payload, stamp)))

    def _dither(self, span: int) -> int:
        self._dithered += 1
        return dither(self.node, self._dithered, span)

    def gauges(self) -> dict[str, int]:
        records = self._records.values()
        return {
            "station_sent_buffer": len(self._buffer) + sum(len(record.catch_up) for record in records),
            "station_received_buffer": sum(len(record.early) for record in records),
            "station_hosts": len(records),
        }
