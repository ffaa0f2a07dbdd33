"""The compiled engine for opportunistic exchange writes the reference's log, byte for byte, or refuses the run."""

import tempfile
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_compiled_vcube as vcube
from changed import changed, scenario_or_none
from hypothesis import event, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, Message
from antecast.core.wire import Codec
from antecast.history.log import DiscardSink, EventWriter, SampleWriter
from antecast.protocols import epidemic, runs
from antecast.protocols.delta import Stamp
from antecast.protocols.opportunistic import DeltaSettings
from antecast.sim import run
from antecast.sim.clocks import Clock
from antecast.sim.compiled import choice, clocks, pool, sets, skew, wire
from antecast.sim.compiled.cells import IN_USE
from antecast.sim.compiled.choice import choose
from antecast.sim.compiled.engine import OutOfReach
from antecast.sim.compiled.opportunistic import engine
from antecast.sim.compiled.opportunistic.arrays import MADE
from antecast.sim.compiled.opportunistic.engine import OpportunisticEngine
from antecast.sim.compiled.sorting import sort_pairs
from antecast.sim.engine import Engine
from antecast.traces.presence import PRESENCE

FOLDER = Path(tempfile.mkdtemp())
SECOND = 10**9

BASE = {
    "nodes": 6,
    "duration": "10s",
    "drain": "20s",
    "protocol": {"name": "delta", "lifetime": "5s", "max_lifetime": "1h"},
    "network": {"topology": {"kind": "ring"}, "delay": {"kind": "uniform", "low": "10ms", "high": "900ms"}},
    "workload": [{"kind": "poisson", "rate": 0.5}, {"kind": "periodic", "every": "3s", "after_arrival": "1s"}],
    "log": {"sample": "3s"},
}

CHOICES = {
    **{path: values for path, values in vcube.CHOICES.items() if not path.startswith("protocol.")},
    "protocol.name": ["vcube", "epidemic", "barrier"],
    "protocol.capacity": [5, 0],
    "protocol.policy": ["random", "expire-first"],
    "protocol.order": ["newest", "oldest"],
    "protocol.patience": ["0s", "100ms", "3000000h"],
    "protocol.early": [0, 3000],
    "protocol.prune": [False],
    "protocol.lifetime": ["0s", "500ms", "3s", "3000000h"],
    "protocol.max_lifetime": ["100h", "3000000h"],
    "protocol.clock_bound": ["0s", "20s", "3000000h"],
    "protocol.rule": ["paper"],
    "network.topology": [
        *({"kind": kind} for kind in ("complete", "star", "tree", "random", "spray")),
        {"kind": "grid", "width": 3},
        {"kind": "links", "links": [[0, 1]]},
    ],
}
"""Of every field values that are allowed, as for VCube."""


def scenario_with(changes, base=BASE):
    return scenario_or_none(changed(base, changes))


def assert_same_or_refused(scenario):
    if scenario is None or scenario.specification.name.startswith("vcube"):
        return None
    found = choose(msgspec.structs.replace(scenario, engine="auto"))
    try:
        choice._check(scenario)
        (same_events, same_samples), same_told = vcube.made_by(OpportunisticEngine, scenario)
    except OutOfReach as refusal:
        assert refusal.field
        return refusal
    except ConfigurationError as refusal:
        assert refusal.field and found.engine == "reference" and found.why == str(refusal)
        return refusal
    (events, samples), told = vcube.made_by(Engine, scenario)
    assert same_events.equals(events)
    assert same_samples.equals(samples)
    assert same_told == told
    return None


def of_protocol(name, changes):
    """Changes that give the base another protocol, with those of its settings that it has."""
    gone = dict.fromkeys(("protocol.lifetime", "protocol.max_lifetime"))
    return changes if name == "delta" else {**gone, **changes, "protocol.name": name}


@pytest.mark.parametrize("path", CHOICES)
def test_each_setting_is_followed_or_refused(path):
    for place, value in enumerate(CHOICES[path]):
        if value != "3000000h" or path not in ("duration", "drain"):
            for name in ("delta", "barrier", "epidemic")[: 1 if place else 3]:
                assert_same_or_refused(scenario_with(of_protocol(name, {path: value})))


def test_no_setting_of_the_protocol_is_left_out():
    names = {field.encode_name for field in msgspec.structs.fields(DeltaSettings)}
    assert names | {"name"} == {path.partition(".")[2] for path in CHOICES if path.startswith("protocol.")}


nodes = st.integers(0, 7)
times = st.integers(0, 60)
contacts = st.lists(
    st.tuples(nodes, nodes, times, st.integers(0, 40)).filter(lambda each: each[0] != each[1]),
    min_size=1,
    max_size=60,
)
stays = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 60)), min_size=1, max_size=3)
presence = st.dictionaries(nodes, stays, max_size=8)


