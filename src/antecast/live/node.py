"""A live node: a protocol object on a real network.

    async with Node(0, "vector", journal=Path("ada.journal"), transports=[Tcp(listen=..., peers=[...])]) as node:
        await node.broadcast(b"hello")
        async for message in node.deliveries():
            print(message.payload)
            node.acknowledge(message.number)

**Theory of operation.** Everything that happens (a broadcast, a packet, a link, a timer) is made a call of the
machine at once, on the event loop. The call and its effects join the open *batch*. When the journal is free, the
batch is handed to it and a new one is opened; when it is committed, the effects of all its calls leave in order:
frames first, then deliveries, then the answers to broadcasts. So no effect leaves before its call is durable, a
busy node commits in large groups, and an idle one commits at once.

A frame is bound to the link that was up when its call was made. If that link has ended meanwhile, the frame is
dropped, even if a new link to the same peer is up.

**Back-pressure.** A broadcast waits while too much is uncommitted, while a link has too much to send, or while the
application is too far behind with its deliveries. Reading from links stops while too much is uncommitted, or the
application is behind. A peer that does not read loses its link.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from antecast.core import (
    Accepted,
    Alert,
    AntecastError,
    CancelTimer,
    Codec,
    ConfigurationError,
    Deliver,
    Discard,
    Effect,
    Frame,
    LocalMisuse,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    Timer,
)
from antecast.core.settings import plain_settings
from antecast.live.calls import Call, CallKind, Group
from antecast.live.counters import Counters
from antecast.live.eventlog import EventLog, name_of
from antecast.live.journal import (
    Commit,
    Delivery,
    Durability,
    Ephemeral,
    Identity,
    Journal,
    JournalError,
)
from antecast.live.links.link import Link, Transport
from antecast.live.machine import Clock, Machine
from antecast.live.recovery import recover
from antecast.live.security import ForgedPacket, Security, Unsecured
from antecast.live.writing import Writer
from antecast.protocols.code import code_identity
from antecast.protocols.registry import Specification, address, specification

log = logging.getLogger("antecast.live")


class NodeStopped(AntecastError):
    """The node has stopped, or could not go on; the text says why."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a node's queues, and how often it writes a snapshot."""

    uncommitted: int = 8 << 20
    """Bytes of calls that wait for the journal before reading stops and broadcasts wait."""
    sending: int = 4 << 20
    """Bytes that wait in a link before broadcasts wait."""
    sending_most: int = 64 << 20
    """Bytes that wait in a link before it is closed: its peer reads too slowly."""
    stalled: float = 10.0
    """Seconds that a link may hold up broadcasts before it is closed."""
    unread: int = 100_000
    """Deliveries that the application has not read before reading stops and broadcasts wait."""
    snapshot_every: int = 64 << 20
    """Bytes of calls between two snapshots: bounds the size of the journal and the time of a restart."""
    history: int = 1
    """Older snapshots, and the calls after them, that are kept to be replayed."""
    refusals: int = 1000
    """Frames of one link that the protocol may refuse before the link is closed."""


@dataclass
class _Batch:
    """Calls that are committed together, and what leaves when they are."""

    calls: Group = field(default_factory=list)
    size: int = 0
    frames: dict[Link, list[bytes]] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Any], Any]] = field(default_factory=list)


