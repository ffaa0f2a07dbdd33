"""The wire codec: frames to bytes and back, versioned, with a limit on every size.

A frame on the wire is one byte of version, then a MessagePack array that starts with the tag of
the frame's type. Field bounds are declared with the frames (`core.frames`); the codec adds the
bound on the whole frame. The length of what `encode` returns, less the payload inside, is what
"control bytes" means everywhere in Antecast: it is measured, never estimated.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from antecast.core.errors import FrameTooLarge, LocalMisuse, MalformedFrame, UnsupportedVersion
from antecast.core.frames import MAX_PAYLOAD, Frame

VERSION = 1

MAX_FRAME = 2 * MAX_PAYLOAD
"""Largest frame: a full payload and as much control information again."""

UNDECODABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, TypeError)
"""What msgspec raises for the bytes of a stranger: beside its own errors, one for nests without end, one for text
that is not UTF-8, and one for an element of a set that has no hash."""

_HEAD = bytes([VERSION])
_SMALL = 1 << 12
"""Up to this many bytes a copy of a frame is made faster than a view of it."""


class Codec:
    """Encodes and decodes the frames of one protocol.

    >>> from antecast.core import Message
    >>> codec = Codec([Message[None]])
    >>> data = codec.encode(Message(3, 1, b"hi", None))
    >>> len(data), codec.decode(data).id
    (10, MessageId(origin=3, seq=1))
    """

    def __init__(self, frames: Sequence[Any], *, max_frame: int = MAX_FRAME) -> None:
        self.max_frame = max_frame
        self.frames: Any = reduce(or_, frames)
        """The type of all frames of the protocol, as one union."""
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(self.frames)
        self._encode, self._decode = self._encoder.encode, self._decoder.decode
        self._small = min(_SMALL, max_frame)

    def encode(self, frame: Frame) -> bytes:
        data = _HEAD + self._encode(frame)
        if len(data) > self.max_frame:
            raise LocalMisuse(
                f"frame of {len(data)} bytes exceeds the limit of {self.max_frame}; send less at once"
            )
        return data

    def size(self, frame: Frame) -> int:
        """Length of the encoded frame, without making a copy of it."""
        return 1 + len(self._encoder.encode(frame))

    def decode(self, data: bytes) -> Frame:
        if len(data) <= self._small and data[:1] == _HEAD:
            try:
                return self._decode(data[1:])
            except UNDECODABLE as error:
                raise MalformedFrame(f"not a frame of this protocol: {error}") from None
        return self._decode_with_care(data)

    def _decode_with_care(self, data: bytes) -> Frame:
        if len(data) > self.max_frame:
            raise FrameTooLarge(f"frame of {len(data)} bytes exceeds the limit of {self.max_frame}")
        if not data:
            raise MalformedFrame("empty frame")
        if data[0] != VERSION:
            raise UnsupportedVersion(f"frame has version {data[0]}, this node speaks version {VERSION}")
        try:
            return self._decode(memoryview(data)[1:])
        except UNDECODABLE as error:
            raise MalformedFrame(f"not a frame of this protocol: {error}") from None
