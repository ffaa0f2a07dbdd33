"""Local clocks: what a node takes for the time.

A clock is off by an offset, drifts from there, and is kept within a bound of the true time, as a
synchronisation service would. It never goes back: offset and drift are fixed for a run, a drift
below −100 % is refused, and clamping a growing function between two growing ones keeps it growing.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated

import msgspec

from antecast.core.settings import Duration, Offset, Settings
from antecast.sim.streams import Stream

_BILLION = 10**9


class ClockSettings(Settings, frozen=True, kw_only=True):
    offset: Duration = Duration(0)
    """Clocks start off by up to this much, either way, uniformly."""
    drift: Annotated[float, msgspec.Meta(ge=0, lt=1e5)] = 0.0
    """Clocks gain or lose up to this many microseconds per second (ppm), uniformly."""
    bound: Duration | None = None
    """Clocks stay this close to the true time."""
    fixed: dict[str, Offset] = msgspec.field(default_factory=dict)
    """Offsets of single nodes, by number, instead of a random one."""

    def spread(self, nodes: int, until: int) -> int:
        """How far apart two clocks of so many nodes can be at any time up to an instant."""
        random = [-self.offset, self.offset] if len(self.fixed) < nodes else []
        offsets = [*random, *self.fixed.values()]
        drift = round(self.drift * 1000) * until // _BILLION
        limit = self.bound if self.bound is not None else max(map(abs, offsets), default=0) + drift
        ends = [max(-limit, min(limit, end)) for at in offsets for end in (at - drift, at + drift)]
        return max(ends) - min(ends) if nodes > 1 and ends else 0

    def largest_error(self, until: int) -> int:
        """No clock is off by more than this up to some time.

        >>> (
        ...     ClockSettings(offset=5, drift=1000.0).largest_error(until=10_000),
        ...     ClockSettings().largest_error(until=9),
        ... )
        (16, 0)
        """
        offset = max([self.offset, *map(abs, self.fixed.values())])
        drifted = offset + ceil(until * self.drift / 1e6) + bool(self.drift)
        return drifted if self.bound is None else min(drifted, self.bound)


class Clock:
    """Reads a node's local time, and finds the instant at which it will show a given time.

    >>> clock = Clock(offset=500, drift_ppb=0, bound=None)
    >>> clock.read(1000), clock.when(1500)
    (1500, 1000)
    """

    __slots__ = ("bound", "drift", "offset")

    def __init__(self, offset: int, drift_ppb: int, bound: int | None) -> None:
        self.offset = offset
        self.drift = drift_ppb
        self.bound = bound

    def read(self, now: int) -> int:
        error = self.offset + now * self.drift // _BILLION
        if self.bound is not None:
            error = max(-self.bound, min(self.bound, error))
        return now + error

    def when(self, local: int) -> int:
        """The first true instant at which the clock shows `local` or more, 0 at the earliest."""
        low, high = 0, max(local, 0) + abs(self.offset) + 1
        while self.read(high) < local:
            high *= 2
        while low < high:
            middle = (low + high) // 2
            if self.read(middle) >= local:
                high = middle
            else:
                low = middle + 1
        return low


def make_clock(settings: ClockSettings, seed: int, node: int) -> Clock | None:
    """A node's clock, or None where it shows the true time."""
    stream = Stream(seed, "clock", node)
    offset = stream.below(2 * settings.offset + 1) - settings.offset
    ppb = round(settings.drift * 1000)
    drift = stream.below(2 * ppb + 1) - ppb
    if str(node) in settings.fixed:
        offset = settings.fixed[str(node)]
    return Clock(offset, drift, settings.bound) if offset or drift else None
