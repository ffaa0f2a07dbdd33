"""Approximate causal delivery: the experiments of "Approximate causal observer" (Kulkarni, Arumugam).

Each experiment is a *system* (ε, δ, rate of messages, number of processes) whose traffic is put into order by some
*rules*, each with some part c of the exact waiting time. `observed` makes one run of a system: a pure function of
its arguments in which all rules order the same traffic. Every figure of the paper is there for two distributions
of delays, normal with mean δ/2 and δ/4; and here everything is there twice again, since the paper does not say
what its unit of delay is (see `UNITS`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

from antecast.history.confidence import Estimate
from antecast.observer import Bounds, Layout, Policy
from antecast.papers.observer.model import ObserverModel, generate, judge, observe

PERCENTS = (100, 80, 60, 40, 20, 0)
"""c of the paper, in its order."""
DELAYS = {"δ/2": (0.5, 0.25), "δ/4": (0.25, 0.125)}
"""Mean and standard deviation of delays, as parts of δ."""
TICK, STEPS = "1 tick", "3 steps (a fit)"
UNITS: dict[str, int | None] = {TICK: None, STEPS: 3}
"""What one unit of delay is: a tick of the sender's clock, or so many steps of the simulation. The second was
chosen because it brings the figures for physical clocks near the paper's, so it is a fit and no evidence."""

RULES: dict[str, dict[str, Any]] = {
    "DAPW": {"mode": "dapw"},
    "CBD": {"mode": "cbd"},
    "DPC1": {"mode": "cbd", "stamps": "physical"},
    "DPC2": {"mode": "cbd", "elements": 0},
    "2 kn": {"mode": "cbd", "elements": 2},
    "4 kn": {"mode": "cbd", "elements": 4},
    "6 kn": {"mode": "cbd", "elements": 6},
    "rule on M": {"mode": "margin"},
    "HLC": {"mode": "cbd", "stamps": "hybrid"},
    "earlier send": {"mode": "earlier-send"},
}
"""The paper's rules, then ours: `margin`, check before delivery with hybrid logical clocks, and `earlier-send`."""
EXACT = ("earlier send",)
"""Rules that wait as long as they must: there is no c to choose."""
BOTH = ("DAPW", "CBD")
PARTIAL = ("DPC1", "DPC2", "2 kn", "4 kn", "6 kn", "CBD")
"""From no information to all of it."""
TRADED = ("DAPW", "CBD", "rule on M", "HLC", "DPC1", "DPC2", "earlier send")


@dataclass(frozen=True, kw_only=True)
class System:
    """What is observed."""

    epsilon: int = 10
    delta: int = 10
    rate: float = 0.1
    nodes: int = 10


USUAL = System()
RARE = System(rate=0.01)
MANY = System(nodes=50)
SWEPT: dict[str, dict[str, System]] = {
    "Fig. 2": {f"ε = {value}": replace(USUAL, epsilon=value) for value in (5, 10, 20, 30)},
    "Fig. 3": {f"δ = {value}": replace(USUAL, delta=value) for value in (5, 10, 20, 30)},
    "Fig. 4": {f"rate {value}": replace(USUAL, rate=value) for value in (0.5, 0.1, 0.01)},
    "Fig. 5": {f"{value} processes": replace(USUAL, nodes=value) for value in (5, 10, 50)},
}
"""What varies in the figures that compare DAPW with CBD."""


def needed() -> dict[System, list[str]]:
    """Every system of the study once, with the rules that some figure asks of it."""
    wanted: dict[System, dict[str, None]] = defaultdict(dict)
    for systems in SWEPT.values():
        for system in systems.values():
            wanted[system] |= dict.fromkeys(BOTH)
    for system, rules in ((USUAL, PARTIAL), (MANY, PARTIAL), (USUAL, TRADED), (RARE, TRADED)):
        wanted[system] |= dict.fromkeys(rules)
    return {system: list(rules) for system, rules in wanted.items()}


def points(*, seeds: Iterable[int], messages: int) -> Iterator[dict[str, Any]]:
    """All runs of the study, as arguments of `observed`."""
    for seed, (system, rules) in product(seeds, needed().items()):
        yield point(system, rules, messages=messages, seed=seed)


