"""What the VCube paper measures of a run, from its event log. Whole columns at a time: a run of 1024 nodes has
three million rows.

A *packet* is a frame of the protocol, a *message* what the application broadcasts. Every node broadcasts once, so
a message is named by its origin. Times are in the paper's units, of which a millisecond here is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.history.schema import Kind

UNIT = 10**6
"""Nanoseconds in a unit of time."""
HEADER, ENTRY = 20, 4
"""Bytes of a packet's header, and of an entry of a clock, as the paper counts them."""

Longs = NDArray[np.int64]


@dataclass(frozen=True)
class Packets:
    """The rows of frames sent or received, one per message, and where each frame begins."""

    node: Longs
    peer: Longs
    t: Longs
    message: Longs
    first: Longs

    @property
    def count(self) -> int:
        return len(self.first)

    @cached_property
    def messages(self) -> Longs:
        """Messages in each packet."""
        return np.diff(np.append(self.first, len(self.node)))


class Log:
    """The events of one run."""

    def __init__(self, events: pa.Table, nodes: int) -> None:
        self.nodes = nodes
        self._kind = events["kind"].combine_chunks().indices.to_numpy()
        self._node = events["node"].to_numpy().astype(np.int64)
        self._t = events["t"].to_numpy()
        self._origin = events["origin"].fill_null(-1).to_numpy().astype(np.int64)
        self._peer = events["peer"].fill_null(-1).to_numpy().astype(np.int64)
        self._bytes = events["bytes"].fill_null(-1).to_numpy()

    @cached_property
    def sent(self) -> Packets:
        return self._packets(Kind.SEND)

    @cached_property
    def received(self) -> Packets:
        return self._packets(Kind.RECEIVE)

    def _packets(self, kind: Kind) -> Packets:
        (rows,) = np.nonzero(self._kind == kind)
        (first,) = np.nonzero(self._bytes[rows] > 0)
        return Packets(self._node[rows], self._peer[rows], self._t[rows], self._origin[rows], first)

    @cached_property
    def broadcast(self) -> Longs:
        """When each message was broadcast, by its origin."""
        (rows,) = np.nonzero(self._kind == Kind.BROADCAST)
        times = np.full(self.nodes, -1, np.int64)
        times[self._origin[rows]] = self._t[rows]
        return times

    @cached_property
    def reception(self) -> NDArray[np.float64]:
        """Latency of each message (column) at each node (row); NaN at its own origin."""
        return self._latency(self._kind == Kind.RECEIVE)

    @cached_property
    def delivery(self) -> NDArray[np.float64]:
        return self._latency(self._kind == Kind.DELIVER)

    def _latency(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        (rows,) = np.nonzero(chosen & (self._node != self._origin))
        found = np.full((self.nodes, self.nodes), np.nan)
        node, message = self._node[rows], self._origin[rows]
        found[node, message] = (self._t[rows] - self.broadcast[message]) / UNIT
        return found

    @cached_property
    def dependencies(self) -> Longs:
        """Of each message: how many others its origin had delivered."""
        rows = np.arange(len(self._kind))
        begun = np.zeros(self.nodes, np.int64)
        chosen = self._kind == Kind.BROADCAST
        begun[self._node[chosen]] = rows[chosen]
        before = (self._kind == Kind.DELIVER) & (self._node != self._origin) & (rows < begun[self._node])
        return np.bincount(self._node[before], minlength=self.nodes)

    def packet_sizes(self, payload: int) -> Longs:
        """As the paper counts: a header, and for each message its data, and entries for it and its past."""
        each = payload + ENTRY * (self.dependencies[self.sent.message] + 1)
        return HEADER + np.add.reduceat(each, self.sent.first)

    @cached_property
    def splits(self) -> int:
        """Packets that were closed for lack of room: the next of the same node goes to the same child at once."""
        sent, first = self.sent, self.sent.first
        same = [np.diff(column[first]) == 0 for column in (sent.node, sent.peer, sent.t)]
        return int(np.logical_and.reduce(same).sum())

    @cached_property
    def transit(self) -> float:
        """Mean time of a packet from its sending to its reception, the wait in the queue included."""
        sent, received = self.sent, self.received
        return float(received.t[received.first].sum() - sent.t[sent.first].sum()) / UNIT / max(1, sent.count)

    @cached_property
    def buffered(self) -> Longs:
        """The most messages that each node held at once, once it had delivered what it could at that instant."""
        change = (self._kind == Kind.RECEIVE).astype(np.int64) - (self._kind == Kind.DELIVER)
        (rows,) = np.nonzero((change != 0) & (self._node != self._origin))
        rows = rows[np.argsort(self._node[rows], kind="stable")]
        node, t = self._node[rows], self._t[rows]
        held = np.cumsum(change[rows])  # every node ends with nothing, so it starts with nothing
        last = np.append((np.diff(node) != 0) | (np.diff(t) != 0), True)
        most = np.zeros(self.nodes, np.int64)
        np.maximum.at(most, node[last], held[last])
        return most

    @cached_property
    def most_aggregated(self) -> Longs:
        """The most messages that each node put into one packet."""
        most = np.zeros(self.nodes, np.int64)
        np.maximum.at(most, self.sent.node[self.sent.first], self.sent.messages)
        return most

    @property
    def held(self) -> NDArray[np.float64]:
        """How long each message waited at each node."""
        return self.delivery - self.reception


def summary(log: Log, payload: int) -> dict[str, Any]:
    """One run as plain values: means, extremes and histograms."""
    messages, held = log.sent.messages, log.held
    sizes = log.packet_sizes(payload)
    return {
        "packets": log.sent.count,
        "several": int((messages > 1).sum()),
        "aggregated messages": int(messages[messages > 1].sum()),
        "messages per packet": np.bincount(messages).tolist(),
        "sizes": np.histogram(sizes, (0, 100.5, 200.5, 300.5, 400.5, np.inf))[0].tolist(),
        "above 1400": int((sizes > 1400).sum()),
        "size histogram": np.bincount(sizes).tolist(),
        "splits": log.splits,
        "dependencies": np.bincount(log.dependencies).tolist(),
        "reception": _mean(log.reception),
        "reception, longest": float(np.nanmax(log.reception)),
        "delivery": _mean(log.delivery),
        "held": _mean(held),
        "delayed messages": int((held > 0).sum()),
        "transit": log.transit,
        "buffered": np.bincount(log.buffered).tolist(),
        "most aggregated": np.bincount(log.most_aggregated).tolist(),
    }


def in_pairs(log: Log, plain: Log) -> dict[str, float]:
    """The messages that arrived in packets of two, against the same ones at the same nodes without aggregation."""
    received = log.received
    two = np.repeat(received.messages == 2, received.messages)
    at = received.node[two], received.message[two]
    if not two.any():
        return {"packets": 0}
    return {
        "packets": int(two.sum()) // 2,
        "reception": _mean(log.reception[at]),
        "delivery": _mean(log.delivery[at]),
        "held": _mean(log.held[at]),
        "reception, plain": _mean(plain.reception[at]),
        "delivery, plain": _mean(plain.delivery[at]),
        "held, plain": _mean(plain.held[at]),
    }


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values))
