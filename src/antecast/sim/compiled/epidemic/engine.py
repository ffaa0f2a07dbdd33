"""The compiled engine for epidemic exchange without order: the reference's run, byte for byte.

`epidemic` with an unlimited cache, over contacts or a network whose links last. `check` refuses everything else,
such as runs whose offers might not fit into one frame, nodes that go and come back, and clocks that are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from antecast.core import ConfigurationError
from antecast.history.log import EventWriter, SampleWriter
from antecast.protocols.opportunistic import EpidemicSettings
from antecast.sim.clocks import ClockSettings
from antecast.sim.compiled.book import drain, make_book, roomier_book
from antecast.sim.compiled.cells import IN_USE, make_cells, roomier_cells
from antecast.sim.compiled.draws import delay_model
from antecast.sim.compiled.engine import CompiledEngine
from antecast.sim.compiled.epidemic import kernel
from antecast.sim.compiled.epidemic.arrays import (
    APPEAR,
    ASK_AT,
    EVERYTHING,
    FIFO,
    FIRST,
    FRAMES_LOST,
    HELD,
    HOSTS,
    LAST,
    LATEST,
    LEAVE,
    MEET,
    MOST_NAMED,
    PART,
    PATIENCE,
    SERIAL,
    UP,
    Sets,
    World,
)
from antecast.sim.compiled.links import FAR, LONGEST, check_links
from antecast.sim.compiled.queue import FREE, Longs, make_queue, refill, roomier_queue
from antecast.sim.compiled.table import make_table, roomier_table
from antecast.sim.compiled.workload import Plan, check_workload, plan_broadcasts
from antecast.sim.contact_plan import ContactPlan, load_plan
from antecast.sim.radio.layout import Cells as CellNetwork
from antecast.sim.scenario import Scenario
from antecast.sim.streams import stream_key
from antecast.sim.topology import Contacts, Spray, edges
from antecast.sim.workload_kinds import Chatter, Periodic

_BURST = 1 << 14


def check(scenario: Scenario) -> None:
    """Refuse what this engine would not run as the reference does, with the field that says so."""
    settings, network = scenario.protocol_settings, scenario.network
    assert isinstance(settings, EpidemicSettings)
    if settings.capacity is not None:
        _refuse("protocol.capacity", "has caches without a limit; leave this out")
    if settings.order != "random":
        _refuse("protocol.order", 'hands messages over in random order; set this to "random"')
    if settings.patience > LONGEST:
        _refuse("protocol.patience", "counts up to 104 days")
    if scenario.clocks != ClockSettings():
        _refuse("clocks", "runs epidemic exchange with perfect clocks; leave this out")
    if isinstance(network.topology, Spray | CellNetwork):
        _refuse("network.topology.kind", "runs epidemic exchange over contacts and links that last")
    if network.packets or network.links:
        _refuse("network", "runs epidemic exchange over links that are all alike and no packet network")
    check_links(scenario)
    check_workload(scenario)
    for index, workload in enumerate(scenario.workload):
        if isinstance(workload, Chatter):
            _refuse(f"workload[{index}].kind", "knows no answers to epidemic exchange")
    if isinstance(network.topology, Contacts):
        plan = load_plan(network.topology)
        if any(len(spans) > 1 for spans in plan.presence.values()):
            _refuse("network.topology.presence", "knows no nodes that go and come back")
    most = _most_broadcasts(scenario)
    if scenario.nodes + 2 * most > MOST_NAMED:
        _refuse("workload", f"has room in an offer for {(MOST_NAMED - scenario.nodes) // 2} messages, not {most}")


def _refuse(field: str, problem: str) -> None:
    raise ConfigurationError(f"the compiled engine {problem}", field=field)


def _on_arrival(scenario: Scenario) -> Iterator[Periodic]:
    for workload in scenario.workload:
        if isinstance(workload, Periodic) and workload.after_arrival is not None:
            yield workload


def _most_broadcasts(scenario: Scenario) -> int:
    """No run of the scenario has more messages."""
    from antecast.sim.study import expected_broadcasts

    if expected_broadcasts(scenario) > MOST_NAMED:
        return MOST_NAMED
    count = len(_planned(scenario).at)
    for workload in _on_arrival(scenario):
        until = scenario.duration if workload.until is None else workload.until
        senders = scenario.nodes if workload.senders is None else len(set(workload.senders))
        count += senders * (min(until, scenario.horizon) // max(1, workload.every) + 2)
    return count


def _planned(scenario: Scenario) -> Plan:
    """The broadcasts that do not depend on when nodes arrive."""
    left_out = {
        index
        for index, each in enumerate(scenario.workload)
        if isinstance(each, Periodic) and each.after_arrival is not None
    }
    return plan_broadcasts(scenario, left_out)


class EpidemicEngine(CompiledEngine):
    """One run of epidemic exchange in the making."""

    def __init__(self, scenario: Scenario, events: EventWriter, samples: SampleWriter) -> None:
        super().__init__()
        settings, network, topology = scenario.protocol_settings, scenario.network, scenario.network.topology
        assert isinstance(settings, EpidemicSettings)
        self._scenario, self._events, self._samples = scenario, events, samples
        n, most = scenario.nodes, _most_broadcasts(scenario)
        self._plan, self._ticks = _planned(scenario), _make_ticks(scenario)
        nodes = np.zeros((n, 8), np.int64)
        nodes[:, [LATEST, FIRST, LAST, ASK_AT]] = -1
        at = np.zeros(7, np.int64)
        at[PATIENCE], at[FIFO], at[EVERYTHING] = settings.patience, network.fifo, scenario.log.events == "all"
        plan = load_plan(topology) if isinstance(topology, Contacts) else None
        pairs = np.array(edges(topology, n, scenario.seed), np.int64).reshape(-1, 2)
        trace = np.empty((0, 4), np.int64)
        if plan is not None and isinstance(topology, Contacts):
            trace = _trace(plan, min(int(topology.setup), FAR))
        present = [p for p in range(n) if plan is None or p not in plan.presence]
        room = 4 * n + 64
        self._world = World(
            messages=np.empty((most + 1, 5), np.int64),
            nodes=nodes,
            order=np.zeros(n, np.int32),
            contacts=np.zeros((0, 13), np.int64),
            keys=np.zeros((0, 2), np.uint64),
            free=np.zeros(0, np.int32),
            room=np.zeros(1, np.int64),
            sets=_make_sets(n, 4 * n + 2 * len(pairs) + 64, most // 64 + 1),
            table=make_table(4 * n + 4 * len(pairs) + 1024),
            cells=make_cells(1 << 12),
            purposes=np.array([stream_key(scenario.seed, each) for each in ("delay", "loss")], np.uint64),
            models=delay_model(network.delay)[None, :],
            losses=np.array([max(0, int(network.loss * 2**64) - 1)], np.uint64),
            counts=np.zeros(n, np.int32),
            chosen=np.empty((most + 1, 2), np.int64),
            sent=np.zeros(6, np.int64),
            at=at,
        )
        self._more_contacts(room + len(pairs))
        waiting = len(self._plan.first) + len(self._ticks) * n + 2 * len(pairs) + len(trace) + 16
        self._queue = make_queue(max(1 << 14, 2 * waiting), 4)
        self._book = make_book(n, max(1 << 17, 4 * len(pairs)), frames=bool(at[EVERYTHING]))
        self._at: Longs = np.zeros(5, np.int64)
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
        self._every = min(int(every), 1 << 61)
        kernel.begin(
            self._world, self._queue, self._book, self._plan, self._ticks, np.array(present, np.int64), pairs,
            trace, self._every, int(scenario.duration),
        )  # fmt: skip
        if self._every:
            self._sample()

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
                self._world, self._queue, self._book, self._plan, self._ticks, self._at,
                horizon, self._every, duration, _BURST,
            )  # fmt: skip
            if status == kernel.SAMPLES:
                self._sample()
                continue
            drain(self._book, self._events)
            if status == kernel.WANTS_ROOM:
                self._make_room()
                continue
            if status == kernel.ENDLESS:
                raise ConfigurationError("the run has more events than can be counted", field="duration")
            if status == kernel.ENDED:
                self._at[kernel.NOW] = horizon
            elif between is None or between():
                continue
            drain(self._book, self._events, whole=True)
            return int(self._at[kernel.STEPS])

    def _sample(self) -> None:
        world = self._world
        there = world.order[: world.at[HOSTS]]
        there = there[world.nodes[there, UP] > 0]
        nothing = np.zeros(len(there), np.int64)
        gauges = {"pending": nothing, "clock": nothing, "cached": world.nodes[there, HELD]}
        self._samples.append_all(self.now, gauges | {"dropped": nothing, "refused": nothing}, there)

    def _more_contacts(self, pairs: int) -> None:
        """Room for so many more contacts."""
        world = self._world
        before = len(world.free)
        contacts = np.zeros((2 * (before + pairs), 13), np.int64)
        contacts[: 2 * before] = world.contacts
        contacts[2 * before :, SERIAL] = -1
        keys = np.zeros((2 * (before + pairs), 2), np.uint64)
        keys[: 2 * before] = world.keys
        free, left = np.zeros(before + pairs, np.int32), int(world.room[0])
        free[:pairs] = np.arange(before + pairs - 1, before - 1, -1)
        free[pairs : pairs + left] = world.free[:left]
        world.room[0] = pairs + left
        self._world = world._replace(contacts=contacts, keys=keys, free=free)

    def _make_room(self) -> None:
        """Room for as many entries in every array, twice over, so that it lasts."""
        wanted, sets_wanted = 2 * int(self._at[kernel.NEEDED]), 2 * int(self._at[kernel.NEEDED_SETS])
        while self._queue.at[FREE] < wanted:
            self._queue = roomier_queue(self._queue)
        while len(self._book.rows) - self._book.at[0] < wanted:
            self._book = roomier_book(self._book)
        table, cells, sets = self._world.table, self._world.cells, self._world.sets
        while len(table.key) // 2 - table.at[0] < wanted:
            table = roomier_table(table)
        while len(cells.of) - cells.at[IN_USE] < wanted:
            cells = roomier_cells(cells)
        while sets.at[0] < sets_wanted:
            sets = _roomier_sets(sets)
        self._world = self._world._replace(table=table, cells=cells, sets=sets)
        if self._world.room[0] < self._scenario.nodes:
            self._more_contacts(max(2 * self._scenario.nodes, len(self._world.free)))


ENGINE = EpidemicEngine


def _trace(plan: ContactPlan, setup: int) -> Longs:
    """What a trace says, in the order in which the reference schedules it: time, kind, two nodes."""
    spans = [(node, *span) for node, each in plan.presence.items() for span in each]
    nodes, appear, leave = np.array(spans, np.int64).reshape(-1, 3).T
    start, end, a, b = np.array(plan.contacts, np.int64).reshape(-1, 4).T
    usable = start + setup < end
    start, end, a, b = (column[usable] for column in (start + setup, end, a, b))
    return np.concatenate(
        [
            _alternating((appear, APPEAR, nodes, 0 * nodes), (leave, LEAVE, nodes, 0 * nodes)),
            _alternating((start, MEET, a, b), (end, PART, a, b)),
        ]
    )


def _alternating(*kinds: tuple[Longs, int, Longs, Longs]) -> Longs:
    """Rows of one kind and of the other in turn."""
    rows = np.empty((len(kinds[0][0]), len(kinds), 4), np.int64)
    for index, (at, kind, one, other) in enumerate(kinds):
        rows[:, index, 0], rows[:, index, 1], rows[:, index, 2], rows[:, index, 3] = at, kind, one, other
    return rows.reshape(-1, 4)


def _make_ticks(scenario: Scenario) -> Longs:
    """The workloads that begin with an arrival."""
    rows = []
    for each in _on_arrival(scenario):
        assert each.after_arrival is not None
        until = scenario.duration if each.until is None else each.until
        times = (each.after_arrival, max(1, each.every), each.start, until)
        senders = [each.senders is None or p in each.senders for p in range(scenario.nodes)]
        rows.append([*(min(int(t), FAR) for t in times), each.payload, *senders])
    return np.array(rows, np.int64).reshape(-1, 5 + scenario.nodes)


def _make_sets(nodes: int, room: int, words: int) -> Sets:
    free = np.arange(nodes + room - 1, nodes - 1, -1).astype(np.int32)
    return Sets(
        np.zeros((nodes + room, words), np.uint64), np.zeros(nodes + room, np.int32),
        np.concatenate([free, np.zeros(nodes, np.int32)]), np.array([room]),
    )  # fmt: skip


def _roomier_sets(sets: Sets) -> Sets:
    rows = len(sets.words)
    words = np.zeros((2 * rows, sets.words.shape[1]), np.uint64)
    words[:rows] = sets.words
    free, at = np.empty(2 * rows, np.int32), sets.at.copy()
    refill(sets.free, free, at, 0, rows)
    return Sets(words, np.concatenate([sets.length, np.zeros(rows, np.int32)]), free, at)
