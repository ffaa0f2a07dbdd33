"""The approximate causal observer's experiments: Figures 2 to 7, and violations against delay with our own rules.

The runs are one map of `experiment.observed`: a task is one system and seed, whose traffic all rules put into
order. Which statements of the paper hold is judged in `judgement` and `statements`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

import pyarrow as pa

from antecast.history.confidence import Estimate
from antecast.papers.findings import Finding, Results, Unit, figure
from antecast.papers.job import Job
from antecast.papers.layout import figure_file
from antecast.papers.observer.experiment import (
    BOTH,
    DELAYS,
    MANY,
    PARTIAL,
    PERCENTS,
    RARE,
    RULES,
    SWEPT,
    TICK,
    TRADED,
    USUAL,
    Seen,
    System,
    choices,
    observed,
    overhead,
    point,
    points,
    timestamp_bytes,
)
from antecast.papers.observer.judgement import costs, largest, thresholds
from antecast.papers.observer.statements import STATEMENTS
from antecast.papers.paper import load_paper

OPTIONS: dict[str, str] = {}

QUICK, FULL = 3_000, 5_000
"""Messages of a run."""
_OURS = "not in the paper: it gives no delays, and some of the rules are ours"


def study(job: Job) -> Results:
    seeds = range(1, job.runs(quick=3, full=5) + 1)
    messages = QUICK if job.quick else FULL
    smallest = point(USUAL, RULES, messages=50, seed=1)
    runs = job.map("runs", observed, list(points(seeds=seeds, messages=messages)), smallest=smallest).to_pylist()
    tries = [{"epsilon": epsilon, "messages": 20_000, "repeats": 5} for epsilon in (5, 30)]
    taken = {row["epsilon"]: row for row in job.map("overhead", overhead, tries).to_pylist()}
    seen = Seen.collect(runs)
    notes = [
        f"Means over {len(seeds)} runs of {messages:,} messages each, with intervals of 95 %.",
        "Violations are the mean of two shares of messages: delivered after one that depends on them, and before"
        " one they depend on.",
        "The paper does not say what its unit of delay is. A tick of the sender's clock is how it states its"
        " guarantee; three steps of the simulation bring the figures for physical clocks near the paper's, which"
        " is a fit and no evidence.",
        "A statement holds if no curve clearly speaks against it, at any c; explanations are not judged.",
    ]
    return Results(
        study="observer",
        findings=[*_statements(seen), _processing(taken), *_numbers(seen), *_trade_off(seen)],
        figures={figure_file(item): table for item, table in _figures(seen)},
        notes=notes,
    )


def _statements(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    paper = load_paper("observer")
    for each, (unit, own) in product(STATEMENTS, seen.items()):
        if own.runs < each.seeds:
            continue
        verdict = each.judge(own)
        setting = f"{unit}; {each.scope}" if each.scope else unit
        yield paper.statement(
            each.item,
            each.quantity,
            setting,
            holds=verdict.holds,
            observed=verdict.observed,
            runs=own.runs,
        )


def _processing(taken: Mapping[int, Mapping[str, float]]) -> Finding:
    paper = load_paper("observer")
    verdict = costs(taken, paper.limit("Fig. 2", "processing", "significantly"))
    return paper.statement("Fig. 2", "processing", "", holds=verdict.holds, observed=verdict.observed)


def _numbers(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """The numbers that the paper's text names."""
    paper = load_paper("observer")
    for unit, own in seen.items():
        for item, name in (("Fig. 2", "ε = 5"), ("Fig. 3", "δ = 20"), ("Fig. 3", "δ = 30")):
            at = thresholds(own, SWEPT[item][name])
            yield paper.figure(item, f"threshold at {name}, N(δ/2, δ/4)", unit, at)
        for item in ("Fig. 4", "Fig. 5"):
            most = largest(own, "CBD", SWEPT[item].values(), ["δ/4"])
            yield paper.figure(item, "CBD, N(δ/4, δ/8): most", unit, most)
        for rules, words in ((("DPC1", "DPC2"), "DPC1 and DPC2"), (("2 kn",), "two elements")):
            found = [own.estimate(rule, 100, delay, USUAL) for rule, delay in product(rules, DELAYS)]
            found.sort(key=lambda each: each.mean)
            yield paper.figure("Fig. 6", f"{words} at 100 %: least", unit, found[0])
            yield paper.figure("Fig. 6", f"{words} at 100 %: most", unit, found[-1])
        for rule, delay in product(PARTIAL[:-1], DELAYS):
            yield paper.figure(
                "Fig. 7", f"{rule} at 100 %", f"{unit}; {delay}", own.estimate(rule, 100, delay, MANY)
            )
    yield paper.figure("Fig. 6", "bytes with two elements", "", Estimate(timestamp_bytes(2)))


