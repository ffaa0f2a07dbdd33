"""FIFO order: the messages of one source are delivered in the order of its broadcasts.

The message's own number is all the stamp it needs. A message waits only for its predecessor, so a delivery costs
one look-up, whatever else is pending.
"""

from collections.abc import Mapping

from antecast.core import Message, NodeId, State
from antecast.protocols.ordering import Ordering, Released


class Fifo(Ordering[None]):
    stamp_type = None
    waits = True
    complete = True

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self._delivered: dict[NodeId, int] = {}
        self._waiting: dict[tuple[NodeId, int], Message[None]] = {}

    def stamp(self, seq: int, now: int, lifetime: int | None) -> None:
        self._delivered[self._node] = seq

    def accept(self, message: Message[None], now: int) -> Released:
        return Released(self._release(message), [])

    def _release(self, message: Message[None]) -> list[Message[None]]:
        origin, seq = message.origin, message.seq
        if seq != self._delivered.get(origin, 0) + 1:
            self._waiting[origin, seq] = message
            return []
        ready = [message]
        while following := self._waiting.pop((origin, seq + 1), None):
            ready.append(following)
            seq += 1
        self._delivered[origin] = seq
        return ready

    def early(self, message: Message[None], now: int) -> bool:
        return message.seq != self._delivered.get(message.origin, 0) + 1

    def missing(self, message: Message[None]) -> Mapping[NodeId, int]:
        return {message.origin: message.seq - 1} if self.early(message, 0) else {}

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        delivered = self._delivered
        for origin, count in base.items():
            delivered[origin] = max(count, delivered.get(origin, 0))
        held, self._waiting = self._waiting, {}
        released, dropped = [], []
        for (origin, seq), message in sorted(held.items()):
            if seq <= base.get(origin, 0):
                dropped.append(message)
            else:
                released += self._release(message)
        return Released(released, dropped)

    def progress(self) -> Mapping[NodeId, int]:
        return self._delivered

    def pending(self) -> list[Message[None]]:
        return list(self._waiting.values())

    def snapshot(self) -> State:
        return {"delivered": dict(self._delivered)}

    def restore(self, state: State, pending: list[Message[None]]) -> None:
        self._delivered = dict(state["delivered"])
        self._waiting = {(message.origin, message.seq): message for message in pending}

    def gauges(self) -> dict[str, int]:
        return {"pending": len(self._waiting), "clock": len(self._delivered)}
