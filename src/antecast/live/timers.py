"""The timers of a protocol, on the event loop.

The machine keeps when each is due, by the node's clock; here each has its handle. A clock that runs slower than
the event loop's, for now, is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from antecast.core import Timer
from antecast.live.machine import Clock


class Timers:
    """What is armed. `due` is called with the token and the time when a timer fires."""

    def __init__(self, clock: Clock, due: Callable[[Timer, int], None]) -> None:
        self._clock, self._due = clock, due
        self._loop = asyncio.get_running_loop()
        self._handles: dict[Timer, asyncio.TimerHandle] = {}

    def arm(self, token: Timer, at: int) -> None:
        """Let a timer fire at a time of the node's clock, in place of the time it had."""
        self.disarm(token)
        delay = max(0, at - self._clock.read()) / (1e9 * self._clock.rate)
        self._handles[token] = self._loop.call_later(delay, self._fire, token, at)

    def disarm(self, token: Timer) -> None:
        handle = self._handles.pop(token, None)
        if handle is not None:
            handle.cancel()

    def stop(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _fire(self, token: Timer, at: int) -> None:
        del self._handles[token]
        now = self._clock.read()
        if now < at:
            self.arm(token, at)
        else:
            self._due(token, now)
