"""A node with a radio: a host of the simulator that can also speak to a whole cell."""

from __future__ import annotations

from collections.abc import Callable

from antecast.core import Effect, Frame, Leaving, Message, NodeId, Transmit
from antecast.history.log import NONE
from antecast.history.schema import Kind
from antecast.sim.host import Host
from antecast.sim.links import Parcel

_SEND = int(Kind.SEND)


class RadioHost(Host):
    """Carries out `Transmit` over the air, and says goodbye before it goes."""

    __slots__ = ("on_left", "transmit")

    transmit: Callable[[NodeId, Frame, int], bool]
    on_left: Callable[[RadioHost], None]

    def leave(self) -> None:
        """Let the protocol say goodbye; `on_left` is called when it has been heard."""
        assert isinstance(self.protocol, Leaving)
        self.leaving = True
        self.perform(self.protocol.leave(self.local_time()))

    def receive(self, parcel: Parcel, sender: NodeId) -> None:
        super().receive(parcel, sender)
        if self.leaving and isinstance(self.protocol, Leaving) and self.protocol.left and self.up:
            self.on_left(self)

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, Transmit):
            self._transmit(effect.frame)
        else:
            super()._perform_rare(effect)

    def _transmit(self, frame: Frame) -> None:
        if not self.transmit(self.node, frame, self.protocol.codec.size(frame)):
            self.dropped += 1

    def on_air(self, frame: Frame, size: int, to: NodeId | None) -> None:
        """A frame that waited at the radio is being sent: to a station, or to the whole cell."""
        if self._frames:
            peer = NONE if to is None else to
            if frame.__class__ is Message:
                self.note(_SEND, frame.origin, frame.seq, peer, size)
            else:
                self.note(_SEND, NONE, NONE, peer, size)
