"""Cellular: the experiments of "A scalable causal broadcast that tolerates dynamics of mobile networks", as pure
functions of a point.

Seven stations, 70 hosts placed at random, messages of 100 bytes, a radio range of 120 m, wires of 10 Mb/s and
10 ms. Hosts stand still (Fig. 6 and the heavier load), walk at 1.38 m/s within the cells (Fig. 7), or walk while
every 30 s one in the cell of station 3 fails, for 3 s at first and for a second more each time (Fig. 8).

Where figures are compared with the paper's, times to a retransmission are its own, which fall from 1 s to 200 ms
with the load (`measured = false`); times that follow measured round trips, the protocol's default, are run beside
them. Acknowledgements name holes; the paper's limit of 400 messages at once is tried with and without that.

The paper says neither how long its runs were (those with faults go to 250 s at least) nor what its radio was like:
that of `antecast.sim.radio` is IEEE 802.11b at 2 Mb/s, with stations at a distance that was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    failing: Sequence[tuple[int, int]] = (),
    drain: int = 30,
    settings: Mapping[str, Any] | None = None,
) -> Scenario:
    """A run of the paper: `rate` broadcasts a second of all hosts together, and faults (when, how long)."""
    timers = {"measured": False} if protocol == "cellular" else {}
    return make_scenario(
        {
            "name": "cellular study",
            "nodes": hosts,
            "seed": seed,
            "duration": f"{seconds}s",
            "drain": f"{drain}s",
            "protocol": {"name": protocol, **timers, **(settings or {})},
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
                for at, lasts in failing
            ],
            "log": {"sample": "500ms"},
        }
    )


def evaluate(
    protocol: str,
    rate: float,
    seconds: int,
    seed: int,
    walks: bool = False,
    struck: int = 0,
    measured: bool = False,
) -> dict[str, Any]:
    """One run, and all that the paper measures of it; by the paper's times or by measured ones."""
    settings = {"measured": True} if measured else {}
    chosen = scenario(protocol, rate, seconds, seed, walks=walks, failing=faults(struck), settings=settings)
    result = run(chosen)
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


FAULT: Final = 30
"""When a host fails that is to leave its station with many messages, in seconds."""
AFTER: Final = 30
"""How long one looks after its recovery."""


OUTSTANDING: Final = 400
"""Messages that a station can send at once, by the paper."""


def outstanding(messages: int, named: bool, seed: int) -> dict[str, Any]:
    """A host is away until its station has kept so many messages for it, of which 400 may be under way at once:
    what the station keeps afterwards, with acknowledgements that name holes or as in the paper."""
    lasts = round(messages / WALKING)
    end = FAULT + lasts + AFTER
    settings = {"selective": named, "window": OUTSTANDING}
    chosen = scenario(
        "cellular", WALKING, end, seed, walks=True, failing=[(FAULT, lasts)], drain=0, settings=settings
    )
    result = run(chosen)
    log = measures.Log(result.events, result.samples, HOSTS, HEADERS, START, end)
    return measures.aftermath(log, STRUCK, FAULT, FAULT + lasts)


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
