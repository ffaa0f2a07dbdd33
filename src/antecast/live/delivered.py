"""The deliveries of a node: those that are committed, who waits for the next one, and which are done with.

The last ones are in memory, all that were not acknowledged in the journal. What a reader shows to its application
is the reader's business (`reading`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from antecast.core import LocalMisuse
from antecast.live.commits import NodeStopped
from antecast.live.entries import Delivery, Durability
from antecast.live.given import whole_number
from antecast.live.journal import Journal
from antecast.live.pacing import Pacing
from antecast.live.recent import Recent

if TYPE_CHECKING:
    from antecast.live.node import Node

_KEPT_IN_MEMORY: Final = 5_000
"""Deliveries that a node without a journal keeps after they were read, in case they are asked for again."""


class Delivered:
    def __init__(self, node: Node, pacing: Pacing) -> None:
        self._node, self._pacing = node, pacing
        self._recent = Recent()
        self._keeps = True
        """Whether deliveries are in a file, and the last of them in memory as well."""
        self.shown = 0
        """The last delivery that was committed."""
        self._forgotten = 0
        self._readers: list[asyncio.Future[None]] = []

    def begin(self, journal: Journal) -> None:
        """Go on from a journal. It may have more than was shown: what a stop did not wait for was written yet."""
        self._recent = Recent()
        self._keeps = journal.durability is not Durability.NONE
        self.shown, self._forgotten = journal.delivered, journal.acknowledged

    def add(self, deliveries: list[Delivery]) -> None:
        """These are committed: they are the application's."""
        if self._keeps:
            self._recent.add(deliveries)
        self.shown = deliveries[-1].number
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)

    def forget_read(self) -> None:
        """Without a journal, what was read is acknowledged in time, or memory would grow without end."""
        if self._pacing.read - self._forgotten > 2 * _KEPT_IN_MEMORY:
            self._forgotten = self._pacing.read - _KEPT_IN_MEMORY
            self.acknowledge(self._forgotten)

    def end_waits(self, error: Exception) -> None:
        for reader in self._readers:
            if not reader.done():
                reader.set_exception(error)
        self._readers.clear()

    def read_from(self, after: int | None) -> int:
        """The number after which a new reader begins."""
        if after is None:
            return self._node.engine.journal.acknowledged
        after = whole_number(after)
        if after < 0:
            raise LocalMisuse(f"expected the number of a delivery, or 0 for all of them, got {after}")
        self.acknowledge(after)
        return after

    async def has_after(self, last: int) -> bool:
        """Wait until there is a delivery after this number; False if there will be none, since the node stops."""
        while last >= self.shown:
            if self._node.failure is not None:
                raise self._node.failure
            if self._node.running is None or self._node.running.stopped:
                return False
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            try:
                await reader
            except NodeStopped:
                if self._node.failure is not None:
                    raise
                return False
            finally:
                if reader in self._readers:
                    self._readers.remove(reader)
        return True

    def after(self, last: int) -> list[Delivery]:
        """Some deliveries after a number; there are any."""
        recent = self._recent.after(last, 256)
        if recent:
            return recent
        found = self._node.engine.journal.deliveries(last, 256)
        if found and found[-1].number > self.shown:
            found = [each for each in found if each.number <= self.shown]
        if not found or found[0].number != last + 1:
            raise LocalMisuse(f"deliveries after {last} are gone: they have been acknowledged")
        return found

    def acknowledge(self, number: int) -> None:
        """The application is done with all deliveries up to this number: they need not be kept."""
        engine = self._node.engine
        if type(number) is not int:
            number = whole_number(number)
        if number > self.shown:
            raise LocalMisuse(f"delivery {number} does not exist yet; the last is {self.shown}")
        self._pacing.skip(number)
        while self._pacing.read < number:  # what is acknowledged unread is no longer waiting to be read
            for each in self.after(self._pacing.read):
                if each.number <= number:
                    self._pacing.took(each)
        self._recent.forget(number)
        engine.forget(number)
