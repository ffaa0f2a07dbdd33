"""Causal and Δ-causal broadcast in opportunistic networks: the networks and scenarios of the barrier paper.

Two networks. City buses broadcast every 20 minutes, without a lifetime (`barrier`) and with five (`delta`);
pedestrians that cross a district broadcast every minute, with four. The first broadcast comes 20 seconds after a
node appears.

The paper ran its protocols over an emulated radio that it does not describe. Here a node has one radio, whose
contacts share its bandwidth; a contact can be used some seconds after it begins. Both figures are a fit for each
network (`fit`). A frame travels for 2 ms, a payload has 500 bytes; the exchange is that of
`antecast.protocols.epidemic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from antecast.sim.mobility.city_bus import city_bus
from antecast.sim.mobility.pedestrians import pedestrians

NO_LIFETIME = "none"

Rule: TypeAlias = Literal["safe", "paper"]
"""How `delta` makes deadlines; `paper` is the published rule."""

CLOCKS = "2s"
"""How far clocks are off, either way, where they differ; the paper allows "a few seconds" between two."""


@dataclass(frozen=True)
class Radio:
    bandwidth: str
    """Of a node, shared by its contacts."""
    setup: str
    """How long it takes until a contact can be used."""


@dataclass(frozen=True)
class Network:
    """One of the paper's two networks, with what was run on it and where the paper shows it."""

    name: str
    generate: Callable[[int], pa.Table]
    reach: float
    """Metres."""
    radio: Radio
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

    @property
    def shortest(self) -> str:
        """The shortest lifetime."""
        return self.lifetimes[-1]


BUSES = Network(
    name="buses",
    generate=city_bus,
    reach=200.0,
    radio=Radio("30kb/s", "0s"),
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
    radio=Radio("75kb/s", "0s"),
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
    presence = [str(there) for _, there in places if there is not None]
    values = scenario(network, network.lifetimes[0], files[0], presence[0] if presence else None)
    return {
        "name": network.name,
        "scenario": {name: value for name, value in values.items() if name != "protocol"},
        "grid": {"protocol": [protocol(lifetime) for lifetime in network.lifetimes]},
        "zip": {"network.topology.file": files} | ({"network.topology.presence": presence} if presence else {}),
    }


def scenario(
    network: Network,
    lifetime: str,
    contacts: str,
    presence: str | None,
    *,
    rule: Rule = "safe",
    clocks: str = "0s",
) -> dict[str, Any]:
    """One run on a network: a lifetime, a rule for deadlines, and how far off clocks may be, either way."""
    topology = {"kind": "contacts", "file": contacts, "setup": network.radio.setup}
    if presence is not None:
        topology["presence"] = presence
    values: dict[str, Any] = {
        "protocol": protocol(lifetime, rule),
        "network": {"topology": topology, "delay": "2ms", "bandwidth": network.radio.bandwidth, "queue": "node"},
        "workload": [{"kind": "periodic", "every": network.every, "after_arrival": "20s", "payload": 500}],
        "log": {"sample": network.sample},
    }
    return values if clocks == "0s" else values | {"clocks": {"offset": clocks}}


def rules(
    network: Network, places: Sequence[tuple[Path, Path | None]], *, quick: bool
) -> list[dict[str, str | None]]:
    """What is run by the published rule beside the safe one, which is the study's: points for `measured`.

    All lifetimes on two networks, or the shortest one with `quick`; and the shortest with clocks that differ, by
    both rules. Two networks instead of all, since it is the difference between rules that is looked for.
    """
    lifetimes = [network.shortest] if quick else [each for each in network.lifetimes if each != NO_LIFETIME]
    runs: list[tuple[str, Rule, str]] = [(lifetime, "paper", "0s") for lifetime in lifetimes]
    runs += [(network.shortest, rule, CLOCKS) for rule in (("paper",) if quick else get_args(Rule))]
    return [
        {
            "network": network.name,
            "lifetime": lifetime,
            "rule": rule,
            "clocks": clocks,
            "contacts": str(contacts),
            "presence": None if presence is None else str(presence),
        }
        for contacts, presence in places[:2]
        for lifetime, rule, clocks in runs
    ]


def protocol(lifetime: str, rule: Rule = "safe") -> Mapping[str, str]:
    """The protocol for a lifetime.

    >>> protocol("20'"), protocol("none")
    ({'name': 'delta', 'lifetime': '20min'}, {'name': 'barrier'})
    """
    if lifetime == NO_LIFETIME:
        return {"name": "barrier"}
    named = {"name": "delta", "lifetime": lifetime.replace("'", "min")}
    return named if rule == "safe" else named | {"rule": rule}
