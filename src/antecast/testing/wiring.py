"""What is between the nodes of a bench: links with two ends, cells, and the frames on their way.

A `Link` is one life of a link. Each of its ends is first *to come*, then *up*, then *gone*, at its own time:
frames wait for an end that is to come, and are dropped once it is gone. When the sender's end has gone, what is
still on its way may or may not arrive: a first part of it where the link keeps order, else some of it.
Hosts in the cell of a station hear it, and it hears them, over the air.

The wiring knows where frames are and tells nodes of their ends; it knows nothing of protocols.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import NamedTuple, Protocol, TypeAlias

from antecast.core import Frame, NodeId
from antecast.testing.timing import VirtualTime

Delay: TypeAlias = Callable[[Random], int]
"""Draws how long a frame travels, in nanoseconds."""
Loss: TypeAlias = Callable[[Frame], float]
"""How likely a frame is to be lost."""
Which: TypeAlias = Callable[["Flight"], bool]


@dataclass(eq=False, slots=True)
class Link:
    """One life of a link. Each end is first *to come*, then *up*, then *gone*."""

    ends: tuple[NodeId, NodeId]
    life: int = 0
    """Later links have larger numbers."""
    delays: Mapping[NodeId, Delay] = field(default_factory=dict)
    """How long frames travel towards an end, where this differs from other links."""
    up: set[NodeId] = field(default_factory=set)
    gone: set[NodeId] = field(default_factory=set)
    lost: set[NodeId] = field(default_factory=set)
    """Ends that nothing reaches any more: the link broke, and keeps order."""
    held: list[Flight] = field(default_factory=list)
    """Frames that wait for an end to come up."""
    latest: dict[NodeId, int] = field(default_factory=dict)
    """When the last frame towards an end arrives."""

    def other(self, node: NodeId) -> NodeId:
        return self.ends[self.ends[0] == node]

    def is_coming(self, node: NodeId) -> bool:
        return node not in self.up and node not in self.gone


class Flight(NamedTuple):
    """A frame on its way; over the radio if there is no link."""

    at: int
    number: int
    sender: NodeId
    to: NodeId
    frame: Frame
    link: Link | None


class Ends(Protocol):
    """The owner of the nodes, which hears of the ends of their links."""

    def exists(self, node: NodeId) -> bool: ...
    def came_up(self, node: NodeId, peer: NodeId, by: NodeId | None) -> None: ...
    def went_down(self, node: NodeId, peer: NodeId) -> None: ...


class Wiring:
    def __init__(
        self,
        ends: Ends,
        time: VirtualTime,
        random: Random,
        *,
        delay: Delay | int,
        fifo: bool,
        loss: float | Loss,
        radio_loss: float,
    ) -> None:
        self._ends, self._time, self.random = ends, time, random
        self.delay: Delay = (lambda _: delay) if isinstance(delay, int) else delay
        self.fifo = fifo
        self.loss: float | Loss = loss
        self.radio_loss = radio_loss
        self.links: dict[NodeId, dict[NodeId, Link]] = defaultdict(dict)
        """The links that are up at each node's end."""
        self._latest: dict[tuple[NodeId, NodeId], int] = {}
        """The latest link to a peer that a node has heard of."""
        self.cells: dict[NodeId, NodeId] = {}
        """The station in whose cell a host is."""
        self.flying: list[Flight] = []
        """A heap: the frame that arrives next comes first."""
        self._number = count().__next__

    # The ends of links.

    def link(
        self,
        a: NodeId,
        b: NodeId,
        *,
        notice: tuple[int | None, int | None] = (0, 0),
        by: NodeId | None = None,
        delays: Mapping[NodeId, Delay] | None = None,
    ) -> Link:
        """A new link; each end notices at once, after a time, or (None) when `up` is called. An end that has a
        link loses that one.

        `by` is a neighbour of both who brought them together; `delays` are those of this link, by the receiving
        end.
        """
        link = Link((a, b), self._number(), delays or {})
        for node, after in zip((a, b), notice, strict=True):
            if after is not None:
                self._time.after(after, lambda node=node: self.up(node, link, by=by))  # type: ignore[misc]
        return link

    def unlink(self, a: NodeId, b: NodeId, *, notice: tuple[int, int] = (0, 0)) -> None:
        """Break whatever link each has to the other, which each notices at once or after a time."""
        for node, peer, after in ((a, b, notice[0]), (b, a, notice[1])):
            link = self.links[node].get(peer)
            if link is not None:
                self._time.after(after, lambda node=node, link=link: self.down(node, link))  # type: ignore[misc]

    def up(self, node: NodeId, link: Link, *, by: NodeId | None = None) -> None:
        """This end of a link comes up, perhaps in place of an older one. What has come for it is received next."""
        if not link.is_coming(node):
            return
        peer = link.other(node)
        if not self._ends.exists(node) or self._latest.get((node, peer), 0) > link.life:
            # It has crashed meanwhile, or knows of a later link already.
            link.gone.add(node)
            self.down(peer, link)
            return
        if (old := self.links[node].get(peer)) is not None:
            old.up.discard(node)
            old.gone.add(node)
        self.links[node][peer] = link
        self._latest[node, peer] = link.life
        link.up.add(node)
        self._ends.came_up(node, peer, by)
        held, link.held = link.held, []
        for flight in held:
            if flight.to == node:
                heapq.heappush(self.flying, flight._replace(at=self._time.now, number=self._number()))
            else:
                link.held.append(flight)

    def down(self, node: NodeId, link: Link) -> None:
        """This end of a link goes down. One that never came up goes without a call."""
        link.up.discard(node)
        link.gone.add(node)
        peer = link.other(node)
        if self.links[node].get(peer) is link:
            del self.links[node][peer]
            self._ends.went_down(node, peer)

    def cut_off(self, node: NodeId, notice: Callable[[], int]) -> None:
        """A node stops: its ends of all links are gone, which the other ends notice at once or later."""
        self.cells.pop(node, None)
        for peer, link in self.links.pop(node, {}).items():
            link.up.discard(node)
            link.gone.add(node)
            self._time.after(notice(), lambda peer=peer, link=link: self.down(peer, link))  # type: ignore[misc]

    def move(self, host: NodeId, station: NodeId | None) -> None:
        """A host enters the cell of a station, or leaves all."""
        if (before := self.cells.pop(host, None)) is not None:
            self._ends.went_down(host, before)
        if station is not None:
            self.cells[host] = station
            self._ends.came_up(host, station, None)

    # Frames.

    def send(self, node: NodeId, link: Link, frame: Frame) -> Flight | None:
        """A frame goes on its way, unless it is lost."""
        loss = self.loss(frame) if callable(self.loss) else self.loss
        if loss and self.random.random() < loss:
            return None
        to = link.other(node)
        at = self._time.now + link.delays.get(to, self.delay)(self.random)
        if self.fifo:
            at = link.latest[to] = max(at, link.latest.get(to, 0))
        return self._launch(at, node, to, frame, link)

    def transmit(self, node: NodeId, frame: Frame) -> Iterator[Flight]:
        """Over the radio: to the cell, or up to the station; now and then twice."""
        heard = [self.cells[node]] if node in self.cells else [h for h, s in self.cells.items() if s == node]
        for to in heard:
            for _ in range(1 + (self.random.random() < self.radio_loss / 4)):
                if self.random.random() >= self.radio_loss:
                    yield self._launch(self._time.now + self.delay(self.random), node, to, frame, None)

    def _launch(self, at: int, sender: NodeId, to: NodeId, frame: Frame, link: Link | None) -> Flight:
        flight = Flight(at, self._number(), sender, to, frame, link)
        heapq.heappush(self.flying, flight)
        return flight

    def admits(self, flight: Flight) -> bool:
        """Whether a frame that has arrived is received. One that comes before its end is up is kept for it."""
        _, _, sender, to, _, link = flight
        if link is None:
            return self.cells.get(to, self.cells.get(sender)) in (sender, to)
        if link.is_coming(to):
            link.held.append(flight)
            return False
        if sender in link.gone and to not in link.lost and self.random.random() < 0.5:
            if self.fifo:
                link.lost.add(to)
            return False
        return to in link.up and to not in link.lost

    def queue(self, a: NodeId, b: NodeId) -> list[Frame]:
        """What is in flight from one node to another."""
        return [flight.frame for flight in sorted(filter(between(a, b), self.flying))]

    def drop(self, which: Which | None = None) -> list[Flight]:
        """Lose what is in flight, all or some of it; returns what was lost, in the order of its arrival."""
        taken = [flight for flight in self.flying if which is None or which(flight)]
        if taken:
            self.flying[:] = [flight for flight in self.flying if which is not None and not which(flight)]
            heapq.heapify(self.flying)
        return sorted(taken)

    def pop(self) -> Flight:
        return heapq.heappop(self.flying)


def between(a: NodeId, b: NodeId) -> Which:
    """The frames from one node to another."""
    return lambda flight: (flight.sender, flight.to) == (a, b)
