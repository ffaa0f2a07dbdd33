"""Where each protocol stands: its runs over all seeds, summed up.

A delivery is a row `deliver` of the log, those of a node's own messages included, as everywhere in Antecast;
latency leaves out the own ones. A violation is a delivery before something of its causal past that the node
delivers later, a second one, or one of something never or not yet broadcast. Means are over seeds, with
Student's interval of 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from statistics import fmean
from typing import Any

import pyarrow as pa

from antecast.comparison.candidates import Candidate
from antecast.comparison.measures import CURVE_STEPS
from antecast.core.settings import plain_settings
from antecast.history.confidence import Estimate
from antecast.protocols import Guarantee


class Order(StrEnum):
    """What became of causal order, the best first."""

    GUARANTEED = "guaranteed"
    KEPT = "kept here, not promised"
    VIOLATED = "violated, not promised"
    UNTRIED = "nothing delivered"
    BROKEN = "promise broken"

    @property
    def rank(self) -> int:
        return list(Order).index(self)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One protocol that ran. Estimates are None where the runs do not say, as when all of them failed."""

    name: str
    title: str = ""
    promises: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    """What it assumes and this network does not have."""
    settings: str = ""
    """What it ran with beyond its defaults."""
    runs: int = 0
    """Runs that ended well."""
    failed: int = 0
    error: str = ""
    """Of the first run that failed."""
    offered: int = 0
    """Broadcasts in all runs."""
    deliveries: int = 0
    early: int = 0
    """Deliveries before something of their causal past."""
    late: int = 0
    """The mirror image: deliveries after something that depends on them."""
    pairs: int | None = None
    """Pairs of messages delivered in the wrong order; None where there were too many to count."""
    duplicates: int = 0
    other_violations: int = 0
    """Deliveries of messages never broadcast, or before their broadcast."""
    broken: tuple[str, ...] = ()
    """The promises that some run broke."""
    elsewhere: int | None = None
    """Deliveries at other nodes than the message's own, in all runs; None where no run ended."""
    missing: int = 0
    violation_count: Estimate | None = None
    """A run."""
    violation_share: Estimate | None = None
    """Of deliveries."""
    delivered: Estimate | None = None
    """Share of what every other node could deliver."""
    latency_mean: Estimate | None = None
    latency_p50: Estimate | None = None
    latency_p99: Estimate | None = None
    control_bytes: Estimate | None = None
    """A delivery: all that was sent but payload."""
    control_bytes_frame: Estimate | None = None
    frames: Estimate | None = None
    """A delivery."""
    messages_mean: Estimate | None = None
    messages_peak: Estimate | None = None
    entries_mean: Estimate | None = None
    entries_peak: Estimate | None = None

    @property
    def violations(self) -> int:
        return self.early + self.duplicates + self.other_violations

    @property
    def order(self) -> Order:
        if self.broken:
            return Order.BROKEN
        if self.violations:
            return Order.VIOLATED
        if self.elsewhere == 0:
            return Order.UNTRIED
        return Order.GUARANTEED if Guarantee.CAUSAL in self.promises and not self.unmet else Order.KEPT

    @property
    def keeps_order(self) -> bool:
        """Whether nothing was delivered out of causal order, by promise or not."""
        return self.order in (Order.GUARANTEED, Order.KEPT)


