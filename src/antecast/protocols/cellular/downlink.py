"""Down the radio: a station sends its cell what the hosts there lack, in the order of its numbers.

New messages go out as long as they are within `window` of every host that takes part. What a host lacks of its
window is sent again when it is known to be lost, because the host has heard what was sent later, or when no
acknowledgement has come in the usual time (`round_trip.py`). So no copy follows another that may still wait for
its turn at the radio. A host that has not been heard of for a while is only probed with one message: a host that
has left must neither fill the air for those who stay nor hold them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from antecast.core import Effect, Message, NodeId, RemoteFault, SetTimer, Timer, Transmit
from antecast.protocols.cellular.buffer import CellBuffer
from antecast.protocols.cellular.frames import Ack, CatchUp, Data, InitAck, Marked
from antecast.protocols.cellular.record import HostState, Record
from antecast.protocols.cellular.round_trip import RoundTrip
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import Dither

RESEND: Timer = "resend"
_HELD = HostState.HELD  # looked at for every host whenever the radio has something to send

_AT_ONCE = 32
"""How many messages are sent again in a row. Between two stations that do not hear each other, only what falls
into a gap of the other one is heard."""


class Downlink:
    def __init__(
        self, settings: CellularSettings, rules: Rules, records: Mapping[NodeId, Record], dither: Dither
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._records = records
        self._dither = dither
        self.buffer = CellBuffer()
        self._round_trip = RoundTrip(settings)
        self._timer_at: int | None = None

    # What is sent, and how long it is kept.

    def add(self, message: Data, now: int, out: list[Effect]) -> None:
        """Number a message and send it to the cell; if nobody is there, only count it."""
        if not self._records:
            self.buffer.low += 1
            return
        number = self.buffer.append(message, now)
        for record in self._records.values():
            if record.position == number:  # it had everything, and nothing to say
                record.owes_since = now
        self.send_window(now, out)

    def send_window(self, now: int, out: list[Effect]) -> None:
        """Send what has not been sent yet, as far as hosts take it: a window, or one message if all are silent.

        Hosts that take part are kept together: nobody is sent what another has no room for yet. Only a host that
        is more than a window behind, because it was away, is not waited for.
        """
        buffer, window = self.buffer, self._settings.window
        if buffer.sent_upto < buffer.next:
            ends = [
                (record.position + (1 if silent else window), silent)
                for record in self._records.values()
                if record.state is _HELD
                for silent in (self._silent(record, now),)
            ]
            together = [end for end, silent in ends if not silent and end >= buffer.sent_upto]
            until = min(min(together) if together else max((end for end, _ in ends), default=0), buffer.next)
            for number in range(max(buffer.low, buffer.sent_upto), until):
                self._transmit(number, now, out)
            buffer.sent_upto = max(buffer.sent_upto, until)
        self.set_resend(now, out)

    def trim(self, now: int, out: list[Effect]) -> None:
        """Drop what no host needs; room in the window lets new messages out."""
        low = min((record.position for record in self._records.values()), default=self.buffer.next)
        self.buffer.drop_below(low)
        self.send_window(now, out)

    def _transmit(self, number: int, now: int, out: list[Effect]) -> None:
        self.buffer.sent(number, now)
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
        self._measure(frame, record, now)
        record.delivered(frame.co, min(frame.seqc, self.buffer.next))
        record.top, record.holes, record.acknowledged_at = frame.top, frozenset(frame.holes), now
        self.trim(now, out)
        self._hasten(record, now, out)
        if catching_up_first and not record.catch_up:
            self.confirm(host, record, now, out)

    def _measure(self, frame: Ack, record: Record, now: int) -> None:
        """What an acknowledgement tells about the radio: the time since the oldest message that it newly
        acknowledges, and the newest message that was heard."""
        if record.position < frame.seqc and (sent := self.buffer.sent_once(record.position)) is not None:
            self._round_trip.took(now - sent)
        newest = max(frame.seqc, frame.top) - 1 - self.buffer.low
        if 0 <= newest < len(self.buffer):
            record.heard_turn = max(record.heard_turn, self.buffer.first_turn[newest])

    def _hasten(self, record: Record, now: int, out: list[Effect]) -> None:
        """What a host is now known to lack, or now has room for, need not wait for the timer of others."""
        if self._settings.measured and self._timer_at is not None and record.held:
            at = self._timer_at
            for when, _ in self._due_to([record], now):
                at = min(at, when)
            if at < self._timer_at:
                self._set(max(now, at), out)

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

    def _due(self, now: int) -> list[tuple[int, int]]:
        """(when, number) of each message to send again."""
        return self._due_to([record for record in self._records.values() if record.state is _HELD], now)

    def _due_to(self, records: Iterable[Record], now: int) -> list[tuple[int, int]]:
        """The same, as far as some hosts lack it: what is known to be lost soon, the rest when it is overdue."""
        buffer, settings = self.buffer, self._settings
        low, sent_at = buffer.low, buffer.sent_at
        due: list[tuple[int, int]] = []
        lost: set[int] = set()
        overdue: set[int] = set()
        for record in records:
            behind = buffer.sent_upto - record.position
            if behind <= 0:
                continue
            if self._silent(record, now):
                due.append((sent_at[record.position - low] + settings.retransmit, record.position))
                continue
            lacking = record.lacks(min(settings.window, behind))
            overdue.update(lacking)
            if settings.measured:
                in_time = record.acknowledged_at - settings.retransmit_least
                heard, top, turn = record.heard_turn, record.top, buffer.turn
                for number in lacking:
                    if sent_at[number - low] <= in_time or (number < top and turn[number - low] < heard):
                        lost.add(number)
        wait = self._round_trip.wait(len(buffer))
        due += [(sent_at[number - low] + wait, number) for number in overdue - lost]
        due += [(sent_at[number - low] + settings.retransmit_least, number) for number in lost]
        return due

    def _catch_up_due(self, record: Record, now: int) -> int:
        silent = self._silent(record, now)
        return record.catch_up_at + (
            self._settings.retransmit if silent else self._round_trip.wait(len(self.buffer))
        )

    def set_resend(self, now: int, out: list[Effect], *, anew: bool = False) -> None:
        if self._timer_at is not None and not anew:
            return
        times = [when for when, _ in self._due(now)]
        times += [self._catch_up_due(each, now) for each in self._records.values() if each.held and each.catch_up]
        if times:
            self._set(max(now, min(times)), out)

    def _set(self, at: int, out: list[Effect]) -> None:
        self._timer_at = at + self._dither(self._settings.retransmit_least // 4)
        out.append(SetTimer(RESEND, self._timer_at))

    def resend(self, now: int, out: list[Effect]) -> None:
        """The timer has fired."""
        self._timer_at = None
        for host, record in self._records.items():  # first: a host can do nothing with the others without these
            if record.held and record.catch_up and self._catch_up_due(record, now) <= now:
                self._send_catch_up(host, record, now, out)
        due = sorted({number for when, number in self._due(now) if when <= now})
        at_once = _AT_ONCE if self._settings.measured else len(due)
        for number in due[:at_once]:
            self._transmit(number, now, out)
        if len(due) > at_once:
            self._set(now + self._settings.retransmit_least // 4, out)
        else:
            self.set_resend(now, out)

    def _send_catch_up(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        record.catch_up_at = now
        count = 1 if self._silent(record, now) else min(self._settings.window, len(record.catch_up))
        for index in range(count):
            message = record.catch_up[index]
            stamp = CatchUp(host, record.session, record.caught_up + index)
            out.append(Transmit(Message(message.origin, message.seq, message.payload, stamp)))
