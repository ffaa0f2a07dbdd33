"""PC-broadcast: causal order by links that are used only once they are safe.

After Nédelec, Molli and Mostéfaoui, "Breaking the scalability barrier of causal broadcast for large and dynamic
systems". A process passes on what it delivers, once, over links that keep order; so nothing overtakes what it
depends on, as long as the links stay as they are. A new link is a short cut. It is used only once it is safe:

    The link p → q is *safe* when q has everything in p's past before it receives anything later from p on it.
    (To have something is to have delivered it, or to have taken it as given.)

Whatever establishes this is sound, and where the safe links connect everyone, everything arrives, whatever was
lost on the way. Messages carry only their name; they are ready when they arrive, and are delivered on receipt.

The rules (docs/preventive.md says why each holds, and where the paper differs):

1. *Open.* A process without a past has nothing to overtake: its links are safe at once. Any other pings the
   new neighbour over safe links, flooded or through the neighbour who introduced the two, and notes where its
   log ends. Without a safe way out, or after `tries` pings, it syncs.
2. *New message* (the next of a known source): count it, keep it in the log, pass it on over all safe links,
   deliver it; in this order, since the application may broadcast from inside the delivery. Any other message
   is a copy or a leftover, and is dropped.
3. *Pong.* If the ping is one of this link since it came up, and the log still reaches back to its start: send
   what was delivered since; the link is safe.
4. *Time-out, or a start no longer kept*: try again, by rule 1. *Gap*: a message came without the one before it,
   which safe links that keep order rule out. What the neighbour sends is dropped until it has begun its link anew,
   and it syncs.
5. *Sync.* The neighbour says what it has, and is sent the rest of the log; the link is safe. If the log no longer
   holds all of it, the neighbour is refused. One that stays refused for `patience` takes what is no longer
   kept as given, and its own links are new again.
6. *Break, crash, reconnection*: a link that comes back is a new link.
7. *Join.* A newcomer takes the base and the log of one neighbour; both directions of that link are then safe.
8. *Come and go.* Processes beyond the `founders` are announced by a neighbour before their first message goes
   out, and forgotten at their `leave`.

Each part of this is an object: the past (`past`), the links (`links`), the pings (`pings`), catching up by syncs
and bases (`catching_up`), this process as a source (`source`, `membership`), and what is said when something
cannot be right (`claims`). They keep their state and answer questions; the class here says, rule by rule, what
happens when.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from antecast.core import (
    MAX_PAYLOAD,
    CancelTimer,
    Deliver,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.preventive.catching_up import JOIN, PATIENCE, CatchingUp
from antecast.protocols.preventive.claims import Claims
from antecast.protocols.preventive.frames import (
    CODEC,
    EVERYTHING,
    MOST_SOURCES,
    Anew,
    Ask,
    Claim,
    Disown,
    Entry,
    Gap,
    Hello,
    Known,
    Notice,
    Part,
    Ping,
    Pong,
    Refuse,
    Start,
    Sync,
    joined,
)
from antecast.protocols.preventive.links import LINK, SLOWEST, Link, Links
from antecast.protocols.preventive.membership import SPONSOR, Membership, Standing
from antecast.protocols.preventive.past import Past
from antecast.protocols.preventive.pings import Pings
from antecast.protocols.preventive.settings import PreventiveSettings
from antecast.protocols.preventive.source import Source


class PreventiveBroadcast(Protocol):
    """One process."""

    def __init__(self, node: NodeId, settings: PreventiveSettings) -> None:
        self.node = node
        self.codec = CODEC
        self._settings = settings
        founders = settings.founders if settings.founders is not None else 1 << 32
        costs = ("pings", "pongs", "syncs", "refusals", "rebases", "skipped", "control_bytes")
        self._past = Past(retain=settings.retain, founders=founders)
        self._links = Links(dict.fromkeys(costs, 0))
        self._pings = Pings(node, self._links, settings.timeout << SLOWEST)
        self._catching_up = CatchingUp(node, self._past, self._links, settings)
        self._membership = Membership(node, self._past, self._links, settings.timeout)
        self._claims = Claims(node, self._links)
        self._source = Source(
            node, self._past, self._links, self._pings, self._catching_up, self._membership, self._claims
        )
        # These belong to the parts; they are bound here to keep the path of a message short.
        self._vector = self._past.vector
        self._log = self._past.log
        self._founders = founders
        self._retain = settings.retain
        self._safe = self._links.safe
        self._flowing = self._links.flowing

    # Rule 2: messages.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol does not support lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        if self._membership.standing is not Standing.MEMBER:
            raise LocalMisuse(f"node {self.node} has left; it can join again under a new number")
        if self.node not in self._vector and self._past.full:
            raise LocalMisuse(
                f"node {self.node} knows {MOST_SOURCES} other sources, and nobody has room for one more;"
                " set `founders` so that sources are announced, and forgotten when they leave"
            )
        out: list[Effect] = []
        message = self._source.message(payload, now, out)
        out.append(Deliver(message))
        return out

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        if frame.__class__ is not Message or sender not in self._flowing:
            return self._control(frame, sender, now)
        origin, seq = frame.origin, frame.seq
        count = self._vector.get(origin)
        if count is None:
            if origin >= self._founders or self._past.full:
                return self._unknown(frame, sender)
            count = 0
        if seq <= count:
            return []
        if seq != count + 1 or origin == self.node:
            return self._out_of_turn(frame, sender)
        self._vector[origin] = seq
        self._log.append(frame)
        effects: list[Effect] = [Send(peer, frame) for peer in self._safe if peer != sender]
        effects.append(Deliver(frame))
        if len(self._log) > self._retain:
            self._past.trim()
        return effects

    def _notice(self, notice: Notice, sender: NodeId, now: int, out: list[Effect]) -> None:
        count = self._past.count(notice.origin)
        if count is None or (count == 0 and notice.origin not in self._vector and self._past.full):
            out += self._unknown(notice, sender)
        elif notice.seq <= count:
            return
        elif notice.seq != count + 1 or notice.origin == self.node:
            out += self._out_of_turn(notice, sender)
        else:
            self._past.add(notice)
            out += [Send(peer, notice) for peer in self._safe if peer != sender]
            self._source.heed(notice, now, out)

    def _unknown(self, entry: Entry, sender: NodeId) -> list[Effect]:
        """An entry of an unknown source: a leftover of one that has gone, or there is no room for it."""
        out: list[Effect] = []
        if entry.origin < self._founders:
            raise RemoteFault(f"node {sender} sent a message of one more source; {MOST_SOURCES} are known here")
        if entry.origin == self.node:
            self._source.claimed(sender, entry.seq, out)
        return out

    def _out_of_turn(self, entry: Entry, sender: NodeId) -> list[Effect]:
        """An entry that is neither the next of its source nor a copy.

        The neighbour may be broken; or honest, and misled by one who sends in the name of another. So it is not
        refused but asked to begin its link to this process anew. What it sends until it has read that may depend
        on what is missing, and is dropped; a sync then brings all of it.
        """
        out: list[Effect] = []
        if entry.origin == self.node:
            self._source.claimed(sender, entry.seq, out)
            return out
        self._flowing.discard(sender)
        self._links.send([sender], Gap(), out)
        self._claims.gap(sender, MessageId(entry.origin, entry.seq), out)
        return out

    # Other frames.

    def _control(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        link = self._links.get(sender)
        if link is None:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, and has no link to node {self.node}")
        out: list[Effect] = []
        if isinstance(frame, Message | Notice | Ping) and sender not in self._flowing:
            return out  # behind a gap
        match frame:
            case Notice():
                self._notice(frame, sender, now, out)
            case Ping(origin=origin, target=target):
                # A process that is leaving must not answer another's farewell: it may not pass on what came
                # before.
                if self._membership.standing is not Standing.GONE or (origin, target) != (sender, self.node):
                    self._pings.arrived(frame, sender, now, out)
            case Pong(id=number):
                self._pong_arrived(number, link, now, out)
            case Sync() | Refuse() | Start():
                self._summary_arrived(frame, link, now, out)
            case Part():
                self._catching_up.keep(frame, link)
            case Hello():
                self._catching_up.offered(sender, now, out)
            case Ask():
                self._source.sponsor(sender, now, out)
            case Known():
                self._membership.answered(sender)
                self._source.take_leave(out)
            case Gap():
                self._begin_anew(link, now, out)
            case Anew():
                if sender in self._flowing:
                    raise RemoteFault(f"node {sender} begins a link anew without being asked")
                self._flowing.add(sender)
            case Claim(upto=upto):
                self._source.claimed(sender, upto, out)
            case Disown(upto=upto):
                self._claims.disowned(sender, upto, self._vector.get(sender, 0), out)
            case _:
                raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which PC-broadcast does not know")
        return out

    # Rules 1 and 6: links open and close. Rules 3 and 4: they become safe, or are tried again.

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        self._links.introduce(peer, by)

    def safe(self, peer: NodeId) -> bool:
        return peer in self._safe

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out = self.link_down(peer, now) if peer in self._links else []
        link = self._links.add(peer)
        self._pings.link_up(peer, out)
        if self._past.empty:
            self._safe[peer] = None
        else:
            if link.by is None:
                self._links.send([peer], Hello(), out)
            self._attempt(link, now, out)
        self._membership.ask(self._catching_up.provider, now, out)
        self._membership.ask_again(link, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        if peer not in self._links:
            return []
        out: list[Effect] = [CancelTimer(f"{LINK}{peer}")]
        self._links.remove(peer)
        self._catching_up.link_down(peer, now, out)
        if self._membership.link_down(peer):
            self._membership.ask(self._catching_up.provider, now, out)
        return out

    def _attempt(self, link: Link, now: int, out: list[Effect]) -> None:
        """Ping while there is a safe way, then sync."""
        way = self._links.way(link)
        if way and link.tries < self._settings.tries:
            self._pings.send(link, way, self._past.end, out)
        else:
            self._catching_up.tell(link, out, want=True)
        wait = self._settings.timeout << min(link.attempts, SLOWEST)
        link.attempts += 1
        out.append(SetTimer(f"{LINK}{link.peer}", now + wait))

    def _pong_arrived(self, number: int, link: Link, now: int, out: list[Effect]) -> None:
        if number and number == link.farewell:
            link.farewell, self._membership.owes = 0, False
        start = link.pings.pop(number, None)
        if start is None:
            return
        if start >= self._past.first:
            self._use(link, self._past.since(start), out)
        elif not link.pings and link.tries < self._settings.tries:
            self._attempt(link, now, out)

    def _use(self, link: Link, first: Iterable[Entry], out: list[Effect]) -> None:
        """A link has become safe: send what comes first, then everything."""
        out += [Send(link.peer, entry) for entry in first]
        link.renew()
        self._safe[link.peer] = None
        out.append(CancelTimer(f"{LINK}{link.peer}"))
        if self._membership.standing is Standing.GONE:
            self._pings.farewell(link, out)

    def _begin_anew(self, link: Link, now: int, out: list[Effect]) -> None:
        """A neighbour has found a gap: what it has not dropped was sent before this. No ping would tell what it
        lacks, so the link syncs."""
        self._links.send([link.peer], Anew(), out)
        was_safe = link.peer in self._safe
        self._safe.pop(link.peer, None)
        link.pings.clear()
        link.tries = self._settings.tries
        if was_safe:
            self._attempt(link, now, out)

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token.startswith(LINK):
            link = self._links.get(int(token.removeprefix(LINK)))
            if link is not None and link.peer not in self._safe:
                self._attempt(link, now, out)
        elif token == PATIENCE:
            self._catching_up.lose_patience(now, out)
        elif token == JOIN:
            self._catching_up.join_elsewhere(now, out)
        elif token == SPONSOR:
            self._membership.ask_elsewhere(out)
            self._membership.ask(self._catching_up.provider, now, out)
        return out

    # Rules 5 and 7: syncs, bases and joins.

    def _summary_arrived(self, frame: Sync | Refuse | Start, link: Link, now: int, out: list[Effect]) -> None:
        match joined(link.parts, frame) if link.parts else frame:
            case Sync() as sync:
                self._sync_arrived(sync, link, now, out)
            case Refuse() as refuse:
                self._catching_up.refused(refuse, link, now, out)
            case Start() as start:
                self._start_arrived(start, link, now, out)
        link.parts.clear()

    def _sync_arrived(self, sync: Sync, link: Link, now: int, out: list[Effect]) -> None:
        catching_up, mine = self._catching_up, sync.upto.get(self.node, 0)
        if mine < EVERYTHING and self._source.claimed(link.peer, mine, out):
            sync = msgspec.structs.replace(sync, upto=sync.upto | {self.node: self._source.sent})
        if link.peer not in self._safe:
            entries = catching_up.serve(sync, link, out)
            if entries is not None:
                self._use(link, entries, out)
        elif not sync.want:
            catching_up.assure(link, out)
        if sync.want:
            if catching_up.fresh and sync.upto.keys() - {self.node}:
                catching_up.offered(link.peer, now, out)
            elif catching_up.joining is None:
                catching_up.tell(link, out)

    def _start_arrived(self, start: Start, link: Link, now: int, out: list[Effect]) -> None:
        self._catching_up.check(start, link)
        if self._source.claimed(link.peer, start.base.get(self.node, 0), out):
            start = msgspec.structs.replace(start, base=start.base | {self.node: self._source.sent})
        moved = self._catching_up.started(start, link, out)
        if moved:
            self._renew_all_but(link, now, out)
        self._source.given(start, moved, link, now, out)

    def _renew_all_but(self, giver: Link, now: int, out: list[Effect]) -> None:
        """What was taken as given has not been passed on."""
        others = [link for link in self._links.values() if link is not giver]
        for link in others:
            self._safe.pop(link.peer, None)
            link.renew()
        for link in others:
            self._attempt(link, now, out)

    # Rule 8: sources come and go.

    def leave(self, now: int) -> list[Effect]:
        """Say that nothing more will come from this process; the others forget it. Its links stay until they go
        down.

        A founder is never forgotten, but waits like the others until its last messages have been heard.
        """
        out: list[Effect] = []
        self._source.leave(out)
        return out

    @property
    def left(self) -> bool:
        return self._source.left

    def retire(self, source: NodeId, now: int) -> list[Effect]:
        """Say for another process, which will not come back, that nothing more will come from it.

        Only once its messages have settled: a process that hears of this before one of them drops it.
        """
        out: list[Effect] = []
        self._source.retire(source, out)
        return out

    # State.

    def snapshot(self) -> State:
        return {
            "seq": self._source.seq,
            "pings": self._pings.sent,
            "provider": self._catching_up.provider,
            "membership": self._membership.snapshot(),
            "past": self._past.snapshot(),
        }

    def restore(self, state: State) -> None:
        self._source.seq = state["seq"]
        self._pings.sent = state["pings"]
        self._catching_up.provider = state["provider"]
        self._membership.restore(state["membership"])
        self._past.restore(state["past"])

    def gauges(self) -> dict[str, int]:
        return {
            "sources": len(self._vector),
            "log": len(self._log),
            "forgotten": len(self._past.forgotten),
            "links": len(self._links),
            "unsafe": len(self._links) - len(self._safe),
            "outstanding": sum(len(link.pings) for link in self._links.values()),
            **self._links.costs,
        }
