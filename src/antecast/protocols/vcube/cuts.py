"""Cuts: where to go on from, when messages are missing here that nobody keeps.

A peer that no longer keeps what is missing here says so in a base (`retained`): for each source, the last message
it dropped. That is a *cut* through the history, causally closed. A node could wait until a message comes that
depends on what is missing (`offers` does, for flooding). In a cube this would be late: messages come straight from
their sources, comparisons go from tester to tested, and by the time a base comes it may hold the new message, too,
which would be dropped with it. So a node takes a cut when it has stood for `patience` and what it holds has not
come, needed or not; then the node's own bases hold it, and so it spreads.

A cut that is wrong would do harm for ever: messages still to be broadcast would count as received. Nobody knows a
source's count better than the source. So a cut is taken only if every source in it that is linked here has itself
said that it broadcast as much, in a summary or a base of its own; those that have not are asked. Sources that are
gone cannot be asked: there the peer is believed.

A message that depends on one which its source never broadcast can never be delivered, nor can what depends on it.
A node that took a false cut before it came went on without it, and broadcasts messages that the others hold for
ever. So a message that has waited for a patience is *stuck*: answers to tests and summaries set it apart, and a
cut that holds it may be taken, as if it had never come. Among correct nodes this drops nothing more: whoever no
longer keeps a message has had all that it depends on, and no longer keeps that either.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from antecast.core import NodeId
from antecast.protocols.received import Received

ASKED: Final = 4
"""How many sources are asked for their counts per round."""


class Cuts:
    """The latest cut of each peer, and since when it has stood."""

    def __init__(self, received: Received, linked: Collection[NodeId], *, patience: int) -> None:
        self._received = received
        self._linked = linked
        self._patience = patience
        self._cuts: dict[NodeId, tuple[int, Mapping[NodeId, int]]] = {}
        self.stuck: Mapping[NodeId, int] = {}
        """For each source, the first of its messages that has waited here for too long."""
        self._announced: dict[NodeId, int] = {}
        """How many messages sources say that they have broadcast."""
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._cuts)

    def heard(self, peer: NodeId, upto: Mapping[NodeId, int]) -> None:
        """A summary or a base of a peer: what it says of itself."""
        count = upto.get(peer, 0)
        if count > self._announced.get(peer, 0):
            self._announced[peer] = count

    def offer(self, peer: NodeId, base: Mapping[NodeId, int], now: int) -> None:
        """A peer's base. The first one stands until what it holds has come: later ones hold newer messages."""
        since, standing = self._cuts.get(peer, (now, base))
        if not self._lacking(standing):
            since, standing = now, base
        if self._lacking(standing):
            self._cuts[peer] = since, standing
        else:
            self._cuts.pop(peer, None)

    def link_down(self, peer: NodeId) -> None:
        self._cuts.pop(peer, None)
        self._announced.pop(peer, None)

    def due(self, now: int) -> tuple[list[tuple[NodeId, Mapping[NodeId, int]]], list[NodeId]]:
        """The cuts to take now, with the peers they are from, and the sources to ask for their counts."""
        taken: list[tuple[NodeId, Mapping[NodeId, int]]] = []
        unknown: dict[NodeId, None] = {}
        for peer, (since, cut) in list(self._cuts.items()):
            lacking = self._lacking(cut)
            if not lacking:
                del self._cuts[peer]
                continue
            announced = self._announced
            doubtful = [s for s, n in lacking.items() if s in self._linked and announced.get(s, 0) < n]
            if doubtful:
                unknown.update(dict.fromkeys(doubtful))
            elif since + self._patience <= now:
                del self._cuts[peer]
                taken.append((peer, cut))
        if not unknown:
            return taken, []
        self._turn = (self._turn + ASKED) % len(unknown)
        return taken, list(islice([*unknown, *unknown], self._turn, self._turn + min(ASKED, len(unknown))))

    def _lacking(self, cut: Mapping[NodeId, int]) -> dict[NodeId, int]:
        upto, stuck = self._received.upto, self.stuck
        return {s: n for s, n in cut.items() if n > upto.get(s, 0) or n >= stuck.get(s, n + 1)}
