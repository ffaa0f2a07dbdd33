"""The engine of a node: makes calls, commits them in batches, and lets their effects out when they are durable.

Everything that happens is made a call of the machine at once, on the event loop. The call and its effects join the
open *batch*. When the journal is free, the batch is handed to it and a new one is opened. When a batch is
committed, its effects leave: frames first, then deliveries, then the answers to broadcasts. So no effect leaves
before its call is durable, a busy node commits in large groups, and an idle one commits at once.

A frame is bound to the link that was up when its call was made. If that link has ended meanwhile, the frame is
dropped, even if a new link to the same peer is up.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

from antecast.core import (
    Accepted,
    Alert,
    AntecastError,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    Timer,
    Transmit,
)
from antecast.live.calls import Call, CallKind, Group
from antecast.live.counters import Counters
from antecast.live.entries import Commit, Delivery, Durability, JournalError
from antecast.live.eventlog import EventLog
from antecast.live.journal import Journal
from antecast.live.links.link import Link
from antecast.live.machine import Clock
from antecast.live.recovery import Recovery
from antecast.live.security import Unsecured
from antecast.live.writing import Writer

log = logging.getLogger("antecast.live")

_new = tuple.__new__
"""Makes a named tuple in half the time."""


class NodeStopped(AntecastError):
    """The node has stopped, or could not go on; the text says why."""


@dataclass
class Batch:
    """Calls that are committed together, and what leaves when they are."""

    calls: Group = field(default_factory=list)
    """Empty where the journal does not keep calls."""
    count: int = 0
    size: int = 0
    frames: dict[Link, list[bytes]] = field(default_factory=dict)
    transmissions: list[bytes] = field(default_factory=list)
    """Packets for a shared medium."""
    unsealed: list[tuple[Frame, list[bytes], int]] = field(default_factory=list)
    """Frames that are not packets yet, and their places among `frames`: they are sealed together."""
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[tuple[asyncio.Future[Any], Any]] = field(default_factory=list)
    positions: dict[NodeId, int] = field(default_factory=dict)
    """How far the journals of peers had come when they sent what came in these calls, or before."""


class Owner(Protocol):
    """What an engine tells its node."""

    def committed(self, batch: Batch) -> None:
        """A batch is durable, and its frames have been written."""

    def transmit(self, packets: list[bytes]) -> None:
        """Packets of a durable batch go on the air."""

    def failed(self, error: Exception) -> None:
        """Nothing more can be committed, and nothing more leaves."""

    def fell_behind(self) -> None:
        """More is uncommitted than `bound`."""

    def reads_slowly(self, link: Link) -> None:
        """More waits in a link than `most_waiting`."""


class Engine:
    """One machine at work."""

    def __init__(
        self,
        owner: Owner,
        recovery: Recovery,
        clock: Clock,
        journal: Journal,
        recorder: EventLog,
        counters: Counters,
        *,
        bound: int,
        most_waiting: int,
        snapshot_every: int,
        history: int,
    ) -> None:
        self._owner, self.machine, self.journal = owner, recovery.machine, journal
        self.number = self.machine.number
        self.codec, self.security = self.machine.protocol.codec, self.machine.security
        self.clock = clock
        self.links: dict[NodeId, Link] = {}
        self.behind = 0
        """Bytes of calls that are made and not committed."""
        self.position = journal.position
        """How many calls are committed: what a restart is sure to remember."""
        self.since_snapshot = 0
        self.stopped = False
        self.closed = False
        """Whether it has let go of the journal."""
        self._bound, self._most_waiting, self._history = bound, most_waiting, history
        self._snapshot_every = self._cut_at = snapshot_every
        """Bytes of calls after which the next snapshot is due; 0 if the protocol cannot be frozen."""
        self._recorder, self._counters = recorder, counters
        self._protocol = self.machine.protocol
        self._keeps = journal.durability is not Durability.NONE
        self._secured = not isinstance(self.security, Unsecured)
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop, inline=journal.durability is Durability.NONE)
        self._batch = Batch()
        self._writing: Batch | None = None
        self._scheduled = False
        self.numbered = journal.delivered
        """Deliveries so far, committed or not."""
        self.delivered_bytes = 0
        self._handles: dict[Timer, asyncio.TimerHandle] = {}
        self._done_with, self._forgetting = journal.acknowledged, False
        if recovery.renewed:
            self._write_snapshot(recovery.saved, exact=False)
        if recovery.known:
            now = self.clock.read()
            self.make(Call(CallKind.RESUME, now))

    @property
    def idle(self) -> bool:
        """Whether everything that was called is committed."""
        return self._writing is None and not self._batch.count and not self._batch.answers

    # Calls.

    def make(self, call: Call) -> list[Effect]:
        """Make a call that is no frame; it joins the batch. Raises what is the caller's own mistake."""
        try:
            effects = self.machine.replay(call)
        except AntecastError:
            raise
        except Exception as error:
            raise self._broke(error) from error
        self._made(call, effects)
        return effects

    def broadcast(self, payload: bytes, lifetime: int | None, now: int) -> MessageId:
        """Make a broadcast; returns the message's name."""
        try:
            effects = self._protocol.broadcast(payload, now, lifetime=lifetime)
        except AntecastError:
            raise
        except Exception as error:
            raise self._broke(error) from error
        if self._keeps:
            self._batch.calls.append((0, now, -1, payload, lifetime))
        self._batch.count += 1
        self._perform(effects, now)
        if self._recorder.active:
            self._note(Call(0, now, -1, payload, lifetime), effects)
        self._grew(len(payload) + 16)
        return _named(effects)

    def _made(self, call: Call, effects: list[Effect]) -> None:
        if self._keeps:
            self._batch.calls.append(call)
        self._batch.count += 1
        if effects:
            self._perform(effects, call.now)
        if self._recorder.active:
            self._note(call, effects)
        self._grew(len(call.data) + 16)

    def _note(self, call: Call, effects: list[Effect], frame: Frame | None = None) -> None:
        """A row of the event log. A log that cannot be written would lack something: the node stops, and writes
        it again from its journal when it comes back."""
        try:
            self._recorder.note(call, effects, frame, self.codec)
        except AntecastError as error:
            self.fail(NodeStopped(f"the event log failed: {error}"))

    def receive(self, peer: NodeId, packets: list[bytes]) -> tuple[RemoteFault | None, list[RemoteFault]]:
        """Packets came over the link of a peer. Returns what is wrong with the first that is no frame of an honest
        node, if there is one (those after it are not looked at), and why others were refused."""
        now, take, keeps, recorder = self.clock.read(), self._protocol.receive, self._keeps, self._recorder
        batch, taken = self._batch, list[bytes]()
        calls, perform, secured, decode = batch.calls, self._perform, self._secured, self.codec.decode
        wrong: RemoteFault | None = None
        refused: list[RemoteFault] = []
        for packet in packets:
            try:
                frame = self._opened(packet, peer) if secured else decode(packet)
            except RemoteFault as fault:
                wrong = fault.with_traceback(None)  # which would hold these packets until the next collection
                break
            try:
                effects = take(frame, peer, now)
            except RemoteFault as fault:
                refused.append(fault.with_traceback(None))
                continue
            except Exception as error:
                self._broke(error)
                break
            taken.append(packet)
            if keeps:
                calls.append((1, now, peer, packet, None))
            if effects:
                perform(effects, now, frame, packet)  # what is passed on goes out as it came
            if recorder.active:
                self._note(Call(1, now, peer, packet), effects, frame)
                if self.stopped:
                    break
        count, size = len(taken), sum(map(len, taken))
        batch.count += count
        self._counters["frames_received"] += count
        self._counters["bytes_received"] += size
        if count:
            self._grew(size + 16 * count)
        return wrong, refused

    def _opened(self, packet: bytes, peer: NodeId) -> Frame:
        """The frame in a packet, if it is signed as it must be."""
        frame = self.codec.decode(self.security.split(packet))
        self.security.verify(frame, packet, peer)
        return frame

    def answer(self, future: asyncio.Future[Any], result: Any) -> None:
        """Resolve a future when all that was called so far is durable."""
        self._batch.answers.append((future, result))
        self._schedule()

    def _broke(self, error: Exception) -> NodeStopped:
        """The protocol raised what no protocol may: its state can no longer be trusted."""
        log.exception("node %d: a defect of %s", self.number, self.machine.spec.name)
        stopped = NodeStopped(f"a defect of {self.machine.spec.name}: {error!r}")
        self.fail(stopped)
        return stopped

    def _grew(self, size: int) -> None:
        self._batch.size += size
        self.behind += size
        if not self._scheduled and self._writing is None:
            self._schedule()
        if self.behind > self._bound:
            self._owner.fell_behind()

    # Effects.

    def _perform(self, effects: list[Effect], now: int, known: Frame | None = None, packet: bytes = b"") -> None:
        """Turn effects into what leaves when the batch is committed; timers are set at once.

        `packet` is the encoding of a frame that is known already. This runs for every message, hence its form.
        """
        batch, links = self._batch, self.links
        frames, deliveries, number = batch.frames, batch.deliveries, self.numbered
        for effect in effects:
            kind = effect.__class__
            if kind is Send:
                link = links.get(effect.to)  # type: ignore[union-attr]
                if link is None:
                    self._counters["dropped_astray"] += 1
                    continue
                frame = effect.frame  # type: ignore[union-attr]
                if frame is not known:
                    known, packet = frame, b"" if self._secured else self.codec.encode(frame)
                waiting = frames.get(link)
                if waiting is None:
                    frames[link] = waiting = []
                if not packet:
                    batch.unsealed.append((frame, waiting, len(waiting)))
                waiting.append(packet)
            elif kind is Deliver:
                message = effect.message  # type: ignore[union-attr]
                number, payload = number + 1, message.payload
                self.delivered_bytes += len(payload)
                deliveries.append(_new(Delivery, (number, message.origin, message.seq, now, payload, "")))
            else:
                self._perform_rare(effect)
        self.numbered = number

    def _seal(self, batch: Batch) -> None:
        """Make packets of the frames of a batch, before it is committed: nothing leaves yet."""
        self.security.prepare(frame for frame, _, _ in batch.unsealed)
        last: Frame | None = None
        packet = b""
        for frame, waiting, place in batch.unsealed:
            if frame is not last:
                last, packet = frame, self.security.seal(frame, self.codec.encode(frame))
            waiting[place] = packet
        self.security.settle(self.machine.protocol)

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            self.machine.timers[effect.token] = effect.at
            self._arm(effect.token, effect.at)
        elif isinstance(effect, CancelTimer):
            self.machine.timers.pop(effect.token, None)
            self._disarm(effect.token)
        elif isinstance(effect, Discard):
            self._counters["expired" if effect.reason == "expired" else "discarded"] += 1
            log.info("node %d: message %s is given up: %s", self.number, effect.id, effect.reason)
        elif isinstance(effect, Alert):
            self._counters["alerts"] += 1
            log.warning("node %d: %s", self.number, effect.text)
        elif isinstance(effect, Transmit):
            self._transmit(effect.frame)

    def _transmit(self, frame: Frame) -> None:
        """A frame for whoever hears it."""
        waiting = self._batch.transmissions
        if self._secured:
            self._batch.unsealed.append((frame, waiting, len(waiting)))
        waiting.append(b"" if self._secured else self.codec.encode(frame))

    def _arm(self, token: Timer, at: int) -> None:
        self._disarm(token)
        delay = max(0, at - self.clock.read()) / (1e9 * self.clock.rate)
        self._handles[token] = self._loop.call_later(delay, self._fire, token, at)

    def _disarm(self, token: Timer) -> None:
        handle = self._handles.pop(token, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, token: Timer, at: int) -> None:
        del self._handles[token]
        if self.stopped:
            return
        now = self.clock.read()
        if now < at:  # this clock runs slower than the event loop's, for now
            self._arm(token, at)
            return
        self._counters["timers"] += 1
        self.make(Call(CallKind.TIMER, now, -1, token.encode()))

    # The journal.

    def _schedule(self) -> None:
        if not self._scheduled and self._writing is None:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """Hand the open batch to the journal, if it is free."""
        self._scheduled = False
        batch = self._batch
        if self._writing is not None or self.stopped or not (batch.count or batch.answers):
            return
        if self._secured:
            try:
                self._seal(batch)
            except AntecastError as error:
                self._broke(error)
                return
        self._writing, self._batch = batch, Batch()
        if batch.count:
            what = Commit(batch.calls, batch.deliveries, batch.count, batch.positions)
            journal = self.journal
            self._writer.put(lambda: journal.commit(what), self._committed)
        else:
            self._batch.positions = batch.positions
            self._committed(None)

    def _committed(self, error: Exception | None) -> None:
        """The batch is durable: its effects leave."""
        batch, self._writing = self._writing, None
        assert batch is not None
        if error is not None or self.stopped:
            self._batch.answers[:0] = batch.answers
            self._failed(error)
            return
        self.position = self.journal.position
        counters = self._counters
        counters["groups"] += 1
        self.behind -= batch.size
        self.since_snapshot += batch.size
        for link, packets in batch.frames.items():
            if link.closed:
                counters["dropped_link_gone"] += len(packets)
                continue
            counters["frames_sent"] += len(packets)
            link.write(packets)
            if link.waiting > self._most_waiting:
                self._owner.reads_slowly(link)
        if batch.transmissions:
            counters["frames_sent"] += len(batch.transmissions)
            self._owner.transmit(batch.transmissions)
        self._owner.committed(batch)
        for future, result in batch.answers:
            if not future.done():
                future.set_result(result)
        if self._cut_at and self.since_snapshot > self._cut_at:
            self._cut()
        if self._batch.count or self._batch.answers:
            self._schedule()

    def _failed(self, error: Exception | None) -> None:
        if error is not None:
            known = isinstance(error, JournalError)
            self.fail(error if known else NodeStopped(f"the journal failed: {error!r}"))

    def fail(self, error: Exception) -> None:
        """Nothing more leaves this node."""
        if not self.stopped:
            self.stopped = True
            self._owner.failed(error)
            self._refuse_answers(error)

    def _refuse_answers(self, error: Exception) -> None:
        for batch in (self._batch, self._writing):
            for future, _ in () if batch is None else batch.answers:
                if not future.done():
                    future.set_exception(error)

    def _cut(self) -> None:
        """Write a snapshot of the running machine, so that the journal can be cut.

        The machine is ahead of the journal by the open batch. That is committed first: the writer works in order.
        """
        self.since_snapshot = 0
        if self.journal.durability is Durability.NONE:
            return
        self._commit()
        try:
            saved = self.machine.save_exactly()
        except TypeError as error:
            if self._cut_at:
                self._cut_at = 0
                log.warning("node %d: its journal is only cut at a clean stop: %s", self.number, error)
            return
        self._cut_at = max(self._snapshot_every, 4 * len(saved))
        self._write_snapshot(saved, exact=True)

    def _write_snapshot(self, saved: bytes, *, exact: bool) -> None:
        now, journal, pos = self.clock.read(), self.journal, self._recorder.pos
        history = self._history
        try:
            self._recorder.keep()
        except AntecastError as error:
            self.fail(NodeStopped(f"the event log failed: {error}"))
            return
        self._counters["snapshots"] += 1
        self._writer.put(
            lambda: journal.snapshot(saved, now=now, events=pos, exact=exact, history=history), self._failed
        )

    def forget(self, number: int) -> None:
        """The application is done with deliveries up to a number. However often it says so, the journal writes one
        acknowledgement at a time, of all that was said meanwhile."""
        self._done_with = max(self._done_with, number)
        if not self._forgetting and self._done_with > self.journal.acknowledged:
            self._forgetting = True
            self._writer.put(lambda: self.journal.acknowledge(self._done_with), self._forgotten)

    def _forgotten(self, error: Exception | None) -> None:
        self._forgetting = False
        self._failed(error)
        if not self.stopped:
            self.forget(self._done_with)

    def remember(self, peer: NodeId, life: bytes) -> None:
        """The first meeting with a peer."""
        journal = self.journal
        self._writer.put(lambda: journal.remember(peer, life), self._failed)

    def remember_position(self, peer: NodeId, position: int) -> None:
        """How far a peer's journal has come."""
        journal = self.journal
        self._writer.put(lambda: journal.remember_position(peer, position), self._failed)

    def note_position(self, peer: NodeId, position: int) -> None:
        """The same, with the next group: what comes from the peer after it has said so is no sooner in the journal
        than its position is."""
        self._batch.positions[peer] = position

    async def stop(self) -> None:
        """Commit what was called, write a snapshot of what survives, and let go of the journal."""
        try:
            while not self.stopped and not self.idle:
                self._commit()
                await asyncio.sleep(0 if self._writing is None else 0.001)
        finally:
            self._close()

    def _close(self) -> None:
        """What is not committed by now is as if there had been a crash."""
        if self.closed:
            return
        self.closed = True
        if not self.idle and not self.stopped:  # the wait was cancelled
            self.stopped = True
            self._refuse_answers(NodeStopped("the node has stopped"))
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._writer.stop()
        failed, self.stopped = self.stopped, True
        saved = None if failed else self.machine.save()
        try:
            self._recorder.close()
            if not failed:
                self.journal.acknowledge(self._done_with)
        except AntecastError:  # without a snapshot, the calls stay, from which the log is written again
            self.journal.close()
            raise
        self.journal.close(state=saved, now=self.clock.read(), events=self._recorder.pos)


def _named(effects: list[Effect]) -> MessageId:
    """The name of the message that a broadcast made, from its effects."""
    for effect in effects:
        if effect.__class__ is Deliver:
            message = effect.message
            return _new(MessageId, (message.origin, message.seq))
        if effect.__class__ is Accepted:
            break
    return effect.id  # type: ignore[union-attr]
