"""The engine of a node: makes the calls, and puts what they ask for into the open batch.

Everything that happens is made a call of the machine at once, on the event loop. The call and its effects join the
open batch; `commits` says when they leave. Packets that came together are taken in together: the time is read
once, and what is counted is counted once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

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
from antecast.live.batch import Batch
from antecast.live.calls import Call, CallKind
from antecast.live.commits import Commits, NodeStopped, Owner
from antecast.live.counters import Counters
from antecast.live.entries import Delivery, Durability
from antecast.live.eventlog import EventLog
from antecast.live.journal import Journal
from antecast.live.links.link import Link
from antecast.live.machine import Clock
from antecast.live.recovery import Recovery
from antecast.live.timers import Timers

__all__ = ["Batch", "Engine", "NodeStopped", "Owner"]

log = logging.getLogger("antecast.live")

_new = tuple.__new__
"""Makes a named tuple in half the time."""


class Engine(Commits):
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
        super().__init__(
            owner,
            recovery.machine,
            clock,
            journal,
            recorder,
            counters,
            most_waiting=most_waiting,
            snapshot_every=snapshot_every,
            history=history,
        )
        self._links: dict[NodeId, Link] = {}
        self.numbered = journal.delivered
        """Deliveries so far, committed or not."""
        self.delivered_bytes = 0
        self._bound = bound
        self._protocol = self.machine.protocol
        self._keeps = journal.durability is not Durability.NONE
        self._timers = Timers(clock, self._due)
        if recovery.renewed:
            self._write_snapshot(recovery.saved, exact=False)
        if recovery.known:
            self.make(Call(CallKind.RESUME, self.clock.read()))

    # Links.

    @property
    def links(self) -> Mapping[NodeId, Link]:
        """The links that are up, by peer."""
        return self._links

    def attach(self, link: Link) -> Link | None:
        """A link is up; returns the one to the same peer that it replaces."""
        before = self._links.get(link.peer)
        self._links[link.peer] = link
        self._batch.outboxes.pop(link.peer, None)
        return before

    def detach(self, peer: NodeId) -> None:
        """The link to a peer is down."""
        del self._links[peer]
        self._batch.outboxes.pop(peer, None)

    # Calls.

    def make(self, call: Call) -> list[Effect]:
        """Make a call that is no frame; it joins the batch. Raises what is the caller's own mistake."""
        try:
            effects = self.machine.replay(call)
        except AntecastError:
            raise
        except Exception as error:
            raise self._broke(error) from error
        if self._keeps:
            self._batch.calls.append(call)
        self._batch.count += 1
        if effects:
            self._perform(effects, call.now)
        if self._recorder.active:
            self._note(call, effects)
        self._grew(len(call.data) + 16)
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

    def receive(self, peer: NodeId, packets: list[bytes]) -> tuple[RemoteFault | None, list[RemoteFault]]:
        """Packets came over the link of a peer. Returns what is wrong with the first that is no frame of an honest
        node, if there is one (those after it are not looked at), and why others were refused.

        This runs for every packet, hence its form: the usual effects are carried out here."""
        now, take, batch, recording = self.clock.read(), self._protocol.receive, self._batch, self._recorder.active
        note, deliver, outboxes = batch.calls.append, batch.deliveries.append, batch.outboxes
        keeps, secured, decode, opened = self._keeps, self._secured, self.codec.decode, self._opened
        number, unread = self.numbered, self.delivered_bytes
        wrong: RemoteFault | None = None
        refused: list[RemoteFault] = []
        aside: list[bytes] = []
        left = iter(packets)
        for packet in left:
            frame: Frame | None = None
            try:
                frame = opened(packet, peer) if secured else decode(packet)
                effects = take(frame, peer, now)
            except RemoteFault as fault:
                aside.append(packet)
                fault.with_traceback(None)  # which would hold these packets until the next collection
                if frame is None:
                    wrong = fault
                    break
                refused.append(fault)
                continue
            except Exception as error:
                aside.append(packet)
                self._broke(error)
                break
            if keeps:
                note((1, now, peer, packet, None))
            rest = iter(effects)
            for effect in rest:
                kind = effect.__class__
                if kind is Deliver:
                    message = effect.message  # type: ignore[union-attr]
                    number, payload = number + 1, message.payload
                    unread += len(payload)
                    deliver(Delivery(number, message.origin, message.seq, now, payload))
                elif kind is Send and effect.frame is frame and effect.to in outboxes:  # type: ignore[union-attr]
                    outboxes[effect.to].append(packet)  # type: ignore[union-attr]  # passed on as it came
                else:
                    self.numbered, self.delivered_bytes = number, unread
                    self._perform([effect, *rest], now, frame, packet)
                    number, unread = self.numbered, self.delivered_bytes
            if recording:
                self.numbered, self.delivered_bytes = number, unread
                self._note(Call(1, now, peer, packet), effects, frame)
                if self.stopped:
                    break
        aside += left
        self.numbered, self.delivered_bytes = number, unread
        count, size = len(packets) - len(aside), sum(map(len, packets)) - sum(map(len, aside))
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

    def _note(self, call: Call, effects: list[Effect], frame: Frame | None = None) -> None:
        """A row of the event log. A log that cannot be written would lack something: the node stops, and writes
        it again from its journal when it comes back."""
        try:
            self._recorder.note(call, effects, frame, self.codec)
        except AntecastError as error:
            self.fail(NodeStopped(f"the event log failed: {error}"))

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

        `packet` is the encoding of a frame that is known already.
        """
        batch = self._batch
        outboxes, deliveries, number = batch.outboxes, batch.deliveries, self.numbered
        for effect in effects:
            kind = effect.__class__
            if kind is Send:
                waiting = outboxes.get(effect.to)  # type: ignore[union-attr]
                if waiting is None:
                    link = self._links.get(effect.to)  # type: ignore[union-attr]
                    if link is None:
                        self._counters["dropped_astray"] += 1
                        continue
                    waiting = batch.outbox(effect.to, link)  # type: ignore[union-attr]
                frame = effect.frame  # type: ignore[union-attr]
                if frame is not known:
                    known, packet = frame, b"" if self._secured else self.codec.encode(frame)
                if not packet:
                    batch.unsealed.append((frame, waiting, len(waiting)))
                waiting.append(packet)
            elif kind is Deliver:
                message = effect.message  # type: ignore[union-attr]
                number, payload = number + 1, message.payload
                self.delivered_bytes += len(payload)
                deliveries.append(Delivery(number, message.origin, message.seq, now, payload))
            else:
                self._perform_rare(effect)
        self.numbered = number

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            self.machine.timers[effect.token] = effect.at
            self._timers.arm(effect.token, effect.at)
        elif isinstance(effect, CancelTimer):
            self.machine.timers.pop(effect.token, None)
            self._timers.disarm(effect.token)
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

    def _due(self, token: Timer, now: int) -> None:
        if not self.stopped:
            self._counters["timers"] += 1
            self.make(Call(CallKind.TIMER, now, -1, token.encode()))

    def _close(self) -> None:
        self._timers.stop()
        super()._close()


def _named(effects: list[Effect]) -> MessageId:
    """The name of the message that a broadcast made, from its effects."""
    for effect in effects:
        if effect.__class__ is Deliver:
            message = effect.message
            return _new(MessageId, (message.origin, message.seq))
        if effect.__class__ is Accepted:
            break
    return effect.id  # type: ignore[union-attr]
