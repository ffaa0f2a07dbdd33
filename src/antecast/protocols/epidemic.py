"""Epidemic exchange: store, carry and forward. A node keeps what it hears and hands it to whomever it
meets ("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo, section III).

When two nodes come into contact each says what it holds (`Offer`), asks for what it has not seen (`Request`)
and gets it. While the contact lasts, whatever is new goes to the other at once, unless the other offered it
itself. A contact that ends breaks the transfer off; the next one goes on from there. The messages of a
transfer go in an order that is not the causal one: by default scrambled, differently in every contact.

One node at a time is asked for a message: a node that walks into a crowd hears the same offer from everyone in it,
and would otherwise get everything as often. If it does not come, others are asked when the contact ends or
`patience` runs out: an offer may be a lie. (What a full cache drops between offer and request comes with a later
contact.)

The cache is bounded (`message_cache`): a message that was dropped for lack of room is not taken again. One that
every cache has dropped is waited for in vain, and an `Alert` says so after some contacts (`IN_VAIN`). Messages
whose deadline has passed are dropped before the next exchange, or now and then if there is none (`PURGE`).

Strangers and liars. A node takes none of its own messages from others; an `Alert` reports a neighbour that has one
it never broadcast. Early messages may wait while those from their sender take no more than `early` bytes; others
are not taken, and not remembered as seen: later the sender is asked again what it has (`Again`), and what can be
delivered by then is always taken. The same goes for messages that the layer above refuses for now. So whatever a
neighbour sends, the next message in order gets through.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, ClassVar, Literal, TypeAlias

from antecast.core import (
    MAX_SOURCES,
    Alert,
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
from antecast.protocols.contact import Again, Contact, Offer, Ranges, Request
from antecast.protocols.dissemination import Above, Dissemination
from antecast.protocols.lost_state import foreign_claim
from antecast.protocols.message_cache import MessageCache, Name, Policy, scrambled
from antecast.protocols.ordering import EXPIRED, UNKNOWN
from antecast.protocols.quota import Quotas
from antecast.protocols.runs import LAST, PART, check, common, count, lowest, messages, minus, parts

Order: TypeAlias = Literal["random", "newest", "oldest"]
PURGE: Timer = "epidemic/purge"

ASK: Timer = "epidemic/ask"

OFFERS = 16
"""Frames in which a node says what it holds: a million sources and numbers. A node that holds more begins
elsewhere in the next contact."""

IN_VAIN = 16
"""After this many contacts in which a message got nothing of what it waits for, the caches are suspected."""

_FEW_MESSAGES = PART // 3
"""This many messages fit into one offer, however they are spread."""


class Epidemic(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Offer, Request, Again)
    counts_all = False

    def __init__(
        self,
        node: NodeId,
        *,
        capacity: int | None,
        policy: Policy,
        order: Order,
        patience: int,
        early: int,
        stamped: bool,
    ) -> None:
        self._node = node
        self._most_sources = MAX_SOURCES - 1 if stamped else 1 << 32
        """Messages of more sources than a stamp can name, with this node itself, are not taken."""
        self._order = order
        self._patience = patience
        self._cache = MessageCache(node, capacity=capacity, policy=policy)
        self._bounded = capacity is not None
        self._plain = False
        """Whether messages are just kept: without deadlines, in a cache without bounds."""
        self._messages = self._cache.messages
        self._expired = self._cache.expired
        self._seen = self._cache.seen
        self._own = 0
        """The number of this node's last message."""
        self._contacts: dict[NodeId, Contact] = {}
        self._quotas = Quotas(early)
        """The bytes of messages that wait, by who sent them; kept when the contact ends."""
        self._early = self._quotas.charged
        self._full = self._quotas.full
        self._purge_at: int | None = None
        self._ask_at: int | None = None
        self._meetings = 0
        self._waits: tuple[Name | None, int] = None, 0
        """The message that has waited longest, and the contacts that have ended since; kept where caches have
        bounds and messages no deadlines."""
        self._refused = 0
        self._doubted: set[NodeId] = set()
        """Who sent messages that depend on messages of this node which it has not broadcast."""

    def attach(self, above: Above) -> None:
        super().attach(above)
        # Asked for every message.
        self._admit, self._deadline, self._arrived = above.admit, above.deadline, above.arrived
        self._weight, self._plain = above.weight, not (above.timed or self._bounded)
        self._timed = above.timed

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        key = (message.origin, message.seq)
        self._own = message.seq
        self._seen.add(*key)
        self._keep(key, message, now, out)
        for peer in self._contacts:
            out.append(Send(peer, message))
        if self._doubted:  # others may deliver now what was not taken here, and depend on it
            self._ask_soon(now, out)

    def settled(self, message: Message[Any]) -> None:
        """Delivered or not, others may still want it; but it waits no longer."""
        self.all_settled([message])

    def all_settled(self, messages: list[Message[Any]]) -> None:
        if self._early:
            self._quotas.remove_all(messages)

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        try:
            contact = self._contacts[sender]
        except KeyError:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__} without a link") from None
        if frame.__class__ is Message:
            self._take(frame, sender, contact, now, out)
            if contact.round:
                self._next_round(sender, contact, now, out)
        elif isinstance(frame, Offer):
            self._compare(frame, sender, contact, now, out)
        elif isinstance(frame, Request):
            self._hand_over(frame, sender, now, out)
        elif isinstance(frame, Again):
            # Asking sooner than a correct node would gets no answer: one small frame must not cost a whole offer.
            if now - contact.said_at >= self._patience // 2:
                contact.said_at = now
                self._say(sender, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which this protocol does not know")

    # Messages.

    def _take(self, message: Message[Any], sender: NodeId, contact: Contact, now: int, out: list[Effect]) -> None:
        origin, seq = key = (message.origin, message.seq)
        if key in self._messages:
            return
        if origin == self._node:
            if seq > self._own:
                self._alert(sender, contact, f"sent message {MessageId(origin, seq)}", out)
            return
        refusal = self._admit(message, now)
        if refusal is not None:
            if self._cache.never_seen(key, self._deadline(message)):
                self._refuse(message, refusal, sender, contact, now, out)
            return
        if seq > LAST:
            raise RemoteFault(f"node {sender} sent message {MessageId(origin, seq)}, beyond the last number")
        seen = self._seen
        if origin not in seen.spans and len(seen.spans) >= self._most_sources:
            raise RemoteFault(
                f"node {sender} sent message {MessageId(origin, seq)} of another source, but {self._most_sources}"
                " are known here, as many as a stamp can name"
            )
        if self._expired and key in self._expired:
            return
        if self._timed and self._cache.forgot(self._deadline(message)):
            return
        if self._full and sender in self._full and key not in seen and self.above.early(message, now):
            self._ask_again(contact, now, out)
            return
        if not seen.add(origin, seq):
            return
        if self._plain:
            self._messages[key] = message
        else:
            self._keep(key, message, now, out)
        contacts = self._contacts
        if len(contacts) > 1:
            for peer, other in contacts.items():
                if peer != sender and not bisect_right(other.offered.get(origin, ()), seq) & 1:
                    out.append(Send(peer, message))
        if self._arrived(message, now, out):
            self._quotas.add(key, sender, self._weight(message))
        else:
            contact.moved = True

    def _refuse(
        self,
        message: Message[Any],
        refusal: str,
        sender: NodeId,
        contact: Contact,
        now: int,
        out: list[Effect],
    ) -> None:
        self._refused += 1
        if refusal == EXPIRED:
            self._cache.refuse((message.origin, message.seq))
            out.append(Discard(message.id, refusal))
            return
        if refusal == UNKNOWN:
            self._doubted.add(sender)
            self._alert(sender, contact, f"sent message {message.id}, which depends on messages of this node", out)
        self._ask_again(contact, now, out)

    def _alert(self, sender: NodeId, contact: Contact, claim: str, out: list[Effect]) -> None:
        """Say once per contact that another has what this node never broadcast."""
        if not contact.alerted:
            contact.alerted = True
            out.append(foreign_claim(sender, claim))

    # Offers and requests.

    def _say(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        """Tell a node what is here."""
        self._cache.purge(now)
        held = self._cache.held.spans
        if len(self._messages) <= _FEW_MESSAGES:
            out.append(Send(peer, Offer(held.copy())))
            return
        offers = list(parts(held))
        begin = self._meetings % len(offers) if len(offers) > OFFERS else 0
        out += [Send(peer, Offer(held)) for held in (offers[begin:] + offers[:begin])[:OFFERS]]

    def _compare(self, offer: Offer, sender: NodeId, contact: Contact, now: int, out: list[Effect]) -> None:
        if contact.offers >= OFFERS:
            raise RemoteFault(f"node {sender} sent more than {OFFERS} offers in a contact")
        seen = self._seen.spans.get
        news = {origin: runs for origin, runs in offer.held.items() if seen(origin) != runs}
        check(news, sender)
        self._cache.purge(now)
        mine = news.get(self._node)
        if mine is not None and mine[-1] > self._own + 1:
            claim = f"has messages of this node up to {MessageId(self._node, mine[-1] - 1)}"
            self._alert(sender, contact, claim, out)
        contact.offers += 1
        if contact.offered:
            contact.offered = contact.offered.copy()
            for origin, runs in offer.held.items():
                known = contact.offered.get(origin, ())
                # Parts of a source come in order; what is out of order is sent twice at worst.
                contact.offered[origin] = known + runs if not known or known[-1] <= runs[0] else runs
        else:
            contact.offered = offer.held
        self._ask(sender, contact, news, now, out)

    def _ask(self, peer: NodeId, contact: Contact, offered: Ranges, now: int, out: list[Effect]) -> None:
        """Ask for what another offers that has not been seen here and that nobody was asked for lately."""
        wanted = minus(offered, self._seen.spans)
        wanted.pop(self._node, None)
        for _, asked in contact.asked:
            wanted = minus(wanted, asked)
        if not wanted:
            return
        wanted = self._not_asked_lately(wanted, contact, now, out)
        if peer in self._quotas.full:
            wanted = lowest(wanted, contact.few)
            contact.round, contact.moved = count(wanted), False
            self._ask_again(contact, now, out)
        if wanted:
            contact.asked.append((now, wanted))
            out += [Send(peer, Request(part)) for part in parts(wanted)]

    def _not_asked_lately(self, wanted: Ranges, contact: Contact, now: int, out: list[Effect]) -> Ranges:
        """The part of this that no other contact was asked for within `patience`."""
        left, until = wanted, None
        for other in self._contacts.values():
            if other is not contact:
                for at, asked in other.asked:
                    if left and now < at + self._patience:
                        remain = minus(left, asked)
                        if remain != left:
                            left = remain
                            until = at + self._patience if until is None else min(until, at + self._patience)
        if until is not None:
            contact.withheld.append(minus(wanted, left))
            self._ask_later(until, out)
        return left

    def _hand_over(self, request: Request, sender: NodeId, now: int, out: list[Effect]) -> None:
        check(request.wanted, sender)
        self._cache.purge(now)
        found = messages(common(request.wanted, self._cache.held.spans))
        held = self._messages
        out += [Send(sender, held[key]) for key in self._in_order(found, sender)]

    def _in_order(self, found: list[Name], peer: NodeId) -> list[Name]:
        if self._order == "random":
            return scrambled(found, self._node << 40 ^ peer << 20 ^ self._meetings)
        chosen = set(found)
        by_age = [key for key in self._messages if key in chosen]
        return by_age if self._order == "oldest" else by_age[::-1]

    # What is asked for again, later.

    def _ask_again(self, contact: Contact, now: int, out: list[Effect]) -> None:
        """Something that a contact has cannot be taken now."""
        if contact.again_at is None:
            contact.again_at = now + contact.wait
            self._ask_later(contact.again_at, out)

    def _ask_soon(self, now: int, out: list[Effect]) -> None:
        """Whom we doubted is asked again after one patience, however often it was asked in vain."""
        for peer in sorted(self._doubted & self._contacts.keys()):
            contact = self._contacts[peer]
            if contact.again_at is not None:
                contact.wait = self._patience
                contact.again_at = min(contact.again_at, now + self._patience)
                self._ask_later(contact.again_at, out)
        self._doubted.clear()

    def _next_round(self, peer: NodeId, contact: Contact, now: int, out: list[Effect]) -> None:
        """While too many messages of a contact wait, it is asked for the first of each source that it offered,
        and for the next ones when these have come, as long as one of them could be delivered. If none could, it
        is asked for more of each the next time."""
        contact.round -= 1
        if not contact.round and contact.moved:
            contact.asked, contact.wait, contact.few = [], self._patience, 1
            self._ask(peer, contact, contact.offered, now, out)

    def _ask_later(self, at: int, out: list[Effect]) -> None:
        if self._ask_at is None or at < self._ask_at:
            self._ask_at = at
            out.append(SetTimer(ASK, at))

    def _ask_what_is_due(self, now: int, out: list[Effect]) -> None:
        self._ask_at = None
        for peer, contact in self._contacts.items():
            if contact.again_at is not None and contact.again_at <= now:
                contact.start_over()
                out.append(Send(peer, Again()))
            elif contact.again_at is not None:
                self._ask_later(contact.again_at, out)
        self._ask_for_withheld(now, out)

    def _ask_for_withheld(self, now: int, out: list[Effect]) -> None:
        for peer, contact in self._contacts.items():
            withheld, contact.withheld = contact.withheld, []
            for offered in withheld:
                self._ask(peer, contact, offered, now, out)

    # Time.

    def _keep(self, name: Name, message: Message[Any], now: int, out: list[Effect]) -> None:
        deadline = self._deadline(message)
        self._cache.keep(name, message, deadline, now)
        if deadline is not None and self._purge_at is None:
            self._purge_later(out)

    def _purge_later(self, out: list[Effect]) -> None:
        self._purge_at = self._cache.next_purge()
        if self._purge_at is not None:
            out.append(SetTimer(PURGE, self._purge_at))

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == ASK:
            self._ask_what_is_due(now, out)
        elif token == PURGE:
            self._cache.purge(now)
            self._purge_later(out)
            self.above.expired(now, out)

    def resume(self, now: int, out: list[Effect]) -> None:
        self._cache.purge(now)
        self._purge_later(out)

    # Contacts.

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer in self._contacts:
            self.link_down(peer, now, out)
        self._meetings += 1
        self._contacts[peer] = Contact(now, self._patience)
        self._say(peer, now, out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        contact = self._contacts.pop(peer, None)
        if contact is not None and any(minus(asked, self._seen.spans) for _, asked in contact.asked):
            self._ask_for_withheld(now, out)
        if contact is not None and contact.offers and self._bounded and not self.above.timed:
            self._count_in_vain(out)

    def _count_in_vain(self, out: list[Effect]) -> None:
        """Say once of a message that contact after contact did not bring what it waits for."""
        longest = next(iter(self._early), None)
        before, contacts = self._waits
        contacts = contacts + 1 if longest == before and longest is not None else 0
        self._waits = longest, contacts
        if contacts == IN_VAIN:
            message = next(each for each in self.above.pending() if (each.origin, each.seq) == longest)
            names = ", ".join(str(MessageId(*each)) for each in sorted(self.above.missing(message).items())[:3])
            text = f"message {message.id} waits for {names}, which {IN_VAIN} contacts in a row did not bring"
            out.append(Alert(f"{text}: full caches may have dropped it everywhere; raise capacity"))

    def stored(self) -> list[Message[Any]]:
        return list(self._messages.values())

    def snapshot(self) -> State:
        return {
            "own": self._own,
            "early": [[*name, *charge] for name, charge in self._quotas.charged.items()],  # the longest first
            "meetings": self._meetings,
            "cache": self._cache.snapshot(),
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._own, self._meetings = state["own"], state["meetings"]
        for origin, seq, sender, weight in state["early"]:
            self._quotas.add((origin, seq), sender, weight)
        self._cache.restore(state["cache"], messages)

    def gauges(self) -> dict[str, int]:
        return {"cached": len(self._messages), "dropped": self._cache.dropped, "refused": self._refused}
