"""The compiled engine for VCube writes the reference's log, byte for byte, or refuses before it starts."""

import re
import tempfile
import typing
from pathlib import Path

import msgspec
import numpy as np
import pytest
from changed import changed, scenario_or_none
from hypothesis import event, example, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, Message
from antecast.core.wire import Codec
from antecast.history.log import DiscardSink, EventWriter, MemorySink, SampleWriter
from antecast.history.schema import EVENTS, KINDS, SAMPLES
from antecast.protocols.vcube import VCubeSettings
from antecast.protocols.vcube.packets import Packet
from antecast.protocols.vcube.view import View
from antecast.sim import run
from antecast.sim.clocks import ClockSettings
from antecast.sim.compiled import choice, wire
from antecast.sim.compiled.choice import choose
from antecast.sim.compiled.sorting import sort
from antecast.sim.compiled.vcube import engine as compiled
from antecast.sim.compiled.vcube import holding
from antecast.sim.compiled.vcube.arrays import AGGREGATE, DIMENSION, SIZE, Cube
from antecast.sim.delays import Delay
from antecast.sim.engine import Engine
from antecast.sim.fault_kinds import Fault
from antecast.sim.identity import run_id
from antecast.sim.network import NetworkSettings
from antecast.sim.scenario import LogSettings, Scenario, make_scenario
from antecast.sim.topology import Topology
from antecast.sim.workload_kinds import Workload

BASE = {
    "nodes": 8,
    "duration": "3s",
    "drain": "20s",
    "protocol": {"name": "vcube", "diagnosis": 0},
    "network": {"transmission": "1ms", "delay": {"kind": "normal", "mean": "100ms", "stdev": "60ms"}},
    "workload": [{"kind": "poisson", "rate": 2.0}, {"kind": "chatter", "answers": 0.5}],
    "log": {"sample": "500ms"},
}

TRACE = Path(tempfile.mkdtemp()) / "broadcasts.csv"
TRACE.write_text("t,node,payload\n2,0,10\n1,0,\n1,0,5\n40,0,1\n")

CHOICES = {
    "name": ["another"],
    "seed": [0, 2, 3, (1 << 63) - 1],
    "nodes": [1, 2, 3, 5, 6, 11, 16, 20],
    "duration": ["0s", "1s", "3000000h"],
    "drain": ["0s", "1ms", "3000000h"],
    "protocol.name": ["vcube-single", "vector"],
    "protocol.aggregate": [True, False],
    "protocol.mtu": [64, 150, 65_535],
    "protocol.header": [0, 60],
    "protocol.diagnosis": ["1s"],
    "protocol.timeout": ["1s"],
    "protocol.retain": [0],
    "protocol.patience": ["1s"],
    "network.topology": [
        *({"kind": kind} for kind in ("ring", "star", "tree", "random", "spray")),
        {"kind": "grid", "width": 3},
        {"kind": "links", "links": [[0, 1]]},
    ],
    "network.delay": [
        "0s",
        "1s",
        {"kind": "uniform", "low": "0ns", "high": "2ns"},
        {"kind": "uniform", "low": "1ms", "high": "4000h"},
        {"kind": "normal", "mean": "1ms", "stdev": "1s"},
        {"kind": "exponential", "mean": "100ms", "least": "10ms"},
        {"kind": "triangular", "low": "0s", "mode": "1s", "high": "2s"},
        {"kind": "pareto", "least": "1ms", "shape": 0.5},
        {"kind": "pareto", "least": "1ms", "shape": 0.01},
        {"kind": "growing", "low": "10ms", "high": "1s", "until": "3s", "spread": 0.5},
        {"kind": "growing", "low": "2s", "high": "10ms", "start": "1s", "until": "3s"},
    ],
    "network.loss": [0.0, 0.1, 1.0],
    "network.fifo": [True, False],
    "network.bandwidth": ["1Mb/s"],
    "network.queue": ["link", "node"],
    "network.queue_limit": [100_000],
    "network.processing": ["0s", "10ms", "3000000h"],
    "network.transmission": [None, "0s", "20ms", "2000h"],
    "network.delays": ["frame", "message"],
    "network.notice": ["100ms"],
    "network.links": [
        [{"a": 0, "b": 1, "delay": "2s"}, {"a": 2, "b": 0, "loss": 0.5, "both": False}],
        [{"a": 0, "b": 1, "bandwidth": "1Mb/s"}],
    ],
    "clocks.offset": ["10s"],
    "clocks.drift": [99_999.0],
    "clocks.bound": ["1ms"],
    "clocks.fixed": [{"0": "-5s", "1": "1h"}],
    "workload": [
        [],
        [
            {
                "kind": "at",
                "broadcasts": [{"t": t, "node": n} for t, n in (("1s", 0), ("1s", 0), ("0s", 1), ("3s", 0))],
            }
        ],
        [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0, "lifetime": "1s"}]}],
        [{"kind": "at", "broadcasts": [{"t": "100s", "node": 0}, {"t": "3000000h", "node": 0}]}],
        [{"kind": "periodic", "every": "100ms", "stagger": False, "payload": 5}],
        [{"kind": "periodic", "every": "300ms", "start": "1s", "until": "9s", "payload": 70_000}],
        [
            {"kind": "at", "broadcasts": [{"t": "2s", "node": 0, "payload": 300}]},
            {"kind": "periodic", "every": "1s", "after_arrival": "1s", "senders": [0, 0, 1]},
            {"kind": "periodic", "every": "1s", "stagger": False, "senders": [1, 0, 0]},
        ],
        [{"kind": "periodic", "every": "1s", "after_arrival": "1s", "start": "2s"}],
        [{"kind": "once", "at": {"kind": "normal", "mean": "1s", "stdev": "1s"}}],
        [{"kind": "trace", "file": str(TRACE)}],
        [
            {"kind": "poisson", "rate": 1.0, "senders": [0, 1]},
            {"kind": "chatter", "answers": 0.99, "delay": "0s", "payload": 0},
            {"kind": "chatter", "answers": 0.9, "start": "500ms", "until": "2s", "senders": [1]},
            {"kind": "chatter", "answers": 0.5, "delay": {"kind": "uniform", "low": "0s", "high": "100ms"}},
        ],
        [{"kind": "poisson", "rate": 30.0, "until": "1s", "payload": 1}],
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
    "log.sample": [None, "0s", "30ms", "100s", "3000000h"],
    "engine": ["auto", "reference", "compiled"],
}  # fmt: skip
"""Of every field that a scenario has, values that are allowed: usual ones, extreme ones, and all kinds."""

