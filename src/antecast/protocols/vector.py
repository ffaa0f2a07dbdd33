"""Causal order by vector clocks (Birman, Schiper and Stephenson, "Lightweight causal and atomic group
multicast").

A message carries how many messages of each source its sender had delivered; a receiver delivers it once it has
delivered as many, and its source's previous message.

The clock is a map, not an array: a source takes an entry when it first broadcasts, so members need not be known
or numbered in advance. The sender's own entry is left out, since the message's number gives it.

Why it keeps causal order: let m₁ precede m₂. If the sender of m₂ delivered m₁, the clock of m₂ counts it.
Otherwise the sender delivered some message that m₁ precedes, and had to deliver or skip m₁ before, so its clock
counts it too. A clock therefore names the whole causal past (`complete`): whatever a receiver skips, it still
waits for all the rest.
"""

from collections.abc import Mapping

from antecast.core import MAX_SOURCES, Clock, LocalMisuse, Message, NodeId, State
from antecast.protocols.causal import CausalDelivery
from antecast.protocols.ordering import Ordering, Released


class Vector(Ordering[dict[NodeId, int]]):
    """Stamps are whole vector clocks."""

    stamp_type = Clock
    waits = True
    complete = True

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self._delivery = CausalDelivery(node)
        # One call less for each message.
        self.admit = self._delivery.admit  # type: ignore[method-assign]
        self.weight = self._delivery.weight  # type: ignore[method-assign]
        if type(self) is Vector:
            self.release = self._delivery.release

    def stamp(self, seq: int, now: int, lifetime: int | None) -> dict[NodeId, int]:
        table, node = self._delivery.counts.table, self._node
        entries = table.items() if isinstance(table, dict) else enumerate(table)
        clock = {source: count for source, count in entries if count and source != node}
        if len(clock) > MAX_SOURCES:
            check_size(clock)
        self._delivery.broadcast(seq)
        return clock

    def accept(self, message: Message[dict[NodeId, int]], now: int) -> Released:
        return Released(self._delivery.release(message), [])

    def early(self, message: Message[dict[NodeId, int]], now: int) -> bool:
        return bool(self._delivery.missing(message))

    def missing(self, message: Message[dict[NodeId, int]]) -> Mapping[NodeId, int]:
        return self._delivery.missing(message)

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        return self._delivery.skip(base)

    def progress(self) -> Mapping[NodeId, int]:
        return dict(self._delivery.counts.items())

    def pending(self) -> list[Message[dict[NodeId, int]]]:
        return self._delivery.pending()

    def snapshot(self) -> State:
        return {"delivered": dict(self._delivery.counts.items())}

    def restore(self, state: State, pending: list[Message[dict[NodeId, int]]]) -> None:
        self._delivery.restore(state["delivered"].items(), pending)

    def gauges(self) -> dict[str, int]:
        return {"pending": self._delivery.pending_count, "clock": self._delivery.counts.sources}


def check_size(clock: Mapping[NodeId, int]) -> None:
    """Refuse to send a stamp that every receiver would refuse."""
    if len(clock) > MAX_SOURCES:
        raise LocalMisuse(
            f"a stamp of {len(clock)} sources exceeds the limit of {MAX_SOURCES}; let several sources broadcast"
            " through one node, or split the group"
        )
