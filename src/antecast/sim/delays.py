"""Delay models: how long a frame travels. Each link draws from a stream of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Annotated, TypeAlias

import msgspec

from antecast.core.settings import Duration, Settings
from antecast.sim.streams import Stream, exp


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


class Pareto(Settings, frozen=True, kw_only=True, tag_field="kind", tag="pareto"):
    """Heavy-tailed: most delays are near the least, a few are orders of magnitude above."""

    least: Duration
    shape: Annotated[float, msgspec.Meta(gt=0)] = 1.5
    most: Duration = Duration(3600 * 10**9)
    """Draws beyond this are cut to it."""


Delay: TypeAlias = Constant | Uniform | Normal | Exponential | Pareto


def sampler(model: Delay, stream: Stream) -> Callable[[], int]:
    """A function that draws the next delay in nanoseconds."""
    match model:
        case Constant(value=value):
            return repeat(value).__next__
        case Uniform(low=low, high=high):
            span, bits = high - low + 1, stream.bits
            return lambda: low + ((bits() * span) >> 64)
        case Normal(mean=mean, stdev=stdev):
            return lambda: max(0, round(mean + stdev * stream.normal()))
        case Exponential(mean=mean, least=least):
            return lambda: least + round(mean * stream.exponential())
        case Pareto(least=least, shape=shape, most=most):
            return lambda: min(most, round(least * exp(stream.exponential() / shape)))
