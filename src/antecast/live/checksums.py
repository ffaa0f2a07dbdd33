"""The checksums of what a journal holds: each covers all columns of its row.

A damaged row may hold anything, text in place of a number too. Such values have the checksum -1, which no row has.
"""

from __future__ import annotations

import struct
from zlib import crc32

from antecast.live.entries import Delivery

_THREE, _FOUR, _SIX = struct.Struct(">QQQ"), struct.Struct(">qqqq"), struct.Struct(">qqqqqq")
_ODD = (struct.error, TypeError)


def checksum_of(*values: object) -> int:
    """Of a few values of any kind."""
    return crc32(repr(values).encode())


def checksum_of_group(first: int, last: int, delivered: int, data: bytes, chain: int) -> int:
    """Continues `chain`, the checksum of the group before."""
    try:
        return crc32(data, crc32(_THREE.pack(first, last, delivered), chain))
    except _ODD:
        return -1


def checksum_of_snapshot(
    position: int, now: int, delivered: int, events: int, chain: int, exact: int, state: bytes
) -> int:
    try:
        return crc32(state, crc32(_SIX.pack(position, now, delivered, events, chain, exact)))
    except _ODD:
        return -1


def checksum_of_delivery(each: Delivery) -> int:
    try:
        return crc32(each.payload, crc32(_FOUR.pack(each.number, each.origin, each.seq, each.at)))
    except _ODD:
        return -1