def written(contacts, stays):
    """A trace of contacts and of presence (how long a node is away, and then there) as files; the topology that
    reads them."""
    file, presence = FOLDER / "contacts.csv", FOLDER / "presence.parquet"
    rows = [f"{a},{b},{start},{start + lasts}" for a, b, start, lasts in contacts]
    file.write_text("\n".join(["a,b,start,end", *rows]) + "\n")
    rows = []
    for p, each in stays.items():
        at = -1
        for away, there in each:
            rows.append((str(p), (at + away) * SECOND, (at + away + there) * SECOND))
            at += away + there
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(columns[0], pa.string()).cast(PRESENCE.field(0).type), *columns[1:]]
    pq.write_table(pa.table(arrays, schema=PRESENCE), presence)
    return {"kind": "contacts", "file": str(file), **({"presence": str(presence)} if rows else {})}


at = st.integers(0, 100).map("{}s".format)
faults = st.lists(
    st.one_of(
        st.fixed_dictionaries({"kind": st.sampled_from(["crash", "recover", "leave"]), "at": at, "node": nodes}),
        st.fixed_dictionaries({"kind": st.sampled_from(["cut", "link"]), "at": at, "a": nodes, "b": nodes}),
        st.fixed_dictionaries({"kind": st.just("partition"), "at": at, "groups": st.just([[0, 1], [2, 3, 4]])}),
        st.fixed_dictionaries({"kind": st.just("heal"), "at": at}),
        st.just({"kind": "churn", "uptime": "20s", "downtime": "3s"}),
    ),
    max_size=5,
)


@given(contacts, presence, faults, st.integers(0, 1000), st.data())
def test_contacts_are_followed(contacts, stays, faults, seed, data):
    """Nodes appear, crash, come back and go for good; contacts overlap, end as they begin, begin while a node is
    away, and break transfers off; radios are slow, clocks are off, messages live for different times."""
    draw = {path: data.draw(st.sampled_from(values), label=path) for path, values in VARIED.items()}
    name = draw.pop("protocol.name")
    if name == "delta":
        draw |= {path: data.draw(st.sampled_from(values), label=path) for path, values in OF_DELTA.items()}
    topology = written(contacts, stays) | {"setup": data.draw(st.sampled_from(["0s", "1ns", "2s"]), label="setup")}
    changes = {"seed": seed, "nodes": None, "duration": "100s", "network.topology": topology}
    scenario = scenario_with(of_protocol(name, changes | draw | {"faults": faults}))
    refusal = assert_same_or_refused(scenario)
    event(f"{name}: " + ("no scenario" if scenario is None else "made" if refusal is None else "refused"))
    assert refusal is None


VARIED = {
    "protocol.name": ["delta", "barrier", "epidemic"],
    "protocol.patience": [None, "0s", "2s"],
    "network.delay": ["0s", "100ms", {"kind": "uniform", "low": "0s", "high": "5s"}],
    "network.loss": [0.0, 0.2],
    "network.fifo": [False, True],
    "network.bandwidth": [None, "500b/s", "3kb/s"],
    "network.queue": ["node", "link"],
    "clocks": [{}, {"offset": "2s"}, {"drift": 5000.0, "fixed": {"0": "-1s"}}, {"offset": "3s", "bound": "1s"}],
    "log.events": ["all", "order"],
    "workload": [
        [{"kind": "periodic", "every": "2s", "after_arrival": "1s"}, {"kind": "poisson", "rate": 0.05}],
        [{"kind": "periodic", "every": "1s", "after_arrival": "0s", "senders": [0, 1], "until": "50s"}],
        [
            {"kind": "periodic", "every": "5s", "stagger": False, "payload": 300},
            {"kind": "chatter", "answers": 0.9},
            {"kind": "chatter", "answers": 0.5, "delay": {"kind": "uniform", "low": "0s", "high": "3s"}},
        ],
    ],
}

OF_DELTA = {
    "protocol.rule": ["safe", "paper"],
    "protocol.prune": [True, False],
    "protocol.lifetime": ["1s", "5s", "20s"],
    "workload": [
        *VARIED["workload"],
        [
            {"kind": "poisson", "rate": 0.2, "lifetime": "2s"},
            {"kind": "poisson", "rate": 0.2, "lifetime": "30s"},
            {"kind": "chatter", "answers": 0.7, "lifetime": "0s"},
            {"kind": "at", "broadcasts": [{"t": "3s", "node": 0, "lifetime": "1h"}, {"t": "4s", "node": 0}]},
        ],
    ],
}


