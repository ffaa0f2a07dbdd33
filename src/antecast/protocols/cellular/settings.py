"""Settings of the cellular protocol: the paper's times and bounds, and the choice of its printed rules."""

from __future__ import annotations

from typing import Annotated

import msgspec

from antecast.core.settings import Duration, Settings
from antecast.protocols.cellular.rules import Rule

_MS = 10**6


_LEAST_EVICT = Duration(100 * _MS)
"""Hosts give signs of life, and stations look for them, several times in the time of `evict`."""


class CellularSettings(Settings, frozen=True, kw_only=True):
    retransmit: Duration = Duration(1000 * _MS)
    """After how long a message that is not acknowledged is sent again, while no round trip has been measured."""
    retransmit_least: Duration = Duration(200 * _MS)
    """A message is not sent again sooner than this."""
    measured: bool = True
    """Whether the time to a retransmission follows the measured round trips. The paper's falls evenly from
    `retransmit` to `retransmit_least` as the window fills: the more messages are under way, the more copies are
    added."""
    window: Annotated[int, msgspec.Meta(ge=1, le=1 << 15)] = 150
    """Messages under way at once, from a station to its cell or from a host."""
    ack: Duration = Duration(500 * _MS)
    """How long an acknowledgement may wait for more to acknowledge."""
    selective: bool = True
    """Whether an acknowledgement also tells which later messages are there, so that only the others are sent
    again. The paper's do not."""
    connect: Duration = Duration(500 * _MS)
    """After how long a host repeats its request to be taken in."""
    silence: Duration = Duration(3000 * _MS)
    """A host not heard of for this long is probed with one message, not sent all that it lacks."""
    evict: Duration = Duration(300_000 * _MS)
    """A host not heard of for this long is given up, and starts anew when it comes back; 0 for never."""
    handoff: Duration = Duration(30_000 * _MS)
    """After how long an unfinished handoff is broken off: longer than frames take to cross all wires three
    times. A station where that was too short allows twice as long the next time, up to 30 s."""
    forget: Duration = Duration(60_000 * _MS)
    """How long a radio frame may be under way: a station remembers the sessions of hosts elsewhere for this
    long."""
    published: list[Rule] = []
    """Rules of the paper to follow as printed, instead of their cures: for study, since they break promises."""

    def __post_init__(self) -> None:
        if not self.retransmit:
            raise ValueError("retransmit must be above 0s; a message would be sent again and again in one instant")
        if self.connect < _MS:
            raise ValueError(f"connect must be 1ms at least, got {self.connect}; a host would do nothing but ask")
        if self.handoff < _LEAST_EVICT:
            raise ValueError(f"handoff must be {_LEAST_EVICT} at least, got {self.handoff}; none would ever end")
        least = max(_LEAST_EVICT, Duration(2 * (self.connect + self.ack)))
        if 0 < self.evict < least:
            raise ValueError(
                f"evict must be {least} at least, twice connect and ack together, or 0 for never; "
                f"got {self.evict}: a host could not show itself in time"
            )

    def interval(self, pending: int) -> int:
        """When to send again by the paper's rule, with this many messages under way."""
        span = self.retransmit - self.retransmit_least
        return max(self.retransmit_least, self.retransmit - span * pending // self.window)
