"""The contract of a protocol: a state machine without I/O.

Rules a driver keeps:
1. One call at a time; effects are carried out in order, all of them, before the next call.
2. `now` is the node's local clock in nanoseconds. It never goes back.
3. `link_up(peer)` comes before anything is received from `peer` on that link, and `link_down(peer)`
   after the last of it. A link that breaks and comes back is a new link.
4. Timers fire once, at or after their time.

Rules a protocol keeps:
1. It draws no random numbers, reads no clock, does no I/O and keeps no global state.
2. A frame that a correct peer would not send raises `RemoteFault` and changes nothing.
3. `snapshot()` holds all that `restore()` needs to go on after a crash, as plain values that
   MessagePack can hold. Links and timers are not part of it: after a crash they start anew.
"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias, runtime_checkable

from antecast.core.effects import Effect
from antecast.core.frames import Frame
from antecast.core.ids import NodeId, Timer
from antecast.core.wire import Codec

State: TypeAlias = Mapping[str, Any]


class Protocol(ABC):
    """One node's side of a broadcast protocol."""

    node: NodeId
    codec: Codec

    @abstractmethod
    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        """Broadcast to everyone; the node's own delivery is among the effects.

        Where a node's own messages come back through the network, `Accepted` stands in its place.
        `lifetime` bounds how long the message may travel, where the protocol knows lifetimes;
        elsewhere it is a `LocalMisuse` to name one.
        """

    @abstractmethod
    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]: ...

    @abstractmethod
    def link_up(self, peer: NodeId, now: int) -> list[Effect]: ...

    @abstractmethod
    def link_down(self, peer: NodeId, now: int) -> list[Effect]: ...

    @abstractmethod
    def timer(self, token: Timer, now: int) -> list[Effect]: ...

    @abstractmethod
    def snapshot(self) -> State: ...

    @abstractmethod
    def restore(self, state: State) -> None: ...

    @abstractmethod
    def gauges(self) -> dict[str, int]:
        """Sizes of the registries and buffers, by name: what the protocol costs in memory."""


@runtime_checkable
class LinkSafety(typing.Protocol):
    """A protocol that brings its links into use one by one, and can be asked how far it has come.

    Overlays that change while messages flow use it: a link is passed on only once it is safe, and the one
    who passes it on stays until both new neighbours are safe with each other.
    """

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        """The next `link_up(peer)` comes about through `by`, a neighbour of both."""

    def safe(self, peer: NodeId) -> bool:
        """Whether everything sent over the link to `peer` keeps causal order there."""


@runtime_checkable
class Leaving(typing.Protocol):
    """A protocol in which a node that goes for good says so, and waits until it has been heard."""

    def leave(self, now: int) -> list[Effect]:
        """Begin to leave. Nothing may be broadcast any more."""

    @property
    def left(self) -> bool:
        """Whether the others have let it go: the driver may stop the node."""
