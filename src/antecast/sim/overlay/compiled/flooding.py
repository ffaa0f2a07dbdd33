"""One broadcast over a snapshot of an overlay, for any number of processes.

`flood` gives the time and the number of hops at which each process first receives a message that every process
passes on over all its usable links. It makes the run of the reference engine: the same delay of each link, drawn
from the same stream, and ties of time broken by the order of sending. Only first arrivals count, so a frame that
cannot be the first at its receiver is not even queued.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import compiled, part
from antecast.sim.compiled.draws import CONSTANT, Model, Whole, child, delay, delay_model
from antecast.sim.compiled.heap import grown, pop, push
from antecast.sim.delays import Delay
from antecast.sim.overlay.compiled.snapshots import Snapshot
from antecast.sim.streams import stream_key

_NODE_BITS = 32
"""The bits of a queue's order that give the receiver. The rest counts what was sent."""

MOST_NODES, MOST_LINKS = (1 << 31) - 1, (1 << 31) - 1
"""Targets of links are 32 bits wide, and a flood sends at most once over a link: the count fits beside them."""

_LATEST = (1 << 63) - (1 << 55)
"""Nanoseconds, 291 years: no delay from then on leads beyond 64 bits."""

NEVER = -1
"""The arrival at a process that is not reached."""


@dataclass(frozen=True)
class Flood:
    """Where one broadcast went. Processes that it did not reach are counted, and left out of every mean."""

    source: int
    start: int
    arrival: NDArray[np.int64]
    """Nanoseconds; `NEVER` where it did not arrive."""
    hops: NDArray[np.int32]

    @property
    def unreached(self) -> int:
        return int(np.count_nonzero(self.arrival == NEVER))

    @property
    def mean_hops(self) -> float:
        """Over the processes reached, the source aside; NaN if there are none."""
        return self._mean(self.hops)

    @property
    def mean_latency(self) -> float:
        """Nanoseconds from broadcast to first receipt."""
        return self._mean(self.arrival - self.start)

    def _mean(self, values: NDArray[np.int64] | NDArray[np.int32]) -> float:
        reached = self.arrival != NEVER
        reached[self.source] = False
        return float(values[reached].mean()) if reached.any() else float("nan")


def flood(snapshot: Snapshot, source: int, *, model: Delay, start: int = 0, seed: int = 1) -> Flood:
    """Broadcast once from a process, over the links that are usable.

    `model` says how long each link takes, `start` is the instant of the broadcast in nanoseconds, and `seed` names
    the random streams of the delays: with the same seed a link takes as long as in a run of the reference.
    """
    for what, found, most in (("processes", snapshot.nodes, MOST_NODES), ("links", snapshot.links, MOST_LINKS)):
        if found > most:
            raise ConfigurationError(f"a flood goes over at most {most:,} {what}, not {found:,}", field="snapshot")
    if not 0 <= source < snapshot.nodes:
        raise IndexError(f"there is no process {source}; processes are 0 to {snapshot.nodes - 1}")
    if not 0 <= start <= _LATEST:
        raise ConfigurationError(f"a flood starts between 0 and {_LATEST} ns, not at {start} ns", field="start")
    usable = snapshot.usable if snapshot.usable is not None else np.ones(0, np.bool_)
    key = np.uint64(stream_key(seed, "delay"))
    arrival, hops = _flood(
        snapshot.offsets, snapshot.targets, usable, source, start, delay_model(model, bounded=True), key
    )
    if hops[source] < 0:
        raise ConfigurationError(
            "frames would arrive after more than 291 years; make delays shorter", field="model"
        )
    return Flood(source, start, arrival, hops)


@part
def order_of(sent: Whole, p: Whole) -> Whole:
    """What breaks ties between arrivals of one instant, the order of sending, with the receiver behind it."""
    return (np.int64(sent) << _NODE_BITS) | np.int64(p)


@part
def receiver_of(order: Whole) -> Whole:
    return order & ((1 << _NODE_BITS) - 1)


@compiled
def _flood(
    offsets: NDArray[np.int64],
    targets: NDArray[np.int32],
    usable: NDArray[np.bool_],
    source: int,
    start: int,
    model: Model,
    key: np.uint64,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """First arrivals and hops; the source's hops are -1 if time ran over."""
    n = len(offsets) - 1
    choosy = len(usable) > 0
    drawn = model[0] != CONSTANT
    never = np.iinfo(np.int64).max
    arrival = np.full(n, never, np.int64)
    hops = np.zeros(n, np.int32)
    heap = np.empty((max(1024, n // 4), 2), np.int64)
    link_key = np.uint64(0)
    arrival[source] = start
    size = push(heap, 0, start, source)
    sent = 0
    while size > 0:
        now, p = heap[0, 0], receiver_of(heap[0, 1])
        size = pop(heap, size)
        if now > _LATEST:
            hops[source] = -1
            break
        if now > arrival[p]:
            continue  # one that was sent later came first
        from_p = child(key, p)
        for at in range(offsets[p], offsets[p + 1]):
            if choosy and not usable[at]:
                continue
            q = targets[at]
            if arrival[q] <= now:
                continue
            if drawn:
                link_key = child(child(from_p, q), 1)
            arrives = now + delay(model, link_key, 1, now)
            if arrives < arrival[q]:
                arrival[q] = arrives
                hops[q] = hops[p] + 1
                sent += 1
                if size == len(heap):
                    heap = grown(heap, size)
                size = push(heap, size, arrives, order_of(sent, q))
    for p in range(n):
        if arrival[p] == never:
            arrival[p] = -1
    return arrival, hops
