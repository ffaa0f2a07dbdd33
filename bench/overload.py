"""After an overload: 7 stations, 70 hosts, 200 broadcasts per second for 20 s, three times what the air carries.

What counts is how soon the stations' buffers are empty again once the load has ended. The table has the messages
that all stations keep, and those that hosts have still to send, second by second behind the end of the load.

Beside it stands what the air takes for the backlog. Stations do not hear each other, and some hosts hear several
of them as loud as their own. At such a host the frames of its station must not meet those of another one: both
backlogs one after the other are the least time, if somebody told stations when to send. Without that, a frame of
length T gets through if none of k others sends within T of its start: with f frames per second of each,
f exp(−2 k f T) get through, 1 / (2 e k T) at the best.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from antecast.core import Message
from antecast.protocols.cellular.frames import CODEC
from antecast.sim.radio.layout import Cells, distance2, station_places
from antecast.sim.radio.movement import pieces
from antecast.sim.run import run
from antecast.sim.scenario import Scenario, make_scenario
from bench.table import report

HOSTS, START, LOAD, PAYLOAD = 70, 5, 20, 100
SECOND = 10**9


def overloaded(rate: float, drain: int, *, seed: int = 1, **protocol: Any) -> Scenario:
    return make_scenario(
        {
            "seed": seed,
            "nodes": HOSTS,
            "duration": f"{START + LOAD}s",
            "drain": f"{drain}s",
            "protocol": {"name": "cellular"} | protocol,
            "network": {"topology": {"kind": "cells"}},
            "workload": [{"kind": "poisson", "rate": rate / HOSTS, "payload": PAYLOAD, "start": f"{START}s"}],
            "log": {"events": "order", "sample": "1s"},
        }
    )


def heard(cells: Cells, seed: int) -> Iterator[tuple[int, list[int]]]:
    """For each host its station, and the others that it hears as loud."""
    places = station_places(cells)
    for host in range(HOSTS):
        place = next(pieces(cells, places, seed, host)).at(0)
        near = sorted((distance2(place, each), station) for station, each in enumerate(places))
        own, station = near[0]
        reach = min(cells.range**2, cells.capture**2 * own)
        yield station, [other for away, other in near[1:] if away <= reach]


def air_times(scenario: Scenario, kept: dict[int, int]) -> tuple[float, float]:
    """Seconds that the air takes for what each station keeps: at the least, and at best if nobody directs it."""
    cells = scenario.network.topology
    assert isinstance(cells, Cells)
    size = CODEC.size(Message(HOSTS, 1000, bytes(PAYLOAD), 1000)) + cells.headers
    frame = cells.preamble / SECOND + 8 * size / cells.bit_rate
    turn = frame + cells.backoff / SECOND / 2
    least, undirected = 0.0, 0.0
    for station, others in heard(cells, scenario.seed):
        messages, most = kept.get(station, 0), max((kept.get(other, 0) for other in others), default=0)
        least = max(least, (messages + most) * turn)
        undirected = max(undirected, messages * max(turn, 2 * math.e * len(others) * frame))
    return least, undirected


def backlog(
    rate: float, drain: int, *, seed: int = 1, **protocol: Any
) -> tuple[list[dict[str, Any]], float, float]:
    """One row per second from the end of the load on; what the air takes for the backlog (`air_times`)."""
    scenario = overloaded(rate, drain, seed=seed, **protocol)
    kept: dict[str, Counter[int]] = {"station_sent_buffer": Counter(), "host_sent_buffer": Counter()}
    at_end: dict[int, int] = {}
    for row in run(scenario).samples.to_pylist():
        if row["gauge"] in kept:
            second = row["t"] // SECOND - START - LOAD
            kept[row["gauge"]][second] += row["value"]
            if second == 0 and row["gauge"] == "station_sent_buffer":
                at_end[row["node"] - HOSTS] = row["value"]
    rows = [
        {
            "seconds after the load": second,
            "kept by stations": kept["station_sent_buffer"][second],
            "still to be sent by hosts": kept["host_sent_buffer"][second],
        }
        for second in range(drain)
    ]
    return rows, *air_times(scenario, at_end)


def summary(rate: float, drain: int, seed: int) -> dict[str, Any]:
    rows, least, undirected = backlog(rate, drain, seed=seed)
    clear = next((row["seconds after the load"] for row in rows if not row["kept by stations"]), math.inf)
    return {
        "seed": seed,
        "kept by stations": rows[0]["kept by stations"],
        "clear after, s": clear,
        "least, s": least,
        "clear ÷ least": clear / least,
        "undirected at best, s": undirected,
        "clear ÷ undirected": clear / undirected,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=float, default=200.0, help="broadcasts per second (default: 200)")
    options.add_argument("--drain", type=int, default=30, help="seconds to look behind the load (default: 30)")
    options.add_argument("--seeds", type=int, default=1, help="several: a row for each instead of the curve")
    chosen = options.parse_args()
    title = f"{chosen.rate:g} broadcasts per second for {LOAD} s, 7 stations and 70 hosts"
    if chosen.seeds > 1:
        rows = [summary(chosen.rate, chosen.drain, seed) for seed in range(1, chosen.seeds + 1)]
        report("overload", title, rows, part="seeds")
        return
    rows, least, undirected = backlog(chosen.rate, chosen.drain)
    note = f"what the air takes: {least:.1f} s at the least; {undirected:.1f} s at best if nobody directs it"
    report("overload", title, rows, note=note)


if __name__ == "__main__":
    main()
