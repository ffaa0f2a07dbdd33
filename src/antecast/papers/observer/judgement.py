"""How statements about curves are judged: what rises, what is alike, what is how many times less.

A statement about a plot is judged on every curve and at every c below 100 % of both distributions of delays, and
holds if none of them speaks against it: one counterexample is enough to fail. The counterexamples are named. What
could be noise does not count: two means differ *clearly* if their 95 % confidence intervals do not meet. Where no
violations can be read off the paper's plots there is nothing to judge.

Statements of size are judged by sums over a whole plot, so that a quotient of two small numbers decides nothing;
they are made for large and for small c apart, which behave differently.

What the paper's words ("alike", "significantly") mean in numbers stands in `paper.toml`, with an argument, and is
passed to the functions here; where a mark hangs on it, what was observed says how near it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from statistics import fmean, stdev
from typing import TypeAlias

from antecast.history.confidence import Estimate
from antecast.papers.findings import clearly_less
from antecast.papers.observer.experiment import BOTH, DELAYS, PARTIAL, PERCENTS, SWEPT, USUAL, Seen, System

BELOW = PERCENTS[1:]
LARGE_C, SMALL_C = "c ≥ 60 %", "c ≤ 40 %"
PARTS = {LARGE_C: (80, 60), SMALL_C: (40, 20, 0)}


@dataclass(frozen=True)
class Verdict:
    holds: bool
    observed: str


Case: TypeAlias = tuple[str, int]
"""A curve, named by its distribution and what it is of, and a c in per cent."""


@dataclass
class Tally:
    """On how many cases a statement holds."""

    nothing: float
    """A share of violations below which there is nothing to judge."""
    agree: list[Case] = field(default_factory=list)
    level: list[Case] = field(default_factory=list)
    against: list[Case] = field(default_factory=list)

    def add(self, case: Case, curve: Sequence[Estimate]) -> None:
        """Sort in a case: whether the curve rises."""
        if max(each.mean for each in curve) < self.nothing:
            return
        if clearly_less(curve[-1], curve[0]) or any(clearly_less(b, a) for a, b in pairwise(curve)):
            self.against.append(case)
        elif curve[-1].mean > curve[0].mean:
            self.agree.append(case)
        else:
            self.level.append(case)

    def verdict(self, what: str) -> Verdict:
        cases = len(self.agree) + len(self.level) + len(self.against)
        text = f"{what} in {len(self.agree)} of {cases} cases"
        text += f", level in {len(self.level)}" if self.level else ""
        text += f"; not for {_listed(self.against)}" if self.against else ""
        return Verdict(bool(self.agree) and not self.against, text)


def threshold(curve: Sequence[float]) -> float:
    """The c, as a share, below which a curve over `PERCENTS` rises most.

    >>> threshold([0, 0.1, 0.9, 4.8, 10.5, 13.5])
    0.4
    """
    steps = [after - before for before, after in pairwise(curve)]
    return PERCENTS[steps.index(max(steps))] / 100


def thresholds(seen: Seen, system: System, delay: str = "δ/2") -> Estimate:
    """The threshold of DAPW, from the curve of each seed."""
    curves = zip(*(seen.values("DAPW", percent, delay, system) for percent in PERCENTS), strict=True)
    return Estimate.of(map(threshold, curves))


def _listed(cases: Iterable[Case]) -> str:
    by_curve: dict[str, list[int]] = {}
    for curve, percent in cases:
        by_curve.setdefault(curve, []).append(percent)
    return "; ".join(f"{curve} at {', '.join(map(str, each))} %" for curve, each in by_curve.items())


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _fewer(times: float | None) -> str:
    return (
        "none at all"
        if times is None
        else f"{times:.2g} times fewer"
        if times < 100
        else f"{times:.0f} times fewer"
    )


def ordered(item: str, names: Sequence[str]) -> list[System]:
    return [SWEPT[item][name] for name in names]


def grows(rule: str, item: str, *names: str, nothing: float, what: str = "grows") -> Callable[[Seen], Verdict]:
    """Violations of a rule grow along these systems, at every c."""

    def judge(seen: Seen) -> Verdict:
        tally = Tally(nothing)
        for delay, percent in product(DELAYS, BELOW):
            curve = [seen.estimate(rule, percent, delay, system) for system in ordered(item, names)]
            tally.add((delay, percent), curve)
        return tally.verdict(what)

    return judge


def more_with(rule: str, item: str, less: str, more: str, nothing: float) -> Callable[[Seen], Verdict]:
    """A rule has more violations with one distribution of delays than with the other."""

    def judge(seen: Seen) -> Verdict:
        tally = Tally(nothing)
        for (name, system), percent in product(SWEPT[item].items(), BELOW):
            pair = [seen.estimate(rule, percent, delay, system) for delay in (less, more)]
            tally.add((name, percent), pair)
        return tally.verdict(f"more with {more}")

    return judge


def waiting_helps(rule: str) -> Callable[[Seen], Verdict]:
    """Violations grow as c falls, on every curve of Figures 2 to 5."""

    def judge(seen: Seen) -> Verdict:
        wrong, curves = [], 0
        for delay, (name, system) in product(DELAYS, _systems()):
            curve = [seen.estimate(rule, percent, delay, system) for percent in PERCENTS]
            falls = [percent for (a, b), percent in zip(pairwise(curve), BELOW, strict=True) if clearly_less(b, a)]
            curves += 1
            wrong += [f"{name}, {delay} below {falls[0] + 20} %"] if falls else []
        text = f"on {curves - len(wrong)} of {curves} curves"
        text += f"; violations fall again: {'; '.join(wrong[:4])}" if wrong else ""
        return Verdict(not wrong, text + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""))

    return judge


def quotient(
    seen: Seen, over: str, under: str, delay: str, systems: Iterable[System], percents: Iterable[int]
) -> float | None:
    """Violations by one rule over those by another, summed; None if the other has none."""
    cells = list(product(systems, percents))
    a, b = (sum(seen.mean(rule, percent, delay, system) for system, percent in cells) for rule in (over, under))
    return a / b if b else None


def times_less(
    item: str, names: Sequence[str], part: str, least: float, over: str = "DAPW"
) -> Callable[[Seen], Verdict]:
    """CBD has so many times fewer violations than another rule."""

    def judge(seen: Seen) -> Verdict:
        systems = ordered(item, names) if names else [USUAL]
        found = {delay: quotient(seen, over, "CBD", delay, systems, PARTS[part]) for delay in DELAYS}
        text = ", ".join(f"{_fewer(times)} with {delay}" for delay, times in found.items())
        holds = all(times is None or times >= least for times in found.values())
        return Verdict(holds, f"CBD has {text}")

    return judge


def alike(rules: tuple[str, str], systems: Sequence[System], within: float) -> Callable[[Seen], Verdict]:
    """Two rules have nearly the same violations, at every c."""

    def judge(seen: Seen) -> Verdict:
        apart = {
            delay: max(
                abs(seen.mean(rules[0], percent, delay, system) - seen.mean(rules[1], percent, delay, system))
                for system, percent in product(systems, PERCENTS)
            )
            for delay in DELAYS
        }
        text = ", ".join(f"{100 * value:.1f} with {delay}" for delay, value in apart.items())
        return Verdict(max(apart.values()) <= within, f"points apart at the most: {text}")

    return judge


def sudden(item: str, *names: str, most: float) -> Callable[[Seen], Verdict]:
    """DAPW has a threshold: its largest rise does not come at once but below some small c."""

    def judge(seen: Seen) -> Verdict:
        found = {
            f"{name}, {delay}": threshold([seen.mean("DAPW", percent, delay, system) for percent in PERCENTS])
            for (name, system), delay in product([(name, SWEPT[item][name]) for name in names], DELAYS)
        }
        text = ", ".join(f"{100 * at:.0f} % ({name})" for name, at in found.items())
        return Verdict(max(found.values()) <= most, f"the largest rise is below {text}")

    return judge


def at_most(
    limits: dict[str, float], systems: Sequence[System], delays: Sequence[str] = tuple(DELAYS)
) -> Callable[[Seen], Verdict]:
    """No violations beyond these, by rule."""

    def judge(seen: Seen) -> Verdict:
        most = {rule: largest(seen, rule, systems, delays).mean for rule in limits}
        text = ", ".join(f"{rule} up to {_percent(value)}" for rule, value in most.items())
        return Verdict(all(most[rule] <= limit for rule, limit in limits.items()), text)

    return judge


def largest(
    seen: Seen,
    rule: str,
    systems: Iterable[System],
    delays: Iterable[str] = tuple(DELAYS),
    percents: Iterable[int] = PERCENTS,
) -> Estimate:
    """The largest share of violations over all of these."""
    every = (seen.estimate(rule, *cell) for cell in _cells(systems, delays, percents))
    return max(every, key=lambda each: each.mean)


def _cells(
    systems: Iterable[System], delays: Iterable[str], percents: Iterable[int]
) -> Iterator[tuple[int, str, System]]:
    for system, delay, percent in product(systems, delays, percents):
        yield percent, delay, system


def most_are_in_order(half: float) -> Callable[[Seen], Verdict]:
    """At large ε/δ and small c, most messages still violate nothing."""

    def judge(seen: Seen) -> Verdict:
        found = largest(seen, "DAPW", ordered("Fig. 2", ("ε = 20", "ε = 30")), percents=PARTS[SMALL_C])
        return Verdict(found.mean < half, f"violations of {_percent(found.mean)} at the most")

    return judge


def _systems() -> list[tuple[str, System]]:
    """All systems of Figures 2 to 5, each once."""
    every: dict[System, str] = {}
    for systems in SWEPT.values():
        for name, system in systems.items():
            every.setdefault(system, name)
    return [(name, system) for system, name in every.items()]


def runs_are_similar(spread: float) -> Callable[[Seen], Verdict]:
    """Runs of the same parameters differ by no more than this, as a standard deviation."""

    def judge(seen: Seen) -> Verdict:
        cells = ((rule, *cell) for rule in BOTH for cell in _cells([s for _, s in _systems()], DELAYS, BELOW))
        found = [stdev(seen.values(*cell)) for cell in cells]
        text = (
            f"standard deviation of {100 * fmean(found):.1f} points on average, {100 * max(found):.1f} at the most"
        )
        return Verdict(max(found) <= spread, text)

    return judge


def the_ratio_counts(seen: Seen) -> Verdict:
    """Systems of one ε/δ are nearer to each other than systems in which it is half or twice as large."""

    def apart(a: System, b: System) -> float:
        return fmean(
            abs(seen.mean(rule, percent, delay, a) - seen.mean(rule, percent, delay, b))
            for rule, percent, delay in product(BOTH, BELOW, DELAYS)
        )

    e5, e20 = SWEPT["Fig. 2"]["ε = 5"], SWEPT["Fig. 2"]["ε = 20"]
    d5, d20 = SWEPT["Fig. 3"]["δ = 5"], SWEPT["Fig. 3"]["δ = 20"]
    same = fmean([apart(e5, d20), apart(e20, d5)])
    other = fmean(apart(USUAL, each) for each in (e5, e20, d5, d20))
    text = f"{100 * same:.1f} points apart at the same ratio, {100 * other:.1f} at half or twice it"
    return Verdict(same < other, text)


def whole_wait_is_exact(seen: Seen) -> Verdict:
    pairs = sum(
        sum(seen.values(rule, *cell, "pairs"))
        for rule in BOTH
        for cell in _cells([s for _, s in _systems()], DELAYS, (100,))
    )
    return Verdict(not pairs, f"{pairs:.0f} pairs out of order in {len(_systems())} systems")


def within(rules: Sequence[str], low: float, high: float) -> Callable[[Seen], Verdict]:
    """At c = 100 % these rules have violations in a range."""

    def judge(seen: Seen) -> Verdict:
        found = {(rule, delay): seen.mean(rule, 100, delay, USUAL) for rule, delay in product(rules, DELAYS)}
        text = ", ".join(f"{rule} {_percent(value)} ({delay})" for (rule, delay), value in found.items())
        return Verdict(all(low <= value <= high for value in found.values()), text)

    return judge


def not_enough(nothing: float) -> Callable[[Seen], Verdict]:
    """Physical clocks alone leave violations at c = 100 %."""

    def judge(seen: Seen) -> Verdict:
        found = [seen.estimate(rule, 100, delay, USUAL) for rule, delay in product(("DPC1", "DPC2"), DELAYS)]
        text = f"at least {_percent(min(each.mean for each in found))} at 100 %, where CBD has none"
        return Verdict(all(clearly_less(Estimate(nothing), each) for each in found), text)

    return judge


def two_elements_help(times: float) -> Callable[[Seen], Verdict]:
    """Two elements have so many times fewer violations than physical clocks alone."""

    def judge(seen: Seen) -> Verdict:
        rules = ("DPC1", "DPC2", "2 kn")
        found = {delay: [seen.mean(rule, 100, delay, USUAL) for rule in rules] for delay in DELAYS}
        text = "; ".join(" → ".join(map(_percent, values)) + f" ({delay})" for delay, values in found.items())
        return Verdict(all(one >= times * two for one, _, two in found.values()), f"{', '.join(rules)}: {text}")

    return judge


def continuum(system: System, nothing: float) -> Callable[[Seen], Verdict]:
    """The more of the timestamp, the fewer violations, at every c."""

    def judge(seen: Seen) -> Verdict:
        tally = Tally(nothing)
        for delay, percent in product(DELAYS, PERCENTS):
            tally.add(
                (delay, percent), [seen.estimate(rule, percent, delay, system) for rule in reversed(PARTIAL)]
            )
        return tally.verdict("falls with every element")

    return judge


def costs(taken: Mapping[int, Mapping[str, float]], times: float) -> Verdict:
    """Whether CBD costs far more work than DAPW, from the seconds a message by ε."""
    text = "; ".join(
        f"{1e6 * each['DAPW']:.2g} µs a message by DAPW, {1e6 * each['CBD']:.2g} by CBD (ε = {epsilon})"
        for epsilon, each in taken.items()
    )
    return Verdict(all(each["CBD"] >= times * each["DAPW"] for each in taken.values()), text)
