"""The contract of a protocol: a state machine without I/O, and the driver that feeds it.

**Calls and effects.** Rules a driver keeps:

1. One call at a time. All effects of a call are carried out, in order, before the next call. An application that
   broadcasts from inside a delivery has asked for the next call: it is made when the effects of the current one
   are done. So an answer depends on all that the application has been shown.
2. `now` is the node's local clock in nanoseconds. It never goes back, not even over a restart.
3. Timers fire once, at or after their time. A crash loses them.
4. A call that raises `RemoteFault` has changed nothing and has no effects. The driver drops the frame,
   counts it and goes on; it need not close the link, since the sender may have been misled itself.
   `LocalMisuse` is the driver's or the application's own mistake, and has changed nothing either.

**Links.** A link to a peer has two ends, and each end comes up and goes down at its own time:

5. `receive(frame, peer)` comes only between `link_up(peer)` and `link_down(peer)`, and only with frames sent
   over that very link. What was sent before this end came up waits until it has; what arrives after this end went
   down is dropped by the driver, even if a new link to the same peer is up by then.
6. A link that breaks and comes back is a new link, at both ends, though the two may notice at different
   times: one end may still send into the old link, or be on its second new one. A `link_up(peer)` without a
   `link_down(peer)` before it means that the old link is gone: the same as both calls. A `link_down` of a
   link that is not up does nothing.
7. What was on its way when a link broke may or may not have arrived. While a link is up at both ends it is as
   reliable and as ordered as the protocol's `needs` say. A link that keeps order has no gaps even when it breaks:
   nothing arrives over it after something that was lost.
8. A shared medium (`Transmit`) has no links: whoever hears a frame receives it.

**Crashes.** A driver that supports them keeps these:

9. The state is saved after each call and before any of its effects leaves the node: `snapshot()`, together
   with the deliveries of that call. Saved later, a message number could be used twice; without the
   deliveries, one could be lost. Several calls may share one save, if none of their effects leaves before it.
10. After a crash: a new object of the same number and settings, `restore(snapshot)`, deliveries that were
    saved but not handed on, `resume(now)` and its effects, then `link_up` for each link. Frames that had not been
    sent are lost with their links. A delivery belongs to the time of its call: one that is handed on after its
    deadline was in time.
11. A number stands for one life of a node. A node that has lost its state, or has only an older copy of it,
    never comes back under its number: it joins under one that was never used (see `core.ids`). A protocol
    that hears of messages of its own that it never broadcast says so in an `Alert`, and goes on. (It hears of
    none if, before its first link, it broadcasts as many as in its old life: others take these for copies. And
    what depends on its old messages it neither delivers nor passes on. So the rule is the driver's to keep.)

Rules a protocol keeps:

1. It draws no random numbers, reads no clock, does no I/O and keeps no global state: the same calls give
   the same effects.
2. It sends only to peers whose link is up at its end. (A driver drops and counts what is sent to others.)
3. Frames that must leave before any answer to a delivery come before that delivery in the list of effects.
4. A frame from a peer without a link, and one that no correct peer would send, raises `RemoteFault` and
   changes nothing. A frame that decodes never does lasting damage: it does not hang the node, does not make
   its memory grow without bound, and honest nodes go on delivering all that they send to each other. What a
   protocol cannot prevent is stated in its documentation (a member that signs with another's number).
5. It never sends a frame that every receiver refuses for its size: that is a `LocalMisuse` at the source.
6. `snapshot()` holds all that `restore()` needs to go on after a crash, as plain values that MessagePack can
   hold. Links and timers are not part of it. Every role of a protocol has it.
7. `broadcast` gives exactly one `Deliver` of the new message, or one `Accepted` in its place where the
   delivery comes later.
8. `clone()` gives an object that shares nothing with this one that could change, and `canonical()` a value: two
   objects of one number and settings with equal values give the same effects for the same calls, for ever. Both
   come from the attributes of the object, whatever they are (`core.structure`); no effect may depend on the
   iteration order of a set. Links are part of this state. Timers are kept by the driver, which compares them
   itself.
"""

import typing
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self, TypeAlias, runtime_checkable

from antecast.core.canonical import canonical_form
from antecast.core.effects import Effect
from antecast.core.frames import Frame
from antecast.core.ids import NodeId, Timer
from antecast.core.structure import copy_structure
from antecast.core.wire import Codec

State: TypeAlias = Mapping[str, Any]


class Protocol(ABC):
    """One node's side of a broadcast protocol."""

    node: NodeId
    codec: Codec
    tallies: ClassVar[tuple[str, ...]] = ()
    """Attributes that only `gauges` reads, such as counts of what was sent: not part of `canonical()`."""

    @abstractmethod
    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        """Broadcast to everyone; the node's own delivery is among the effects.

        Where a node's own messages come back through the network, `Accepted` stands in its place.
        `lifetime` bounds how long the message may travel, where the protocol supports lifetimes;
        elsewhere, giving one is a `LocalMisuse`.
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

    def resume(self, now: int) -> list[Effect]:
        """The first call after `restore`: sets the timers that a crash has lost, and does what fell due
        meanwhile. Protocols that wait only for links need not implement it."""
        return []

    def clone(self) -> Self:
        """An object in the same state, independent from here on."""
        return copy_structure(self)

    def canonical(self) -> Hashable:
        """The whole state as a value, links included: equal states behave equally, for ever."""
        return canonical_form(self)

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
    """A protocol in which a node that leaves for good says so, and waits until others have heard it."""

    def leave(self, now: int) -> list[Effect]:
        """Begin to leave. Nothing may be broadcast any more."""

    @property
    def left(self) -> bool:
        """Whether the others have let it go: the driver may stop the node."""
