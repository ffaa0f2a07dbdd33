"""Flooding: a message goes to every neighbour, and each passes it on the first time it sees it.

Over links that lose nothing this reaches everyone a path leads to. For links that come and go, and
for links that lose, a node keeps the messages it delivered last (`retained`), and two neighbours can
compare what they have:

- When a link comes up, a node that has anything says what in a `Summary`. A node that has nothing stays
  silent, so a network that starts empty starts without a word.
- With `repair`, each node sends a summary to its neighbours in turn, one every `repair`
  nanoseconds. Lost frames are then found and sent again: flooding becomes reliable over links that
  lose, as long as a frame gets through now and then.
"""

from typing import Any, ClassVar

from antecast.core import (
    CancelTimer,
    Effect,
    Frame,
    Message,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.dissemination import Above, Dissemination
from antecast.protocols.retained import PATIENCE, Base, RetainedLog, Summary

REPAIR: Timer = "flood/repair"


class Flood(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Summary, Base)

    def __init__(
        self, node: NodeId, *, retain: int | None, repair: int | None, patience: int, ordered: bool
    ) -> None:
        self._node = node
        self._repair = repair
        self._log = RetainedLog(node, retain=retain, patience=patience, ordered=ordered)
        self._received = self._log.received
        self._peers: dict[NodeId, None] = {}
        self._turn = 0

    def attach(self, above: Above) -> None:
        super().attach(above)
        self._log.above = above

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        self._log.add(message)
        for peer in self._peers:
            out.append(Send(peer, message))

    def settled(self, message: Message[Any]) -> None:
        self._log.settled(message)

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if frame.__class__ is Message:
            self._pass_on(frame, sender, now, out)
        elif isinstance(frame, Summary):
            self._log.take_summary(frame, sender, out)
        elif isinstance(frame, Base):
            self._log.take_base(frame, sender, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which flooding does not know")

    def _pass_on(self, message: Message[Any], sender: NodeId, now: int, out: list[Effect]) -> None:
        origin, seq = message.origin, message.seq
        if origin == self._node and seq > self._received.upto.get(origin, 0):
            raise RemoteFault(f"node {sender} sent message {MessageId(origin, seq)}, never broadcast here")
        if not self._log.add(message):
            return
        out += [Send(peer, message) for peer in self._peers if peer != sender]
        self.above.arrived(message, now, out)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if self._repair is not None and not self._peers:
            out.append(SetTimer(REPAIR, now + self._repair))
        self._peers[peer] = None
        if self._received:
            self._log.compare(peer, out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._peers.pop(peer, None)
        if self._repair is not None and not self._peers:
            out.append(CancelTimer(REPAIR))

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == REPAIR and self._repair is not None and self._peers:
            self._turn += 1
            self._log.compare(list(self._peers)[self._turn % len(self._peers)], out)
            out.append(SetTimer(REPAIR, now + self._repair))
        elif token == PATIENCE:
            self._log.timer(now, out)

    def resume(self, now: int, out: list[Effect]) -> None:
        self._log.resume(now, out)  # comparisons start again with the first link

    def stored(self) -> list[Message[Any]]:
        return self._log.stored()

    def snapshot(self) -> State:
        return self._log.snapshot()

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._log.restore(state, messages)

    def gauges(self) -> dict[str, int]:
        return self._log.gauges()
