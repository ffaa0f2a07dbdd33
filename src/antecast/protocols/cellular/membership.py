"""The station, second layer: hosts join, leave, and are given up (the paper's lines marked #).

A host that is no member joins wherever it is; a `Delete` over all stations voids what an older session of it may
have left behind. Frames of the radio may come late, and the radio may overtake the wires, so a station remembers
for `forget` the sessions it has heard of: the *floor* of a host, below which nothing of it is believed.

A host that nobody has heard of for `evict` is given up: its record goes, and with it what was kept for it. When it
comes back no station has it (`station.py` finds that out), and it starts anew where the stations are by then.
"""

from __future__ import annotations

from antecast.core import Effect, NodeId, SetTimer, Timer, Transmit
from antecast.protocols.cellular.cell import Cell
from antecast.protocols.cellular.frames import Ack, Delete, Gone, InitAck, Join, Leave, LeaveAck, Left
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.settings import CellularSettings

EVICT: Timer = "evict"

_NEVER_AGAIN = 1 << 62
"""The floor of a host that has left."""

_LOOKS = 8
"""How often a station looks for silent hosts in the time after which it gives them up."""


class Membership(Cell):
    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        super().__init__(node, settings)
        self._floors: dict[NodeId, tuple[int, int]] = {}
        """(session, when it was heard of), oldest first."""
        self._evict_set = False

    # Floors.

    def _floor(self, host: NodeId) -> int:
        return self._floors.get(host, (0, 0))[0]

    def _raise_floor(self, host: NodeId, ses: int, now: int) -> None:
        for other, (_, heard) in list(self._floors.items()):
            if heard + self._settings.forget >= now:
                break
            del self._floors[other]
        before = self._floors.pop(host, (0, 0))[0]
        self._floors[host] = (max(before, ses), now)

    # Records.

    def _add(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        self._records[host] = record
        if self._settings.evict and not self._evict_set:
            self._evict_set = True
            out.append(SetTimer(EVICT, now + self._settings.evict // _LOOKS))

    def _drop(self, host: NodeId, now: int, out: list[Effect]) -> None:
        del self._records[host]
        self._trim(now, out)

    def _confirm(self, host: NodeId, record: Record, now: int, out: list[Effect]) -> None:
        """Tell a host that its session is established, and what to deliver first."""
        count, skip = len(record.catch_up), sorted(record.skip)
        out.append(Transmit(InitAck(host, record.ses, count, record.pos, skip, record.seqh, record.fresh)))
        if record.catch_up:
            self._send_catch_up(host, record, now, out)
        self._send_window(now, out)
        self._set_resend(now, out, anew=True)

    # Joining and leaving.

    def _join(self, frame: Join, host: NodeId, now: int, out: list[Effect]) -> None:
        record = self._records.get(host)
        if frame.ses < self._floor(host):
            self._say_gone(frame.ses, host, out)
            return
        if record is not None and (record.ses > frame.ses or not record.holds):
            return
        if record is None or frame.ses > record.ses:
            self._raise_floor(host, frame.ses, now)
            if self._voids_others(record):
                self._flood(Delete(host, frame.ses), None, out)
        if record is None:
            record = Record(frame.ses, self._low, now, frame.next, ready=True, seqh=frame.next)
            self._add(host, record, now, out)
        record.ses = frame.ses
        record.heard = now
        self._confirm(host, record, now, out)

    def _voids_others(self, record: Record | None) -> bool:
        return True

    def _delete(self, frame: Delete, came_from: NodeId, now: int, out: list[Effect]) -> None:
        self._flood(frame, came_from, out)
        self._raise_floor(frame.host, frame.ses, now)
        record = self._records.get(frame.host)
        if record is not None and self._voids(frame, record):
            self._drop(frame.host, now, out)

    def _voids(self, frame: Delete, record: Record) -> bool:
        return record.ses < frame.ses

    def _leave(self, frame: Leave, host: NodeId, now: int, out: list[Effect]) -> None:
        if self._floor(host) != _NEVER_AGAIN:
            self._flood(Left(host), None, out)
        self._let_go(host, now, out)
        out.append(Transmit(LeaveAck(host)))

    def _left(self, frame: Left, came_from: NodeId, now: int, out: list[Effect]) -> None:
        self._flood(frame, came_from, out)
        self._let_go(frame.host, now, out)

    def _let_go(self, host: NodeId, now: int, out: list[Effect]) -> None:
        self._raise_floor(host, _NEVER_AGAIN, now)
        if host in self._records:
            self._drop(host, now, out)

    # Hosts that do not come back.

    def _ack(self, frame: Ack, host: NodeId, now: int, out: list[Effect]) -> None:
        super()._ack(frame, host, now, out)
        self._say_gone(frame.ses, host, out)

    def _say_gone(self, ses: int, host: NodeId, out: list[Effect]) -> None:
        """Tell a host that its session is over, unless it has begun another one."""
        if self._settings.evict and host not in self._records and ses + 1 >= self._floor(host):
            out.append(Transmit(Gone(host, ses)))

    def timer(self, token: Timer, now: int) -> list[Effect]:
        if token != EVICT:
            return super().timer(token, now)
        out: list[Effect] = []
        self._evict_set = bool(self._records)
        if self._records:
            out.append(SetTimer(EVICT, now + self._settings.evict // _LOOKS))
        for host, record in list(self._records.items()):
            if record.holds and now - record.heard > self._settings.evict:
                self._raise_floor(host, record.ses + 1, now)  # a late copy must not bring back this very session
                self._drop(host, now, out)
        return out

    def gauges(self) -> dict[str, int]:
        return super().gauges() | {"station_floors": len(self._floors)}
