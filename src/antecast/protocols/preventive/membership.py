"""Membership: how a process becomes a source, and stops being one (rule 8 of PC-broadcast).

Founders are known from the start. Any other process asks a neighbour to announce it when it first broadcasts; its
messages wait until then. A neighbour that is not a source itself passes the request on. When a process leaves, it
says so in a last message, and stays until a neighbour who stays has that, and so all that went before: then
nothing is lost with it. It learns this by a ping over a safe link, its farewell; processes that are leaving
themselves do not answer.

    MEMBER ── leave() ──▶ LEAVING ── announced, and all has been said ──▶ GONE

A process that asked several neighbours leaves only once all of them have answered: an announcement that came
after its departure would bring it back.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from antecast.core import Alert, Effect, Message, NodeId, SetTimer, State, Timer
from antecast.protocols.preventive.frames import CODEC, EVERYTHING, Ask, Claim, Known
from antecast.protocols.preventive.links import SLOWEST, Link, Links
from antecast.protocols.preventive.past import Past

SPONSOR: Final[Timer] = "pc/sponsor"

UNHEARD: Final = 6
"""Requests to be announced, one after the other, after which a person is told."""


class Standing(Enum):
    MEMBER = "member"
    LEAVING = "leaving"
    """It has asked to leave, and waits for its announcements."""
    GONE = "gone"
    """It has said so, or another has said so for it."""


class Membership:
    """Whether this process is a source for the others, and what it does for neighbours that are not yet."""

    def __init__(self, node: NodeId, past: Past, links: Links, timeout: int) -> None:
        self.node = node
        self.standing = Standing.MEMBER
        self.waiting: list[Message[None]] = []
        """Messages that go out once this process has been announced."""
        self.asked: dict[NodeId, None] = {}
        """The neighbours that it asked for that, and that have not answered."""
        self.owes = False
        """Whether nobody is known yet to have all that it had when it said that it leaves."""
        self._past = past
        self._links = links
        self._timeout = timeout
        self._clients: dict[NodeId, None] = {}
        """Neighbours that asked for the same while this process could not do it."""
        self._asking: NodeId | None = None
        self._turn = 0

    @property
    def known(self) -> bool:
        """Whether this process is a source for the others."""
        return self._past.count(self.node) is not None

    # Becoming a source.

    def ask(self, provider: NodeId | None, now: int, out: list[Effect]) -> None:
        """Ask a neighbour to announce this process, if that is needed and not under way."""
        if self._asking is not None or not (self.waiting or self._clients):
            return
        if self.standing is Standing.GONE or self.known:
            return
        # A neighbour asked before may have announced it already: that one first, or the provider.
        willing = sorted(
            self._links,
            key=lambda peer: (peer in self._clients, peer not in self.asked, peer != provider),
        )
        if willing:
            peer = willing[self._turn % len(willing)]
            self._asking = peer
            self.asked[peer] = None
            self._links.send([peer], Ask(), out)
            out.append(SetTimer(SPONSOR, now + (self._timeout << min(self._turn, SLOWEST))))

    def ask_elsewhere(self, out: list[Effect]) -> None:
        """The neighbour that was asked has not answered in time."""
        self._asking = None
        self._turn += 1
        if self._turn == UNHEARD and self.waiting and not self.known:
            text = (
                f"nobody has announced this node after {UNHEARD} requests, and its broadcasts wait for that"
                f" ({len(self.waiting)} so far): a founder or a process that was announced has to be within reach"
            )
            out.append(Alert(text))

    def ask_again(self, link: Link, out: list[Effect]) -> None:
        """A question, or its answer, may have been lost with a link."""
        if link.peer in self.asked and self.known:
            self._links.send([link.peer], Ask(), out)

    def link_down(self, peer: NodeId) -> bool:
        """A link goes down; returns whether this process needs another neighbour to ask."""
        self._clients.pop(peer, None)
        lost = self._asking == peer
        if lost:
            self._asking = None
        return lost

    def answered(self, peer: NodeId) -> None:
        self.asked.pop(peer, None)

    # Announcing others.

    def announces(self, client: NodeId, out: list[Effect]) -> bool:
        """Whether to announce now, from here, a neighbour that asks for it."""
        if not self.known:
            self._clients[client] = None
            return False
        if self._past.count(client) is None and client not in self._past.forgotten:
            return not self._past.full
        if self._past.gone(client):
            self._links.send([client], Claim(EVERYTHING), out)  # it has lost its state, or has been retired
        elif self._past.births.get(client, (self.node,))[0] != self.node:
            self._links.send([client], Known(), out)  # announced by another: nothing will come from here
        return False

    def release(self) -> tuple[list[Message[None]], list[NodeId]]:
        """This process is a source now: the messages and the neighbours that waited for that."""
        waiting, self.waiting = self.waiting, []
        clients, self._clients = list(self._clients), {}
        return waiting, clients

    # Leaving.

    @property
    def settled(self) -> bool:
        """Whether nothing is under way that would come after its last words."""
        return not self.waiting and not self.asked

    def snapshot(self) -> State:
        return {
            "standing": self.standing.value,
            "waiting": [CODEC.encode(message) for message in self.waiting],
            "asked": list(self.asked),
            "owes": self.owes,
        }

    def restore(self, state: State) -> None:
        self.standing = Standing(state["standing"])
        self.waiting = [each for each in map(CODEC.decode, state["waiting"]) if isinstance(each, Message)]
        self.asked = dict.fromkeys(state["asked"])
        self.owes = state["owes"]
