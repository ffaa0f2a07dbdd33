"""Waits that differ from node to node and from one to the next, and are the same in every run.

Protocols draw no random numbers; yet the hosts of a cell must not all answer at once what they all hear at once.
"""

from antecast.core import NodeId


def dither(node: NodeId, count: int, span: int) -> int:
    """A time from 0 to a span, scrambled from a node and its count of such waits.

    >>> dither(3, 1, 1000) == dither(3, 1, 1000), 0 <= dither(3, 2, 1000) < 1000
    (True, True)
    """
    scrambled = (node * 0x9E3779B1 + count * 0x85EBCA77 + 0xC2B2AE35) & 0xFFFFFFFF
    scrambled ^= scrambled >> 15
    scrambled = scrambled * 0x2C1B3C6D & 0xFFFFFFFF
    return span * (scrambled >> 16) >> 16


class Dither:
    """The waits of one node, counted."""

    __slots__ = ("_count", "_node")

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self._count = 0

    def __call__(self, span: int) -> int:
        self._count += 1
        return dither(self._node, self._count, span)
