"""Epidemic exchange: store, carry and forward. A node keeps what it hears and hands it to whomever it
meets ("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo, section III).

When two nodes come into contact each says what it holds (`Offer`), asks for what it has not seen (`Request`)
and gets it. While the contact lasts, whatever is new goes to the other at once, unless the other offered it
itself. A contact that ends breaks the transfer off; the next one goes on from there. The messages of a
transfer go in an order that is not the causal one: by default scrambled, differently in every contact.

A message is asked of one node at a time: who walks into a crowd hears the same offer from everyone in it, and
would otherwise get everything as often. When a contact ends, what was asked for there and has not come is
asked of the others. (What a full cache drops between offer and request comes with a later contact.)

The cache holds `capacity` messages. When it is full, one makes room: the oldest here, one by lot, or the
one that expires first. A message that has been dropped is remembered as seen, and is not taken again.

Messages with a deadline are kept until it has passed on the local clock; they are dropped before the next
exchange, and now and then where there is none (`PURGE`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Literal, TypeAlias

from antecast.core import (
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
from antecast.protocols.runs import Runs, Spans, check, common, messages, minus

Order: TypeAlias = Literal["random", "newest", "oldest"]
Policy: TypeAlias = Literal["oldest", "random", "expire-first"]

PURGE: Timer = "epidemic/purge"
PURGE_SHARE = 64
"""Without contacts, expired messages stay for up to this part of a lifetime: 1.6 % more of them at the most."""

_MASK = (1 << 64) - 1


class Offer(Frame, frozen=True, array_like=True, tag=1):
    """The messages that a node holds."""

    held: Spans


class Request(Frame, frozen=True, array_like=True, tag=2):
    """The messages of an offer that a node would like to have."""

    wanted: Spans


class _Contact:
    """A node we are in contact with: what it offered, and what we asked it for."""

    __slots__ = ("asked", "offered")

    def __init__(self) -> None:
        self.offered: dict[NodeId, tuple[int, ...]] = {}
        self.asked: list[dict[NodeId, tuple[int, ...]]] = []


def scramble(salt: int) -> Callable[[tuple[NodeId, int]], int]:
    """A sort key that puts messages into an order of its own for each salt."""

    def key(message: tuple[NodeId, int]) -> int:
        z = (message[0] * 0x9E3779B97F4A7C15 ^ message[1] * 0xC2B2AE3D27D4EB4F ^ salt) & _MASK
        return (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK

    return key


class Epidemic(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Offer, Request)

    def __init__(self, node: NodeId, *, capacity: int | None, policy: Policy, order: Order) -> None:
        self._node = node
        self._capacity = capacity
        self._policy = policy
        self._order = order
        self._cache: dict[tuple[NodeId, int], Message[Any]] = {}
        self._seen = Runs()
        """What was received, but for what has expired."""
        self._held = self._seen if capacity is None else Runs()
        """What is in the cache. Where nothing is dropped for want of room, that is what was seen."""
        self._contacts: dict[NodeId, _Contact] = {}
        self._deadlines: list[tuple[int, tuple[NodeId, int]]] = []
        self._longest = 0
        """The longest time that a message had left to live."""
        self._purge_at: int | None = None
        self._meetings = 0
        self._dropped = 0
        self._refused = 0

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        key = (message.origin, message.seq)
        self._seen.add(*key)
        self._keep(key, message, now, out)
        for peer in self._contacts:
            out.append(Send(peer, message))

    def settled(self, message: Message[Any]) -> None:
        """Delivered or not, others may still want it."""

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if frame.__class__ is Message:
            self._take(frame, sender, now, out)
        elif isinstance(frame, Offer):
            self._compare(frame, sender, now, out)
        elif isinstance(frame, Request):
            self._hand_over(frame, sender, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which epidemics do not know")

    def _take(self, message: Message[Any], sender: NodeId, now: int, out: list[Effect]) -> None:
        origin, seq = key = (message.origin, message.seq)
        if key in self._cache:
            return
        refusal = self.above.admit(message, now)
        if refusal is not None:
            if key not in self._seen:
                self._refused += 1
                out.append(Discard(MessageId(origin, seq), refusal))
            return
        if not self._seen.add(origin, seq):
            return
        self._keep(key, message, now, out)
        for peer, contact in self._contacts.items():
            if peer != sender and not bisect_right(contact.offered.get(origin, ()), seq) & 1:
                out.append(Send(peer, message))
        self.above.arrived(message, now, out)

    def _compare(self, offer: Offer, sender: NodeId, now: int, out: list[Effect]) -> None:
        contact = self._contacts.get(sender)
        if contact is None:
            raise RemoteFault(f"node {sender} sent an offer without a link")
        self._purge(now)
        seen = self._seen.spans.get
        news = {origin: runs for origin, runs in offer.held.items() if seen(origin) != runs}
        check(news, sender)
        contact.offered = offer.held
        self._ask(sender, contact, news, out)

    def _ask(
        self, peer: NodeId, contact: _Contact, offered: dict[NodeId, tuple[int, ...]], out: list[Effect]
    ) -> None:
        """Ask for what another offers, has not been seen here and was not asked of anyone yet."""
        wanted = minus(offered, self._seen.spans)
        for other in self._contacts.values():
            for asked in other.asked:
                if wanted:
                    wanted = minus(wanted, asked)
        if wanted:
            contact.asked.append(wanted)
            out.append(Send(peer, Request(wanted)))

    def _hand_over(self, request: Request, sender: NodeId, now: int, out: list[Effect]) -> None:
        check(request.wanted, sender)
        self._purge(now)
        found = messages(common(request.wanted, self._held.spans))
        out += [Send(sender, self._cache[key]) for key in self._in_order(found, sender)]

    def _in_order(self, found: Iterable[tuple[NodeId, int]], peer: NodeId) -> list[tuple[NodeId, int]]:
        if self._order == "random":
            return sorted(found, key=scramble(self._node << 40 ^ peer << 20 ^ self._meetings))
        chosen = set(found)
        by_age = [key for key in self._cache if key in chosen]
        return by_age if self._order == "oldest" else by_age[::-1]

    def _keep(self, key: tuple[NodeId, int], message: Message[Any], now: int, out: list[Effect]) -> None:
        if self._capacity is None:
            self._cache[key] = message
        elif self._capacity > 0:
            if len(self._cache) >= self._capacity:
                self._make_room()
            self._cache[key] = message
            self._held.add(*key)
        deadline = self.above.deadline(message)
        if deadline is not None:
            heappush(self._deadlines, (deadline, key))
            if deadline - now > self._longest:
                self._longest = deadline - now
            if self._purge_at is None:
                self._purge_later(out)

    def _make_room(self) -> None:
        """Drop one message, by the policy."""
        if self._policy == "oldest":
            victim = next(iter(self._cache))
        elif self._policy == "random":
            victim = min(self._cache, key=scramble(self._dropped << 20 ^ self._node))
        else:
            victim = min(self._cache, key=lambda key: (self.above.deadline(self._cache[key]) or 0, *key))
        del self._cache[victim]
        self._held.discard(*victim)
        self._dropped += 1

    def _purge_later(self, out: list[Effect]) -> None:
        self._purge_at = self._deadlines[0][0] + 1 + self._longest // PURGE_SHARE
        out.append(SetTimer(PURGE, self._purge_at))

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token != PURGE:
            return
        self._purge(now)
        self._purge_at = None
        if self._deadlines:
            self._purge_later(out)
        self.above.expired(now, out)

    def _purge(self, now: int) -> None:
        """Drop what has expired."""
        while self._deadlines and self._deadlines[0][0] < now:
            _, key = heappop(self._deadlines)
            self._seen.discard(*key)
            if self._cache.pop(key, None) is not None and self._held is not self._seen:
                self._held.discard(*key)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._purge(now)
        self._meetings += 1
        self._contacts[peer] = _Contact()
        out.append(Send(peer, Offer(self._held.spans.copy())))

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        contact = self._contacts.pop(peer, None)
        if contact is not None and any(minus(asked, self._seen.spans) for asked in contact.asked):
            for other, remaining in self._contacts.items():
                self._ask(other, remaining, remaining.offered, out)

    def stored(self) -> list[Message[Any]]:
        return list(self._cache.values())

    def snapshot(self) -> State:
        return {
            "seen": {origin: list(runs) for origin, runs in self._seen.spans.items()},
            "deadlines": sorted([deadline, *key] for deadline, key in self._deadlines),
            "longest": self._longest,
            "meetings": self._meetings,
            "dropped": self._dropped,
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._seen.spans = {origin: tuple(runs) for origin, runs in state["seen"].items()}
        self._deadlines = [(deadline, (origin, seq)) for deadline, origin, seq in state["deadlines"]]
        heapify(self._deadlines)
        self._longest, self._meetings, self._dropped = state["longest"], state["meetings"], state["dropped"]
        for message in messages:
            self._cache[message.origin, message.seq] = message
            self._held.add(message.origin, message.seq)

    def gauges(self) -> dict[str, int]:
        return {"cached": len(self._cache), "dropped": self._dropped, "refused": self._refused}
