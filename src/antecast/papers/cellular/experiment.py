"""Cellular: the experiments of "A scalable causal broadcast that tolerates dynamics of mobile networks", as pure
functions of a point.

Seven stations, 70 hosts placed at random, messages of 100 bytes, a radio range of 120 m, wires of 10 Mb/s and
10 ms. Hosts stand still (Fig. 6 and the heavier load), walk at 1.38 m/s within the cells (Fig. 7), or walk while
every 30 s one in the cell of station 3 fails, for 3 s at first and for a second more each time (Fig. 8).

The paper says neither how long its runs were (those with faults go to 250 s at least) nor what its radio was like:
that of `antecast.sim.radio` is IEEE 802.11b at 2 Mb/s, with stations at a distance that was fitted.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from antecast.history.audit import audit
from antecast.history.log import DiscardSink, EventWriter, SampleWriter
from antecast.papers.cellular import measures
from antecast.protocols.cellular import Station
from antecast.sim.run import make_engine, run
from antecast.sim.scenario import Scenario, make_scenario

HOSTS: Final = 70
STATIONS: Final = 7
PAYLOAD: Final = 100
HEADERS: Final = 64
"""Bytes that the radio puts around a frame: UDP, IPv4, LLC and MAC."""
START: Final = 10
"""Seconds before the first broadcast, in which hosts are taken in."""
CALM, WALKING, HEAVY = 5.6, 25.0, 35.0
"""Broadcasts a second of all hosts together: Fig. 6, Figs. 7 and 8, and what the paper says is tolerated."""
STRUCK: Final = 3
"""The station in whose cell hosts fail."""


def faults(count: int) -> list[tuple[int, int]]:
    """(when, how long) of the faults, in seconds.

    >>> faults(8)[0], faults(8)[-1]
    ((15, 3), (225, 10))
    """
    return [(15 + 30 * index, 3 + index) for index in range(count)]


def scenario(
    protocol: str,
    rate: float,
    seconds: int,
    seed: int,
    *,
    hosts: int = HOSTS,
    walks: bool = False,
    struck: int = 0,
    drain: int = 30,
) -> Scenario:
    """A run of the paper: `rate` broadcasts a second of all hosts together, `struck` faults."""
    return make_scenario(
        {
            "name": "cellular study",
            "nodes": hosts,
            "seed": seed,
            "duration": f"{seconds}s",
            "drain": f"{drain}s",
            "protocol": {"name": protocol},
            "network": {
                "topology": {
                    "kind": "cells",
                    "stations": STATIONS,
                    "headers": HEADERS,
                    "mobility": {"kind": "waypoint" if walks else "still"},
                }
            },
            "workload": [{"kind": "poisson", "rate": rate / hosts, "payload": PAYLOAD, "start": f"{START}s"}],
            "faults": [
                {"kind": "cell-crash", "at": f"{at}s", "station": STRUCK, "lasts": f"{lasts}s"}
                for at, lasts in faults(struck)
            ],
            "log": {"sample": "500ms"},
        }
    )


def evaluate(
    protocol: str, rate: float, seconds: int, seed: int, walks: bool = False, struck: int = 0
) -> dict[str, Any]:
    """One run, and all that the paper measures of it."""
    result = run(scenario(protocol, rate, seconds, seed, walks=walks, struck=struck))
    events, samples = result.events, result.samples
    log = measures.Log(events, samples, HOSTS, HEADERS, START, seconds)
    return {
        "verdict": str(audit(events, clock="global").outcome),
        "traffic": measures.traffic(log),
        "delay": measures.delay(events),
        "loss": measures.loss(log),
        "buffers": measures.buffers(log),
        "handoffs": measures.handoffs(log),
        "series": measures.series(log),
        "faults": [measures.backlog(log, STRUCK, *fault) for fault in faults(struck)],
        "cpu": result.cpu,
    }


def footprint(hosts: int, seed: int) -> dict[str, Any]:
    """What stations keep for so many hosts at 5.6 broadcasts a second: records, numbers in each of them, buffers
    apart, and the share of all hosts whose last session each station remembers."""
    chosen = scenario("cellular", CALM, 100, seed, hosts=hosts, drain=0)
    engine = make_engine(chosen, EventWriter("footprint", DiscardSink()), SampleWriter("footprint", DiscardSink()))
    engine.run(lambda: True)
    stations = [engine.hosts[hosts + index].protocol for index in range(STATIONS)]
    records = [
        {name: value for name, value in asdict(record).items() if name not in ("early", "catch_up")}
        for station in stations
        if isinstance(station, Station)
        for record in station.records.values()
    ]
    floors = sum(station.gauges()["station_floors"] for station in stations)
    return {
        "records": len(records),
        "numbers": sum(map(measures.leaves, records)) / max(1, len(records)),
        "floors": floors / STATIONS / hosts,
    }
