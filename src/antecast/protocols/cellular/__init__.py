"""Causal broadcast for mobile hosts and their support stations: a host's side, a station's side."""

from __future__ import annotations

from antecast.core import Frame
from antecast.protocols.cellular.frames import Ack
from antecast.protocols.cellular.host import CellHost
from antecast.protocols.cellular.rules import Rule
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.cellular.station import Station
from antecast.protocols.registry import Guarantee, Need, Specification, Unit, register

__all__ = ["CELLULAR", "CellHost", "CellularSettings", "Rule", "Station"]


def _needs(_: CellularSettings) -> frozenset[Need]:
    return frozenset({Need.CELLS, Need.RELIABLE_LINKS, Need.FIFO_LINKS})


def _heartbeats(settings: CellularSettings) -> tuple[type[Frame], ...]:
    return (Ack,) if settings.evict else ()


_BUFFERS = ("host_sent_buffer", "host_received_buffer", "station_sent_buffer", "station_received_buffer")
_HANDOFFS = ("listed", "carried", "skipped", "meanwhile", "longest")
GAUGES = {
    **dict.fromkeys(_BUFFERS, Unit.MESSAGES),
    **dict.fromkeys(("station_hosts", "station_floors", "station_passed_on"), Unit.ENTRIES),
    **dict.fromkeys(("station_handoffs", *(f"handoff_{what}" for what in _HANDOFFS)), Unit.COUNTER),
}
"""What the gauges of hosts and stations count."""

CELLULAR = register(
    Specification(
        name="cellular",
        title="causal, by stations over a tree, for hosts that change cells",
        reference="Wilhelm, Arantes and Sens, A scalable causal broadcast that tolerates dynamics of mobile "
        "networks",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=_needs,
        control="constant",
        memory="host: what is under way; station: what its hosts lack, and a few numbers per host",
        delivery="constant",
        settings=CellularSettings,
        make=CellHost,
        make_station=Station,
        heartbeats=_heartbeats,
        gauges=GAUGES,
        draws={"evict": ("5min", "0s")},  # a host that is given up misses what was broadcast meanwhile
    )
)
