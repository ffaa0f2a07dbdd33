"""Quotas of early messages: a bound on what one neighbour can make this node hold.

A message that cannot be delivered yet is held, whoever sent it. So that nobody can fill the memory with messages
that will never be delivered, each neighbour has a quota for the early messages that came from it. When it is used
up, only messages that can be delivered at once are taken from that neighbour. The others are *owed*: the
dissemination compares with the neighbour a little later, and it sends them again.

Why nothing is lost for good: among the messages that a neighbour has and this node lacks, at least one depends on
no other of them. It is taken whenever it is sent, and the next one at the next comparison.
"""

from antecast.core import NodeId


class Quotas:
    """The bytes of early messages, by the neighbour that each first came from."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.charged: dict[tuple[NodeId, int], tuple[NodeId, int]] = {}
        """The early messages, with the neighbour and the bytes of each."""
        self._weights: dict[NodeId, int] = {}
        self.full: set[NodeId] = set()
        """The neighbours whose quota is used up."""

    def add(self, message: tuple[NodeId, int], peer: NodeId, weight: int) -> None:
        self.charged[message] = peer, weight
        total = self._weights[peer] = self._weights.get(peer, 0) + weight
        if total > self._limit:
            self.full.add(peer)

    def remove(self, message: tuple[NodeId, int]) -> None:
        """A message is no longer early, if it was."""
        charge = self.charged.pop(message, None)
        if charge is None:
            return
        peer, weight = charge
        total = self._weights[peer] - weight
        if total:
            self._weights[peer] = total
        else:
            del self._weights[peer]
        if self.full and total <= self._limit:
            self.full.discard(peer)
