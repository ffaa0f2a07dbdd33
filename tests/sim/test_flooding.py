"""The compiled kernels make the very runs of the reference: the same views, the same arrivals, the same hops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.sim import run
from antecast.sim.compiled.draws import delay_model
from antecast.sim.delays import Constant, Growing, Pareto, Uniform, sampler
from antecast.sim.overlay.compiled.flooding import MOST_LINKS, MOST_NODES, NEVER, flood, order_of, receiver_of
from antecast.sim.overlay.compiled.snapshots import Snapshot, spray_snapshot, spray_views
from antecast.sim.overlay.views import first_views
from antecast.sim.scenario import make_scenario
from antecast.sim.streams import Stream
from antecast.sim.topology import Random, Spray, edges

SECOND = 10**9
DELAYS = [
    {"kind": "constant", "value": "10ms"},
    {"kind": "uniform", "low": "0ms", "high": "500ms"},
    {"kind": "uniform", "low": "0ns", "high": "3ns"},
    {"kind": "growing", "low": "10ms", "high": "5s", "start": "100ms", "until": "9s"},
    {"kind": "growing", "low": "1s", "high": "20ms", "until": "9s", "spread": 0.7},
]


def reference(scenario):
    """When and in how many hops each process first received the one message of a run, from its log."""
    arrival, hops, source = {}, {}, None
    for row in run(scenario).events.to_pylist():
        p = row["node"]
        if row["kind"] == "broadcast":
            source, arrival[p], hops[p] = p, row["t"], 0
        elif row["kind"] == "receive" and p not in arrival:
            arrival[p], hops[p] = row["t"], hops[row["peer"]] + 1
    n = scenario.nodes
    return source, [arrival.get(p, NEVER) for p in range(n)], [hops.get(p, 0) for p in range(n)]


def one_broadcast(nodes, topology, delay, seed, source, at="250ms"):
    return make_scenario(
        {
            "nodes": nodes,
            "seed": seed,
            "duration": "1s",
            "protocol": {"name": "r-broadcast"},
            "network": {"topology": topology, "delay": delay},
            "workload": [{"kind": "at", "broadcasts": [{"t": at, "node": source}]}],
            "log": {"sample": 0},
        }
    )


def assert_same_flood(scenario, snapshot):
    source, arrival, hops = reference(scenario)
    start = scenario.workload[0].broadcasts[0].t
    found = flood(snapshot, source, model=scenario.network.delay, start=start, seed=scenario.seed)
    assert found.arrival.tolist() == arrival
    assert found.hops.tolist() == hops
    return found


@pytest.mark.parametrize("delay", DELAYS, ids=lambda delay: "-".join(map(str, delay.values())))
def test_a_flood_over_1000_processes_is_the_reference_s_to_the_nanosecond(delay):
    scenario = one_broadcast(1000, {"kind": "spray", "every": "0s", "core": 4}, delay, seed=3, source=17)
    snapshot = spray_snapshot(scenario.network.topology, 1000, 3)
    assert assert_same_flood(scenario, snapshot).unreached == 0


@given(
    st.integers(2, 40),
    st.sampled_from(DELAYS),
    st.integers(0, 2**40),
    st.lists(st.tuples(*[st.integers(0, 39)] * 2)),
)
def test_floods_over_any_graph_are_the_reference_s(nodes, delay, seed, pairs):
    links = [(a % nodes, b % nodes) for a, b in pairs]
    topology = {"kind": "links", "links": [[a, b] for a, b in links if a != b]}
    scenario = one_broadcast(nodes, topology, delay, seed, source=seed % nodes)
    assert_same_flood(scenario, Snapshot.of(nodes, links))


@given(
    st.integers(1, 60),
    st.integers(0, 2**40),
    st.builds(Spray, core=st.integers(1, 5), settle=st.integers(0, 4), arcs=st.none() | st.floats(0.5, 6)),
)
def test_compiled_views_are_those_of_the_reference(n, seed, topology):
    streams = [Stream(seed, "spray", p) for p in range(n)]
    expected = first_views(topology, n, seed, streams)
    peers, ages, sizes, drawn = spray_views(topology, n, seed)
    for p in range(n):
        found = zip(peers[p, : sizes[p]].tolist(), ages[p, : sizes[p]].tolist(), strict=True)
        assert list(found) == [(arc.peer, arc.age) for arc in expected[p]]
    assert drawn.tolist() == [stream._counter for stream in streams]


def test_who_cannot_be_reached_is_counted_and_not_averaged():
    snapshot = Snapshot.of(6, [(0, 1), (1, 2), (3, 4)])
    found = flood(snapshot, 0, model=Constant(value=10), start=5)
    assert found.arrival.tolist() == [5, 15, 25, NEVER, NEVER, NEVER]
    assert found.unreached == 3
    assert found.mean_hops == 1.5 and found.mean_latency == 15
    alone = flood(snapshot, 5, model=Constant(value=10))
    assert alone.unreached == 5 and np.isnan(alone.mean_hops)


def test_only_usable_links_are_used():
    snapshot = Snapshot.of(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    usable = np.ones(snapshot.links, np.bool_)
    usable[1] = False  # 0 → 2
    found = flood(Snapshot(snapshot.offsets, snapshot.targets, usable), 0, model=Constant(value=1))
    assert found.hops.tolist() == [0, 1, 2, 3]
    back = flood(Snapshot(snapshot.offsets, snapshot.targets, usable), 2, model=Constant(value=1))
    assert back.hops.tolist() == [1, 1, 0, 1]


def test_path_length_is_that_of_a_random_graph():
    """(ln n − γ) / ln d + 1/2 hops, for mean degree d."""
    n = 10_000
    snapshot = spray_snapshot(Spray(arcs=8.4, settle=5), n, 1)
    degree = snapshot.links / n
    found = flood(snapshot, 0, model=Constant(value=1))
    assert found.mean_hops == pytest.approx((np.log(n) - 0.5772) / np.log(degree) + 0.5, rel=0.03)


def test_a_snapshot_holds_each_connection_once_and_both_ways():
    pairs = edges(Random(degree=5), 50, 1)
    snapshot = Snapshot.of(50, [*pairs, *((b, a) for a, b in pairs), (7, 7)])
    found = {
        (p, int(q)) for p in range(50) for q in snapshot.targets[snapshot.offsets[p] : snapshot.offsets[p + 1]]
    }
    assert found == {*pairs, *((b, a) for a, b in pairs)}
    assert snapshot.links == len(found) and snapshot.nodes == 50


def test_processes_beyond_2_to_the_24_are_told_apart():
    """Number 2²⁴ is not number 0: a line of three processes, the last two with large numbers."""
    n = (1 << 24) + 2
    first, last = n - 2, n - 1
    offsets = np.zeros(n + 1, np.int64)
    offsets[1:] = 1
    offsets[first + 1], offsets[last + 1] = 3, 4
    snapshot = Snapshot(offsets, np.array([first, 0, last, first], np.int32))
    found = flood(snapshot, 0, model=Constant(value=10))
    assert found.arrival[[0, first, last]].tolist() == [0, 10, 20]
    assert found.unreached == n - 3


def test_order_and_receiver_share_a_word_without_running_into_each_other():
    for receiver in (0, 1 << 24, MOST_NODES):
        for sent in (0, 1 << 24, MOST_LINKS):
            order = order_of(sent, receiver)
            assert 0 <= order < 1 << 63 and receiver_of(order) == receiver
    assert order_of(1, MOST_NODES) < order_of(2, 0)


@pytest.mark.parametrize(
    ("nodes", "links", "start", "problem"),
    [
        (MOST_NODES + 1, 0, 0, "at most 2,147,483,647 processes, not 2,147,483,648"),
        (3, MOST_LINKS + 1, 0, "at most 2,147,483,647 links, not 2,147,483,648"),
        (3, 0, -1, "starts between 0 and"),
        (3, 0, 1 << 63, "starts between 0 and"),
    ],
)
def test_what_a_flood_cannot_count_it_refuses(nodes, links, start, problem):
    """Arrays of one number, seen as often as needed: nothing of that size is allocated."""
    offsets = np.broadcast_to(np.int64(0), nodes + 1)
    snapshot = Snapshot(offsets, np.broadcast_to(np.int32(0), links))
    with pytest.raises(ConfigurationError, match=problem):
        flood(snapshot, 0, model=Constant(value=1), start=start)


def test_a_flood_that_outlasts_the_clock_is_refused():
    line = Snapshot.of(1500, [(p, p + 1) for p in range(1499)])
    with pytest.raises(ConfigurationError, match="291 years"):
        flood(line, 0, model=Constant(value=1 << 53))


def test_a_delay_that_kernels_do_not_know_is_refused():
    with pytest.raises(ConfigurationError, match="constant, uniform and growing delays, not pareto"):
        delay_model(Pareto(least=1), bounded=True)


@given(st.integers(0, 2**63), st.integers(0, 2**53 - 1))
def test_wide_uniform_delays_are_drawn_alike(seed, high):
    """Products beyond 128 bits are cut in the same place."""
    model = Uniform(low=0, high=high)
    snapshot = Snapshot.of(2, [(0, 1)])
    drawn = sampler(model)(Stream(seed, "delay", 0, 1, 1))
    assert flood(snapshot, 0, model=model, seed=seed).arrival[1] == drawn


def test_growing_delays_are_drawn_alike():
    model = Growing(low=10**7, high=5 * 10**9, start=SECOND, until=60 * SECOND)
    snapshot = Snapshot.of(2, [(0, 1)])
    for now in range(0, 70 * SECOND, 1_234_567_891):
        assert flood(snapshot, 0, model=model, start=now).arrival[1] == now + model.line(now)
