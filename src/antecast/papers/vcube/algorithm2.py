"""Algorithm 2 of "A Communication-Efficient Causal Broadcast Protocol" (de Araujo, Arantes, Duarte, Rodrigues and
Sens), line by line: whole vector clocks, scans of all pending messages, recursive trees.

The real one (`antecast.protocols.vcube`) is held to it, packet by packet, by a test. Three lines can be chosen:
whether the first cluster counts in Algorithm 1 (printed `1 < s`), where in a packet the message goes that set the
others free, and whether a message is delivered before the clock counts it, as printed in lines 31 and 32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Stamped(NamedTuple):
    source: int
    clock: tuple[int, ...]

    @property
    def seq(self) -> int:
        return self.clock[self.source]


def cluster(i: int, s: int) -> list[int]:
    """c(i, s): i xor 2^(s−1), followed by that node's clusters 1 to s − 1."""
    first = i ^ 2 ** (s - 1)
    return [first] + [node for k in range(1, s) for node in cluster(first, k)]


def children(i: int, r: int, h: int, *, smallest: int = 1) -> list[int]:
    """Algorithm 1: the children of i in the tree of r of height h."""
    if i == r:
        return [cluster(i, s)[0] for s in range(smallest, h + 1)]
    s = next(s for s in range(1, h + 1) if i in cluster(r, s))
    return children(i, cluster(r, s)[0], s - 1, smallest=smallest)


class Node:
    """One process. `sends` takes packets that must leave, as (child, messages)."""

    def __init__(
        self,
        i: int,
        dimension: int,
        *,
        aggregate: bool = True,
        freed_by_last: bool = True,
        deliver_first: bool = False,
        smallest: int = 1,
        on_deliver: Callable[[Stamped], None] | None = None,
    ) -> None:
        self.i, self.d, self.aggregate, self.smallest = i, dimension, aggregate, smallest
        self.freed_by_last, self.deliver_first, self.on_deliver = freed_by_last, deliver_first, on_deliver
        self.clock = [0] * 2**dimension
        self.max = [0] * 2**dimension
        self.pending: list[Stamped] = []
        self.delivered: list[Stamped] = []
        self.sends: list[tuple[int, list[Stamped]]] = []

    def children(self, r: int, h: int) -> list[int]:
        return children(self.i, r, h, smallest=self.smallest)

    def broadcast(self) -> Stamped:
        self.clock[self.i] += 1
        self.max[self.i] = self.clock[self.i]
        message = Stamped(self.i, tuple(self.clock))
        self.delivered.append(message)
        self.sends += [(k, [message]) for k in self.children(self.i, self.d)]
        return message

    def receive(self, packet: list[Stamped], j: int) -> None:
        height = next(s for s in range(1, self.d + 1) if j in cluster(self.i, s)) - 1
        for message in packet:
            self.pending.append(message)
            self._count()
            for k in self.children(self.i, height):
                together = self._check_agg(k, message) if self.aggregate else [message]
                if together:
                    self.sends.append((k, together))
            self._check_delivery()

    def _count(self) -> None:
        """vector_max: what has come without a gap."""
        while any(each.seq == self.max[each.source] + 1 for each in self.pending):
            source = next(each.source for each in self.pending if each.seq == self.max[each.source] + 1)
            self.max[source] += 1

    def _check_agg(self, k: int, message: Stamped) -> list[Stamped]:
        together = [
            other
            for other in self.pending
            if k in self.children(other.source, self.d)
            and other.clock[message.source] >= message.seq
            and not any(
                count > self.max[source] and k in self.children(source, self.d)
                for source, count in enumerate(other.clock)
            )
        ]
        others, trigger = [other for other in together if other != message], [message] * (message in together)
        return others + trigger if self.freed_by_last else trigger + others

    def _check_delivery(self) -> None:
        while ready := next((each for each in self.pending if self._deliverable(each)), None):
            self.pending.remove(ready)
            if not self.deliver_first:
                self.clock[ready.source] += 1
            self.delivered.append(ready)
            if self.on_deliver is not None:
                self.on_deliver(ready)
            if self.deliver_first:
                self.clock[ready.source] += 1

    def _deliverable(self, message: Stamped) -> bool:
        source = message.source
        known = all(count <= self.clock[k] + (k == source) for k, count in enumerate(message.clock))
        return known and message.seq == self.clock[source] + 1
