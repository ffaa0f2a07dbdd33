"""The compiled engine for opportunistic exchange: runs of `epidemic`, `barrier` and `delta` as the reference makes
them, byte for byte (`checks` says which)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecast.core import MAX_SOURCES, ConfigurationError
from antecast.history.log import EventWriter, SampleWriter
from antecast.protocols.opportunistic import BarrierSettings, DeltaSettings, EpidemicSettings
from antecast.protocols.runs import PART
from antecast.sim.compiled.book import drain, make_book, roomier_book
from antecast.sim.compiled.cells import IN_USE, make_cells, roomier_cells
from antecast.sim.compiled.clocks import make_clocks
from antecast.sim.compiled.draws import delay_model
from antecast.sim.compiled.engine import CompiledEngine, OutOfReach
from antecast.sim.compiled.links import FAR
from antecast.sim.compiled.opportunistic import kernel
from antecast.sim.compiled.opportunistic.arrays import (
    ASK_AT,
    AWAITED_FIRST,
    AWAITED_LAST,
    BANDWIDTH,
    BARRIER,
    BARRIER_FIRST,
    BARRIER_LAST,
    CLOCK,
    CLOCK_BOUND,
    EVERYTHING,
    EXPIRIES,
    FIFO,
    FIRST,
    FORGET_AT,
    FORGOTTEN,
    FRAMES_LOST,
    HELD,
    HORIZON,
    HOSTS,
    KNOWN_FIRST,
    LAST,
    LAST_TAG,
    LATEST,
    LIFETIME,
    LONG_AGO,
    LONGEST_LIFETIME,
    MADE,
    MEASURED,
    MOST_NAMED,
    MOST_NUMBERED,
    MOST_SOURCES,
    MOST_TOLD,
    NAMED_USED,
    NEVER,
    NEXT_DEADLINE,
    NEXT_FORGOTTEN,
    NODE_COLUMNS,
    ON_AIR,
    ORDERED,
    PATIENCE,
    PENDING,
    PER_LINK,
    PRUNED,
    PURGE_AT,
    QUEUE_FIRST,
    QUEUE_LAST,
    REACH,
    REFUSED,
    ROOM_FOR_EARLY,
    SAFE,
    SERIAL,
    SHORTEST,
    SOONEST,
    STEPS,
    TIMED,
    TIMERS,
    TOO_EARLY,
    TOO_LATE,
    TOO_LONG,
    TOO_SPREAD,
    UP,
    WAKE_AT,
    WAKES_AT,
    WANTED,
    World,
)
from antecast.sim.compiled.opportunistic.checks import check
from antecast.sim.compiled.opportunistic.script import make_script
from antecast.sim.compiled.pool import TAKEN, Pool, make_pool, roomier_pool
from antecast.sim.compiled.queue import Longs, make_queue, with_room
from antecast.sim.compiled.sets import make_sets, roomier_sets, wider_sets
from antecast.sim.compiled.table import Table, make_table, roomier_table
from antecast.sim.compiled.workload import make_chat, plan_broadcasts
from antecast.sim.contact_plan import load_plan
from antecast.sim.scenario import Scenario
from antecast.sim.streams import stream_key
from antecast.sim.topology import Contacts, edges
from antecast.sim.workload_kinds import Periodic

__all__ = ["ENGINE", "check"]

_BURST = 1 << 14
_WORD = 64

_GAUGES = {
    "pending": PENDING,
    "clock": CLOCK,
    "barrier": BARRIER,
    "cached": HELD,
    "dropped": None,
    "refused": REFUSED,
}
"""The gauges, in the reference's order, and where they are."""


