"""Spray over TCP: the transport of a node that chooses its neighbours itself.

Connections, greetings, keys and limits are those of `Tcp`. Words of the overlay go over the same connections,
beside the protocol's packets. A node with a journal keeps its view in a small file beside it (`JOURNAL.view`), and
comes back to the neighbours it had; the file is a hint, and one that is missing or damaged costs only that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from antecast.core import ConfigurationError, LinkSafety, NodeId
from antecast.live.links.address import Address
from antecast.live.links.connection import Connection
from antecast.live.links.link import Link, Transport
from antecast.live.links.tcp import Tcp
from antecast.live.node import Node
from antecast.live.overlay.member import Member
from antecast.live.overlay.records import SprayOptions
from antecast.live.overlay.words import BadWord, Here, Offer, Word, decode_word, encode_word
from antecast.live.security import Unsecured

log = logging.getLogger("antecast.live.overlay")

_EVERYWHERE: Final = ("0.0.0.0", "::")
MOST_DIALS: Final = 64
"""Attempts to connect that are under way at a time."""


class Spray(Transport):
    """Give it to a node after its `Tcp`, which has no peers of its own: the overlay knows whom to dial."""

    def __init__(
        self,
        tcp: Tcp,
        *,
        contacts: Sequence[Address | str] = (),
        advertise: Address | str | None = None,
        options: SprayOptions | None = None,
        random: Random | None = None,
    ) -> None:
        self.tcp = tcp
        self.contacts = [Address.parse(each, field="peer") if isinstance(each, str) else each for each in contacts]
        self.advertise = Address.parse(advertise, field="advertise") if isinstance(advertise, str) else advertise
        self.options = options if options is not None else SprayOptions()
        self._random = random
        self._links: dict[NodeId, Connection] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._tick: asyncio.TimerHandle | None = None
        self._kept: dict[str, Any] = {}
        self._stopping = False

    async def start(self, node: Node) -> None:
        listen = self.advertise if self.advertise is not None else self.tcp.listen
        if listen is None or self.tcp.listen is None:
            raise ConfigurationError("a member of an overlay has to listen somewhere", field="listen")
        if listen.host in _EVERYWHERE:
            problem = f"others need an address of this node, and {listen} is none; give one to advertise"
            raise ConfigurationError(problem, field="advertise")
        self.node, self.loop, self._stopping = node, asyncio.get_running_loop(), False
        self._links.clear()
        self._dialling.clear()
        self._local = isinstance(node.security, Unsecured)
        for each in (*self.contacts, listen):
            if self._local and not each.loopback:
                problem = f"a node without keys stays on this machine, and {each} is not on it"
                raise ConfigurationError(problem, field="peer")
        self._file = None if node.journal_path is None else Path(f"{node.journal_path.resolve()}.view")
        protocol = node.engine.machine.protocol
        self._safety = protocol if isinstance(protocol, LinkSafety) else None
        self.member = self._new_member(str(listen))
        self._load()
        self.tcp.aside = self._heard
        self._pause = min(0.2, self.options.every / 10)
        self.member.start(self.loop.time())
        self._turn()

    def _new_member(self, place: str) -> Member:
        contacts = [str(each) for each in self.contacts]
        return Member(self.node.number, place, self, contacts=contacts, options=self.options, random=self._random)

    def _turn(self) -> None:
        self.member.turn(self.loop.time())
        self._keep()
        self._tick = self.loop.call_later(self._pause, self._turn)

    def add_contact(self, address: Address) -> None:
        """One more member to begin with, or to fall back on."""
        self.member.add_contact(str(address))

    # What the member asks for.

    def dial(self, place: str, by: NodeId | None) -> None:
        if place in self._dialling or self._stopping:
            return
        if len(self._dialling) >= MOST_DIALS:
            self.node.counters["refused_room"] += 1
            self.loop.call_soon(self.member.dialled, place, None, self.loop.time())
            return
        self._dialling[place] = self.loop.create_task(self._try(place, by))

    async def _try(self, place: str, by: NodeId | None) -> None:
        peer = await self.tcp.connect_once(Address.parse(place), by)
        self._dialling.pop(place, None)
        self.member.dialled(place, peer, self.loop.time())

    def part(self, peer: NodeId) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.finish("nobody needs it in the overlay")

    def tell(self, peer: NodeId, word: Word) -> None:
        link = self._links.get(peer)
        if link is not None:
            link.write_aside(encode_word(word))

    def safe(self, peer: NodeId) -> bool:
        return self._safety is None or self._safety.safe(peer)

    # What the node and its connections tell.

    def linked(self, link: Link) -> None:
        if isinstance(link, Connection) and not self._stopping:
            self._links[link.peer] = link
            self.member.linked(link.peer, self.loop.time(), dialled=link.dialled)

    def unlinked(self, link: Link) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            if not self._stopping:
                self.member.unlinked(link.peer, self.loop.time())

    def _heard(self, link: Connection, data: bytes) -> None:
        """A neighbour's word; raises `BadWord`."""
        word = decode_word(data)
        self._check(word)
        if self._links.get(link.peer) is link and not self._stopping:
            self.member.heard(link.peer, word, self.loop.time())

    def _check(self, word: Word) -> None:
        """Addresses that can be dialled; without keys, on this machine only."""
        offers: list[Offer] = [*getattr(word, "offers", ())]
        if (offer := getattr(word, "offer", None)) is not None:
            offers.append(offer)
        for place in (*([word.place] if isinstance(word, Here) else []), *(each.place for each in offers)):
            try:
                found = Address.parse(place)
            except ConfigurationError:
                raise BadWord(f"it names an address that is none: {place[:40]!r}") from None
            if self._local and not found.loopback:
                raise BadWord(f"it names {place}, and nodes without keys stay on this machine")

    # Over a restart.

    def _load(self) -> None:
        if self._file is None or not self._file.exists():
            return
        try:
            self.member.load(json.loads(self._file.read_text(encoding="utf-8")))
            for place in self.member.places():
                Address.parse(place)
        except (OSError, ValueError, TypeError, KeyError, IndexError, ConfigurationError):
            self.member = self._new_member(self.member.place)
            log.warning("%s: damaged, and left aside: the node begins with its contacts", self._file)

    def _keep(self) -> None:
        state = self.member.state()
        if self._file is None or state == self._kept:
            return
        partial = self._file.with_name(f"{self._file.name}.partial")
        try:
            partial.write_text(json.dumps(state), encoding="utf-8")
            partial.replace(self._file)
            self._kept = state
        except OSError as error:
            log.warning("%s: not written: %s", self._file, error.strerror or error)
            self._file = None

    async def stop(self) -> None:
        self._stopping = True
        if self._tick is not None:
            self._tick.cancel()
            self._keep()
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def gauges(self) -> dict[str, int]:
        member = self.member
        counts = {"arcs": len(member.view), "lost": len(member.memory), **member.counts}
        return {f"overlay_{name}": value for name, value in counts.items()}

    def describe(self) -> dict[str, Any]:
        member = self.member
        return {"kind": "spray", "place": member.place, "view": sorted({arc.peer for arc in member.view})}
