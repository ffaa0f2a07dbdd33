"""The compiled engine for VCube: the reference's run, byte for byte, many times as fast.

`vcube` and `vcube-single` without diagnosis, with aggregation or without, in complete networks whose links last,
lose or delay frames as they like and need no bandwidth. `check` refuses everything else. Clocks may be anything:
without diagnosis no node looks at them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.history.log import EventWriter, SampleWriter
from antecast.protocols.vcube import VCubeSettings
from antecast.sim.compiled.book import drain, make_book, roomier_book
from antecast.sim.compiled.cells import IN_USE, make_cells, roomier_cells
from antecast.sim.compiled.engine import CompiledEngine
from antecast.sim.compiled.links import LOST, OWN, check_links, make_links
from antecast.sim.compiled.queue import Longs, make_queue, with_room
from antecast.sim.compiled.table import make_table, roomier_table
from antecast.sim.compiled.vcube import kernel
from antecast.sim.compiled.vcube.arrays import (
    BARRIER,
    CLOCK,
    HOLDS,
    LATEST,
    MADE,
    MESSAGE_BITS,
    MOST_NODES,
    PENDING,
    STAMPED,
    Cube,
    Holds,
    Messages,
    Nodes,
    Scratch,
    World,
)
from antecast.sim.compiled.vcube.holding import MOST_LISTED, first_of
from antecast.sim.compiled.workload import check_workload, make_chat, plan_broadcasts
from antecast.sim.scenario import Scenario
from antecast.sim.topology import Complete

_BURST = 1 << 14
"""Events between two looks at the outside world."""

_GAUGES = {"pending": PENDING, "clock": CLOCK, "barrier": BARRIER, "held": HOLDS}


def check(scenario: Scenario) -> None:
    """Refuse what this engine would not run as the reference does, with the field that says so."""
    settings = scenario.protocol_settings
    assert isinstance(settings, VCubeSettings)
    if settings.diagnosis:
        raise ConfigurationError(
            "the compiled engine runs VCube without diagnosis; set it to 0", field="protocol.diagnosis"
        )
    if not isinstance(scenario.network.topology, Complete):
        raise ConfigurationError("the compiled engine runs VCube in complete networks", field="network.topology")
    if scenario.nodes >= MOST_NODES:
        raise ConfigurationError(
            f"the compiled engine runs VCube with fewer than {MOST_NODES} nodes", field="nodes"
        )
    check_links(scenario)
    check_workload(scenario)


class VCubeEngine(CompiledEngine):
    """One run of VCube in the making."""

    def __init__(self, scenario: Scenario, events: EventWriter, samples: SampleWriter) -> None:
        super().__init__()
        settings = scenario.protocol_settings
        assert isinstance(settings, VCubeSettings)
        self._scenario, self._events, self._samples = scenario, events, samples
        n, is_single = scenario.nodes, scenario.specification.name == "vcube-single"
        dimension = (n - 1).bit_length()
        columns, ends = _tree_links(n, dimension, single=is_single)
        self._links = make_links(scenario, ends)
        # Whoever gets a packet has the height of its sender's cluster, less one; the single root that of the tree.
        self._links.of[columns[columns >= 0], OWN] = np.nonzero(columns >= 0)[1]
        self._links.of[is_single & (ends[:, 1] == 0), OWN] = dimension
        rules = [is_single, settings.aggregate, settings.mtu - settings.header, dimension, n, scenario.horizon]
        self._plan, self._chat = plan_broadcasts(scenario), make_chat(scenario)
        count = max(1024, len(self._plan.at))
        of = np.zeros((n, 8), np.int64)
        of[:, LATEST] = -1
        listed = 2 * MOST_LISTED + n if settings.aggregate else 0
        self._world = World(
            cube=Cube(columns, np.array(rules, np.int64)),
            messages=Messages(
                np.empty((count, 9), np.int64), np.empty((1 << 16, 2), np.int32), np.zeros(2, np.int64)
            ),
            nodes=Nodes(
                of,
                np.full((n, n), -1, np.int32),
                np.full((n, n), -1, np.int32),
                np.zeros((n, n), np.bool_),
                np.empty((n, n), np.int32),
            ),
            holds=_make_holds(1 << 10),
            table=make_table(1 << 12),
            cells=make_cells(listed + (1 << 14)),
            scratch=_make_scratch(1 << 12, listed),
        )
        self._queue = make_queue(1 << 16, 2)
        self._book = make_book(n, 1 << 17, frames=scenario.log.events == "all")
        self._at: Longs = np.zeros(4, np.int64)
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
        self._every = min(int(every), 1 << 61)
        if self._every:
            self._sample()
        self._queue = with_room(self._queue, len(self._plan.first) + 1)
        kernel.begin(self._queue, self._plan, self._every, int(scenario.duration))

    @property
    def now(self) -> int:
        return int(self._at[kernel.NOW])

    @property
    def lost(self) -> int:
        return int(self._links.rules[LOST])

    def run(self, between: Callable[[], bool] | None = None) -> int:
        scenario = self._scenario
        horizon, duration = int(scenario.horizon), int(scenario.duration)
        while True:
            status = kernel.advance(
                self._world, self._queue, self._links, self._book, self._plan, self._chat, self._at,
                horizon, self._every, duration, _BURST,
            )  # fmt: skip
            if status == kernel.SAMPLES:
                self._sample()
                continue
            drain(self._book, self._events)
            if status == kernel.WANTS_ROOM:
                self._make_room(int(self._at[kernel.NEEDED]))
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
        of = self._world.nodes.of
        self._samples.append_all(self.now, {name: of[:, column] for name, column in _GAUGES.items()})

    def _make_room(self, needed: int) -> None:
        """Room for as many entries in every array, twice over, so that it lasts."""
        world, wanted = self._world, 2 * needed
        self._queue = with_room(self._queue, wanted)
        while len(self._book.rows) - self._book.at[0] < wanted:
            self._book = roomier_book(self._book)
        messages, holds, table, cells, scratch = (
            world.messages, world.holds, world.table, world.cells, world.scratch,
        )  # fmt: skip
        while len(messages.of) - messages.at[MADE] < wanted:
            messages = messages._replace(of=_longer(messages.of))
        while len(messages.stamps) - messages.at[STAMPED] - self._scenario.nodes < wanted:
            messages = messages._replace(stamps=_longer(messages.stamps))
        while holds.at[0] < wanted:
            holds = _roomier_holds(holds)
        while len(table.key) // 2 - table.at[0] < wanted:
            table = roomier_table(table)
        while len(cells.of) - cells.at[IN_USE] - len(scratch.listed) < wanted:
            cells = roomier_cells(cells)
        if len(scratch.ready) < wanted:
            scratch = _make_scratch(wanted, len(scratch.listed))
        if max(len(messages.of), len(cells.of)) >> MESSAGE_BITS:
            raise ConfigurationError(
                "the run has more messages than the compiled engine can count", field="workload"
            )
        self._world = world._replace(messages=messages, holds=holds, table=table, cells=cells, scratch=scratch)


ENGINE = VCubeEngine


def _tree_links(n: int, dimension: int, *, single: bool) -> tuple[NDArray[np.int32], Longs]:
    """The links that trees use: for each node a row with its links by cluster, the last one to the root; and the
    ends of each link."""
    columns = np.full((n, dimension + single), -1, np.int32)
    ends: list[tuple[int, int]] = []
    known: dict[tuple[int, int], int] = {}
    for p in range(n):
        for s in range(dimension):
            child = first_of(n, p, s + 1)
            if child >= 0:
                columns[p, s] = known[p, child] = len(ends)
                ends.append((p, child))
    if single:
        for p in range(1, n):
            columns[p, dimension] = known.get((p, 0), len(ends))
            if (p, 0) not in known:
                ends.append((p, 0))
    return columns, np.array(ends, np.int64).reshape(-1, 2)


def _make_holds(room: int) -> Holds:
    free = np.arange(room, dtype=np.int32)[::-1].copy()
    return Holds(np.empty((room, 5), np.int64), free, np.array([room]))


def _roomier_holds(holds: Holds) -> Holds:
    room, left = len(holds.of), int(holds.at[0])
    more = _make_holds(2 * room)
    more.of[:room] = holds.of
    more.free[:room] = np.arange(2 * room - 1, room - 1, -1)
    more.free[room : room + left] = holds.free[:left]
    more.at[0] = room + left
    return more


def _make_scratch(room: int, listed: int) -> Scratch:
    return Scratch(
        np.empty(room, np.int32),
        np.empty((room, 4), np.int64),
        np.empty(listed, np.int64),
        np.empty(room, np.int32),
        np.zeros(7, np.int64),
    )


def _longer(rows: NDArray[Any]) -> NDArray[Any]:
    more = np.empty((2 * len(rows), *rows.shape[1:]), rows.dtype)
    more[: len(rows)] = rows
    return more
