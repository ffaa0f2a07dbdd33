"""What a run of the compiled engine returns: the overlay over time, and where each message went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.sim.overlay.compiled.arrays import Hops, Ints, Longs
from antecast.sim.overlay.compiled.judging import Order, judge
from antecast.sim.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Mean shortest paths in hops from a few sources to everyone they reach, over four sets of links.

    Spray as published closes a connection when it gives the arc away. The links that are only lent are those that
    it would not have: without them this is the overlay that R- and PC-broadcast would find there.
    """

    all: float
    """Over all links: R-broadcast."""
    safe: float
    """Over safe links: PC-broadcast."""
    published: float
    """Over all links but those only lent: R-broadcast over Spray as published."""
    published_safe: float
    """Over those of them that are safe: PC-broadcast over Spray as published."""
    unreached: dict[str, int]
    """For each of them, the processes that some source does not reach; they are in no mean."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The overlay at an instant; means over processes."""

    t: int
    links: float
    unsafe_links: float
    lent_links: float
    """Arcs that are lent: new connections that are not safe both ways yet."""
    arcs: float
    buffered: float
    """Messages that wait for a link to become safe, as often as there are links they wait for."""
    exchanges: int
    """Of all processes, since the start."""
    paths: Paths | None = None


@dataclass(frozen=True, kw_only=True)
class OverlayRun:
    """A finished run of the compiled engine."""

    scenario: Scenario
    samples: list[Sample]
    broadcasts: Longs
    """When each message was broadcast: messages are numbered in this order."""
    origins: NDArray[np.int32]
    """Who broadcast it."""
    hops: Hops
    """A row for each message, a column for each process, by PC-broadcast; `unheard` where it did not arrive."""
    plain_hops: Hops
    """The same for R-broadcast, if it flowed beside."""
    arrival: Longs
    plain_arrival: Longs
    """When, if wanted."""
    log: Ints
    """A row for each process: the messages it delivered, in order, the first `logged` entries."""
    logged: Ints
    counts: dict[str, int]
    """By the names in `arrays.COUNTS`."""
    trace: Longs
    """All frames received, in order, if wanted: time, process, sender, message or -1."""
    peers: Ints
    """Of the arcs of each process at the end: a row for each, the first `sizes` entries."""
    ages: Ints
    sizes: Ints
    cpu: float
    """Seconds, without compiling."""

    @property
    def unheard(self) -> int:
        """Stands in `hops` where a message did not arrive: the largest number that fits there."""
        return int(np.iinfo(self.hops.dtype).max)

    @property
    def views(self) -> list[list[tuple[int, int]]]:
        """Peers and ages of the arcs of each process at the end."""
        return [
            list(zip(self.peers[p, :size].tolist(), self.ages[p, :size].tolist(), strict=True))
            for p, size in enumerate(self.sizes)
        ]

    @property
    def events(self) -> int:
        """Frames delivered, exchanges and other times that a process woke up, broadcasts."""
        return sum(self.counts[name] for name in ("frames", "exchanges", "idle", "broadcasts"))

    def order(self) -> Order:
        """Whether every process delivered in causal order, told from the deliveries."""
        return judge(self.origins, self.log, self.logged)

    def path_lengths(self, *, plain: bool = False) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """For each message the mean hops to those it reached, its origin aside, and how many it did not reach.

        Of PC-broadcast; with `plain` of R-broadcast, if it flowed beside.
        """
        hops = (self.plain_hops if plain else self.hops).astype(np.float64)
        reached = hops != self.unheard
        others = np.maximum(reached.sum(axis=1) - 1, 1)
        return np.where(reached, hops, 0.0).sum(axis=1) / others, (~reached).sum(axis=1)
