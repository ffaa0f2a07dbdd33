"""Algorithm 2 as a protocol, so that `antecast check` can explore it as printed, and with the slip mended."""

from __future__ import annotations

from typing import Annotated

import msgspec

from antecast.core import Codec, Deliver, Effect, Frame, Message, MessageId, NodeId, Protocol, Send, State, Timer
from antecast.core.settings import Settings
from antecast.papers.vcube.algorithm2 import Node, Stamped
from antecast.protocols import Guarantee, Need, Specification


class PrintedSettings(Settings, frozen=True, kw_only=True):
    dimension: Annotated[int, msgspec.Meta(ge=1, le=4)] = 2
    """Of the cube; it has 2^dimension nodes."""
    smallest: Annotated[int, msgspec.Meta(ge=1, le=2)] = 2
    """The first cluster that children are taken from: 2 as printed (`1 < s`), 1 as meant."""


class Printed(Protocol):
    """One node of Algorithm 2, without aggregation."""

    codec = Codec([Message[tuple[int, ...]]])

    def __init__(self, node: NodeId, settings: PrintedSettings) -> None:
        self.node = node
        self._of_paper = Node(node, settings.dimension, aggregate=False, smallest=settings.smallest)
        self._payloads: dict[MessageId, bytes] = {}

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        made = self._of_paper.broadcast()
        self._payloads[MessageId(made.source, made.seq)] = payload
        return [*self._sends(), Deliver(self._message(made))]

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        assert isinstance(frame, Message)
        before = len(self._of_paper.delivered)
        self._payloads[frame.id] = frame.payload
        self._of_paper.receive([Stamped(frame.origin, frame.stamp)], sender)
        delivered = self._of_paper.delivered[before:]
        return [*self._sends(), *(Deliver(self._message(each)) for each in delivered)]

    def _sends(self) -> list[Effect]:
        sends, self._of_paper.sends = self._of_paper.sends, []
        return [Send(child, self._message(each)) for child, packet in sends for each in packet]

    def _message(self, stamped: Stamped) -> Message[tuple[int, ...]]:
        payload = self._payloads[MessageId(stamped.source, stamped.seq)]
        return Message(stamped.source, stamped.seq, payload, stamped.clock)

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        return []

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        return []

    def timer(self, token: Timer, now: int) -> list[Effect]:
        return []

    def snapshot(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        """The paper leaves crashes to future work."""

    def gauges(self) -> dict[str, int]:
        return {"pending": len(self._of_paper.pending)}


ALGORITHM_2 = Specification(
    name="vcube-printed",
    title="Algorithm 2 of the VCube paper, line by line",
    reference="A Communication-Efficient Causal Broadcast Protocol (de Araujo, Arantes, Duarte, Rodrigues, Sens)",
    guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.AGREEMENT}),
    needs=lambda settings: frozenset({Need.RELIABLE_LINKS, Need.STATIC_MEMBERS, Need.COMPLETE_GRAPH}),
    control="a vector clock",
    memory="all messages",
    delivery="a scan of what waits",
    settings=PrintedSettings,
    make=Printed,
)
