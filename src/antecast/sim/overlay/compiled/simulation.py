"""The compiled engine: PC-broadcast over Spray for up to a million processes, and what it costs.

`simulate` makes the run that `sim.run` makes of the same scenario (`pc-broadcast` over a `spray` topology), event
by event, and returns what the study of the overlay needs instead of a log: path lengths in hops, unsafe links and
buffered messages over time. What it cannot run as the reference does, it refuses before it starts (`checks`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.settings import Duration
from antecast.protocols.preventive.settings import PreventiveSettings
from antecast.sim.compiled.draws import delay_model
from antecast.sim.compiled.queue import make_queue, with_room
from antecast.sim.delays import Constant
from antecast.sim.fault_kinds import Crash, Join, Leave
from antecast.sim.overlay.compiled import arrays, kernel
from antecast.sim.overlay.compiled.arrays import COUNTS, Counts, Links, Longs, Messages, Plan, Views, World
from antecast.sim.overlay.compiled.broadcasts import plan_broadcasts
from antecast.sim.overlay.compiled.checks import check_broadcasts, check_scenario, check_views, makes_syncs
from antecast.sim.overlay.compiled.flooding import flood
from antecast.sim.overlay.compiled.results import OverlayRun, Paths, Sample
from antecast.sim.overlay.compiled.snapshots import Snapshot, spray_views
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream, stream_key
from antecast.sim.topology import Spray

_TRACE_ROWS = 1 << 16
_PARTS = 1000
"""Of a run without samples, after each of which its progress is told."""

_WIDTH = 64
"""Links and arcs that a process may have, at first. A run that needs more is made again with wider arrays."""


def simulate(
    scenario: Scenario,
    *,
    every: int | None = None,
    sources: int = 0,
    beside: bool = False,
    arrivals: bool = False,
    trace: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> OverlayRun:
    """Run a scenario; returns what became of its overlay and messages.

    - `every`: nanoseconds between two samples of the overlay; 0 for none. Default: `log.sample`.
    - `sources`: how many processes, chosen at random, to measure shortest paths from at each sample.
    - `beside`: flood every message by R-broadcast too, over all links, at the same time and through the same
      links. Both draw from the same delays, so it is another run than without.
    - `arrivals`: note when each message arrives at each process, 8 bytes each.
    - `trace`: note every frame received.
    - `on_progress`: called now and then with the simulated time and its end, in nanoseconds.

    A scenario that the engine cannot run as the reference does raises `ConfigurationError`.
    """
    topology = check_scenario(scenario)
    if makes_syncs(scenario) and (beside or sources):
        raise ConfigurationError(
            "where links are made safe by syncs, nothing flows beside and no paths are measured",
            field="protocol.tries",
        )
    if every is None:
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
    plan = plan_broadcasts(scenario)
    check_broadcasts(scenario, topology, plan)
    width: int = _WIDTH
    hops: np.dtype[Any] = np.dtype(np.uint8)
    try:
        while True:
            run = _Run(scenario, topology, plan, width, hops, beside=beside, arrivals=arrivals, trace=trace)
            match run.go(every, sources, on_progress or (lambda *_: None)):
                case arrays.FINE:
                    return run.result()
                case arrays.NARROW:
                    width *= 2
                case arrays.FAR:
                    hops = np.dtype(np.int32)
                case arrays.ENDLESS:
                    raise ConfigurationError(
                        "the run has more events than the compiled engine can count; make it shorter",
                        field="duration",
                    )
    except MemoryError as error:
        needed = len(plan.at) * scenario.nodes * (np.dtype(np.int32).itemsize + hops.itemsize + 8 * arrivals)
        raise ConfigurationError(
            f"{scenario.nodes:,} nodes and {len(plan.at):,} broadcasts do not fit into memory (for the messages"
            f" alone {needed / 2**30:.1f} GiB); simulate fewer of one of them",
            field="nodes",
        ) from error


class _Run:
    """One attempt at a run, with arrays of a given width."""

    def __init__(
        self,
        scenario: Scenario,
        topology: Spray,
        plan: Plan,
        width: int,
        hops: np.dtype[Any],
        *,
        beside: bool,
        arrivals: bool,
        trace: bool,
    ) -> None:
        n, m, seed = scenario.total_nodes, len(plan.at), scenario.seed
        self.scenario, self.topology, self.plan = scenario, topology, plan
        peers, ages, sizes, drawn = spray_views(topology, scenario.nodes, seed)
        check_views(scenario, topology, peers, sizes)
        narrow = np.zeros((n, max(width, peers.shape[1])), np.int32)
        peers, ages = (_padded(each, narrow) for each in (peers, ages))
        sizes, drawn = (np.concatenate([each, np.zeros(n - len(each), each.dtype)]) for each in (sizes, drawn))
        names = np.arange(peers.size, dtype=np.int64).reshape(peers.shape)
        left, chosen = np.zeros(peers.shape[1], np.int32), np.zeros((2, peers.shape[1]), np.int64)
        self.views = Views(peers, ages, np.zeros(peers.shape, np.bool_), names, sizes, drawn, left, chosen)
        unheard = int(np.iinfo(hops).max)
        self.messages = Messages(
            origin=np.zeros(m, np.int32),
            at=np.zeros(m, np.int64),
            hops=np.full((m, n), unheard, hops),
            plain_hops=np.full((m if beside else 0, n), unheard, hops),
            arrival=np.full((m if arrivals else 0, n), -1, np.int64),
            plain_arrival=np.full((m if arrivals and beside else 0, n), -1, np.int64),
            log=np.zeros((n, max(1, m)), np.int32),
            logged=np.zeros(n, np.int32),
            pings=np.zeros(n, np.int32),
            unheard=unheard,
        )
        self.counts = Counts(
            np.zeros(len(COUNTS), np.int64),
            np.zeros(n, np.int32),
            np.zeros((_TRACE_ROWS if trace else 0, 4), np.int64),
        )
        self.queue = make_queue(1 << 16)
        self.links: Links = arrays.make_links(n, 2 * int(sizes.sum()) + 4 * width + 16, width)
        self.strikes, faults = _faults(scenario)
        settings = scenario.protocol_settings
        assert isinstance(settings, PreventiveSettings)
        if makes_syncs(scenario):
            waits = int(settings.timeout), int(topology.patience)
            self.lives = arrays.make_lives(n, scenario.nodes, m, peers.shape[1], *waits, faults)
        else:
            self.lives = arrays.make_lives(0, 0, 0, 0, 0, 0, faults)
        self.model = delay_model(scenario.network.delay, bounded=True)
        self.keys = np.array([stream_key(seed, each) for each in ("spray", "delay", "spray/phase")], np.uint64)
        self.rules = np.array([topology.every or 0, scenario.duration], np.int64)
        self.samples: list[Sample] = []
        self.rows: list[Longs] = []
        self.cpu = 0.0

    def go(self, every: int, sources: int, on_progress: Callable[[int, int], None]) -> int:
        """Run to the horizon; what went wrong (`arrays.FINE` if nothing did)."""
        planned = len(self.plan.first) + len(self.lives.faults) + len(self.views.sizes)
        self.queue = with_room(self.queue, planned)
        self._timed(kernel.begin, self._world(), _pairs(self.views), self.strikes)
        for now in range(every, self.scenario.duration + 1, every) if every else ():
            if wrong := self._advance(now - 1):
                return wrong
            self._sample(now, sources)
            on_progress(now, self.scenario.horizon)
        begin, horizon = self.scenario.duration if every else 0, self.scenario.horizon
        for part in range(1, _PARTS + 1):
            now = begin + (horizon - begin) * part // _PARTS
            if wrong := self._advance(now):
                return wrong
            on_progress(now, horizon)
        return arrays.FINE

    def _world(self) -> World:
        return World(
            self.queue, self.links, self.views, self.messages, self.plan, self.lives, self.counts, self.model,
            self.keys, self.rules,
        )  # fmt: skip

    def _timed(self, work: object, *args: object) -> int:
        assert callable(work)
        begun = time.process_time()
        status: int = work(*args)
        self.cpu += time.process_time() - begun
        return status

    def _advance(self, stop: int) -> int:
        while True:
            status = self._timed(kernel.advance, self._world(), stop)
            if status == kernel.WANTS_EVENTS:
                self.queue = with_room(self.queue, kernel.most_scheduled(self._world()))
            elif status == kernel.WANTS_LINKS:
                self.links = arrays.roomier_links(self.links)
            elif status == kernel.WANTS_TRACE:
                self._drain()
            else:
                wrong = int(self.counts.of[arrays.WRONG])
                assert wrong != arrays.STRAY, "an arc or a connection was not where it had to be"
                return wrong

    def _drain(self) -> None:
        self.rows.append(self.counts.trace[: self.counts.of[arrays.TRACED]].copy())
        self.counts.of[arrays.TRACED] = 0

    def _sample(self, t: int, sources: int) -> None:
        links, views, lives = self.links, self.views, self.lives
        of = links.of[_first(links.degree, links.of.shape[1])]
        safe = links.safe[of]
        waiting = self.messages.logged[links.to[of ^ 1]] - links.start[of]
        n, sizes = len(views.sizes), views.sizes
        if len(lives.up):  # a sync sends what is missing; nothing waits for it
            waiting[:] = 0
            n, sizes = max(1, int(lives.up.sum())), np.where(lives.up, sizes, 0)
        self.samples.append(
            Sample(
                t=t,
                links=len(of) / n,
                unsafe_links=float((~safe).sum()) / n,
                lent_links=float(views.lent[_first(sizes, views.lent.shape[1])].sum()) / n,
                arcs=float(sizes.sum()) / n,
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
        made = int(self.counts.of[arrays.BROADCASTS])
        return OverlayRun(
            scenario=self.scenario,
            samples=self.samples,
            broadcasts=messages.at[:made],
            origins=messages.origin[:made],
            hops=messages.hops[:made],
            plain_hops=messages.plain_hops[:made],
            arrival=messages.arrival[:made],
            plain_arrival=messages.plain_arrival[:made],
            log=messages.log,
            logged=messages.logged,
            counts={name: int(value) for name, value in zip(COUNTS, self.counts.of, strict=True)},
            trace=np.concatenate(self.rows),
            peers=views.peers,
            ages=views.ages,
            sizes=np.maximum(views.sizes, 0),
            cpu=self.cpu,
        )


def _faults(scenario: Scenario) -> tuple[Longs, Longs]:
    """When faults strike, and what they are (`Lives.faults`)."""
    rows = []
    for fault in scenario.faults:
        match fault:
            case Join(at=at, node=node, peers=peers):
                rows.append((at, arrays.JOIN, node, peers[0] if peers else -1))
            case Crash(at=at, node=node):
                rows.append((at, arrays.CRASH, node, -1))
            case Leave(at=at, node=node):
                rows.append((at, arrays.LEAVE, node, -1))
    table = np.array(rows, np.int64).reshape(-1, 4)
    return table[:, 0].copy(), table[:, 1:].copy()


def _first(sizes: NDArray[np.int32], width: int) -> NDArray[np.bool_]:
    """As many places of each row as it has entries."""
    taken: NDArray[np.bool_] = np.arange(width)[None, :] < sizes[:, None]
    return taken


def _padded(column: NDArray[np.int32], wide: NDArray[np.int32]) -> NDArray[np.int32]:
    more = wide.copy()
    more[: len(column), : column.shape[1]] = column
    return more


def _pairs(views: Views) -> Longs:
    """The connections that arcs need, sorted."""
    owners = np.repeat(np.arange(len(views.sizes), dtype=np.int64), views.sizes)
    peers = views.peers[_first(views.sizes, views.peers.shape[1])].astype(np.int64)
    ends = np.stack([owners, peers], axis=1)
    ends.sort(axis=1)
    return np.unique(ends, axis=0)
