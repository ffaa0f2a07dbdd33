"""Dissemination: decides how a message reaches everyone. It knows nothing of causality.

Calls append their effects to `out`, the list that the driver will carry out. What arrives goes up
through `Above`, in whatever order the network brought it, each message at most once.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from antecast.core import Effect, Frame, Message, NodeId, State, Timer


class Above(Protocol):
    """What a dissemination tells the layer above it."""

    timed: bool
    """Whether messages have deadlines."""

    def admit(self, message: Message[Any], now: int) -> str | None:
        """Why a message should not be taken, or None; see `Ordering.admit`."""

    def early(self, message: Message[Any], now: int) -> bool:
        """Whether a message would have to wait for others."""

    def weight(self, message: Message[Any]) -> int:
        """About how many bytes of memory a message takes while it waits."""

    def deadline(self, message: Message[Any]) -> int | None:
        """Until when a message is worth keeping."""

    def arrived(self, message: Message[Any], now: int, out: list[Effect]) -> bool:
        """A message that was not here before; returns whether it has to wait."""

    def expired(self, now: int, out: list[Effect]) -> None:
        """Messages kept here have reached the end of their lifetimes."""

    def skipped(self, base: Mapping[NodeId, int], out: list[Effect]) -> None:
        """Messages up to `base` that are not here yet will not come."""

    @property
    def complete(self) -> bool:
        """Whether any messages may be skipped; see `Ordering.complete`."""

    def pending(self) -> list[Message[Any]]:
        """The messages that wait for others."""

    def missing(self, message: Message[Any]) -> Mapping[NodeId, int]:
        """What a message waits for; see `Ordering.missing`."""

    def progress(self) -> Mapping[NodeId, int]:
        """For each source, the last message delivered or skipped."""


class Dissemination(ABC):
    frames: ClassVar[tuple[type[Frame], ...]]
    """Its own frames, besides the messages."""

    keeps: ClassVar[bool] = True
    """Whether it keeps messages for others, and so has to be told which are settled."""

    counts_all: ClassVar[bool] = True
    """Whether it also has to be told of a message that is settled as soon as it arrives."""

    above: Above

    def attach(self, above: Above) -> None:
        """Attach to the layer above; called once, before anything else."""
        self.above = above

    def enter(self) -> None:
        """This node is about to broadcast for the first time; `LocalMisuse` if there is no room for another
        source."""
        return

    @abstractmethod
    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        """Send this node's own new message on its way."""

    def settled(self, message: Message[Any]) -> None:
        """The layer above is done with this message: delivered or given up."""
        return

    def all_settled(self, messages: list[Message[Any]]) -> None:
        """The same for several, first the one that arrived if it is among them. Called for every arrival."""
        for message in messages:
            self.settled(message)

    @abstractmethod
    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None: ...

    @abstractmethod
    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None: ...

    @abstractmethod
    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None: ...

    @abstractmethod
    def timer(self, token: Timer, now: int, out: list[Effect]) -> None: ...

    def resume(self, now: int, out: list[Effect]) -> None:
        """The first call after `restore`: set the timers that a crash has lost, do what fell due meanwhile.
        Links come up one by one afterwards."""
        return

    @abstractmethod
    def snapshot(self) -> State: ...

    @abstractmethod
    def restore(self, state: State, messages: list[Message[Any]]) -> None: ...

    @abstractmethod
    def stored(self) -> list[Message[Any]]:
        """The messages kept for others, oldest first; saved beside the snapshot."""

    @abstractmethod
    def gauges(self) -> dict[str, int]: ...
