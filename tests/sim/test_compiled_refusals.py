"""The compiled overlay engine makes the reference's run or refuses before it starts, whatever a scenario says."""

import tempfile
import typing
from pathlib import Path

import msgspec
import numpy as np
import pytest
import same_run
from changed import changed, scenario_or_none
from hypothesis import event, given
from hypothesis import strategies as st

from antecast.core import AntecastError, ConfigurationError
from antecast.protocols.preventive.settings import PreventiveSettings
from antecast.sim.clocks import ClockSettings
from antecast.sim.compiled import queue
from antecast.sim.delays import Delay
from antecast.sim.fault_kinds import Fault
from antecast.sim.network import NetworkSettings
from antecast.sim.overlay.compiled import arrays, kernel, simulate, simulation
from antecast.sim.overlay.compiled.snapshots import spray_views
from antecast.sim.overlay.views import first_views
from antecast.sim.scenario import LogSettings, Scenario
from antecast.sim.streams import Stream
from antecast.sim.topology import Spray, Topology
from antecast.sim.workload_kinds import Workload

BASE = {
    "nodes": 8,
    "duration": "12s",
    "drain": "20s",
    "protocol": {"name": "pc-broadcast", "timeout": "60s"},
    "network": {
        "topology": {"kind": "spray", "every": "2s", "core": 3, "patience": "60s"},
        "fifo": True,
        "delay": {"kind": "uniform", "low": "0ms", "high": "300ms"},
    },
    "workload": [{"kind": "poisson", "rate": 0.1}],
    "log": {"sample": 0},
}

TRACE = Path(tempfile.mkdtemp()) / "broadcasts.csv"
TRACE.write_text("t,node,payload\n3,0,10\n1,0,\n1,0,5\n40,0,1\n")

CHOICES = {
    "name": ["another"],
    "seed": [0, 2, 3, 4, (1 << 63) - 1],
    "nodes": [1, 2, 3, 20],
    "duration": ["0s", "1s", "3000000h"],
    "drain": ["0s", "1ms", "3000000h"],
    "protocol.name": ["r-broadcast", "pc-broadcast-paper", "vector-changes"],
    "protocol.retain": [0, 1, 5, 100],
    "protocol.tries": [0, 1, 3],
    "protocol.timeout": ["0s", "1ms", "900ms", "901ms", "1s", "3000000h"],
    "protocol.patience": ["0s", "1s"],
    "protocol.newcomers": ["now", "kept"],
    "protocol.founders": [1, 2, 7, 8, 100],
    "network.topology": [
        *({"kind": kind} for kind in ("complete", "ring", "star", "tree", "random")),
        {"kind": "grid", "width": 3},
        {"kind": "links", "links": [[0, 1]]},
    ],
    "network.topology.every": ["0s", "1s", "10s", "100s", "3000000h"],
    "network.topology.patience": ["0s", "100ms", "900ms", "901ms", "1s"],
    "network.topology.core": [1, 2, 100],
    "network.topology.arcs": [0.2, 0.5, 1.0, 2.5, 7.0, 1e30],
    "network.topology.settle": [0, 1, 20],
    "network.delay": [
        "0s",
        "1s",
        {"kind": "uniform", "low": "0ns", "high": "2ns"},
        {"kind": "uniform", "low": "1h", "high": "4000h"},
        {"kind": "normal", "mean": "1s", "stdev": "1s"},
        {"kind": "exponential", "mean": "1s"},
        {"kind": "triangular", "low": "0s", "mode": "1s", "high": "2s"},
        {"kind": "pareto", "least": "1ms"},
        {"kind": "growing", "low": "10ms", "high": "5s", "until": "10s", "spread": 0.5},
        {"kind": "growing", "low": "2s", "high": "10ms", "start": "1s", "until": "10s"},
    ],
    "network.loss": [0.0, 0.1],
    "network.fifo": [False],
    "network.bandwidth": ["1Mb/s"],
    "network.queue": ["link", "node"],
    "network.queue_limit": [100_000],
    "network.processing": ["0s", "10ms"],
    "network.transmission": ["1ms"],
    "network.delays": ["frame", "message"],
    "network.notice": ["100ms"],
    "network.links": [[{"a": 0, "b": 1, "delay": "2s"}], [{"a": 0, "b": 1, "both": False}]],
    "clocks.offset": ["10s"],
    "clocks.drift": [10.0, 99_999.0],
    "clocks.bound": ["1ms"],
    "clocks.fixed": [{"0": "-5s", "1": "1h"}],
    "workload": [
        [],
        [
            {
                "kind": "at",
                "broadcasts": [{"t": t, "node": n} for t, n in (("1s", 0), ("1s", 0), ("0s", 1), ("20s", 0))],
            }
        ],
        [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0, "lifetime": "1s"}]}],
        [{"kind": "at", "broadcasts": [{"t": "100s", "node": 0}, {"t": "3000000h", "node": 0}]}],
        [{"kind": "periodic", "every": "1s", "stagger": False}],
        [
            {"kind": "periodic", "every": "1s", "stagger": False},
            {"kind": "periodic", "every": "500ms", "senders": [0]},
        ],
        [{"kind": "periodic", "every": "3s", "start": "1s", "until": "9s", "payload": 1 << 20}],
        [
            {"kind": "at", "broadcasts": [{"t": "3s", "node": 0}]},
            {"kind": "periodic", "every": "1s", "after_arrival": "1s", "senders": [0, 0, 1]},
            {"kind": "periodic", "every": "1s", "stagger": False, "senders": [1, 0, 0]},
        ],
        [{"kind": "periodic", "every": "1s", "after_arrival": "1s", "start": "2s"}],
        [{"kind": "periodic", "every": "3s", "lifetime": "1s"}],
        [{"kind": "poisson", "rate": 1.0, "senders": [0], "until": "100s"}],
        [{"kind": "once", "at": {"kind": "normal", "mean": "3s", "stdev": "3s"}}],
        [{"kind": "trace", "file": str(TRACE)}],
        [{"kind": "poisson", "rate": 0.1}, {"kind": "chatter", "answers": 0.5}],
    ],
    "faults": [
        [{"kind": "crash", "at": "1s", "node": 0}],
        [{"kind": "recover", "at": "1s", "node": 0}],
        [{"kind": "join", "at": "1s", "node": 100}],
        [{"kind": "leave", "at": "1s", "node": 0}],
        [{"kind": "rebirth", "at": "1s", "node": 0, "number": 100}],
        [{"kind": "partition", "at": "1s", "groups": [[0]]}],
        [{"kind": "heal", "at": "1s"}],
        [{"kind": "cut", "at": "1s", "a": 0, "b": 1}],
        [{"kind": "link", "at": "1s", "a": 0, "b": 1}],
        [{"kind": "churn", "uptime": "10s", "downtime": "1s"}],
    ],
    "log.events": ["all", "order"],
    "log.sample": ["0s", "1s"],
    "engine": ["auto", "reference"],
}
"""Of every field that a scenario has, values that are allowed: usual ones, extreme ones, and all kinds."""


