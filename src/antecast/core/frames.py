"""Frames: what travels between nodes. A message is a frame; protocols add frames of their own.

Every size is bounded here, where frames are declared, so that the decoder refuses what is too
large before a protocol sees it. The bounds are generous for honest use, and limit the memory that a stranger can
make us use: one frame costs a receiver a few MiB at most.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec

from antecast.core.ids import MessageId, NodeId

MAX_PAYLOAD = 1 << 20
"""Largest payload: 1 MiB. Larger things are sent by reference."""

MAX_SOURCES = 1 << 16
"""Most sources a clock can name: at 65 536 a full clock already weighs more than most payloads."""

Source = Annotated[NodeId, msgspec.Meta(ge=0, lt=1 << 32)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
Payload = Annotated[bytes, msgspec.Meta(max_length=MAX_PAYLOAD)]

Clock: TypeAlias = Annotated[dict[Source, Count], msgspec.Meta(max_length=MAX_SOURCES)]
"""A vector clock as a map: a source that is absent counts as zero."""

S = TypeVar("S")


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The base of everything on the wire. Subclasses set an integer `tag` unique in their protocol."""

    @property
    def payload_size(self) -> int:
        """Bytes of application data inside; the rest of the encoded frame is control information."""
        return sum(message.payload_size for message in self.carried)

    @property
    def carried(self) -> tuple[Message[Any], ...]:
        """The messages inside, in the order in which a receiver takes them in."""
        return ()


class Message(Frame, Generic[S], frozen=True, array_like=True, gc=False, tag=0):
    """One broadcast of one source, with the stamp that its ordering put on it."""

    origin: Source
    seq: Seq
    payload: Payload
    stamp: S

    @property
    def id(self) -> MessageId:
        return MessageId(self.origin, self.seq)

    @property
    def payload_size(self) -> int:
        return len(self.payload)

    @property
    def carried(self) -> tuple[Message[Any], ...]:
        return (self,)
