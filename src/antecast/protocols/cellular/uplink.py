"""Up the radio: a station takes its hosts' own messages, each host's in order, and acknowledges them."""

from __future__ import annotations

from collections.abc import Mapping

from antecast.core import Effect, NodeId, SetTimer, Timer, Transmit
from antecast.protocols.cellular.frames import Acks, Data
from antecast.protocols.cellular.record import HostState, Record
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import Dither

ACKS: Timer = "acks"


class Uplink:
    def __init__(
        self, settings: CellularSettings, rules: Rules, records: Mapping[NodeId, Record], dither: Dither
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._records = records
        self._dither = dither
        self.owed: dict[NodeId, None] = {}
        """Hosts to whom an acknowledgement is due, in the order in which they spoke."""
        self._timer_set = False

    def accepts(self, record: Record) -> bool:
        if record.state is HostState.AWAITED:
            return self._rules.accept_early  # hole 5
        locked = record.state is HostState.LOCKED or bool(record.handoff.offers)
        return not locked or self._rules.accept_late  # hole 6

    def take(self, message: Data, record: Record) -> list[Data]:
        """A host's own message; the messages that are now to be passed on."""
        due: list[Data] = []
        if record.expected <= message.seq < record.expected + self._settings.window:
            record.early[message.seq] = message
            while (first := record.early.pop(record.expected, None)) is not None:
                record.expected += 1
                due.append(first)
        self.owed[message.origin] = None
        return due

    def set_timer(self, now: int, out: list[Effect]) -> None:
        if self.owed and not self._timer_set:
            self._timer_set = True
            wait = self._settings.ack
            out.append(SetTimer(ACKS, now + wait + self._dither(wait // 4)))

    def acknowledge(self, out: list[Effect]) -> None:
        """The timer has fired."""
        self._timer_set = False
        there = {host: record for host in self.owed if (record := self._records.get(host)) is not None}
        numbers = {
            host: record.expected for host, record in there.items() if record.state is not HostState.AWAITED
        }
        self.owed.clear()
        if numbers:
            out.append(Transmit(Acks(numbers)))