SUPPORTED = sorted(
    set(CHOICES)
    - {
        "name",
        "engine",
        "faults",
        "duration",
        "drain",
        "network.topology",
        "network.bandwidth",
        "network.queue_limit",
    }
    - {"network.notice", "protocol.diagnosis", "protocol.timeout", "protocol.retain", "protocol.patience"}
)
"""Fields with values that the engine supports: here runs are drawn that it makes."""


def scenario_with(changes):
    values = changed(BASE, changes)
    if values["protocol"]["name"] == "vector":
        values["protocol"] = {"name": "vector"}
    return scenario_or_none(values)


def made_by(engine_type, scenario):
    """All that an engine says of a run."""
    sinks = MemorySink(EVENTS), MemorySink(SAMPLES)
    events, samples = EventWriter("run", sinks[0], batch_rows=1000), SampleWriter("run", sinks[1], batch_rows=100)
    engine = engine_type(scenario, events, samples)
    steps = engine.run()
    events.close()
    samples.close()
    tables = [sink.table() for sink in sinks]
    told = {"steps": steps, "now": engine.now, "lost": engine.lost, "dropped": engine.dropped}
    return tables, told | {"alerts": engine.troubles.alerts, "refused": engine.troubles.refused}


def assert_same_or_refused(changes):
    scenario = scenario_with(changes)
    if scenario is None:
        return None
    found = choose(msgspec.structs.replace(scenario, engine="auto"))
    try:
        choice._check(scenario)
    except ConfigurationError as refusal:
        assert refusal.field and found.engine == "reference" and found.why == str(refusal)
        return refusal
    (events, samples), told = made_by(Engine, scenario)
    (same_events, same_samples), same_told = made_by(compiled.VCubeEngine, scenario)
    assert same_events.equals(events)
    assert [len(b) for b in same_events.to_batches()] == [len(b) for b in events.to_batches()]
    assert same_samples.equals(samples)
    assert same_told == told
    return None


@pytest.mark.parametrize("path", CHOICES)
def test_each_setting_is_followed_or_refused(path):
    for value in CHOICES[path]:
        if value != "3000000h" or path in ("network.processing", "log.sample"):
            assert_same_or_refused({path: value})
            assert_same_or_refused({path: value, "network.transmission": None, "protocol.aggregate": False})


