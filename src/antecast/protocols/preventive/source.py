"""This process as a source: its numbers and entries, how it comes and goes (rule 8 of PC-broadcast).

An entry is a message, or a notice that another source has come or gone. Both are counted, kept and passed on
alike, so that a notice is in causal order with the messages. `membership` knows the state of this process and its
neighbours; what follows from it is here.
"""

from __future__ import annotations

from collections.abc import Mapping

from antecast.core import Effect, LocalMisuse, Message, NodeId, Send
from antecast.protocols.preventive.catching_up import CatchingUp
from antecast.protocols.preventive.claims import Claims
from antecast.protocols.preventive.frames import EVERYTHING, Entry, Notice, Start
from antecast.protocols.preventive.links import Link, Links
from antecast.protocols.preventive.membership import Membership, Standing
from antecast.protocols.preventive.past import Past
from antecast.protocols.preventive.pings import Pings


class Source:
    def __init__(
        self,
        node: NodeId,
        past: Past,
        links: Links,
        pings: Pings,
        catching_up: CatchingUp,
        membership: Membership,
        claims: Claims,
    ) -> None:
        self.node = node
        self.seq = 0
        """How many entries this process has made."""
        self._past = past
        self._links = links
        self._pings = pings
        self._catching_up = catching_up
        self._membership = membership
        self._claims = claims

    @property
    def sent(self) -> int:
        """How many of them have gone out."""
        return self.seq - len(self._membership.waiting)

    def message(self, payload: bytes, now: int, out: list[Effect]) -> Message[None]:
        """A new message: it goes out, or waits until this process is known as a source."""
        self.seq += 1
        message: Message[None] = Message(self.node, self.seq, payload, None)
        if self._membership.known:
            self._spread(message, out)
        else:
            self._membership.waiting.append(message)
            self._membership.ask(self._catching_up.provider, now, out)
        return message

    def _spread(self, entry: Entry, out: list[Effect]) -> None:
        self._past.add(entry)
        out += [Send(peer, entry) for peer in self._links.safe]

    def claimed(self, sender: NodeId, upto: int, out: list[Effect]) -> bool:
        """A neighbour has entries of this process; returns whether they are more than there are."""
        return self._claims.of_mine(sender, upto, self.sent, out)

    # Coming.

    def sponsor(self, client: NodeId, now: int, out: list[Effect]) -> None:
        """A neighbour asks to be announced."""
        if self._membership.announces(client, out):
            self._announce(client, out, gone=False)
        self._membership.ask(self._catching_up.provider, now, out)

    def _announce(self, source: NodeId, out: list[Effect], *, gone: bool) -> None:
        self.seq += 1
        self._spread(Notice(self.node, self.seq, source, gone), out)

    def heed(self, notice: Notice, now: int, out: list[Effect]) -> None:
        """What another's notice means for this process itself."""
        if notice.gone:
            self._membership.answered(notice.source)  # all that it announced came before its departure
            if notice.source == self.node and self.node >= self._past.founders:
                self._retired(notice.origin, out)
        elif notice.source == self.node:
            self._membership.answered(notice.origin)
            if self._membership.known:
                self._release(now, out)
        self.take_leave(out)

    def given(self, start: Start, moved: Mapping[NodeId, int], giver: Link, now: int, out: list[Effect]) -> None:
        """What a base means for this process itself."""
        if moved.get(self.node) == EVERYTHING:
            self._retired(giver.peer, out)
        if self.node in start.births:
            self._membership.answered(start.births[self.node][0])
        if self._membership.known:
            self._release(now, out)
        self._membership.ask(self._catching_up.provider, now, out)

    def _release(self, now: int, out: list[Effect]) -> None:
        """This process is known as a source: what waited for that goes out."""
        waiting, clients = self._membership.release()
        for message in waiting:
            self._spread(message, out)
        for client in clients:
            self.sponsor(client, now, out)
        self.take_leave(out)

    # Going.

    def leave(self, out: list[Effect]) -> None:
        if self._membership.standing is Standing.MEMBER:
            self._membership.standing = Standing.LEAVING
            self.take_leave(out)

    def take_leave(self, out: list[Effect]) -> None:
        """Say the last words, if this process is leaving and nothing is under way that would come after them."""
        membership = self._membership
        if membership.standing is not Standing.LEAVING or not membership.settled:
            return
        membership.standing = Standing.GONE
        membership.owes = not self._past.empty
        if self.node in self._past.vector and self.node >= self._past.founders:
            self._announce(self.node, out, gone=True)
        for peer in self._links.safe:
            self._pings.farewell(self._links[peer], out)

    @property
    def left(self) -> bool:
        return self._membership.standing is Standing.GONE and not self._membership.owes

    def retire(self, source: NodeId, out: list[Effect]) -> None:
        """Speak for another, which will not come back."""
        standing = self._membership.standing
        if not self._membership.known or standing is not Standing.MEMBER or source == self.node:
            raise LocalMisuse(f"node {self.node} cannot speak for node {source}; a known source has to")
        if source in self._past.vector and source >= self._past.founders:
            self._announce(source, out, gone=True)

    def _retired(self, by: NodeId, out: list[Effect]) -> None:
        """The others have forgotten this process."""
        if self._membership.standing is not Standing.GONE:
            self._membership.standing, self._membership.owes = Standing.GONE, False
            out.append(self._claims.retired(by))
