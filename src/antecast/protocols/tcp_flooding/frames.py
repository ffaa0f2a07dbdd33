"""Frames and settings of `tcp-flooding`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from antecast.core import Codec, Frame, Message
from antecast.core.frames import Count, Source
from antecast.core.settings import Duration, Settings

_MS = 10**6
_MOST = 1 << 12


class TcpSettings(Settings, frozen=True, kw_only=True):
    window: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 46
    """Segments under way at once, at most."""
    segment: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)] = 536
    """Bytes of payload per segment: small messages travel together."""
    retransmit: Duration = Duration(200 * _MS)
    """The earliest that a segment is sent again; doubled with each attempt."""
    retransmit_most: Duration = Duration(60_000 * _MS)
    ack: Duration = Duration(200 * _MS)
    """The heartbeat on which acknowledgements go out."""
    nagle: bool = True
    """Hold a small segment back while another is under way."""
    pace: Duration = Duration(5 * _MS)
    """The pause between two hosts of a cell to which a station sends the same message."""
    connect: Duration = Duration(1000 * _MS)
    """After how long a host asks again for a connection; doubled with each attempt."""


class Open(Frame, frozen=True, array_like=True, gc=False, tag=1):
    """A host asks for a connection; `count` tells it from older ones."""

    count: Count


class Opened(Frame, frozen=True, array_like=True, gc=False, tag=2):
    to: Source
    count: Count


class Segment(Frame, frozen=True, array_like=True, gc=False, tag=3):
    to: Source
    number: Count
    ack: Count
    messages: Annotated[list[Message[None]], msgspec.Meta(max_length=_MOST)]

    @property
    def payload_size(self) -> int:
        return sum(len(message.payload) for message in self.messages)


class SegmentAck(Frame, frozen=True, array_like=True, gc=False, tag=4):
    to: Source
    ack: Count


CODEC = Codec([Message[None], Open, Opened, Segment, SegmentAck])
