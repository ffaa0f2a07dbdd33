"""Moments on a line on which one that lies far from the others does not squeeze them.

A gap between two moments that is longer than all others together, but for gaps as long, is drawn short and marked.
At most every fourth gap is: where all are alike, none is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from antecast.reporting.scale import round_steps, tick_text
from antecast.reporting.units import Unit

_SHORT = 0.2
"""What a gap that is drawn short takes, as a part of all that is not."""
_TICKS = 7
_MARGIN = 0.025


@dataclass(frozen=True)
class Timeline:
    moments: Sequence[float]
    """In seconds, in order, each once."""
    places: Sequence[float]
    """Where each stands, in seconds from the first as drawn."""
    breaks: Sequence[tuple[float, float]]
    """Where something is left out, and how many seconds."""

    @classmethod
    def of(cls, moments: Iterable[float]) -> Timeline:
        known = sorted(set(moments)) or [0.0]
        gaps = [after - before for before, after in pairwise(known)]
        long = _long(gaps)
        rest = sum(gap for at, gap in enumerate(gaps) if at not in long)
        drawn = [min(gap, _SHORT * rest) if at in long else gap for at, gap in enumerate(gaps)]
        places = [0.0, *accumulate(drawn)]
        breaks = [((places[at] + places[at + 1]) / 2, gaps[at] - drawn[at]) for at in sorted(long)]
        return cls(known, places, breaks)

    def place(self, moment: float) -> float:
        """Where a moment stands; between two known ones, in proportion."""
        at = min(max(bisect_right(self.moments, moment) - 1, 0), max(0, len(self.moments) - 2))
        if len(self.moments) < 2:
            return 0.0
        share = (moment - self.moments[at]) / (self.moments[at + 1] - self.moments[at])
        return self.places[at] + share * (self.places[at + 1] - self.places[at])

    @property
    def low(self) -> float:
        return -_MARGIN * (self.places[-1] or 1.0)

    @property
    def high(self) -> float:
        return (1 + _MARGIN) * (self.places[-1] or 1.0)

    def ticks(self, unit: Unit) -> list[tuple[float, str]]:
        """Round moments, none in a stretch that is left out, and the first one after each such stretch."""
        cuts = [at for at, _ in self.breaks]
        starts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(self.places)) if any(a < at < b for at in cuts))]
        span = unit.of(1e9 * (self.places[-1] or 1.0))
        ticks: list[tuple[float, str]] = []
        for start, end in pairwise([*starts, len(self.moments)]):
            low, high = (unit.of(1e9 * self.moments[at]) for at in (start, end - 1))
            count = max(1, round(_TICKS * (high - low) / span)) if high > low else 0
            values = round_steps(low, high, count) if count else []
            if not values:
                values = [float(f"{low:.4g}")]
            ticks += [(self.place(value * unit.size / 1e9), tick_text(value)) for value in values]
        return ticks


def _long(gaps: Sequence[float]) -> set[int]:
    """The gaps that would squeeze the others."""
    order = sorted(range(len(gaps)), key=lambda at: -gaps[at])
    for count in range(max(1, len(gaps) // 4), 0, -1):
        rest = sum(gaps[at] for at in order[count:])
        if len(gaps) > 2 and rest > 0 and gaps[order[count - 1]] > rest:
            return set(order[:count])
    return set()
