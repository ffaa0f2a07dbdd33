"""Calls: everything that a protocol object is told, as values that the journal keeps.

A protocol is deterministic, so the calls it was given are its state. A call is a plain tuple, since a busy node
makes a hundred thousand of them per second: kind, local time, peer, data, option.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec

from antecast.core import NodeId


class CallKind(IntEnum):
    BROADCAST = 0
    """data: the payload; option: its lifetime."""
    RECEIVE = 1
    """peer, and the packet as it came."""
    LINK_UP = 2
    LINK_DOWN = 3
    TIMER = 4
    """data: the timer's token."""
    RESUME = 5
    """The first call of a life after a restart."""
    LEAVE = 6
    INTRODUCE = 7
    """The next link to `peer` comes about through the node in option."""

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", " ")


class Call(NamedTuple):
    kind: int
    now: int
    peer: NodeId = -1
    data: bytes = b""
    option: int | None = None


Group: TypeAlias = list[tuple[int, int, NodeId, bytes, int | None]]
"""Calls that are committed together: of `Call`, or of plain tuples like it, which are quicker to make."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Call])


def encode_calls(calls: Group) -> bytes:
    """
    >>> decode_calls(encode_calls([Call(CallKind.LINK_UP, 5, 3)]))
    [Call(kind=2, now=5, peer=3, data=b'', option=None)]
    """
    return _encoder.encode(calls)


def decode_calls(data: bytes) -> list[Call]:
    return _decoder.decode(data)
