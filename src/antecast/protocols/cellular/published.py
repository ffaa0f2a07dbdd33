"""The paper's rules as printed, one by one: what each breaks, and how it can be had for study.

The protocol as published does not keep its promise. Each class below is the restated protocol with some of
its rules put back to what Algorithms 1 to 4 say, as far as they can be read; `published = ["no-lock"]`
follows one printed rule, `published = ["all"]` all of them. `antecast demonstrate cellular` shows each to
fail where the default holds. P is the old station, N the new one.

1.  `take-always` (Alg. 1, l. 15): the cell's messages are taken in any state. A joiner delivers number 0
    before `InitAck`, which then sets its counter back: delivered twice.
2.  `ack-always` (l. 48): an acknowledgement sent before the session is established carries the new session
    with the old cell's number: N drops what was not delivered.
3.  `mark-copies` (l. 20; Alg. 4, l. 86): who has delivered a message elsewhere is written on its copies
    (M_d). A copy sent before that was known arrives after `InitAck`: delivered twice.
4.  `send-always` (l. 10, 51): a host sends before it is established. A takes its message, the `InitAck` is
    lost, and B, which starts at number 1, takes it again.
5.  `accept-early` (Alg. 2, l. 2): N accepts the host's messages before the handoff ends: it may lack what
    they depend on, and counts from 1.
6.  `accept-late` (Alg. 2, l. 2): P accepts them after `Rsp1`, which carries the host's counter: N expects
    them again.
7.  `no-lock` (Alg. 4, l. 54): `Req1` does not lock P. The host that comes back to P before the handoff ends
    leaves N waiting for ever.
8.  `one-request` (Alg. 4, l. 55): one pending request is kept, and any station that knows a newer session
    floods `Delete`: P and N both drop the host.
9.  `catch-up-first` (Alg. 2, l. 13): `InitAck` follows the catch-up, whose end is tested by comparing the
    host's count of catch-up messages with the station's numbers (`<`): a station with small numbers never
    sends it.
10. `list-all` (Alg. 4, l. 66): unless P's session is the host's last established one, everything that P keeps
    counts as not delivered, acknowledged or not: delivered twice.
11. `any-session` (Alg. 2, l. 21): `≠` where `>` is meant. A late `Init` pulls the session back.
12. `no-floor`: nothing is remembered of hosts that are elsewhere. A late copy of `Join` makes a second
    record, which keeps its messages for ever.
13. `keep-stale`: a record older than the host's last established session is believed. The radio overtook the
    wires: what the host delivered since is delivered again.
14. `silent-rejoin` (Alg. 2, l. 19): joining again at a station that knows the host floods no `Delete`; the
    record that a join elsewhere left behind stays.
15. `leave-if-known` (Alg. 2, l. 40): only a station that has the host tells the others that it leaves; a
    leave in the middle of a handoff leaves a record behind.
16. `save-with-acks` (section IV.E): what was received is saved only when it is acknowledged, and apart from
    the session: delivered twice, or lost, after a crash.
"""

from __future__ import annotations

from antecast.core import Effect, Message, MessageId, NodeId, State, Transmit
from antecast.protocols.cellular.frames import (
    Ack,
    Data,
    Delete,
    InitAck,
    Leave,
    LeaveAck,
    Marked,
    Req1,
    Req2,
    Rsp2,
)
from antecast.protocols.cellular.host import CellHost
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.settings import CellularSettings, Rule
from antecast.protocols.cellular.station import Station

_UNKNOWN = 1 << 62
"""Catch-up messages to come, while the station has not said how many."""


