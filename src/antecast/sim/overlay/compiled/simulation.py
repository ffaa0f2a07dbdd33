"""The compiled engine: PC-broadcast over Spray for tens of thousands of processes, and what it costs.

`simulate` makes the run that `sim.run` makes of the same scenario (`pc-broadcast` over a `spray` topology), event
by event, and returns what the study of the overlay needs instead of a log: path lengths in hops, unsafe links and
buffered messages over time. With `beside=True` every message is also flooded by R-broadcast, over all links,
at the same time and through the same links; both then draw from the same delays, so the run is another one.

What it does not know, it refuses: faults, losses, bandwidth, protocols other than `pc-broadcast`, and a time-out
of the protocol or patience of the overlay that a ping phase outlasts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.settings import Duration
from antecast.sim.delays import Constant
from antecast.sim.overlay.compiled import arrays, kernel
from antecast.sim.overlay.compiled.arrays import COUNTS, UNHEARD, Counts, Links, Longs, Messages, Views
from antecast.sim.overlay.compiled.draws import delay_model
from antecast.sim.overlay.compiled.flooding import flood
from antecast.sim.overlay.compiled.snapshots import Snapshot, spray_views
from antecast.sim.scenario import At, Periodic, Poisson, Scenario
from antecast.sim.streams import Stream, stream_key
from antecast.sim.topology import Spray
from antecast.sim.workloads import broadcast_times

_TRACE_ROWS = 1 << 16


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
    """Arcs that are lent, so new connections that are not safe both ways yet."""
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
    """When each message was broadcast."""
    origins: NDArray[np.int32]
    hops: NDArray[np.uint8]
    """Of each message at each process, by PC-broadcast; `UNHEARD` where it did not arrive."""
    plain_hops: NDArray[np.uint8]
    """The same for R-broadcast, if it flowed beside."""
    arrival: Longs
    plain_arrival: Longs
    """When, if wanted."""
    counts: dict[str, int]
    trace: Longs
    """All frames received, in order, if wanted: time, process, sender, message or -1."""
    views: list[list[tuple[int, int]]]
    """Peers and ages of the arcs of each process at the end."""
    cpu: float
    """Seconds, without compiling."""

    @property
    def events(self) -> int:
        """Frames delivered, exchanges and other times that a process woke up, broadcasts."""
        return sum(self.counts[name] for name in ("frames", "exchanges", "idle", "broadcasts"))

    def path_lengths(self, *, plain: bool = False) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """For each message the mean hops to those it reached, its origin aside, and how many it did not reach."""
        hops = (self.plain_hops if plain else self.hops).astype(np.float64)
        reached = hops != UNHEARD
        others = np.maximum(reached.sum(axis=1) - 1, 1)
        return np.where(reached, hops, 0.0).sum(axis=1) / others, (~reached).sum(axis=1)


def simulate(
    scenario: Scenario,
    *,
    every: int | None = None,
    sources: int = 0,
    beside: bool = False,
    arrivals: bool = False,
    trace: bool = False,
) -> OverlayRun:
    """Run a scenario. Samples are taken `every` so many nanoseconds, with paths from so many `sources`."""
    topology = _check(scenario)
    if every is None:
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
    for doubling in count():
        run = _Run(scenario, topology, 64 << doubling, beside=beside, arrivals=arrivals, trace=trace)
        if run.go(every, sources):
            return run.result()
    raise AssertionError


class _Run:
    def __init__(
        self, scenario: Scenario, topology: Spray, width: int, *, beside: bool, arrivals: bool, trace: bool
    ) -> None:
        n, seed = scenario.nodes, scenario.seed
        times, origins = _broadcasts(scenario)
        m = len(times)
        self.scenario, self.topology, self.times = scenario, topology, times
        peers, ages, sizes, drawn = spray_views(topology, n, seed)
        narrow = np.zeros((n, max(width, peers.shape[1])), np.int32)
        peers, ages = (_padded(each, narrow) for each in (peers, ages))
        names = np.arange(peers.size, dtype=np.int64).reshape(peers.shape)
        left, chosen = np.zeros(peers.shape[1], np.int32), np.zeros((2, peers.shape[1]), np.int64)
        self.views = Views(peers, ages, np.zeros(peers.shape, np.bool_), names, sizes, drawn, left, chosen)
        self.messages = Messages(
            origin=origins,
            hops=np.full((m, n), UNHEARD, np.uint8),
            plain_hops=np.full((m if beside else 0, n), UNHEARD, np.uint8),
            arrival=np.full((m if arrivals else 0, n), -1, np.int64),
            plain_arrival=np.full((m if arrivals and beside else 0, n), -1, np.int64),
            log=np.zeros((n, max(1, m)), np.int32),
            logged=np.zeros(n, np.int32),
            pings=np.zeros(n, np.int32),
        )
        self.counts = Counts(
            np.zeros(len(COUNTS), np.int64),
            np.zeros(n, np.int32),
            np.zeros((_TRACE_ROWS if trace else 0, 4), np.int64),
        )
        self.queue = arrays.make_queue(max(1 << 16, 4 * (n + m + 4 * width)))
        self.links: Links = arrays.make_links(n, 4 * int(sizes.sum()) + 4 * width + 16, width)
        self.model = delay_model(scenario.network.delay)
        self.keys = [np.uint64(stream_key(seed, purpose)) for purpose in ("spray", "delay", "spray/phase")]
        self.samples: list[Sample] = []
        self.rows: list[Longs] = []
        self.cpu = 0.0

    def go(self, every: int, sources: int) -> bool:
        """Run to the horizon; False if a process had more links than there is room for."""
        pairs = _pairs(self.views)
        period = self.topology.every or 0
        self._timed(
            kernel.begin, self.queue, self.links, self.views, self.counts, pairs, self.times,
            period, self.scenario.duration, self.keys[2], self.keys[1],
        )  # fmt: skip
        for now in range(every, self.scenario.duration + 1, every) if every else ():
            if not self._advance(now - 1):
                return False
            self._sample(now, sources)
        return self._advance(self.scenario.horizon)

    def _timed(self, work: object, *args: object) -> int:
        assert callable(work)
        begun = time.process_time()
        status: int = work(*args)
        self.cpu += time.process_time() - begun
        return status

    def _advance(self, stop: int) -> bool:
        counts = self.counts.of
        while True:
            status = self._timed(
                kernel.advance, self.queue, self.links, self.views, self.messages, self.counts, self.model,
                self.keys[0], self.keys[1], self.topology.every or 0, self.scenario.duration, stop,
            )  # fmt: skip
            if status == kernel.WANTS_EVENTS:
                self.queue = arrays.roomier_queue(self.queue)
            elif status == kernel.WANTS_LINKS:
                self.links = arrays.roomier_links(self.links)
            elif status == kernel.WANTS_TRACE:
                self._drain()
            elif status == kernel.FAILED and counts[arrays.WRONG] == arrays.NARROW:
                return False
            else:
                assert status == kernel.REACHED, f"an arc or a connection was not where it had to be ({status})"
                _refuse_slow_pings(self.scenario, self.topology, int(counts[arrays.LONGEST]))
                return True

    def _drain(self) -> None:
        self.rows.append(self.counts.trace[: self.counts.of[arrays.TRACED]].copy())
        self.counts.of[arrays.TRACED] = 0

    def _sample(self, t: int, sources: int) -> None:
        links, views, n = self.links, self.views, self.scenario.nodes
        of = links.of[_first(links.degree, links.of.shape[1])]
        safe = links.safe[of]
        waiting = self.messages.logged[links.to[of ^ 1]] - links.start[of]
        self.samples.append(
            Sample(
                t=t,
                links=len(of) / n,
                unsafe_links=float((~safe).sum()) / n,
                lent_links=float(views.lent[_first(views.sizes, views.lent.shape[1])].sum()) / n,
                arcs=float(views.sizes.sum()) / n,
                buffered=float(waiting[~safe].sum()) / n,
                exchanges=int(self.counts.of[arrays.EXCHANGES]),
                paths=self._paths(t, of, sources) if sources else None,
            )
        )

    def _paths(self, t: int, of: NDArray[np.int32], sources: int) -> Paths:
        links, views, n = self.links, self.views, self.scenario.nodes
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(links.degree, out=offsets[1:])
        lent = np.nonzero(views.lent & _first(views.sizes, views.lent.shape[1]))
        kept = links.arcs.copy()
        for p, y in zip(lent[0], views.peers[lent], strict=True):
            mine = of[offsets[p] : offsets[p + 1]]
            kept[mine[links.to[mine] == y] >> 1] -= 1
        safe = links.safe[of]
        published = (kept[of >> 1] > 0) | (links.by[of >> 1] >= 0)
        usable = {"all": None, "safe": safe, "published": published, "published_safe": published & safe}
        hops: dict[str, float] = {}
        unreached: dict[str, int] = {}
        for name, each in usable.items():
            snapshot = Snapshot(offsets, links.to[of], each)
            found = [
                flood(snapshot, source, model=Constant(value=Duration(1)))
                for source in Stream(self.scenario.seed, "paths", t).sample(n, sources)
            ]
            hops[name] = float(np.nanmean([each.mean_hops for each in found]))
            unreached[name] = sum(each.unreached for each in found)
        return Paths(**hops, unreached=unreached)

    def result(self) -> OverlayRun:
        self._drain()
        views, messages = self.views, self.messages
        return OverlayRun(
            scenario=self.scenario,
            samples=self.samples,
            broadcasts=self.times,
            origins=messages.origin,
            hops=messages.hops,
            plain_hops=messages.plain_hops,
            arrival=messages.arrival,
            plain_arrival=messages.plain_arrival,
            counts={name: int(value) for name, value in zip(COUNTS, self.counts.of, strict=True)},
            trace=np.concatenate(self.rows),
            views=[
                list(zip(views.peers[p, :size].tolist(), views.ages[p, :size].tolist(), strict=True))
                for p, size in enumerate(views.sizes)
            ],
            cpu=self.cpu,
        )


def _first(sizes: NDArray[np.int32], width: int) -> NDArray[np.bool_]:
    """Of each row as many places as it has entries."""
    taken: NDArray[np.bool_] = np.arange(width)[None, :] < sizes[:, None]
    return taken


def _padded(column: NDArray[np.int32], wide: NDArray[np.int32]) -> NDArray[np.int32]:
    more = wide.copy()
    more[:, : column.shape[1]] = column
    return more


def _pairs(views: Views) -> Longs:
    """The connections that arcs need, sorted."""
    owners = np.repeat(np.arange(len(views.sizes), dtype=np.int64), views.sizes)
    peers = views.peers[_first(views.sizes, views.peers.shape[1])].astype(np.int64)
    ends = np.stack([owners, peers], axis=1)
    ends.sort(axis=1)
    return np.unique(ends, axis=0)


def _broadcasts(scenario: Scenario) -> tuple[Longs, NDArray[np.int32]]:
    """When and where, in the order of scheduling."""
    found: list[tuple[int, int]] = []
    for index, workload in enumerate(scenario.workload):
        if isinstance(workload, At):
            found += [(each.t, each.node) for each in workload.broadcasts]
        elif isinstance(workload, Periodic | Poisson):
            until = scenario.duration if workload.until is None else workload.until
            for node in range(scenario.nodes) if workload.senders is None else workload.senders:
                stream = Stream(scenario.seed, "workload", index, node)
                found += [(t, node) for t in broadcast_times(workload, until, stream)]
    return np.array([t for t, _ in found], np.int64), np.array([node for _, node in found], np.int32)


def _check(scenario: Scenario) -> Spray:
    """Refuse what the compiled engine does not know."""

    def refuse(field: str, problem: str) -> None:
        raise ConfigurationError(f"the compiled engine {problem}", field=field)

    network, topology = scenario.network, scenario.network.topology
    if scenario.protocol.get("name") != "pc-broadcast":
        refuse("protocol.name", f"runs pc-broadcast, not {scenario.protocol.get('name')}")
    if not isinstance(topology, Spray):
        raise ConfigurationError("the compiled engine runs over spray", field="network.topology.kind")
    if not network.fifo:
        refuse("network.fifo", "needs links that keep order: fifo = true")
    if network.loss or network.bandwidth is not None or network.links:
        refuse("network", "knows no losses, bandwidths or special links")
    if scenario.faults:
        refuse("faults", "knows no faults")
    if any(not isinstance(each, At | Periodic | Poisson) for each in scenario.workload):
        refuse("workload", "knows the kinds at, periodic and poisson")
    if any(isinstance(each, Periodic) and each.after_arrival is not None for each in scenario.workload):
        refuse("workload", "knows no after_arrival")
    broadcasts = len(_broadcasts(scenario)[0])
    if broadcasts > getattr(scenario.protocol_settings, "retain", broadcasts):
        refuse("protocol.retain", f"keeps all messages: set it to {broadcasts} or more")
    return topology


def _refuse_slow_pings(scenario: Scenario, topology: Spray, longest: int) -> None:
    for field, limit in (
        ("protocol.timeout", getattr(scenario.protocol_settings, "timeout", longest + 1)),
        ("network.topology.patience", topology.patience),
    ):
        if longest >= limit:
            problem = f"a ping phase took {longest / 1e9:.3f} s, and the compiled engine knows no second try"
            raise ConfigurationError(f"{problem}; set this higher", field=field)