class OpportunisticEngine(CompiledEngine):
    """One run of opportunistic exchange in the making."""

    def __init__(self, scenario: Scenario, events: EventWriter, samples: SampleWriter) -> None:
        super().__init__()
        topology = scenario.network.topology
        self._scenario, self._events, self._samples = scenario, events, samples
        n = scenario.nodes
        on_arrival = {
            index
            for index, each in enumerate(scenario.workload)
            if isinstance(each, Periodic) and each.after_arrival is not None
        }
        self._plan, self._chat = plan_broadcasts(scenario, on_arrival), make_chat(scenario)
        self._ticks = _make_ticks(scenario)
        self._script, first, self._groups = make_script(scenario)
        away = load_plan(topology).presence if isinstance(topology, Contacts) else {}
        present = np.array([p for p in range(n) if p not in away], np.int64)
        pairs = np.array(edges(topology, n, scenario.seed), np.int64).reshape(-1, 2)
        self._world = _make_world(scenario, len(pairs), max(1024, len(self._plan.at)))
        self._more_contacts(4 * n + 64 + len(pairs))
        waiting = len(self._plan.first) + len(self._ticks) * n + 4 * len(pairs) + len(first) + 64
        self._queue = with_room(make_queue(1 << 14, 4), waiting)
        self._book = make_book(n, max(1 << 17, 8 * len(pairs)), frames=scenario.log.events == "all")
        self._at: Longs = np.zeros(9, np.int64)
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
        self._every = min(int(every), 1 << 61)
        self._start = kernel.Start(present, pairs, np.array([int(bool(scenario.faults))]), first)

    @property
    def now(self) -> int:
        return int(self._at[kernel.NOW])

    @property
    def lost(self) -> int:
        return int(self._world.at[FRAMES_LOST])

    def run(self, between: Callable[[], bool] | None = None) -> int:
        horizon, duration = int(self._scenario.horizon), int(self._scenario.duration)
        while True:
            status = kernel.advance(
                self._world, self._queue, self._book, self._plan, self._chat, self._ticks, self._script,
                self._groups, self._start, self._at, horizon, self._every, duration, _BURST,
            )  # fmt: skip
            if status == kernel.SAMPLES:
                if self._every:
                    self._sample()
                continue
            drain(self._book, self._events)
            if status == kernel.WANTS_ROOM:
                self._make_room()
                continue
            if status == kernel.ENDLESS:
                raise ConfigurationError("the run has more events than can be counted", field="duration")
            if status == kernel.OUT_OF_REACH:
                raise OutOfReach(*_why_not(int(self._world.at[REACH])))
            if status == kernel.ENDED:
                self._at[kernel.NOW] = horizon
            elif between is None or between():
                continue
            drain(self._book, self._events, whole=True)
            return int(self._world.at[STEPS])

    def _sample(self) -> None:
        world = self._world
        there = world.order[: world.at[HOSTS]]
        there = there[world.nodes[there, UP] > 0]
        gauges = {
            name: np.zeros(len(there), np.int64) if column is None else world.nodes[there, column]
            for name, column in _GAUGES.items()
            if column != BARRIER or world.at[ORDERED]
        }
        self._samples.append_all(self.now, gauges, there)

    def _more_contacts(self, pairs: int) -> None:
        """Room for so many more contacts."""
        world = self._world
        before, n = len(world.free), len(world.nodes)
        contacts = np.zeros((2 * (before + pairs), 14), np.int64)
        contacts[: 2 * before] = world.contacts
        contacts[2 * before :, SERIAL] = -1
        keys = np.zeros((2 * (before + pairs), 2), np.uint64)
        keys[: 2 * before] = world.keys
        ports = _make_ports(n + (len(contacts) if world.at[PER_LINK] else 0))
        ports[: len(world.ports)] = world.ports
        free, left = np.zeros(before + pairs, np.int32), int(world.room[0])
        free[:pairs] = np.arange(before + pairs - 1, before - 1, -1)
        free[pairs : pairs + left] = world.free[:left]
        world.room[0] = pairs + left
        self._world = world._replace(contacts=contacts, keys=keys, free=free, ports=ports)

    def _make_room(self) -> None:
        """Room for as many entries in every array, twice over, so that it lasts."""
        world, at = self._world, self._at
        wanted = 2 * int(at[kernel.NEEDED])
        self._queue = with_room(self._queue, wanted)
        while len(self._book.rows) - self._book.at[0] < wanted:
            self._book = roomier_book(self._book)
        changes: dict[str, Any] = {}
        changes["table"] = _grown_table(world.table, wanted)
        changes["frames"] = _grown_pool(world.frames, wanted)
        changes["rows"] = _grown_pool(world.rows, 2 * int(at[kernel.NEEDED_ROWS]))
        cells, sets, messages, named = world.cells, world.sets, world.messages, world.named
        while len(cells.of) - cells.at[IN_USE] < wanted:
            cells = roomier_cells(cells)
        while sets.at[0] < 2 * at[kernel.NEEDED_SETS]:
            sets = roomier_sets(sets)
        while len(messages) - world.at[MADE] < 2 * at[kernel.NEEDED_MESSAGES]:
            messages, sets = _longer(messages), wider_sets(sets)
            changes["chosen"] = np.empty((len(messages) + len(world.nodes), 2), np.int64)
        while len(named) - world.at[NAMED_USED] < 2 * at[kernel.NEEDED_NAMED]:
            named = _longer(named)
        if world.lists.shape[1] < wanted:
            changes["lists"] = np.empty((4, 2 * wanted), np.int64)
        self._world = world._replace(cells=cells, sets=sets, messages=messages, named=named, **changes)
        if self._world.room[0] < 2 * at[kernel.NEEDED_CONTACTS]:
            self._more_contacts(max(2 * int(at[kernel.NEEDED_CONTACTS]), len(self._world.free)))


