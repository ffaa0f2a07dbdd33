"""Handoffs: a host's record moves from station to station (the paper's lines marked +, Algorithms 2 and 4
restated).

The station N that hears a member's `Init` without holding it makes a record that is *awaited*, keeps every
message from then on, and asks all stations (`Req1`). The one that holds the host, P, *locks* it and answers
with what it has not delivered (`Rsp1`); N asks for those that it no longer has (`Req2`); P sends them and
what came in since (`Rsp2`) and lets the host go. N's order then is: the messages it did not have (`CatchUp`),
and its own numbers from the first one kept, less those that came before `Rsp1` and are named neither in
`Rsp1` nor in `Rsp2`: the host has delivered these elsewhere. The host is told all of this in one `InitAck`.

Why it holds: flooding over a tree of FIFO wires is causal among the stations. Whatever P had when it sent
`Rsp1`, N has when it arrives; so a broadcast that N accepts from the host afterwards depends on nothing that
N lacks. A `Req1` meets the holder, or waits at the next one. The radio is a side channel outside that order: the
floor and the host's last established session (`lc`) show what it brings too early or too late.

Handoffs of a host are made one after the other: a locked holder puts further requests aside, since the next holder
has seen them too; a station that awaits the host keeps them, and serves the newest when it holds it. Only a holder
rejects, or a station that is offered a host which it no longer awaits. A handoff that does not end is broken off
(`look`) and begun anew by another request, while frames of the first are still on their way. So all frames of a
handoff carry the number of its request, and are taken only by records of that request: the answers to two requests
do not mix.
"""

from __future__ import annotations

from dataclasses import dataclass

from antecast.core import Effect, Message, MessageId, NodeId, RemoteFault, Send
from antecast.protocols.cellular.downlink import Downlink
from antecast.protocols.cellular.frames import (
    MAX_LISTED,
    Addressed,
    Carried,
    Data,
    Delete,
    Init,
    Reject,
    Req1,
    Req2,
    Rsp1,
    Rsp2,
)
from antecast.protocols.cellular.membership import Membership
from antecast.protocols.cellular.passed_on import PassedOn, check_number
from antecast.protocols.cellular.record import Handoff, HostState, Record
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.searches import Searches
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.cellular.wires import Wires

PATIENCE = 30 * 10**9
"""A handoff that may take this long gets no more time after one that failed: locked records pin buffers."""


@dataclass(slots=True)
class Costs:
    """What the handoffs that ended here cost."""

    handoffs: int = 0
    listed: int = 0
    carried: int = 0
    skipped: int = 0
    meanwhile: int = 0
    longest: int = 0