def point(
    system: System, rules: Iterable[str], *, messages: int, seed: int, units: Iterable[str] = UNITS
) -> dict[str, Any]:
    """A run of one system, as arguments of `observed`."""
    more = {"rules": list(rules), "units": list(units), "messages": messages, "seed": seed}
    return {**asdict(system), **more}


def observed(
    epsilon: int,
    delta: int,
    rate: float,
    nodes: int,
    rules: Sequence[str],
    units: Sequence[str],
    messages: int,
    seed: int,
) -> dict[str, Any]:
    """What each rule makes of a system at each c, with each distribution and unit of delays.

    A row for each: the shares of messages in violation, backward and forward, and the mean of both; the pairs in
    wrong order; and how long messages took on average, in ticks from r to delivery.
    """
    found = []
    for unit, (delay, (mean, stdev)) in product(units, DELAYS.items()):
        model = ObserverModel(
            epsilon=epsilon,
            delta=delta,
            nodes=nodes,
            rate=rate,
            mean=mean,
            stdev=stdev,
            messages=messages,
            seed=seed,
            delay_steps=UNITS[unit],
        )
        traffic = generate(model)
        for rule, percent in choices(rules):
            seen = observe(traffic, Policy(bounds=model.bounds, percent=percent, **RULES[rule]))
            wrong = judge(traffic, seen.order)
            found.append(
                {
                    "unit": unit,
                    "delay": delay,
                    "rule": rule,
                    "percent": percent,
                    "backward": wrong.backward,
                    "forward": wrong.forward,
                    "violations": wrong.rate,
                    "pairs": wrong.pairs,
                    "waited": float(seen.delay.mean()),
                }
            )
    return {"found": found}


def choices(rules: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Every rule with every c that it takes."""
    for rule in rules:
        for percent in PERCENTS[:1] if rule in EXACT else PERCENTS:
            yield rule, percent


def overhead(epsilon: int, messages: int, repeats: int) -> dict[str, Any]:
    """CPU time that a message costs the observer by DAPW and by CBD, in seconds: the least of several tries."""
    traffic = generate(ObserverModel(epsilon=epsilon, messages=messages))
    taken: dict[str, float] = {}
    for _ in range(repeats + 1):  # the first may compile
        for rule in BOTH:
            begun = time.process_time()
            observe(traffic, Policy(bounds=traffic.model.bounds, percent=40, **RULES[rule]))
            each = (time.process_time() - begun) / messages
            taken[rule] = min(taken.get(rule, each), each)
    return taken


def timestamp_bytes(elements: int) -> int:
    """Bytes of a timestamp with so many elements of kn in the usual system, each field in bytes of its own."""
    bounds = Bounds(epsilon=USUAL.epsilon, delta=USUAL.delta, nodes=USUAL.nodes)
    return Layout.short(bounds, elements=elements, aligned=True).size


class Seen:
    """All that was observed with one unit of delay, over seeds."""

    def __init__(self) -> None:
        self._cells: dict[tuple[System, str, str, int], list[Mapping[str, Any]]] = {}

    @classmethod
    def collect(cls, runs: Iterable[Mapping[str, Any]]) -> dict[str, Seen]:
        """What runs of `observed` have found, beside their arguments, by unit of delay."""
        every: dict[str, Seen] = defaultdict(cls)
        for run in runs:
            system = System(**{each.name: run[each.name] for each in fields(System)})
            for row in run["found"]:
                cell = system, row["delay"], row["rule"], row["percent"]
                every[row["unit"]]._cells.setdefault(cell, []).append(row)
        return dict(every)

    def values(self, rule: str, percent: int, delay: str, system: System, what: str = "violations") -> list[float]:
        """One for each seed."""
        return [row[what] for row in self._cells[system, delay, rule, percent]]

    def estimate(self, rule: str, percent: int, delay: str, system: System, what: str = "violations") -> Estimate:
        return Estimate.of(self.values(rule, percent, delay, system, what))

    def mean(self, rule: str, percent: int, delay: str, system: System, what: str = "violations") -> float:
        return self.estimate(rule, percent, delay, system, what).mean

    @property
    def runs(self) -> int:
        return min(map(len, self._cells.values()), default=0)
