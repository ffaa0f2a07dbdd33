"""Lives: which journal stands behind each number, and what a node does when there are two.

A number stands for one journal. A node whose journal is lost, and that comes back under its old number, broadcasts
messages under names that are in use: whoever has the old ones takes the new ones for copies. Its neighbours may
never have met the old node, so each node tells its neighbours of the lives it has met or heard of, when a link
comes up and whenever it learns of another, before any message of that life goes over the link. So whoever has
messages of a number has heard of a life of it. Where two meet, everyone around says so, once per number: in the
log, in the counter `other_lives`, and in `status`. So does the node itself that has lost its state.

    MessagePack: [[number, mark], ...]

A *mark* is a short hash of a life. Words of lives cost nothing per message. They are the word of a neighbour, not
signed: a member that lies can raise a false alarm. That is why a node only refuses lives that differ from one it
has met itself (`links.hello`), and no word stops a node.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, MalformedFrame, NodeId
from antecast.core.frames import Source

if TYPE_CHECKING:
    from antecast.live.links.link import Link
    from antecast.live.node import Node

log = logging.getLogger("antecast.live")

_BYTES: Final = 8
_AT_ONCE: Final = 2048
LARGEST: Final = 1 << 16
"""Bytes of one word, at most."""

_Pair: TypeAlias = tuple[Source, Annotated[bytes, msgspec.Meta(min_length=_BYTES, max_length=_BYTES)]]
_decoder = msgspec.msgpack.Decoder(Annotated[list[_Pair], msgspec.Meta(max_length=_AT_ONCE)])


def mark(life: bytes) -> bytes:
    return blake2b(life, digest_size=_BYTES).digest()


class Lives:
    """What one node knows of lives."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.met: dict[NodeId, bytes] = {}
        """The lives behind the numbers that this node has met; in its journal as well."""
        self._marks: dict[NodeId, tuple[bytes, ...]] = {}
        """The marks of all it has met or heard of: one per number or, where something is wrong, two."""

    def begin(self, met: dict[NodeId, bytes]) -> None:
        """Go on from what the journal holds."""
        self.met, self._marks = met, {number: (mark(life),) for number, life in met.items()}
        self._marks[self._node.number] = (mark(self._node.life),)

    @property
    def doubted(self) -> list[NodeId]:
        """The numbers that stand for more than one life."""
        return [number for number, marks in self._marks.items() if len(marks) > 1]

    def remember(self, peer: NodeId, life: bytes) -> None:
        """The first meeting with a peer: its number stands for this life from now on."""
        self.met[peer] = life
        self._learn([(peer, mark(life))], None)

    def greet(self, link: Link) -> None:
        """A link is up: tell the peer of everyone."""
        self._tell(link, [(number, each) for number, marks in self._marks.items() for each in marks])

    def take(self, link: Link, data: bytes) -> None:
        """A peer tells of lives; raises `MalformedFrame`."""
        try:
            pairs = _decoder.decode(data)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise MalformedFrame(f"a word of lives that is none: {error}") from None
        self._learn(pairs, link)

    def _learn(self, pairs: Iterable[tuple[NodeId, bytes]], source: Link | None) -> None:
        """Note what is new, say what is wrong with it, and pass it on."""
        fresh = []
        for number, each in pairs:
            known = self._marks.get(number, ())
            if each in known or len(known) > 1 or (not known and len(self._marks) >= MAX_SOURCES):
                continue
            self._marks[number] = (*known, each)
            fresh.append((number, each))
            if known:
                self._doubt(number)
        if fresh:
            for link in self._node.links.values():
                if link is not source:
                    self._tell(link, fresh)

    def _doubt(self, number: NodeId) -> None:
        node = self._node
        node.counters["other_lives"] += 1
        if number == node.number:
            log.error(
                "node %d: others know this number by another journal: this node has lost its state, or runs twice."
                " They take its messages for copies. Stop it, and join under a number that was never used",
                number,
            )
        else:
            log.warning(
                "node %d: number %d stands for two journals: that node has lost its state, or runs twice. Messages"
                " of one of the two are taken for copies",
                node.number,
                number,
            )

    def _tell(self, link: Link, pairs: list[tuple[NodeId, bytes]]) -> None:
        for begin in range(0, len(pairs), _AT_ONCE):
            link.write_lives(msgspec.msgpack.encode(pairs[begin : begin + _AT_ONCE]))
