"""The air: radios that take turns, disturb each other and lose frames.

A radio sends one frame at a time; others wait in its queue. A frame is heard by whoever is within range when
it starts. It is lost at a receiver that hears another frame at any time while it lasts, or sends one itself;
nobody notices. With carrier sense a radio waits while it hears another one; two that cannot hear each other,
with a receiver between them, still collide. Before each frame, and each time the air was found busy, a radio
waits a random time.

A station's frames are for the hosts of its cell, a host's for the station of the cell it was in when it
spoke; others hear only noise. Who hears whom is looked at again every `_LOOK` nanoseconds: a walker moves a
few centimetres in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from antecast.core import Frame, NodeId
from antecast.sim.radio.host import RadioHost
from antecast.sim.radio.layout import Cells, Place, Still, distance2
from antecast.sim.radio.movement import FOREVER
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream

_LOOK = 50_000_000
_BITS_NS = 8 * 10**9


class _Waiting(NamedTuple):
    frame: Frame
    size: int
    to: NodeId | None
    """A station, or a whole cell."""


class _Sending:
    """A frame on the air."""

    __slots__ = ("disturbed", "end", "heard", "receivers", "sender", "what")

    def __init__(
        self, sender: Radio, what: _Waiting, end: int, heard: set[NodeId], receivers: set[NodeId]
    ) -> None:
        self.sender = sender
        self.what = what
        self.end = end
        self.heard = heard
        self.receivers = receivers
        self.disturbed: set[NodeId] = set()


class Radio:
    """One node's radio: its queue, and what it has heard and missed."""

    __slots__ = ("busy", "draw", "heard", "host", "look", "lost", "missed", "queue", "received", "sent", "waiting")

    def __init__(self, host: RadioHost, draw: Stream, lost: Stream) -> None:
        self.host = host
        self.queue: deque[_Waiting] = deque()
        self.waiting: set[int] = set()
        """The frames of the queue, by identity."""
        self.busy = False
        """Whether it sends, or waits for its turn."""
        self.draw = draw
        self.lost = lost
        self.sent = 0
        self.received = 0
        self.missed = 0
        self.heard: set[NodeId] = set()
        self.look = -1
        """When `heard` was found, in the air's count of looks."""


