"""Epidemic exchange: store, carry and forward. A node keeps what it hears and hands it to whomever it
meets ("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo, section III).

When two nodes come into contact each says what it has seen, and sends what the other has not. While the
contact lasts, whatever is new goes to the other at once. A contact that ends breaks the transfer off; the
next one goes on from there. The messages of a transfer go in an order that is not the causal one: by
default scrambled, differently in every contact.

The cache holds `capacity` messages. When it is full, one makes room: the oldest here, one by lot, or the
one that expires first. A message that has been dropped is remembered as seen, and is not taken again.

Messages with a deadline are kept until it has passed on the local clock. Dropping them may wait a little
(`PURGE`): an expired message is neither accepted nor sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Literal, TypeAlias

from antecast.core import (
    Clock,
    Discard,
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
from antecast.protocols.dissemination import Dissemination
from antecast.protocols.received import Gaps, Received

Order: TypeAlias = Literal["random", "newest", "oldest"]
Policy: TypeAlias = Literal["oldest", "random", "expire-first"]

PURGE: Timer = "epidemic/purge"
PURGE_EVERY = 10**9
"""Nanoseconds between two clearings of the cache: expired messages cost a look-up each second at most."""

_MASK = (1 << 64) - 1


class Offer(Frame, frozen=True, array_like=True, tag=1):
    """What a node has seen: it need not be sent there."""

    upto: Clock
    beyond: Gaps


class _Known:
    """What a node in contact has: what it offered, and what passed between us since."""

    __slots__ = ("offered", "since")

    def __init__(self, offer: Offer) -> None:
        self.offered = Received()
        self.offered.upto = offer.upto
        self.offered.beyond = {origin: set(numbers) for origin, numbers in offer.beyond.items()}
        self.since: set[tuple[NodeId, int]] = set()


def scramble(salt: int) -> Callable[[tuple[NodeId, int]], int]:
    """A sort key that puts messages into an order of its own for each salt."""

    def key(message: tuple[NodeId, int]) -> int:
        z = (message[0] * 0x9E3779B97F4A7C15 ^ message[1] * 0xC2B2AE3D27D4EB4F ^ salt) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        return z ^ (z >> 27)

    return key


class Epidemic(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Offer,)

    def __init__(self, node: NodeId, *, capacity: int | None, policy: Policy, order: Order) -> None:
        self._node = node
        self._capacity = capacity
        self._policy = policy
        self._order = order
        self._cache: dict[tuple[NodeId, int], Message[Any]] = {}
        self._sources: dict[NodeId, dict[int, Message[Any]]] = {}
        """The same messages by source: an offer is compared source by source."""
        self._received = Received()
        self._known: dict[NodeId, _Known | None] = {}
        """Whom we are in contact with, and what we know them to have; None before their offer."""
        self._deadlines: list[tuple[int, NodeId, int]] = []
        self._purge_at: int | None = None
        self._contacts = 0
        self._dropped = 0
        self._refused = 0

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        self._received.add(message.origin, message.seq)
        self._keep(message, now, out)
        self._offer_on(message, None, out)

    def settled(self, message: Message[Any]) -> None:
        """Delivered or not, others may still want it."""

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if frame.__class__ is Message:
            self._take(frame, sender, now, out)
        elif isinstance(frame, Offer):
            self._answer(frame, sender, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which epidemics do not know")

    def _take(self, message: Message[Any], sender: NodeId, now: int, out: list[Effect]) -> None:
        origin, seq = message.origin, message.seq
        known = self._known.get(sender)
        if known is not None:
            known.since.add((origin, seq))
        refusal = self.above.admit(message, now)
        if refusal is not None:
            self._refused += 1
            out.append(Discard(MessageId(origin, seq), refusal))
            return
        if not self._received.add(origin, seq):
            return
        self._keep(message, now, out)
        self._offer_on(message, sender, out)
        self.above.arrived(message, now, out)

    def _offer_on(self, message: Message[Any], sender: NodeId | None, out: list[Effect]) -> None:
        """Pass a new message on to those in contact who do not have it."""
        key = (message.origin, message.seq)
        for peer, known in self._known.items():
            if peer != sender and known is not None and key not in known.since and key not in known.offered:
                known.since.add(key)
                out.append(Send(peer, message))

    def _answer(self, offer: Offer, sender: NodeId, now: int, out: list[Effect]) -> None:
        known = self._known[sender] = _Known(offer)
        for message in self._in_order(self._lacking(offer), sender):
            deadline = self.above.deadline(message)
            if deadline is None or deadline >= now:
                known.since.add((message.origin, message.seq))
                out.append(Send(sender, message))

    def _lacking(self, offer: Offer) -> list[Message[Any]]:
        """The messages here that the other has not seen."""
        lacking: list[Message[Any]] = []
        upto, beyond = offer.upto.get, offer.beyond.get
        for origin, messages in self._sources.items():
            last, single = upto(origin, 0), beyond(origin, ())
            if single or last:
                lacking += [m for seq, m in messages.items() if seq > last and seq not in single]
            else:
                lacking += messages.values()
        return lacking

    def _in_order(self, messages: list[Message[Any]], peer: NodeId) -> list[Message[Any]]:
        if self._order == "random":
            scrambled = scramble(self._node << 40 ^ peer << 20 ^ self._contacts)
            return sorted(messages, key=lambda message: scrambled((message.origin, message.seq)))
        chosen = {(message.origin, message.seq) for message in messages}
        by_age = [message for key, message in self._cache.items() if key in chosen]
        return by_age if self._order == "oldest" else by_age[::-1]

    def _keep(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        key = (message.origin, message.seq)
        if self._capacity is not None and len(self._cache) >= self._capacity:
            self._make_room()
        if self._capacity != 0:
            self._cache[key] = message
            self._sources.setdefault(message.origin, {})[message.seq] = message
        deadline = self.above.deadline(message)
        if deadline is not None:
            heappush(self._deadlines, (deadline, *key))
            if self._purge_at is None:
                self._purge_at = max(deadline + 1, now + PURGE_EVERY)
                out.append(SetTimer(PURGE, self._purge_at))

    def _make_room(self) -> None:
        """Drop one message, by the policy."""
        if not self._cache:
            return
        if self._policy == "oldest":
            victim = next(iter(self._cache))
        elif self._policy == "random":
            victim = min(self._cache, key=scramble(self._dropped << 20 ^ self._node))
        else:
            victim = min(self._cache, key=lambda key: (self.above.deadline(self._cache[key]) or 0, *key))
        self._uncache(*victim)
        self._dropped += 1

    def _uncache(self, origin: NodeId, seq: int) -> None:
        if self._cache.pop((origin, seq), None) is not None:
            del self._sources[origin][seq]
            if not self._sources[origin]:
                del self._sources[origin]

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token != PURGE:
            return
        while self._deadlines and self._deadlines[0][0] < now:
            _, origin, seq = heappop(self._deadlines)
            self._uncache(origin, seq)
            self._received.forget(origin, seq)
        self._purge_at = None
        if self._deadlines:
            self._purge_at = max(self._deadlines[0][0] + 1, now + PURGE_EVERY)
            out.append(SetTimer(PURGE, self._purge_at))
        self.above.expired(now, out)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._contacts += 1
        self._known[peer] = None
        out.append(Send(peer, Offer(self._received.upto.copy(), self._received.gaps())))

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._known.pop(peer, None)

    def stored(self) -> list[Message[Any]]:
        return list(self._cache.values())

    def snapshot(self) -> State:
        return {
            "upto": dict(self._received.upto),
            "beyond": self._received.gaps(),
            "deadlines": sorted(list(each) for each in self._deadlines),
            "contacts": self._contacts,
            "dropped": self._dropped,
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._received.upto = dict(state["upto"])
        self._received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}
        self._deadlines = [(deadline, origin, seq) for deadline, origin, seq in state["deadlines"]]
        heapify(self._deadlines)
        self._contacts, self._dropped = state["contacts"], state["dropped"]
        for message in messages:
            self._cache[message.origin, message.seq] = message
            self._sources.setdefault(message.origin, {})[message.seq] = message

    def gauges(self) -> dict[str, int]:
        return {"cached": len(self._cache), "dropped": self._dropped, "refused": self._refused}
