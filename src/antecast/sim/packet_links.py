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

Where links can end (faults, contacts, overlays), packets wait in a queue that they can be withdrawn from, and are
logged as sent when they go on the air (`Port`). Where links last, all that is queued is sent: when is known at
once, nothing is kept, and `send` stands in the log at the time of queueing, so that the wait can be read off it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecast.core import Frame
from antecast.sim.links import QUEUED, SENT, Link, Medium, Parcel, Port, Receiver
from antecast.sim.streams import Stream

if TYPE_CHECKING:
    from antecast.sim.host import Host


class PacketLink(Link):
    """One direction of a connection of a packet network while it is up."""

    __slots__ = ("_at_the_end",)

    def __init__(self, medium: Medium, sender: Host, receiver: Receiver, instance: int, port: Port) -> None:
        super().__init__(medium, sender, receiver, instance, port)
        self._at_the_end = self._arrive  # made once: a hundred thousand packets may be on their way

    def send(self, parcel: Parcel) -> int:
        medium = self._medium
        leaves = medium.scheduler.now + medium.processing
        transmission = medium.transmission
        if transmission is not None:
            port = self._port
            if leaves < port.free_at:
                leaves = port.free_at
            leaves = port.free_at = leaves + transmission
        arrives = leaves + medium.draw(self._delays if not medium.coupled else self._of_its_own(parcel[0]))
        if self._losses is not None and self._losses.bits() < medium.loss_below:
            medium.lost += 1
            return SENT
        if medium.fifo:
            arrives = self._last = max(arrives, self._last)
        medium.at(arrives, self._at_the_end, parcel)
        return SENT

    def send_all(self, parcels: list[Parcel]) -> list[int]:
        return [self.send(parcel) for parcel in parcels]

    def _propagation(self, parcel: Parcel) -> Stream:
        return self._delays if not self._medium.coupled else self._of_its_own(parcel[0])

    def _of_its_own(self, frame: Frame) -> Stream:
        """The stream for the frame's last message, which is the same whenever that message crosses this link."""
        if not frame.carried:
            return self._delays
        last = frame.carried[-1]
        index = (self._from, self._to.node, self._instance, last.origin, last.seq)
        return Stream(self._medium.seed, "delay of", *index)


class EndingPacketLink(PacketLink):
    """The same where the connection may end: what waits then is withdrawn."""

    __slots__ = ()

    def send(self, parcel: Parcel) -> int:
        medium = self._medium
        if medium.processing:
            medium.at(medium.scheduler.now + medium.processing, self._worked_on, parcel)
            return QUEUED
        return self._port.send(self, parcel, medium, medium.transmission or 0)

    def _worked_on(self, parcel: Parcel) -> None:
        if self.alive:
            self._port.hand_over(self, parcel, self._medium, self._medium.transmission or 0)

    def launch(self, parcel: Parcel, leaves: int) -> None:
        medium = self._medium
        arrives = leaves + medium.draw(self._propagation(parcel))
        if self._losses is not None and self._losses.bits() < medium.loss_below:
            return
        if medium.fifo:
            arrives = self._last = max(arrives, self._last)
        medium.at(arrives, self._at_the_end, parcel)

    def end(self) -> None:
        self.alive = False
        self._port.withdraw(self, self._medium)
