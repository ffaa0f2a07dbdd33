"""Causal order by counting, which is wrong, and by naming, which is right: the tutorial of docs/checking.md."""

from typing import Any

from antecast.core import Codec, Deliver, Effect, Frame, Message, MessageId, NodeId, Protocol, Send, State, Timer
from antecast.core.settings import Settings
from antecast.protocols import Guarantee, Need, Specification


class Counting(Protocol):
    """A message says how many messages its sender had delivered, and waits for as many."""

    codec = Codec([Message[int]])

    def __init__(self, node: NodeId, settings: Settings) -> None:
        self.node = node
        self.peers: dict[NodeId, None] = {}
        self.seq = 0
        self.delivered: list[MessageId] = []
        self.waiting: list[Message[Any]] = []

    def stamp(self) -> Any:
        return len(self.delivered)

    def is_ready(self, message: Message[Any]) -> bool:
        return bool(len(self.delivered) >= message.stamp)

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        self.seq += 1
        message = Message(self.node, self.seq, payload, self.stamp())
        self.delivered.append(message.id)
        return [*(Send(peer, message) for peer in self.peers), Deliver(message)]

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        assert isinstance(frame, Message)
        self.waiting.append(frame)
        effects: list[Effect] = []
        while ready := next(filter(self.is_ready, self.waiting), None):
            self.waiting.remove(ready)
            self.delivered.append(ready.id)
            effects.append(Deliver(ready))
        return effects

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        self.peers[peer] = None
        return []

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        self.peers.pop(peer, None)
        return []

    def timer(self, token: Timer, now: int) -> list[Effect]:
        return []

    def snapshot(self) -> State:
        encoded = [self.codec.encode(each) for each in self.waiting]
        return {"seq": self.seq, "delivered": self.delivered, "waiting": encoded}

    def restore(self, state: State) -> None:
        self.seq = state["seq"]
        self.delivered = [MessageId(*name) for name in state["delivered"]]
        self.waiting = [each for each in map(self.codec.decode, state["waiting"]) if isinstance(each, Message)]

    def gauges(self) -> dict[str, int]:
        return {"pending": len(self.waiting)}


class Naming(Counting):
    """A message names what its sender had delivered, and waits for all of it."""

    codec = Codec([Message[list[MessageId]]])

    def stamp(self) -> Any:
        return list(self.delivered)

    def is_ready(self, message: Message[Any]) -> bool:
        return set(message.stamp) <= set(self.delivered)


def _specification(make: type[Counting]) -> Specification:
    return Specification(
        name=make.__name__.lower(),
        title="causal order among nodes that all have links to each other",
        reference="",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.CAUSAL}),
        needs=lambda settings: frozenset({Need.RELIABLE_LINKS, Need.STATIC_MEMBERS, Need.COMPLETE_GRAPH}),
        control="constant",
        memory="all names",
        delivery="what waits",
        settings=Settings,
        make=make,
    )


COUNTING = _specification(Counting)
NAMING = _specification(Naming)
