"""Point-to-point links: delay, loss, order, bandwidth and queues.

A link here is one direction of a connection, from the moment it comes up until it goes down. A
connection that comes back is a new link: what was in flight on the old one is lost.

A network of a thousand nodes has ten thousand links in use, and each frame takes another one: what a link holds
has left the caches when it is needed again. So it holds little, and shares the rest (`Medium`) with its like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from antecast.core import Frame, NodeId
from antecast.sim.delays import Constant, sampler
from antecast.sim.scenario import LinkSettings, NetworkSettings
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream

if TYPE_CHECKING:
    from antecast.sim.host import Host

_BITS_NS = 8 * 10**9
_LOST, _NO_ROOM = -1, -2
"""Instead of the time of arrival."""

Parcel: TypeAlias = tuple[Frame, int]
"""A frame and its encoded length: one object, however often the frame is sent."""


class Receiver(Protocol):
    """Where a link ends."""

    node: NodeId

    def receive(self, parcel: Parcel, sender: NodeId) -> None: ...


class Port:
    """Where frames wait to be sent: one a node, or one a link."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0


class Medium:
    """What links of one kind have in common."""

    __slots__ = (
        "at", "bandwidth", "coupled", "draw", "fifo", "loss_below", "processing", "queue_limit", "scheduler",
        "seed", "steady", "transmission",
    )  # fmt: skip

    def __init__(
        self, scheduler: Scheduler, network: NetworkSettings, special: LinkSettings | None, seed: int
    ) -> None:
        delay = special.delay if special and special.delay is not None else network.delay
        loss = special.loss if special and special.loss is not None else network.loss
        assert not isinstance(delay, str)
        self.scheduler = scheduler
        self.at = scheduler.at
        self.seed = seed
        self.draw = sampler(delay, scheduler)
        self.loss_below = int(loss * 2**64)
        self.fifo = network.fifo
        self.bandwidth = special.bandwidth if special and special.bandwidth else network.bandwidth
        self.queue_limit = network.queue_limit
        self.processing = network.processing
        self.transmission = network.transmission
        self.coupled = network.delays == "message"
        self.steady: int | None = None
        """How long every frame takes, where that is always the same and none is lost."""
        if isinstance(delay, Constant) and not loss and self.bandwidth is None:
            self.steady = delay.value


class Link:
    """One direction of a connection while it is up."""

    __slots__ = ("_delays", "_from", "_instance", "_last", "_losses", "_medium", "_port", "_to", "alive")

    def __init__(self, medium: Medium, sender: Host, receiver: Receiver, instance: int, port: Port) -> None:
        index = (sender.node, receiver.node, instance)
        self.alive = True
        self._from = sender.node
        self._to = receiver
        self._instance = instance
        self._medium = medium
        self._port = port
        self._delays = Stream(medium.seed, "delay", *index)
        self._losses = Stream(medium.seed, "loss", *index) if medium.loss_below else None
        self._last = 0

    def send(self, parcel: Parcel) -> bool:
        """Put a frame on the link; False if the queue had no room for it."""
        arrives = self._arrival(parcel[1])
        if arrives >= 0:
            self._medium.at(arrives, self._arrive, parcel)
        return arrives != _NO_ROOM

    def send_all(self, parcels: list[Parcel]) -> list[bool]:
        """Put frames on the link, one behind the other; for each, whether the queue had room for it.

        Those that arrive at one instant travel as a train, which is one event for the scheduler. They are
        received one by one, exactly as if each had been an event of its own.
        """
        medium = self._medium
        if medium.steady is not None:
            medium.at(medium.scheduler.now + medium.steady, self._arrive_all, parcels)
            return [True] * len(parcels)
        found_room: list[bool] = []
        train: list[Parcel] = []
        train_arrives = _LOST
        for parcel in parcels:
            arrives = self._arrival(parcel[1])
            found_room.append(arrives != _NO_ROOM)
            if arrives >= 0:
                if arrives != train_arrives:
                    train, train_arrives = [], arrives
                    medium.at(arrives, self._arrive_all, train)
                train.append(parcel)
        return found_room

    def _arrival(self, size: int) -> int:
        """When a frame that is sent now arrives, or why it does not."""
        medium = self._medium
        leaves = medium.scheduler.now
        if medium.steady is not None:
            return leaves + medium.steady
        bandwidth = medium.bandwidth
        if bandwidth is not None:
            port = self._port
            starts = max(leaves, port.free_at)
            if medium.queue_limit is not None:
                waiting = (starts - leaves) * bandwidth // _BITS_NS
                if waiting + size > medium.queue_limit:
                    return _NO_ROOM
            leaves = port.free_at = starts + size * _BITS_NS // bandwidth
        arrives = leaves + medium.draw(self._delays)
        if self._losses is not None and self._losses.bits() < medium.loss_below:
            return _LOST
        if medium.fifo:
            arrives = self._last = max(arrives, self._last)
        return arrives

    def _arrive(self, parcel: Parcel) -> None:
        if self.alive:
            self._to.receive(parcel, self._from)

    def _arrive_all(self, train: list[Parcel]) -> None:
        receive, sender = self._to.receive, self._from
        for parcel in train:
            if self.alive:
                receive(parcel, sender)