class Handoffs:
    def __init__(
        self,
        node: NodeId,
        settings: CellularSettings,
        rules: Rules,
        records: dict[NodeId, Record],
        wires: Wires,
        downlink: Downlink,
        passed_on: PassedOn,
    ) -> None:
        self._node = node
        self._settings = settings
        self._rules = rules
        self._records = records
        self._wires = wires
        self._downlink = downlink
        self._passed_on = passed_on
        self._buffer = downlink.buffer
        self.searches = Searches(wires, self._start_anew)
        self.membership = Membership(settings, rules, records, wires, downlink, self.searches, passed_on)
        self.requests = 0
        self.costs = Costs()
        self._limit: int = settings.handoff
        """How long a handoff may take."""

    # The new station asks.

    def init(self, frame: Init, host: NodeId, now: int, out: list[Effect]) -> None:
        """A host that is a member is in this cell now."""
        self.membership.check(host, frame.ses, now)
        check_number(host, frame.next)
        if frame.lc >= frame.ses and not self._rules.printed:
            raise RemoteFault(f"host {host} says that its session {frame.ses} came before {frame.lc}")
        self.membership.check_room(host)
        if frame.ses < self.membership.floors.of(host, now):
            self.membership.say_gone(frame.ses, host, now, out)
            return
        record = self._unless_stale(host, frame.lc, now, out)
        if record is None:
            self.requests += 1
            awaited = Handoff(since=now, wave=self.requests)
            record = Record(frame.ses, self._buffer.low, now, frame.next, HostState.AWAITED, handoff=awaited)
            self.membership.add(host, record, now, out)
            request = Req1(host, frame.ses, frame.lc, frame.co, frame.seqc, self._node, self.requests)
            self.searches.spread(request, None, found=False, undecided=False, now=now, out=out)
        elif record.held and (frame.ses >= record.session or self._rules.any_session):  # hole 11
            if frame.ses != record.session:
                self._apply(frame, record)
                record.raise_to(frame.ses)
                self._downlink.trim(now, out)
            record.heard_at = now
            self._downlink.confirm(host, record, now, out)

    def _apply(self, said: Init | Req1, record: Record) -> None:
        """Believe what a host says it delivered in the record's session, if it was established in it. It then also
        knows that it was given up, and has discarded what it had to."""
        if said.lc == record.session:
            record.delivered(said.co, min(said.seqc, self._buffer.next))
            record.fresh = False

    def _unless_stale(self, host: NodeId, established: int, now: int, out: list[Effect]) -> Record | None:
        """The record of a host, if there is one. A record older than its last established session is dropped: the
        host has been taken in elsewhere since, and the radio was faster than the wires."""
        record = self._records.get(host)
        if record is not None and record.held and record.session < established and not self._rules.keep_stale:
            self.membership.drop(host, now, out)  # hole 13
            return None
        return record

    # The request goes around.

    def request(self, request: Req1, peer: NodeId, now: int, out: list[Effect]) -> None:
        """`Req1`, from a station or on its way from one."""
        self._wires.check(request.who, peer)
        self.searches.check_request(request)
        self.membership.check(request.host, request.ses, now)
        if request.lc >= request.ses and not self._rules.printed:
            raise RemoteFault(f"station {request.who} asks for session {request.ses}, after {request.lc}")
        self._wires.learn(request.who, peer)
        self.membership.floors.raise_to(request.host, request.ses, now)
        self.membership.set_timer(now, out)
        record = self._unless_stale(request.host, request.lc, now, out)
        if record is None:
            self.searches.spread(request, peer, found=False, undecided=False, now=now, out=out)
        elif record.state is not HostState.AWAITED:
            self.searches.spread(request, peer, found=True, undecided=False, now=now, out=out)
            self._serve(request, record, now, out)
        else:
            # Whether it will hold the host is known when its own request is settled. That never waits for a newer
            # one, so there is no circle.
            undecided = record.session < request.ses
            if undecided:
                record.handoff.waits.append((request.who, request.wave))
            found = record.handoff.offered
            self.searches.spread(request, peer, found=found, undecided=undecided, now=now, out=out)
            self._put_aside(request, record, out)

    def _put_aside(self, request: Req1, record: Record, out: list[Effect]) -> None:
        """Keep a request until this station holds the host. A station's newer request replaces its older one."""
        stash = record.handoff.stash
        if not self._rules.one_request:
            record.handoff.stash = [*(each for each in stash if each.who != request.who), request]
        elif request.ses < record.session:  # hole 8, from here on
            self._reject(request, out)
        elif not stash or stash[0].ses < request.ses:
            record.handoff.stash = [request]

    def _start_anew(self, wave: int, now: int, out: list[Effect]) -> None:
        """Nobody has the host: it was given up."""
        for host, record in self._records.items():
            if record.handoff.wave == wave and record.state is HostState.AWAITED:
                record.position = self._buffer.next
                record.expected = max(record.first_unsent, self._passed_on.next(host))
                record.fresh = True
                self._take_over(host, record, now, out)
                self._downlink.trim(now, out)
                return

    # The holder hands over.

    def _serve(self, request: Req1, record: Record, now: int, out: list[Effect]) -> bool:
        """Answer a request; returns whether the host is handed over to it."""
        locked = record.state is HostState.LOCKED
        if request.ses < (record.handoff.to if locked else record.session):
            self._reject(request, out)
            return False
        if locked:
            # The next holder has seen this request too, behind the one that is being served. It is served here
            # if that handoff fails.
            self._put_aside(request, record, out)
            return False
        self._apply(request, record)
        missing = self._missing(record, request)
        if len(missing) > MAX_LISTED:  # more than a frame holds: such a host has to start anew
            self._reject(request, out)
            self.membership.give_up(request.host, now, out)
            return False
        self._lock(record, request, now, out)
        offer = Rsp1(request.host, request.ses, request.who, self._node, request.wave, missing)
        self._wires.send(request.who, offer, out)
        return True

    def _lock(self, record: Record, request: Req1, now: int, out: list[Effect]) -> None:
        handoff = record.handoff
        handoff.to, handoff.partner, handoff.wave, handoff.since = request.ses, request.who, request.wave, now
        handoff.mark = self._buffer.next
        if self._rules.printed:
            handoff.offers[request.ses] = record.expected
        if not self._rules.no_lock:  # hole 7
            record.state = HostState.LOCKED
            self.membership.set_timer(now, out)

    def _reject(self, request: Req1, out: list[Effect]) -> None:
        if self._rules.one_request:  # hole 8
            self._wires.flood(Delete(request.host, request.ses), None, out)
        else:
            no = Reject(request.host, request.ses, request.who, self._node, request.wave)
            self._wires.send(request.who, no, out)

    def _missing(self, record: Record, request: Req1) -> list[MessageId]:
        """What the host has not delivered, in causal order."""
        first, without = record.position, frozenset(record.skip | record.marked)
        if self._rules.list_all and request.lc != record.session:  # hole 10
            first, without = self._buffer.low, record.marked
        kept = self._buffer.ids(number for number in range(first, self._buffer.next) if number not in without)
        return [*(message.id for message in record.catch_up), *kept]

    # What one station sends to another.

    def addressed(self, frame: Addressed, peer: NodeId, now: int, out: list[Effect]) -> None:
        """A frame for this station, or on its way to another one."""
        self._wires.check(frame.by, peer)
        if frame.to != self._node:
            self._wires.pass_on(frame.to, frame, out)
        else:
            self._take(frame, self._records.get(frame.host), peer, now, out)
        self._wires.learn(frame.by, peer)

    def _take(self, frame: Addressed, record: Record | None, peer: NodeId, now: int, out: list[Effect]) -> None:
        awaited = record is not None and self._awaited(record, frame)
        if isinstance(frame, Rsp1):
            if record is not None and awaited and record.handoff.partner in (None, frame.by):
                self._offered(frame, record, peer, out)
            elif not self._rules.printed:
                self._decline(frame, record, peer, out)
        elif isinstance(frame, Req2):
            if record is not None and self._promised(record, frame):
                self._release(frame, record, peer, now, out)
            elif not self._rules.printed:
                out.append(Send(peer, Reject(frame.host, frame.ses, frame.by, self._node, frame.wave)))
        elif isinstance(frame, Rsp2):
            check_number(frame.host, frame.seqh)
            if record is not None and awaited:
                self._handed_over(frame, record, now, out)
        elif record is not None and awaited:
            if record.handoff.partner in (None, frame.by):
                self.membership.drop(frame.host, now, out)
        elif record is not None and self._promised(record, frame):
            self._unlock(record, now, out)

    def _decline(self, frame: Rsp1, record: Record | None, peer: NodeId, out: list[Effect]) -> None:
        """An offer that comes too late. If the host is here after all, it must not stay with the station that
        offers it."""
        if record is not None and record.state is not HostState.AWAITED and record.session >= frame.ses:
            self._wires.flood(Delete(frame.host, record.session), None, out)
        else:
            out.append(Send(peer, Reject(frame.host, frame.ses, frame.by, self._node, frame.wave)))

    def _awaited(self, record: Record, frame: Addressed | Carried) -> bool:
        """Whether the host is awaited in this session, by the request that the frame belongs to."""
        this = record.session == frame.ses and (record.handoff.wave == frame.wave or self._rules.printed)
        return this and record.state is HostState.AWAITED

    def _promised(self, record: Record, frame: Addressed) -> bool:
        """Whether the host is being handed over to this station and session, for this request."""
        if self._rules.no_lock:  # hole 7
            return record.held and record.session < frame.ses and frame.ses in record.handoff.offers
        handoff, named = record.handoff, (frame.ses, frame.by, frame.wave)
        return record.state is HostState.LOCKED and (handoff.to, handoff.partner, handoff.wave) == named

    def _unlock(self, record: Record, now: int, out: list[Effect]) -> None:
        """The handoff has failed: the station holds the host as before, and serves others that have asked."""
        before, record.handoff = record.handoff, Handoff()
        record.state = HostState.HELD
        if not self._serve_newest(before.stash, record, now, out):
            self._downlink.trim(now, out)
            self._downlink.set_resend(now, out, anew=True)

    def look(self, now: int, out: list[Effect]) -> None:
        """Break off handoffs that have lasted too long.

        Opening a lock is safe: the other station becomes the holder only by `Rsp2`, which is sent in one step with
        the end of this record, and a `Req2` that comes later is rejected. A request that nobody has answered is
        given up, and made anew when the host asks again; an answer that comes later is declined. Where the answer
        has come and the host may be on its way here, only `evict` ends the wait.
        """
        limit, evict = self._limit, self._settings.evict
        for host, record in list(self._records.items()):
            lasts = now - record.handoff.since
            if record.state is HostState.LOCKED and lasts > limit:
                self._unlock(record, now, out)
                self._be_patient(limit)
            hopeless = lasts > limit and (not record.handoff.offered or 0 < evict < lasts)
            if record.state is HostState.AWAITED and hopeless:
                self.membership.drop(host, now, out, unsure=True)
                self._be_patient(limit)

    def _be_patient(self, limit: int) -> None:
        """A handoff was broken off. Wires lose nothing, so the answer is on its way: the next one gets twice as
        long. Otherwise none would ever end where `handoff` is below the delay of the wires."""
        self._limit = max(self._limit, min(2 * limit, PATIENCE))

    def _offered(self, frame: Rsp1, record: Record, peer: NodeId, out: list[Effect]) -> None:
        handoff = record.handoff
        handoff.offered, handoff.partner = True, frame.by
        handoff.missing = [MessageId(*each) for each in frame.missing]
        handoff.mark = self._buffer.next
        handoff.wanted = [each for each in handoff.missing if each not in self._buffer.numbers]
        self.costs.listed += len(frame.missing)
        self.costs.carried += len(handoff.wanted)
        self.costs.longest = max(self.costs.longest, len(frame.missing))
        out.append(Send(peer, Req2(frame.host, frame.ses, frame.by, self._node, frame.wave, handoff.wanted)))

    def _release(self, frame: Req2, record: Record, peer: NodeId, now: int, out: list[Effect]) -> None:
        bodies, offers = self._bodies(frame, record), record.handoff.offers
        stamp = Carried(frame.host, frame.ses, frame.by, self._node, frame.wave)
        out += [Send(peer, Message(body.origin, body.seq, body.payload, stamp)) for body in bodies]
        received = self._buffer.ids(range(record.handoff.mark, self._buffer.next))
        expected = offers[max(offers)] if offers and self._rules.accept_late else record.expected  # hole 6
        answer = Rsp2(frame.host, frame.ses, frame.by, self._node, frame.wave, received, expected, record.fresh)
        out.append(Send(peer, answer))
        self.membership.drop(frame.host, now, out)

    def _bodies(self, frame: Req2, record: Record) -> list[Data]:
        """The messages that the next station asks for."""
        first = self._buffer.low if self._rules.printed else record.position
        bodies = {message.id: message for message in record.catch_up}
        for number in range(first, self._buffer.next):
            bodies[self._buffer[number].id] = self._buffer[number]
        wanted = [MessageId(*each) for each in frame.wanted]
        if not self._rules.printed and not bodies.keys() >= set(wanted):
            raise RemoteFault(f"station {frame.by} asks for messages that it was not offered")
        return [bodies[name] for name in wanted if name in bodies]

    def carried(self, message: Data, stamp: Carried, peer: NodeId, out: list[Effect]) -> None:
        self._wires.check(stamp.by, peer)
        if stamp.to != self._node:
            self._wires.pass_on(stamp.to, message, out)
        else:
            record = self._records.get(stamp.host)
            if record is not None and self._awaited(record, stamp):
                wanted, count = record.handoff.wanted, len(record.catch_up)
                asked = record.handoff.partner == stamp.by and count < len(wanted) and wanted[count] == message.id
                if asked or self._rules.printed:  # otherwise it belongs to a handoff that was broken off
                    record.catch_up.append(message)
        self._wires.learn(stamp.by, peer)

    def _handed_over(self, frame: Rsp2, record: Record, now: int, out: list[Effect]) -> None:
        handoff = record.handoff
        complete = handoff.partner == frame.by and len(record.catch_up) == len(handoff.wanted)
        if not complete and not self._rules.printed:
            return  # the end of a handoff that was broken off
        undelivered = {*handoff.missing, *(MessageId(*each) for each in frame.received)}
        record.skip = {
            number for number in range(record.position, handoff.mark) if self._buffer[number].id not in undelivered
        }
        if self._rules.mark_copies or self._rules.list_all:
            record.marked = frozenset(record.skip)
        self.costs.handoffs += 1
        self.costs.skipped += len(record.skip)
        self.costs.meanwhile += len(frame.received)
        record.step_over()
        record.expected, record.fresh = frame.seqh, frame.fresh
        self._take_over(frame.host, record, now, out)
        self._downlink.trim(now, out)
        if self._rules.mark_copies:
            record.skip.clear()  # hole 3: the host steps over a message only when it has a marked copy of it

    def _take_over(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        """The station holds the host: hand it on at once if it has moved on, otherwise tell it."""
        before, record.handoff = record.handoff, Handoff()
        record.state = HostState.HELD
        record.heard_at = now
        served = self._serve_newest(before.stash, record, now, out)
        self.searches.decide(before, True, now, out)
        if not served and record.held:
            self._downlink.confirm(host, record, now, out)

    def _serve_newest(self, requests: list[Req1], record: Record, now: int, out: list[Effect]) -> bool:
        """Hand a host on to the newest session that has asked, and reject the others."""
        served = False
        for request in sorted(requests, key=lambda each: -each.ses):
            served = self._serve(request, record, now, out) or served
        return served