@given(st.lists(st.sampled_from(SUPPORTED), max_size=6, unique=True), st.integers(0, 1000), st.data())
def test_settings_together_are_followed_or_refused(paths, seed, data):
    changes = {path: data.draw(st.sampled_from(CHOICES[path]), label=path) for path in paths}
    refusal = assert_same_or_refused({"seed": seed} | changes)
    event("made" if refusal is None else f"refused for {refusal.field}")


def test_no_setting_is_left_out():
    """A field or a kind that is new must be added above, and be followed or refused."""

    def fields(kind, prefix=""):
        return {prefix + field.encode_name for field in msgspec.structs.fields(kind)}

    assert {each.split(".")[0] for each in CHOICES} == fields(Scenario)
    nested = {
        "network.": NetworkSettings, "clocks.": ClockSettings, "log.": LogSettings, "protocol.": VCubeSettings,
    }  # fmt: skip
    for prefix, kind in nested.items():
        assert fields(kind, prefix) <= set(CHOICES), prefix
    drawn_apart = {"contacts", "cells", "cell-crash"}  # each brings a protocol or a trace of its own
    for union, values in (
        (Delay, CHOICES["network.delay"] + ["constant"]),
        (Topology, CHOICES["network.topology"] + ["complete"]),
        (Workload, [each for value in CHOICES["workload"] for each in value]),
        (Fault, [each for value in CHOICES["faults"] for each in value]),
    ):
        kinds = {each if isinstance(each, str) else each["kind"] for each in values}
        assert {each.__struct_config__.tag for each in typing.get_args(union)} <= kinds | drawn_apart


def test_a_full_backlog_turns_away_the_same_messages(monkeypatch):
    """Losses make messages wait for ever; 64 MiB of them are reached with large payloads."""
    changes = {
        "nodes": 4,
        "duration": "600s",
        "drain": "0s",
        "network.loss": 0.02,
        "network.delay": {"kind": "exponential", "mean": "5s"},
        "workload": [{"kind": "periodic", "every": "500ms", "payload": 1 << 20, "senders": [0, 1]}],
        "log.events": "order",
    }
    scenario = scenario_with(changes)
    (_, samples), _ = made_by(Engine, scenario)
    pending = [row["value"] for row in samples.to_pylist() if row["gauge"] == "pending"]
    assert max(pending) > WINDOWS
    assert assert_same_or_refused(changes) is None


WINDOWS = 64
"""So many messages of 1 MiB and more are 64 MiB."""


def test_a_large_run_makes_all_arrays_grow():
    """More events, messages, cells and rows than there is room for at first."""
    assert (
        assert_same_or_refused(
            {
                "nodes": 24,
                "duration": "10s",
                "network.delay": {"kind": "exponential", "mean": "1s"},
                "workload": [{"kind": "poisson", "rate": 12.0}, {"kind": "chatter", "answers": 0.3}],
                "log.events": "order",
            }
        )
        is None
    )


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_files_are_the_same_byte_for_byte(tmp_path, engine):
    """Names included: the engine is no part of a run's identity."""
    scenario = scenario_with({"nodes": 16, "engine": engine})
    assert run_id(scenario) == run_id(scenario_with({"nodes": 16}))
    result = run(scenario, out=tmp_path / engine)
    other = run(msgspec.structs.replace(scenario, engine="auto"), out=tmp_path / "auto")
    assert (result.choice.engine, result.choice.why) == (engine, "asked for")
    for file in ("events.parquet", "samples.parquet"):
        assert (tmp_path / engine / file).read_bytes() == (tmp_path / "auto" / file).read_bytes()
    told, told_other = result.summary(), other.summary()
    for each in (told, told_other):
        for key in ("engine", "engine_reason", "wall", "folder"):
            del each[key]
    assert told == told_other


def test_a_run_can_be_interrupted():
    scenario = scenario_with({"nodes": 64, "duration": "20s", "engine": "compiled", "log.events": "order"})
    result = run(scenario, on_progress=lambda progress: progress.now < 10**9)
    assert result.interrupted and 10**9 <= result.ended < scenario.horizon


