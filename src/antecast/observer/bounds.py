"""What the system promises: how far clocks differ, how long messages travel.

Everything in this package counts in *ticks*, whole numbers of any length of time. Choose a tick no
longer than the accuracy of the clocks; ε and δ are then whole numbers of ticks, rounded up.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from antecast.core.settings import Settings

Ticks = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class Bounds(Settings, frozen=True, kw_only=True):
    """The two guarantees of the model, and what is needed to write a timestamp in bounded space.

    >>> Bounds(epsilon=10, delta=10, nodes=10).modulus
    31
    """

    epsilon: Ticks
    """ε: no two clocks, the observer's included, ever differ by more than this."""
    delta: Ticks
    """δ: a message that is not lost arrives within this time on its sender's clock."""
    nodes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """n: how many processes there are. Only bounded encodings need it; counts above its bound are refused."""
    events_a_tick: Annotated[int, msgspec.Meta(ge=1)] = 1
    """K: the most events that a process has in one tick."""

    @property
    def modulus(self) -> int:
        """How many values of r a receiver must tell apart: rt − r lies in −ε … δ + ε, both included.

        The published ε + δ + 1 is too small: it misreads timestamps of senders whose clocks are ahead.
        """
        return self.delta + 2 * self.epsilon + 1

    @property
    def most(self) -> int | None:
        """The largest count an element of kn can reach: a chain of events at one clock reading."""
        return None if self.nodes is None else self.nodes * self.events_a_tick

    @property
    def most_hybrid(self) -> int | None:
        """The largest counter of a hybrid clock, whose time can stand still for ε + 1 readings of other clocks."""
        return None if self.nodes is None else self.nodes * self.events_a_tick * (self.epsilon + 1) - 1

    @property
    def longest(self) -> int:
        """No valid message waits longer than this at an observer: δ + 2ε + 1 ticks."""
        return self.delta + 2 * self.epsilon + 1
