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

from collections.abc import Mapping
from typing import Final

from antecast.core import (
    MAX_PAYLOAD,
    Deliver,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.preventive.catching_up import PATIENCE, CatchingUp
from antecast.protocols.preventive.frames import (
    CODEC,
    EVERYTHING,
    Ask,
    Entry,
    Hello,
    Known,
    Notice,
    Ping,
    Pong,
    Refuse,
    Start,
    Sync,
)
from antecast.protocols.preventive.links import LINK, SLOWEST
from antecast.protocols.preventive.settings import PreventiveSettings

SPONSOR: Final[Timer] = "pc/sponsor"


class PreventiveBroadcast(CatchingUp):
    """One process: its messages (rule 2), and how it becomes a source and stops being one (rule 8)."""

    def __init__(self, node: NodeId, settings: PreventiveSettings) -> None:
        super().__init__(node, settings)
        self._seq = 0
        # These belong to the past; the path of a message is short.
        self._vector = self._past.vector
        self._log = self._past.log
        self._founders = self._past.founders
        self._retain = settings.retain
        # Becoming a source.
        self._waiting: list[Message[None]] = []
        self._clients: dict[NodeId, None] = {}
        self._asked: dict[NodeId, None] = {}
        self._asking: NodeId | None = None
        self._turn = 0
        self._left = False

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
            if origin >= self._founders:
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
        if sender not in self._links:
            return
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
            case Known():
                self._asked.pop(sender, None)
            case _:
                raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which PC-broadcast does not know")

    # Links come and go, and time passes.

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out = super().link_up(peer, now)
        self._ask(now, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out = super().link_down(peer, now)
        self._clients.pop(peer, None)
        if self._asking == peer:
            self._asking = None
            self._ask(now, out)
        return out

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token.startswith(LINK):
            self._timed_out(int(token.removeprefix(LINK)), now, out)
        elif token == PATIENCE:
            self._lose_patience(now, out)
        elif token == SPONSOR:
            self._asking = None
            self._turn += 1
            self._ask(now, out)
        return out

    def _given(self, start: Start, moved: Mapping[NodeId, int], now: int, out: list[Effect]) -> None:
        self._seq = max(self._seq, start.base.get(self.node, 0))
        self._left = self._left or moved.get(self.node) == EVERYTHING
        if self.node in start.births:
            self._asked.pop(start.births[self.node][0], None)
        if self._past.count(self.node) is not None:
            self._release(now, out)
        self._ask(now, out)

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
            out.append(SetTimer(SPONSOR, now + (self._settings.timeout << min(self._turn, SLOWEST))))

    def _sponsor(self, client: NodeId, now: int, out: list[Effect]) -> None:
        if self._past.count(self.node) is None:
            self._clients[client] = None
            self._ask(now, out)
        elif self._past.count(client) is None and client not in self._past.forgotten:
            self._seq += 1
            self._spread(Notice(self.node, self._seq, client, False), out)
        elif self._past.births.get(client, (self.node,))[0] != self.node:
            self._send([client], Known(), out)  # announced by another: nothing will come from here

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
