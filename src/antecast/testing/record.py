"""What happened on a bench: broadcasts and deliveries as an auditor sees them, and what else a test may ask."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

from antecast.core import Accepted, Deliver, Effect, Frame, Message, MessageId, NodeId, RemoteFault
from antecast.testing.timing import ContractBroken


class Event(NamedTuple):
    """What an auditor sees: a broadcast or a delivery."""

    kind: str
    node: NodeId
    id: MessageId
    t: int


class Record:
    def __init__(self) -> None:
        self.log: list[Event] = []
        self.delivered: dict[NodeId, list[MessageId]] = defaultdict(list)
        self.discarded: dict[NodeId, list[MessageId]] = defaultdict(list)
        self.alerts: dict[NodeId, list[str]] = defaultdict(list)
        self.refused: Counter[NodeId] = Counter()
        self.refusals: list[str] = []
        """Each frame that was refused, in words."""
        self.calls: dict[NodeId, list[tuple[str, tuple[Any, ...], list[Effect]]]] = defaultdict(list)
        """All calls and their effects, if asked for."""

    def broadcast(self, node: NodeId, effects: list[Effect], now: int) -> MessageId:
        """The name of a message that was just broadcast."""
        names = [effect.id for effect in effects if isinstance(effect, Accepted)]
        names += [each.message.id for each in effects if isinstance(each, Deliver) and each.message.origin == node]
        if len(names) != 1:
            raise ContractBroken("names", f"node {node}: a broadcast gave {names}, expected exactly one")
        self.log.append(Event("broadcast", node, names[0], now))
        return names[0]

    def deliver(self, node: NodeId, message: Message[Any], now: int) -> None:
        self.delivered[node].append(message.id)
        self.log.append(Event("deliver", node, message.id, now))

    def refuse(self, node: NodeId, frame: Frame, sender: NodeId, fault: RemoteFault) -> None:
        self.refused[node] += 1
        self.refusals.append(f"node {node} refused {shown(frame)} of {sender}: {fault}")


def shown(frame: object) -> str:
    text = repr(frame)
    return text if len(text) <= 200 else f"{text[:200]}…"
