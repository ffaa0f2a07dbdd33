"""Causal order by vector clocks (Birman, Schiper and Stephenson, "Lightweight causal and atomic
group multicast").

A message carries how many messages of each source its sender had delivered; a receiver delivers it
once it has delivered as many, and its source's previous message.

The clock is a map, not an array: a source takes an entry when it first broadcasts, so members need
not be known or numbered in advance. Two forms of stamp:

- *whole*: every entry but the sender's own, which the message's number gives.
- *changes*: only the entries that changed since the sender's last broadcast. The others were
  satisfied when that broadcast was delivered, and it must be delivered first: nothing is lost.

A message that came too early waits under one of the deliveries it lacks; it is looked at again when
that one happens, and only then. So a delivery costs what it releases, not what is pending.
"""

from collections.abc import Mapping

from antecast.core import Clock, Message, NodeId
from antecast.protocols.ordering import Ordering, Skipped


class Vector(Ordering[dict[NodeId, int]]):
    stamp_type = Clock
    waits = True

    def __init__(self, node: NodeId, *, changes_only: bool) -> None:
        self._node = node
        self._changes_only = changes_only
        self._delivered: dict[NodeId, int] = {}
        self._changed: dict[NodeId, int] = {}
        self._waiting: dict[tuple[NodeId, int], list[Message[dict[NodeId, int]]]] = {}
        self._pending = 0

    def stamp(self, seq: int) -> dict[NodeId, int]:
        if self._changes_only:
            clock, self._changed = self._changed, {}
        else:
            clock = self._delivered.copy()
            clock.pop(self._node, None)
        self._delivered[self._node] = seq
        return clock

    def accept(self, message: Message[dict[NodeId, int]]) -> list[Message[dict[NodeId, int]]]:
        missing = self._missing(message)
        if missing is not None:
            self._waiting.setdefault(missing, []).append(message)
            self._pending += 1
            return []
        ready = [message]
        for delivery in ready:  # grows while it is walked: each delivery may set others free
            at = (delivery.origin, delivery.seq)
            self._delivered[at[0]] = at[1]
            if self._changes_only:
                self._changed[at[0]] = at[1]
            if at in self._waiting:
                for waiter in self._waiting.pop(at):
                    missing = self._missing(waiter)
                    if missing is None:
                        ready.append(waiter)
                        self._pending -= 1
                    else:
                        self._waiting.setdefault(missing, []).append(waiter)
        return ready

    def _missing(self, message: Message[dict[NodeId, int]]) -> tuple[NodeId, int] | None:
        """A delivery that this message must wait for, or None."""
        delivered = self._delivered
        before = message.seq - 1
        if delivered.get(message.origin, 0) < before:
            return message.origin, before
        for source, count in message.stamp.items():
            if delivered.get(source, 0) < count:
                return source, count
        return None

    def skip(self, base: Mapping[NodeId, int]) -> Skipped:
        delivered = self._delivered
        for source, count in base.items():
            delivered[source] = max(count, delivered.get(source, 0))
        held = self.pending()
        self._waiting, self._pending = {}, 0
        released, dropped = [], []
        for message in held:
            if message.seq <= base.get(message.origin, 0):
                dropped.append(message)
            else:
                released += self.accept(message)
        return Skipped(released, dropped)

    def progress(self) -> Mapping[NodeId, int]:
        return self._delivered

    def pending(self) -> list[Message[dict[NodeId, int]]]:
        return [message for waiters in self._waiting.values() for message in waiters]

    def restore(self, progress: Mapping[NodeId, int], pending: list[Message[dict[NodeId, int]]]) -> None:
        self._delivered = dict(progress)
        # Which entries changed since the last broadcast is not saved: naming them all is safe.
        self._changed = {source: count for source, count in progress.items() if source != self._node}
        self._waiting, self._pending = {}, 0
        for message in pending:
            self.accept(message)

    def gauges(self) -> dict[str, int]:
        return {"pending": self._pending, "clock": len(self._delivered)}