def standing(candidate: Candidate, runs: Sequence[Mapping[str, Any]]) -> Standing:
    """Sum up the runs of a protocol: rows of `runs` with what `measures` found beside them."""
    good = [run for run in runs if run["error"] is None]
    bad = [run for run in runs if run["error"] is not None]

    def total(name: str) -> int:
        return sum(run[name] for run in good)

    def over(values: Sequence[float | None]) -> Estimate | None:
        known = [value for value in values if value is not None]
        return Estimate.of(known) if known else None

    def share(parts: Sequence[int], wholes: Sequence[int]) -> Estimate | None:
        """No share is below 0 or above 1, whatever Student says."""
        mean = over([_ratio(part, whole) for part, whole in zip(parts, wholes, strict=True)])
        if mean is None or mean.low is None or mean.high is None:
            return mean
        return replace(mean, low=max(0.0, mean.low), high=min(1.0, mean.high))

    def memory(what: str, which: str) -> Estimate | None:
        return over([None if run["memory"][what] is None else run["memory"][what][which] for run in good])

    counts = [run["early"] + run["duplicates"] + run["before_broadcast"] + run["unknown"] for run in good]
    spec = candidate.specification
    return Standing(
        name=candidate.name,
        title=spec.title,
        promises=tuple(sorted(spec.guarantees)),
        assumes=tuple(str(need) for need in candidate.needs),
        unmet=tuple(str(need) for need in candidate.unmet),
        settings=describe_settings(candidate),
        runs=len(good),
        failed=len(bad),
        error=bad[0]["error"] if bad else "",
        offered=total("offered"),
        deliveries=total("deliveries"),
        early=total("early"),
        late=total("late"),
        pairs=None if any(run["pairs"] is None for run in good) else total("pairs"),
        duplicates=total("duplicates"),
        other_violations=total("before_broadcast") + total("unknown"),
        broken=tuple(sorted({promise for run in good for promise in filter(None, run["broken"].split(", "))})),
        elsewhere=total("possible") - total("missing") if good else None,
        missing=total("missing"),
        violation_count=over(counts),
        violation_share=share(counts, [run["deliveries"] for run in good]),
        delivered=share([run["possible"] - run["missing"] for run in good], [run["possible"] for run in good]),
        latency_mean=over([run["latency_mean_ns"] for run in good]),
        latency_p50=over([run["latency_p50_ns"] for run in good]),
        latency_p99=over([run["latency_p99_ns"] for run in good]),
        control_bytes=over([_ratio(run["control_bytes"], run["deliveries"]) for run in good]),
        control_bytes_frame=over([_ratio(run["control_bytes"], run["frames"]) for run in good]),
        frames=over([_ratio(run["frames"], run["deliveries"]) for run in good]),
        messages_mean=memory("messages", "mean"),
        messages_peak=memory("messages", "peak"),
        entries_mean=memory("entries", "mean"),
        entries_peak=memory("entries", "peak"),
    )


def describe_settings(candidate: Candidate) -> str:
    """The settings beyond the defaults, such as `repair=100ms`, and which were chosen to bear the network."""
    whole = plain_settings(candidate.specification.configure(candidate.settings))
    text = ", ".join(f"{key}={whole[key]}" for key in candidate.settings)
    return f"{text} (so that it bears this network)" if candidate.adjusted else text


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def plain(standing: Standing) -> dict[str, Any]:
    """A standing as one flat row: estimates as three columns, the mean, and the ends of the interval."""
    row: dict[str, Any] = {}
    for field in fields(standing):
        value = getattr(standing, field.name)
        if "Estimate" in str(field.type):
            ends = (None, None, None) if value is None else (value.mean, value.low, value.high)
            row |= dict(zip((field.name, f"{field.name}_low", f"{field.name}_high"), ends, strict=True))
        else:
            row[field.name] = list(value) if isinstance(value, tuple) else value
    return row | {"violations": standing.violations, "order": str(standing.order)}


CURVE = pa.schema(
    [
        pa.field("protocol", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("share", pa.float64()),
        pa.field("latency_ns", pa.float64()),
    ]
)
"""After how long a share of all possible deliveries had been made; without a seed, the mean of all seeds."""


def curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> pa.Table:
    """The latency curves of all runs by protocol, and of each protocol as far as all its seeds go."""
    rows: list[tuple[str, int | None, float, float]] = []
    for name, group in runs.items():
        good = [run for run in group if run["error"] is None]
        for run in good:
            rows += [(name, run["seed"], _step(i), float(at)) for i, at in enumerate(run["curve"])]
        together = zip(*(run["curve"] for run in good), strict=False)
        rows += [(name, None, _step(i), fmean(each)) for i, each in enumerate(together)]
    return pa.Table.from_pylist([dict(zip(CURVE.names, row, strict=True)) for row in rows], CURVE)


def _step(index: int) -> float:
    return (index + 1) / CURVE_STEPS
