"""The compiled engine for epidemic exchange writes the reference's log, byte for byte, or refuses to start."""

import importlib.util
import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.protocols.opportunistic import EpidemicSettings
from antecast.sim.compiled import choice
from antecast.sim.compiled.choice import choose
from antecast.sim.compiled.epidemic.engine import EpidemicEngine
from antecast.sim.compiled.sorting import sort_pairs
from antecast.sim.engine import Engine
from antecast.sim.scenario import make_scenario
from antecast.traces.presence import PRESENCE

_spec = importlib.util.spec_from_file_location("compiled_vcube", Path(__file__).parent / "test_compiled_vcube.py")
vcube = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(vcube)

FOLDER = Path(tempfile.mkdtemp())
SECOND = 10**9

BASE = {
    "nodes": 6,
    "duration": "10s",
    "drain": "20s",
    "protocol": {"name": "epidemic"},
    "network": {"topology": {"kind": "ring"}, "delay": {"kind": "uniform", "low": "10ms", "high": "900ms"}},
    "workload": [{"kind": "poisson", "rate": 0.5}, {"kind": "periodic", "every": "3s", "after_arrival": "1s"}],
    "log": {"sample": "3s"},
}

CHOICES = {
    **{path: values for path, values in vcube.CHOICES.items() if not path.startswith("protocol.")},
    "protocol.name": ["vcube", "barrier", "delta"],
    "protocol.capacity": [5, 0],
    "protocol.policy": ["random", "expire-first"],
    "protocol.order": ["newest", "oldest"],
    "protocol.patience": ["0s", "100ms", "3000000h"],
    "protocol.early": [0],
    "network.topology": [
        *({"kind": kind} for kind in ("complete", "star", "tree", "random", "spray")),
        {"kind": "grid", "width": 3},
        {"kind": "links", "links": [[0, 1]]},
    ],
}
"""Of every field values that are allowed, as for VCube."""


def scenario_with(changes, base=BASE):
    """The base with some fields changed; None where that is no scenario."""
    values = msgspec.convert(msgspec.to_builtins(base), dict)
    for path, value in sorted(changes.items()):
        *parents, last = path.split(".")
        table = values
        for each in parents:
            table = table.setdefault(each, {})
        if value is None:
            table.pop(last, None)
        else:
            table[last] = value
    try:
        return make_scenario(values)
    except ConfigurationError:
        return None


def assert_same_or_refused(scenario):
    if scenario is None or scenario.specification.name.startswith("vcube"):
        return None
    found = choose(msgspec.structs.replace(scenario, engine="auto"))
    try:
        choice._check(scenario)
    except ConfigurationError as refusal:
        assert refusal.field and found.engine == "reference" and found.why == str(refusal)
        return refusal
    (events, samples), told = vcube.made_by(Engine, scenario)
    (same_events, same_samples), same_told = vcube.made_by(EpidemicEngine, scenario)
    assert same_events.equals(events)
    assert same_samples.equals(samples)
    assert same_told == told
    return None


@pytest.mark.parametrize("path", CHOICES)
def test_each_setting_is_followed_or_refused(path):
    for value in CHOICES[path]:
        if value != "3000000h" or path not in ("duration", "drain"):
            assert_same_or_refused(scenario_with({path: value}))


def test_no_setting_of_the_protocol_is_left_out():
    names = {field.encode_name for field in msgspec.structs.fields(EpidemicSettings)}
    assert names | {"name"} == {path.partition(".")[2] for path in CHOICES if path.startswith("protocol.")}


nodes = st.integers(0, 7)
times = st.integers(0, 60)
contacts = st.lists(
    st.tuples(nodes, nodes, times, st.integers(1, 40)).filter(lambda each: each[0] != each[1]),
    min_size=1,
    max_size=60,
)
spans = st.dictionaries(nodes, st.lists(st.tuples(times, st.integers(1, 60)), min_size=1, max_size=1), max_size=8)


def written(contacts, spans):
    """A trace of contacts and of presence as files; the topology that reads them."""
    file, presence = FOLDER / "contacts.csv", FOLDER / "presence.parquet"
    rows = [f"{a},{b},{start},{start + lasts}" for a, b, start, lasts in contacts]
    file.write_text("\n".join(["a,b,start,end", *rows]) + "\n")
    rows = [
        (str(p), start * SECOND, (start + lasts) * SECOND)
        for p, each in spans.items()
        for start, lasts in sorted(each)
    ]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(columns[0], pa.string()).cast(PRESENCE.field(0).type), *columns[1:]]
    pq.write_table(pa.table(arrays, schema=PRESENCE), presence)
    return {"kind": "contacts", "file": str(file), **({"presence": str(presence)} if rows else {})}


@given(contacts, spans, st.integers(0, 1000), st.data())
def test_contacts_are_followed_or_refused(contacts, spans, seed, data):
    """Nodes appear and go for good, contacts overlap, begin while a node is away, and break transfers off."""
    draw = {path: data.draw(st.sampled_from(values), label=path) for path, values in VARIED.items()}
    changes = {"seed": seed, "nodes": None, "duration": "100s", "network.topology": written(contacts, spans)}
    refusal = assert_same_or_refused(scenario_with(changes | draw))
    event("made" if refusal is None else f"refused for {refusal.field}")
    assert refusal is None


VARIED = {
    "protocol.patience": [None, "0s", "2s"],
    "network.delay": ["0s", "100ms", {"kind": "uniform", "low": "0s", "high": "5s"}],
    "network.loss": [0.0, 0.2],
    "network.fifo": [False, True],
    "log.events": ["all", "order"],
    "workload": [
        [{"kind": "periodic", "every": "2s", "after_arrival": "1s"}, {"kind": "poisson", "rate": 0.05}],
        [{"kind": "periodic", "every": "1s", "after_arrival": "0s", "senders": [0, 1], "until": "50s"}],
    ],
}


def test_a_node_that_comes_back_is_left_to_the_reference():
    topology = written([(0, 1, 0, 5), (1, 2, 0, 50)], {0: [(0, 10), (20, 10)]})
    refusal = assert_same_or_refused(scenario_with({"nodes": None, "network.topology": topology}))
    assert refusal.field == "network.topology.presence"


def test_a_crowd_makes_all_arrays_grow():
    """Everyone meets everyone at once, again and again, with much to hand over and more asked for than comes."""
    pairs = [(a, b) for a in range(12) for b in range(a)]
    crowd = [(a, b, start, 3) for start in range(0, 60, 5) for a, b in pairs]
    changes = {
        "nodes": None,
        "duration": "80s",
        "network.topology": written(crowd, {}),
        "network.delay": {"kind": "exponential", "mean": "1s"},
        "protocol.patience": "2s",
        "workload": [{"kind": "poisson", "rate": 1.0}],
    }
    assert assert_same_or_refused(scenario_with(changes)) is None


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=60, unique=True))
def test_pairs_are_sorted_in_place(keys):
    pairs = np.array([(key, index) for index, key in enumerate(keys)] + [(-1, -1)], np.int64)
    sort_pairs(pairs, len(keys))
    assert pairs[:-1, 0].tolist() == sorted(keys)
    assert [keys[index] for index in pairs[:-1, 1]] == sorted(keys)
