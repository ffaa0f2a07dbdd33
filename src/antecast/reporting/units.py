"""One unit for one quantity, wherever on a page it is told.

The unit is chosen once from the values that a page shows, and lies between the smallest and the largest of them:
2 ms and 3 s are 2 and 3,000 ms, 1 ms and an hour are 0.001 and 3,600 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from antecast.history.confidence import Estimate
from antecast.text.wording import number, time_unit

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_SHOWN = 0.01
"""Uncertainty below this part of a mean is not worth showing."""


@dataclass(frozen=True)
class Unit:
    size: float
    sign: str

    def of(self, value: float) -> float:
        return value / self.size

    def __call__(self, value: float | None) -> str:
        """
        >>> Unit(1e6, "ms")(162_400_000), Unit(1e6, "ms")(None)
        ('162 ms', '–')
        """
        if value is None or not isfinite(value):
            return "–"
        return f"{number(value / self.size)} {self.sign}".rstrip()

    def interval(self, estimate: Estimate | None) -> str:
        """A mean with half its confidence interval, if it has one that shows.

        >>> Unit(1e6, "ms").interval(Estimate(2e8, 1.9e8, 2.1e8, 3))
        '200 ± 10 ms'
        """
        if estimate is None:
            return "–"
        spread = 0.0 if estimate.high is None else estimate.high - estimate.mean
        if spread <= abs(estimate.mean) * _SHOWN:
            return self(estimate.mean)
        off = number(float(f"{spread / self.size:.2g}"))
        return f"{number(estimate.mean / self.size)} ± {off} {self.sign}".rstrip()

    def retell(self, text: str) -> str:
        """A text that was written for itself, its times in this unit.

        >>> Unit(1e6, "ms").retell("half by 1.5 ± 0.2 s (--max-latency 5s), 24 h at most")
        'half by 1,500 ± 200 ms (--max-latency 5s), 86,400,000 ms at most'
        """

        def told(found: re.Match[str]) -> str:
            scale = _TIMES[found[3]] / self.size
            first, spread = (part and number(float(part.replace(",", "")) * scale) for part in found.group(1, 2))
            return f"{first} ± {spread} {self.sign}" if spread else f"{first} {self.sign}"

        return _TIME.sub(told, text)


_TIMES = {"h": 3600e9, "min": 60e9, "s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1.0}
_TIME = re.compile(r"(?<![\w.])(\d[\d,]*\.?\d*)(?: ± (\d[\d,]*\.?\d*))? (h|min|s|ms|µs|ns)\b")

PLAIN = Unit(1.0, "")
PER_CENT = Unit(0.01, "%")


def time_for(values: Iterable[float | None]) -> Unit:
    """The unit for times in nanoseconds.

    >>> time_for([2e6, 3e9]), time_for([1e6, 3.6e12]), time_for([])
    (Unit(size=1000000, sign='ms'), Unit(size=1000000000, sign='s'), Unit(size=1000000000, sign='s'))
    """
    middle = _middle(values)
    return Unit(*(time_unit(middle) if middle else (10**9, "s")))


def size_for(values: Iterable[float | None]) -> Unit:
    """The unit for numbers of bytes.

    >>> size_for([900, 4_000]), size_for([64])
    (Unit(size=1000.0, sign='kB'), Unit(size=1.0, sign='B'))
    """
    middle = _middle(values)
    return next((Unit(*each) for each in _SIZES if middle >= each[0]), Unit(1.0, "B"))


def _middle(values: Iterable[float | None]) -> float:
    known = [value for value in values if value and isfinite(value)]
    return float((min(known) * max(known)) ** 0.5) if known else 0.0
