"""Point-to-point links: delay, loss, order, bandwidth and queues.

A link here is one direction of a connection, from the moment it comes up until it goes down. A
connection that comes back is a new link: what was in flight on the old one is lost.

A network of a thousand nodes has ten thousand links in use, and each frame takes another one: what a link holds
has left the caches when it is needed again. So it holds little, and links of a kind share the rest (`Medium`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeAlias

from antecast.core import Frame, NodeId
from antecast.sim.delays import Constant, sampler
from antecast.sim.network import LinkSettings, NetworkSettings
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream

if TYPE_CHECKING:
    from antecast.sim.host import Host

_BITS_NS = 8 * 10**9
_LOST = -1
"""Instead of the time of arrival."""

NO_ROOM, SENT, QUEUED = 0, 1, 2
"""What became of a frame: it was dropped, went on the air, or waits until it can."""

Parcel: TypeAlias = tuple[Frame, int]
"""A frame and its encoded length: one object, however often the frame is sent."""


class Receiver(Protocol):
    """Where a link ends."""

    node: NodeId

    def receive(self, parcel: Parcel, sender: NodeId) -> None: ...


class Port:
    """What sends the frames of a node, or of one link of it: one after the other, as fast as the bandwidth allows.

    A frame that finds the port busy waits. It goes on the air, and is logged as sent, when its turn comes; if its
    link ends before, it is withdrawn. A frame on the air when its link ends is broken off: the port is free.
    """

    __slots__ = ("_backlog", "_go_on", "_log", "_on_air", "_waiting", "_wakes_at", "free_at")

    def __init__(self, host: Host) -> None:
        # Bound once: in a busy network every frame waits for its turn.
        self._log = host.sent
        self._go_on = self._next
        self.free_at = 0
        """When the frame on the air will have been sent."""
        self._on_air: Link | None = None
        self._waiting: deque[tuple[Link, Parcel, int]] = deque()
        """Frames, and how long each takes."""
        self._backlog = 0
        """How long all of them take."""
        self._wakes_at: int | None = None
        """When the first of them has its turn; None while nothing waits."""

    def room(self, size: int, medium: Medium, bandwidth: int) -> bool:
        """Whether the queue, if it is limited, has room for so many bytes."""
        assert medium.queue_limit is not None
        waiting = (max(self.free_at - medium.scheduler.now, 0) + self._backlog) * bandwidth // _BITS_NS
        return waiting + size <= medium.queue_limit

    def hand_over(self, link: Link, parcel: Parcel, medium: Medium, takes: int) -> None:
        """Send a frame that comes later than its sender's call, so that nobody but the port can log it."""
        if self.send(link, parcel, medium, takes) == SENT:
            self._log(parcel, link.to)

    def send(self, link: Link, parcel: Parcel, medium: Medium, takes: int) -> int:
        """Send a frame that takes so long now, or when its turn comes."""
        now = medium.scheduler.now
        if self.free_at <= now and not self._waiting:
            self._on_air = link
            leaves = self.free_at = now + takes
            link.launch(parcel, leaves)
            return SENT
        self._waiting.append((link, parcel, takes))
        self._backlog += takes
        if self._wakes_at is None:
            self._wake(medium, self.free_at)
        return QUEUED

    def _wake(self, medium: Medium, at: int) -> None:
        self._wakes_at = at
        medium.at(at, self._go_on, (medium, at))

    def _next(self, what: tuple[Medium, int]) -> None:
        medium, at = what
        if at != self._wakes_at:
            return  # the port became free earlier, and has moved on
        self._wakes_at = None
        waiting = self._waiting
        if waiting:
            link, parcel, takes = waiting.popleft()
            self._backlog -= takes
            self._log(parcel, link.to)
            self._on_air = link
            leaves = self.free_at = at + takes
            link.launch(parcel, leaves)
            if waiting:
                self._wakes_at = leaves
                medium.at(leaves, self._go_on, (medium, leaves))

    def withdraw(self, link: Link, medium: Medium) -> None:
        """A link has ended: its frames give way to others."""
        now = medium.scheduler.now
        if any(frame[0] is link for frame in self._waiting):
            before = len(self._waiting)
            self._waiting = deque(frame for frame in self._waiting if frame[0] is not link)
            link.lose(before - len(self._waiting))
            self._backlog = sum(takes for _, _, takes in self._waiting)
            if not self._waiting:
                self._wakes_at = None  # nobody's turn: a frame that comes now must not be taken for the next one
        if self._on_air is link:
            self._on_air = None
            if self.free_at > now:
                self.free_at, self._wakes_at = now, None
                if self._waiting:
                    self._wake(medium, now)


