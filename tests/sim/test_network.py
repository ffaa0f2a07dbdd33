"""Links, topologies and delays do what their settings say, seen through the event log."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.sim import run
from antecast.sim.delays import Constant, Exponential, Growing, Normal, Pareto, Uniform, sampler
from antecast.sim.scenario import make_scenario
from antecast.sim.streams import Stream
from antecast.sim.topology import Complete, Explicit, Grid, Random, Ring, Star, Tree, edges

MS = 10**6


def simulate(**values):
    return run(make_scenario({"protocol": {"name": "r-broadcast"}, "log": {"sample": 0}} | values))


def rows(result, kind):
    return [row for row in result.events.to_pylist() if row["kind"] == kind]


def broadcasts(*times, node=0, payload=64):
    return [{"kind": "at", "broadcasts": [{"t": t, "node": node, "payload": payload} for t in times]}]


def test_a_constant_delay_is_what_a_frame_takes():
    result = simulate(nodes=2, network={"delay": "25ms"}, workload=broadcasts("1s"))
    assert [row["t"] for row in rows(result, "receive")] == [1_025 * MS]


def test_a_link_may_differ_from_the_others_in_one_direction():
    links = [{"a": 0, "b": 1, "delay": "7ms", "both": False}]
    there = simulate(nodes=2, network={"delay": "1ms", "links": links}, workload=broadcasts("0s"))
    back = simulate(nodes=2, network={"delay": "1ms", "links": links}, workload=broadcasts("0s", node=1))
    assert [row["t"] for row in rows(there, "receive")] == [7 * MS]
    assert [row["t"] for row in rows(back, "receive")] == [1 * MS]


def test_a_fifo_link_keeps_order_and_another_does_not():
    times = [f"{number}ms" for number in range(200)]
    delay = {"kind": "uniform", "low": "0ms", "high": "500ms"}
    for fifo in (True, False):
        result = simulate(nodes=2, network={"delay": delay, "fifo": fifo}, workload=broadcasts(*times))
        order = [row["seq"] for row in rows(result, "receive")]
        assert sorted(order) == list(range(1, 201))
        assert (order == sorted(order)) == fifo


def test_a_share_of_frames_is_lost():
    times = [f"{number}ms" for number in range(1000)]
    result = simulate(nodes=2, network={"loss": 0.3}, workload=broadcasts(*times))
    assert len(rows(result, "send")) == 1000
    assert 600 < len(rows(result, "receive")) < 800


def test_bandwidth_makes_frames_wait_for_each_other():
    """Three frames of s bytes at 8 kb/s leave s ms apart."""
    result = simulate(
        nodes=2, network={"delay": "0ms", "bandwidth": "8kb/s"}, workload=broadcasts("0s", "0s", "0s", payload=90)
    )
    size = rows(result, "send")[0]["bytes"]
    assert [row["t"] for row in rows(result, "receive")] == [size * MS, 2 * size * MS, 3 * size * MS]


@pytest.mark.parametrize(("queue", "last"), [("node", 3), ("link", 1)])
def test_a_queue_is_shared_by_a_node_or_belongs_to_a_link(queue, last):
    network = {"delay": "0ms", "bandwidth": "8kb/s", "queue": queue, "topology": {"kind": "star"}}
    result = simulate(nodes=4, network=network, workload=broadcasts("0s", payload=90))
    size = rows(result, "send")[0]["bytes"]
    assert max(row["t"] for row in rows(result, "receive")) == last * size * MS


def test_a_full_queue_drops_frames_and_says_how_many():
    network = {"delay": "0ms", "bandwidth": "8kb/s", "queue_limit": 250}
    result = simulate(nodes=2, network=network, workload=broadcasts(*["0s"] * 5, payload=90))
    assert len(rows(result, "receive")) == 2
    assert result.dropped == 3


@given(st.integers(1, 40), st.integers(0, 5))
def test_random_topologies_are_connected_and_have_no_loops(n, seed):
    found = edges(Random(degree=4), n, seed)
    assert all(a < b for a, b in found) and len(set(found)) == len(found)
    reached, frontier = {0}, [0]
    while frontier:
        node = frontier.pop()
        for a, b in found:
            other = b if a == node else a if b == node else node
            if other not in reached:
                reached.add(other)
                frontier.append(other)
    assert reached == set(range(n))


def test_topologies_by_hand():
    assert edges(Complete(), 3, 1) == [(0, 1), (0, 2), (1, 2)]
    assert edges(Ring(), 4, 1) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert edges(Ring(), 2, 1) == [(0, 1)]
    assert edges(Ring(), 1, 1) == []
    assert edges(Star(), 3, 1) == [(0, 1), (0, 2)]
    assert edges(Tree(arity=2), 5, 1) == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert edges(Grid(width=2), 4, 1) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert edges(Explicit(links=[(2, 1), (1, 2)]), 3, 1) == [(1, 2)]
    assert len(edges(Random(degree=6), 50, 1)) == 150


@pytest.mark.parametrize(
    ("model", "mean", "low"),
    [
        (Constant(value=5), 5, 5),
        (Uniform(low=10, high=20), 15, 10),
        (Normal(mean=1000, stdev=10), 1000, 900),
        (Exponential(mean=1000, least=500), 1500, 500),
        (Pareto(least=100, shape=2.0), 200, 100),
    ],
)
def test_delays_are_distributed_as_their_model_says(model, mean, low):
    draw = partial(sampler(model), Stream(1, "test"))
    sample = [draw() for _ in range(20_000)]
    assert min(sample) >= low
    assert sum(sample) / len(sample) == pytest.approx(mean, rel=0.05)


def test_heavy_tails_are_cut_before_they_leave_floating_point():
    """Of a shape this small, one draw in five is beyond the largest floating-point number."""
    draw = partial(sampler(Pareto(least=100, shape=0.002, most=10**9)), Stream(1, "test"))
    sample = [draw() for _ in range(1000)]
    assert min(sample) < 10**6 and max(sample) == 10**9


def test_a_growing_delay_is_that_of_the_moment_a_frame_is_sent():
    delay = {"kind": "growing", "low": "100ms", "high": "500ms", "start": "10s", "until": "20s"}
    times = ["0s", "10s", "12500ms", "15s", "20s", "30s"]
    result = simulate(nodes=2, network={"delay": delay}, workload=broadcasts(*times), duration="40s")
    sent, received = ([row["t"] for row in rows(result, kind)] for kind in ("send", "receive"))
    assert [b - a for a, b in zip(sent, received, strict=True)] == [
        100 * MS,
        100 * MS,
        200 * MS,
        300 * MS,
        500 * MS,
        500 * MS,
    ]


def test_a_growing_delay_may_be_spread():
    draw = partial(sampler(Growing(low=1000, high=9000, until=10, spread=0.3)), Stream(1, "test"))
    sample = [draw() for _ in range(5000)]
    assert 690 < min(sample) < 720 and 1280 < max(sample) < 1310
    assert sum(sample) / len(sample) == pytest.approx(1000, rel=0.02)


def test_a_growing_delay_needs_time_to_grow():
    with pytest.raises(ConfigurationError, match=r"network.delay: start \(2s\) must come before until \(1s\)"):
        simulate(network={"delay": {"kind": "growing", "low": "0s", "high": "1s", "start": "2s", "until": "1s"}})


def test_a_normal_delay_is_cut_at_zero():
    draw = partial(sampler(Normal(mean=1, stdev=1000)), Stream(1, "test"))
    sample = [draw() for _ in range(1000)]
    assert min(sample) == 0 and sample.count(0) > 300
