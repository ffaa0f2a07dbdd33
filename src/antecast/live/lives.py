"""Lives: which journal stands behind each number, and what a node does when there are two.

A number stands for one journal. A node whose journal is lost, and that comes back under its old number, broadcasts
messages under names that are in use: whoever has the old ones takes the new ones for copies. Its neighbours may
never have met the old node, so each node tells its neighbours of the lives it has met or heard of, when a link
comes up and whenever it learns of another, before any message of that life goes over the link. So whoever has
messages of a number has heard of a life of it. Where two meet, everyone around says so, once per number: in the
log, in the counter `other_lives`, and in `status`. So does the node itself that has lost its state.

    MessagePack: [[number, mark], ...], or position, or why the other end ends what was no link to it

**Older copies.** A node that comes back with an older copy of its journal, a restored backup for instance, has the
same life, and has lost what came after the copy. Its *position* gives it away: how many calls its journal has. It
is told in the greeting and, while a link is in use, a few times per second, and never gets smaller. Neighbours
keep the last they have heard of, with what they have heard since, and refuse a journal that has gone back.

The copy goes on while it is refused: each attempt to connect is a call, and its application may broadcast. So it
comes past the position that gave it away. A process that was refused stays refused, therefore, as long as it runs.
And if it has come that far, the number is at its end for this neighbour, also after a restart of either: position
and life can no longer tell the copy from the journal that was lost.

A *mark* is a short hash of a life. Words of lives cost nothing per message. They are the word of a neighbour, not
signed: a member that lies can raise a false alarm. That is why a node only refuses lives that differ from one it
has met itself (`links.hello`), and no word stops a node.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from antecast.core import MAX_SOURCES, MalformedFrame, NodeId
from antecast.core.frames import Source
from antecast.core.wire import UNDECODABLE
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from antecast.live.links.link import Link
    from antecast.live.node import Node

log = logging.getLogger("antecast.live")

_BYTES: Final = 8
_AT_ONCE: Final = 2048
LARGEST: Final = 1 << 16
"""Bytes of one word, at most."""

GONE: Final = 1 << 62
"""Further than any journal comes: the position of a number whose journal can no longer be told from a copy."""

_Pair: TypeAlias = tuple[Source, Annotated[bytes, msgspec.Meta(min_length=_BYTES, max_length=_BYTES)]]
_Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]
_decoder: msgspec.msgpack.Decoder[list[tuple[NodeId, bytes]] | int | str] = msgspec.msgpack.Decoder(
    Annotated[list[_Pair], msgspec.Meta(max_length=_AT_ONCE)] | _Position | _Reason
)


def mark(life: bytes) -> bytes:
    return blake2b(life, digest_size=_BYTES).digest()


def encode_refused(reason: str) -> bytes:
    """Whoever dials learns last who is at the other end, which takes the connection for a link by then."""
    return msgspec.msgpack.encode(reason[:500])


class Lives:
    """What one node knows of lives."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.met: dict[NodeId, bytes] = {}
        """The lives behind the numbers that this node has met; in its journal as well."""
        self._marks: dict[NodeId, tuple[bytes, ...]] = {}
        """The marks of all it has met or heard of: one per number or, where something is wrong, two."""

        self._positions: dict[NodeId, int] = {}
        """How far the journals of those it has met had come when they last said so."""
        self._kept: dict[NodeId, int] = {}
        """The same, as this node's journal has it."""
        self._instances: dict[NodeId, bytes] = {}
        """The process that each of them was in when it last greeted."""
        self._older: dict[NodeId, bytes] = {}
        """The processes that were refused because they have an older copy of their journal."""
        self._told: WeakKeyDictionary[Link, int] = WeakKeyDictionary()

    def begin(self, met: dict[NodeId, bytes], positions: dict[NodeId, int]) -> None:
        """Go on from what the journal holds."""
        self.met, self._marks = met, {number: (mark(life),) for number, life in met.items()}
        self._positions, self._kept = positions, dict(positions)
        self._marks[self._node.number] = (mark(self._node.life),)

    @property
    def position(self) -> int:
        """How far this node's own journal has come."""
        return 0 if self._node.running is None else self._node.running.position

    @property
    def doubted(self) -> list[NodeId]:
        """The numbers that stand for more than one life."""
        return [number for number, marks in self._marks.items() if len(marks) > 1]

    def known_of(self, number: NodeId, instance: bytes = b"") -> tuple[bytes | None, int]:
        """The life behind a number, if this node has met it, and the least that its position must be. What one
        process says over two connections may arrive in any order."""
        if instance and self._older.get(number) == instance:
            return self.met.get(number), GONE
        same = self._instances.get(number) == instance
        return self.met.get(number), 0 if same else self._positions.get(number, 0)

    def refused(self, number: NodeId, life: bytes, instance: bytes, position: int) -> None:
        """A process was refused since it has lost its state. If it has an older copy of the journal, it has that
        for as long as it runs, however far it gets."""
        if life != self.met.get(number):
            return
        grown = self._older.get(number) == instance and position >= self._positions.get(number, 0)
        self._older[number] = instance
        if grown and number not in self._node.links:
            self._positions[number] = GONE
            self.keep(number)

    def greeted(self, peer: NodeId, instance: bytes, position: int) -> None:
        """A peer has greeted, and is taken."""
        self._instances[peer] = instance
        self.heard(peer, position)
        self.keep(peer)

    def heard(self, peer: NodeId, position: int) -> None:
        """A peer says how far its journal has come."""
        if position > self._positions.get(peer, 0):
            self._positions[peer] = position
            if (engine := self._node.running) is not None:
                engine.note_position(peer, position)

    def keep(self, peer: NodeId) -> None:
        """Write down how far a peer had come: when it greets, and when its link ends."""
        position, engine = self._positions.get(peer, 0), self._node.running
        if position > self._kept.get(peer, 0) and engine is not None:
            self._kept[peer] = position
            engine.remember_position(peer, position)

    def tell_position(self, link: Link) -> None:
        """Say how far this node's journal has come, unless the peer knows."""
        position = self.position
        if position != self._told.get(link):
            self._told[link] = position
            link.write_lives(msgspec.msgpack.encode(position))

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
            said = _decoder.decode(data)
        except UNDECODABLE as error:
            raise MalformedFrame(f"a word of lives that is none: {error}") from None
        if isinstance(said, int):
            self.heard(link.peer, said)
        elif isinstance(said, str):
            self._node.wrongs.warning(
                "node %d: refused by node %d: %s", self._node.number, link.peer, escaped(said)
            )
            link.close("refused by the other end")
        else:
            self._learn(said, link)

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