class Air:
    def __init__(
        self, scheduler: Scheduler, cells: Cells, seed: int, place: Callable[[NodeId, int], Place | None]
    ) -> None:
        self._scheduler = scheduler
        self._cells = cells
        self._seed = seed
        self._place = place
        self._looks = 0
        self._look_again = -1
        self._seen: list[tuple[NodeId, float, float]] = []
        self._look = FOREVER if isinstance(cells.mobility, Still) else _LOOK
        self._range2 = cells.range * cells.range
        self._capture2 = cells.capture * cells.capture
        self._loss_below = int(cells.loss * 2**64)
        self.radios: dict[NodeId, Radio] = {}
        self._stations: set[NodeId] = set()
        self._sending: list[_Sending] = []
        self._spells: dict[NodeId, tuple[Stream, int, int]] = {}
        self._listeners: dict[NodeId, set[NodeId]] = {}
        self._cell: dict[NodeId, NodeId] = {}

    def add(self, host: RadioHost, *, station: bool) -> None:
        node = host.node
        draw, lost = Stream(self._seed, "backoff", node), Stream(self._seed, "radio loss", node)
        self.radios[node] = Radio(host, draw, lost)
        if station:
            self._stations.add(node)
            self._listeners[node] = set()
        self._look_again = -1

    def enter(self, node: NodeId, station: NodeId) -> None:
        """A host is in this station's cell from now on."""
        self.exit(node)
        self._cell[node] = station
        self._listeners[station].add(node)

    def exit(self, node: NodeId) -> None:
        station = self._cell.pop(node, None)
        if station is not None:
            self._listeners[station].discard(node)

    def silence(self, node: NodeId) -> None:
        """A host has stopped: what waits at its radio is gone."""
        self.radios[node].queue.clear()
        self.radios[node].waiting.clear()

    def transmit(self, node: NodeId, frame: Frame, size: int) -> bool:
        """Put a frame into a radio's queue; False if there is no room, or the very same frame waits there already:
        a second copy would come too early to be of use."""
        radio = self.radios[node]
        if len(radio.queue) >= self._cells.queue or id(frame) in radio.waiting:
            return False
        to = None
        if node not in self._stations:
            to = self._cell.get(node)
            if to is None:
                return True  # nobody is there to hear it
        radio.queue.append(_Waiting(frame, size, to))
        radio.waiting.add(id(frame))
        if not radio.busy:
            radio.busy = True
            self._wait(radio, self._scheduler.now)
        return True

    def _wait(self, radio: Radio, start: int) -> None:
        pause = radio.draw.below(self._cells.backoff + 1)
        self._scheduler.at(start + pause, self._try, radio)

    def _try(self, radio: Radio) -> None:
        if not radio.queue:
            radio.busy = False
            return
        node = radio.host.node
        if self._cells.carrier_sense:
            ends = [sending.end for sending in self._sending if node in sending.heard]
            if ends:
                self._wait(radio, max(ends))
                return
        what = radio.queue.popleft()
        radio.waiting.discard(id(what.frame))
        self._start(radio, what)

    def _start(self, radio: Radio, what: _Waiting) -> None:
        node, now, cells = radio.host.node, self._scheduler.now, self._cells
        end = now + cells.preamble + (what.size + cells.headers) * _BITS_NS // cells.bit_rate
        heard = self._heard(radio)
        receivers = self._listeners[node] & heard if what.to is None else {what.to} & heard
        sending = _Sending(radio, what, end, heard, receivers)
        for other in self._sending:
            sending.disturbed |= self._disturbed(receivers & other.heard, node, other.sender.host.node)
            other.disturbed |= self._disturbed(other.receivers & heard, other.sender.host.node, node)
        self._sending.append(sending)
        radio.sent += 1
        radio.host.on_air(*what)
        self._scheduler.at(end, self._end, sending)

    def _end(self, sending: _Sending) -> None:
        self._sending.remove(sending)
        frame, size, to = sending.what
        node = sending.sender.host.node
        faded = self._cells.fading is not None and self._faded(node if to is None else to)
        for receiver in sorted(sending.receivers):
            radio = self.radios[receiver]
            lost = self._loss_below and radio.lost.bits() < self._loss_below
            if receiver in sending.disturbed or lost or faded:
                radio.missed += 1
            elif radio.host.up:
                radio.received += 1
                radio.host.receive((frame, size), node)
        self._wait(sending.sender, self._scheduler.now)

    def _disturbed(self, receivers: set[NodeId], sender: NodeId, other: NodeId) -> set[NodeId]:
        """Those who lose a sender's frame to another one that they hear too."""
        if not self._capture2 or not receivers:
            return receivers
        now = self._scheduler.now
        mine, its = self._place(sender, now), self._place(other, now)
        if mine is None or its is None:
            return receivers
        places = [(each, self._place(each, now)) for each in receivers]
        return {
            each
            for each, place in places
            if each == other or place is None or distance2(place, its) < self._capture2 * distance2(place, mine)
        }

    def _heard(self, radio: Radio) -> set[NodeId]:
        """Who hears a radio, itself included."""
        now = self._scheduler.now
        if now >= self._look_again:
            self._looks += 1
            self._look_again = now + self._look
            self._seen = [(node, *place) for node in self.radios if (place := self._place(node, now)) is not None]
        if radio.look != self._looks:
            radio.look = self._looks
            radio.heard = {radio.host.node}
            mine = self._place(radio.host.node, now)
            if mine is not None:
                (x, y), reach = mine, self._range2
                radio.heard.update(
                    node for node, px, py in self._seen if (px - x) * (px - x) + (py - y) * (py - y) <= reach
                )
        return radio.heard

    def _faded(self, station: NodeId) -> bool:
        """Whether a cell is in one of its spells."""
        fading, now = self._cells.fading, self._scheduler.now
        assert fading is not None
        if station not in self._spells:
            self._spells[station] = (Stream(self._seed, "fading", station), 0, 0)
        stream, start, end = self._spells[station]
        while now >= end:
            start = end + round(fading.every * stream.exponential())
            end = start + round(fading.lasts * stream.exponential()) + 1
            self._spells[station] = (stream, start, end)
        return now >= start
