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

The counts of delivered messages are looked up far more often than anything else. While the numbers of the
sources lie close together they are a list by number, which takes a quarter of the memory of a map and one place
in it for a look; where they do not, they are a map.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Literal, TypeAlias

from antecast.core import Clock, Message, NodeId, RemoteFault, State
from antecast.protocols.ordering import ENTRY_BYTES, MESSAGE_BYTES, UNKNOWN, Ordering, Released
from antecast.protocols.received import covers

Stamps: TypeAlias = Literal["whole", "changes", "pruned"]

_Waiter: TypeAlias = tuple[Message[dict[NodeId, int]], list[tuple[NodeId, int]]]
"""A message, and the deliveries it lacked when it came; it waits under the last of these."""

_SPREAD, _FEW = 16, 256
"""Sources lie close together while the largest number is below so many times their count, and some."""


class _Sparse(dict[NodeId, int]):
    """Counts by source, zero for all others."""

    def __missing__(self, source: NodeId) -> int:
        return 0


class Vector(Ordering[dict[NodeId, int]]):
    __slots__ = ("_changed", "_delivered", "_node", "_pending", "_sources", "_stamps", "_waiting")

    stamp_type = Clock
    waits = True

    def __init__(self, node: NodeId, *, stamps: Stamps) -> None:
        self._node = node
        self._stamps = stamps
        self._delivered: list[int] | _Sparse = []
        self._sources = 0
        self._changed: dict[NodeId, int] = {}
        self._waiting: dict[tuple[NodeId, int], list[_Waiter]] = {}
        self._pending = 0

    def stamp(self, seq: int, now: int, lifetime: int | None) -> dict[NodeId, int]:
        if self._stamps == "whole":
            clock = dict(self._counts())
            clock.pop(self._node, None)
        else:
            clock, self._changed = self._changed, {}
        self._count(self._node, seq)
        return clock

    def _counts(self) -> Iterable[tuple[NodeId, int]]:
        """The sources of which something was delivered, and how many messages."""
        counts = self._delivered
        return counts.items() if isinstance(counts, dict) else (each for each in enumerate(counts) if each[1])

    def _count(self, source: NodeId, count: int) -> None:
        delivered = self._room_for(source)
        self._sources += bool(count) and not delivered[source]
        delivered[source] = count

    def _room_for(self, source: NodeId) -> list[int] | _Sparse:
        """The counts, as a list or a map, with a place for a source and for all that is waited for."""
        counts, few = self._delivered, _FEW + _SPREAD * self._sources
        if isinstance(counts, list):
            if source >= len(counts):
                if source < few:
                    counts += [0] * ((1 << source.bit_length()) - len(counts))
                else:
                    self._delivered = _Sparse(self._counts())
        elif not len(counts) & (len(counts) - 1):  # a look now and then is enough
            waiters = chain.from_iterable(self._waiting.values())
            awaited = [each for _, missing in waiters for each, _ in missing]
            if max([source, *counts, *awaited]) < few:
                self._delivered = [counts[number] for number in range(few)]
        return self._delivered

    def admit(self, message: Message[dict[NodeId, int]], now: int) -> str | None:
        entry = message.stamp.get
        if entry(message.origin, 0) >= message.seq:
            raise RemoteFault(f"message {message.id} waits for itself or a later one of its source")
        own = entry(self._node, 0)
        return UNKNOWN if own and own > self._delivered_of(self._node) else None

    def _delivered_of(self, source: NodeId) -> int:
        counts = self._delivered
        return counts[source] if isinstance(counts, dict) or source < len(counts) else 0

    def early(self, message: Message[dict[NodeId, int]], now: int) -> bool:
        counts = dict(self._counts())
        return not covers(counts, message.stamp) or counts.get(message.origin, 0) < message.seq - 1

    def weight(self, message: Message[dict[NodeId, int]]) -> int:
        return MESSAGE_BYTES + len(message.payload) + ENTRY_BYTES * len(message.stamp)

    def accept(self, message: Message[dict[NodeId, int]], now: int) -> Released:
        return Released(self._release(message), [])

    def _release(self, message: Message[dict[NodeId, int]]) -> list[Message[dict[NodeId, int]]]:
        """Take a message in; the deliveries that follow, in their order."""
        delivered, waiting, stamp, before = self._delivered, self._waiting, message.stamp, message.seq - 1
        missing: list[tuple[NodeId, int]] = []
        try:
            for source, count in stamp.items():
                if delivered[source] < count:
                    missing.append((source, count))
            if missing:
                missing.reverse()
            if before and delivered[message.origin] < before:
                missing.append((message.origin, before))
        except IndexError:
            self._room_for(max([message.origin, *stamp]))
            return self._release(message)
        if missing:
            waiting.setdefault(missing[-1], []).append((message, missing))
            self._pending += 1
            return []
        ready = [message]
        simple = self._stamps == "changes"
        for delivery in ready:  # grows while it is walked: each delivery may set others free
            origin, seq = delivery.origin, delivery.seq
            if seq == 1:  # of a source that is new here: had any of its messages been skipped, this one had
                if origin >= len(delivered):
                    delivered = self._room_for(origin)
                self._sources += 1
            if simple:  # `_note`, written out: this runs for every message
                delivered[origin] = self._changed[origin] = seq
            else:
                self._note(delivery)
            if waiting:
                for waiter in waiting.pop((origin, seq), ()):
                    missing = waiter[1]
                    missing.pop()
                    while missing and delivered[missing[-1][0]] >= missing[-1][1]:
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

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        for source, count in base.items():
            self._count(source, max(count, self._room_for(source)[source]))
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
        return dict(self._counts())

    def pending(self) -> list[Message[dict[NodeId, int]]]:
        return [message for waiters in self._waiting.values() for message, _ in waiters]

    def snapshot(self) -> State:
        return {"delivered": dict(self._counts()), "changed": dict(self._changed)}

    def restore(self, state: State, pending: list[Message[dict[NodeId, int]]]) -> None:
        self._delivered, self._sources = [], 0
        for source, count in state["delivered"].items():
            self._count(source, count)
        self._changed = dict(state["changed"])
        self._waiting, self._pending = {}, 0
        for message in pending:
            self._release(message)

    def gauges(self) -> dict[str, int]:
        sizes = {"pending": self._pending, "clock": self._sources}
        return sizes if self._stamps == "whole" else sizes | {"barrier": len(self._changed)}
