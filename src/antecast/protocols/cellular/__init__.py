"""Causal broadcast for mobile hosts and their support stations: a host's side, a station's side."""

from __future__ import annotations

from antecast.core import NodeId, Protocol
from antecast.protocols.cellular.host import CellHost
from antecast.protocols.cellular.published import PublishedHost, PublishedStation
from antecast.protocols.cellular.settings import CellularSettings, Rule
from antecast.protocols.cellular.station import Station
from antecast.protocols.registry import Guarantee, Need, Specification, register

__all__ = ["CELLULAR", "CellHost", "CellularSettings", "Rule", "Station"]


def _needs(_: CellularSettings) -> frozenset[Need]:
    return frozenset({Need.CELLS, Need.RELIABLE_LINKS, Need.FIFO_LINKS})


def make_host(node: NodeId, settings: CellularSettings) -> Protocol:
    return PublishedHost(node, settings) if settings.published else CellHost(node, settings)


def make_station(node: NodeId, settings: CellularSettings) -> Protocol:
    return PublishedStation(node, settings) if settings.published else Station(node, settings)


CELLULAR = register(
    Specification(
        name="cellular",
        title="causal, by stations over a tree, for hosts that change cells",
        reference="Wilhelm, Arantes and Sens, A scalable causal broadcast that tolerates dynamics of mobile "
        "networks",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=_needs,
        control="constant",
        memory="host: what is under way; station: what its hosts lack, and a few numbers a host",
        delivery="constant",
        settings=CellularSettings,
        make=make_host,
        make_station=make_station,
        draws={"evict": ("5min", "0s")},  # who is given up misses what was broadcast meanwhile
    )
)
