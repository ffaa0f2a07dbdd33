"""What a person demands of a protocol, and how far one is from it.

A demand is judged by the bad end of the confidence interval where there are several runs, by the only value where
there is one. Unless a share of deliveries is demanded, a protocol must deliver nearly as much as the most complete
one: leaving out what is late makes any protocol look fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from antecast.comparison.standings import Standing
from antecast.comparison.words import with_interval
from antecast.core.settings import format_duration, parse_duration
from antecast.history.confidence import Estimate
from antecast.text.wording import number, share_text, time_text

Aspect: TypeAlias = Literal["violations", "latency", "bytes", "delivery"]

DELIVERY_SLACK = 0.01
"""How much less of all messages a protocol may deliver than the most complete one, if nothing is demanded."""


@dataclass(frozen=True, kw_only=True)
class Demands:
    """None demands nothing, but for `delivery`."""

    violations: float | None = None
    violations_relative: bool = True
    """Whether violations are a share of deliveries, or a number per run."""
    latency: float | None = None
    """Nanoseconds, for the 99th percentile."""
    bytes: float | None = None
    """Control bytes per delivery."""
    delivery: float | None = None
    """The least share of messages delivered."""

    @property
    def stated(self) -> tuple[Aspect, ...]:
        """What was demanded, in so many words."""
        aspects: tuple[Aspect, ...] = ("violations", "latency", "bytes", "delivery")
        return tuple(aspect for aspect in aspects if getattr(self, aspect) is not None)

    @property
    def strict_order(self) -> bool:
        """Whether nothing was said that would allow messages out of order."""
        return not self.violations

    def without(self, aspect: Aspect) -> Demands:
        if aspect == "delivery":
            return replace(self, delivery=0.0)
        change: dict[str, Any] = {aspect: None}
        return replace(self, **change)

    def option(self, aspect: Aspect) -> str:
        """A demand as it was given on the command line."""
        if aspect == "violations":
            assert self.violations is not None
            value = f"{100 * self.violations:.12g}%" if self.violations_relative else f"{self.violations:.12g}"
            return f"--max-violations {value}"
        if aspect == "latency":
            return f"--max-latency {format_duration(round(self.latency or 0))}"
        if aspect == "bytes":
            return f"--max-bytes {self.bytes:.12g}"
        return (
            "the rule on deliveries (--min-delivery)"
            if self.delivery is None
            else f"--min-delivery {100 * self.delivery:.12g}%"
        )


@dataclass(frozen=True)
class Miss:
    """A demand that a protocol does not meet."""

    aspect: Aspect | Literal["runs"]
    text: str
    excess: float
    """How far off, as a share of what is demanded; infinite where it cannot be told."""


def parse_violations(text: str) -> tuple[float, bool]:
    """A share of deliveries such as `0.1%`, or a whole number per run; and whether it is a share.

    >>> parse_violations("0.1%"), parse_violations("0"), parse_violations("25")
    ((0.001, True), (0.0, False), (25.0, False))
    """
    if text.strip().endswith("%"):
        return parse_share(text), True
    if text.strip().isdecimal():
        return float(text), False
    raise ValueError(f"expected a share such as 0.1%, or a whole number of deliveries per run, got {text!r}")


def parse_share(text: str) -> float:
    """
    >>> parse_share("99.5%")
    0.995
    """
    try:
        value = float(text.strip().removesuffix("%").strip())
        if not (text.strip().endswith("%") and 0 <= value <= 100):
            raise ValueError
    except ValueError:
        raise ValueError(f"expected a share from 0% to 100%, such as 99%, got {text!r}") from None
    return float(f"{value / 100:.12g}")


def parse_latency(text: str) -> float:
    """Nanoseconds of a duration above zero."""
    ns = parse_duration(text)
    if ns <= 0:
        raise ValueError(f"expected a duration above zero, got {text!r}")
    return float(ns)


def misses(each: Standing, demands: Demands, all_of_them: Sequence[Standing]) -> list[Miss]:
    """Everything that stands between a protocol and these demands."""
    if each.failed or not each.runs:
        what = f"{each.failed} of {each.failed + each.runs} runs failed: {each.error}" if each.failed else "no run"
        return [Miss("runs", what, float("inf"))]
    if each.latency_p99 is None or each.control_bytes is None or each.violation_share is None:
        return [Miss("runs", "it delivered nothing", float("inf"))]
    found = []
    if demands.violations is not None:
        relative = demands.violations_relative
        estimate = each.violation_share if relative else each.violation_count
        assert estimate is not None  # as is the share
        plain = share_text if relative else number
        what = f"violations, {with_interval(estimate, plain)} {'of deliveries' if relative else 'per run'}"
        found += _above("violations", what, estimate, demands.violations, demands)
    if demands.latency is not None:
        what = f"99th percentile of latency, {with_interval(each.latency_p99, time_text)}"
        found += _above("latency", what, each.latency_p99, demands.latency, demands)
    if demands.bytes is not None:
        what = f"control bytes per delivery, {with_interval(each.control_bytes)}"
        found += _above("bytes", what, each.control_bytes, demands.bytes, demands)
    found += _delivers_too_little(each, demands, all_of_them)
    return found


def upper(estimate: Estimate) -> float:
    return estimate.mean if estimate.high is None else estimate.high


def _above(aspect: Aspect, what: str, estimate: Estimate, limit: float, demands: Demands) -> list[Miss]:
    if upper(estimate) <= limit:
        return []
    only = " at the upper end" if estimate.mean <= limit else ""
    excess = upper(estimate) / limit - 1 if limit else float("inf")
    return [Miss(aspect, f"{what}, above {demands.option(aspect)}{only}", excess)]


def _delivers_too_little(each: Standing, demands: Demands, all_of_them: Sequence[Standing]) -> list[Miss]:
    delivered = each.delivered
    if delivered is None:  # a network of one node
        return []
    text = f"delivers {with_interval(delivered, share_text)} of all messages"
    if demands.delivery is not None:
        low = delivered.mean if delivered.low is None else delivered.low
        only = " at the lower end" if delivered.mean >= demands.delivery else ""
        if low >= demands.delivery:
            return []
        return [Miss("delivery", f"{text}, below {demands.option('delivery')}{only}", 1 - low / demands.delivery)]
    most = max(other.delivered.mean for other in all_of_them if other.delivered is not None)
    if delivered.mean >= most - DELIVERY_SLACK:
        return []
    return [Miss("delivery", f"{text}, where others deliver {share_text(most)}", 1 - delivered.mean / most)]
