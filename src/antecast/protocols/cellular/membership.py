"""Which hosts a station has: they join, leave, and are given up (the paper's lines marked #).

A host that is not a member joins wherever it is; a `Delete` to all stations voids what an older session of it may
have left behind. Frames of the radio may come late, and the radio may overtake the wires, so a station remembers
for `forget` the sessions it has heard of: the *floor* of a host, below which nothing about it is believed.

A host that nobody has heard of for `evict` is given up: its record goes, and with it what was kept for it. When it
comes back no station has it (`searches.py` finds that out), and it starts anew where the stations are by then.
"""

from __future__ import annotations

from antecast.core import Effect, NodeId, RemoteFault, SetTimer, Timer, Transmit
from antecast.protocols.cellular.downlink import Downlink
from antecast.protocols.cellular.frames import MAX_LISTED, MOST_SESSIONS, Delete, Gone, Join, Leave, LeaveAck, Left
from antecast.protocols.cellular.passed_on import PassedOn, check_number
from antecast.protocols.cellular.record import HostState, Record
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.searches import Searches
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.cellular.wires import Wires

LOOK: Timer = "look"

_NEVER_AGAIN = MOST_SESSIONS
"""The floor of a host that has left."""

_MOST_STAYS = 1 << 32
"""No host has this many sessions between two that a station hears of. A frame that claims more is forged, and
would keep the host out."""

_MOST_HOSTS = 1 << 16
"""Hosts in a cell, and hosts whose sessions are remembered."""

_LOOKS = 8
"""How often a station looks for silent hosts within the time after which it gives them up."""


class Floors:
    """The newest session of each host that was heard of lately."""

    def __init__(self, settings: CellularSettings, rules: Rules) -> None:
        self._forget = settings.forget
        self._believed = not rules.no_floor  # hole 12
        self._floors: dict[NodeId, tuple[int, int]] = {}
        """(session, when it was heard of), oldest first."""

    def __len__(self) -> int:
        return len(self._floors)

    def of(self, host: NodeId, now: int) -> int:
        session, heard = self._floors.get(host, (0, 0))
        return session if self._believed and heard + self._forget >= now else 0

    def snapshot(self) -> list[list[int]]:
        return [[host, session, heard] for host, (session, heard) in self._floors.items()]

    def restore(self, state: list[list[int]]) -> None:
        self._floors = {host: (session, heard) for host, session, heard in state}

    def raise_to(self, host: NodeId, session: int, now: int) -> None:
        session = max(session, self.of(host, now))
        self._floors.pop(host, None)
        self._floors[host] = (session, now)
        self.expire(now)

    def expire(self, now: int) -> None:
        while self._floors:
            oldest, (_, heard) = next(iter(self._floors.items()))
            if heard + self._forget >= now and len(self._floors) <= _MOST_HOSTS:
                break
            del self._floors[oldest]