class PublishedHost(CellHost):
    """A host that follows the printed rules named in its settings."""

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        super().__init__(node, settings)
        self._rules = settings.rules
        self._connecting = False
        self._saved = (0, 0)

    def _new_session(self, now: int, out: list[Effect]) -> None:
        self._connecting = False
        super()._new_session(now, out)

    def _establish(self, frame: InitAck, now: int, out: list[Effect]) -> None:
        self._connecting = False
        super()._establish(frame, now, out)
        if Rule.MARK_COPIES in self._rules:
            self._skip.clear()

    def _may_take(self) -> bool:
        return self._established or Rule.TAKE_ALWAYS in self._rules

    def _may_acknowledge(self) -> bool:
        return self._established or self._connecting or Rule.ACK_ALWAYS in self._rules

    def _may_send(self) -> bool:
        return self._established or Rule.SEND_ALWAYS in self._rules

    def _first_unsent(self) -> int:
        return 1 if Rule.SEND_ALWAYS in self._rules else super()._first_unsent()

    def _may_catch_up(self) -> bool:
        return self._established or Rule.CATCH_UP_FIRST in self._rules

    def _take(self, message: Data, now: int, out: list[Effect]) -> None:
        stamp = message.stamp
        if not isinstance(stamp, Marked):
            super()._take(message, now, out)
        elif self._may_take():
            if self.node in stamp.hosts and stamp.number >= self._seqc:
                self._skip.add(stamp.number)
                self._deliver_in_order(out)
            self._take_numbered(stamp.number, message, now, out)

    def _take_catch_up(self, index: int, message: Data, now: int, out: list[Effect]) -> None:
        if not self._established and not self._connecting:
            self._connecting = True
            self._lc = self._ses
            self._co = self._seqc = 0
            self._catch_up = _UNKNOWN
        super()._take_catch_up(index, message, now, out)

    def _acknowledge(self, now: int, out: list[Effect]) -> None:
        before = len(out)
        super()._acknowledge(now, out)
        if len(out) > before:
            self._saved = (self._co, self._seqc)

    def snapshot(self) -> State:
        state = super().snapshot()
        if Rule.SAVE_WITH_ACKS in self._rules:
            co, seqc = self._saved
            return {**state, "co": co, "seqc": seqc}
        return state


