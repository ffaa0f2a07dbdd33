"""Causal order by causal barriers (Prakash, Raynal and Singhal, "An adaptive causal ordering algorithm suited to
mobile computing environments").

A stamp names only what the sender delivered since its last broadcast: the *barrier*. The rest of the causal past
was satisfied when that broadcast was delivered, and it must be delivered first. (The barrier of the paper names
the sender's own previous message, too; here the message's number implies it.)

With `prune` it leaves out those of them that another message delivered since then already waits for: whoever
delivers m₂, which waits for m₁, has delivered m₁.

A stamp names a part of the past, and the messages it names imply the rest. So what a receiver skips must be
causally closed: if it skipped m₂ but not m₁, a message that names m₂ alone could be delivered before m₁.
"""

from collections.abc import Mapping

from antecast.core import Clock, Message, NodeId, State
from antecast.protocols.causal import CausalDelivery
from antecast.protocols.ordering import NOTHING, Ordering, Released
from antecast.protocols.vector import check_size


class Barrier(Ordering[dict[NodeId, int]]):
    """Stamps are the vector clock entries that changed since the sender's last broadcast, or fewer."""

    stamp_type = Clock
    waits = True
    complete = False

    def __init__(self, node: NodeId, *, prune: bool = False) -> None:
        self._node = node
        self._prune = prune
        self._delivery = CausalDelivery(node)
        # One call less for each message.
        self.admit = self._delivery.admit  # type: ignore[method-assign]
        self.weight = self._delivery.weight  # type: ignore[method-assign]
        self._changed: dict[NodeId, int] = {}
        """The barrier: the stamp of this node's next message."""

    def stamp(self, seq: int, now: int, lifetime: int | None) -> dict[NodeId, int]:
        check_size(self._changed)
        clock, self._changed = self._changed, {}
        self._delivery.broadcast(seq)
        return clock

    def accept(self, message: Message[dict[NodeId, int]], now: int) -> Released:
        ready = self._delivery.release(message)
        if not ready:
            return NOTHING
        if len(ready) == 1 and not self._prune:  # the usual case, written out
            self._changed[message.origin] = message.seq
        else:
            self._note(ready)
        return Released(ready, [])

    def _note(self, delivered: list[Message[dict[NodeId, int]]]) -> None:
        """Messages are delivered: the next stamp names them, and with `prune` not what they named."""
        changed = self._changed
        for message in delivered:
            if self._prune:
                for source, count in message.stamp.items():
                    if changed.get(source, count + 1) <= count:
                        del changed[source]
            changed[message.origin] = message.seq

    def early(self, message: Message[dict[NodeId, int]], now: int) -> bool:
        return bool(self._delivery.missing(message))

    def missing(self, message: Message[dict[NodeId, int]]) -> Mapping[NodeId, int]:
        return self._delivery.missing(message)

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        released = self._delivery.skip(base)
        self._note(released.ready)
        return released

    def progress(self) -> Mapping[NodeId, int]:
        return dict(self._delivery.counts.items())

    def pending(self) -> list[Message[dict[NodeId, int]]]:
        return self._delivery.pending()

    def snapshot(self) -> State:
        return {"delivered": dict(self._delivery.counts.items()), "changed": dict(self._changed)}

    def restore(self, state: State, pending: list[Message[dict[NodeId, int]]]) -> None:
        self._delivery.restore(state["delivered"].items(), pending)
        self._changed = dict(state["changed"])

    def gauges(self) -> dict[str, int]:
        sizes = {"pending": self._delivery.pending_count, "clock": self._delivery.counts.sources}
        return sizes | {"barrier": len(self._changed)}
