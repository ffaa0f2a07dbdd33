"""Numbers for people: three digits, a unit, and how far the mean may be off."""

from __future__ import annotations

from antecast.studies.findings import Estimate

_SHOWN = 0.01
"""Uncertainty below this part of a mean is not worth showing."""

_TIMES = ((3600e9, "h"), (60e9, "min"), (1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def number(value: float) -> str:
    """
    >>> number(1234.5), number(12.345), number(0.01234), number(0)
    ('1,234', '12.3', '0.0123', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.3g}'):g}"


def duration(ns: float) -> str:
    """
    >>> duration(312_400_000), duration(5e9), duration(90 * 60e9)
    ('312 ms', '5 s', '1.5 h')
    """
    scale, unit = _unit(ns)
    return f"{number(ns / scale)} {unit}"


def share(value: float) -> str:
    """
    >>> share(0), share(1), share(0.99996), share(0.1234), share(0.00001234)
    ('0 %', '100 %', '99.996 %', '12.3 %', '0.00123 %')
    """
    if 0.999 < value < 1:
        return f"{100 * value:.3f} %"
    return f"{number(100 * value)} %"


def size(value: float) -> str:
    return f"{number(value)} B"


def with_interval(estimate: Estimate | None, form: str = "number") -> str:
    """A mean with half its confidence interval, if it has one that shows.

    >>> with_interval(Estimate(2e8, 1.9e8, 2.1e8, 3), "duration")
    '200 ± 10 ms'
    >>> with_interval(Estimate(0.5), "share"), with_interval(None)
    ('50 %', '–')
    """
    if estimate is None:
        return "–"
    spread = 0.0 if estimate.high is None else estimate.high - estimate.mean
    plain = {"number": number, "duration": duration, "share": share, "size": size}[form](estimate.mean)
    if spread <= abs(estimate.mean) * _SHOWN:
        return plain
    scale, unit = {
        "number": (1.0, ""),
        "duration": _unit(estimate.mean),
        "share": (0.01, "%"),
        "size": (1.0, "B"),
    }[form]
    return f"{number(estimate.mean / scale)} ± {_rough(spread / scale)} {unit}".rstrip()


def _rough(value: float) -> str:
    """Two digits are enough for an uncertainty."""
    return number(float(f"{value:.2g}"))


def _unit(ns: float) -> tuple[float, str]:
    return next(((scale, unit) for scale, unit in _TIMES if abs(ns) >= scale), _TIMES[-1] if ns else _TIMES[2])
