"""Packets: one message or several, up to what the network carries in one piece."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec

from antecast.core import Clock, Frame, Message

_ENVELOPE = 6
"""Bytes around the messages of a packet, at most: version, array, tag, and the head of the list."""

_encode = msgspec.msgpack.Encoder().encode


class Packet(Frame, frozen=True, array_like=True, gc=False, tag=3):
    """Messages on their way down a tree, in the order in which they are to be taken in."""

    messages: Annotated[tuple[Message[Clock], ...], msgspec.Meta(min_length=1, max_length=1 << 16)]

    @property
    def carried(self) -> tuple[Message[Any], ...]:
        return self.messages


def fill(messages: Sequence[Message[Any]], room: int) -> Iterator[Packet]:
    """Packets of at most `room` encoded bytes, filled in order: one that has no place for the next message is
    closed, and a new one begun. A message that is larger than that travels alone."""
    if len(messages) == 1:
        yield Packet((messages[0],))
        return
    batch: list[Message[Any]] = []
    used = _ENVELOPE
    for message in messages:
        size = len(_encode(message))
        if batch and used + size > room:
            yield Packet(tuple(batch))
            batch, used = [], _ENVELOPE
        batch.append(message)
        used += size
    yield Packet(tuple(batch))