ENGINE = OpportunisticEngine


def _why_not(reach: int) -> tuple[str, str]:
    """A field and what about it was more than the engine supports."""
    if reach == TOO_EARLY:
        return "protocol.early", "a node came to hold more bytes of early messages than this"
    if reach == TOO_LATE:
        return "workload", f"a node came to refuse more than {MOST_TOLD:,} messages that came too late"
    if reach == TOO_SPREAD:
        return "nodes", f"a node may have come to know {MAX_SOURCES:,} sources, more than a stamp can name"
    if reach == TOO_LONG:
        return "duration", f"there were {MOST_NUMBERED:,} contacts, or timers of one node"
    return "workload", f"an offer came to name more than {PART:,} sources and numbers, too many for one frame"


def _make_world(scenario: Scenario, pairs: int, messages: int) -> World:
    n, ordered = scenario.nodes, scenario.specification.name != "epidemic"
    at = _settings(scenario)
    owned = n * (1 + ordered + 2 * bool(at[TIMED]))
    messages += -messages % _WORD
    room = 1 << 14 if ordered else 1 << 10
    return World(
        messages=np.empty((messages, 9), np.int64),
        named=np.empty(4 * messages + 64, np.int32),
        nodes=_make_nodes(n, at[LIFETIME]),
        clocks=make_clocks(scenario),
        order=np.zeros(n, np.int32),
        contacts=np.zeros((0, 14), np.int64),
        keys=np.zeros((0, 2), np.uint64),
        free=np.zeros(0, np.int32),
        room=np.zeros(1, np.int64),
        ports=_make_ports(n),
        frames=make_pool((1 << 12) + 2 * pairs if at[BANDWIDTH] else 64, 6),
        sets=make_sets(owned, n // 4 + 2 * pairs + 64, messages // _WORD),
        table=make_table(4 * n + 4 * pairs + room),
        cells=make_cells((1 << 12) + 4 * pairs),
        rows=make_pool(room, 9),
        purposes=np.array([stream_key(scenario.seed, each) for each in ("delay", "loss")], np.uint64),
        models=delay_model(scenario.network.delay)[None, :],
        losses=np.array([max(0, int(scenario.network.loss * 2**64) - 1)], np.uint64),
        counts=np.zeros(n, np.int32),
        sources=np.empty(n, np.int32),
        chosen=np.empty((messages + n, 2), np.int64),
        lists=np.empty((4, 1 << 10), np.int64),
        tally=np.zeros(4, np.int64),
        sent=np.zeros(6, np.int64),
        at=at,
    )


def _settings(scenario: Scenario) -> Longs:
    settings, network = scenario.protocol_settings, scenario.network
    assert isinstance(settings, EpidemicSettings)
    at = np.zeros(STEPS + 1, np.int64)
    at[PATIENCE], at[ROOM_FOR_EARLY] = settings.patience, min(settings.early, NEVER)
    at[FIFO], at[BANDWIDTH] = network.fifo, network.bandwidth or 0
    at[PER_LINK] = network.queue == "link" and bool(network.bandwidth)
    at[EVERYTHING] = scenario.log.events == "all"
    at[MEASURED] = at[EVERYTHING] or at[BANDWIDTH] > 0
    at[HORIZON] = scenario.horizon
    at[MOST_NAMED], at[MOST_SOURCES] = PART, NEVER
    if isinstance(settings, BarrierSettings):
        at[ORDERED], at[PRUNED] = 1, settings.prune
        if scenario.nodes >= MAX_SOURCES:
            at[MOST_SOURCES] = MAX_SOURCES - 1
    if isinstance(settings, DeltaSettings):
        at[TIMED], at[SAFE] = 1, settings.rule == "safe"
        at[CLOCK_BOUND], at[LIFETIME] = settings.clock_bound, settings.lifetime
        longest = settings.lifetime if settings.max_lifetime is None else settings.max_lifetime
        at[LONGEST_LIFETIME] = longest
    return at


def _make_nodes(n: int, lifetime: int) -> Longs:
    nodes = np.zeros((n, NODE_COLUMNS), np.int64)
    nodes[:, [FIRST, LAST, WANTED, LATEST, BARRIER_FIRST, BARRIER_LAST, AWAITED_FIRST, AWAITED_LAST]] = -1
    nodes[:, [KNOWN_FIRST, EXPIRIES, *range(TIMERS, TIMERS + 3)]] = -1
    nodes[:, [ASK_AT, PURGE_AT, WAKE_AT, NEXT_DEADLINE, NEXT_FORGOTTEN, SOONEST]] = NEVER
    nodes[:, FORGET_AT], nodes[:, SHORTEST] = -NEVER, lifetime
    nodes[:, [FORGOTTEN, LAST_TAG]] = LONG_AGO
    return nodes


def _make_ports(count: int) -> Longs:
    ports = np.zeros((count, 6), np.int64)
    ports[:, [ON_AIR, WAKES_AT, QUEUE_FIRST, QUEUE_LAST]] = -1
    return ports


def _make_ticks(scenario: Scenario) -> Longs:
    """The workloads that begin with an arrival."""
    rows = []
    for each in _on_arrival(scenario):
        assert each.after_arrival is not None
        until = scenario.duration if each.until is None else each.until
        times = (each.after_arrival, max(1, each.every), each.start, until)
        senders = [each.senders is None or p in each.senders for p in range(scenario.nodes)]
        lifetime = -1 if each.lifetime is None else each.lifetime
        rows.append([*(min(int(t), FAR) for t in times), each.payload, lifetime, *senders])
    return np.array(rows, np.int64).reshape(-1, 6 + scenario.nodes)


def _on_arrival(scenario: Scenario) -> Iterator[Periodic]:
    for workload in scenario.workload:
        if isinstance(workload, Periodic) and workload.after_arrival is not None:
            yield workload


def _grown_table(table: Table, wanted: int) -> Table:
    while len(table.key) // 2 - table.at[0] < wanted:
        table = roomier_table(table)
    return table


def _grown_pool(pool: Pool, wanted: int) -> Pool:
    while len(pool.of) - 1 - pool.of[0, TAKEN] < wanted:
        pool = roomier_pool(pool)
    return pool


def _longer(rows: NDArray[Any]) -> NDArray[Any]:
    more = np.empty((2 * len(rows), *rows.shape[1:]), rows.dtype)
    more[: len(rows)] = rows
    return more