@pytest.mark.parametrize("name", ["delta", "barrier", "epidemic"])
def test_a_crowd_makes_all_arrays_grow(name):
    """Everyone meets everyone at once, again and again, with much to hand over and more asked for than comes."""
    pairs = [(a, b) for a in range(12) for b in range(a)]
    crowd = [(a, b, start, 3) for start in range(0, 60, 5) for a, b in pairs]
    changes = {
        "nodes": None,
        "duration": "80s",
        "network.topology": written(crowd, {}),
        "network.delay": {"kind": "exponential", "mean": "1s"},
        "protocol.patience": "2s",
        "workload": [{"kind": "poisson", "rate": 1.0}, {"kind": "chatter", "answers": 0.5}],
    }
    assert assert_same_or_refused(scenario_with(of_protocol(name, changes))) is None


@pytest.mark.parametrize("name", ["delta", "barrier", "epidemic"])
@pytest.mark.parametrize("has_trace", [False, True])
def test_who_has_left_for_good_takes_no_room_in_the_tables(name, has_trace):
    """A trace of a day has many who pass by once. What each of them knew was kept until the end."""
    crowd = written([(a, b, 0, 8) for a in range(30) for b in range(a)], {node: [(1, 9)] for node in range(30)})
    slow = {"kind": "exponential", "mean": "1s"}  # so that messages wait for others when their nodes leave
    crashes = [{"kind": "crash", "node": node, "at": "4s"} for node in range(15)]
    leaves = [{"kind": "leave", "node": node, "at": "5s"} for node in range(30)]
    scenario = scenario_with(
        {
            "nodes": None if has_trace else 30,
            "duration": "9s",
            "protocol": {"name": name},
            "network": {"topology": crowd if has_trace else {"kind": "complete"}, "delay": slow},
            "workload": [{"kind": "poisson", "rate": 2.0}],
            "faults": [] if has_trace else crashes + leaves,
        }
    )
    made = OpportunisticEngine(scenario, EventWriter("run", DiscardSink()), SampleWriter("run", DiscardSink()))
    made.run()
    world = made._world
    assert world.at[MADE] > 100
    assert world.rows.of[0, pool.TAKEN] == world.cells.at[IN_USE] == 0


def test_a_large_network_may_begin_with_slow_radios():
    """Nearly ten thousand offers wait to be sent before the first event."""
    changes = {
        "nodes": 100,
        "duration": "1s",
        "drain": "0s",
        "network.topology": {"kind": "complete"},
        "network.bandwidth": "100kb/s",
        "workload": [{"kind": "poisson", "rate": 0.1}],
    }
    assert assert_same_or_refused(scenario_with(changes)) is None


def test_what_shows_only_as_a_run_goes_on_is_left_to_the_reference():
    """Early messages take more memory than one neighbour may use: `auto` begins again, `compiled` says so."""
    changes = {"protocol.early": 3000, "duration": "20s", "workload": [{"kind": "poisson", "rate": 2.0}]}
    scenario = scenario_with({**changes, "engine": "compiled"})
    problem = r'protocol.early: the compiled engine cannot go on: .*; set engine to "auto"'
    with pytest.raises(ConfigurationError, match=problem):
        run(scenario)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "SHORT", 0)
        result = run(msgspec.structs.replace(scenario, engine="auto"))
    assert result.choice.engine == "reference" and "protocol.early" in result.choice.why
    assert result.events.equals(run(msgspec.structs.replace(scenario, engine="reference")).events)


def test_what_does_not_fit_into_memory_is_left_to_the_reference(monkeypatch):
    def full(*_):
        raise MemoryError("no room for 7 TiB")

    monkeypatch.setattr(engine, "make_sets", full)
    monkeypatch.setattr(choice, "SHORT", 0)
    result = run(scenario_with({"engine": "auto"}))
    assert (result.choice.engine, "7 TiB" in result.choice.why) == ("reference", True)
    with pytest.raises(
        ConfigurationError, match=r'nodes: .* its arrays do not fit into memory: .*; set engine to "auto"'
    ):
        run(scenario_with({"engine": "compiled"}))


# The blocks that the engine is built from.


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=60, unique=True))
def test_pairs_are_sorted_in_place(keys):
    pairs = np.array([(key, index) for index, key in enumerate(keys)] + [(-1, -1)], np.int64)
    sort_pairs(pairs, len(keys))
    assert pairs[:-1, 0].tolist() == sorted(keys)
    assert [keys[index] for index in pairs[:-1, 1]] == sorted(keys)


