"""A host: one node of a run. It drives the node's protocol and carries out its effects.

This is the inner loop of the simulator: a hop of a message is one `Send` performed here, one event
in the scheduler and one `receive`. It writes the log as it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    Timer,
)
from antecast.history.log import NONE, EventWriter
from antecast.history.schema import Kind
from antecast.sim.clocks import Clock
from antecast.sim.links import NO_ROOM, SENT, Link, Parcel
from antecast.sim.scheduler import Scheduler

# Plain integers: comparing and packing enum members costs more in the inner loop.
_BROADCAST, _SEND, _RECEIVE, _DELIVER, _DISCARD, _EXPIRE = (
    int(Kind.BROADCAST), int(Kind.SEND), int(Kind.RECEIVE), int(Kind.DELIVER), int(Kind.DISCARD), int(Kind.EXPIRE),
)  # fmt: skip


Sizes: TypeAlias = dict[int, Parcel]
"""Encoded lengths of the messages sent last, shared by the hosts of a run: a message is measured once, however
often it is sent. Kept by identity, which stays taken while the message is kept here too."""

_LONG = 8
"""From this many effects on it is worth checking whether they are a transfer."""

_SIZES_KEPT = 1 << 14
"""More messages than are in flight at once in most runs, and few enough to keep alive."""


class Troubles:
    """What went wrong in a run without ending it, counted, with the first few in words."""

    __slots__ = ("alerts", "astray", "examples", "refused")

    _TOLD = 5

    def __init__(self) -> None:
        self.refused = 0
        """Frames that a protocol refused."""
        self.alerts = 0
        """Alerts that protocols gave."""
        self.astray = 0
        """Frames for peers without a link, which no protocol should send."""
        self.examples: list[str] = []

    def tell(self, node: NodeId, text: str) -> None:
        if len(self.examples) < self._TOLD:
            self.examples.append(f"node {node}: {text}")


class Host:
    """One node: its protocol, clock, links and timers, and its position in its own history."""

    __slots__ = (
        "_answers", "_append", "_clock", "_frames", "_generation", "_made", "_make_link", "_on_deliver", "_parcel",
        "_scheduler", "_sizes", "_timers", "_troubles", "arrivals", "dropped", "leaving", "links", "node", "pos",
        "protocol", "up",
    )  # fmt: skip

    def __init__(
        self,
        node: NodeId,
        protocol: Protocol,
        clock: Clock | None,
        scheduler: Scheduler,
        log: EventWriter,
        on_deliver: Callable[[Host, Message[Any]], None] | None,
        make_link: Callable[[Host, NodeId, int], Link],
        sizes: Sizes,
        troubles: Troubles,
        *,
        log_frames: bool,
    ) -> None:
        self.node = node
        self.protocol = protocol
        self.links: dict[NodeId, int] = {}
        """Who is linked, and how often the two were before. A link is only made when something is sent over it:
        in a complete network of a thousand nodes most of the half million pairs never exchange a frame."""
        self._made: dict[NodeId, Link] = {}
        self.pos = 0
        self.up = True
        self.leaving = False
        """Whether it is saying goodbye: it no longer broadcasts."""
        self.arrivals = 0
        self.dropped = 0
        self._clock = clock
        self._scheduler = scheduler
        self._append = log.append
        self._on_deliver = on_deliver
        self._answers: list[tuple[bytes, int | None]] = []
        self._troubles = troubles
        self._make_link = make_link
        self._frames = log_frames
        self._timers: dict[Timer, int] = {}
        self._generation = 0
        # A frame is mostly sent to several neighbours, or passed on as it came: no need to look it up.
        self._parcel: Parcel | None = None
        self._sizes = sizes

    def local_time(self) -> int:
        now = self._scheduler.now
        return now if self._clock is None else self._clock.read(now)

    def note(self, kind: int, origin: int = NONE, seq: int = NONE, peer: int = NONE, size: int = NONE) -> None:
        """Write an event of this node to the log."""
        self._append(self.node, self.pos, self._scheduler.now, kind, origin, seq, peer, size)
        self.pos += 1

    def broadcast(self, payload: bytes, lifetime: int | None = None) -> None:
        if self.leaving:
            return
        effects = self.protocol.broadcast(payload, self.local_time(), lifetime=lifetime)
        name = next(filter(None, map(_named, effects)))
        self.note(_BROADCAST, name.origin, name.seq, NONE, len(payload))
        self.perform(effects)

    def answer(self, payload: bytes, lifetime: int | None) -> None:
        """Broadcast from inside a delivery: the next call, once the effects of the current one are done."""
        self._answers.append((payload, lifetime))

    # What follows runs for every frame: it writes to the log without the detour over `note`.

    def receive(self, parcel: Parcel, sender: NodeId) -> None:
        now = self._scheduler.now
        frame, size = self._parcel = parcel
        if self._frames:
            if frame.__class__ is Message:
                self._append(self.node, self.pos, now, _RECEIVE, frame.origin, frame.seq, sender, size)
                self.pos += 1
            else:
                self._note_frame(_RECEIVE, parcel, sender)
        try:
            effects = self.protocol.receive(frame, sender, now if self._clock is None else self._clock.read(now))
        except RemoteFault as fault:
            self.refuse(parcel, sender, fault)
            return
        if effects:
            self.perform(effects)

    def refuse(self, parcel: Parcel, sender: NodeId, fault: RemoteFault) -> None:
        """Drop a frame that cannot be accepted, and count it."""
        self._troubles.refused += 1
        self._troubles.tell(self.node, str(fault))
        self.note(_DISCARD, NONE, NONE, sender, parcel[1])

    def perform(self, effects: list[Effect]) -> None:
        """Carry out effects in order. A delivery reaches the application before the next effect; what the
        application answers is broadcast when all of them are done."""
        if len(effects) > _LONG and self._transfer(effects):
            return
        for effect in effects:
            kind = effect.__class__
            if kind is Send:
                self._send(effect.to, effect.frame)  # type: ignore[union-attr]
            elif kind is Deliver:
                message = effect.message  # type: ignore[union-attr]
                now, size = self._scheduler.now, len(message.payload)
                self._append(self.node, self.pos, now, _DELIVER, message.origin, message.seq, NONE, size)
                self.pos += 1
                if self._on_deliver is not None:
                    self._on_deliver(self, message)
            elif isinstance(effect, SetTimer):
                self._set_timer(effect.token, effect.at)
            elif isinstance(effect, CancelTimer):
                self._timers.pop(effect.token, None)
            elif isinstance(effect, Discard):
                kind_of_end = _EXPIRE if effect.reason == "expired" else _DISCARD
                self.note(kind_of_end, effect.id.origin, effect.id.seq)
            else:
                self._perform_rare(effect)
        while self._answers:
            self.broadcast(*self._answers.pop(0))

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, Alert):
            self._troubles.alerts += 1
            self._troubles.tell(self.node, effect.text)
        elif not isinstance(effect, Accepted):
            raise LocalMisuse(f"links cannot carry out {type(effect).__name__}; it needs a shared medium")

    def _send(self, to: NodeId, frame: Frame) -> None:
        link = self._made.get(to) or self._link(to)
        if link is None:
            self._troubles.astray += 1
            return
        parcel = self._parcel
        if parcel is None or frame is not parcel[0]:
            parcel = self._parcel = self._measure(frame)
        outcome = link.send(parcel)
        if outcome != SENT:
            self.dropped += outcome == NO_ROOM
        elif self._frames:
            if frame.__class__ is Message:
                now, size = self._scheduler.now, parcel[1]
                self._append(self.node, self.pos, now, _SEND, frame.origin, frame.seq, to, size)
                self.pos += 1
            else:
                self._note_frame(_SEND, parcel, to)

    def _link(self, to: NodeId) -> Link | None:
        """A new link for the first frame to a neighbour; None if the two are not linked."""
        instance = self.links.get(to)
        if instance is None:
            return None
        link = self._made[to] = self._make_link(self, to, instance)
        return link

    def _note_frame(self, kind: int, parcel: Parcel, peer: NodeId) -> None:
        """A row per message inside; the first has the bytes of the frame, the others 0."""
        carried, size = parcel[0].carried, parcel[1]
        if not carried:
            self.note(kind, NONE, NONE, peer, size)
        for message in carried:
            self.note(kind, message.origin, message.seq, peer, size)
            size = 0

    def _transfer(self, effects: list[Effect]) -> bool:
        """Carry out effects that all send to one neighbour; False if they do not."""
        if not isinstance(effects[0], Send):
            return False
        to = effects[0].to
        frames = [each.frame for each in effects if each.__class__ is Send and each.to == to]
        if len(frames) < len(effects):
            return False
        link = self._made.get(to) or self._link(to)
        if link is None:
            self._troubles.astray += len(frames)
            return True
        known, measure = self._sizes.get, self._measure
        parcels = [known(id(frame)) or measure(frame) for frame in frames]
        outcomes = link.send_all(parcels)
        self.dropped += outcomes.count(NO_ROOM)
        if self._frames:
            for parcel, outcome in zip(parcels, outcomes, strict=True):
                if outcome == SENT:
                    self._note_frame(_SEND, parcel, to)
        return True

    def sent(self, parcel: Parcel, to: NodeId) -> None:
        """A frame that waited goes on the air."""
        if self._frames:
            frame, size = parcel
            if frame.__class__ is Message:
                now = self._scheduler.now
                self._append(self.node, self.pos, now, _SEND, frame.origin, frame.seq, to, size)
                self.pos += 1
            else:
                self._note_frame(_SEND, parcel, to)

    def _measure(self, frame: Frame) -> Parcel:
        known = self._sizes.get(id(frame))
        if known is not None:
            return known
        parcel = frame, self.protocol.codec.size(frame)
        if frame.__class__ is Message:
            if len(self._sizes) >= _SIZES_KEPT:
                self._sizes.clear()
            self._sizes[id(frame)] = parcel
        return parcel

    def _set_timer(self, token: Timer, local: int) -> None:
        at = local if self._clock is None else self._clock.when(local)
        generation = self._generation = self._generation + 1
        self._timers[token] = generation
        self._scheduler.at(max(at, self._scheduler.now), self._fire, (token, generation))

    def _fire(self, what: tuple[Timer, int]) -> None:
        token, generation = what
        if self._timers.get(token) == generation:
            del self._timers[token]
            self.perform(self.protocol.timer(token, self.local_time()))

    def link_up(self, peer: NodeId, instance: int) -> None:
        """A link to a peer came up, the first or a later one between the two."""
        self.links[peer] = instance
        effects = self.protocol.link_up(peer, self.local_time())
        if effects:
            self.perform(effects)

    def kill_link(self, peer: NodeId) -> None:
        """What is in flight to a peer will not arrive."""
        if peer in self._made:
            self._made[peer].end()

    def link_down(self, peer: NodeId) -> None:
        self.forget_link(peer)
        if self.up:
            self.perform(self.protocol.link_down(peer, self.local_time()))

    def forget_link(self, peer: NodeId) -> None:
        """The link to a peer is gone, and the protocol is not told, or not yet."""
        self.links.pop(peer, None)
        link = self._made.pop(peer, None)
        if link is not None:
            link.end()

    def halt(self) -> None:
        """Stop: no timer fires any more, and nothing is sent."""
        self.up = False
        self._timers.clear()


def _named(effect: Effect) -> MessageId | None:
    """The name that a broadcast's message was given, if this effect says it."""
    if isinstance(effect, Deliver):
        return effect.message.id
    return effect.id if isinstance(effect, Accepted) else None