class PublishedStation(Station):
    """A station that follows the printed rules named in its settings."""

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        super().__init__(node, settings)
        self._rules = settings.rules
        self._marked: dict[NodeId, set[int]] = {}
        """All numbers that a host delivered elsewhere, those it has stepped over too: M_d, turned around."""
        self._offered: dict[NodeId, dict[int, int]] = {}
        """To which sessions a host has been offered, each with the host's counter at that time."""

    def _drop(self, host: NodeId, now: int, out: list[Effect]) -> None:
        self._marked.pop(host, None)
        self._offered.pop(host, None)
        super()._drop(host, now, out)

    # Dissemination.

    def _stamped(self, index: int) -> Data:
        message, number = self._buffer[index], self._low + index
        if Rule.MARK_COPIES not in self._rules:
            return message
        hosts = [host for host, marked in self._marked.items() if number in marked]
        return Message(message.origin, message.seq, message.payload, Marked(number, hosts))

    def _may_accept(self, record: Record) -> bool:
        if not record.ready:
            return Rule.ACCEPT_EARLY in self._rules
        frozen = record.lock or any(record is self._records.get(host) for host in self._offered)
        return not frozen or Rule.ACCEPT_LATE in self._rules

    def _ack(self, frame: Ack, host: NodeId, now: int, out: list[Effect]) -> None:
        record = self._records.get(host)
        catching_up = Rule.CATCH_UP_FIRST in self._rules and record is not None and bool(record.catch_up)
        if catching_up and not frame.co < self._low:
            return
        # Under `ack-always` the number may be of another cell, and beyond all numbers here.
        frame = Ack(frame.ses, frame.co, min(frame.seqc, self._next), frame.top, frame.holes)
        super()._ack(frame, host, now, out)
        if catching_up and record is not None and record.holds and not record.catch_up:
            self._confirm(host, record, now, out)

    def _confirm(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        if Rule.CATCH_UP_FIRST in self._rules and record.catch_up:
            self._send_catch_up(host, record, now, out)
            self._set_resend(now, out, anew=True)
        else:
            super()._confirm(host, record, now, out)

    # Membership.

    def _floor(self, host: NodeId) -> int:
        return 0 if Rule.NO_FLOOR in self._rules else super()._floor(host)

    def _voids_others(self, record: Record | None) -> bool:
        return record is None or Rule.SILENT_REJOIN not in self._rules

    def _voids(self, frame: Delete, record: Record) -> bool:
        if Rule.ONE_REQUEST in self._rules:
            return record.ses <= frame.ses
        return super()._voids(frame, record)

    def _leave(self, frame: Leave, host: NodeId, now: int, out: list[Effect]) -> None:
        if Rule.LEAVE_IF_KNOWN not in self._rules:
            super()._leave(frame, host, now, out)
            return
        if host in self._records:
            self._drop(host, now, out)
            self._flood(Delete(host, frame.ses), None, out)
        out.append(Transmit(LeaveAck(host)))

    # Handoffs.

    def _newer(self, ses: int, known: int) -> bool:
        return Rule.ANY_SESSION in self._rules or super()._newer(ses, known)

    def _stale(self, record: Record, lc: int) -> bool:
        return Rule.KEEP_STALE not in self._rules and super()._stale(record, lc)

    def _lock(self, record: Record, ses: int) -> None:
        super()._lock(record, ses)
        host = next(host for host, each in self._records.items() if each is record)
        self._offered.setdefault(host, {})[ses] = record.seqh
        if Rule.NO_LOCK in self._rules:
            record.lock = 0

    def _promised(self, record: Record, ses: int) -> bool:
        if Rule.NO_LOCK not in self._rules:
            return super()._promised(record, ses)
        return record.ready and record.ses < ses and any(ses in offers for offers in self._offered.values())

    def _handed_over(self, record: Record) -> int:
        host = next(host for host, each in self._records.items() if each is record)
        offers = self._offered.get(host, {})
        return offers[max(offers)] if offers and Rule.ACCEPT_LATE in self._rules else record.seqh

    def _put_aside(self, request: Req1, record: Record, now: int, out: list[Effect]) -> None:
        if Rule.ONE_REQUEST not in self._rules:
            super()._put_aside(request, record, now, out)
        elif request.ses < record.ses:
            self._reject(request, now, out)
        elif not record.stash or record.stash[0].ses < request.ses:
            record.stash = [request]

    def _reject(self, request: Req1, now: int, out: list[Effect]) -> None:
        if Rule.ONE_REQUEST not in self._rules:
            super()._reject(request, now, out)
        else:
            self._flood(Delete(request.host, request.ses), None, out)

    def _missing(self, record: Record, request: Req1) -> list[MessageId]:
        if Rule.LIST_ALL not in self._rules or request.lc == record.ses:
            return super()._missing(record, request)
        marked = self._marked.get(request.host, set())
        kept = [message for message in self._buffer if message.stamp not in marked]
        return [message.id for message in (*record.catch_up, *kept)]

    def _bodies(self, frame: Req2, record: Record) -> list[Data]:
        bodies = {message.id: message for message in (*record.catch_up, *self._buffer)}
        return [bodies[name] for each in frame.wanted if (name := MessageId(*each)) in bodies]

    def _rsp2(self, frame: Rsp2, record: Record, now: int, out: list[Effect]) -> None:
        undelivered = {*record.missing, *(MessageId(*each) for each in frame.received)}
        self._marked[frame.host] = {
            number
            for number in range(record.pos, record.mark)
            if self._buffer[number - self._low].id not in undelivered
        }
        super()._rsp2(frame, record, now, out)
        if Rule.MARK_COPIES in self._rules:
            record.skip.clear()  # the host steps over a message only when it has a marked copy of it

    def _needed(self, record: Record) -> list[int]:
        marked = next((self._marked.get(host, ()) for host, each in self._records.items() if each is record), ())
        return [number for number in super()._needed(record) if number not in marked]
