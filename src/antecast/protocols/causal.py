"""Causal delivery: a message is delivered after all that it names.

A stamp names messages by source and number. A message may be delivered once every message that its stamp names,
and its source's previous one, have been delivered. Each ordering decides which messages a stamp has to name: all
of the causal past (`vector`), or only what nothing else implies (`barrier`).

An early message waits under one of the deliveries it lacks, and is looked at again only when that one happens.
What it lacks is listed once, when it comes. So the cost of a delivery depends on what it releases, not on what is
pending.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from antecast.core import Message, NodeId, RemoteFault
from antecast.protocols.counts import Counts
from antecast.protocols.ordering import ENTRY_BYTES, MESSAGE_BYTES, UNKNOWN, Released

Stamped: TypeAlias = Message[dict[NodeId, int]]
Name: TypeAlias = tuple[NodeId, int]

_Waiter: TypeAlias = tuple[Stamped, list[Name]]
"""A message, and the deliveries it lacked when it came; it waits under the last of these."""

_Held: TypeAlias = Stamped | list[_Waiter]
"""What waits under a delivery: mostly one message that lacks nothing else, which needs no lists of its own. (Each
would be an object for the garbage collector to walk, as long as it waits.)"""


class CausalDelivery:
    """What a node has delivered, and the messages that wait for more of it."""

    __slots__ = ("_node", "_own", "_waiting", "counts", "pending_count")

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self.counts = Counts()
        """For each source, the last message delivered or skipped."""
        self._own = 0
        """The last message of this node."""
        self._waiting: dict[Name, _Held] = {}
        self.pending_count = 0

    def broadcast(self, seq: int) -> None:
        """Count this node's own next message."""
        self._own = seq
        self.counts.set(self._node, seq)

    def admit(self, message: Stamped, now: int) -> str | None:
        """Why a message is not taken, or None; see `Ordering.admit`."""
        stamp, node = message.stamp, self._node
        if message.origin in stamp and stamp[message.origin] >= message.seq:
            raise RemoteFault(f"message {message.id} waits for itself or a later one of its source")
        return UNKNOWN if node in stamp and stamp[node] > self._own else None

    def release(self, message: Stamped) -> list[Stamped]:
        """Take a message in; returns the deliveries that follow, in order."""
        delivered, waiting, before = self.counts.table, self._waiting, message.seq - 1
        missing: list[Name] = []
        try:
            for source, count in message.stamp.items():
                if delivered[source] < count:
                    missing.append((source, count))
            if missing:
                missing.reverse()
            if before and delivered[message.origin] < before:
                missing.append((message.origin, before))
        except IndexError:
            self.counts.make_room(max([message.origin, *message.stamp]), self._awaited())
            return self.release(message)
        if missing:
            if len(missing) == 1 and missing[0] not in waiting:
                waiting[missing[0]] = message
            else:
                self._hold(message, missing)
            self.pending_count += 1
            return []
        ready = [message]
        for delivery in ready:  # grows while it is walked: each delivery may set others free
            origin, seq = delivery.origin, delivery.seq
            if seq == 1:  # new here: had any of its messages been skipped, this one would have been
                if origin >= len(delivered):
                    delivered = self.counts.make_room(origin, self._awaited())
                self.counts.sources += 1
            delivered[origin] = seq
            if waiting:
                held = waiting.pop((origin, seq), None)
                if held is None:
                    continue
                if not isinstance(held, list):
                    ready.append(held)
                    self.pending_count -= 1
                    continue
                for waiter in held:
                    missing = waiter[1]
                    missing.pop()
                    while missing and delivered[missing[-1][0]] >= missing[-1][1]:
                        missing.pop()
                    if missing:
                        self._hold(*waiter)
                    else:
                        ready.append(waiter[0])
                        self.pending_count -= 1
        return ready

    def _hold(self, message: Stamped, missing: list[Name]) -> None:
        """Let a message wait under the last delivery that it lacks, after those that wait there."""
        held = self._waiting.setdefault(missing[-1], [])
        if not isinstance(held, list):
            held = self._waiting[missing[-1]] = [(held, [missing[-1]])]
        held.append((message, missing))

    def missing(self, message: Stamped) -> dict[NodeId, int]:
        """What a message waits for that has not been delivered: for each source, the last."""
        get = self.counts.get
        lacking = {source: count for source, count in message.stamp.items() if get(source) < count}
        if get(message.origin) < message.seq - 1:
            lacking[message.origin] = message.seq - 1
        return lacking

    def weight(self, message: Stamped) -> int:
        return MESSAGE_BYTES + len(message.payload) + ENTRY_BYTES * len(message.stamp)

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        """Count each source's messages up to `base` as delivered; drop those of them that wait."""
        for source, count in base.items():
            if count > self.counts.get(source):
                self.counts.set(source, count)
        held = self.pending()
        self._waiting, self.pending_count = {}, 0
        released: list[Stamped] = []
        dropped: list[Stamped] = []
        for message in held:
            if message.seq <= base.get(message.origin, 0):
                dropped.append(message)
            else:
                released += self.release(message)
        return Released(released, dropped)

    def _awaited(self) -> Iterator[NodeId]:
        """The sources of all that is waited for."""
        for name, held in self._waiting.items():
            if isinstance(held, list):
                yield from (source for _, missing in held for source, _ in missing)
            else:
                yield name[0]

    def pending(self) -> list[Stamped]:
        return [message for held in self._waiting.values() for message in _messages(held)]

    def restore(self, delivered: Iterable[Name], pending: list[Stamped]) -> None:
        self.counts = Counts()
        for source, count in sorted(delivered):  # lowest numbers first: they fit into a list
            self.counts.set(source, count)
        self._own = self.counts.get(self._node)
        self._waiting, self.pending_count = {}, 0
        for message in pending:
            self.release(message)


def _messages(held: _Held) -> list[Stamped]:
    return [message for message, _ in held] if isinstance(held, list) else [held]
