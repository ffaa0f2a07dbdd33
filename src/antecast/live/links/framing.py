"""The frames of a TCP connection.

    length (4 bytes, big endian) | packet

A length of 0 is a heartbeat; one of all ones asks for a heartbeat in return. With its highest bit set, a length
is that of a bulletin of the group's authority, with the next one that of a word of the overlay, with the one after
that of a word of lives. Any other length above the largest frame ends the connection before anything is read or
kept.
"""

from __future__ import annotations

import struct
from typing import Final

from antecast.live.lives import LARGEST as LARGEST_LIVES

HEARTBEAT: Final = bytes(4)
LENGTH: Final = struct.Struct(">I")
PING: Final = b"\xff" * 4
PING_LENGTH: Final = (1 << 32) - 1
BULLETIN: Final = 1 << 31
LARGEST_BULLETIN: Final = 4 << 20
ASIDE: Final = 1 << 30
LARGEST_ASIDE: Final = 1 << 16
LIVES: Final = 1 << 29


def flag_of(length: int) -> int:
    """The bit that marks what is no packet of the protocol; 0 for a length that nobody announces."""
    if length & BULLETIN and length ^ BULLETIN <= LARGEST_BULLETIN:
        return BULLETIN
    if 0 < length ^ ASIDE <= LARGEST_ASIDE:
        return ASIDE
    return LIVES if 0 < length ^ LIVES <= LARGEST_LIVES else 0