class Node:
    """One member of a group. Start it with `async with`, or with `start` and `stop`."""

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
    ) -> None:
        self.number = number
        self.spec = specification(protocol) if isinstance(protocol, str) else protocol
        configured: Any = self.spec.configure(settings or {})
        self.settings = configured if members is None else self.spec.fit(configured, members)
        if role not in ("host", "station") or (role == "station" and self.spec.make_station is None):
            raise ConfigurationError(f"{self.spec.name} has no role {role!r}", field="role")
        if not 0 <= number < 1 << 32:
            raise ConfigurationError(f"expected a number from 0 to {(1 << 32) - 1}, got {number}", field="number")
        self.role = role
        self.security: Security = security if security is not None else Unsecured()
        self.limits = limits if limits is not None else Limits()
        self.counters = Counters()
        self.transports = list(transports)
        self.links: dict[NodeId, Link] = {}
        self._path = None if journal is None else Path(journal)
        self._durability = Durability(durability)
        self._events = None if events is None else Path(events)
        self._log_frames = log_frames
        self._secured = not isinstance(self.security, Unsecured)
        self._running = False
        self._failure: Exception | None = None
        self._handles: dict[Timer, asyncio.TimerHandle] = {}
        self._batch = _Batch()
        self._writing: _Batch | None = None
        self._scheduled = False
        self._behind = 0
        """Bytes of calls that are made and not committed."""
        self._since_snapshot = 0
        self._recent: deque[Delivery] = deque(maxlen=8192)
        """The last deliveries that were committed; older ones are read from the journal."""
        self._numbered = 0
        self._shown = 0
        self._read = 0
        self._readers: list[asyncio.Future[None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._paused = False
        self._refusals: dict[Link, int] = {}
        self._held_since: float | None = None
        self._frame: Frame | None = None
        self._packet = b""
        self.lives: dict[NodeId, bytes] = {}
        """Which journal stands behind each number that this node has met."""
        self.on_committed: Callable[[], None] | None = None

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
    def codec(self) -> Codec:
        return self._codec

    @property
    def life(self) -> bytes:
        """Names this node's life: made with its journal, and told to peers."""
        return self._journal.life

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Recover, resume, and let the transports make links."""
        self._loop = asyncio.get_running_loop()
        self._journal: Journal = (
            Ephemeral() if self._path is None else Journal.open(self._path, self.identity, self._durability)
        )
        for each in self._journal.notes:
            log.warning("%s: %s", self._path, each)
        fresh = Machine(self.spec, self.number, self.settings, self.security, role=self.role)
        journal = self._journal
        self._codec = codec = fresh.protocol.codec
        self._recorder = recorder = EventLog.open(
            self._events,
            self.number,
            self.security.group or "live",
            pos=journal.recovered().events,
            log_frames=self._log_frames,
        )
        note = (
            (lambda call, effects: recorder.note(call, effects, fresh.frame, codec)) if recorder.active else None
        )
        recovered = recover(journal, fresh, note)
        self._machine = recovered.machine
        self._clock = Clock(recovered.now)
        self._numbered = self._shown = journal.delivered
        self._read = journal.acknowledged
        self.lives = journal.lives()
        self._writer = Writer(self._loop, inline=journal.durability is Durability.NONE)
        if recovered.replayed:
            log.info("node %d: %d calls replayed", self.number, recovered.replayed)
            self._write_snapshot(recovered.saved, exact=False)
        self._running = True
        if recovered.known:
            now = self._clock.read()
            self._make(Call(CallKind.RESUME, now), self._machine.resume(now))
        for transport in self.transports:
            await transport.start(self)

    async def stop(self) -> None:
        """Stop cleanly: what was broadcast is sent, links end, a snapshot is written."""
        if not hasattr(self, "_writer"):
            return
        if self._running and self._failure is None:
            await self._drain(2.0)
        for transport in self.transports:
            await transport.stop()
        for link in list(self.links.values()):
            link.close("the node stops")
        while self._failure is None and (self._writing is not None or self._batch.calls):
            self._commit()
            await asyncio.sleep(0 if self._writing is None else 0.001)
        self._running = False
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._writer.stop()
        saved = None if self._failure is not None else self._machine.save()
        self._recorder.close()
        self._journal.close(state=saved, now=self._clock.read(), events=self._recorder.pos)
        self._wake(NodeStopped("the node has stopped") if self._failure is None else self._failure)

    async def _drain(self, seconds: float) -> None:
        end = self._loop.time() + seconds
        while self._loop.time() < end and (
            self._writing is not None or self._batch.calls or any(link.waiting for link in self.links.values())
        ):
            await asyncio.sleep(0.005)

    def fail(self, error: Exception) -> None:
        """The node cannot go on: nothing more leaves it."""
        if self._failure is not None:
            return
        self._failure = error
        log.critical("node %d stops: %s", self.number, error)
        for link in list(self.links.values()):
            link.close("the node has failed")
        self._wake(error)

    def _wake(self, error: Exception | None = None) -> None:
        for waiter in (*self._readers, *self._waiters):
            if not waiter.done():
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)
        self._readers.clear()
        self._waiters.clear()
        if error is not None:
            for batch in (self._batch, self._writing):
                for future, _ in () if batch is None else batch.answers:
                    if not future.done():
                        future.set_exception(error)

    def _check_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._running:
            raise NodeStopped("the node is not running")

    # The application's side.

    async def broadcast(self, payload: bytes, lifetime: int | None = None) -> MessageId:
        """Broadcast to everyone; returns when the message is in the journal. It is then sent, whatever happens."""
        return (await self.broadcast_all([payload], lifetime))[0]

    async def broadcast_all(self, payloads: Iterable[bytes], lifetime: int | None = None) -> list[MessageId]:
        """Broadcast several messages, in order; returns when all of them are in the journal."""
        names: list[MessageId] = []
        for payload in payloads:
            while not self._has_room():
                await self._room()
            names.append(self._broadcast(payload, lifetime))
        if not names:
            return names
        future: asyncio.Future[list[MessageId]] = self._loop.create_future()
        self._batch.answers.append((future, names))
        self._schedule()
        return await future

    def _broadcast(self, payload: bytes, lifetime: int | None) -> MessageId:
        self._check_running()
        now = self._clock.read()
        effects = self._machine.broadcast(payload, now, lifetime)
        self.counters["broadcasts"] += 1
        self._make(Call(CallKind.BROADCAST, now, -1, payload, lifetime), effects)
        return next(filter(None, map(name_of, effects)))

    async def deliveries(self, after: int | None = None) -> AsyncIterator[Delivery]:
        """Messages in their order, each with its number; never ends while the node runs.

        Those that came before and were not acknowledged come first. `after` says up to which number the
        application has them already, and acknowledges these.
        """
        last = self._journal.acknowledged if after is None else after
        if after is not None:
            self.acknowledge(after)
        while True:
            if last >= self._shown:
                self._check_running()
                reader = self._loop.create_future()
                self._readers.append(reader)
                try:
                    await reader
                except NodeStopped:
                    return
                continue
            for each in self._after(last):
                last = each.number
                self._read = max(self._read, last)
                yield each
            self._relieve()

    def _after(self, last: int) -> list[Delivery]:
        recent = self._recent
        if recent and recent[0].number <= last + 1:
            skip = last + 1 - recent[0].number
            return list(islice(recent, skip, skip + 256))
        found = [each for each in self._journal.deliveries(last, 256) if each.number <= self._shown]
        if not found or found[0].number != last + 1:
            raise LocalMisuse(f"deliveries after {last} are gone: they have been acknowledged")
        return found

    def acknowledge(self, number: int) -> None:
        """The application is done with all deliveries up to this number: they need not be kept."""
        self._check_running()
        if number > self._shown:
            raise LocalMisuse(f"delivery {number} does not exist yet; the last is {self._shown}")
        self._read = max(self._read, number)
        journal = self._journal
        if number > journal.acknowledged:
            self._writer.put(lambda: journal.acknowledge(number), self._failed)

    async def leave(self) -> None:
        """Say goodbye for good, and wait until the others have let this node go (where the protocol has it)."""
        self._check_running()
        now = self._clock.read()
        self._make(Call(CallKind.LEAVE, now), self._machine.leave(now))
        while not getattr(self._machine.protocol, "left", True):
            await asyncio.sleep(0.02)

    def _has_room(self) -> bool:
        self._check_running()
        limits = self.limits
        if self._behind > limits.uncommitted or self._shown - self._read > limits.unread:
            return False
        return not any(link.waiting > limits.sending for link in self.links.values())

    async def _room(self) -> None:
        self._close_stalled()
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        self._loop.call_later(0.005, self._relieve)
        await waiter

    def _close_stalled(self) -> None:
        """A link that holds up broadcasts for too long has a peer that does not read."""
        slow = [link for link in self.links.values() if link.waiting > self.limits.sending]
        if not slow:
            self._held_since = None
        elif self._held_since is None:
            self._held_since = self._loop.time()
        elif self._loop.time() - self._held_since > self.limits.stalled:
            self._held_since = None
            for link in slow:
                self._close_slow(link)

    def _close_slow(self, link: Link) -> None:
        self.counters["dropped_slow"] += 1
        log.warning("node %d: closed the link to %d, which reads too slowly", self.number, link.peer)
        link.close("reads too slowly")

    def _relieve(self) -> None:
        """Let wait no longer whoever waits for room."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        self._pace()

    def _pace(self) -> None:
        """Stop reading from links while this node is behind, and go on when it has caught up."""
        full = self._behind > self.limits.uncommitted or self._shown - self._read > self.limits.unread
        if full and not self._paused:
            self._paused = True
            for link in self.links.values():
                link.pause()
        elif self._paused and not full:
            self._paused = False
            for link in self.links.values():
                link.resume()

    # The transports' side.

    def link_up(self, link: Link, introduced: NodeId | None = None) -> None:
        if not self._running or self._failure is not None:
            link.close("the node does not run")
            return
        now, peer = self._clock.read(), link.peer
        before = self.links.pop(peer, None)
        self.links[peer] = link
        if before is not None:
            self._refusals.pop(before, None)
            before.close("replaced by a new connection")
        self.counters["links_up"] += 1
        if introduced is not None:
            self._make(
                Call(CallKind.INTRODUCE, now, peer, b"", introduced), self._machine.introduce(peer, introduced)
            )
        self._make(Call(CallKind.LINK_UP, now, peer), self._machine.link_up(peer, now))
        log.info("node %d: link to %d is up", self.number, peer)
        if self._paused:
            link.pause()

    def link_down(self, link: Link, reason: str) -> None:
        self._refusals.pop(link, None)
        if self.links.get(link.peer) is not link:
            return
        del self.links[link.peer]
        self.counters["links_down"] += 1
        log.info("node %d: link to %d is down: %s", self.number, link.peer, reason)
        if self._failure is None and self._running:
            now = self._clock.read()
            self._make(Call(CallKind.LINK_DOWN, now, link.peer), self._machine.link_down(link.peer, now))
            self._relieve()

    def received(self, link: Link, packets: list[bytes]) -> None:
        """Packets came over a link. Those of a link that is down at this end are dropped."""
        peer = link.peer
        if self.links.get(peer) is not link or self._failure is not None:
            self.counters["dropped_link_gone"] += len(packets)
            return
        now, receive, decode = self._clock.read(), self._machine.receive, self._codec.decode
        calls, taken, size = self._batch.calls, 0, 0
        for packet in packets:
            try:
                if self._secured:
                    frame = decode(self.security.split(packet))
                    self.security.verify(frame, packet, peer)
                else:
                    frame = decode(packet)
            except RemoteFault as fault:
                self._drop(link, fault)
                break
            try:
                effects = receive(frame, peer, now)
            except RemoteFault as fault:
                if self._refuse(link, fault):
                    break
                continue
            call = Call(1, now, peer, packet)
            calls.append(call)
            taken += 1
            size += len(packet)
            if effects:
                self._frame, self._packet = frame, packet  # what is passed on goes out as it came
                self._perform(effects, now)
            if self._recorder.active:
                self._recorder.note(call, effects, frame, self._codec)
        counters = self.counters
        counters["frames_received"] += taken
        counters["bytes_received"] += size
        self._grew(size + 16 * taken)

    def _drop(self, link: Link, fault: RemoteFault) -> None:
        """What is no frame, or is forged, costs its sender the link."""
        name = "dropped_forged" if isinstance(fault, ForgedPacket) else "dropped_malformed"
        self.counters[name] += 1
        log.warning("node %d: closed the link to %d: %s", self.number, link.peer, fault)
        link.close(str(fault))

    def _refuse(self, link: Link, fault: RemoteFault) -> bool:
        """The protocol refuses a frame: its sender may have been misled, but not without end."""
        self.counters["dropped_refused"] += 1
        count = self._refusals[link] = self._refusals.get(link, 0) + 1
        if count <= 3 or count == self.limits.refusals:
            log.warning("node %d: refused a frame of %d: %s", self.number, link.peer, fault)
        if count >= self.limits.refusals:
            link.close("sent too much that is refused")
            return True
        return False

    # Calls, and what becomes of their effects.

    def _make(self, call: Call, effects: list[Effect]) -> None:
        """A call was made: it joins the batch."""
        self._batch.calls.append(call)
        if effects:
            self._perform(effects, call.now)
        if self._recorder.active:
            self._recorder.note(call, effects, None, self._codec)
        self._grew(len(call.data) + 16)

    def _grew(self, size: int) -> None:
        self._batch.size += size
        self._behind += size
        if not self._scheduled and self._writing is None:
            self._schedule()
        if self._behind > self.limits.uncommitted:
            self._pace()

    def _perform(self, effects: list[Effect], now: int) -> None:
        """Turn effects into what leaves when the batch is committed; timers are set at once."""
        batch, links = self._batch, self.links
        for effect in effects:
            kind = effect.__class__
            if kind is Send:
                link = links.get(effect.to)  # type: ignore[union-attr]
                if link is None:
                    self.counters["dropped_astray"] += 1
                    continue
                frame = effect.frame  # type: ignore[union-attr]
                if frame is not self._frame:
                    self._frame, self._packet = frame, self._sealed(frame)
                waiting = batch.frames.get(link)
                if waiting is None:
                    batch.frames[link] = [self._packet]
                else:
                    waiting.append(self._packet)
            elif kind is Deliver:
                message = effect.message  # type: ignore[union-attr]
                self._numbered = number = self._numbered + 1
                batch.deliveries.append(Delivery(number, message.origin, message.seq, now, message.payload))
            else:
                self._perform_rare(effect)

    def _sealed(self, frame: Frame) -> bytes:
        data = self._codec.encode(frame)
        return self.security.seal(frame, data) if self._secured else data

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            self._arm(effect.token, effect.at)
        elif isinstance(effect, CancelTimer):
            self._disarm(effect.token)
        elif isinstance(effect, Discard):
            self.counters["expired" if effect.reason == "expired" else "discarded"] += 1
            log.info("node %d: message %s is given up: %s", self.number, effect.id, effect.reason)
        elif isinstance(effect, Alert):
            self.counters["alerts"] += 1
            log.warning("node %d: %s", self.number, effect.text)
        elif not isinstance(effect, Accepted):
            self._transmit(effect)

    def _transmit(self, effect: Any) -> None:
        """A frame for whoever hears it: goes to every link of a shared medium."""
        if effect.frame is not self._frame:
            self._frame, self._packet = effect.frame, self._sealed(effect.frame)
        for link in self.links.values():
            self._batch.frames.setdefault(link, []).append(self._packet)

    def _arm(self, token: Timer, at: int) -> None:
        self._disarm(token)
        delay = max(0, at - self._clock.read()) / 1e9
        self._handles[token] = self._loop.call_later(delay, self._fire, token, at)

    def _disarm(self, token: Timer) -> None:
        handle = self._handles.pop(token, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, token: Timer, at: int) -> None:
        del self._handles[token]
        if not self._running or self._failure is not None:
            return
        now = self._clock.read()
        if now < at:  # this clock runs slower than the event loop's, for now
            self._arm(token, at)
            return
        self.counters["timers"] += 1
        self._make(Call(CallKind.TIMER, now, -1, token.encode()), self._machine.timer(token, now))

    # The journal.

    def _schedule(self) -> None:
        if not self._scheduled and self._writing is None:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """Hand the open batch to the journal, if it is free."""
        self._scheduled = False
        batch = self._batch
        if self._writing is not None or self._failure is not None or not (batch.calls or batch.answers):
            return
        self._writing, self._batch = batch, _Batch()
        if batch.calls:
            journal, what = self._journal, Commit(batch.calls, batch.deliveries)
            self._writer.put(lambda: journal.commit(what), self._committed)
        else:
            self._committed(None)

    def _committed(self, error: Exception | None) -> None:
        """The batch is durable: its effects leave."""
        batch, self._writing = self._writing, None
        assert batch is not None
        if error is not None or self._failure is not None:
            self._batch.answers[:0] = batch.answers
            self._failed(error)
            return
        counters = self.counters
        counters["groups"] += 1
        self._behind -= batch.size
        self._since_snapshot += batch.size
        for link, packets in batch.frames.items():
            if link.closed:
                counters["dropped_link_gone"] += len(packets)
                continue
            counters["frames_sent"] += len(packets)
            link.write(packets)
            if link.waiting > self.limits.sending_most:
                self._close_slow(link)
        if batch.deliveries:
            counters["deliveries"] += len(batch.deliveries)
            self._recent += batch.deliveries
            self._shown = batch.deliveries[-1].number
            readers, self._readers = self._readers, []
            for reader in readers:
                if not reader.done():
                    reader.set_result(None)
        for future, result in batch.answers:
            if not future.done():
                future.set_result(result)
        if self._since_snapshot > self.limits.snapshot_every:
            self._renew()
        if self._waiters or self._paused:
            self._relieve()
        if self._batch.calls or self._batch.answers:
            self._schedule()

    def _failed(self, error: Exception | None) -> None:
        if error is not None:
            self.fail(error if isinstance(error, JournalError) else NodeStopped(f"the journal failed: {error!r}"))

    def _renew(self) -> None:
        """Write a snapshot of a running node."""
        self._since_snapshot = 0

    def _write_snapshot(self, saved: bytes, *, exact: bool) -> None:
        now, journal, pos = self._clock.read(), self._journal, self._recorder.pos
        history = self.limits.history
        self._recorder.keep()
        self.counters["snapshots"] += 1
        self._writer.put(
            lambda: journal.snapshot(saved, now=now, events=pos, exact=exact, history=history), self._failed
        )

    def remember(self, peer: NodeId, life: bytes) -> None:
        """The first meeting with a peer: its number stands for this life from now on."""
        self.lives[peer] = life
        journal = self._journal
        self._writer.put(lambda: journal.remember(peer, life), self._failed)

    # For people.

    def status(self) -> dict[str, Any]:
        """Links, buffers and counters, as plain values."""
        journal = self._journal
        return {
            "node": self.number,
            "protocol": self.spec.name,
            "group": self.security.group,
            "secured": self._secured,
            "durability": journal.durability.value,
            "journal": {
                "path": str(journal.path),
                "calls": journal.position,
                "snapshot_age": self._since_snapshot,
            },
            "deliveries": {"last": self._shown, "read": self._read, "acknowledged": journal.acknowledged},
            "links": [link.describe() for link in self.links.values()],
            "transports": [transport.describe() for transport in self.transports],
            "buffers": {"uncommitted_bytes": self._behind, "reading_paused": self._paused},
            "gauges": self._machine.protocol.gauges(),
            "timers": len(self._machine.timers),
            "counters": dict(self.counters),
        }
