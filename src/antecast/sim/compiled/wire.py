"""How long frames are when they are encoded (`core.wire`), without encoding them: MessagePack in numbers."""

from __future__ import annotations

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole

VERSION_BYTES = 1
"""Before every frame."""


@part
def number_bytes(number: Whole) -> Whole:
    """Of a whole number from 0 on."""
    if number < 1 << 7:
        return 1
    if number < 1 << 8:
        return 2
    if number < 1 << 16:
        return 3
    return 5 if number < 1 << 32 else 9


@part
def head_bytes(count: Whole) -> Whole:
    """Of the head of a list or a map with so many entries."""
    return 1 if count < 1 << 4 else 3 if count < 1 << 16 else 5


@part
def payload_bytes(length: Whole) -> Whole:
    """Of a string of bytes with its head."""
    return length + (2 if length < 1 << 8 else 3 if length < 1 << 16 else 5)


@part
def message_bytes(origin: Whole, seq: Whole, payload: Whole, stamp: Whole) -> Whole:
    """Of a `Message` whose stamp takes so many bytes: a short list of its tag, which is 0, and four fields."""
    return 2 + number_bytes(origin) + number_bytes(seq) + payload_bytes(payload) + stamp


@part
def whole_bytes(number: Whole) -> Whole:
    """Of a whole number, negative ones included."""
    if number >= 0:
        return number_bytes(number)
    if number >= -(1 << 5):
        return 1
    if number >= -(1 << 7):
        return 2
    if number >= -(1 << 15):
        return 3
    return 5 if number >= -(1 << 31) else 9
