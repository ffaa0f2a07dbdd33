"""The deliveries that were committed last, in memory: most are read soon, without asking the journal."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from antecast.live.entries import Delivery

MOST: Final = 8192
MOST_BYTES: Final = 16 << 20


class Recent:
    """A window of deliveries with consecutive numbers, bounded by count and by bytes."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._held: deque[Delivery] = deque()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, deliveries: list[Delivery]) -> None:
        held = self._held
        held += deliveries
        for each in deliveries:
            self._bytes += len(each.payload)
        while len(held) > self._most or self._bytes > self._most_bytes:
            self._bytes -= len(held.popleft().payload)

    def after(self, number: int, most: int) -> list[Delivery]:
        """Deliveries from the one after `number` on; none if that one is not here."""
        held = self._held
        if not held or held[0].number > number + 1:
            return []
        skip = number + 1 - held[0].number
        return list(islice(held, skip, skip + most))

    def forget(self, number: int) -> None:
        """Those up to this number are no longer needed."""
        held = self._held
        while held and held[0].number <= number:
            self._bytes -= len(held.popleft().payload)
