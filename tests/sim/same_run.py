"""Compares a run of the compiled overlay engine with the reference's, event by event."""

import numpy as np
import pytest

from antecast.history.log import DiscardSink, EventWriter, MemorySink, SampleWriter
from antecast.history.schema import EVENTS
from antecast.sim.engine import Engine
from antecast.sim.overlay.compiled import simulate


def reference(scenario, make=None):
    """The reference's engine after the run, and its log."""
    events = MemorySink(EVENTS)
    writer = EventWriter("run", events)
    if make is None:
        engine = Engine(scenario, writer, SampleWriter("run", DiscardSink()))
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(scenario), "specification", _Making(scenario.specification, make))
            engine = Engine(scenario, writer, SampleWriter("run", DiscardSink()))
    engine.run()
    writer.close()
    return engine, events.table().to_pylist()


class _Making:
    """A specification with another maker."""

    def __init__(self, specification, make):
        self._specification, self.make = specification, make

    def __getattr__(self, name):
        return getattr(self._specification, name)


def assert_same_run(scenario, make=None):
    """Every broadcast, every frame, every delivery, and the views at the end."""
    engine, rows = reference(scenario, make)
    found = simulate(scenario, trace=True, arrivals=True, beside=make is not None)
    broadcast = [row for row in rows if row["kind"] == "broadcast"]
    assert found.origins.tolist() == [row["node"] for row in broadcast]
    assert found.broadcasts.tolist() == [row["t"] for row in broadcast]
    index = {(row["origin"], row["seq"]): m for m, row in enumerate(broadcast)}
    if scenario.log.events == "all":
        frames = [
            (row["t"], row["node"], row["peer"], -1 if row["origin"] is None else index[row["origin"], row["seq"]])
            for row in rows
            if row["kind"] == "receive"
        ]
        assert list(map(tuple, found.trace.tolist())) == frames
        assert found.counts["frames"] == len(frames)
    arrival = np.full_like(found.arrival, -1)
    for row in rows:
        if row["kind"] == "deliver":
            arrival[index[row["origin"], row["seq"]], row["node"]] = row["t"]
    assert (arrival == found.arrival).all()
    assert found.views == [
        [(arc.peer, arc.age) for arc in engine._overlay.views[p]] for p in range(scenario.total_nodes)
    ]
    assert found.counts["exchanges"] == sum(engine._overlay.exchanges.values())
    return engine, rows, found, index
