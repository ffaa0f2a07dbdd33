"""When to send again: measured round trips (Jacobson), or the paper's rule."""

from __future__ import annotations

from antecast.protocols.cellular.settings import CellularSettings


class RoundTrip:
    """How long an acknowledgement takes, including the time that it waits for more to acknowledge.

    Only messages that were sent once are measured (Karn): for the others, nobody knows which copy was heard.
    """

    __slots__ = ("_deviation", "_mean", "_settings", "_wait")

    def __init__(self, settings: CellularSettings) -> None:
        self._settings = settings
        self._mean = self._deviation = 0
        self._wait: int = settings.retransmit

    def took(self, time: int) -> None:
        if not self._mean:
            self._mean, self._deviation = time, time // 2
        else:
            self._deviation += (abs(time - self._mean) - self._deviation) // 4
            self._mean += (time - self._mean) // 8
        wait = self._mean + 4 * self._deviation
        self._wait = min(max(wait, self._settings.retransmit_least), self._settings.silence)

    def wait(self, pending: int) -> int:
        """After how long a message is sent again, with this many under way."""
        return self._wait if self._settings.measured else self._settings.interval(pending)
