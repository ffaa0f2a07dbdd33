"""Packet networks: processing, send queues, transmission, delays by message; and frames with several messages."""

from functools import partial

import pytest

from antecast.core import ConfigurationError
from antecast.history import metrics
from antecast.sim import run
from antecast.sim.delays import Triangular, sampler
from antecast.sim.engine import Engine
from antecast.sim.scenario import make_scenario
from antecast.sim.streams import Stream

MS = 10**6


def simulate(**values):
    return run(make_scenario({"protocol": {"name": "r-broadcast"}, "log": {"sample": 0}} | values))


def rows(result, kind):
    return [row for row in result.events.to_pylist() if row["kind"] == kind]


def at(*times, node=0):
    return [{"kind": "at", "broadcasts": [{"t": t, "node": node, "payload": 50} for t in times]}]


STAR = {"kind": "star"}


def test_a_packet_is_worked_on_waits_for_others_is_transmitted_and_travels():
    """t_pc + t_q + t_t + t_pp: 3 for the work, 2 for each packet before it, 2 for itself, 100 on the way."""
    network = {"topology": STAR, "delay": "100ms", "processing": "3ms", "transmission": "2ms"}
    result = simulate(nodes=4, network=network, workload=at("10ms"))
    assert [row["t"] // MS for row in rows(result, "receive")] == [10 + 3 + 2 * place + 100 for place in (1, 2, 3)]


def test_packets_are_worked_on_side_by_side():
    network = {"delay": "0ms", "processing": "50ms"}
    result = simulate(nodes=2, network=network, workload=at("0ms", "1ms", "2ms"))
    assert [row["t"] // MS for row in rows(result, "receive")] == [50, 51, 52]


def test_a_queue_of_packets_is_a_node_s_or_a_link_s():
    for queue, last in (("node", 6), ("link", 2)):
        network = {"topology": STAR, "delay": "0ms", "transmission": "2ms", "queue": queue}
        result = simulate(nodes=4, network=network, workload=at("0ms"))
        assert max(row["t"] for row in rows(result, "receive")) == last * MS


@pytest.mark.parametrize("other", [{"bandwidth": "1Mb/s"}, {"queue_limit": 100}])
def test_time_a_frame_and_bytes_a_second_exclude_each_other(other):
    with pytest.raises(ConfigurationError, match="give one of the two"):
        make_scenario({"network": {"transmission": "1ms"} | other})


def test_with_delays_by_message_a_message_takes_the_same_time_whenever_it_is_sent():
    delay = {"kind": "uniform", "low": "0ms", "high": "1s"}

    def travel(delays, *times):
        result = simulate(nodes=2, network={"delay": delay, "delays": delays}, workload=at(*times))
        sent = {row["seq"]: row["t"] for row in rows(result, "send")}
        return {row["seq"]: row["t"] - sent[row["seq"]] for row in rows(result, "receive")}

    early, late = travel("message", "0ms", "1ms", "2ms"), travel("message", "0ms", "700ms", "900ms")
    assert early == late and len(set(early.values())) == 3
    assert travel("frame", "0ms", "1ms") != early


def test_the_delays_of_two_links_differ():
    delay = {"kind": "uniform", "low": "0ms", "high": "1s"}
    network = {"topology": STAR, "delay": delay, "delays": "message"}
    times = [row["t"] for row in rows(simulate(nodes=3, network=network, workload=at("0ms")), "receive")]
    assert len(set(times)) == 2


def test_a_triangular_time_is_the_sum_of_two_uniform_ones():
    draw = partial(sampler(Triangular(low=0, mode=290, high=580)), Stream(1, "test"))
    sample = sorted(draw() for _ in range(20_000))
    assert sum(sample) / len(sample) == pytest.approx(290, rel=0.01)
    assert 0 <= sample[0] < 15 and 565 < sample[-1] <= 580
    assert sample[2_500] == pytest.approx(145, abs=4)  # an eighth lies below a quarter of the span
    skewed = partial(sampler(Triangular(low=10, mode=10, high=40)), Stream(1, "test"))
    assert sum(skewed() for _ in range(20_000)) / 20_000 == pytest.approx(20, rel=0.02)
    with pytest.raises(ConfigurationError, match="low ≤ mode ≤ high"):
        make_scenario({"network": {"delay": {"kind": "triangular", "low": "5ms", "mode": "1ms", "high": "9ms"}}})


def test_everyone_broadcasts_once():
    workload = [{"kind": "once", "at": {"kind": "uniform", "low": "1s", "high": "2s"}, "start": "5s"}]
    found = rows(simulate(nodes=20, workload=workload), "broadcast")
    assert sorted(row["node"] for row in found) == list(range(20))
    assert all(6000 * MS <= row["t"] <= 7000 * MS for row in found)
    assert len({row["t"] for row in found}) == 20


def test_links_of_a_complete_network_are_made_when_they_are_used(monkeypatch):
    made = []
    monkeypatch.setattr(Engine, "_link", lambda *args, make=Engine._link: made.append(args[1:]) or make(*args))
    values = {"nodes": 64, "protocol": {"name": "vcube", "diagnosis": 0}, "workload": at("0ms")}
    result = simulate(**values)
    assert len(rows(result, "receive")) == len(made) == 63


def test_a_link_that_comes_back_draws_anew_whichever_end_brings_it_up():
    """The first frame over the new link is node 0's summary of what it has."""
    faults = [{"kind": kind, "at": t, "node": 1} for kind, t in (("crash", "1s"), ("recover", "2s"))]
    delay = {"kind": "uniform", "low": "0ms", "high": "500ms"}
    result = simulate(nodes=2, network={"delay": delay}, workload=at("0ms"), faults=faults)
    times = [row["t"] for row in rows(result, "receive") if row["node"] == 1]
    assert times[1] > 2000 * MS and times[1] - 2000 * MS != times[0]


def test_a_frame_with_several_messages_has_a_row_for_each_and_its_bytes_once():
    """Node 0 answers node 2, and the answer is at node 4 first: it goes on to node 5 with what it answers."""
    links = [{"a": 6, "b": 4, "delay": "500ms"}]
    broadcasts = [{"t": "0ms", "node": 2, "payload": 50}, {"t": "50ms", "node": 0, "payload": 50}]
    result = simulate(
        nodes=8,
        protocol={"name": "vcube", "diagnosis": 0},
        network={"delay": "10ms", "links": links},
        workload=[{"kind": "at", "broadcasts": broadcasts}],
    )
    for kind in ("send", "receive"):
        node, peer = (4, 5) if kind == "send" else (5, 4)
        together = [row for row in rows(result, kind) if row["node"] == node and row["peer"] == peer]
        assert [(row["origin"], row["seq"]) for row in together] == [(0, 1), (2, 1)]
        assert together[0]["bytes"] > 100 and together[1]["bytes"] == 0
    cost = metrics.overhead(result.events)
    assert (cost.frames, cost.payload_bytes) == (13, 14 * 50)
    assert cost.bytes == sum(row["bytes"] for row in rows(result, "send"))
    assert len(metrics.reception_latency(result.events)) == 14
