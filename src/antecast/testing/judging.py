"""Judges a small log by the definitions, as messages are delivered: each past is a set of bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from antecast.core import MessageId, NodeId
from antecast.testing.record import Event


def order_faults(log: Iterable[Event], *, fifo: bool, causal: bool) -> Iterator[str]:
    """What is wrong with a log, in words: integrity always, and the orders that were promised.

    The log lists the events of all nodes in the order in which they happened.
    """
    bit: dict[MessageId, int] = {}
    past: dict[MessageId, int] = {}
    """What happened before each broadcast."""
    seen: dict[NodeId, int] = {}
    covered: dict[NodeId, int] = {}
    """The pasts of all that a node has delivered."""
    last: dict[tuple[NodeId, NodeId], int] = {}
    for kind, node, name, _ in log:
        if kind == "broadcast":
            if name in bit:
                yield f"node {node} broadcast two messages as {name}"
            bit[name] = 1 << len(bit)
            past[name] = seen.get(node, 0) | covered.get(node, 0)
            continue
        mine = bit.get(name)
        if mine is None:
            yield f"node {node} delivered {name}, which nobody broadcast"
            continue
        if seen.get(node, 0) & mine:
            yield f"node {node} delivered {name} twice"
        elif causal and covered.get(node, 0) & mine:
            late = next(each for each, its in past.items() if its & mine and seen[node] & bit[each])
            yield f"node {node} delivered {late} before {name}, which {late} depends on"
        elif fifo and name.seq < last.get((node, name.origin), 0):
            yield f"node {node} delivered {name} after {name.origin}:{last[node, name.origin]}"
        seen[node] = seen.get(node, 0) | mine
        covered[node] = covered.get(node, 0) | past[name]
        last[node, name.origin] = max(name.seq, last.get((node, name.origin), 0))
