"""Down the radio: a station sends its cell what the hosts there lack, in the order of its numbers.

New messages go out as long as they are within `window` of the host that is furthest; what a host lacks of the
window that it takes is sent again in time. A host that has not been heard of for a while is only probed with
one message: one that has gone away must neither fill the air of those who stayed nor hold them up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antecast.core import Effect, Message, NodeId, RemoteFault, SetTimer, Timer, Transmit
from antecast.protocols.cellular.buffer import CellBuffer
from antecast.protocols.cellular.frames import Ack, CatchUp, Data, InitAck, Marked
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import Dither

RESEND: Timer = "resend"


class Downlink:
    def __init__(
        self, settings: CellularSettings, rules: Rules, records: Mapping[NodeId, Record], dither: Dither
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._records = records
        self._dither = dither
        self.buffer = CellBuffer()
        self._timer_set = False

    # What is sent, and how long it is kept.

    def add(self, message: Data, now: int, out: list[Effect]) -> None:
        """Number a message and send it to the cell; with nobody there it is only counted."""
        if not self._records:
            self.buffer.low += 1
            return
        number = self.buffer.append(message, now)
        for record in self._records.values():
            if record.position == number:  # it had everything, and nothing to say
                record.owes_since = now
        self.send_window(now, out)

    def send_window(self, now: int, out: list[Effect]) -> None:
        """Send what has not been sent yet, as far as a host takes it: a window, or one message if it is silent."""
        window, buffer = self._settings.window, self.buffer
        ends = (
            each.position + (1 if self._silent(each, now) else window)
            for each in self._records.values()
            if each.held
        )
        until = min(max(ends, default=0), buffer.next)
        for number in range(max(buffer.low, buffer.sent_upto), until):
            self._transmit(number, now, out)
        buffer.sent_upto = max(buffer.sent_upto, until)
        self.set_resend(now, out)

    def trim(self, now: int, out: list[Effect]) -> None:
        """Drop what no host needs; room in the window lets others out."""
        low = min((record.position for record in self._records.values()), default=self.buffer.next)
        self.buffer.drop_below(low)
        self.send_window(now, out)

    def _transmit(self, number: int, now: int, out: list[Effect]) -> None:
        self.buffer.sent_at[number - self.buffer.low] = now
        out.append(Transmit(self._stamped(number)))

    def _stamped(self, number: int) -> Data:
        message = self.buffer[number]
        if not self._rules.mark_copies:  # hole 3
            return message
        hosts = [host for host, record in self._records.items() if number in record.marked]
        return Message(message.origin, message.seq, message.payload, Marked(number, hosts))

    def confirm(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        """Tell a host that its session is established, and what to deliver first."""
        catching_up_first = self._rules.catch_up_first and record.catch_up  # hole 9
        if not catching_up_first:
            count, skip = len(record.catch_up), sorted(record.skip)
            first, expected = record.position, record.expected
            out.append(Transmit(InitAck(host, record.session, count, first, skip, expected, record.fresh)))
        if record.catch_up:
            self._send_catch_up(host, record, now, out)
        if not catching_up_first:
            self.send_window(now, out)
        self.set_resend(now, out, anew=True)

    # What hosts say they have.

    def check(self, frame: Ack, record: Record, host: NodeId) -> None:
        """Refuse an acknowledgement of what was never sent."""
        buffer, known = self.buffer, record.caught_up + len(record.catch_up)
        if self._rules.printed:
            return  # under `ack-always` its numbers may be those of another cell
        if frame.seqc > buffer.next or frame.top > buffer.next:
            reach = max(frame.seqc, frame.top)
            raise RemoteFault(f"host {host} acknowledges {reach}, the next number here is {buffer.next}")
        if frame.co > known:
            raise RemoteFault(f"host {host} acknowledges {frame.co} messages to catch up on, there are {known}")
        if len(frame.holes) > self._settings.window:
            raise RemoteFault(f"host {host} lacks {len(frame.holes)} messages of {self._settings.window} at once")
        if any(not frame.seqc <= hole < frame.top for hole in frame.holes):
            raise RemoteFault(f"host {host} lacks messages outside of {frame.seqc} to {frame.top}")

    def acknowledged(self, frame: Ack, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        catching_up_first = self._rules.catch_up_first and bool(record.catch_up)  # hole 9
        if catching_up_first and not frame.co < self.buffer.low:
            return
        self.heard(record, now, out)
        record.fresh = False
        record.delivered(frame.co, min(frame.seqc, self.buffer.next))
        record.top, record.holes = frame.top, frozenset(frame.holes)
        self.trim(now, out)
        if catching_up_first and not record.catch_up:
            self.confirm(host, record, now, out)

    def heard(self, record: Record, now: int, out: list[Effect]) -> None:
        was_silent = self._silent(record, now)
        record.heard_at = now
        if was_silent:  # it takes part again
            self.send_window(now, out)
            self.set_resend(now, out, anew=True)

    # Sending again.

    def _silent(self, record: Record, now: int) -> bool:
        """Whether a host has not answered for a while; one that has everything need not."""
        return now - max(record.heard_at, record.owes_since) > self._settings.silence

    def _due(self, now: int) -> Iterator[tuple[int, int]]:
        """(when, number) of each message to send again."""
        buffer, interval = self.buffer, self._settings.interval(len(self.buffer))
        wanted: set[int] = set()
        for record in self._records.values():
            if record.held and record.position < buffer.sent_upto:
                if self._silent(record, now):
                    yield buffer.sent_at[record.position - buffer.low] + self._settings.retransmit, record.position
                else:
                    wanted |= record.lacks(min(self._settings.window, buffer.sent_upto - record.position))
        for number in wanted:
            yield buffer.sent_at[number - buffer.low] + interval, number

    def _catch_up_due(self, record: Record, now: int) -> int:
        silent = self._silent(record, now)
        return record.catch_up_at + (
            self._settings.retransmit if silent else self._settings.interval(len(self.buffer))
        )

    def set_resend(self, now: int, out: list[Effect], *, anew: bool = False) -> None:
        if self._timer_set and not anew:
            return
        times = [when for when, _ in self._due(now)]
        times += [self._catch_up_due(each, now) for each in self._records.values() if each.held and each.catch_up]
        if times:
            self._timer_set = True
            at = max(now, min(times))
            out.append(SetTimer(RESEND, at + self._dither(self._settings.retransmit_least // 4)))

    def resend(self, now: int, out: list[Effect]) -> None:
        """The timer has fired."""
        self._timer_set = False
        for host, record in self._records.items():  # first: without these a host can do nothing with the others
            if record.held and record.catch_up and self._catch_up_due(record, now) <= now:
                self._send_catch_up(host, record, now, out)
        for number in sorted({number for when, number in self._due(now) if when <= now}):
            self._transmit(number, now, out)
        self.set_resend(now, out)

    def _send_catch_up(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        record.catch_up_at = now
        count = 1 if self._silent(record, now) else min(self._settings.window, len(record.catch_up))
        for index in range(count):
            message = record.catch_up[index]
            stamp = CatchUp(host, record.session, record.caught_up + index)
            out.append(Transmit(Message(message.origin, message.seq, message.payload, stamp)))
