"""Causal order by vector clocks (Birman, Schiper and Stephenson, "Lightweight causal and atomic
group multicast").

A message carries how many messages of each source its sender had delivered; a receiver delivers it
once it has delivered as many, and its source's previous message.

The clock is a map, not an array: a source takes an entry when it first broadcasts, so members need
not be known or numbered in advance. Three forms of stamp:

- *whole*: every entry but the sender's own, which the message's number gives.
- *changes*: only the entries that changed since the sender's last broadcast. The others were
  satisfied when that broadcast was delivered, and it must be delivered first: nothing is lost. This
  is the *causal barrier* of Prakash, Raynal and Singhal ("An adaptive causal ordering algorithm
  suited to mobile computing environments"), less the sender's own previous message, which the
  message's number implies.
- *pruned*: of these, only the entries that no other message delivered meanwhile already waits for:
  whoever delivers m₂, which waits for m₁, has delivered m₁.

A message that came too early waits under one of the deliveries it lacks; it is looked at again when
that one happens, and only then. What it lacks is listed once, when it comes. So a delivery costs what it
releases, not what is pending.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from antecast.core import Clock, Message, NodeId, State
from antecast.protocols.ordering import Ordering, Released

Stamps: TypeAlias = Literal["whole", "changes", "pruned"]

_Waiter: TypeAlias = tuple[Message[dict[NodeId, int]], list[tuple[NodeId, int]]]
"""A message, and the deliveries it lacked when it came; it waits under the last of these."""


class Vector(Ordering[dict[NodeId, int]]):
    stamp_type = Clock
    waits = True

    def __init__(self, node: NodeId, *, stamps: Stamps) -> None:
        self._node = node
        self._stamps = stamps
        self._delivered: dict[NodeId, int] = {}
        self._changed: dict[NodeId, int] = {}
        self._waiting: dict[tuple[NodeId, int], list[_Waiter]] = {}
        self._pending = 0

    def stamp(self, seq: int, now: int, lifetime: int | None) -> dict[NodeId, int]:
        if self._stamps == "whole":
            clock = self._delivered.copy()
            clock.pop(self._node, None)
        else:
            clock, self._changed = self._changed, {}
        self._delivered[self._node] = seq
        return clock

    def accept(self, message: Message[dict[NodeId, int]], now: int) -> Released:
        return Released(self._release(message), [])

    def _release(self, message: Message[dict[NodeId, int]]) -> list[Message[dict[NodeId, int]]]:
        missing = self._missing(message)
        if missing:
            self._waiting.setdefault(missing[-1], []).append((message, missing))
            self._pending += 1
            return []
        ready = [message]
        delivered, waiting, simple = self._delivered, self._waiting, self._stamps == "changes"
        for delivery in ready:  # grows while it is walked: each delivery may set others free
            origin, seq = delivery.origin, delivery.seq
            if simple:  # `_note`, written out: this runs for every message
                delivered[origin] = self._changed[origin] = seq
            else:
                self._note(delivery)
            if waiting:
                for waiter in waiting.pop((origin, seq), ()):
                    missing = waiter[1]
                    while missing and delivered.get(missing[-1][0], 0) >= missing[-1][1]:
                        missing.pop()
                    if missing:
                        waiting.setdefault(missing[-1], []).append(waiter)
                    else:
                        ready.append(waiter[0])
                        self._pending -= 1
        return ready

    def _note(self, message: Message[dict[NodeId, int]]) -> None:
        """A message is delivered: count it, and let it stand for what it waited for."""
        self._delivered[message.origin] = message.seq
        if self._stamps == "whole":
            return
        changed = self._changed
        if self._stamps == "pruned":
            for source, count in message.stamp.items():
                if changed.get(source, count + 1) <= count:
                    del changed[source]
        changed[message.origin] = message.seq

    def _missing(self, message: Message[dict[NodeId, int]]) -> list[tuple[NodeId, int]]:
        """The deliveries that this message must wait for, its source's previous one last."""
        delivered, entries = self._delivered, message.stamp.items()
        get, missing = delivered.get, []
        # First messages mostly depend on first messages: where no count is ahead, one look at the whole is enough,
        # at a third of the cost.
        if message.seq > 1 or not entries <= delivered.items():
            missing = [entry for entry in entries if get(entry[0], 0) < entry[1]]
            if missing:
                missing.reverse()
        before = message.seq - 1
        if before and get(message.origin, 0) < before:
            missing.append((message.origin, before))
        return missing

    def skip(self, base: Mapping[NodeId, int]) -> Released:
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
                released += self._release(message)
        return Released(released, dropped)

    def progress(self) -> Mapping[NodeId, int]:
        return self._delivered

    def pending(self) -> list[Message[dict[NodeId, int]]]:
        return [message for waiters in self._waiting.values() for message, _ in waiters]

    def snapshot(self) -> State:
        return {"delivered": dict(self._delivered), "changed": dict(self._changed)}

    def restore(self, state: State, pending: list[Message[dict[NodeId, int]]]) -> None:
        self._delivered = dict(state["delivered"])
        self._changed = dict(state["changed"])
        self._waiting, self._pending = {}, 0
        for message in pending:
            self._release(message)

    def gauges(self) -> dict[str, int]:
        sizes = {"pending": self._pending, "clock": len(self._delivered)}
        return sizes if self._stamps == "whole" else sizes | {"barrier": len(self._changed)}
