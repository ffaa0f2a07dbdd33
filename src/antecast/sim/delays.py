"""Delay models: how long a frame travels. Each link draws from a stream of its own.

A delay may depend on when a frame is sent (`growing`); a frame on its way is not slowed down after that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

import msgspec

from antecast.core.compiled import part
from antecast.core.settings import Duration, Settings, parse_duration
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream, exp, log


class Constant(Settings, frozen=True, kw_only=True, tag_field="kind", tag="constant"):
    value: Duration


class Uniform(Settings, frozen=True, kw_only=True, tag_field="kind", tag="uniform"):
    low: Duration
    high: Duration

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) must not exceed high ({self.high})")


class Normal(Settings, frozen=True, kw_only=True, tag_field="kind", tag="normal"):
    """Cut at zero: a negative draw counts as no delay."""

    mean: Duration
    stdev: Duration


class Exponential(Settings, frozen=True, kw_only=True, tag_field="kind", tag="exponential"):
    mean: Duration
    least: Duration = Duration(0)
    """Added to every draw."""


class Triangular(Settings, frozen=True, kw_only=True, tag_field="kind", tag="triangular"):
    """Triangular: its density rises evenly from `low` to `mode` and falls evenly to `high`. With the mode in the
    middle it is the sum of two uniform times."""

    low: Duration
    mode: Duration
    high: Duration

    def __post_init__(self) -> None:
        if not self.low <= self.mode <= self.high or self.low == self.high:
            raise ValueError(f"expected low ≤ mode ≤ high, low < high, got {self.low}, {self.mode}, {self.high}")


class Pareto(Settings, frozen=True, kw_only=True, tag_field="kind", tag="pareto"):
    """Heavy-tailed: most delays are near the least, a few are orders of magnitude longer."""

    least: Duration
    shape: Annotated[float, msgspec.Meta(gt=0)] = 1.5
    most: Duration = Duration(3600 * 10**9)
    """Draws beyond this are cut to it."""


class Growing(Settings, frozen=True, kw_only=True, tag_field="kind", tag="growing"):
    """From one delay to another between two instants, in a straight line; constant before and after."""

    low: Duration
    """Until `start`."""
    high: Duration
    """From `until` on. If it is the smaller of the two, delays shrink."""
    start: Duration = Duration(0)
    until: Duration
    spread: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Each draw differs from the line by up to this share of it, either way, uniformly."""

    def __post_init__(self) -> None:
        if self.start >= self.until:
            raise ValueError(f"start ({self.start}) must come before until ({self.until})")

    def line(self, now: int) -> int:
        """The delay at an instant, before it is spread."""
        share = (min(max(now, self.start), self.until) - self.start) / (self.until - self.start)
        return self.low + int((self.high - self.low) * share)


Delay: TypeAlias = Constant | Uniform | Normal | Exponential | Triangular | Pareto | Growing


def expand_delay(owner: Settings, delay: object, field: str = "delay") -> None:
    """A delay written as text is a constant one."""
    if isinstance(delay, str):
        try:
            value = Duration(parse_duration(delay))
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from None
        if value < 0:
            raise ValueError(f"{field}: expected a duration of zero or more, got {delay!r}")
        msgspec.structs.force_setattr(owner, field, Constant(value=value))


def sampler(model: Delay, clock: Scheduler | None = None) -> Callable[[Stream], int]:
    """A function that draws the delay, in nanoseconds, of a frame that is sent now from a stream.

    Without a clock it is always time 0, which matters only to delays that grow.
    """
    match model:
        case Constant(value=value):
            return lambda _: value
        case Uniform(low=low, high=high):
            span = high - low + 1
            return lambda stream: low + ((stream.bits() * span) >> 64)
        case Normal(mean=mean, stdev=stdev):
            return lambda stream: drawn if (drawn := round(mean + stdev * stream.normal())) > 0 else 0
        case Exponential(mean=mean, least=least):
            return lambda stream: least + round(mean * stream.exponential())
        case Triangular(low=low, mode=mode, high=high):
            return lambda stream: round(triangular(low, mode, high, stream.uniform()))
        case Pareto(least=least, shape=shape, most=most):
            return lambda stream: min(most, round(pareto(least, shape, stream.uniform())))
        case Growing(line=line, spread=spread):
            clock = Scheduler() if clock is None else clock
            if not spread:
                return lambda _: line(clock.now)
            return lambda stream: int(line(clock.now) * (1.0 + spread * (2.0 * stream.uniform() - 1.0)))


@part
def triangular(low: float, mode: float, high: float, p: float) -> float:
    """The value below which a share p lies."""
    span, rise = high - low, mode - low
    if p * span <= rise:
        return low + math.sqrt(p * span * rise)
    return high - math.sqrt((1.0 - p) * span * (high - mode))


_BEYOND: Final = 100.0
"""e to this power, in nanoseconds, is longer than every duration; draws of small shapes would go beyond floating
point."""


@part
def pareto(least: float, shape: float, p: float) -> float:
    """The value above which a share p lies, or one that is longer than every duration."""
    return least * exp(min(-log(p) / shape, _BEYOND))
