"""A live node: a protocol object on a real network.

    async with Node(0, "vector", journal="ada.journal", transports=[Tcp(listen=..., peers=[...])]) as node:
        await node.broadcast(b"hello")
        async for message in node.deliveries():
            print(message.payload)
            node.acknowledge(message.number)

`Engine` makes the calls and lets their effects out. Here are the two sides of a node: the application's
(broadcasts and deliveries) and the transports' (links and packets); `pacing` keeps the balance between them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar

from msgspec.structs import replace

from antecast.core import (
    MAX_PAYLOAD,
    AntecastError,
    Codec,
    ConfigurationError,
    LocalMisuse,
    MessageId,
    NodeId,
    RemoteFault,
)
from antecast.core.settings import plain_settings
from antecast.live.calls import Call, CallKind
from antecast.live.counters import Counters
from antecast.live.delivered import Delivered
from antecast.live.engine import Batch, Engine, NodeStopped
from antecast.live.entries import Delivery, Durability, Identity
from antecast.live.ephemeral import Ephemeral
from antecast.live.eventlog import EventLog
from antecast.live.given import checked_payloads, node_number
from antecast.live.journal import Journal
from antecast.live.links.link import Link, Transport
from antecast.live.links.seldom import Seldom
from antecast.live.lives import Lives
from antecast.live.machine import Clock, Machine
from antecast.live.pacing import Limits, Pacing
from antecast.live.reading import Deliveries, reads_here
from antecast.live.recovery import recover
from antecast.live.security import ForgedPacket, Security, Unsecured
from antecast.live.status import status_of
from antecast.protocols.code import code_identity
from antecast.protocols.registry import Specification, address, specification

log = logging.getLogger("antecast.live")


class Node:
    """One member of a group. Start it with `async with`, or with `start` and `stop`."""

    engine_class: ClassVar[type[Engine]] = Engine

    def __init__(
        self,
        number: NodeId,
        protocol: str | Specification = "vector",
        *,
        settings: Mapping[str, object] | None = None,
        members: int | None = None,
        role: str = "host",
        journal: Path | str | None = None,
        durability: Durability | str = Durability.FULL,
        security: Security | None = None,
        transports: Sequence[Transport] = (),
        events: Path | str | None = None,
        log_frames: bool = True,
        limits: Limits | None = None,
        clock: Callable[[int], Clock] = Clock,
    ) -> None:
        self.number = node_number(number)
        self.spec = specification(protocol) if isinstance(protocol, str) else protocol
        configured: Any = self.spec.configure(settings or {})
        self.settings = configured if members is None else self.spec.fit(configured, members)
        if role not in ("host", "station") or (role == "station" and self.spec.make_station is None):
            raise ConfigurationError(f"{self.spec.name} has no role {role!r}", field="role")
        self.role = role
        self.security: Security = security if security is not None else Unsecured()
        if self.security.number not in (None, self.number):
            raise ConfigurationError(
                f"these keys are those of node {self.security.number}, not of node {self.number}", field="security"
            )
        if self.security.protocol not in (None, self.spec.name, address(self.spec)):
            problem = f"these keys sign messages of {self.security.protocol}, not of {self.spec.name}"
            raise ConfigurationError(problem, field="security")
        self.secured = not isinstance(self.security, Unsecured)
        self.limits = limits if limits is not None else Limits()
        self.counters = Counters()
        self.instance = b""
        """Names the time from this start to the next stop, over whichever transport a peer comes to know it."""
        self._clock = clock
        self.transports = list(transports)
        self._largest = min((each.largest_payload for each in self.transports), default=MAX_PAYLOAD)
        self._path = None if journal is None else Path(journal)
        self._durability = Durability(durability)
        self._events = None if events is None else Path(events)
        self._log_frames = log_frames
        self._engine: Engine | None = None
        self._failure: Exception | None = None
        self._stopping = False
        self._pacing = Pacing(self, self.limits)
        self.delivered = Delivered(self, self._pacing)
        self._refusals: dict[Link, int] = {}
        self.wrongs = Seldom(log)
        """The log of what members do wrong: one that comes back again and again fills nobody's disk."""
        self.lives = Lives(self)

    # Starting and stopping.

    @property
    def identity(self) -> Identity:
        return Identity(
            number=self.number,
            group=self.security.group,
            protocol=address(self.spec),
            settings=plain_settings(self.settings),
            role=self.role,
            code=code_identity(self.spec),
        )

    @property
    def engine(self) -> Engine:
        """What runs; raises what has ended it."""
        if self._failure is not None:
            raise self._failure
        if self._engine is None or self._engine.stopped:
            raise NodeStopped("the node is not running")
        if get_ident() != self._thread:  # it would run beside the event loop, in the midst of another call
            raise LocalMisuse(
                "a node belongs to the thread of its event loop; from another one, use"
                " asyncio.run_coroutine_threadsafe or loop.call_soon_threadsafe"
            )
        return self._engine

    @property
    def running(self) -> Engine | None:
        """The same, if there is one."""
        return self._engine

    @property
    def failure(self) -> Exception | None:
        """What has ended it, if it has failed."""
        return self._failure

    @property
    def journal_path(self) -> Path | None:
        return self._path

    @property
    def codec(self) -> Codec:
        return self.engine.codec

    @property
    def life(self) -> bytes:
        """Names this node's life: made with its journal, and told to peers."""
        return self.engine.journal.life

    @property
    def links(self) -> Mapping[NodeId, Link]:
        """The links that are up, by peer."""
        return {} if self._engine is None else self._engine.links

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Recover, resume, and let the transports make links. A node that was stopped, or has failed, can be
        started again."""
        if self._engine is not None and not self._engine.closed:
            if self._failure is None:
                raise LocalMisuse("the node runs already")
            await self.stop()  # it has failed, and still holds its journal and its connections
        self._failure, self._stopping = None, False
        self.instance = secrets.token_bytes(8)  # a node that was started again is another one to its peers
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        if self._path is None:
            journal: Journal = Ephemeral()
        else:
            journal = Journal.open(self._path, self.identity, self._durability)
        for each in journal.notes:
            log.warning("%s: %s", self._path, each)
        try:
            self._begin(journal)
            for transport in self.transports:
                await transport.start(self)
                if self._stopping:
                    raise NodeStopped("the node was stopped while it started")
        except BaseException:
            if self._engine is None or self._engine.journal is not journal:
                journal.abandon()
            else:
                await self.stop()
            raise

    def _begin(self, journal: Journal) -> None:
        """Bring the machine back, and set it to work."""
        fresh, limits = Machine(self.spec, self.number, self.settings, self.security, role=self.role), self.limits
        codec, pos = fresh.protocol.codec, journal.recovered().events
        run = self.security.group or "live"
        recorder = EventLog.open(self._events, self.number, run, pos=pos, log_frames=self._log_frames)
        note = (
            (lambda call, effects: recorder.note(call, effects, fresh.frame, codec)) if recorder.active else None
        )
        recovery = recover(journal, fresh, note)
        if recovery.replayed:
            log.info("node %d: %d calls replayed", self.number, recovery.replayed)
        self.delivered.begin(journal)
        self._pacing.begin(acknowledged=journal.acknowledged, delivered=journal.delivered)
        self._engine = self.engine_class(
            self,
            recovery,
            self._clock(recovery.now),
            journal,
            recorder,
            self.counters,
            bound=limits.uncommitted,
            most_waiting=limits.sending_most,
            snapshot_every=limits.snapshot_every,
            history=limits.history,
        )
        self.lives.begin(journal.lives(), journal.positions())

    async def stop(self) -> None:
        """Stop cleanly: what was broadcast is sent, links end, a snapshot is written.

        If the wait for that is cancelled, the node ends all the same, as soon as it can: nothing of it goes on,
        and the journal is let go, in the worst case as after a crash."""
        engine = self._engine
        if engine is None:
            return
        self._stopping = True
        async with AsyncExitStack() as ending:  # from the last to the first, whatever becomes of the others
            ending.callback(lambda: self._end_waits(self._failure or NodeStopped("the node has stopped")))
            ending.push_async_callback(engine.stop)
            ending.callback(self._close_links, "the node stops")
            for transport in self.transports:  # a later one stands on those before it
                ending.push_async_callback(transport.stop)
            await self._drain(engine)

    async def _drain(self, engine: Engine) -> None:
        """Wait, not for long, until what was called is committed and sent."""
        deadline = self._loop.time() + 2.0
        while (
            self._failure is None
            and self._loop.time() < deadline
            and not (engine.idle and not any(link.waiting for link in self.links.values()))
        ):
            await asyncio.sleep(0.005)

    def _close_links(self, reason: str) -> None:
        for link in list(self.links.values()):
            link.close(reason)

    def failed(self, error: Exception) -> None:
        """The engine cannot go on: nothing more leaves this node."""
        self._failure = error
        log.critical("node %d stops: %s", self.number, error)
        self._close_links("the node has failed")
        self._end_waits(error)

    def _end_waits(self, error: Exception) -> None:
        self.delivered.end_waits(error)
        self._pacing.end_waits(error)

    # The application's side.

    async def broadcast(self, payload: bytes, lifetime: int | None = None) -> MessageId:
        """Broadcast to everyone; returns when the message is in the journal. It is then sent, whatever happens."""
        return (await self.broadcast_all([payload], lifetime))[0]

    async def broadcast_all(self, payloads: Iterable[bytes], lifetime: int | None = None) -> list[MessageId]:
        """Broadcast several messages, in order; returns when all of them are in the journal."""
        names: list[MessageId] = []
        engine, pacing, limits = self.engine, self._pacing, self.limits
        checked = checked_payloads(payloads, lifetime, self._largest)
        if self.secured and len(checked) > 1:  # what is wrong with any is raised before the first is sent
            self.security.seal_payload(max(checked, key=len))
        now, last, last_bytes = 0, 0, 0
        for payload in checked:
            # What links hold, and what was read, changes only between turns of the event loop.
            if (
                len(names) & 31 == 0
                or engine.behind > limits.uncommitted
                or engine.numbered > last
                or engine.delivered_bytes > last_bytes
            ):
                while not pacing.has_room() and not (reads_here(self) and pacing.has_room(unread=False)):
                    await pacing.room()
                engine = self.engine
                if self._stopping:
                    raise NodeStopped("the node stops, and takes no more broadcasts")
                now = engine.clock.read()
                last, last_bytes = pacing.read + limits.unread, pacing.read_bytes + limits.unread_bytes
            if self.secured:
                payload = self.security.seal_payload(payload)
            names.append(engine.broadcast(payload, lifetime, now))
        if not names:
            return names
        self.counters["broadcasts"] += len(names)
        future: asyncio.Future[list[MessageId]] = self._loop.create_future()
        self.engine.answer(future, names)
        return await future

    def deliveries(self, after: int | None = None) -> Deliveries:
        """Messages in their order, each with its number; never ends while the node runs.

        Those that came before and were not acknowledged come first. `after` says up to which number the
        application has them already, and acknowledges these.
        """
        return Deliveries(self, after, self._pacing)

    def opened(self, each: Delivery) -> Delivery:
        """A delivery whose payload can be read, or that says why it cannot."""
        try:
            return replace(each, payload=self.security.open_payload(each.origin, each.seq, each.payload))
        except AntecastError as error:
            self.counters["unreadable"] += 1
            return replace(each, payload=b"", problem=str(error))

    def acknowledge(self, number: int) -> None:
        """The application is done with all deliveries up to this number: they need not be kept."""
        self.delivered.acknowledge(number)

    async def leave(self) -> None:
        """Say goodbye for good, and wait until the others have let this node go (where the protocol has it)."""
        engine = self.engine
        engine.make(Call(CallKind.LEAVE, engine.clock.read()))
        while not getattr(engine.machine.protocol, "left", True):
            await asyncio.sleep(0.02)
            _ = self.engine  # raises if it has failed meanwhile

    def reads_slowly(self, link: Link) -> None:
        self.counters["dropped_slow"] += 1
        self.wrongs.warning("node %d: closed the link to %d, which reads too slowly", self.number, link.peer)
        link.close("reads too slowly")

    def fell_behind(self) -> None:
        self._pacing.pace()

    def committed(self, batch: Batch) -> None:
        """A batch is durable: its deliveries are the application's."""
        if batch.deliveries:
            self.counters["deliveries"] += len(batch.deliveries)
            self.delivered.add(batch.deliveries)
        if self._pacing.waiters or self._pacing.paused or batch.deliveries:
            self._pacing.relieve()
        if self._path is None:
            self.delivered.forget_read()

    # The transports' side.

    def link_up(self, link: Link, introduced: NodeId | None = None) -> None:
        engine = self._engine
        if engine is None or engine.stopped:
            link.close("the node does not run")
            return
        now, peer = engine.clock.read(), link.peer
        before = engine.attach(link)
        if before is not None:
            self._refusals.pop(before, None)
            before.close("replaced by a new connection")
        self.counters["links_up"] += 1
        log.info("node %d: link to %d is up", self.number, peer)
        if introduced is not None:
            engine.make(Call(CallKind.INTRODUCE, now, peer, b"", introduced))
        engine.make(Call(CallKind.LINK_UP, now, peer))
        self.lives.greet(link)
        if self._pacing.paused:
            link.pause()
        for transport in self.transports:
            transport.linked(link)

    def link_down(self, link: Link, reason: str) -> None:
        self._refusals.pop(link, None)
        engine = self._engine
        if engine is None or engine.links.get(link.peer) is not link:
            return
        engine.detach(link.peer)
        self.counters["links_down"] += 1
        log.info("node %d: link to %d is down: %s", self.number, link.peer, reason)
        if not engine.stopped:
            self.lives.keep(link.peer)
            engine.make(Call(CallKind.LINK_DOWN, engine.clock.read(), link.peer))
            self._pacing.relieve()
            for transport in self.transports:
                transport.unlinked(link)

    def received(self, link: Link, packets: list[bytes]) -> None:
        """Packets came over a link. Those of a link that is down at this end are dropped."""
        engine = self._engine
        if engine is None or engine.stopped or engine.links.get(link.peer) is not link:
            self.counters["dropped_link_gone"] += len(packets)
            return
        wrong, refused = engine.receive(link.peer, packets)
        for fault in refused:
            self._refuse(link, fault)
        if wrong is not None:
            self._drop(link, wrong)

    def heard(self, sender: NodeId, packet: bytes) -> None:
        """A packet was heard on a shared medium. There is no link to close: what is wrong with it is counted."""
        engine = self._engine
        if engine is not None and not engine.stopped and not self._pacing.paused:
            wrong, refused = engine.receive(sender, [packet])
            self.counters["dropped_refused"] += len(refused)
            if wrong is not None:
                forged = isinstance(wrong, ForgedPacket)
                self.counters["dropped_forged" if forged else "dropped_malformed"] += 1

    def transmit(self, packets: list[bytes]) -> None:
        for transport in self.transports:
            transport.transmit(packets)

    def _drop(self, link: Link, fault: RemoteFault) -> None:
        """What is no frame, or is forged, costs its sender the link."""
        name = "dropped_forged" if isinstance(fault, ForgedPacket) else "dropped_malformed"
        self.counters[name] += 1
        self.wrongs.warning("node %d: closed the link to %d: %s", self.number, link.peer, fault)
        link.close(str(fault))

    def _refuse(self, link: Link, fault: RemoteFault) -> None:
        """The protocol refused a frame: its sender may have been misled, but not without end."""
        self.counters["dropped_refused"] += 1
        count = self._refusals[link] = self._refusals.get(link, 0) + 1
        if count <= 3 or count == self.limits.refusals:
            self.wrongs.warning("node %d: refused a frame of %d: %s", self.number, link.peer, fault)
        if count >= self.limits.refusals:
            link.close("sent too much that is refused")

    def remember(self, peer: NodeId, life: bytes) -> None:
        """The first meeting with a peer: its number stands for this life from now on."""
        self.lives.remember(peer, life)
        self.engine.remember(peer, life)

    def take_bulletin(self, data: bytes) -> None:
        """A bulletin of the group's authority: links to those it revokes end. Raises `PeerRefused`."""
        before = self.security.serial
        revoked = self.security.take_bulletin(data)
        if self.security.serial > before:
            for transport in self.transports:
                transport.share_bulletin()
        for number in revoked:
            link = self.links.get(number)
            if link is not None:
                self.counters["refused_identity"] += 1
                log.warning("node %d: node %d was revoked", self.number, number)
                link.close("revoked")

    # For people.

    def status(self) -> dict[str, Any]:
        """Links, buffers and counters, as plain values."""
        engine = self._engine
        if engine is None:
            raise NodeStopped("the node has not been started")
        return status_of(self, engine, self._pacing)
