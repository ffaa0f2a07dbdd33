"""Flooding: a message goes to every neighbour, and each passes it on the first time it sees it.

Over links that lose nothing this reaches every connected node. For links that come and go, and
for links that lose, a node keeps the messages it delivered last (`retained`), and two neighbours can
compare what they have:

- When a link comes up, a node that has anything says what in a `Summary`. A node that has nothing stays silent, so
  an empty network starts without traffic.
- With `repair`, each node sends a summary to its neighbours in turn, one every `repair` nanoseconds. Lost frames
  are then found and sent again: flooding becomes reliable over links that lose, as long as a frame gets through
  now and then.
- When a node has given up messages that nobody around it keeps, it compares with all neighbours, so that
  they can go on without them, too (`offers`).

What is not taken: frames without a link, and messages that no correct node makes (`RemoteFault`); messages of
this node, or that depend on messages of this node, which it never broadcast (`Alert`); and early messages beyond
a neighbour's quota, for now (`quota`).
"""

from typing import Any, ClassVar, Final

from antecast.core import (
    MAX_SOURCES,
    CancelTimer,
    Discard,
    Effect,
    Frame,
    Message,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.dissemination import Above, Dissemination
from antecast.protocols.ordering import UNKNOWN
from antecast.protocols.quota import Quotas
from antecast.protocols.retained import PATIENCE, Base, RetainedLog, Summary

REPAIR: Timer = "flood/repair"
OWED: Timer = "flood/owed"

RETRY: Final = 10**9
"""How long to wait before asking a sender again for a message that was not taken."""


class Flood(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Summary, Base)

    def __init__(
        self,
        node: NodeId,
        *,
        retain: int | None,
        repair: int | None,
        patience: int,
        ordered: bool,
        early: int = 1 << 27,
    ) -> None:
        self._node = node
        self._repair = repair
        self._ordered = ordered
        self._peers: dict[NodeId, None] = {}
        self._log = RetainedLog(
            node, retain=retain, patience=patience, ordered=ordered, names_held=ordered, neighbours=self._peers
        )
        self._received, self._store = self._log.received, self._log.store
        self._quotas = Quotas(early)
        self._early = self._quotas.charged
        self._full = self._quotas.full
        self._offers = self._log.offers.pending
        self._doubted: dict[NodeId, None] = {}
        """The neighbours that sent messages which depend on messages of this node that it has not broadcast."""
        self._owed: dict[NodeId, None] = {}
        """The neighbours to ask again, since something of theirs was not taken."""
        self._turn = 0

    def attach(self, above: Above) -> None:
        super().attach(above)
        self._log.attach(above)

    def enter(self) -> None:
        self._log.enter()

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        self._log.add(message)
        out += [Send(peer, message) for peer in self._peers]
        if self._doubted:  # others may now deliver what was not taken here, and depend on it
            for peer in self._doubted:
                self._owe(peer, now, out)
            self._doubted.clear()

    def settled(self, message: Message[Any]) -> None:
        self.all_settled([message])

    def all_settled(self, messages: list[Message[Any]]) -> None:
        if self._early:
            for message in messages:
                self._quotas.remove((message.origin, message.seq))
        self._log.all_settled(messages)

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        """Take a message in, unless it is a copy, and pass it on. This runs for every message that arrives."""
        if sender not in self._peers:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__} without a link")
        if frame.__class__ is not Message:
            self._compare(frame, sender, now, out)
            return
        message: Message[Any] = frame
        origin, seq, received = message.origin, message.seq, self._received
        last = received.upto.get(origin)
        if last is None:
            last = 0
            self._log.check_room(origin, sender)
        if seq <= last or (seq > last + 1 and seq in received.beyond.get(origin, ())):
            return
        if origin == self._node:
            self._log.is_false_claim(seq, sender, out)
            return
        above = self.above
        refusal = above.admit(message, now)
        if refusal is not None:
            self._refuse(message, refusal, sender, out)
            return
        if (self._full or seq != last + 1) and self._is_too_early(message, sender, now):
            self._owe(sender, now, out)
            self._log.offers.turned_away(message, now, out)
            return
        if seq == last + 1 and origin not in received.beyond:
            received.upto[origin] = seq
            self._store[origin, seq] = message
        else:
            self._log.add(message)
        for peer in self._peers:
            if peer != sender:
                out.append(Send(peer, message))
        waits = above.arrived(message, now, out)
        if waits:
            self._quotas.add((origin, seq), sender, above.weight(message))
        if self._offers and (waits or not self._ordered):
            self._log.offers.held(message, now, out)

    def _compare(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if isinstance(frame, Summary):
            self._log.take_summary(frame, sender, out)
        elif isinstance(frame, Base):
            self._log.take_base(frame, sender, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which this protocol does not know")

    def _refuse(self, message: Message[Any], why: str, sender: NodeId, out: list[Effect]) -> None:
        if why == UNKNOWN:
            self._log.is_false_claim(message.stamp[self._node], sender, out)
            self._doubted[sender] = None
        else:
            out.append(Discard(message.id, why))

    def _owe(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        """Compare with a neighbour in a while, because something it sent was not taken."""
        if not self._owed:
            out.append(SetTimer(OWED, now + RETRY))
        self._owed[peer] = None

    def _is_too_early(self, message: Message[Any], sender: NodeId, now: int) -> bool:
        if self._ordered:
            return sender in self._quotas.full and self.above.early(message, now)
        # Nothing is held, but numbers out of turn are remembered, as many as a summary can name.
        return self._received.out_of_turn >= MAX_SOURCES

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer in self._peers:
            self.link_down(peer, now, out)
        if self._repair is not None and not self._peers:
            out.append(SetTimer(REPAIR, now + self._repair))
        self._peers[peer] = None
        if self._received:
            self._log.compare(peer, out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer not in self._peers:
            return
        del self._peers[peer]
        self._log.link_down(peer)
        self._doubted.pop(peer, None)
        if self._repair is not None and not self._peers:
            out.append(CancelTimer(REPAIR))

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == REPAIR and self._repair is not None and self._peers:
            self._turn += 1
            self._log.compare(list(self._peers)[self._turn % len(self._peers)], out)
            out.append(SetTimer(REPAIR, now + self._repair))
        elif token == PATIENCE:
            self._log.timer(now, out)
        elif token == OWED:
            owed, self._owed = self._owed, {}
            for peer in owed:
                if peer in self._peers:
                    self._log.compare(peer, out)

    def resume(self, now: int, out: list[Effect]) -> None:
        self._log.resume(now, out)  # repairs, and what is owed, resume with the links

    def stored(self) -> list[Message[Any]]:
        return self._log.stored()

    def snapshot(self) -> State:
        return self._log.snapshot()

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._log.restore(state, messages)

    def gauges(self) -> dict[str, int]:
        return self._log.gauges()
