"""What the paper on mobile hosts and support stations found, with its 7 stations and 70 hosts: the figures in its
text, within what a radio of another make can be held to; and that nothing grows in the long run."""

import statistics

import pyarrow.compute as pc
import pytest

from antecast import audit
from antecast.history import metrics
from antecast.history.log import DiscardSink, EventWriter, MemorySink, SampleWriter
from antecast.history.schema import SAMPLES
from antecast.sim import run
from antecast.sim.run import make_engine
from antecast.sim.scenario import make_scenario

HOSTS, SECOND = 70, 10**9


def evaluation(rate, *, duration=60, protocol="cellular", drain=20, faults=(), start=10, seed=1, **cells):
    return make_scenario(
        {
            "seed": seed,
            "nodes": HOSTS,
            "duration": f"{duration}s",
            "drain": f"{drain}s",
            "protocol": {"name": protocol},
            "network": {"topology": {"kind": "cells"} | cells},
            "workload": [{"kind": "poisson", "rate": rate / HOSTS, "payload": 100, "start": f"{start}s"}],
            "faults": list(faults),
            "log": {"sample": "500ms"},
        }
    )


def delay(result):
    """The mean delay of a delivery, in seconds."""
    return metrics.summarise(metrics.delivery_latency(result.events, own=True)["latency"]).mean / SECOND


def frames_a_delivery(result):
    """Radio frames sent for a delivery; wires are not counted."""
    sent = result.events.filter(pc.equal(result.events["kind"], "send"))
    wired = pc.and_(pc.greater_equal(sent["node"], HOSTS), pc.is_valid(sent["peer"]))
    deliveries = pc.sum(pc.equal(result.events["kind"], "deliver")).as_py()
    return (len(sent) - pc.sum(wired).as_py()) / deliveries


def loss(result):
    """The share of receptions lost, of all radios."""
    last = {(row["node"], row["gauge"]): row["value"] for row in result.samples.to_pylist()}
    missed = sum(value for (_, gauge), value in last.items() if gauge == "radio_missed")
    received = sum(value for (_, gauge), value in last.items() if gauge == "radio_received")
    return missed / (missed + received)


def complete(result):
    """Every host delivered every message, once."""
    rows = result.events.filter(pc.equal(result.events["kind"], "deliver"))
    broadcasts = pc.sum(pc.equal(result.events["kind"], "broadcast")).as_py()
    return len(rows) == HOSTS * broadcasts and audit(result).outcome == "causal"


def mean_buffer(result, gauge):
    rows = [row["value"] for row in result.samples.to_pylist() if row["gauge"] == gauge and row["t"] > 15 * SECOND]
    return statistics.mean(rows)


@pytest.fixture(scope="module")
def calm():
    return run(evaluation(5.6))


def test_a_calm_cell_needs_a_third_of_the_frames_of_tcp_flooding_and_a_fraction_of_its_delay(calm):
    """The paper: 0.4 against 1.58 messages per delivery, 0.20 s against 2 s, losses of 10 % against 5 %."""
    tcp = run(evaluation(5.6, protocol="tcp-flooding", duration=150, drain=60, start=20))
    assert complete(calm)
    assert audit(tcp).outcome == "causal"
    assert 0.35 < frames_a_delivery(calm) < 0.5
    assert 1.25 < frames_a_delivery(tcp) < 1.6
    assert delay(calm) < 0.15  # the paper waits a second or less to send again, here that is measured
    assert delay(tcp) > 3 * delay(calm)
    assert loss(tcp) < loss(calm) < 0.12


def test_35_broadcasts_a_second_are_sustained():
    """The paper: 0.31 s, 35 messages kept by a station, 6 by a host, 0.29 messages per delivery."""
    busy = run(evaluation(35, duration=45))
    assert complete(busy)
    assert delay(busy) < 0.3
    assert frames_a_delivery(busy) < 0.35
    assert mean_buffer(busy, "station_sent_buffer") < 70
    assert mean_buffer(busy, "host_received_buffer") < 10


def test_movement_costs_little():
    """The paper: 0.3 s at 25 broadcasts per second, 0.05 s more than without movement; losses of 8 %."""
    walking = run(evaluation(25, mobility={"kind": "waypoint"}))
    standing = run(evaluation(25))
    assert complete(walking)
    moves = pc.sum(pc.equal(walking.events["kind"], "up")).as_py() - HOSTS
    assert moves > 30
    assert delay(walking) < delay(standing) + 0.2
    assert loss(walking) < 0.15
    assert frames_a_delivery(walking) < 0.35


