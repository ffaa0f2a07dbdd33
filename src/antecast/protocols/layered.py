"""A protocol made of an ordering over a dissemination."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from antecast.core import (
    MAX_PAYLOAD,
    Codec,
    Deliver,
    Discard,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    NodeId,
    Protocol,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.dissemination import Dissemination
from antecast.protocols.ordering import EXPIRED, OVERTAKEN, Ordering, Released

EXPIRY: Timer = "ordering/expiry"


@cache
def _codec(stamp_type: Any, frames: tuple[type[Frame], ...]) -> Codec:
    """Nodes of one protocol share a codec: it has no state, and building its decoder takes time."""
    return Codec([Message[stamp_type], *frames])


class Layered(Protocol):
    """Messages are stamped by the ordering, carried by the dissemination, and handed back to the ordering where
    they arrive. A message is passed on before it is delivered, so that whatever the application broadcasts in
    answer leaves after it."""

    __slots__ = (
        "_accept",
        "_dissemination",
        "_ordering",
        "_release",
        "_seq",
        "_settle",
        "_tells_each",
        "_wakeup",
        "admit",
        "codec",
        "deadline",
        "early",
        "missing",
        "node",
        "pending",
        "timed",
        "weight",
    )

    def __init__(self, node: NodeId, ordering: Ordering[Any], dissemination: Dissemination) -> None:
        self.node = node
        self.codec = _codec(ordering.stamp_type, dissemination.frames)
        self._ordering = ordering
        self._dissemination = dissemination
        self._seq = 0
        self._wakeup: int | None = None
        # Called for every message that arrives, so bound to the ordering directly.
        self.timed, self._accept, self._release = ordering.timed, ordering.accept, ordering.release
        self._settle = dissemination.all_settled if dissemination.keeps else None
        self._tells_each = dissemination.keeps and dissemination.counts_all
        self.admit: Callable[[Message[Any], int], str | None] = ordering.admit
        self.deadline: Callable[[Message[Any]], int | None] = ordering.deadline
        self.early: Callable[[Message[Any], int], bool] = ordering.early
        self.missing: Callable[[Message[Any]], Mapping[NodeId, int]] = ordering.missing
        self.pending: Callable[[], list[Message[Any]]] = ordering.pending
        self.weight: Callable[[Message[Any]], int] = ordering.weight
        dissemination.attach(self)

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None and not self.timed:
            raise LocalMisuse("this protocol does not support lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        seq = self._seq + 1
        if seq == 1:
            self._dissemination.enter()
        message = Message(self.node, seq, payload, self._ordering.stamp(seq, now, lifetime))
        self._seq = seq
        out: list[Effect] = []
        self._dissemination.spread(message, now, out)
        if self._settle is not None:
            self._settle([message])
        out.append(Deliver(message))
        return out

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        self._dissemination.receive(frame, sender, now, out)
        return out

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        self._dissemination.link_up(peer, now, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        self._dissemination.link_down(peer, now, out)
        return out

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == EXPIRY:
            self._wakeup = None
            self.expired(now, out)
        else:
            self._dissemination.timer(token, now, out)
        return out

    def resume(self, now: int) -> list[Effect]:
        out: list[Effect] = []
        self._wakeup = None
        if self.timed:
            self.expired(now, out)
        self._dissemination.resume(now, out)
        return out

    def arrived(self, message: Message[Any], now: int, out: list[Effect]) -> bool:
        if self._release is not None:
            ready = self._release(message)
            if not ready:
                return True
            if self._settle is not None:
                self._settle(ready)
            out += map(Deliver, ready)
            return ready[0] is not message
        released = self._accept(message, now)
        ready, dropped = released.ready, released.dropped
        if dropped:
            waits = not any(each is message for each in (*ready, *dropped))
            self._carry_out(released, now, out)
        elif not ready:
            waits = True
        elif len(ready) == 1 and not self._tells_each:  # the usual case, written out
            waits = False
            out.append(Deliver(message))
        else:
            waits = ready[0] is not message
            if self._settle is not None:
                self._settle(ready)
            out += map(Deliver, ready)
        if self.timed:
            self._set_wakeup(out)
        return waits

    def expired(self, now: int, out: list[Effect]) -> None:
        self._carry_out(self._ordering.expire(now), now, out)
        self._set_wakeup(out)

    def skipped(self, base: Mapping[NodeId, int], out: list[Effect]) -> None:
        self._carry_out(self._ordering.skip(base), None, out)

    def _carry_out(self, released: Released, now: int | None, out: list[Effect]) -> None:
        """Deliver and discard; `now` is None where what is discarded was skipped."""
        for message in released.dropped:
            self._dissemination.settled(message)
            out.append(Discard(message.id, "skipped" if now is None else self._why_dropped(message, now)))
        for message in released.ready:
            self._dissemination.settled(message)
            out.append(Deliver(message))

    def _why_dropped(self, message: Message[Any], now: int) -> str:
        deadline = self.deadline(message)
        return EXPIRED if deadline is not None and deadline < now else OVERTAKEN

    def _set_wakeup(self, out: list[Effect]) -> None:
        wakeup = self._ordering.wakeup()
        # A timer that turns out to be too early costs less than moving it with every delivery.
        if wakeup is not None and (self._wakeup is None or wakeup < self._wakeup):
            self._wakeup = wakeup
            out.append(SetTimer(EXPIRY, wakeup))

    @property
    def complete(self) -> bool:
        return self._ordering.complete

    def progress(self) -> Mapping[NodeId, int]:
        return self._ordering.progress()

    def snapshot(self) -> State:
        return {
            "seq": self._seq,
            "ordering": self._ordering.snapshot(),
            "pending": [self.codec.encode(message) for message in self._ordering.pending()],
            "stored": [self.codec.encode(message) for message in self._dissemination.stored()],
            "dissemination": self._dissemination.snapshot(),
        }

    def restore(self, state: State) -> None:
        self._seq = state["seq"]
        self._ordering.restore(state["ordering"], self._messages(state["pending"]))
        self._dissemination.restore(state["dissemination"], self._messages(state["stored"]))

    def _messages(self, encoded: list[bytes]) -> list[Message[Any]]:
        return [frame for frame in map(self.codec.decode, encoded) if isinstance(frame, Message)]

    def gauges(self) -> dict[str, int]:
        return self._ordering.gauges() | self._dissemination.gauges()
