"""Means for people, with how far they may be off."""

from __future__ import annotations

from collections.abc import Callable

from antecast.history.confidence import Estimate
from antecast.text.wording import number, share_text, time_text, time_unit

_SHOWN = 0.01
"""Uncertainty below this share of a mean is not worth showing."""


def size(value: float) -> str:
    """Always in bytes: what is compared has one unit."""
    return f"{number(value)} B"


def with_interval(estimate: Estimate | None, plain: Callable[[float], str] = number) -> str:
    """A mean with half its confidence interval, if it has one that shows.

    >>> with_interval(Estimate(2e8, 1.9e8, 2.1e8, 3), time_text), with_interval(Estimate(64, 60, 68, 3), size)
    ('200 ± 10 ms', '64 ± 4 B')
    >>> with_interval(Estimate(0.5), share_text), with_interval(None)
    ('50.00 %', '–')
    """
    if estimate is None:
        return "–"
    spread = 0.0 if estimate.high is None else estimate.high - estimate.mean
    if spread <= abs(estimate.mean) * _SHOWN:
        return plain(estimate.mean)
    units: dict[Callable[[float], str], tuple[float, str]] = {
        time_text: time_unit(estimate.mean),
        share_text: (0.01, "%"),
        size: (1, "B"),
    }
    scale, unit = units.get(plain, (1, ""))
    return f"{number(estimate.mean / scale)} ± {number(float(f'{spread / scale:.2g}'))} {unit}".rstrip()
