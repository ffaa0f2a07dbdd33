"""Ordering: decides when a received message may be delivered. It knows nothing of links.

`stamp` runs at the source, `accept` at every receiver. An ordering sees each message at most once
(the dissemination drops copies) and holds back those that came too early. Where messages have
lifetimes, it says until when (`deadline`), what it will not take at all (`admit`) and when it wants to
look again (`wakeup`, `expire`). When the dissemination learns that some messages are no longer available (a
newcomer, a node that was away for too long), it says so with `skip`, and the ordering goes on as if they had been
delivered.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from antecast.core import Message, NodeId, State

S = TypeVar("S")

EXPIRED = "expired"
"""Not taken, now or later: its time is over on the local clock."""
AHEAD = "deadline too far ahead"
"""Not taken yet: its deadline is further ahead than a clock within the bounds can have put it."""
UNKNOWN = "waits for what was never broadcast here"
"""Not taken yet: it says that it depends on a message of this node which this node has not broadcast."""
OVERTAKEN = "overtaken"
"""Taken, and then dropped before its time was over: a later one of its source has been delivered."""

MESSAGE_BYTES, ENTRY_BYTES = 400, 200
"""About how many bytes a waiting message takes besides its payload, and each entry of its stamp."""


class Released(msgspec.Struct, frozen=True, gc=False):
    """What may be delivered, in the order of delivery, and what never will be."""

    ready: list[Message[Any]]
    dropped: list[Message[Any]]

    def __iter__(self) -> Iterator[list[Message[Any]]]:
        yield self.ready
        yield self.dropped


NOTHING = Released([], [])
"""A message has to wait. One object for all of them, which nobody changes."""


class Ordering(ABC, Generic[S]):
    stamp_type: ClassVar[Any]
    """The type of the stamps, for the decoder."""

    waits: ClassVar[bool]
    """Whether a message can wait for another; if so, `progress` and `skip` mean something."""

    complete: ClassVar[bool] = False
    """Whether a stamp names all that its message must come after, not only what other messages do not imply.
    Then any messages may be skipped; otherwise only a set that holds, with each message, all that it must come
    after."""

    timed: ClassVar[bool] = False
    """Whether messages have deadlines; if not, the calls about time are never made."""

    release: Callable[[Message[Any]], list[Message[Any]]] | None = None
    """Where nothing is ever dropped on arrival: `accept` without the list of what is, a few calls cheaper."""

    @abstractmethod
    def stamp(self, seq: int, now: int, lifetime: int | None) -> S:
        """The stamp of this node's next message, which counts as delivered from now on."""

    @abstractmethod
    def accept(self, message: Message[S], now: int) -> Released:
        """Take a message in; returns what may now be delivered, and what no longer may."""

    def admit(self, message: Message[S], now: int) -> str | None:
        """Why a message is not taken: `EXPIRED`, `AHEAD`, `UNKNOWN`, or None if it is.

        A stamp that no correct node makes, such as one that waits for its own message, is a `RemoteFault`.
        """
        return None

    def early(self, message: Message[S], now: int) -> bool:
        """Whether a message would have to wait, if it were taken now."""
        return False

    def weight(self, message: Message[S]) -> int:
        """About how many bytes of memory a message takes while it waits."""
        return MESSAGE_BYTES + len(message.payload)

    def deadline(self, message: Message[S]) -> int | None:
        """The last instant of the local clock at which the message may be delivered or passed on."""
        return None

    def wakeup(self) -> int | None:
        """When to call `expire` next, if nothing happens before."""
        return None

    def expire(self, now: int) -> Released:
        """Time has passed; returns what this sets free, and what has expired."""
        return Released([], [])

    def missing(self, message: Message[S]) -> Mapping[NodeId, int]:
        """What a held message waits for: for each source, the last one named, if not delivered yet.

        Only a dissemination that gives messages up asks for it.
        """
        return {}

    @abstractmethod
    def skip(self, base: Mapping[NodeId, int]) -> Released:
        """Count each source's messages up to `base` as delivered. Unless stamps are `complete`, `base` and what
        was delivered must be causally closed."""

    @abstractmethod
    def progress(self) -> Mapping[NodeId, int]:
        """For each source, the last message delivered or skipped."""

    @abstractmethod
    def pending(self) -> list[Message[S]]:
        """The held messages, in no particular order."""

    @abstractmethod
    def snapshot(self) -> State:
        """What `restore` needs, besides the pending messages."""

    @abstractmethod
    def restore(self, state: State, pending: list[Message[S]]) -> None:
        """Go on from a snapshot, with the messages that were held then."""

    @abstractmethod
    def gauges(self) -> dict[str, int]: ...
