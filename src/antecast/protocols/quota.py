"""Quotas of early messages: a bound on what one neighbour can make this node hold.

A message that cannot be delivered yet is held, whoever sent it. So that nobody can fill the memory with messages
that will never be delivered, each neighbour has a quota for the early messages that came from it. When it is used
up, only messages that can be delivered at once are taken from that neighbour. The others are *owed*: the
dissemination compares with the neighbour a little later, and it sends them again.

Why nothing is lost for good: among the messages that a neighbour has and this node lacks, at least one depends on
no other of them. It is taken whenever it is sent, and the next one at the next comparison. What it depends on and
nobody keeps is given up for its sake, though it is not held (`offers`).
"""

from collections.abc import Iterable
from typing import Any

from antecast.core import Message, NodeId


class Quotas:
    """The bytes of early messages, by the neighbour that each first came from."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.charged: dict[tuple[NodeId, int], tuple[NodeId, int]] = {}
        """The early messages, with the neighbour and the bytes of each."""
        self._total = 0
        """The bytes of all of them. While no more than one quota is used by all together, sums for each neighbour
        are not needed, and not kept: this runs for every early message."""
        self._weights: dict[NodeId, int] | None = None
        self.full: set[NodeId] = set()
        """The neighbours whose quota is used up."""

    def add(self, message: tuple[NodeId, int], peer: NodeId, weight: int) -> None:
        self.charged[message] = peer, weight
        self._total += weight
        if self._total > self._limit or self._weights is not None:
            self._add_to_sum(peer, weight)

    def _add_to_sum(self, peer: NodeId, weight: int) -> None:
        if self._weights is None:
            self._weights = {}
            for charged, each in self.charged.values():
                self._weights[charged] = self._weights.get(charged, 0) + each
        else:
            self._weights[peer] = self._weights.get(peer, 0) + weight
        if self._weights[peer] > self._limit:
            self.full.add(peer)

    def remove(self, message: tuple[NodeId, int]) -> None:
        """A message is no longer early, if it was."""
        charge = self.charged.pop(message, None)
        if charge is not None:
            self._total -= charge[1]
            if self._weights is not None:
                self._take_from_sum(*charge)

    def remove_all(self, messages: Iterable[Message[Any]]) -> None:
        """The same for several, without a call for each."""
        charged = self.charged
        for message in messages:
            charge = charged.pop((message.origin, message.seq), None)
            if charge is not None:
                self._total -= charge[1]
                if self._weights is not None:
                    self._take_from_sum(*charge)

    def _take_from_sum(self, peer: NodeId, weight: int) -> None:
        assert self._weights is not None
        left = self._weights.pop(peer) - weight
        if left:
            self._weights[peer] = left
        if left <= self._limit:
            self.full.discard(peer)
        if (
            self._total <= self._limit // 2
        ):  # not at the limit itself, or sums would come and go with every message
            self._weights = None