class Membership:
    def __init__(
        self,
        settings: CellularSettings,
        rules: Rules,
        records: dict[NodeId, Record],
        wires: Wires,
        downlink: Downlink,
        searches: Searches,
        passed_on: PassedOn,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._records = records
        self._wires = wires
        self._downlink = downlink
        self._searches = searches
        self._passed_on = passed_on
        self.floors = Floors(settings, rules)
        self._timer_set = False

    def check(self, host: NodeId, session: int, now: int) -> None:
        """Refuse a session that the host cannot have reached."""
        record = self._records.get(host)
        known = max(self.floors.of(host, now), 0 if record is None else record.session)
        if session >= MOST_SESSIONS or (0 < known < _NEVER_AGAIN and session > known + _MOST_STAYS):
            raise RemoteFault(f"host {host} claims session {session}, after {known}")

    def check_room(self, host: NodeId) -> None:
        if host not in self._records and len(self._records) >= _MOST_HOSTS:
            raise RemoteFault(f"a station serves {_MOST_HOSTS} hosts at most")

    def add(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        self._records[host] = record
        self.floors.raise_to(host, record.session, now)
        self.set_timer(now, out)

    def set_timer(self, now: int, out: list[Effect]) -> None:
        if not self._timer_set and (self.floors or self._has_to_look()):
            self._timer_set = True
            evict, handoff = self._settings.evict, self._settings.handoff
            out.append(SetTimer(LOOK, now + min(evict or handoff, handoff) // _LOOKS))

    def _has_to_look(self) -> bool:
        """Whether time alone can end something here: a stay, or a handoff."""
        if self._settings.evict:
            return bool(self._records)
        return any(record.state is not HostState.HELD for record in self._records.values())

    def drop(self, host: NodeId, now: int, out: list[Effect], *, unsure: bool = False) -> None:
        """Forget a host; `unsure` if another station may still hand it over."""
        record = self._records.pop(host)
        self._downlink.trim(now, out)
        self._searches.decide(record.handoff, unsure, now, out)

    # Joining and leaving.

    def join(self, frame: Join, host: NodeId, now: int, out: list[Effect]) -> None:
        self.check(host, frame.ses, now)
        check_number(host, frame.next)
        record = self._records.get(host)
        if record is not None and record.held and record.session > frame.ses:
            # A late copy, which the host ignores; or it has lost its state, and should be told.
            self._downlink.confirm(host, record, now, out)
            return
        if frame.ses < self.floors.of(host, now):
            self.say_gone(frame.ses, host, now, out)
            return
        if record is not None and (record.session > frame.ses or not record.held):
            return
        self.check_room(host)
        if record is None or (frame.ses > record.session and not self._rules.silent_rejoin):  # hole 14
            self._wires.flood(Delete(host, frame.ses), None, out)
        if record is None:
            first = self._downlink.buffer.low
            expected = max(frame.next, self._passed_on.next(host))  # it may have been here and lost its state
            record = Record(frame.ses, first, now, frame.next, HostState.HELD, expected=expected)
            self.add(host, record, now, out)
        elif frame.ses > record.session:
            self.floors.raise_to(host, frame.ses, now)
        record.session = frame.ses
        record.heard_at = now
        self._downlink.confirm(host, record, now, out)

    def delete(self, frame: Delete, came_from: NodeId, now: int, out: list[Effect]) -> None:
        self.check(frame.host, frame.ses, now)
        self._wires.flood(frame, came_from, out)
        self.floors.raise_to(frame.host, frame.ses, now)
        self.set_timer(now, out)
        record = self._records.get(frame.host)
        if record is None:
            return
        if record.session < frame.ses or (self._rules.one_request and record.session == frame.ses):  # hole 8
            self.drop(frame.host, now, out)

    def leave(self, frame: Leave, host: NodeId, now: int, out: list[Effect]) -> None:
        if self._rules.leave_if_known:  # hole 15
            if host in self._records:
                self.drop(host, now, out)
                self._wires.flood(Delete(host, frame.ses), None, out)
        else:
            if self.floors.of(host, now) != _NEVER_AGAIN:
                self._wires.flood(Left(host), None, out)
            self._let_go(host, now, out)
        out.append(Transmit(LeaveAck(host)))

    def left(self, frame: Left, came_from: NodeId, now: int, out: list[Effect]) -> None:
        self._wires.flood(frame, came_from, out)
        self._let_go(frame.host, now, out)

    def _let_go(self, host: NodeId, now: int, out: list[Effect]) -> None:
        self.floors.raise_to(host, _NEVER_AGAIN, now)
        self.set_timer(now, out)
        if host in self._records:
            self.drop(host, now, out)

    # Hosts that do not come back.

    def say_gone(self, session: int, host: NodeId, now: int, out: list[Effect]) -> None:
        """Tell a host that its session is over, unless it has begun another one."""
        if host not in self._records and session + 1 >= self.floors.of(host, now):
            out.append(Transmit(Gone(host, session)))

    def look(self, now: int, out: list[Effect]) -> None:
        """The timer has fired: let go of hosts that have not been heard of."""
        self._timer_set = False
        self.floors.expire(now)
        self.set_timer(now, out)
        for host, record in list(self._records.items()):
            if self._settings.evict and record.held and now - record.heard_at > self._settings.evict:
                self.give_up(host, now, out)

    def give_up(self, host: NodeId, now: int, out: list[Effect]) -> None:
        # A late copy must not bring this session back.
        self.floors.raise_to(host, self._records[host].session + 1, now)
        self.drop(host, now, out)

    def make_room(self, now: int, out: list[Effect]) -> None:
        """No list that stations send each other may name more messages than all of them accept."""
        if len(self._downlink.buffer) > MAX_LISTED:
            for host, record in list(self._records.items()):
                if self._downlink.buffer.next - record.position > MAX_LISTED:
                    self.give_up(host, now, out)
