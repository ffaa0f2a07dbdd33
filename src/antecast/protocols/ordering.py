"""Ordering: decides when a received message may be delivered. It knows nothing of links.

`stamp` runs at the source, `accept` at every receiver. An ordering sees each message at most once
(the dissemination drops copies) and holds back those that came too early. When the dissemination
learns that some messages can no longer be had (a newcomer, a node that was away for too long), it
says so with `skip`, and the ordering goes on as if they had been delivered.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from antecast.core import Message, NodeId

S = TypeVar("S")


class Skipped(NamedTuple):
    """What a skip sets free, in the order of delivery, and what it makes undeliverable."""

    released: list[Message[Any]]
    dropped: list[Message[Any]]


class Ordering(ABC, Generic[S]):
    stamp_type: ClassVar[Any]
    """The type of the stamps, for the decoder."""

    waits: ClassVar[bool]
    """Whether a message can wait for another; if so, `progress` and `skip` mean something."""

    @abstractmethod
    def stamp(self, seq: int) -> S:
        """The stamp of this node's next message, which counts as delivered from now on."""

    @abstractmethod
    def accept(self, message: Message[S]) -> list[Message[S]]:
        """Take a message in; the messages that may now be delivered, in order."""

    @abstractmethod
    def skip(self, base: Mapping[NodeId, int]) -> Skipped:
        """Count each source's messages up to `base` as delivered. `base` must be causally closed."""

    @abstractmethod
    def progress(self) -> Mapping[NodeId, int]:
        """For each source, the last message delivered or skipped."""

    @abstractmethod
    def pending(self) -> list[Message[S]]:
        """The messages held back, in no particular order."""

    @abstractmethod
    def restore(self, progress: Mapping[NodeId, int], pending: list[Message[S]]) -> None:
        """Go on from saved progress, with the messages that were held back then."""

    @abstractmethod
    def gauges(self) -> dict[str, int]: ...
