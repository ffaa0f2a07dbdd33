"""A hop of a message through a link and a `vector` node, against a hop through a SimPy `Store`.

Antecast: 64 nodes on a random network of degree 6, causal broadcast with whole vector clocks, every
hop stamped, sized from its encoding, delayed by a draw of its own link, checked, logged to Parquet.
SimPy: 64 processes, each waiting on its `Store`; a message is put there after a timeout, as SimPy's
own examples model a cable. A hop there does nothing else.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import simpy

from antecast.sim import run
from antecast.sim.scenario import make_scenario
from bench.table import report

NODES = 64
ROUNDS = 3


def antecast_hops(protocol: str) -> tuple[int, float]:
    """Hops made and CPU seconds spent."""
    scenario = make_scenario(
        {
            "nodes": NODES,
            "duration": "10s",
            "protocol": {"name": protocol},
            "network": {
                "topology": {"kind": "random", "degree": 6},
                "delay": {"kind": "uniform", "low": "1ms", "high": "200ms"},
            },
            "workload": [{"kind": "poisson", "rate": 1.0}],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        result = run(scenario, out=Path(folder) / "run")
        kinds = result.events["kind"].combine_chunks()
        hops = sum(kind == "receive" for kind in kinds.to_pylist())
    return hops, result.cpu


def simpy_hops(hops: int) -> float:
    """CPU seconds for as many hops between stores."""
    environment = simpy.Environment()
    stores = [simpy.Store(environment) for _ in range(NODES)]
    draw = random.Random(1)
    left = hops

    def travel(to: int, message: int) -> Generator[Any, Any, None]:
        yield environment.timeout(draw.uniform(0.001, 0.2))
        stores[to].put(message)

    def node(number: int) -> Generator[Any, Any, None]:
        nonlocal left
        while left > 0:
            message = yield stores[number].get()
            left -= 1
            environment.process(travel(draw.randrange(NODES), message))

    for number in range(NODES):
        environment.process(node(number))
        for message in range(8):
            environment.process(travel(number, message))
    begin = time.process_time()
    environment.run(until=environment.process(_until(environment, lambda: left <= 0)))
    return time.process_time() - begin


def _until(environment: simpy.Environment, done: Any) -> Generator[Any, Any, None]:
    while not done():
        yield environment.timeout(0.01)


def main() -> None:
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        hops = 0
        for protocol in ("r-broadcast", "vector", "vector-changes"):
            hops, seconds = antecast_hops(protocol)
            best[protocol] = max(best.get(protocol, 0.0), hops / seconds)
        best["SimPy store"] = max(best.get("SimPy store", 0.0), hops / simpy_hops(hops))
    rows = [
        {"hop through": name, "hops per CPU second": rate, "against SimPy": rate / best["SimPy store"]}
        for name, rate in best.items()
    ]
    report("hop", "Hops of messages, 64 nodes", rows, note="Goal: vector at least 1.5 times SimPy.")


if __name__ == "__main__":
    main()
