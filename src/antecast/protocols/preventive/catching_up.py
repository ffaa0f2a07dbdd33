"""Catching up: rules 5 and 7 of PC-broadcast, syncs and joins (`pc` has them all).

A sync makes a link safe without a ping: the neighbour says what it has, and is sent the rest of the log. If the
log no longer holds all of that, the neighbour is refused, and told what it lacks. It can get it from another; if
after `patience` it has not, it takes as given what the log no longer holds. A newcomer does so at once.

What is taken as given was not passed on. So to everyone but its giver, who has it, a process's links are new again
when it has taken something, and its outstanding pings count no more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple

from antecast.core import Discard, Effect, MessageId, NodeId, RemoteFault, SetTimer, Timer
from antecast.protocols.preventive.frames import EVERYTHING, Refuse, Start, Sync
from antecast.protocols.preventive.links import Link, SafeLinks
from antecast.protocols.preventive.settings import PreventiveSettings

PATIENCE: Final[Timer] = "pc/patience"


class Refusal(NamedTuple):
    """A neighbour does not keep what is lacking here, and when to give it up."""

    lacking: Mapping[NodeId, int]
    until: int


class CatchingUp(SafeLinks):
    """How neighbours are brought up to date."""

    def __init__(self, node: NodeId, settings: PreventiveSettings) -> None:
        super().__init__(node, settings)
        self._provider: NodeId | None = None
        self._providers: dict[NodeId, None] = {}
        self._joining: NodeId | None = None
        self._taking: set[NodeId] = set()
        self._refused: dict[NodeId, Refusal] = {}

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out = super().link_down(peer, now)
        self._refused.pop(peer, None)
        self._taking.discard(peer)
        self._providers.pop(peer, None)
        if self._joining == peer:
            self._joining = None
            for other in self._providers:
                self._offered(other, out)
                break
        return out

    def _summary(self, peer: NodeId, *, want: bool = False, take: bool = False) -> Sync:
        self._costs["syncs"] += 1
        births = self._past.births
        known = {source: births[source] for source in self._past.vector if source in births} if births else {}
        upto = self._past.vector | dict.fromkeys(self._links[peer].had, EVERYTHING)
        return Sync(upto, known, want, take)

    @property
    def _fresh(self) -> bool:
        """Whether this process has heard of nobody else."""
        return self._past.vector.keys() <= {self.node}

    def _sync_arrived(self, sync: Sync, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links[sender]
        if sender not in self._safe:
            self._serve(sync, link, out)
        elif not sync.want:
            # It may be joining here, and wait for an answer: what it lacks is on its way.
            self._send([sender], Start({}, {}, [], False), out)
        if sync.want:
            if self._fresh and sync.upto.keys() - {self.node}:
                self._offered(sender, out)
            elif self._joining is None:
                self._send([sender], self._summary(sender), out)

    def _serve(self, sync: Sync, link: Link, out: list[Effect]) -> None:
        past, upto = self._past, sync.upto
        start = Start({}, {}, [], False)
        if sync.take and self._settings.newcomers == "now" and upto.keys() <= {link.peer}:
            start = Start(past.vector.copy(), past.births.copy(), [*past.forgotten], past.forgot_more)
        elif lacking := past.lacking(upto, sync.births):
            if not sync.take:
                self._costs["refusals"] += 1
                self._send([link.peer], Refuse(lacking, self._provider), out)
                return
            start = past.base(past.gone_before(upto, sync.births))
        self._send([link.peer], start, out)
        if start.base:
            upto = upto | {source: max(count, upto.get(source, 0)) for source, count in start.base.items()}
        self._use(link, past.above(upto), out)

    def _offered(self, peer: NodeId, out: list[Effect]) -> None:
        """A neighbour with a past: a newcomer joins through the first, and keeps the others in mind.

        One whose neighbours all have a past takes what is no longer kept as given, at once. Another may have been
        here from the start, with messages on their way to it: it waits, as those with a past do.
        """
        if not self._fresh:
            return
        self._providers[peer] = None
        if self._joining is None or self._joining == peer:
            self._joining = peer
            take = self._links.keys() <= self._providers.keys()
            if take:
                self._taking.add(peer)
            self._send([peer], self._summary(peer, take=take), out)

    def _start_arrived(self, start: Start, sender: NodeId, now: int, out: list[Effect]) -> None:
        if (start.base or start.gone) and sender not in self._taking:
            raise RemoteFault(f"node {sender} sent a base that was not asked for")
        self._refused.pop(sender, None)
        newcomer = self._past.empty
        if self._joining == sender:
            self._joining, self._provider = None, sender
            self._providers.clear()
        before = dict(self._past.vector)
        moved = self._past.take(start.base, start.births, start.gone, start.more)
        if moved and not newcomer:
            self._costs["rebases"] += 1
            for source, count in moved.items():
                if before.get(source, 0) < count < EVERYTHING:
                    self._costs["skipped"] += count - before.get(source, 0)
                    out.append(Discard(MessageId(source, count), "skipped"))
        if moved:
            self._renew_all_but(sender, now, out)
        self._given(start, moved, now, out)

    def _renew_all_but(self, giver: NodeId, now: int, out: list[Effect]) -> None:
        others = [link for link in self._links.values() if link.peer != giver]
        for link in others:
            self._safe.pop(link.peer, None)
            link.renew()
        for link in others:
            self._attempt(link, now, out)

    def _refuse_arrived(self, refuse: Refuse, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links[sender]
        had = [source for source in refuse.lacking if self._past.gone(source) and source not in link.had]
        if had:
            link.had.update(had)
            self._send([sender], self._summary(sender), out)
        if self._joining == sender:
            self._joining = None
            if self._links.keys() <= self._providers.keys():
                self._offered(sender, out)
        known = self._refused.get(sender)
        if known is None or self._past.covers(known.lacking):
            # Patience counts from the first refusal, as long as nothing has come of what was lacking then.
            self._refused[sender] = Refusal(refuse.lacking, now + self._settings.patience)
        if known is None and refuse.provider in self._links and refuse.provider != sender:
            self._send([refuse.provider], self._summary(refuse.provider), out)
        out.append(SetTimer(PATIENCE, min(refusal.until for refusal in self._refused.values())))

    def _lose_patience(self, now: int, out: list[Effect]) -> None:
        for peer, refusal in list(self._refused.items()):
            if self._past.covers(refusal.lacking):
                del self._refused[peer]
        for peer, refusal in self._refused.items():
            if refusal.until <= now:
                self._taking.add(peer)
                self._send([peer], self._summary(peer, take=True), out)
                self._refused[peer] = Refusal(refusal.lacking, now + self._settings.patience)
                break
        if self._refused:
            soonest = min(refusal.until for refusal in self._refused.values())
            out.append(SetTimer(PATIENCE, max(soonest, now + self._settings.timeout)))

    @abstractmethod
    def _given(self, start: Start, moved: Mapping[NodeId, int], now: int, out: list[Effect]) -> None:
        """A base has been taken, or the log that follows needs none."""
