"""Random streams: counter-based, keyed by (seed, purpose, index), the same on every machine.

A stream is a key and a counter; the n-th draw is a fixed function of both. Who else draws, and
when, cannot change it, so a faster engine that asks in another order makes the very same run.

The mixer is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators"). Logarithm,
exponential and the normal quantile are computed here, for compiled kernels too, with the four operations and the
square root, which IEEE 754 rounds in one way only; the functions of a system's libm may differ in the last bit
from one machine to the next, and a bit is enough to change a run.
"""

from __future__ import annotations

import math
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from antecast.core.compiled import part

MASK: Final = (1 << 64) - 1
GOLDEN: Final = 0x9E3779B97F4A7C15
_UNIT: Final = 2.0**-53


def mix(key: int, counter: int) -> int:
    """64 random bits: draw number `counter` of the stream `key`."""
    z = (key + counter * GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def stream_key(seed: int, purpose: str, *index: int) -> int:
    """The key of the stream for a purpose, such as ("delay", sender, receiver)."""
    key = _purpose_key(seed, purpose)
    for each in index:
        key = mix(key, (each & MASK) + 1)
    return key


@lru_cache(maxsize=1024)
def _purpose_key(seed: int, purpose: str) -> int:
    digest = blake2b(purpose.encode(), digest_size=8, key=(seed & MASK).to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big")


class Stream:
    """A stream with its own counter, for one who draws in order.

    >>> a, b = Stream(7, "delay", 0, 1), Stream(7, "delay", 0, 1)
    >>> a.below(100) == b.below(100)
    True
    """

    __slots__ = ("_counter", "_key")

    def __init__(self, seed: int, purpose: str, *index: int) -> None:
        self._key = stream_key(seed, purpose, *index)
        self._counter = 0

    def bits(self) -> int:
        """64 random bits."""
        counter = self._counter = self._counter + 1
        # `mix`, written out: this is drawn for every frame.
        z = (self._key + counter * GOLDEN) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """An integer in 0 … n − 1 (the bias is below n / 2⁶⁴)."""
        return (self.bits() * n) >> 64

    def uniform(self) -> float:
        """A number strictly between 0 and 1."""
        counter = self._counter = self._counter + 1
        return ((mix(self._key, counter) >> 11) + 0.5) * _UNIT

    def normal(self) -> float:
        """A standard normal variate."""
        counter = self._counter = self._counter + 1
        # `uniform` with `mix`, written out, as above.
        z = (self._key + counter * GOLDEN) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        p = (((z ^ (z >> 31)) >> 11) + 0.5) * _UNIT
        q = p - 0.5
        if not -0.425 <= q <= 0.425:
            return normal_quantile(p)
        return q * _ratio(_CENTRE, 0.180625 - q * q)  # 17 of 20 draws

    def exponential(self) -> float:
        """An exponential variate of mean 1."""
        return -log(self.uniform())

    def sample(self, n: int, k: int) -> list[int]:
        """k different integers below n, in the order drawn."""
        chosen: dict[int, None] = {}
        while len(chosen) < min(k, n):
            chosen[self.below(n)] = None
        return list(chosen)


_LN2_HIGH: Final = 0.693147180369123816490
_LN2_LOW: Final = 1.90821492927058770002e-10
_SQRT_HALF: Final = 0.70710678118654752440


@part
def log(x: float) -> float:
    """Natural logarithm of a positive number, by the series of atanh on [√½, √2)."""
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    series = ((((1 / 21 * z + 1 / 19) * z + 1 / 17) * z + 1 / 15) * z + 1 / 13) * z + 1 / 11
    series = ((((series * z + 1 / 9) * z + 1 / 7) * z + 1 / 5) * z + 1 / 3) * z + 1.0
    return exponent * _LN2_HIGH + (2.0 * s * series + exponent * _LN2_LOW)


@part
def exp(x: float) -> float:
    """Exponential of a number of ordinary size, by its series on half of [−ln 2, ln 2]."""
    k = math.floor(x * 1.4426950408889634 + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 1.0
    for n in range(14, 0, -1):
        series = 1.0 + series * r / n
    return math.ldexp(series, k)


# Coefficients of Wichura's algorithm AS 241 (PPND16), highest power first.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 0.0227238449892691845833, 0.241780725177450611770, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 0.0151986665636164571966, 0.148103976427480074590,
     0.689767334985100004550, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.00124266094738807843860, 0.0265321895265761230930,
     0.296560571828504891230, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 0.0148753612908506148525, 0.136929880922735805310, 0.599832206555887937690, 1.0),
)  # fmt: skip


@part
def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], r: float) -> float:
    (a0, a1, a2, a3, a4, a5, a6, a7), (b0, b1, b2, b3, b4, b5, b6, b7) = coefficients
    above = ((((((a0 * r + a1) * r + a2) * r + a3) * r + a4) * r + a5) * r + a6) * r + a7
    return above / (((((((b0 * r + b1) * r + b2) * r + b3) * r + b4) * r + b5) * r + b6) * r + b7)


@part
def normal_quantile(p: float) -> float:
    """The standard normal variate below which a share p lies (Wichura, AS 241)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        return q * _ratio(_CENTRE, 0.180625 - q * q)
    r = math.sqrt(-log(min(p, 1.0 - p)))
    value = _ratio(_MIDDLE, r - 1.6) if r <= 5.0 else _ratio(_TAIL, r - 5.0)
    return -value if q < 0.0 else value
