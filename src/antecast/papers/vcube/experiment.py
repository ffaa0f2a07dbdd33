"""VCube: the experiments of "A Communication-Efficient Causal Broadcast Protocol", as pure functions of a point.

Every node broadcasts one message of 50 bytes. Two models of the network and the arrivals:

- `literal`: section 5 as printed. Processing and transmission take a unit of time each, propagation is normal with
  a mean of 100 and a standard deviation of 25, and a node broadcasts after an exponential time of mean 1000 (its
  words are "a Poisson distribution with interval rate λ = 1000 u.t.").
- `calibrated`: a fit to the paper's tables, since no reading of section 5 gives them. A node broadcasts at
  U(0, 300) + U(0, 300), whatever the number of nodes; propagation has a standard deviation of 35.4 = 25 √2; a
  packet takes a unit of time in the send queue.

With a standard deviation of 25 no pattern of arrivals that we tried gets past 18 % fewer packets with 256 nodes,
where the paper has 24.5 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from antecast.history.audit import audit
from antecast.papers.vcube.measures import UNIT, Log, in_pairs, summary
from antecast.sim.run import run
from antecast.sim.scenario import Scenario, make_scenario

SIZES: Final = (8, 16, 32, 64, 128, 256, 512, 1024)
PAYLOAD: Final = 50

MODELS: Final[Mapping[str, dict[str, Any]]] = {
    "calibrated": {
        "network": {"transmission": "1ms", "delay": {"kind": "normal", "mean": "100ms", "stdev": "35.4ms"}},
        "at": {"kind": "triangular", "low": "0ms", "mode": "300ms", "high": "600ms"},
    },
    "literal": {
        "network": {
            "processing": "1ms",
            "transmission": "1ms",
            "delay": {"kind": "normal", "mean": "100ms", "stdev": "25ms"},
        },
        "at": {"kind": "exponential", "mean": "1s"},
    },
}
"""A unit of time is a millisecond."""

ON_THE_WAY: Final = {"calibrated": 101.0, "literal": 102.0}
"""Processing, transmission and mean propagation: the rest of a packet's time is spent in the queue."""


COMPILED: Final = 64
"""From this size on the compiled engine makes the runs: each worker makes hundreds, and loads it once."""


def _engine(nodes: int) -> str:
    return "compiled" if nodes >= COMPILED else "reference"


def scenario(
    nodes: int,
    model: str,
    seed: int,
    *,
    name: str = "vcube",
    aggregate: bool,
    payload: int = PAYLOAD,
    log: str = "all",
) -> Scenario:
    chosen = MODELS[model]
    return make_scenario(
        {
            "name": f"vcube {model}",
            "engine": _engine(nodes),
            "nodes": nodes,
            "seed": seed,
            "duration": "60s",
            "drain": "600s",
            "protocol": {"name": name, "aggregate": aggregate, "diagnosis": 0},
            "network": chosen["network"],
            "workload": [{"kind": "once", "payload": payload, "at": chosen["at"]}],
            "log": {"events": log, "sample": 0},
        }
    )


def compare(nodes: int, model: str, seed: int) -> dict[str, Any]:
    """One network with aggregation and without."""
    logs = [_judged(scenario(nodes, model, seed, aggregate=aggregate)) for aggregate in (True, False)]
    return {
        "with": summary(logs[0], PAYLOAD),
        "without": summary(logs[1], PAYLOAD),
        "pairs": in_pairs(logs[0], logs[1]),
    }


def variant(nodes: int, model: str, seed: int, name: str, payload: int) -> dict[str, Any]:
    """One network with aggregation, with another protocol or other sizes of messages."""
    chosen = scenario(nodes, model, seed, name=name, aggregate=True, payload=payload)
    return {"with": summary(_judged(chosen), payload)}


def _judged(chosen: Scenario) -> Log:
    """The log of a run, once it is known that everyone delivered everything, once and in causal order."""
    events = run(chosen).events
    verdict = audit(events, clock="global")
    if verdict.outcome != "causal" or verdict.tally.deliveries != chosen.nodes**2:
        which = f"{chosen.name}, {chosen.nodes} nodes, seed {chosen.seed}"
        raise RuntimeError(f"{which}: not everything was delivered in causal order, once: {verdict.tally}")
    return Log(events, chosen.nodes)


LOAD: Final = 2000
"""Units of time in which nodes broadcast under load."""


def load(nodes: int, rate: float, name: str, seed: int) -> dict[str, Any]:
    """Mean reception latency without aggregation, while all nodes together broadcast `rate` messages per unit."""
    from antecast.history import metrics

    chosen = make_scenario(
        {
            "name": "vcube load",
            "engine": _engine(nodes),
            "nodes": nodes,
            "seed": seed,
            "duration": f"{LOAD}ms",
            "drain": "600s",
            "protocol": {"name": name, "aggregate": False, "diagnosis": 0},
            "network": MODELS["literal"]["network"],
            "workload": [{"kind": "poisson", "payload": PAYLOAD, "rate": 1000 * rate / nodes}],
            "log": {"sample": 0},
        }
    )
    latency = metrics.reception_latency(run(chosen).events)["latency"]
    found = metrics.summarise(latency, quantiles=())
    return {"latency": found.mean / UNIT if found.count else None, "received": found.count}