@pytest.mark.parametrize(
    ("changes", "engine", "why"),
    [
        ({}, "reference", "the run is short: about 768? deliveries"),
        ({"engine": "reference"}, "reference", "asked for"),
        ({"engine": "compiled"}, "compiled", "asked for"),
        ({"protocol.name": "vector"}, "reference", "there is no compiled engine for vector"),
        ({"protocol.diagnosis": "1s"}, "reference", "protocol.diagnosis: .* without diagnosis"),
        ({"faults": [{"kind": "heal", "at": "1s"}]}, "reference", "faults: .* supports no faults"),
        ({"nodes": 128, "duration": "60s"}, "compiled", "it supports all"),
    ],
)
def test_the_choice_is_explained(changes, engine, why):
    found = choose(scenario_with(changes))
    assert found.engine == engine
    assert re.search(why, found.why), found.why


def test_what_is_asked_for_and_not_there_is_refused_before_the_run():
    values = {"engine": "compiled", "protocol": "vector", "nodes": 3}
    with pytest.raises(
        ConfigurationError, match=r'protocol.name: .* delta; name one of these, or set engine to "auto"'
    ):
        make_scenario(values)


# The blocks that engines are built from.


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 33).map(lambda n: n % (1 << 32)),
            st.integers(1, 1 << 40),
            st.sampled_from([0, 1, 255, 256, 65_535, 65_536]),
            st.dictionaries(st.integers(0, 70_000), st.integers(1, 1 << 40), max_size=20),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_lengths_are_those_of_the_encoding(drawn):
    messages = tuple(Message(origin, seq, bytes(payload), stamp) for origin, seq, payload, stamp in drawn)
    sizes = [
        wire.message_bytes(
            m.origin,
            m.seq,
            len(m.payload),
            wire.head_bytes(len(m.stamp)) + sum(wire.number_bytes(n) for each in m.stamp.items() for n in each),
        )
        for m in messages
    ]
    codec = Codec([Message[dict[int, int]], Packet])
    assert sizes == [codec.size(m) - 1 for m in messages]
    assert codec.size(Packet(messages)) == wire.VERSION_BYTES + 2 + wire.head_bytes(len(messages)) + sum(sizes)


@given(st.integers(1, 40))
@example(33)
def test_trees_are_those_of_the_view(nodes):
    dimension = (nodes - 1).bit_length()
    rules = np.zeros(6, np.int64)
    rules[AGGREGATE], rules[DIMENSION], rules[SIZE] = 1, dimension, nodes
    cube = Cube(np.zeros((1, 1), np.int32), rules)
    for p in range(nodes):
        view = View(p)
        for peer in range(nodes):
            if peer != p:
                view.link(peer)
        first = [holding.first_of(nodes, p, s) for s in range(1, dimension + 1)]
        assert first == [-1 if child is None else child for child in view.children]
        assert [holding.height_in(cube, p, root) for root in range(nodes)] == list(map(view.height, range(nodes)))


@given(st.lists(st.integers(0, 1000), max_size=80))
def test_numbers_are_sorted_in_place(numbers):
    array = np.array([*numbers, -1, -2], np.int64)
    sort(array, len(numbers))
    assert array.tolist() == [*sorted(numbers), -1, -2]


@pytest.mark.parametrize("count", [0, 4095, 4096, 4097, 70_001])
def test_columns_hold_what_the_rows_say(count):
    rows = np.random.default_rng(count).integers(-1, 5, (count, 8))
    rows[:, :4] += 1
    sink = MemorySink(EVENTS)
    writer = EventWriter("run", sink)
    writer.append_rows(rows)
    writer.close()
    table = sink.table()
    for column, name in enumerate(("node", "pos", "t", "kind", "origin", "seq", "peer", "bytes")):
        found = table[name].to_pylist()
        codes = {word: code for code, word in enumerate(KINDS)} | {None: -1}
        assert [codes.get(each, each) for each in found] == rows[:, column].tolist(), name


def test_batches_are_the_same_however_rows_come():
    sinks = [MemorySink(EVENTS) for _ in range(2)]
    rows = np.arange(8 * 57, dtype=np.int64).reshape(-1, 8) % 7
    one, many = (EventWriter("run", sink, batch_rows=10) for sink in sinks)
    for row in rows.tolist():
        one.append(*row)
    for start, end in ((0, 3), (3, 3), (3, 40), (40, 50)):
        many.append_rows(rows[start:end])
    many.append(*rows[50].tolist())
    many.append_rows(rows[51:53])
    for row in rows[53:].tolist():
        many.append(*row)
    one.close()
    many.close()
    assert [len(batch) for batch in sinks[1].batches] == [len(batch) for batch in sinks[0].batches]
    assert sinks[1].table().equals(sinks[0].table())
    assert one.rows == many.rows == 57
    DiscardSink().close()