class Medium:
    """What links of one kind have in common."""

    __slots__ = (
        "at", "bandwidth", "coupled", "draw", "fifo", "loss_below", "lost", "processing", "queue_limit",
        "scheduler", "seed", "steady", "transmission",
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
        self.lost = 0
        """Frames that its links took and did not deliver: lost by chance, or with the link that carried them."""
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

    __slots__ = ("_delays", "_from", "_instance", "_last", "_losses", "_medium", "_port", "_to", "alive", "to")

    def __init__(self, medium: Medium, sender: Host, receiver: Receiver, instance: int, port: Port) -> None:
        index = (sender.node, receiver.node, instance)
        self.alive = True
        self._from = sender.node
        self._to = receiver
        self.to = receiver.node
        self._instance = instance
        self._medium = medium
        self._port = port
        self._delays = Stream(medium.seed, "delay", *index)
        self._losses = Stream(medium.seed, "loss", *index) if medium.loss_below else None
        self._last = 0

    def send(self, parcel: Parcel) -> int:
        """Put a frame on the link, or in the queue: what became of it."""
        medium = self._medium
        if medium.bandwidth is not None:
            return self._transmit(parcel, medium, medium.bandwidth)
        arrives = self._arrival(medium.scheduler.now)
        if arrives >= 0:
            medium.at(arrives, self._arrive, parcel)
        return SENT

    def _transmit(self, parcel: Parcel, medium: Medium, bandwidth: int) -> int:
        size, port = parcel[1], self._port
        if medium.queue_limit is not None and not port.room(size, medium, bandwidth):
            return NO_ROOM
        return port.send(self, parcel, medium, size * _BITS_NS // bandwidth)

    def launch(self, parcel: Parcel, leaves: int) -> None:
        """A frame has gone on the air and leaves the port then: it arrives unless it is lost."""
        arrives = self._arrival(leaves)
        if arrives >= 0:
            self._medium.at(arrives, self._arrive, parcel)

    def send_all(self, parcels: list[Parcel]) -> list[int]:
        """Put frames on the link, one behind the other; what became of each.

        Those that arrive at one instant travel as a train, which is one event for the scheduler. They are
        received one by one, exactly as if each had been an event of its own.
        """
        medium = self._medium
        if medium.steady is not None:
            medium.at(medium.scheduler.now + medium.steady, self._arrive_all, parcels)
            return [SENT] * len(parcels)
        if medium.bandwidth is not None:
            return [self.send(parcel) for parcel in parcels]
        train: list[Parcel] = []
        train_arrives = _LOST
        for parcel in parcels:
            arrives = self._arrival(medium.scheduler.now)
            if arrives >= 0:
                if arrives != train_arrives:
                    train, train_arrives = [], arrives
                    medium.at(arrives, self._arrive_all, train)
                train.append(parcel)
        return [SENT] * len(parcels)

    def _arrival(self, leaves: int) -> int:
        """When a frame that leaves at that time arrives, or that it is lost."""
        medium = self._medium
        if medium.steady is not None:
            return leaves + medium.steady
        arrives = leaves + medium.draw(self._delays)
        if self._losses is not None and self._losses.bits() < medium.loss_below:
            medium.lost += 1
            return _LOST
        if medium.fifo:
            arrives = self._last = max(arrives, self._last)
        return arrives

    def end(self) -> None:
        """The link is gone: nothing arrives any more, and nothing waits to be sent."""
        self.alive = False
        if self._medium.bandwidth is not None:
            self._port.withdraw(self, self._medium)

    def lose(self, frames: int) -> None:
        """Frames that the link took will not arrive."""
        self._medium.lost += frames

    def _arrive(self, parcel: Parcel) -> None:
        if self.alive:
            self._to.receive(parcel, self._from)
        else:
            self._medium.lost += 1

    def _arrive_all(self, train: list[Parcel]) -> None:
        receive, sender = self._to.receive, self._from
        for parcel in train:
            if self.alive:
                receive(parcel, sender)
            else:
                self._medium.lost += 1
