"""Links of a packet-switched network: processing, a send queue, transmission, propagation.

The delay model of section 5 of "A Communication-Efficient Causal Broadcast Protocol" (de Araujo, Arantes,
Duarte, Rodrigues and Sens): a packet costs t_pc + t_q + t_t + t_pp. Processing (`network.processing`) is a
time in which a node works on a packet before it queues it; packets are worked on side by side. The queue (one
a node, or one a link) sends one packet after the other, `network.transmission` each, whatever its size; a
packet for several destinations is queued once for each. Propagation (`network.delay`) is drawn for each packet.

With `delays = "message"` a propagation is drawn for the pair (message, link) instead of for the next frame:
it is a pure function of the seed, the two nodes and the message's name. Runs of protocols that send the same
messages at other times are then *coupled*: each message crosses each link in the same time in all of them, and
what differs between the runs is what the protocols do. A frame with several messages takes the time of its
last one; a frame without any draws in turn, from a stream of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecast.core import Frame
from antecast.sim.delays import Delay, sampler
from antecast.sim.links import Link, Port
from antecast.sim.scenario import LinkSettings, NetworkSettings
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream

if TYPE_CHECKING:
    from antecast.sim.host import Host


class PacketLink(Link):
    """One direction of a connection of a packet network while it is up."""

    __slots__ = ("_at_the_end", "_index", "_model", "_processing", "_seed", "_transmission")

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
        super().__init__(scheduler, network, special, seed, sender, receiver, instance, port)
        delay = special.delay if special and special.delay is not None else network.delay
        assert not isinstance(delay, str)
        self._processing = network.processing
        self._transmission = network.transmission
        self._model: Delay | None = delay if network.delays == "message" else None
        self._seed = seed
        self._index = (sender.node, receiver.node, instance)
        self._at_the_end = self._arrive  # made once: a hundred thousand packets may be on their way

    def send(self, frame: Frame, size: int) -> bool:
        transmission = self._transmission
        scheduler = self._scheduler
        leaves = scheduler.now + self._processing
        if transmission is not None:
            port = self._port
            if leaves < port.free_at:
                leaves = port.free_at
            leaves = port.free_at = leaves + transmission
        arrives = leaves + (self._delay() if self._model is None else self._coupled_delay(self._model, frame))
        if self._loss_below and self._loss_bits() < self._loss_below:
            return True
        if self._fifo:
            arrives = self._last = max(arrives, self._last)
        scheduler.at(arrives, self._at_the_end, (frame, size))
        return True

    def send_all(self, frames: list[Frame], sizes: list[int]) -> list[bool]:
        return [self.send(frame, size) for frame, size in zip(frames, sizes, strict=True)]

    def _coupled_delay(self, model: Delay, frame: Frame) -> int:
        if not frame.carried:
            return self._delay()
        last = frame.carried[-1]
        stream = Stream(self._seed, "delay of", *self._index, last.origin, last.seq)
        return sampler(model, stream, self._scheduler)()
