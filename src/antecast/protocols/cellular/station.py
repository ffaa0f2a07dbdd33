"""The station, third layer: handoffs (the paper's lines marked +, Algorithms 2 and 4 restated).

The station N that hears a member's `Init` without holding it makes a record that is not ready, keeps every
message from then on, and asks all stations (`Req1`). The one that holds the host, P, locks it and answers
with what it has not delivered (`Rsp1`); N asks for those that it no longer has (`Req2`); P sends them and
what came in since (`Rsp2`) and lets the host go. N's order then is: the messages it did not have (`CatchUp`),
and its own numbers from the first one kept, less those that came before `Rsp1` and are named neither in
`Rsp1` nor in `Rsp2`: these the host has delivered elsewhere. The host is told all of this in one `InitAck`.

Why it holds: flooding over a tree of FIFO wires is causal among the stations. Whatever P had when it sent
`Rsp1`, N has when it arrives; so a broadcast that N accepts from the host afterwards depends on nothing that
N lacks. A `Req1` meets the holder, or waits at the next one. The radio is a side channel outside of that
order: the floor and the host's last established session (`lc`) tell what it brings too early or too late.

Handoffs of a host are made one after the other: a locked holder does nothing, since the next holder has seen
the request too; one that is not ready keeps all requests, and serves the newest when it is. Only a holder
rejects.

Who has been given up is found out by an echo. Each station passes `Req1` on and answers (`Echo`) when all
stations behind it have; `found` says whether one of them holds the host. If nobody does, the host has been
given up, and N takes it as new. The echoes come behind everything that any station had sent on before, so N
then has all that the host ever delivered, and starts it behind that: nothing is delivered twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from antecast.core import Effect, Frame, Message, MessageId, NodeId, RemoteFault, Send
from antecast.protocols.cellular.frames import (
    Ack,
    Addressed,
    Carried,
    Data,
    Delete,
    Echo,
    Init,
    Join,
    Leave,
    Left,
    Reject,
    Req1,
    Req2,
    Rsp1,
    Rsp2,
)
from antecast.protocols.cellular.membership import Membership
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.settings import CellularSettings


@dataclass(slots=True)
class _Wave:
    """A request on its way through this station: who still has to answer, and what was said so far."""

    parent: NodeId | None
    waiting: int
    found: bool


class Station(Membership):
    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        super().__init__(node, settings)
        self._routes: dict[NodeId, NodeId] = {}
        """For a station heard of, the wire that leads to it."""
        self._waves: dict[tuple[NodeId, int], _Wave] = {}
        self._requests = 0
        # Of the handoffs that ended here, for those who want to know what they cost.
        self._handoffs = self._listed = self._carried = self._skipped = self._meanwhile = self._longest = 0

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if sender in self._wires:
            self._from_wire(frame, sender, now, out)
        else:
            self._from_radio(frame, sender, now, out)
        return out

    def _from_radio(self, frame: Frame, host: NodeId, now: int, out: list[Effect]) -> None:
        if isinstance(frame, Ack):
            self._ack(frame, host, now, out)
        elif isinstance(frame, Message):
            self._app(frame, host, now, out)
        elif isinstance(frame, Init):
            self._init(frame, host, now, out)
        elif isinstance(frame, Join):
            self._join(frame, host, now, out)
        elif isinstance(frame, Leave):
            self._leave(frame, host, now, out)
        else:
            raise RemoteFault(f"a host does not send {type(frame).__name__}")

    def _from_wire(self, frame: Frame, peer: NodeId, now: int, out: list[Effect]) -> None:
        if isinstance(frame, Message):
            if isinstance(frame.stamp, Carried):
                self._carry(frame, frame.stamp, peer, out)
            else:
                self._disseminate(frame, peer, now, out)
        elif isinstance(frame, Req1):
            self._req1(frame, peer, now, out)
        elif isinstance(frame, Echo):
            self._echo(frame, now, out)
        elif isinstance(frame, Delete):
            self._delete(frame, peer, now, out)
        elif isinstance(frame, Left):
            self._left(frame, peer, now, out)
        elif isinstance(frame, Addressed):
            self._routes[frame.by] = peer
            if frame.to != self.node:
                self._send_to(frame.to, frame, out)
            else:
                self._addressed(frame, now, out)
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__}")

    def _addressed(self, frame: Addressed, now: int, out: list[Effect]) -> None:
        record = self._records.get(frame.host)
        if record is None:
            return
        if isinstance(frame, Req2):
            if self._promised(record, frame.ses):
                self._req2(frame, record, now, out)
        elif not record.ready and record.ses == frame.ses:
            if isinstance(frame, Rsp1):
                self._rsp1(frame, record, out)
            elif isinstance(frame, Rsp2):
                self._rsp2(frame, record, now, out)
            elif isinstance(frame, Reject):
                self._drop(frame.host, now, out)

    def _promised(self, record: Record, ses: int) -> bool:
        """Whether the host is being handed over to this session."""
        return record.lock == ses

    # The new station asks.

    def _init(self, frame: Init, host: NodeId, now: int, out: list[Effect]) -> None:
        if frame.ses < self._floor(host):
            self._say_gone(frame.ses, host, out)
            return
        record = self._records.get(host)
        if record is not None and record.holds and self._stale(record, frame.lc):
            self._drop(host, now, out)
            record = None
        if record is None:
            self._requests += 1
            record = Record(frame.ses, self._low, now, frame.next, wave=self._requests)
            self._add(host, record, now, out)
            self._raise_floor(host, frame.ses, now)
            request = Req1(host, frame.ses, frame.lc, frame.co, frame.seqc, self.node, self._requests)
            self._spread(request, None, False, now, out)
        elif record.holds and self._newer(frame.ses, record.ses):
            if frame.ses != record.ses:
                if frame.lc == record.ses:
                    self._apply(record, frame.co, frame.seqc)
                record.raise_to(frame.ses)
                self._trim(now, out)
            record.heard = now
            self._confirm(host, record, now, out)

    def _stale(self, record: Record, lc: int) -> bool:
        """The host has been established elsewhere since: the radio was faster than the wires."""
        return record.ses < lc

    def _newer(self, ses: int, known: int) -> bool:
        return ses >= known

    def _apply(self, record: Record, co: int, seqc: int) -> None:
        """Take a host's word for what it delivered in the record's session."""
        record.deliver_upto(co, min(seqc, self._next))

    # The request goes around.

    def _req1(self, request: Req1, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._routes[request.who] = peer
        self._raise_floor(request.host, request.ses, now)
        record = self._records.get(request.host)
        if record is not None and record.holds and self._stale(record, request.lc):
            self._drop(request.host, now, out)
            record = None
        if record is None:
            self._spread(request, peer, False, now, out)
        elif record.ready:
            self._spread(request, peer, True, now, out)
            self._serve(request, record, now, out)
        else:
            # Whether it will hold the host shows when its own request is settled. That never waits for a newer
            # one, so there is no circle.
            waiting = record.ses < request.ses
            if waiting and self._settings.evict:
                record.waits.append((request.who, request.wave))
            self._spread(request, peer, record.served, now, out, waiting=waiting)
            self._put_aside(request, record, now, out)

    def _put_aside(self, request: Req1, record: Record, now: int, out: list[Effect]) -> None:
        """Keep a request until this station holds the host."""
        record.stash.append(request)

    def _spread(
        self,
        request: Req1,
        parent: NodeId | None,
        found: bool,
        now: int,
        out: list[Effect],
        *,
        waiting: bool = False,
    ) -> None:
        """Pass a request on to all stations behind this one, and answer it when they have."""
        self._flood(request, parent, out)
        if not self._settings.evict:
            return  # then nobody is given up, and somebody has the host
        answers = len(self._wires) - (parent is not None) + waiting
        self._waves[request.who, request.wave] = _Wave(parent, answers, found)
        if not answers:
            self._answered(request.who, request.wave, now, out)

    def _echo(self, frame: Echo, now: int, out: list[Effect]) -> None:
        wave = self._waves.get((frame.who, frame.wave))
        if wave is None:
            raise RemoteFault(f"echo of a request {frame.wave} of {frame.who} that did not pass here")
        wave.waiting -= 1
        wave.found = wave.found or frame.found
        if not wave.waiting:
            self._answered(frame.who, frame.wave, now, out)

    def _settle(self, record: Record, found: bool, now: int, out: list[Effect]) -> None:
        """Answer the requests that waited for what becomes of a record."""
        waits, record.waits = record.waits, []
        for who, wave in waits:
            self._echo(Echo(who, wave, found), now, out)

    def _drop(self, host: NodeId, now: int, out: list[Effect]) -> None:
        record = self._records[host]
        super()._drop(host, now, out)
        self._settle(record, False, now, out)

    def _answered(self, who: NodeId, number: int, now: int, out: list[Effect]) -> None:
        """All stations behind this one have answered."""
        wave = self._waves.pop((who, number))
        if wave.parent is not None:
            out.append(Send(wave.parent, Echo(who, number, wave.found)))
            return
        for host, record in self._records.items():
            if record.wave == number and not record.ready and not wave.found:
                self._start_anew(host, record, now, out)
                break

    def _start_anew(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        """Nobody has the host: it was given up."""
        record.pos = self._next
        record.seqh = record.next
        record.fresh = True
        self._take_over(host, record, now, out)
        self._trim(now, out)

    # The holder hands over.

    def _serve(self, request: Req1, record: Record, now: int, out: list[Effect]) -> bool:
        """Answer a request; whether the host is handed over to it."""
        host, ses = request.host, request.ses
        if ses < (record.lock or record.ses):
            self._reject(request, now, out)
            return False
        if record.lock:
            return False  # the next holder has seen this request too, behind the one that is being served
        if request.lc == record.ses:
            self._apply(record, request.co, request.seqc)
        self._lock(record, ses)
        missing = self._missing(record, request)
        self._send_to(request.who, Rsp1(host, ses, request.who, self.node, missing), out)
        return True

    def _lock(self, record: Record, ses: int) -> None:
        record.lock = ses
        record.mark = self._next

    def _reject(self, request: Req1, now: int, out: list[Effect]) -> None:
        self._send_to(request.who, Reject(request.host, request.ses, request.who, self.node), out)

    def _missing(self, record: Record, request: Req1) -> list[MessageId]:
        """What the host has not delivered, in causal order."""
        kept = (self._buffer[number - self._low] for number in self._needed(record))
        return [message.id for message in (*record.catch_up, *kept)]

    def _needed(self, record: Record) -> list[int]:
        return [number for number in range(record.pos, self._next) if number not in record.skip]

    def _send_to(self, station: NodeId, frame: Frame, out: list[Effect]) -> None:
        if station not in self._routes:
            raise RemoteFault(f"nobody has heard of a station {station} here")
        out.append(Send(self._routes[station], frame))

    def _rsp1(self, frame: Rsp1, record: Record, out: list[Effect]) -> None:
        record.served = True
        record.missing = [MessageId(*each) for each in frame.missing]
        record.mark = self._next
        wanted = [each for each in record.missing if each not in self._numbers]
        self._listed += len(frame.missing)
        self._carried += len(wanted)
        self._longest = max(self._longest, len(frame.missing))
        self._send_to(frame.by, Req2(frame.host, frame.ses, frame.by, self.node, wanted), out)

    def _req2(self, frame: Req2, record: Record, now: int, out: list[Effect]) -> None:
        stamp = Carried(frame.host, frame.ses, frame.by, self.node)
        for body in self._bodies(frame, record):
            self._send_to(frame.by, Message(body.origin, body.seq, body.payload, stamp), out)
        received = [self._buffer[number - self._low].id for number in range(record.mark, self._next)]
        seqh = self._handed_over(record)
        self._send_to(
            frame.by, Rsp2(frame.host, frame.ses, frame.by, self.node, received, seqh, record.fresh), out
        )
        self._drop(frame.host, now, out)

    def _bodies(self, frame: Req2, record: Record) -> list[Data]:
        """The messages that the next station asks for."""
        bodies = {message.id: message for message in record.catch_up}
        for number in range(record.pos, self._next):
            message = self._buffer[number - self._low]
            bodies[message.id] = message
        wanted = [MessageId(*each) for each in frame.wanted]
        if not bodies.keys() >= set(wanted):
            raise RemoteFault(f"station {frame.by} asks for messages that it was not offered")
        return [bodies[name] for name in wanted]

    def _handed_over(self, record: Record) -> int:
        """The number of the host's next message, for its next station."""
        return record.seqh

    def _carry(self, message: Data, stamp: Carried, peer: NodeId, out: list[Effect]) -> None:
        self._routes[stamp.by] = peer
        if stamp.to != self.node:
            self._send_to(stamp.to, message, out)
            return
        record = self._records.get(stamp.host)
        if record is not None and not record.ready and record.ses == stamp.ses:
            record.catch_up.append(message)

    def _rsp2(self, frame: Rsp2, record: Record, now: int, out: list[Effect]) -> None:
        undelivered = {*record.missing, *(MessageId(*each) for each in frame.received)}
        record.skip = {
            number
            for number in range(record.pos, record.mark)
            if self._buffer[number - self._low].id not in undelivered
        }
        self._handoffs += 1
        self._skipped += len(record.skip)
        self._meanwhile += len(frame.received)
        record.step_over()
        record.seqh = frame.seqh
        record.fresh = frame.fresh
        self._take_over(frame.host, record, now, out)
        self._trim(now, out)

    def _take_over(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        """The record is ready: hand it on at once if the host has moved on, else tell the host."""
        record.ready = True
        record.heard = now
        record.missing = []
        stash, record.stash = sorted(record.stash, key=lambda request: -request.ses), []
        served = False
        for request in stash:
            served = self._serve(request, record, now, out) or served
        self._settle(record, True, now, out)
        if not served:
            self._confirm(host, record, now, out)

    def gauges(self) -> dict[str, int]:
        return super().gauges() | {
            "station_handoffs": self._handoffs,
            "handoff_listed": self._listed,
            "handoff_carried": self._carried,
            "handoff_skipped": self._skipped,
            "handoff_meanwhile": self._meanwhile,
            "handoff_longest": self._longest,
        }
