"""Settings of PC-broadcast."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from antecast.core.settings import Duration, Settings


class PreventiveSettings(Settings, frozen=True, kw_only=True):
    retain: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How many delivered messages a process keeps, announcements of sources among them: for links that are not
    safe yet, for neighbours that were away and for newcomers. It bounds all buffers of the paper at once."""
    tries: Annotated[int, msgspec.Meta(ge=0)] = 1
    """How many pings a link sends before it syncs; with 0 all links sync. One that finds no way, as after a
    partition, costs a `timeout`; more are worth it only where round trips take longer than that and a sync is
    expensive."""
    timeout: Duration = Duration(10**9)
    """How long a ping or a sync may take before the next attempt; it doubles with each. Best above the round-trip
    time: too short costs pings, never order."""
    patience: Duration = Duration(10 * 10**9)
    """How long a process with a past waits before it gives up messages a neighbour no longer has."""
    newcomers: Literal["kept", "now"] = "kept"
    """Where newcomers start: with the messages that are kept, or with those to come."""
    founders: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)] | None = None
    """Processes with numbers below this are known as sources from the start. Others are announced when they first
    broadcast, and forgotten when they leave. Default: in a simulation its nodes, elsewhere everyone."""

    def __post_init__(self) -> None:
        if not self.timeout:
            raise ValueError("timeout must be above 0s; a link would try again and again in one instant")