def scenario_with(changes):
    # Another protocol has settings of its own.
    others = {"protocol.timeout": None} if "protocol.name" in changes else {}
    return scenario_or_none(changed(BASE, others | changes))


def assert_same_or_refused(changes):
    scenario = scenario_with(changes)
    if scenario is None:
        return None
    started = []
    with pytest.MonkeyPatch.context() as patch:
        begin = kernel.begin
        patch.setattr(kernel, "begin", lambda *args: (started.append(True), begin(*args))[1])
        try:
            simulate(scenario)
        except ConfigurationError as refusal:
            assert refusal.field and not started, "refused too late"
            return refusal
    same_run.assert_same_run(scenario)
    return None


@pytest.mark.parametrize("path", CHOICES)
def test_each_setting_is_followed_or_refused(path):
    for value in CHOICES[path]:
        assert_same_or_refused({path: value})
        if "protocol" not in path.partition(".")[0] or path == "protocol.newcomers":
            assert_same_or_refused({path: value, "protocol.tries": 0})


@pytest.mark.parametrize("kind", ["crash", "join", "leave"])
def test_faults_of_these_kinds_are_followed_where_links_sync(kind):
    faults = [each for each in CHOICES["faults"] if each[0]["kind"] == kind]
    synced = {"protocol.tries": 0, "protocol.founders": 200}
    assert assert_same_or_refused({"faults": faults[0]} | synced) is None
    assert assert_same_or_refused({"faults": faults[0]}).field == "protocol.tries"


def test_a_newcomer_who_names_itself_is_refused():
    faults = [{"kind": "join", "at": "1s", "node": 100, "peers": [100]}]
    assert assert_same_or_refused({"faults": faults, "protocol.tries": 0}).field == "faults[0].peers"


