"""Causal and Δ-causal broadcast in opportunistic networks: the networks and scenarios of the barrier paper.

Two networks. City buses broadcast every 20 minutes, without a lifetime (`barrier`) and with five (`delta`);
pedestrians that cross a district broadcast every minute, with four. The first broadcast comes 20 seconds after a
node appears.

The paper ran its protocols over an emulated radio whose exchange it does not describe. Here a contact carries
300 kb/s each way and 2 ms of delay, a message 500 bytes: a fit, chosen so that the co-delivery ratios of both
networks come out; the exchange is that of `antecast.protocols.epidemic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from antecast.sim.mobility.city_bus import city_bus
from antecast.sim.mobility.pedestrians import pedestrians

NO_LIFETIME = "none"


@dataclass(frozen=True)
class Network:
    """One of the paper's two networks, with what was run on it and where the paper shows it."""

    name: str
    generate: Callable[[int], pa.Table]
    reach: float
    """Metres."""
    every: str
    lifetimes: tuple[str, ...]
    """Minutes, in the paper's notation."""
    sample: str
    registers: tuple[str, str]
    """The lifetimes whose registries the paper shows."""
    shown_until: float
    """Hours up to which nodes that appear are drawn in the figure of running intervals."""
    watched: int
    """The node whose registries are shown; the paper's choice, or one that is there as long."""
    movement: str
    counts: str
    delays: str
    intervals: str
    scatter: str
    distribution: str
    registries: str


BUSES = Network(
    name="buses",
    generate=city_bus,
    reach=200.0,
    every="20min",
    lifetimes=(NO_LIFETIME, "120'", "60'", "40'", "20'", "10'"),
    sample="60s",
    registers=(NO_LIFETIME, "20'"),
    shown_until=24.0,
    watched=0,
    movement="Table I",
    counts="Table II",
    delays="Table III",
    intervals="Fig. 3",
    scatter="Fig. 4",
    distribution="Fig. 5",
    registries="Fig. 6",
)
PEDESTRIANS = Network(
    name="pedestrians",
    generate=pedestrians,
    reach=50.0,
    every="60s",
    lifetimes=("20'", "15'", "10'", "5'"),
    sample="5s",
    registers=("5'", "20'"),
    shown_until=1 / 3,
    watched=777,
    movement="Table IV",
    counts="Table V",
    delays="Table VI",
    intervals="Fig. 8",
    scatter="Fig. 9",
    distribution="Fig. 10",
    registries="Fig. 11",
)
NETWORKS = (BUSES, PEDESTRIANS)


def experiment(network: Network, places: Sequence[tuple[Path, Path | None]]) -> dict[str, Any]:
    """The study of a network: every lifetime on each of its places, which are files of contacts and presence."""
    files = [str(contacts) for contacts, _ in places]
    topology: dict[str, Any] = {"kind": "contacts", "file": files[0]}
    varied = {"network.topology.file": files}
    if places[0][1] is not None:
        topology["presence"] = str(places[0][1])
        varied["network.topology.presence"] = [str(presence) for _, presence in places]
    return {
        "name": network.name,
        "scenario": {
            "network": {"topology": topology, "delay": "2ms", "bandwidth": "300kb/s", "queue": "link"},
            "workload": [
                {"kind": "periodic", "every": network.every, "after_arrival": "20s", "payload": 500},
            ],
            "log": {"sample": network.sample},
        },
        "grid": {"protocol": [protocol(lifetime) for lifetime in network.lifetimes]},
        "zip": varied,
    }


def protocol(lifetime: str) -> Mapping[str, str]:
    """The protocol for a lifetime.

    >>> protocol("20'"), protocol("none")
    ({'name': 'delta', 'lifetime': '20min'}, {'name': 'barrier'})
    """
    if lifetime == NO_LIFETIME:
        return {"name": "barrier"}
    return {"name": "delta", "lifetime": lifetime.replace("'", "min")}
