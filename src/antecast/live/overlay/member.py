"""One member's side of Spray on a real network: no sockets, no clock, no list of members.

The rules are those of `sim.overlay.spray` (join, exchange, unreachable, lost and found, and arcs that are lent
until the new connection is safe). There, one object sees all processes and an exchange is one event. Here, a
member knows only its own view and what neighbours have told it, and everything takes words that can be late or
lost with their link:

- *Needed.* A connection has two ends. Each says whether it needs it: for an arc, for one that is lent over it, or
  for one that is being taken over. When neither has needed it for `linger`, it is closed.
- *Safe both ways.* Each end knows its own way, and says when that is safe.
- *Exchange.* p offers half of its arcs, q answers with half of its own; the arc between them turns round. Each arc
  is taken over once the new connection is safe both ways, and the lender is told; until then it is the lender's.
- *Lost words.* If the lender's link breaks, or no answer comes in time, the lender keeps its arc. The borrower
  may have taken it: then there is one too many, and it pays for that with the next arc it loses.
- *Contacts* are addresses that were given by hand. A newcomer asks one of them, and is sent on a few times, so
  that others are told of it by a random member. Each is dialled until it has answered once. A member without
  neighbours asks them again; any member tries one of them now and then, which heals splits that nobody remembers.

A member whose words make no sense cannot do more than waste a few arcs and dials: all that is kept is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final

from antecast.core import NodeId
from antecast.live.overlay.contacts import Contacts
from antecast.live.overlay.records import Asked, Ground, Loan, Neighbour, Opening, SprayOptions
from antecast.live.overlay.view import KEPT, Arc, Memory, choose
from antecast.live.overlay.words import (
    MOST_NEAR,
    MOST_OFFERS,
    Answer,
    Exchange,
    Here,
    Join,
    Near,
    Offer,
    Refer,
    Reply,
    State,
    Welcome,
    Word,
)

MOST_OPENING: Final = 32
"""Connections that a member opens for others at a time; further offers are declined."""
HOPS: Final = 3
"""How often a newcomer is sent on before others are told of it."""
MOST_ARCS: Final = 256
"""Arcs in a view; offers beyond that are declined. Views hold about ln n."""


class Member:
    """One member. `now` is in seconds, of any clock that goes forward."""

    def __init__(
        self,
        number: NodeId,
        place: str,
        ground: Ground,
        *,
        contacts: Sequence[str] = (),
        options: SprayOptions | None = None,
        random: Random | None = None,
    ) -> None:
        self.number, self.place = number, place
        self.view: list[Arc] = []
        self.neighbours: dict[NodeId, Neighbour] = {}
        self.memory = Memory()
        self.counts = {"exchanges": 0, "introductions": 0, "dropped": 0, "found": 0}
        self._ground, self._contacts = ground, Contacts(place, contacts)
        self.options = options if options is not None else SprayOptions()
        self._random = random if random is not None else Random()
        self._token = self._random.getrandbits(40)
        """Tokens of an earlier life are not taken for those of this one."""
        self._loans: dict[int, Loan] = {}
        self._opening: dict[NodeId, Opening] = {}
        self._asked: Asked | None = None
        self._joining: NodeId | None = None
        self._new = True
        """Whether others have yet to be told of this member."""
        self._retry: dict[str, tuple[float, float]] = {}
        """Where to dial again, when, and the pause after that."""
        self._down: dict[NodeId, float] = {}
        """Since when there is no link to the end of an arc."""
        self._next = 0.0

    def add_contact(self, place: str) -> None:
        """One more address to begin with, or to fall back on."""
        self._contacts.add(place)

    # What the transport tells.

    def start(self, now: float) -> None:
        self._next = now + self._random.uniform(0.2, 1.0) * self.options.every
        for arc in self.view:
            self._down[arc.peer] = now
        self.turn(now)

    def linked(self, peer: NodeId, now: float, *, dialled: bool) -> None:
        """A link is up, which this end has dialled or not; one that was up before is gone."""
        if peer in self.neighbours:
            self.unlinked(peer, now)
        near = {z for y in self.neighbours.values() for z in y.near} | self.neighbours.keys()
        self.neighbours[peer] = Neighbour(dialled)
        self._down.pop(peer, None)
        self._ground.tell(peer, Here(self.place, sorted(near)[:MOST_NEAR]))
        self._say(peer, self.neighbours[peer])

    def unlinked(self, peer: NodeId, now: float) -> None:
        """A link is down, whoever ended it."""
        gone = self.neighbours.pop(peer, None)
        if gone is None:
            return
        self._down[peer] = now
        if gone.place is None or peer == self._joining:
            self._contacts.gone(peer)
        if self._needed(peer) or gone.needed:
            self.memory.recall()
        elif gone.place is not None:
            self.memory.part(peer, gone.place)
        if self._asked is not None and self._asked.peer == peer:
            self._cancel(now)
        for token, loan in list(self._loans.items()):
            if loan.borrower == peer:
                self._return(token, now)
        if peer in self._opening:
            self._give_up(peer)
        for opening in self._opening.values():
            if opening.by == peer:
                opening.by = None
        if self._joining == peer:
            self._joining, self._new = None, True
            self.view = [arc for arc in self.view if arc.peer != peer]
        if not self.view and not self.neighbours and gone.place is not None:
            self.memory.lose(peer, gone.place, owed=0)

    def dialled(self, place: str, peer: NodeId | None, now: float) -> None:
        """An attempt to connect has ended: in a link to a member, at this member itself, or in none."""
        if peer is not None:
            self._retry.pop(place, None)
            self._contacts.answered(place, peer)
        for wanted, opening in list(self._opening.items()):
            if opening.place == place and wanted not in self.neighbours:
                self._give_up(wanted)

    def heard(self, peer: NodeId, word: Word, now: float) -> None:
        """A neighbour has said something."""
        neighbour = self.neighbours.get(peer)
        if neighbour is None:
            return
        match word:
            case Here(place=place, near=near):
                self._met(peer, neighbour, place, near)
            case State(safe=safe, needed=needed):
                neighbour.safe, neighbour.needed = safe, needed
                self._became(peer)
            case Near(near=near):
                neighbour.near = frozenset(near) - {self.number}
            case Exchange():
                self._asked_by(peer, neighbour, word, now)
            case Answer():
                self._answered(peer, word, now)
            case Join(hops=hops):
                self._asked_to_join(peer, neighbour, hops, now)
            case Refer(offer=offer, hops=hops):
                self._offered(peer, offer, now, hops=hops)
            case Welcome(offer=offer):
                self._offered(peer, offer, now)
            case Reply(token=token, taken=taken):
                loan = self._loans.get(token)
                if loan is not None and loan.borrower == peer:
                    self._return(token, now, taken=taken)

    def turn(self, now: float) -> None:
        """Called several times a second: what falls due, and what has changed."""
        for peer, neighbour in list(self.neighbours.items()):
            self._say(peer, neighbour)
            self._became(peer)
        for token in [token for token, loan in self._loans.items() if now > loan.until]:
            self._return(token, now)
        for peer in [peer for peer, opening in self._opening.items() if now > opening.until]:
            self._give_up(peer)
        if self._asked is not None and now > self._asked.until:
            self._cancel(now)
        if now >= self._next:
            self._next = now + self._random.uniform(0.75, 1.25) * self.options.every
            self._tick(now)
        self._reach(now)
        for peer, neighbour in list(self.neighbours.items()):
            self._close_unneeded(peer, neighbour, now)

    # Connections.

    def _say(self, peer: NodeId, neighbour: Neighbour) -> None:
        said = State(self._ground.safe(peer), self._needed(peer))
        if said != neighbour.said:
            neighbour.said = said
            self._ground.tell(peer, said)

    def _needed(self, peer: NodeId) -> bool:
        return (
            peer in self._opening
            or peer == self._joining
            or any(arc.peer == peer for arc in self.view)
            or any(peer in (loan.borrower, loan.peer) for loan in self._loans.values())
        )

    def _close_unneeded(self, peer: NodeId, neighbour: Neighbour, now: float) -> None:
        if neighbour.needed or neighbour.place is None or self._needed(peer):
            neighbour.free = None
        elif neighbour.free is None:
            neighbour.free = now
        elif now - neighbour.free >= self.options.linger:
            self._ground.part(peer)

    def both_safe(self, peer: NodeId) -> bool:
        neighbour = self.neighbours.get(peer)
        return neighbour is not None and neighbour.safe and self._ground.safe(peer)

    def _reach(self, now: float) -> None:
        """Dial those that an arc leads to without a link, contacts that have not answered, anyone if alone."""
        for arc in self.view:
            if arc.peer not in self.neighbours:
                self._down.setdefault(arc.peer, now)
                self._dial_again(arc.place, now)
        contacts = self._contacts
        for place in contacts.unanswered:
            self._dial_again(place, now)
        if not self.view and not self.neighbours and contacts.places:
            self._dial_again(self._random.choice(contacts.places), now)

    def _dial(self, place: str) -> None:
        """Try an address, unless it is this member's own or a neighbour's."""
        linked = any(each.place == place for each in self.neighbours.values())
        there = self._contacts.names.get(place)
        if place != self.place and not linked and there != self.number and there not in self.neighbours:
            self._ground.dial(place, None)

    def _dial_again(self, place: str, now: float) -> None:
        due, pause = self._retry.get(place, (0.0, 0.1))
        if now >= due:
            if len(self._retry) >= 4 * MOST_ARCS:
                self._retry.clear()
            self._retry[place] = now + pause * self._random.uniform(1, 2), min(2 * pause, self.options.every)
            self._dial(place)

    def _met(self, peer: NodeId, neighbour: Neighbour, place: str, near: Iterable[NodeId]) -> None:
        """The other end of a link says where it listens. It may be one that was looked for."""
        neighbour.place, neighbour.near = place, frozenset(near) - {self.number}
        close = self._is_close(peer, {peer, *near})
        if peer in self.memory:
            owed = self.memory.find(peer)
            if owed or not close:
                self.counts["found"] += 1
                self.memory.surplus += not owed
                for _ in range(max(1, owed)):
                    self._take(peer, place)
        elif not neighbour.dialled or self._needed(peer):
            return
        elif self._new and not self.view:
            self._new, self._joining = False, peer
            self._take(peer, place)
            self._became(peer)
        elif not self.view or not close:  # a contact, and nobody or only those of another part are known
            self.memory.surplus += bool(self.view)
            self._take(peer, place)

    def _is_close(self, peer: NodeId, theirs: set[NodeId]) -> bool:
        """Whether the two have a member in common among themselves, neighbours and neighbours' neighbours."""
        others = [(q, each) for q, each in self.neighbours.items() if q != peer]
        mine = {self.number, *(q for q, _ in others), *(z for _, each in others for z in each.near)}
        return not mine.isdisjoint(theirs)

    # Exchanges.

    def _tick(self, now: float) -> None:
        self._forget_unreachable(now)
        self._look_for_the_lost()
        if self._contacts.places and self._random.random() < 0.1:
            self._dial(self._random.choice(self._contacts.places))
        near = Near(sorted(self.neighbours)[:MOST_NEAR])
        for peer in self.neighbours:
            self._ground.tell(peer, near)
        self._exchange(now)

    def _exchange(self, now: float) -> None:
        for arc in self.view:
            arc.age += 1
        partners = [arc for arc in self.view if not arc.lent and self.both_safe(arc.peer)]
        if not partners or self._asked is not None:
            return
        partner = max(partners, key=lambda arc: arc.age)
        size = len(self.view)
        partner.lent = True
        given = choose(self._may_give(), (size + 1) // 2 - 1, self._random)
        self._token += 1
        self._asked = asked = Asked(self._token, partner.peer, partner, until=now + self.options.patience)
        offers = [self._lend(arc, partner.peer, now) for arc in given[:MOST_OFFERS]]
        asked.loans = [offer.token for offer in offers]
        self._ground.tell(partner.peer, Exchange(asked.token, offers))

    def _may_give(self) -> list[Arc]:
        held = {end for loan in self._loans.values() for end in (loan.borrower, loan.peer)}
        return [arc for arc in self.view if not arc.lent and arc.peer not in held and self.both_safe(arc.peer)]

    def _lend(self, arc: Arc, to: NodeId, now: float) -> Offer:
        arc.lent = True
        return self._offer(Loan(to, arc.peer, arc.place, arc, now + 2 * self.options.patience))

    def _offer(self, loan: Loan) -> Offer:
        self._token += 1
        self._loans[self._token] = loan
        return Offer(self._token, loan.peer, loan.place)

    def _asked_by(self, peer: NodeId, neighbour: Neighbour, word: Exchange, now: float) -> None:
        """A neighbour wants to exchange."""
        too_soon = now - neighbour.exchanged < self.options.every / 4
        if too_soon or neighbour.place is None or not self.both_safe(peer) or len(self.view) >= MOST_ARCS:
            self._ground.tell(peer, Answer(word.token, False, []))
            return
        neighbour.exchanged = now
        taken = choose(self._may_give(), (len(self.view) + 1) // 2, self._random)
        offers = [self._lend(arc, peer, now) for arc in taken[:MOST_OFFERS]]
        self._take(peer, neighbour.place)
        self._ground.tell(peer, Answer(word.token, True, offers))
        for offer in word.offers:
            self._offered(peer, offer, now)

    def _answered(self, peer: NodeId, word: Answer, now: float) -> None:
        asked = self._asked
        if asked is None or asked.token != word.token or asked.peer != peer:
            return
        if not word.agreed:
            self._cancel(now)
            return
        self._asked = None
        self.counts["exchanges"] += 1
        if asked.arc in self.view:
            self.view.remove(asked.arc)
        for offer in word.offers:
            self._offered(peer, offer, now)

    def _cancel(self, now: float) -> None:
        """The exchange that was asked for does not take place."""
        asked, self._asked = self._asked, None
        assert asked is not None
        asked.arc.lent = False
        for token in asked.loans:
            self._return(token, now)

    def _return(self, token: int, now: float, *, taken: bool = False) -> None:
        """A loan has ended: its arc is the borrower's, or still this member's."""
        loan = self._loans.pop(token, None)
        if loan is None:
            return
        if loan.referred:
            neighbour = self.neighbours.get(loan.borrower)
            if not taken and neighbour is not None:
                self._forward(loan.borrower, neighbour, now)
        elif loan.arc is None:
            if not taken and loan.peer in self.neighbours:
                self._take(loan.peer, loan.place)  # stands in for the neighbour that could not
        elif not taken:
            loan.arc.lent = False
        elif loan.arc in self.view:
            self.view.remove(loan.arc)

    # Taking arcs over.

    def _take(self, peer: NodeId, place: str) -> None:
        if len(self.view) < MOST_ARCS:
            self.view.append(Arc(peer, place))

    def _offered(self, lender: NodeId, offer: Offer, now: float, hops: int | None = None) -> None:
        """A neighbour offers an arc: take it at once where the connection is there, else when it is safe."""
        peer = offer.peer
        theirs = self.neighbours[lender].place if lender in self.neighbours else None
        if len(self.view) >= MOST_ARCS or theirs is None:
            taken = False
        elif peer == self.number:
            self._take(lender, theirs)
            taken = True
        elif hops is None and self.both_safe(peer):
            self._take(peer, offer.place)
            taken = True
        elif peer in self.neighbours or peer in self._opening or len(self._opening) >= MOST_OPENING:
            taken = False
        else:
            until = now + self.options.patience
            self._opening[peer] = Opening(offer.place, lender, offer.token, until, hops)
            self._ground.dial(offer.place, lender)
            return
        self._ground.tell(lender, Reply(offer.token, taken))

    def _became(self, peer: NodeId) -> None:
        """Something may have become safe: an arc that waited for it is taken, a newcomer is announced."""
        if peer not in self._opening and peer != self._joining:
            return
        neighbour = self.neighbours.get(peer)
        if neighbour is None or neighbour.place is None or not self.both_safe(peer):
            return
        if peer == self._joining:
            self._joining = None
            self._ground.tell(peer, Join(HOPS))
        opening = self._opening.pop(peer, None)
        if opening is not None:
            self.counts["introductions"] += 1
            self._take(peer, neighbour.place)
            if opening.by is None:
                self.memory.surplus += 1  # its lender has gone, and keeps it
            else:
                self._ground.tell(opening.by, Reply(opening.token, True))
            if opening.hops is not None:
                self._move_on(opening, peer)

    def _give_up(self, peer: NodeId) -> None:
        """A connection did not become safe in time."""
        opening = self._opening.pop(peer)
        self.counts["dropped"] += 1
        if opening.by is not None:
            self._ground.tell(opening.by, Reply(opening.token, False))

    # Newcomers, and those who are gone.

    def _asked_to_join(self, newcomer: NodeId, neighbour: Neighbour, hops: int, now: float) -> None:
        """Name another contact to a newcomer while it has hops left; else tell the neighbours of it."""
        if neighbour.joined or neighbour.place is None:
            return
        neighbour.joined, self._new = True, False
        others = [
            arc
            for arc in self.view
            if arc.peer != newcomer and self.both_safe(arc.peer) and newcomer not in self.neighbours[arc.peer].near
        ]
        if not hops or not others:
            self._forward(newcomer, neighbour, now)
            return
        other = self._random.choice(others)
        loan = Loan(newcomer, other.peer, other.place, None, now + 2 * self.options.patience, referred=True)
        self._ground.tell(newcomer, Refer(self._offer(loan), hops - 1))

    def _move_on(self, opening: Opening, contact: NodeId) -> None:
        """The newcomer has another contact: the arc to the one before is the arc to this one now."""
        before = [arc for arc in self.view if arc.peer == opening.by and not arc.lent]
        if before:
            self.view.remove(before[0])
        self._ground.tell(contact, Join(opening.hops or 0))

    def _forward(self, newcomer: NodeId, neighbour: Neighbour, now: float) -> None:
        """Tell each neighbour of a newcomer, and stand in for those that cannot be told."""
        if neighbour.place is None:
            return
        told = [arc.peer for arc in self.view if arc.peer != newcomer]
        for x in told[:MOST_OFFERS] or [newcomer]:
            if x != newcomer and self.both_safe(x) and newcomer not in self.neighbours[x].near:
                loan = Loan(x, newcomer, neighbour.place, None, now + 2 * self.options.patience)
                self._ground.tell(x, Welcome(self._offer(loan)))
            else:
                self._take(newcomer, neighbour.place)

    def _forget_unreachable(self, now: float) -> None:
        patience = min(self.options.every / 2, 5.0)
        lost = [
            arc
            for arc in self.view
            if not arc.lent and arc.peer not in self.neighbours and now - self._down.get(arc.peer, now) > patience
        ]
        size = len(self.view)
        for arc in lost:
            self.view.remove(arc)
        known = list(self.view)
        for arc in lost:
            owed = 0
            if self.memory.surplus:
                self.memory.surplus -= 1
            elif known and self._random.random() > 1 / size:
                other = self._random.choice(known)
                self._take(other.peer, other.place)
            else:
                owed = 1
            self.memory.lose(arc.peer, arc.place, owed=owed)
        kept = {arc.peer for arc in self.view}
        self._down = {peer: since for peer, since in self._down.items() if peer in kept}
        self._retry = {place: entry for place, entry in self._retry.items() if entry[0] > now - 60}

    def _look_for_the_lost(self) -> None:
        """Try one of those that were lost; if there is no neighbour left, all of them."""
        for _ in range(min(len(self.memory), 1 if self.neighbours else len(self.memory))):
            peer, place = self.memory.turn()
            if peer not in self.neighbours:
                self._dial(place)
                continue
            for _ in range(self.memory.find(peer)):
                self._take(peer, place)

    # Over a restart.

    def state(self) -> dict[str, Any]:
        """What a member that comes back begins with."""
        return {
            "view": [[arc.peer, arc.place] for arc in self.view],
            "neighbours": [each.place for each in self.neighbours.values() if each.place is not None][:KEPT],
            "memory": self.memory.state(),
            "new": self._new,
        }

    def places(self) -> list[str]:
        """All addresses that may be dialled."""
        return [*(arc.place for arc in self.view), *self._contacts.places, *self.memory.places()]

    def load(self, state: dict[str, Any]) -> None:
        self.view = [Arc(int(peer), str(place)) for peer, place in state["view"][:MOST_ARCS]]
        for place in state["neighbours"][:KEPT]:  # a view may be empty while others have arcs to this member
            self._contacts.fall_back_on(str(place))
        self.memory.load(state["memory"])
        self._new = bool(state["new"])
