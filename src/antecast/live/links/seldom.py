"""A log that strangers cannot fill: only so many lines per minute, and then how many were left out.

Whoever can connect can make a node refuse something as often as it likes. Counters tell how often; the log need
not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

PER_MINUTE: Final = 30


class Seldom:
    """Warnings, `most` of them per minute."""

    def __init__(
        self, log: logging.Logger, *, most: int = PER_MINUTE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._most, self._clock = log, most, clock
        self._since = clock()
        self._count = 0

    def warning(self, text: str, *values: object) -> None:
        now = self._clock()
        if now - self._since >= 60:
            left_out = self._count - self._most
            self._since, self._count = now, 0
            if left_out > 0:
                self._log.warning("%d more refusals were not logged", left_out)
        self._count += 1
        if self._count <= self._most:
            self._log.warning(text, *values)
