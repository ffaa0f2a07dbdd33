"""Deliveries as an application reads them."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import ref

from antecast.live.entries import Delivery

if TYPE_CHECKING:
    from antecast.live.node import Node
    from antecast.live.pacing import Pacing

_held: ContextVar[tuple[ref[Deliveries], ...]] = ContextVar("readers in whose loops this task was at work or made")


class Deliveries:
    """An asynchronous iterator over a node's deliveries, in their order.

    A wait for the next one can be cancelled, by a timeout for instance, and taken up again: nothing is lost. It
    ends when the node stops, and raises what has ended a node that failed.
    """

    def __init__(self, node: Node, after: int | None, pacing: Pacing) -> None:
        self.node = node
        self.in_hand = False
        """Whether its reader has a delivery and has not asked for the next one yet."""
        self._pacing = pacing
        self._after = after
        self._last: int | None = None
        self._ready: list[Delivery] = []
        """Those to come next, the last first."""
        self._closed, self._secured = False, node.secured
        self._reference = ref(self)

    def __aiter__(self) -> Deliveries:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Delivery]:
        # At once, in the context of whoever reads: the wait itself may be handed to another task.
        held = _held.get(())
        if self._reference not in held:
            _held.set((*(each for each in held if each() is not None), self._reference))
        return self._next()

    async def _next(self) -> Delivery:
        ready, pacing = self._ready or await self._more(), self._pacing
        found = ready.pop()
        self._last = number = found.number
        self.in_hand = True
        if number == pacing.read + 1 and number > pacing.before and not pacing.paused and not pacing.waiters:
            pacing.read = number  # as `took` does, without a call per message
            pacing.read_bytes += len(found.payload)
        else:
            pacing.took(found)
        return self.node.opened(found) if self._secured else found

    async def _more(self) -> list[Delivery]:
        """Wait for the next ones."""
        self.in_hand = False
        while not self._ready:  # another task may read the same
            if self._last is None:
                self._last = self.node.delivered.read_from(self._after)
            if self._closed or not await self.node.delivered.has_after(self._last):
                raise StopAsyncIteration
            self._ready = self.node.delivered.after(self._last)[::-1]
        return self._ready

    async def aclose(self) -> None:
        """Read no more."""
        self._closed, self.in_hand = True, False


def reads_here(node: Node) -> bool:
    """Whether the caller is at work in the loop of a reader of this node, who cannot read on until it is done."""
    readers = (each() for each in _held.get(()))
    return any(reader is not None and reader.in_hand and reader.node is node for reader in readers)