def test_the_backlog_of_a_fault_drains_within_seconds():
    """The paper: hosts of one cell fail for 3, 4, 5 … s; its station's buffer grows and falls back."""
    lengths = (4, 8, 10)
    faults = [
        {"kind": "cell-crash", "at": f"{15 + 30 * index}s", "station": 3, "lasts": f"{lasts}s"}
        for index, lasts in enumerate(lengths)
    ]
    result = run(evaluation(25, duration=105, mobility={"kind": "waypoint"}, faults=faults))
    assert complete(result)
    rows = result.samples.to_pylist()
    kept = {row["t"] / SECOND: row["value"] for row in rows
            if row["gauge"] == "station_sent_buffer" and row["node"] == HOSTS + 3}  # fmt: skip
    for index, lasts in enumerate(lengths):
        begins, ends = 15 + 30 * index, 15 + 30 * index + lasts
        peak = max(value for t, value in kept.items() if begins <= t <= ends + 1)
        assert peak > 15 * lasts
        back = min(t for t, value in kept.items() if t > ends and value < 80)
        assert back - ends < 5
    assert all(value == 0 for t, value in kept.items() if t > 118)


def test_a_large_run_is_quick():
    """300 simulated seconds at 25 broadcasts per second in less than 2 minutes of one core; here a sixth of it."""
    result = run(evaluation(25, duration=40, drain=10, mobility={"kind": "waypoint"}))
    assert result.cpu < 20


def soak(hours):
    """Hosts walk, join, leave, crash and come back, or never do."""
    minutes = round(60 * hours)
    faults = [{"kind": "churn", "uptime": "20min", "downtime": "10s"}]
    for index, minute in enumerate(range(1, minutes - 6, 4)):
        node = HOSTS + index
        faults.append({"kind": "join", "at": f"{minute}min", "node": node})
        goes = "crash" if index % 5 == 0 else "leave"  # every fifth goes without a word
        faults.append({"kind": goes, "at": f"{minute + 5}min", "node": node})
    return make_scenario(
        {
            "nodes": HOSTS,
            "duration": f"{minutes}min",
            "drain": "7min",
            "protocol": {"name": "cellular"},
            "network": {"topology": {"kind": "cells", "mobility": {"kind": "waypoint"}}},
            "workload": [{"kind": "poisson", "rate": 2.0 / HOSTS, "payload": 100}],
            "faults": faults,
            "log": {"events": "order", "sample": "10s"},
        }
    )


def test_nothing_grows_in_the_long_run(request):
    """Ten simulated hours with `--soak`, a few minutes without."""
    scenario = soak(10 if request.config.getoption("--soak") else 0.15)
    samples = MemorySink(SAMPLES)
    engine = make_engine(scenario, EventWriter("soak", DiscardSink()), SampleWriter("soak", samples))
    waiting = []

    def look():
        waiting.append(len(engine.scheduler))
        return True

    engine.run(look)
    for writer in (engine._samples, engine._events):
        writer.flush()
    stations = [engine.hosts[node].protocol for node in engine.hosts if node >= scenario.total_nodes]
    assert max(waiting[len(waiting) // 2 :]) < 1.5 * max(waiting[: len(waiting) // 2]) + 100
    most = {
        "host_sent_buffer": 50,
        "host_received_buffer": 150,  # the window
        "station_sent_buffer": 900,  # what comes in until a host is given up, 2 a second for 340 s, and some
        "station_received_buffer": 50,
        "station_hosts": HOSTS,
        "station_floors": HOSTS + 20,
    }
    largest = dict.fromkeys(most, 0)
    for row in samples.table().to_pylist():
        if row["gauge"] in largest:
            largest[row["gauge"]] = max(largest[row["gauge"]], row["value"])
    assert {gauge: value for gauge, value in largest.items() if value > most[gauge]} == {}
    for station in stations:
        assert station.gauges()["station_sent_buffer"] == 0  # all that is left are hosts that have everything
        assert not station.searching
        assert len(station._wires.routes) < 7
    assert sum(station.gauges()["station_hosts"] for station in stations) == HOSTS
