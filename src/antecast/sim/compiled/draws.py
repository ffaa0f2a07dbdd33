"""Random streams and delays for compiled kernels: the very draws of `sim.streams` and `sim.delays`.

Constants are 64-bit unsigned on purpose: where signed and unsigned numbers meet, Numba would turn to floating
point. A delay model is an array of six numbers that `delay_model` makes and `delay` reads.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import part
from antecast.core.settings import format_duration
from antecast.sim.delays import (
    Constant,
    Exponential,
    Growing,
    Normal,
    Pareto,
    Triangular,
    Uniform,
    pareto,
    triangular,
)
from antecast.sim.streams import log, normal_quantile

Model: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = Any
"""A whole number: an `int` to Python, one of several widths to Numba."""

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31, _U32 = (np.uint64(shift) for shift in (11, 27, 30, 31, 32))
_LOW: Final = np.uint64(0xFFFFFFFF)
_UNIT: Final = 2.0**-53

CONSTANT, UNIFORM, GROWING, NORMAL, EXPONENTIAL, TRIANGULAR, PARETO = (float(kind) for kind in range(7))


def delay_model(delay: object, *, field: str = "network.delay", bounded: bool = False) -> Model:
    """A delay model as numbers: its kind, and up to five parameters.

    Some kernels need a bound on delays (`longest_delay`); for them, kinds without one are refused.
    """
    match delay:
        case Constant(value=value):
            return _exact(field, CONSTANT, value)
        case Uniform(low=low, high=high):
            return _exact(field, UNIFORM, low, high - low + 1)
        case Growing(low=low, high=high, start=start, until=until, spread=spread):
            return _exact(field, GROWING, low, high, start, until, spread)
        case Normal(mean=mean, stdev=stdev) if not bounded:
            return _exact(field, NORMAL, mean, stdev)
        case Exponential(mean=mean, least=least) if not bounded:
            return _exact(field, EXPONENTIAL, mean, least)
        case Triangular(low=low, mode=mode, high=high) if not bounded:
            return _exact(field, TRIANGULAR, low, mode, high)
        case Pareto(least=least, shape=shape, most=most) if not bounded:
            return _exact(field, PARETO, least, most, shape)
    kind = getattr(type(delay), "__struct_config__", None)
    named = getattr(kind, "tag", type(delay).__name__)
    raise ConfigurationError(f"kernels know constant, uniform and growing delays, not {named}", field=field)


def longest_delay(delay: object) -> int:
    """No draw of a delay model is longer, in nanoseconds."""
    match delay:
        case Constant(value=value):
            return value
        case Uniform(high=high):
            return high
        case Growing(low=low, high=high, spread=spread):
            return math.ceil(max(low, high) * (1 + spread))
    raise TypeError(f"no bound is known for {delay}")


def _exact(field: str, *numbers: float) -> Model:
    """Numbers as floats that are still whole: nanoseconds up to 2⁵³, some 104 days."""
    if max(numbers) > 1 << 53:
        problem = f"kernels know delays of up to 104 days, not {format_duration(int(max(numbers)))}"
        raise ConfigurationError(problem, field=field)
    return np.array([*numbers, *[0.0] * (6 - len(numbers))], np.float64)


@part
def mix(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits: draw number `counter` of the stream `key`."""
    z = key + counter * _GOLDEN
    z = (z ^ (z >> _U30)) * _FIRST
    z = (z ^ (z >> _U27)) * _SECOND
    return z ^ (z >> _U31)


@part
def child(key: np.uint64, index: Whole) -> np.uint64:
    """The key of a stream for an index, as `stream_key` makes it."""
    return mix(key, np.uint64(index + 1))


@part
def below(bits: np.uint64, n: Whole) -> Whole:
    """64 random bits as an integer in 0 … n − 1, for n below 2³²; the upper half of the product."""
    m = np.uint64(n)
    return np.int64(((bits >> _U32) * m + (((bits & _LOW) * m) >> _U32)) >> _U32)


@part
def wide_below(bits: np.uint64, n: Whole) -> Whole:
    """The same for any n below 2⁶³."""
    m = np.uint64(n)
    high, low = bits >> _U32, bits & _LOW
    m_high, m_low = m >> _U32, m & _LOW
    middle = high * m_low + ((low * m_low) >> _U32)
    other = low * m_high + (middle & _LOW)
    return np.int64(high * m_high + (middle >> _U32) + (other >> _U32))


@part
def uniform(bits: np.uint64) -> float:
    """64 random bits as a number strictly between 0 and 1."""
    return (np.float64(bits >> _U11) + 0.5) * _UNIT


@part
def delay(model: Model, key: Whole, counter: Whole, now: Whole) -> Whole:
    """Draw number `counter` of a link's delays, for a frame sent now."""
    if model[0] == CONSTANT:
        return np.int64(model[1])
    if model[0] == UNIFORM:
        return np.int64(model[1]) + wide_below(mix(key, np.uint64(counter)), np.int64(model[2]))
    if model[0] != GROWING:
        return _drawn(model, uniform(mix(key, np.uint64(counter))))
    low, start, until = np.int64(model[1]), np.int64(model[3]), np.int64(model[4])
    share = np.float64(min(max(now, start), until) - start) / np.float64(until - start)
    line = low + np.int64(np.float64(np.int64(model[2]) - low) * share)
    if model[5] == 0.0:
        return line
    spread = 2.0 * uniform(mix(key, np.uint64(counter))) - 1.0
    return np.int64(np.float64(line) * (1.0 + model[5] * spread))


@part
def _drawn(model: Model, p: float) -> Whole:
    """The delay below which a share p of all lie."""
    if model[0] == NORMAL:
        return max(np.int64(0), np.int64(np.rint(model[1] + model[2] * normal_quantile(p))))
    if model[0] == EXPONENTIAL:
        return np.int64(model[2]) + np.int64(np.rint(model[1] * -log(p)))
    if model[0] == TRIANGULAR:
        return np.int64(np.rint(triangular(model[1], model[2], model[3], p)))
    drawn = pareto(model[1], model[3], p)
    return np.int64(model[2]) if drawn >= model[2] else np.int64(np.rint(drawn))


@part
def draws(model: Model) -> bool:
    """Whether a delay takes a number from its stream."""
    return bool(model[0] != CONSTANT and (model[0] != GROWING or model[5] != 0.0))