@given(st.lists(st.sampled_from(sorted(CHOICES)), max_size=4, unique=True), st.data())
def test_settings_together_are_followed_or_refused(paths, data):
    changes = {path: data.draw(st.sampled_from(CHOICES[path]), label=path) for path in paths}
    refusal = assert_same_or_refused(changes)
    event("made" if refusal is None else f"refused for {refusal.field}")


def test_no_setting_is_left_out():
    """A field or a kind that is new must be added above, and be followed or refused."""

    def fields(kind, prefix=""):
        return {prefix + field.encode_name for field in msgspec.structs.fields(kind)}

    names = {each.split(".")[0] for each in CHOICES}
    assert names == fields(Scenario)
    nested = {
        "network.": NetworkSettings, "network.topology.": Spray, "clocks.": ClockSettings, "log.": LogSettings,
        "protocol.": PreventiveSettings,
    }  # fmt: skip
    for prefix, kind in nested.items():
        assert fields(kind, prefix) <= set(CHOICES) | {"network.topology"}, prefix
    drawn_apart = {"contacts", "cells", "cell-crash"}  # each brings a protocol or a trace of its own
    for union, values in (
        (Delay, CHOICES["network.delay"] + ["constant"]),
        (Topology, CHOICES["network.topology"] + ["spray"]),
        (Workload, [each for value in CHOICES["workload"] for each in value]),
        (Fault, [each for value in CHOICES["faults"] for each in value]),
    ):
        kinds = {each if isinstance(each, str) else each["kind"] for each in values}
        assert {each.__struct_config__.tag for each in typing.get_args(union)} <= kinds | drawn_apart


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"protocol.name": "r-broadcast"}, "protocol.name: .* runs pc-broadcast, not r-broadcast"),
        ({"protocol.retain": 0}, "protocol.retain: .* 0 is too few, set it to .* or more"),
        ({"protocol.tries": 0, "clocks.offset": "1s"}, "clocks: .* needs clocks that are right"),
        ({"protocol.tries": 0, "protocol.newcomers": "now"}, 'protocol.newcomers: .* set it to "kept"'),
        ({"protocol.founders": 1}, "protocol.founders: .* node 7 broadcasts: set it to 8 or more"),
        ({"protocol.timeout": "900ms"}, "protocol.timeout: .* may take 900ms: .* 900ms is too short, set it to"),
        ({"protocol.timeout": "950ms", "clocks.drift": 99_000.0}, "protocol.timeout: .* 950ms is too short"),
        ({"network.topology": {"kind": "ring"}}, "network.topology.kind: .* runs over spray, not ring"),
        ({"network.topology.patience": "1ms"}, "network.topology.patience: .* 1ms is too short"),
        ({"network.topology.arcs": 0.2}, "network.topology.arcs: .* starts without one, and 0.2 is too few"),
        ({"duration": "1200000h", "drain": "1200000h"}, "duration: .* 146 years, drain included, not 2400000h"),
        ({"network.fifo": False}, "network.fifo: .* needs links that keep order: fifo = true"),
        ({"network.loss": 0.1}, "network.loss: .* not 0.1; leave this out"),
        ({"network.processing": "1ms"}, "network.processing: .* leave this out"),
        ({"network.transmission": "1ms"}, "network.transmission: .* leave this out"),
        ({"network.delays": "message"}, "network.delays: .* not 'message'; leave this out"),
        ({"network.links": [{"a": 0, "b": 1}]}, "network.links: .* not 1 links of their own; leave this out"),
        ({"faults": [{"kind": "heal", "at": "1s"}]}, "protocol.tries: .* there are 1: set this to 0, or leave"),
        (
            {"faults": [{"kind": "heal", "at": "1s"}], "protocol.tries": 0},
            r"faults\[0\].kind: .* crash, join and leave, not heal",
        ),
        ({"workload": [{"kind": "chatter"}]}, r"workload\[0\].kind: .* no answers .* at, trace, periodic"),
        ({"workload": [{"kind": "poisson", "rate": 1, "lifetime": "1s"}]}, r"\[0\].lifetime: .* does not support"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_and_what_would_be_right(changes, problem):
    with pytest.raises(ConfigurationError, match=problem):
        simulate(scenario_with(changes))


def test_a_process_without_neighbours_is_refused_unless_nobody_exchanges():
    """Three processes with half an arc each: the reference lets the one that knows nobody ask for a contact."""
    alone = {"nodes": 3, "seed": 1, "network.topology.arcs": 0.5}
    refusal = assert_same_or_refused(alone)
    assert refusal.field == "network.topology.arcs"
    assert assert_same_or_refused(alone | {"network.topology.every": "0s"}) is None


def test_broadcasts_of_one_instant_come_in_the_reference_s_order():
    """A sender's next broadcast is scheduled when its last is made, so a frame sent before comes first."""
    for seed in range(5):
        assert (
            assert_same_or_refused(
                {
                    "seed": seed,
                    "network.delay": "1s",
                    "workload": [
                        {"kind": "periodic", "every": "2s", "stagger": False},
                        {"kind": "periodic", "every": "1s", "stagger": False, "senders": [3, 1]},
                    ],
                }
            )
            is None
        )


def test_a_message_may_take_more_hops_than_a_byte_holds():
    """Long lines of arcs, from the end of the longest: the run is made again with room for the hops."""
    scenario = scenario_with(
        {
            "seed": 7,
            "nodes": 8_000,
            "duration": "1s",
            "drain": "600s",
            "network.topology.arcs": 1.0,
            "network.topology.settle": 0,
            "network.topology.every": "0s",
            "network.delay": "1s",
            "workload": [{"kind": "at", "broadcasts": [{"t": "0s", "node": 3046}]}],
        }
    )
    _, rows = same_run.reference(scenario)
    hops = {}
    for row in rows:
        if row["kind"] == "broadcast":
            hops[row["node"]] = 0
        elif row["kind"] == "receive" and row["node"] not in hops:
            hops[row["node"]] = hops[row["peer"]] + 1
    assert max(hops.values()) > 255
    found = simulate(scenario)
    assert found.hops[0].tolist() == [hops.get(p, found.unheard) for p in range(scenario.nodes)]
    assert found.path_lengths()[1].tolist() == [scenario.nodes - len(hops)]


def test_more_arcs_than_processes_are_all_processes():
    streams = [Stream(1, "spray", p) for p in range(6)]
    expected = first_views(Spray(arcs=1e300, settle=0), 6, 1, streams)
    peers, _, sizes, _ = spray_views(Spray(arcs=1e300, settle=0), 6, 1)
    assert [peers[p, :size].tolist() for p, size in enumerate(sizes)] == [[a.peer for a in v] for v in expected]


def test_events_are_told_apart_beyond_2_to_the_24():
    """Slots and order share a word: neither may run into the other, up to what the guards allow."""
    for slot in (0, 1 << 24, queue.MOST_EVENTS - 1):
        for sequence in (1, 1 << 34, queue.MOST_SCHEDULED + (1 << 33) - 1):
            order = queue.order_of(sequence, slot)
            assert 0 < order < 1 << 63 and queue.slot_of(order) == slot
    assert queue.order_of(1, queue.MOST_EVENTS - 1) < queue.order_of(2, 0)


def test_more_waiting_events_than_fit_are_one_clear_error():
    full = queue.make_queue(4)._replace(heap=np.broadcast_to(np.int64(0), (queue.MOST_EVENTS, 2)))
    for grow in (lambda: queue.with_room(full, 5), lambda: queue.make_queue(queue.MOST_EVENTS + 1)):
        with pytest.raises(ConfigurationError, match=r"nodes: .* has it for 268,435,456; simulate fewer"):
            grow()
    with pytest.raises(ConfigurationError, match=r"nodes: .* connections and has it for 1,073,741,824"):
        arrays.make_links(1, arrays.MOST_ROWS + 1, 1)


@pytest.mark.parametrize("counter", ["scheduled", "connections"])
def test_a_counter_that_runs_out_is_one_clear_error(monkeypatch, counter):
    first = simulation._Run.__init__

    def late(self, *args, **options):
        first(self, *args, **options)
        if counter == "scheduled":
            self.queue.at[queue.SEQUENCE] = queue.MOST_SCHEDULED
        else:
            self.links.at[1] = arrays.MOST_CONNECTIONS

    monkeypatch.setattr(simulation._Run, "__init__", late)
    with pytest.raises(ConfigurationError, match=r"duration: .* more events than the compiled engine can count"):
        simulate(scenario_with({}))


def test_a_run_that_does_not_fit_into_memory_is_one_clear_error(monkeypatch):
    def fail(*_):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr(arrays, "make_links", fail)
    with pytest.raises(ConfigurationError, match=r"nodes: 8 nodes and \d+ broadcasts do not fit into memory"):
        simulate(scenario_with({}))


def test_what_the_reference_itself_refuses_is_refused():
    changes = {"workload": [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0, "lifetime": "1s"}]}]}
    with pytest.raises(AntecastError):
        same_run.reference(scenario_with(changes))
    assert assert_same_or_refused(changes).field == "workload[0].lifetime"
