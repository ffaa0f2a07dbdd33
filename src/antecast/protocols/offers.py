"""Offers: what neighbours say they no longer keep, and when it is given up here.

A node that lacks messages asks its neighbours for them by a comparison (`retained`). A neighbour that has had
them and no longer keeps them answers with a *base*: for each source, the last message that it dropped or gave up
itself. This is an offer to go on without them. What is taken of it, and when:

- *Only what is needed.* A message is given up only when a message waits for it that is held here, or was turned
  away because too many are held (`quota`), or when it was turned away itself: its neighbour no longer keeps it,
  and the next messages will wait for it. Where stamps name the whole past (`Ordering.complete`), just what is
  needed is given up; otherwise the whole base, together with what came of it and is held here, since what is
  given up must be causally closed, and only the base as a whole is known to be. What was delivered of it counts as
  given up, too, when this node offers a base of its own.
- *With patience.* From the moment it is needed an offer waits, in case another neighbour has the messages. It
  goes on waiting while they keep coming. A *prompt* offer, made to a newcomer who had delivered nothing, is taken
  as soon as it is needed, unless it would drop messages.
- *With as little loss as possible.* A base may hold messages that have been received here and wait; given up as a
  whole, it drops them. When an offer begins to wait, the neighbour is asked again: now it can leave out what it
  sees has been received. In the end the base that drops least is taken: the first, the latest, or another
  neighbour's.
- *What is held, last of all.* A message held here may wait for one that never comes, because it was never
  broadcast: then whatever depends on the held message waits for ever, too. A neighbour that went on without the
  held message offers it with its base. It is given up (and dropped) only after three times `patience` in
  which nothing else of the base could be. This never happens among correct nodes: a neighbour that delivered the
  held message has, or offers, all that it waits for. But what it waits for may be given up on the way here, and
  come as an offer within these times.
- *After a link breaks.* An offer that waits goes on waiting (contacts may be shorter than patience), and any other
  is forgotten: the next link brings a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

from antecast.core import MAX_SOURCES, Effect, Message, NodeId, SetTimer, State, Timer
from antecast.protocols.dissemination import Above
from antecast.protocols.received import Received, first_of

PATIENCE: Timer = "retained/patience"

_LAST_OF_ALL = 3
"""How many times `patience` a held message has before it is dropped. What it waits for may have been given up two
links away, and is given up on the next link after one patience, and here after another."""

Ask: TypeAlias = Callable[[NodeId, list[Effect]], None]
GiveUp: TypeAlias = Callable[[Mapping[NodeId, int], NodeId, list[Effect]], None]


class _Offer:
    __slots__ = ("base", "due", "later", "prompt", "seen", "stuck", "whole")

    def __init__(self, base: Mapping[NodeId, int], whole: Mapping[NodeId, int], *, prompt: bool = False) -> None:
        self.base = base
        """What had not come when the offer was made; where it is given up as a whole, all of it."""
        self.whole = whole
        """The latest base, with what is held here of it."""
        self.prompt = prompt
        self.due: int | None = None
        """When patience ends; None while nothing waits for what the base holds."""
        self.stuck = False
        """Whether it waits only for the sake of messages held here, which would be dropped."""
        self.seen: dict[NodeId, int] = {}
        """The counts of its sources when patience began, to see whether the messages are coming after all."""
        self.later: Mapping[NodeId, int] = {}
        """The latest base. It holds all of the first, and more than may be needed: perhaps messages that came here
        since, which would be dropped with it."""


class Offers:
    """The offers of all neighbours. `ask` asks a neighbour for another, `give_up` carries one out."""

    above: Above
    tallies: ClassVar[tuple[str, ...]] = ("_waited",)
    """Only saves work: it follows from the messages that are held, and decides nothing by itself."""

    def __init__(self, received: Received, *, patience: int, ordered: bool, ask: Ask, give_up: GiveUp) -> None:
        self._received = received
        self._patience = patience
        self._ordered = ordered
        self._ask = ask
        self._give_up = give_up
        self.linked: set[NodeId] = set()
        """The neighbours whose offers are welcome."""
        self.pending: dict[NodeId, _Offer] = {}
        self._turned_away: dict[NodeId, int] = {}
        """For each source of a base, the last message that one turned away waits for. The neighbour sends that one
        again, and it is taken once it need not wait."""
        self._missed: dict[NodeId, int] = {}
        """For each source, the last of its messages that was turned away and has not come since."""
        self._timer: int | None = None
        self._waited: dict[NodeId, int] | None = None
        """For each source, a number that no message held here waits beyond; None until it is needed."""

    def offer(
        self, base: Mapping[NodeId, int], peer: NodeId, now: int, out: list[Effect], *, prompt: bool
    ) -> None:
        """A neighbour's base."""
        whole, base = base, self._left_of(base)
        offer = self.pending.get(peer)
        if offer is None or (offer.due is None and not self._lacking(offer.base)):
            if not self._unsettled(whole):
                self.pending.pop(peer, None)
                return
            offer = self.pending[peer] = _Offer(base, whole, prompt=prompt)
            self._waited = None  # it is not kept up while there is no offer
        else:
            offer.later, offer.whole = base, whole
        if offer.due is None:
            self._look(peer, offer, now, out)

    def held(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        """A message has come that cannot be delivered yet: are there offers of what it waits for?"""
        if self._ordered:
            for each in self.above.pending() if self._waited is None else (message,):
                self._note_waits(each)
        self._look_for(self._lacked_by(message), now, out, message)

    def _note_waits(self, message: Message[Any]) -> None:
        if self._waited is None:
            self._waited = {}
        for source, count in self.above.missing(message).items():
            if count > self._waited.get(source, 0):
                self._waited[source] = count

    def turned_away(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        """The same for one that was not taken, since too many are held."""
        if len(self._missed) >= MAX_SOURCES:
            self._missed.clear()
        self._missed[message.origin] = max(message.seq, self._missed.get(message.origin, 0))
        if not self.pending:
            return
        wanted = {
            source: count
            for source, count in self._lacked_by(message).items()
            if any(source in offer.base or source in offer.later for offer in self.pending.values())
        }
        if len(self._turned_away) > MAX_SOURCES:
            self._turned_away.clear()  # bases come and go, and this must not grow with each
        for source, count in wanted.items():
            self._turned_away[source] = max(count, self._turned_away.get(source, 0))
        self._look_for(wanted, now, out)

    def _look_for(
        self,
        wanted: Mapping[NodeId, int],
        now: int,
        out: list[Effect],
        held: Message[Any] | None = None,
    ) -> None:
        for peer, offer in list(self.pending.items()):
            if offer.due is not None and not offer.stuck:
                continue
            needed = self._needed(offer.base, wanted) or self._needed(offer.later, wanted)
            if needed or (held is not None and self._may_be_stuck(offer, held) and self._stuck(offer)):
                self._look(peer, offer, now, out)

    def _may_be_stuck(self, offer: _Offer, message: Message[Any]) -> bool:
        """Whether something may be stuck now that this message is held, too. To look through all that is held for
        each message that comes early would take far too long where there are thousands."""
        if offer.due is not None or not self._ordered or self._waited is None:
            return False
        base, origin = offer.whole, message.origin
        if message.seq <= min(base.get(origin, 0), self._waited.get(origin, 0)):
            return True
        delivered = self.above.progress()
        return any(delivered.get(source, 0) < base.get(source, 0) for source in self.above.missing(message))

    def _look(self, peer: NodeId, offer: _Offer, now: int, out: list[Effect]) -> None:
        """If an offer is needed, begin to wait, or take it if it is prompt."""
        wanted = self._wanted()
        if not self._needed(offer.base, wanted) and self._needed(offer.later, wanted):
            offer.base, offer.later, offer.prompt = offer.later, {}, False
        needed = self._needed(offer.base, wanted)
        if needed and offer.prompt and not self._drops(needed):
            self._give_up(needed, peer, out)
            offer.base = self._left_of(offer.base)
            self._look(peer, offer, now, out)
        elif needed or self._stuck(offer):
            self._wait(offer, now, stuck=not needed)
            self._set_timer(out)
            if needed and peer in self.linked:
                self._ask(peer, out)

    def _wait(self, offer: _Offer, now: int, *, stuck: bool) -> None:
        offer.due, offer.stuck = now + self._patience * (_LAST_OF_ALL if stuck else 1), stuck
        offer.seen = {source: self._received.upto.get(source, 0) for source in offer.base}

    def timer(self, now: int, out: list[Effect]) -> None:
        """Patience has run out, for some of the offers or for all."""
        self._timer = None
        for peer, offer in list(self.pending.items()):
            if offer.due is None or offer.due > now:
                continue
            upto = self._received.upto.get
            if any(offer.seen[source] < upto(source, 0) < count for source, count in offer.base.items()):
                self._wait(offer, now, stuck=offer.stuck)  # the messages are coming after all
                continue
            needed = self._least(offer)
            if not needed and (stuck := self._stuck(offer)):
                if not offer.stuck:
                    self._wait(offer, now, stuck=True)
                    continue
                needed = stuck
            if needed:
                self._give_up(needed, peer, out)
            # This base is done: go on with the one that came later, or with what is left of this one.
            del self.pending[peer]
            if self._unsettled(offer.whole) and peer in self.linked:
                offer = self.pending[peer] = _Offer(self._left_of(offer.later or offer.base), offer.whole)
                self._look(peer, offer, now, out)
        if not self.pending:
            self._turned_away.clear()
        self._set_timer(out)

    def _least(self, offer: _Offer) -> Mapping[NodeId, int]:
        """What is needed of the base that drops least: the first, the latest, or another neighbour's."""
        wanted = self._wanted()
        offers = [offer, *(each for each in self.pending.values() if each is not offer)]
        bases = [base for each in offers for base in (each.base, each.later)]
        choices = [needed for base in bases[:2] if (needed := self._needed(base, wanted))]
        if choices and self._closed and min(map(self._drops, choices)):
            choices += [needed for base in bases[2:] if (needed := self._needed(base, wanted))]
        return min(choices, key=self._drops, default={})

    def _stuck(self, offer: _Offer) -> Mapping[NodeId, int]:
        """The messages held here that others wait for and that the neighbour has gone on without."""
        if not self._ordered:
            return {}
        base = offer.whole
        held = self.above.pending()
        first = first_of(each for each in held if each.seq <= base.get(each.origin, 0))
        if not first:
            return {}
        stuck: dict[NodeId, int] = {}
        for message in held:
            for source, count in self.above.missing(message).items():
                if source in first and count >= first[source]:
                    stuck[source] = max(min(count, base[source]), stuck.get(source, 0))
        return base if stuck and self._closed else stuck

    def _drops(self, base: Mapping[NodeId, int]) -> int:
        """How many messages are held that would be given up with a base."""
        return sum(message.seq <= base.get(message.origin, 0) for message in self.above.pending())

    def _unsettled(self, base: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """The part of a base that has not come, or is held."""
        settled = self.above.progress() if self._ordered else self._received.upto
        return {source: count for source, count in base.items() if count > settled.get(source, 0)}

    def _left_of(self, base: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """What is left of a base. Where it is given up as a whole, that is all of it: what came and waits may
        precede what never came, and must not be delivered after it; and what was delivered here may not have been
        where this node's own bases go, which must be closed by themselves."""
        return base if self._closed else self._lacking(base)

    @property
    def _closed(self) -> bool:
        """Whether only a base as a whole is known to be causally closed."""
        return self._ordered and not self.above.complete

    def _lacking(self, base: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """The part of a base that has not come."""
        upto = self._received.upto
        return {source: count for source, count in base.items() if count > upto.get(source, 0)}

    def _wanted(self) -> dict[NodeId, int]:
        """For each source, the last message that has not come and that some message held here, or turned away,
        waits for."""
        wanted = self._turned_away.copy()
        upto = self._received.upto
        self._missed = {source: count for source, count in self._missed.items() if count > upto.get(source, 0)}
        for source, count in self._missed.items():
            wanted[source] = max(count, wanted.get(source, 0))
        if not self._ordered:
            for source, numbers in self._received.beyond.items():
                wanted[source] = max(numbers) - 1
        for message in self.above.pending():
            for source, count in self._lacked_by(message).items():
                if count > wanted.get(source, 0):
                    wanted[source] = count
        return wanted

    def _lacked_by(self, message: Message[Any]) -> Mapping[NodeId, int]:
        if not self._ordered:
            return {message.origin: message.seq - 1}
        received = self._received
        return {each: n for each, n in self.above.missing(message).items() if (each, n) not in received}

    def _needed(self, base: Mapping[NodeId, int], wanted: Mapping[NodeId, int]) -> Mapping[NodeId, int]:
        """The part of a base that must be given up for what is wanted."""
        upto = self._received.upto
        needed = {
            source: least
            for source, count in wanted.items()
            if (least := min(count, base.get(source, 0))) > upto.get(source, 0)
        }
        return base if needed and self._closed else needed

    def link_down(self, peer: NodeId) -> None:
        self.linked.discard(peer)
        offer = self.pending.get(peer)
        if offer is not None and offer.due is None:
            del self.pending[peer]

    def _set_timer(self, out: list[Effect]) -> None:
        due = min((offer.due for offer in self.pending.values() if offer.due is not None), default=None)
        if due is not None and (self._timer is None or due < self._timer):
            self._timer = due
            out.append(SetTimer(PATIENCE, due))

    def resume(self, out: list[Effect]) -> None:
        self._timer = None
        self._set_timer(out)

    def snapshot(self) -> State:
        """The offers that wait; the others come again with the links."""
        return {
            "offers": [
                [peer, dict(offer.base), dict(offer.whole), offer.due, dict(offer.seen)]
                for peer, offer in self.pending.items()
                if offer.due is not None
            ]
        }

    def restore(self, state: State) -> None:
        self.pending.clear()
        self._turned_away.clear()
        self._missed.clear()
        self._timer = self._waited = None
        for peer, base, whole, due, seen in state["offers"]:
            offer = self.pending[peer] = _Offer(dict(base), dict(whole))
            offer.due, offer.seen = due, dict(seen)
