"""Deliveries in memory: those that were committed last, and those of a node whose journal does not keep them.

Most deliveries are read soon, without asking the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from antecast.live.entries import Delivery

MOST: Final = 8192
MOST_BYTES: Final = 16 << 20


class Window:
    """Deliveries with consecutive numbers. Reading a few costs the same wherever they are."""

    def __init__(self) -> None:
        self._held: list[Delivery] = []
        self._gone = 0
        """How many at the start of the list are forgotten: they are cut off together, an eighth at a time."""

    def __len__(self) -> int:
        return len(self._held) - self._gone

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._held[self._gone :])

    def add(self, deliveries: list[Delivery]) -> None:
        self._held += deliveries

    def after(self, number: int, most: int) -> list[Delivery]:
        """Deliveries from the one after `number` on; none if that one is not here."""
        held = self._held
        if not held:
            return []
        place = number + 1 - held[0].number
        return held[place : place + most] if place >= self._gone else []

    def forget(self, number: int) -> None:
        """Those up to this number are no longer needed."""
        held = self._held
        if held:
            self._gone = max(self._gone, min(number + 1 - held[0].number, len(held)))
            if self._gone > len(held) >> 3:
                del held[: self._gone]
                self._gone = 0


class Recent(Window):
    """A window that is bounded by count, up to a quarter, and by bytes."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0

    def add(self, deliveries: list[Delivery]) -> None:
        super().add(deliveries)
        self._bytes += sum([len(each.payload) for each in deliveries])
        if len(self._held) > self._most + (self._most >> 2) or self._bytes > self._most_bytes:
            self._drop()

    def forget(self, number: int) -> None:
        if len(self) and number >= self._held[self._gone].number:
            gone = self._held[self._gone : number + 1 - self._held[0].number]
            self._bytes -= sum([len(each.payload) for each in gone])
            super().forget(number)

    def _drop(self) -> None:
        """Forget the oldest beyond the bounds."""
        held, place = self._held, max(self._gone, len(self._held) - self._most)
        left = self._bytes - sum([len(each.payload) for each in held[self._gone : place]])
        while left > self._most_bytes:
            left -= len(held[place].payload)
            place += 1
        del held[:place]
        self._gone, self._bytes = 0, left
