"""PC-broadcast: causal order by links that are used only once they are safe.

After Nédelec, Molli and Mostéfaoui, "Breaking the scalability barrier of causal broadcast for large and dynamic
systems". A process passes on what it delivers, once, over links that keep order; so nothing overtakes what it
depends on, as long as the links stay as they are. A new link is a short cut. It is used only once it is safe:

    The link p → q is *safe* when q has everything in p's past before it receives anything later from p on it.
    (To have something is to have delivered it, or to have taken it as given.)

Whatever establishes this is sound, and where the safe links connect everyone, everything arrives, whatever was
lost on the way. Messages carry their name and nothing else; they arrive ready, and are delivered on receipt.

The rules (docs/preventive.md says why each holds, and where the paper has another):

1. *Open.* A process without a past has nothing to overtake: its links are safe at once. Any other pings the
   new neighbour over safe links, flooded or through the neighbour who introduced the two, and notes where its
   log ends. Without a safe way out, or after `tries` pings, it syncs.
2. *New message* (the next of a known source): count it, keep it in the log, pass it on over all safe links,
   deliver it; in this order, since the application may broadcast from inside the delivery. Any other message
   is a copy or a leftover, and is dropped.
3. *Pong.* If the ping is one of this link since it came up, and the log still reaches back to its start: send
   what was delivered since; the link is safe.
4. *Time-out, or a start no longer kept*: try again, by rule 1.
5. *Sync.* The neighbour says what it has, and is sent the rest of the log; the link is safe. If the log no longer
   holds all of it, the neighbour is refused. One that stays refused for `patience` takes what is no longer
   kept as given, and its own links are new again.
6. *Break, crash, reconnection*: a link that comes back is a new link.
7. *Join.* A newcomer takes the base and the log of one neighbour; both directions of that link are then safe.
8. *Come and go.* Processes beyond the `founders` are announced by a neighbour before their first message goes
   out, and forgotten at their `leave`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from antecast.core import (
    MAX_PAYLOAD,
    CancelTimer,
    Deliver,
    Discard,
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
from antecast.protocols.preventive.frames import (
    CODEC,
    EVERYTHING,
    HOPS,
    Ask,
    Entry,
    Hello,
    Notice,
    Ping,
    Pong,
    Refuse,
    Start,
    Sync,
)
from antecast.protocols.preventive.past import Past
from antecast.protocols.preventive.pings import SeenPings
from antecast.protocols.preventive.settings import PreventiveSettings

LINK: Final = "pc/link/"
PATIENCE: Final[Timer] = "pc/patience"
SPONSOR: Final[Timer] = "pc/sponsor"

_SLOWEST: Final = 4
"""Time-outs double with each attempt, up to this often."""


class Link:
    """One outgoing link, from the moment it comes up until it goes down."""

    __slots__ = ("attempts", "by", "had", "peer", "pings", "tries")

    def __init__(self, peer: NodeId, by: NodeId | None) -> None:
        self.peer = peer
        self.by = by
        """Who introduced the neighbour, if anybody did."""
        self.had: set[NodeId] = set()
        """Sources that the neighbour missed here, and that have come and gone here."""
        self.renew()

    def renew(self) -> None:
        self.pings: dict[int, int] = {}
        """Outstanding pings, each with the end of the log when it was sent."""
        self.tries = 0
        self.attempts = 0


class Refusal(NamedTuple):
    """A neighbour does not keep what is lacking here, and when to give it up."""

    lacking: Mapping[NodeId, int]
    until: int


class PreventiveBroadcast(Protocol):
    def __init__(self, node: NodeId, settings: PreventiveSettings) -> None:
        self.node = node
        self.codec = CODEC
        self._settings = settings
        founders = settings.founders if settings.founders is not None else 1 << 32
        self._past = Past(retain=settings.retain, founders=founders)
        self._vector = self._past.vector
        self._log = self._past.log
        self._retain = settings.retain
        self._seq = 0
        self._pings = 0
        self._links: dict[NodeId, Link] = {}
        self._safe: dict[NodeId, None] = {}
        self._introduced: dict[NodeId, NodeId] = {}
        self._seen = SeenPings()
        # Joining and catching up.
        self._provider: NodeId | None = None
        self._providers: dict[NodeId, None] = {}
        self._joining: NodeId | None = None
        self._taking: set[NodeId] = set()
        self._refused: dict[NodeId, Refusal] = {}
        # Becoming a source.
        self._waiting: list[Message[None]] = []
        self._clients: dict[NodeId, None] = {}
        self._asked: dict[NodeId, None] = {}
        self._asking: NodeId | None = None
        self._turn = 0
        self._left = False
        self._costs = dict.fromkeys(("pings", "pongs", "syncs", "refusals", "rebases", "skipped", "control"), 0)

    # Messages.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol knows no lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        if self._left:
            raise LocalMisuse(f"node {self.node} has left; it can join again under a new number")
        self._seq += 1
        message: Message[None] = Message(self.node, self._seq, payload, None)
        out: list[Effect] = []
        if self._past.count(self.node) is None:
            self._waiting.append(message)
            self._ask(now, out)
        else:
            self._spread(message, out)
        out.append(Deliver(message))
        return out

    def _spread(self, entry: Entry, out: list[Effect]) -> None:
        """A new entry of this process."""
        self._past.add(entry)
        out += [Send(peer, entry) for peer in self._safe]

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        if frame.__class__ is not Message:
            out: list[Effect] = []
            self._control(frame, sender, now, out)
            return out
        origin, seq = frame.origin, frame.seq
        count = self._vector.get(origin)
        if count is None:
            if origin >= self._past.founders:
                return []
            count = 0
        if seq <= count:
            return []
        if seq != count + 1 or origin == self.node:
            raise self._fault(origin, seq, sender)
        self._vector[origin] = seq
        self._log.append(frame)
        effects: list[Effect] = [Send(peer, frame) for peer in self._safe if peer != sender]
        effects.append(Deliver(frame))
        if len(self._log) > self._retain:
            self._past.trim()
        return effects

    def _fault(self, origin: NodeId, seq: int, sender: NodeId) -> RemoteFault:
        name = MessageId(origin, seq)
        if origin == self.node:
            return RemoteFault(f"node {sender} sent message {name}, never broadcast here")
        return RemoteFault(
            f"node {sender} sent message {name} before {MessageId(origin, seq - 1)};"
            " PC-broadcast needs links that keep order and lose nothing"
        )

    def _notice(self, notice: Notice, sender: NodeId, now: int, out: list[Effect]) -> None:
        count = self._past.count(notice.origin)
        if count is None or notice.seq <= count:
            return
        if notice.seq != count + 1 or notice.origin == self.node:
            raise self._fault(notice.origin, notice.seq, sender)
        self._past.add(notice)
        out += [Send(peer, notice) for peer in self._safe if peer != sender]
        self._heed(notice, now, out)

    def _control(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        match frame:
            case Notice():
                self._notice(frame, sender, now, out)
            case Ping():
                self._ping_arrived(frame, sender, out)
            case Pong(id=number):
                self._pong_arrived(number, sender, now, out)
            case Sync():
                self._sync_arrived(frame, sender, now, out)
            case Start():
                self._start_arrived(frame, sender, now, out)
            case Refuse():
                self._refuse_arrived(frame, sender, now, out)
            case Hello():
                self._offered(sender, out)
            case Ask():
                self._sponsor(sender, now, out)
            case _:
                raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which PC-broadcast does not know")

    def _send(self, to: Collection[NodeId], frame: Frame, out: list[Effect]) -> None:
        """Send control information, and count what it costs."""
        if to:
            self._costs["control"] += len(to) * CODEC.size(frame)
            out += [Send(peer, frame) for peer in to]

    # Links: pings (rules 1, 3 and 4).

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        self._introduced[peer] = by

    def safe(self, peer: NodeId) -> bool:
        return peer in self._safe

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        link = self._links[peer] = Link(peer, self._introduced.pop(peer, None))
        if self._past.empty:
            self._safe[peer] = None
        else:
            if link.by is None:
                self._send([peer], Hello(), out)
            self._attempt(link, now, out)
        self._ask(now, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = [CancelTimer(f"{LINK}{peer}")]
        self._links.pop(peer, None)
        self._safe.pop(peer, None)
        self._refused.pop(peer, None)
        self._taking.discard(peer)
        self._providers.pop(peer, None)
        self._clients.pop(peer, None)
        if self._asking == peer:
            self._asking = None
            self._ask(now, out)
        if self._joining == peer:
            self._joining = None
            for other in self._providers:
                self._offered(other, out)
                break
        return out

    def _attempt(self, link: Link, now: int, out: list[Effect]) -> None:
        """Rule 1: ping while there is a safe way, then sync."""
        way: Collection[NodeId] = ()
        if link.by is None:
            way = self._safe
        elif link.by in self._safe:
            way = [link.by]
        if way and link.tries < self._settings.tries:
            link.tries += 1
            self._pings += 1
            self._costs["pings"] += 1
            link.pings[self._pings] = self._past.end
            hops = HOPS if link.by is None else 1
            self._send(way, Ping(self.node, link.peer, self._pings, hops), out)
        else:
            self._send([link.peer], self._summary(link.peer, want=True), out)
        wait = self._settings.timeout << min(link.attempts, _SLOWEST)
        link.attempts += 1
        out.append(SetTimer(f"{LINK}{link.peer}", now + wait))

    def _ping_arrived(self, ping: Ping, sender: NodeId, out: list[Effect]) -> None:
        if ping.origin == self.node or not self._seen.first(ping):
            return
        if ping.target == self.node:
            self._costs["pongs"] += 1
            self._send([ping.origin], Pong(ping.id), out)
        elif ping.hops:
            onward = Ping(ping.origin, ping.target, ping.id, ping.hops - 1)
            if ping.target in self._safe:
                self._send([ping.target], onward, out)
            elif ping.hops > 1:
                self._send([peer for peer in self._safe if peer != sender], onward, out)

    def _pong_arrived(self, number: int, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links.get(sender)
        start = link.pings.pop(number, None) if link is not None else None
        if link is None or start is None:
            return
        if start >= self._past.first:
            self._use(link, self._past.since(start), out)
        elif not link.pings and link.tries < self._settings.tries:
            self._attempt(link, now, out)

    def _use(self, link: Link, first: Iterable[Entry], out: list[Effect]) -> None:
        """A link has become safe: what comes first, and then everything."""
        out += [Send(link.peer, entry) for entry in first]
        link.renew()
        self._safe[link.peer] = None
        out.append(CancelTimer(f"{LINK}{link.peer}"))

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token.startswith(LINK):
            link = self._links.get(int(token.removeprefix(LINK)))
            if link is not None and link.peer not in self._safe:
                self._attempt(link, now, out)
        elif token == PATIENCE:
            self._lose_patience(now, out)
        elif token == SPONSOR:
            self._asking = None
            self._turn += 1
            self._ask(now, out)
        return out

    # Sync, joins and bases (rules 5 and 7).

    def _summary(self, peer: NodeId, *, want: bool = False, take: bool = False) -> Sync:
        self._costs["syncs"] += 1
        births = self._past.births
        known = {source: births[source] for source in self._vector if source in births} if births else {}
        upto = self._vector | dict.fromkeys(self._links[peer].had, EVERYTHING)
        return Sync(upto, known, want, take)

    @property
    def _fresh(self) -> bool:
        """Whether this process has heard of nobody else."""
        return self._vector.keys() <= {self.node}

    def _sync_arrived(self, sync: Sync, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links.get(sender)
        if link is None:
            return
        if sender not in self._safe:
            self._serve(sync, link, out)
        elif sync.take:
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
        """A neighbour with a past: a newcomer joins through the first, and keeps the others in mind."""
        if not self._fresh:
            return
        self._providers[peer] = None
        if self._joining is None or self._joining == peer:
            self._joining = peer
            self._taking.add(peer)
            self._send([peer], self._summary(peer, take=True), out)

    def _start_arrived(self, start: Start, sender: NodeId, now: int, out: list[Effect]) -> None:
        if (start.base or start.gone) and sender not in self._taking:
            raise RemoteFault(f"node {sender} sent a base that was not asked for")
        self._refused.pop(sender, None)
        newcomer = self._fresh
        if self._joining == sender:
            self._joining, self._provider = None, sender
            self._providers.clear()
        before = dict(self._vector)
        moved = self._past.take(start.base, start.births, start.gone, start.more)
        if not moved:
            self._ask(now, out)
            return
        self._seq = max(self._seq, start.base.get(self.node, 0))
        if not newcomer:
            self._costs["rebases"] += 1
            for source, count in moved.items():
                if count == EVERYTHING:
                    self._left = self._left or source == self.node
                elif count > before.get(source, 0):
                    self._costs["skipped"] += count - before.get(source, 0)
                    out.append(Discard(MessageId(source, count), "skipped"))
        # What was taken as given was not passed on: to everyone but the giver, the links are new.
        for link in self._links.values():
            if link.peer != sender:
                self._safe.pop(link.peer, None)
                link.renew()
        for link in self._links.values():
            if link.peer != sender:
                self._attempt(link, now, out)
        if self._past.count(self.node) is not None:
            self._release(now, out)
        self._ask(now, out)

    def _refuse_arrived(self, refuse: Refuse, sender: NodeId, now: int, out: list[Effect]) -> None:
        link = self._links.get(sender)
        if link is None:
            return
        had = [source for source in refuse.lacking if self._past.gone(source) and source not in link.had]
        if had:
            link.had.update(had)
            self._send([sender], self._summary(sender), out)
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

    # Sources come and go (rule 8).

    def _ask(self, now: int, out: list[Effect]) -> None:
        """Ask a neighbour to announce this process, if that is needed and not under way."""
        if self._asking is not None or not (self._waiting or self._clients):
            return
        if self._left or self._past.count(self.node) is not None:
            return
        # Whoever was asked before may have announced it already: that one first, or the provider.
        willing = sorted(
            self._links,
            key=lambda peer: (peer in self._clients, peer not in self._asked, peer != self._provider),
        )
        if willing:
            peer = willing[self._turn % len(willing)]
            self._asking = peer
            self._asked[peer] = None
            self._send([peer], Ask(), out)
            out.append(SetTimer(SPONSOR, now + (self._settings.timeout << min(self._turn, _SLOWEST))))

    def _sponsor(self, client: NodeId, now: int, out: list[Effect]) -> None:
        if self._past.count(self.node) is None:
            self._clients[client] = None
            self._ask(now, out)
        elif self._past.count(client) is None and client not in self._past.forgotten:
            self._announce(client, out)

    def _announce(self, client: NodeId, out: list[Effect]) -> None:
        self._seq += 1
        self._spread(Notice(self.node, self._seq, client, False), out)

    def _heed(self, notice: Notice, now: int, out: list[Effect]) -> None:
        """What a notice means to this process itself."""
        if notice.source != self.node:
            return
        if notice.gone:
            self._left = self.node >= self._past.founders
            return
        self._asked.pop(notice.origin, None)
        self._release(now, out)

    def _release(self, now: int, out: list[Effect]) -> None:
        """This process is known as a source: what waited for that goes out."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._spread(message, out)
        clients, self._clients = self._clients, {}
        for client in clients:
            self._sponsor(client, now, out)

    def leave(self, now: int) -> list[Effect]:
        """Say that nothing more will come of this process; the others forget it. Links stay until they go.

        A founder is never forgotten. Neither is a process that asked several neighbours to announce it until
        it has seen all of them do so: an announcement that came after this would bring it back.
        """
        out: list[Effect] = []
        if self._vector.get(self.node) is not None and self.node >= self._past.founders and not self._asked:
            self._dismiss(self.node, out)
        self._left = True
        return out

    def retire(self, source: NodeId, now: int) -> list[Effect]:
        """Say for another process, which will not come back, that nothing more will come of it.

        Only once its messages have settled: whoever hears of this before one of them drops it.
        """
        if self._past.count(self.node) is None or self._left or source == self.node:
            raise LocalMisuse(f"node {self.node} cannot speak for node {source}; a known source has to")
        out: list[Effect] = []
        if source in self._vector and source >= self._past.founders:
            self._dismiss(source, out)
        return out

    def _dismiss(self, source: NodeId, out: list[Effect]) -> None:
        self._seq += 1
        self._spread(Notice(self.node, self._seq, source, True), out)

    def snapshot(self) -> State:
        return {
            "seq": self._seq,
            "pings": self._pings,
            "provider": self._provider,
            "waiting": [CODEC.encode(message) for message in self._waiting],
            "asked": list(self._asked),
            "left": self._left,
            "past": self._past.snapshot(),
        }

    def restore(self, state: State) -> None:
        self._seq = state["seq"]
        self._pings = state["pings"]
        self._provider = state["provider"]
        self._waiting = [each for each in map(CODEC.decode, state["waiting"]) if isinstance(each, Message)]
        self._asked = dict.fromkeys(state["asked"])
        self._left = state["left"]
        self._past.restore(state["past"])

    def gauges(self) -> dict[str, int]:
        return {
            "sources": len(self._vector),
            "log": len(self._log),
            "forgotten": len(self._past.forgotten),
            "links": len(self._links),
            "unsafe": len(self._links) - len(self._safe),
            "outstanding": sum(len(link.pings) for link in self._links.values()),
            **self._costs,
        }
