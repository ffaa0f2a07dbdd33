"""Point-to-point links: delay, loss, order, bandwidth and queues.

A link here is one direction of a connection, from the moment it comes up until it goes down. A
connection that comes back is a new link: what was in flight on the old one is lost.

Frames that follow each other on a link and arrive at one instant travel as a train: one event for the
scheduler. They are received one by one, exactly as if each had been an event of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from antecast.core import Frame
from antecast.sim.delays import sampler
from antecast.sim.scenario import LinkSettings, NetworkSettings
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream

if TYPE_CHECKING:
    from antecast.sim.host import Host

_BITS_NS = 8 * 10**9


class Port:
    """Where frames wait to be sent: one a node, or one a link."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0


class Link:
    """One direction of a connection while it is up."""

    __slots__ = (
        "_arrives", "_bandwidth", "_delay", "_fifo", "_loss_below", "_loss_bits", "_number", "_port",
        "_queue_limit", "_scheduler", "_train", "alive", "receiver", "sender",
    )  # fmt: skip

    def __init__(
        self,
        scheduler: Scheduler,
        network: NetworkSettings,
        special: LinkSettings | None,
        seed: int,
        sender: Host,
        receiver: Host,
        instance: int,
        port: Port,
    ) -> None:
        index = (sender.node, receiver.node, instance)
        delay = special.delay if special and special.delay is not None else network.delay
        loss = special.loss if special and special.loss is not None else network.loss
        assert not isinstance(delay, str)
        self.alive = True
        self.sender = sender
        self.receiver = receiver
        self._scheduler = scheduler
        self._delay: Callable[[], int] = sampler(delay, Stream(seed, "delay", *index), scheduler)
        self._loss_below = int(loss * 2**64)
        self._loss_bits = Stream(seed, "loss", *index).bits
        self._fifo = network.fifo
        self._arrives = 0
        self._number = -1
        self._train: list[tuple[Frame, int]] = []
        self._bandwidth = special.bandwidth if special and special.bandwidth else network.bandwidth
        self._queue_limit = network.queue_limit
        self._port = port

    def send(self, frame: Frame, size: int) -> bool:
        """Put a frame on the link; False if the queue had no room for it."""
        scheduler = self._scheduler
        leaves = scheduler.now
        if self._bandwidth is not None:
            port = self._port
            starts = max(leaves, port.free_at)
            if self._queue_limit is not None:
                waiting = (starts - leaves) * self._bandwidth // _BITS_NS
                if waiting + size > self._queue_limit:
                    return False
            leaves = port.free_at = starts + size * _BITS_NS // self._bandwidth
        arrives = leaves + self._delay()
        if self._loss_below and self._loss_bits() < self._loss_below:
            return True
        self._board(arrives, frame, size)
        return True

    def _board(self, arrives: int, frame: Frame, size: int) -> None:
        """Put a frame onto the train that arrives then, or onto a new one."""
        scheduler = self._scheduler
        if self._fifo and arrives < self._arrives:
            arrives = self._arrives
        if arrives == self._arrives and scheduler.scheduled == self._number:
            self._train.append((frame, size))
        else:
            train = self._train = [(frame, size)]
            scheduler.at(arrives, self._arrive, train)
            self._arrives, self._number = arrives, scheduler.scheduled

    def _arrive(self, train: list[tuple[Frame, int]]) -> None:
        receive, sender = self.receiver.receive, self.sender.node
        for frame, size in train:
            if self.alive:
                receive(frame, sender, size)
