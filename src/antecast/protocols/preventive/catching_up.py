"""Catching up: syncs, refusals, bases and joins (rules 5 and 7 of PC-broadcast).

A sync makes a link safe without a ping: the neighbour says what it has, and is sent the rest of the log. If the
log no longer holds all of that, the neighbour is refused, and told what it lacks. It can get that from another; if
it has not after `patience`, it takes as given what the log no longer holds. A newcomer does so at once.

What is taken as given was not passed on. So when a process has taken something, its links are new again, except to
the giver, who has it, and its outstanding pings no longer count.

The frames, between p, whose link is to become safe, and its neighbour q:

    p ── Sync(want) ──▶ q    p asks what q has
    p ◀──── Sync ────── q    q says so; or unasked, to one who offers a past (`Hello`)
    p ──── Start ─────▶ q    nothing is missing, or q asked for a base: the rest of the log follows, p → q is safe
    p ──── Refuse ────▶ q    something is missing
    p ◀── Sync(take) ── q    q has lost patience
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from antecast.core import CancelTimer, Discard, Effect, MessageId, NodeId, RemoteFault, SetTimer, Timer
from antecast.protocols.preventive.frames import (
    EVERYTHING,
    MOST_SOURCES,
    Claim,
    Entry,
    Part,
    Refuse,
    Start,
    Summary,
    Sync,
    in_parts,
)
from antecast.protocols.preventive.links import SLOWEST, Link, Links
from antecast.protocols.preventive.past import Past
from antecast.protocols.preventive.settings import PreventiveSettings

PATIENCE: Final[Timer] = "pc/patience"
JOIN: Final[Timer] = "pc/join"


class Refusal(NamedTuple):
    """What is missing here that a neighbour no longer keeps, and when to give it up."""

    lacking: Mapping[NodeId, int]
    until: int


class CatchingUp:
    """How this process and its neighbours are brought up to date."""

    def __init__(self, node: NodeId, past: Past, links: Links, settings: PreventiveSettings) -> None:
        self.node = node
        self.provider: NodeId | None = None
        """Through whom this process joined."""
        self.joining: NodeId | None = None
        """Through whom it is joining now."""
        self._past = past
        self._links = links
        self._settings = settings
        self._offers: dict[NodeId, None] = {}
        """Neighbours that have a past, while this process has none."""
        self._refused: dict[NodeId, Refusal] = {}

    @property
    def fresh(self) -> bool:
        """Whether this process has heard of nobody else."""
        return self._past.vector.keys() <= {self.node}

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._refused.pop(peer, None)
        self._offers.pop(peer, None)
        if self.joining == peer:
            self.joining = None
            for other in self._offers:
                self.offered(other, now, out)
                break

    # What this process has, for a neighbour to serve it.

    def tell(self, link: Link, out: list[Effect], *, want: bool = False, take: bool = False) -> None:
        """Tell a neighbour what is here; `want` asks for the same in return, `take` for a base."""
        past = self._past
        self._links.costs["syncs"] += 1
        link.unanswered += 1
        link.taking += take
        known = {source: past.births[source] for source in past.vector if source in past.births}
        upto = past.vector | dict.fromkeys(link.had, EVERYTHING)
        self._send(link, Sync(upto, known, want, take), out)

    def _send(self, link: Link, summary: Summary, out: list[Effect]) -> None:
        for frame in in_parts(summary):
            self._links.send([link.peer], frame, out)

    # What a neighbour has, and what it is given.

    def serve(self, sync: Sync, link: Link, out: list[Effect]) -> Iterable[Entry] | None:
        """Start a link with what the neighbour lacks of the log; None if it is refused."""
        past, upto = self._past, sync.upto
        start = Start({}, {}, [], False)
        if sync.take and self._settings.newcomers == "now" and upto.keys() <= {link.peer}:
            start = Start(past.vector.copy(), past.births.copy(), [*past.forgotten], past.forgot_more)
        elif lacking := self._lacking(sync, link, out):
            if not sync.take:
                self._links.costs["refusals"] += 1
                self._send(link, Refuse(lacking, self.provider), out)
                return None
            start = past.base(past.gone_before(upto, sync.births))
        self._send(link, start, out)
        if start.base:
            upto = upto | {source: max(count, upto.get(source, 0)) for source, count in start.base.items()}
        return past.above(upto)

    def _lacking(self, sync: Sync, link: Link, out: list[Effect]) -> dict[NodeId, int]:
        """What a neighbour lacks and the log cannot give. It cannot lack messages of its own: if it says so, it
        has lost its state, or another has used its number, and it is told."""
        lacking = self._past.lacking(sync.upto, sync.births)
        peer = link.peer
        if peer in lacking and (peer in sync.upto or peer < self._past.founders):
            count = lacking.pop(peer)
            if count < EVERYTHING:
                self._links.send([peer], Claim(count), out)
        return lacking

    def assure(self, link: Link, out: list[Effect]) -> None:
        """Over a safe link: what the neighbour lacks is on its way. It may be joining here, and wait for an
        answer."""
        self._send(link, Start({}, {}, [], False), out)

    # What a neighbour may send.

    def keep(self, part: Part, link: Link) -> None:
        """The beginning of a large frame, until its end comes."""
        size = sum(len(each.upto) + len(each.births) + len(each.gone) for each in [*link.parts, part])
        if not (part.upto or part.births or part.gone) or size > 3 * MOST_SOURCES:
            raise RemoteFault(f"node {link.peer} sent a part of nothing, or of more than {MOST_SOURCES} sources")
        link.parts.append(part)

    def check(self, start: Start, link: Link) -> None:
        """A `Start` answers a sync, and a base one that asked for it. (Not every sync that asks for the same in
        return is answered by one; so a neighbour may keep one answer for later, and no more.)"""
        if not link.unanswered or ((start.base or start.gone) and not link.taking):
            raise RemoteFault(f"node {link.peer} sent a base, or a start, that was not asked for")
        if EVERYTHING in start.base.values() or len(self._past.vector | start.base) > MOST_SOURCES:
            raise RemoteFault(f"node {link.peer} sent a base that no process can have")

    # Joining.

    def offered(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        """A neighbour with a past: a newcomer joins through the first, and keeps the others in mind.

        One whose neighbours all have a past takes what is no longer kept as given, at once. Another may have been
        here from the start, with messages on their way to it: it waits, as those with a past do.
        """
        if not self.fresh:
            return
        self._offers[peer] = None
        if self.joining is None or self.joining == peer:
            self.joining = peer
            self.tell(self._links[peer], out, take=self._links.among(self._offers))
            out.append(SetTimer(JOIN, now + (self._settings.timeout << SLOWEST)))

    def join_elsewhere(self, now: int, out: list[Effect]) -> None:
        """The neighbour that was to help has not answered: ask the next, or the same again."""
        late, self.joining = self.joining, None
        if late is not None and late in self._offers:
            del self._offers[late]
            self._offers[late] = None
            self.offered(next(iter(self._offers)), now, out)

    def started(self, start: Start, link: Link, out: list[Effect]) -> dict[NodeId, int]:
        """A neighbour's link begins: take the base, if there is one; returns what that moved, by source."""
        past = self._past
        link.unanswered -= 1
        if start.base or start.gone:
            link.taking -= 1
        self._refused.pop(link.peer, None)
        newcomer = past.empty
        if self.joining == link.peer:
            self.joining, self.provider = None, link.peer
            self._offers.clear()
            out.append(CancelTimer(JOIN))
        before, gone = dict(past.vector), set(past.forgotten)
        moved = past.take(start.base, start.births, start.gone, start.more)
        if moved and not newcomer:
            self._links.costs["rebases"] += 1
            for source, count in moved.items():
                if count < EVERYTHING:
                    self._skipped(source, before.get(source, 0), count, out)
            # Nobody remembers how far a source came that has gone meanwhile; it said at least that it goes.
            for source in past.forgotten:
                if source not in gone and source != self.node:
                    self._skipped(source, before.get(source, 0), before.get(source, 0) + 1, out)
        return moved

    def _skipped(self, source: NodeId, before: int, count: int, out: list[Effect]) -> None:
        if before < count:
            self._links.costs["skipped"] = min(self._links.costs["skipped"] + count - before, EVERYTHING)
            out.append(Discard(MessageId(source, count), "skipped"))

    # Refusals.

    def refused(self, refuse: Refuse, link: Link, now: int, out: list[Effect]) -> None:
        if not link.unanswered or not refuse.lacking:
            raise RemoteFault(f"node {link.peer} sent a refusal of nothing that was asked for")
        past, peer = self._past, link.peer
        link.unanswered -= 1
        link.had = {source for source in link.had if past.gone(source)}
        had = [source for source in refuse.lacking if past.gone(source) and source not in link.had]
        if had:
            link.had.update(had)
            self.tell(link, out)
        if self.joining == peer:
            self.joining = None
            if self._links.among(self._offers):
                self.offered(peer, now, out)
        known = self._refused.get(peer)
        if known is None or past.covers(known.lacking):
            # Patience counts from the first refusal, as long as nothing has come of what was lacking then.
            self._refused[peer] = Refusal(refuse.lacking, now + self._settings.patience)
        if known is None and refuse.provider is not None and refuse.provider != peer:
            provider = self._links.get(refuse.provider)
            if provider is not None:
                self.tell(provider, out)
        out.append(SetTimer(PATIENCE, min(refusal.until for refusal in self._refused.values())))

    def lose_patience(self, now: int, out: list[Effect]) -> None:
        for peer, refusal in list(self._refused.items()):
            if self._past.covers(refusal.lacking):
                del self._refused[peer]
        for peer, refusal in self._refused.items():
            if refusal.until <= now:
                self.tell(self._links[peer], out, take=True)
                self._refused[peer] = Refusal(refusal.lacking, now + self._settings.patience)
                break
        if self._refused:
            soonest = min(refusal.until for refusal in self._refused.values())
            out.append(SetTimer(PATIENCE, max(soonest, now + self._settings.timeout)))
