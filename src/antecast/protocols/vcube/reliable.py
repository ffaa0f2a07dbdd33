"""Trees that outlive their nodes: diagnosis finds who works, comparison finds what is missing.

Trees are built from the nodes that diagnosis takes to be correct, so new messages go around those that are
not. What was on its way through a node when it crashed, what was sent to it before others knew, what a
partition or a lossy link swallowed: all of that is found in one way. Each answer to a test holds a digest of
the messages its sender has received. Where digests differ, the two compare what they have, message by message
and in both directions (the summaries of `retained`), and send what the other lacks.

Why everybody gets everything: the tests connect all correct nodes. Within a cube of dimension s, let both
halves be connected in themselves; a node of one half tests the first correct node of the other, if there is
any, and so joins them. Along each such pair the sets of received messages become equal; so they do everywhere.

It depends on no packet in particular, and asks nothing of the one that crashed. A node compares with one other
a round: one that was away for long gets what it missed once, not once from each neighbour.
"""

from hashlib import blake2b
from typing import Any, ClassVar

import msgspec

from antecast.core import Effect, Frame, Message, NodeId, Send, State, Timer
from antecast.protocols.dissemination import Above
from antecast.protocols.retained import PATIENCE, Base, RetainedLog, Summary
from antecast.protocols.vcube.diagnosis import OVERDUE, ROUND, Diagnosis, Reply, Test
from antecast.protocols.vcube.packets import Packet
from antecast.protocols.vcube.trees import Trees


class ReliableTrees(Trees):
    """For nodes that crash, recover, join and leave, partitions that heal, and links that lose."""

    frames: ClassVar[tuple[type[Frame], ...]] = (Packet, Summary, Base, Test, Reply)

    def __init__(
        self,
        node: NodeId,
        *,
        aggregate: bool,
        single: bool,
        room: int,
        interval: int,
        timeout: int,
        retain: int,
        patience: int,
    ) -> None:
        self._log = RetainedLog(node, retain=retain, patience=patience, ordered=True, newcomers_wait=True)
        """A reply to a test may overtake a packet, so nobody takes a base at once: what it covers may be on its
        way."""
        super().__init__(node, aggregate=aggregate, single=single, room=room, received=self._log.received)
        self._diagnosis = Diagnosis(self._view, interval=interval, timeout=timeout)
        self._digest: int | None = None
        self._compared = False
        self._patience = patience
        self._overtaken: dict[tuple[NodeId, int], int] = {}
        """Messages that came by comparison, and when. The packet that is still on its way brings the duty to pass
        them on."""

    def attach(self, above: Above) -> None:
        super().attach(above)
        self._log.above = above

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        changed = False
        if isinstance(frame, Packet):
            super().receive(frame, sender, now, out)
        elif isinstance(frame, Message):
            self._check(frame, sender)
            if (frame.origin, frame.seq) not in self._received:
                self._overtaken[frame.origin, frame.seq] = now
                self._take(frame, None, 0, now, out, out)
        elif isinstance(frame, Test):
            out.append(Send(sender, Reply(self._what_is_here(), self._diagnosis.news.copy())))
        elif isinstance(frame, Reply):
            changed = self._diagnosis.answered(sender, frame.news)
            if frame.digest != self._what_is_here() and not self._compared:
                self._compared = True
                self._log.compare(sender, out)
        elif isinstance(frame, Summary):
            self._compare(frame, sender, now, out)
        elif isinstance(frame, Base):
            self._give_up(frame, sender, now, out)
        else:
            super().receive(frame, sender, now, out)
        if self._diagnosis.heard(sender) or changed:
            self._rearrange(now, out)

    def _take(
        self,
        message: Message[Any],
        packet: Packet | None,
        height: int,
        now: int,
        out: list[Effect],
        deliveries: list[Effect],
    ) -> None:
        if height and self._overtaken and self._overtaken.pop((message.origin, message.seq), None) is not None:
            self._pass_on(message, packet, height, self._received.upto.get(message.origin, 0), out)
        else:
            super()._take(message, packet, height, now, out, deliveries)

    def _compare(self, summary: Summary, sender: NodeId, now: int, out: list[Effect]) -> None:
        """Send what the other lacks, and ask for what is lacking here unless another was asked already."""
        if self._compared and not summary.answer:
            summary = msgspec.structs.replace(summary, answer=True)
        elif self._received.lacks(summary.upto, summary.beyond):
            self._compared = True
        self._log.take_summary(summary, sender, out)

    def _give_up(self, base: Base, sender: NodeId, now: int, out: list[Effect]) -> None:
        """Messages that nobody keeps any more may be counted as received."""
        self._log.take_base(base, sender, now, out)
        self._digest = None
        self._let_go(out)

    def _rearrange(self, now: int, out: list[Effect]) -> None:
        """The view has changed: let go of what was held for the old trees, and test the new neighbours."""
        self._let_go(out)
        self._diagnosis.hasten(now, out)

    def _note(self, message: Message[Any], now: int, out: list[Effect]) -> bool:
        if (message.origin, message.seq) in self._received:
            return False
        self._log.add(message)
        self._digest = None
        return True

    def _what_is_here(self) -> int:
        """A digest of the messages received: equal for equal sets, different for others but once in 2⁶³."""
        if self._digest is None:
            here = sorted(self._received.upto.items()), sorted(self._received.gaps().items())
            digest = blake2b(msgspec.msgpack.encode(here), digest_size=8).digest()
            self._digest = int.from_bytes(digest, "big") >> 1
        return self._digest

    def settled(self, message: Message[Any]) -> None:
        self._log.settled(message)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._diagnosis.link_up(peer, now, out)
        self._let_go(out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._diagnosis.link_down(peer, now, out)
        self._let_go(out)

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == ROUND:
            self._compared = False
            self._forget_overtaken(now - self._patience)
            self._diagnosis.round(now, out)
        elif token == OVERDUE:
            if self._diagnosis.look(now, out):
                self._rearrange(now, out)
        elif token == PATIENCE:
            self._log.timer(now, out)
            self._digest = None
            self._let_go(out)

    def _forget_overtaken(self, before: int) -> None:
        while self._overtaken and self._overtaken[first := next(iter(self._overtaken))] < before:
            del self._overtaken[first]

    def resume(self, now: int, out: list[Effect]) -> None:
        self._log.resume(now, out)

    def stored(self) -> list[Message[Any]]:
        return self._log.stored()

    def snapshot(self) -> State:
        return {"spread": self._spread, "kept": self._log.snapshot()}

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._spread = state["spread"]
        self._digest = None
        self._log.restore(state["kept"], messages)

    def gauges(self) -> dict[str, int]:
        return super().gauges() | self._log.gauges() | {"doubted": len(self._view.doubted)}
