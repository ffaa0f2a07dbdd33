"""Point-to-point links: delay, loss, order, bandwidth and queues.

A link here is one direction of a connection, from the moment it comes up until it goes down. A
connection that comes back is a new link: what was in flight on the old one is lost.
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
_LOST, _NO_ROOM = -1, -2
"""Instead of the time of arrival."""


class Port:
    """Where frames wait to be sent: one a node, or one a link."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0


class Link:
    """One direction of a connection while it is up."""

    __slots__ = (
        "_bandwidth", "_delay", "_fifo", "_last", "_loss_below", "_loss_bits", "_port", "_queue_limit",
        "_scheduler", "alive", "receiver", "sender",
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
        self._last = 0
        self._bandwidth = special.bandwidth if special and special.bandwidth else network.bandwidth
        self._queue_limit = network.queue_limit
        self._port = port

    def send(self, frame: Frame, size: int) -> bool:
        """Put a frame on the link; False if the queue had no room for it."""
        arrives = self._arrival(size)
        if arrives >= 0:
            self._scheduler.at(arrives, self._arrive, (frame, size))
        return arrives != _NO_ROOM

    def send_all(self, frames: list[Frame], sizes: list[int]) -> list[bool]:
        """Put frames on the link, one behind the other; for each, whether the queue had room for it.

        Those that arrive at one instant travel as a train, which is one event for the scheduler. They are
        received one by one, exactly as if each had been an event of its own.
        """
        found_room: list[bool] = []
        train: list[tuple[Frame, int]] = []
        train_arrives = _LOST
        for frame, size in zip(frames, sizes, strict=True):
            arrives = self._arrival(size)
            found_room.append(arrives != _NO_ROOM)
            if arrives >= 0:
                if arrives != train_arrives:
                    train, train_arrives = [], arrives
                    self._scheduler.at(arrives, self._arrive_all, train)
                train.append((frame, size))
        return found_room

    def _arrival(self, size: int) -> int:
        """When a frame that is sent now arrives, or why it does not."""
        leaves = self._scheduler.now
        if self._bandwidth is not None:
            port = self._port
            starts = max(leaves, port.free_at)
            if self._queue_limit is not None:
                waiting = (starts - leaves) * self._bandwidth // _BITS_NS
                if waiting + size > self._queue_limit:
                    return _NO_ROOM
            leaves = port.free_at = starts + size * _BITS_NS // self._bandwidth
        arrives = leaves + self._delay()
        if self._loss_below and self._loss_bits() < self._loss_below:
            return _LOST
        if self._fifo:
            arrives = self._last = max(arrives, self._last)
        return arrives

    def _arrive(self, what: tuple[Frame, int]) -> None:
        if self.alive:
            self.receiver.receive(what[0], self.sender.node, what[1])

    def _arrive_all(self, train: list[tuple[Frame, int]]) -> None:
        receive, sender = self.receiver.receive, self.sender.node
        for frame, size in train:
            if self.alive:
                receive(frame, sender, size)