def _trade_off(seen: Mapping[str, Seen]) -> Iterator[Finding]:
    """Violations and mean delays at some c, with delays in ticks: a row for each rule and distribution."""
    columns: list[tuple[str, str, Unit, int, System]] = [
        ("violations at 100 %", "violations", "share", 100, USUAL),
        ("delay at 100 %", "waited", "ut", 100, USUAL),
        ("violations at 40 %", "violations", "share", 40, USUAL),
        ("delay at 40 %", "waited", "ut", 40, USUAL),
        ("delay at 100 %, rate 0.01", "waited", "ut", 100, RARE),
    ]
    for delay, rule, (setting, what, unit, percent, system) in product(DELAYS, TRADED, columns):
        if (rule, percent) in choices([rule]):
            ours = seen[TICK].estimate(rule, percent, delay, system, what)
            yield figure("Trade-off", f"{rule}, {delay}", setting, unit, paper=None, ours=ours, reason=_OURS)


def _figures(seen: Mapping[str, Seen]) -> Iterator[tuple[str, pa.Table]]:
    for item, systems in SWEPT.items():
        curves = [(name, rule, system) for rule in BOTH for name, system in systems.items()]
        yield item, pa.Table.from_pylist(list(_curves(seen, curves, panels=True)))
    for item, system in (("Fig. 6", USUAL), ("Fig. 7", MANY)):
        curves = [(rule if rule != "CBD" else "all (CBD)", rule, system) for rule in PARTIAL]
        yield item, pa.Table.from_pylist(list(_curves(seen, curves, panels=False)))
    yield "Trade-off", pa.Table.from_pylist(list(_plane(seen)))


def _curves(
    seen: Mapping[str, Seen], curves: Iterable[tuple[str, str, System]], *, panels: bool
) -> Iterator[dict[str, Any]]:
    """The points of a figure of the paper, in its panels: a row per curve and c."""
    for (unit, own), delay, (name, rule, system), percent in product(seen.items(), DELAYS, curves, PERCENTS):
        place = 2 * list(DELAYS).index(delay) + BOTH.index(rule) if panels else list(DELAYS).index(delay)
        words = f"{rule}, {delay}" if panels else delay
        yield {
            "panel": f"({'abcd'[place]}) {words}, {unit}",
            "series": name,
            "unit": unit,
            "distribution": delay,
            "rule": rule,
            "percent": percent,
            **_measures(own, rule, percent, delay, system),
        }


def _plane(seen: Mapping[str, Seen]) -> Iterator[dict[str, Any]]:
    """Violations and mean delay of each rule at each c."""
    places = product((USUAL, RARE), seen.items(), DELAYS, choices(TRADED))
    for system, (unit, own), delay, (rule, percent) in places:
        yield {
            "panel": f"rate {system.rate}, {delay}, {unit}",
            "series": rule,
            "unit": unit,
            "distribution": delay,
            "rate": system.rate,
            "percent": percent,
            **_measures(own, rule, percent, delay, system),
        }


def _measures(own: Seen, rule: str, percent: int, delay: str, system: System) -> dict[str, float]:
    """Shares in per cent, with the interval of their mean; delays in ticks."""
    found = own.estimate(rule, percent, delay, system)
    more = {
        name: own.mean(rule, percent, delay, system, name) for name in ("backward", "forward", "pairs", "waited")
    }
    return {
        "violations": 100 * found.mean,
        "low": 100 * max(0.0, found.mean if found.low is None else found.low),
        "high": 100 * (found.mean if found.high is None else found.high),
        "backward": 100 * more["backward"],
        "forward": 100 * more["forward"],
        "pairs": more["pairs"],
        "waited": more["waited"],
        "runs": found.runs,
    }
