"""Whom a process has lost touch with: what lets the parts of an overlay find each other again.

A partition that outlasts an exchange makes each side forget the other: every arc that leads across is unreachable
and given up. No view then says that there is another side. So a process remembers those it has lost, and tries
one of them at each of its exchanges, for as long as it takes.

The memory also keeps the number of arcs right. Spray replaces a lost arc by a copy of another or lets it go, so
that the arcs follow the size of the network; and when those who were lost come back, the network is as large as
before. So an arc that was let go is *owed*: it comes back when its process answers. A process whose arc was
replaced is owed nothing. If it answers, the two compare whom they know: where their neighbours, or those of their
neighbours, are the same, they are in one overlay and need no arc. Else one is made, and that is one too many: the
next arc that is lost pays for it.

A process that leaves for good may have been the only link between two parts; to remember it is in vain. So a
process that loses a neighbour also tries the last neighbours from whom exchanges had parted it.
"""

from __future__ import annotations

from typing import Final

from antecast.core import NodeId

KEPT: Final = 16
"""Processes that a process remembers. While everybody else is replaced once by a newcomer it loses about as many
as its view holds, ln n: enough up to some million processes, and those lost before are no longer there."""


MET: Final = 4
"""Earlier neighbours that a process keeps in mind, in case the one who led to the others is lost."""


class Memory:
    """The processes that one process has lost, in the order in which it will try them.

    >>> memory = Memory()
    >>> memory.lose(7, owed=0)
    >>> memory.lose(9, owed=1)
    >>> memory.turn(), memory.turn(), memory.turn()
    (7, 9, 7)
    >>> memory.find(9), len(memory)
    (1, 1)
    """

    __slots__ = ("_met", "_owed", "surplus")

    def __init__(self) -> None:
        self._owed: dict[NodeId, int] = {}
        self._met: dict[NodeId, None] = {}
        self.surplus = 0
        """Arcs that were made beyond those owed, and not paid for yet."""

    def __len__(self) -> int:
        return len(self._owed)

    @property
    def owed(self) -> int:
        return sum(self._owed.values())

    def lose(self, peer: NodeId, *, owed: int) -> None:
        """Remember a process, to be tried after all others; if there is no room, the next in turn is forgotten."""
        self._owed[peer] = self._owed.pop(peer, 0) + owed
        if len(self._owed) > KEPT:
            del self._owed[next(iter(self._owed))]

    def part(self, peer: NodeId) -> None:
        """A neighbour was given away in an exchange."""
        self._met.pop(peer, None)
        self._met[peer] = None
        if len(self._met) > MET:
            del self._met[next(iter(self._met))]

    def recall(self) -> None:
        """Somebody was lost: try earlier neighbours too, as far as there is room."""
        for peer in self._met:
            if len(self._owed) < KEPT:
                self._owed.setdefault(peer, 0)

    def turn(self) -> NodeId:
        """The process whose turn it is; it is tried again after all others."""
        peer = next(iter(self._owed))
        self._owed[peer] = self._owed.pop(peer)
        return peer

    def owed_to(self, peer: NodeId) -> int:
        return self._owed[peer]

    def find(self, peer: NodeId) -> int:
        """A process is there again: how many arcs to it were let go."""
        return self._owed.pop(peer)
