"""After an overload: 7 stations and 70 hosts, 200 broadcasts a second for 20 s, three times what the air carries.

What counts is how soon the stations' buffers are empty again once the load has ended. The table has the messages
that all stations keep, and those that hosts have still to send, second by second behind the end of the load.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from antecast.sim.run import run
from antecast.sim.scenario import make_scenario
from bench.table import report

HOSTS, START, LOAD = 70, 5, 20
SECOND = 10**9


def backlog(rate: float, drain: int, *, seed: int = 1, **protocol: Any) -> list[dict[str, Any]]:
    """A row a second from the end of the load on."""
    result = run(
        make_scenario(
            {
                "seed": seed,
                "nodes": HOSTS,
                "duration": f"{START + LOAD}s",
                "drain": f"{drain}s",
                "protocol": {"name": "cellular"} | protocol,
                "network": {"topology": {"kind": "cells"}},
                "workload": [{"kind": "poisson", "rate": rate / HOSTS, "payload": 100, "start": f"{START}s"}],
                "log": {"events": "order", "sample": "1s"},
            }
        )
    )
    kept: dict[str, Counter[int]] = {"station_sent_buffer": Counter(), "host_sent_buffer": Counter()}
    for row in result.samples.to_pylist():
        if row["gauge"] in kept:
            kept[row["gauge"]][row["t"] // SECOND - START - LOAD] += row["value"]
    return [
        {
            "seconds after the load": second,
            "kept by stations": kept["station_sent_buffer"][second],
            "still to be sent by hosts": kept["host_sent_buffer"][second],
        }
        for second in range(drain)
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=float, default=200.0, help="broadcasts per second (default: 200)")
    options.add_argument("--drain", type=int, default=30, help="seconds to look behind the load (default: 30)")
    chosen = options.parse_args()
    rows = backlog(chosen.rate, chosen.drain)
    report("overload", f"{chosen.rate:g} broadcasts per second for {LOAD} s, 7 stations and 70 hosts", rows)


if __name__ == "__main__":
    main()
