"""The wire format: what is encoded comes back, and nothing a stranger sends does harm."""

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import (
    MAX_PAYLOAD,
    Clock,
    Codec,
    FrameTooLarge,
    LocalMisuse,
    MalformedFrame,
    Message,
    RemoteFault,
    UnsupportedVersion,
)
from antecast.protocols.retained import Base, Summary

codec = Codec([Message[Clock], Summary, Base])

sources = st.integers(0, 2**32 - 1)
counts = st.integers(0, 2**63 - 1)
clocks = st.dictionaries(sources, counts, max_size=20)
messages = st.builds(Message, sources, st.integers(1, 2**63 - 1), st.binary(max_size=200), clocks)
gaps = st.dictionaries(sources, st.lists(st.integers(1, 2**63 - 1), max_size=5), max_size=5)
frames = messages | st.builds(Summary, clocks, gaps, st.booleans()) | st.builds(Base, clocks)


def is_frame_or_fault(data):
    try:
        frame = codec.decode(data)
    except RemoteFault:
        return True
    return codec.decode(codec.encode(frame)) == frame


@given(frames)
def test_a_frame_comes_back_as_it_was(frame):
    assert codec.decode(codec.encode(frame)) == frame


@given(frames)
def test_the_size_is_the_encoded_length(frame):
    assert codec.size(frame) == len(codec.encode(frame))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_remote_fault_or_a_frame(data):
    assert is_frame_or_fault(data)


@given(frames, st.data())
def test_a_damaged_frame_is_a_remote_fault_or_another_frame(frame, data):
    encoded = bytearray(codec.encode(frame))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    assert is_frame_or_fault(bytes(encoded))


def test_another_version_is_named():
    with pytest.raises(UnsupportedVersion, match="version 9, this node speaks version 1"):
        codec.decode(b"\x09\x90")


def test_an_empty_frame_is_malformed():
    with pytest.raises(MalformedFrame, match="empty"):
        codec.decode(b"")


def test_a_frame_beyond_the_limit_is_refused_unread():
    with pytest.raises(FrameTooLarge, match="exceeds the limit of 100"):
        Codec([Message[None]], max_frame=100).decode(bytes(101))


def test_sending_too_much_is_the_sender_s_mistake():
    with pytest.raises(LocalMisuse, match="send less at once"):
        Codec([Message[None]], max_frame=100).encode(Message(0, 1, bytes(200), None))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([0, -1, 1, b"", {}], "a negative origin"),
        ([0, 0, 0, b"", {}], "a number below 1"),
        ([0, 0, 1, bytes(MAX_PAYLOAD + 1), {}], "a payload beyond the limit"),
        ([0, 0, 1, b"", {0: -1}], "a negative count"),
        ([0, 0, 1, b"", {-1: 1}], "a negative source"),
        ([0, 0, 1, b""], "a missing stamp"),
        ([0, 0, 1, "text", {}], "a payload that is text"),
        ([7, {}], "an unknown tag"),
    ],
)
def test_a_frame_with_a_field_out_of_bounds_is_malformed(fields, why):
    with pytest.raises(MalformedFrame):
        codec.decode(b"\x01" + msgspec.msgpack.encode(fields))


class Worded(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A frame of a protocol of one's own."""

    word: str
    numbers: frozenset[Any] = frozenset()


@pytest.mark.parametrize("size", [0, 5_000])
@pytest.mark.parametrize(
    "body", [b"\x92\x00\xa3a\xffb", b"\x93\x00\xa0\x91\x81\x01\x02"], ids=["text that is not UTF-8", "no hash"]
)
def test_a_frame_with_text_or_sets_is_malformed_like_any_other(body, size):
    with pytest.raises(MalformedFrame):
        Codec([Worded]).decode(b"\x01" + body + bytes(size))


def test_a_clock_with_too_many_sources_is_malformed():
    clock = dict.fromkeys(range(2**16 + 1), 1)
    with pytest.raises(MalformedFrame):
        codec.decode(b"\x01" + msgspec.msgpack.encode([0, 0, 1, b"", clock]))


def test_control_bytes_are_what_the_encoding_adds_to_the_payload():
    message = Message(3, 200, b"x" * 64, {1: 5, 2: 70_000})
    encoded = codec.encode(message)
    assert message.payload in encoded
    assert len(encoded) - message.payload_size == 1 + 1 + 1 + 1 + 2 + 2 + 1 + 2 + 6


DEEP = 1_200 if sys.version_info < (3, 12) else 12_000
"""A little more than the interpreter's limit; from 3.12 on, C code has one of its own."""


@pytest.mark.parametrize("depth", [DEEP, 100_000])
def test_nests_without_end_are_malformed_wherever_they_are(depth):
    nest = b"\x91" * depth + b"\x90"
    frame = msgspec.msgpack.encode([0, 0, 1, b"", {}])[1:]
    with pytest.raises(MalformedFrame):
        codec.decode(b"\x01\x96" + frame + nest)  # as a sixth field, which the decoder skips
    with pytest.raises(MalformedFrame):
        codec.decode(b"\x01" + nest)