@given(st.integers(-(1 << 62), 1 << 62), st.dictionaries(st.integers(0, 70_000), st.integers(-(1 << 62), 1 << 62)))
def test_lengths_of_tags_are_those_of_the_encoding(deadline, barrier):
    size = sum(wire.number_bytes(source) + wire.whole_bytes(tag) for source, tag in barrier.items())
    stamp = 1 + wire.whole_bytes(deadline) + wire.head_bytes(len(barrier)) + size
    codec = Codec([Message[Stamp]])
    message = Message(3, 1, b"hi", Stamp(deadline, barrier))
    assert wire.VERSION_BYTES + wire.message_bytes(3, 1, 2, stamp) == codec.size(message)


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=60))
def test_a_set_holds_what_was_added_and_not_dropped(steps):
    held, made = set(), sets.make_sets(2, 2, 4)
    for m, is_new in steps:
        (sets.add if is_new else sets.drop)(made, 1, m)
        (held.add if is_new else held.discard)(m)
        sets.trim(made, 1)
    assert [m for m in range(256) if sets.has(made, 1, m)] == sorted(held)
    assert sets.is_empty(made, 1) == (not held)
    with np.errstate(over="ignore"):  # as meant: the upper bits of the product are cut off
        assert [sets.lowest(np.uint64(1 << bit | 1 << 63)) for bit in range(64)] == list(range(64))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_a_skew_heap_gives_the_least_first(entries):
    rows, root, found = pool.make_pool(64, 5), -1, []
    for key, tie in entries:
        root = skew.entered(rows, root, key, tie, 0)
    while root >= 0:
        found.append((int(rows.of[root, skew.KEY]), int(rows.of[root, skew.TIE])))
        root = skew.without_first(rows, root)
    assert found == sorted(entries)
    assert rows.of[0, pool.TAKEN] == 0


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(0, 20))
def test_a_skew_heap_is_given_back_whole(keys, taken):
    rows, root = pool.make_pool(64, 5), -1
    for key in keys:
        root = skew.entered(rows, root, key, 0, 0)
    for _ in range(min(taken, len(keys))):
        root = skew.without_first(rows, root)
    skew.clear(rows, root)
    assert rows.of[0, pool.TAKEN] == 0
    assert len({pool.take_row(rows) for _ in range(64)}) == 64


@given(
    st.integers(-(10**13), 10**13), st.sampled_from([0, 1, -1, 10**8, -(10**8), 12_345]),
    st.none() | st.integers(0, 10**10), st.integers(0, 10**16), st.integers(-(10**13), 10**16),
)  # fmt: skip
def test_clocks_are_read_to_the_nanosecond(offset, drift, bound, now, local):
    clock = Clock(offset, drift, bound)
    row = np.array([[offset, drift, -1 if bound is None else bound]], np.int64)
    assert clocks.local_time(row, 0, np.int64(now)) == clock.read(now)
    assert clocks.when(row, 0, np.int64(local)) == clock.when(local)


def test_nodes_may_have_numbers_of_more_than_16_bits():
    few = [0, 1, 65_534, 65_535, 65_536, 65_537, 65_800]
    links = [[a, b] for place, a in enumerate(few) for b in few[place + 1 : place + 3]]
    changes = {
        "nodes": 65_801,
        "network.topology": {"kind": "links", "links": links},
        "workload": [{"kind": "poisson", "rate": 0.5, "senders": few}, {"kind": "chatter", "senders": few}],
        "faults": [{"kind": "cut", "at": "5s", "a": 65_535, "b": 65_536}],
        "log.sample": "0s",
    }
    assert assert_same_or_refused(scenario_with(changes)) is None


@given(st.sampled_from(["delta", "barrier"]), st.integers(2, 9), st.integers(0, 1000), st.data())
def test_more_sources_than_a_stamp_can_name_are_left_to_the_reference(name, most, seed, data):
    """The reference refuses messages of too many sources; until that could be, the runs are the same."""
    value = data.draw(st.sampled_from(["1s", "5s", "20s"]))
    changes = {"protocol.lifetime": value} if name == "delta" else {}
    senders = data.draw(st.lists(st.integers(0, 5), min_size=1, unique=True))
    changes |= {"seed": seed, "workload": [{"kind": "poisson", "rate": 0.4, "senders": senders}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "MAX_SOURCES", most)
        patch.setattr(epidemic, "MAX_SOURCES", most)
        refusal = assert_same_or_refused(scenario_with(of_protocol(name, changes)))
    event(f"{refusal}")
    assert refusal is None or (refusal.field == "nodes" and "more than a stamp can name" in refusal.problem)


@given(st.sampled_from(["delta", "barrier", "epidemic"]), st.integers(3, 40), st.integers(0, 1000))
def test_offers_that_one_frame_cannot_hold_are_left_to_the_reference(name, most, seed):
    changes = {"seed": seed, "network.topology": {"kind": "random", "degree": 2}, "network.loss": 0.2}
    changes |= {"faults": [{"kind": "churn", "uptime": "2s", "downtime": "1s"}], "log.sample": "0s"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "PART", most)
        patch.setattr(runs, "PART", most)
        patch.setattr(epidemic, "_FEW_MESSAGES", most // 3)
        refusal = assert_same_or_refused(scenario_with(of_protocol(name, changes)))
    event(f"{refusal}")
    assert refusal is None or "too many for one frame" in refusal.problem
