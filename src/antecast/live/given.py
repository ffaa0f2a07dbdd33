"""What an application gives to a node, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from operator import index
from typing import SupportsIndex

from antecast.core import MAX_PAYLOAD, ConfigurationError, LocalMisuse, NodeId


def node_number(number: SupportsIndex) -> NodeId:
    """Of a whole number of any kind, such as NumPy's, the plain one: a journal can keep no other."""
    with suppress(TypeError):
        if 0 <= index(number) < 1 << 32:
            return int(index(number))
    raise ConfigurationError(f"expected a number from 0 to {(1 << 32) - 1}, got {number!r}", field="number")


def whole_number(number: SupportsIndex) -> int:
    """The number of a delivery."""
    try:
        return int(index(number))
    except TypeError:
        raise LocalMisuse(f"expected the number of a delivery, got {number!r}") from None


def checked_payloads(payloads: Iterable[bytes], lifetime: int | None, most: int = MAX_PAYLOAD) -> list[bytes]:
    """Payloads that can be broadcast, or none of them: a mistake in the last must not send the first."""
    checked = list(payloads)
    if {*map(type, checked)} - {bytes}:
        for payload in checked:
            if not isinstance(payload, bytes | bytearray | memoryview):
                raise LocalMisuse(f"a payload is bytes, not {type(payload).__name__}")
        checked = list(map(bytes, checked))
    largest = max(map(len, checked), default=0)
    if largest > most:
        where = " on a shared medium" if largest <= MAX_PAYLOAD else ""
        raise LocalMisuse(f"payload of {largest} bytes exceeds the limit of {most}{where}")
    if lifetime is not None and type(lifetime) is not int:
        raise LocalMisuse(f"a lifetime is a whole number of nanoseconds, not {lifetime!r}")
    return checked
