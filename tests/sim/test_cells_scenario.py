"""Scenarios in cells: what is filled in, what is refused, and what happens to hosts."""

import pytest

from antecast.core import ConfigurationError
from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario

STREET = {"kind": "cells", "places": [[0, 0], [150, 0]], "hosts": [[10, 0], [20, 0], [140, 0]]}


def scenario(faults=(), broadcasts=(), *, topology=STREET, protocol="cellular", **more):
    at = [{"t": t, "node": node} for t, node in broadcasts]
    return make_scenario(
        {
            "nodes": 3,
            "duration": "20s",
            "protocol": {"name": protocol},
            "network": {"topology": topology},
            "workload": [{"kind": "at", "broadcasts": at}],
            "faults": list(faults),
        }
        | more
    )


def delivered(result, node):
    rows = result.events.to_pylist()
    return [(row["origin"], row["seq"]) for row in rows if row["kind"] == "deliver" and row["node"] == node]


def kinds(result, node):
    wanted = ("crash", "recover", "join", "leave")
    return [row["kind"] for row in result.events.to_pylist() if row["node"] == node and row["kind"] in wanted]


@pytest.mark.parametrize("protocol", ["cellular", "tcp-flooding"])
def test_a_message_reaches_every_host_once(protocol):
    result = run(scenario(broadcasts=[("5s", 0), ("6s", 2)], protocol=protocol))
    for node in range(3):
        assert delivered(result, node) == [(0, 1), (2, 1)]
    verdict = judge(result.events, clock="global")
    assert not verdict.early
    assert not verdict.duplicates
    assert {row["node"] for row in result.events.to_pylist()} == {0, 1, 2, 3, 4}  # stations come behind the hosts


def test_wires_are_tcp_over_ten_megabits_unless_said_otherwise():
    network = scenario().network
    assert (network.fifo, network.queue, network.bandwidth) == (True, "link", 10_000_000)
    values = {"topology": STREET, "bandwidth": "1Mb/s"}
    said = make_scenario({"protocol": {"name": "cellular"}, "network": values}).network
    assert (said.fifo, said.bandwidth) == (True, 1_000_000)


def test_the_same_scenario_makes_the_same_run():
    walking = {"kind": "cells", "mobility": {"kind": "waypoint", "speed": 15.0}, "loss": 0.1}
    workload = [{"kind": "poisson", "rate": 0.5}]
    one, other = (run(scenario(topology=walking, nodes=12, workload=workload)) for _ in range(2))
    assert one.events.equals(other.events)
    different = run(scenario(topology=walking, nodes=12, workload=workload, seed=2))
    assert not one.events.equals(different.events)


def test_a_run_is_named_by_all_that_makes_it():
    assert run_id(scenario()) == run_id(scenario())
    assert run_id(scenario()) != run_id(scenario(topology=STREET | {"backoff": "1ms"}))


def test_a_host_that_crashes_catches_up_from_what_it_had_saved():
    faults = [{"kind": "crash", "at": "6s", "node": 2}, {"kind": "recover", "at": "10s", "node": 2}]
    result = run(scenario(faults, [("5s", 0), ("7s", 0), ("8s", 1), ("12s", 2)]))
    assert delivered(result, 2) == [(0, 1), (0, 2), (1, 1), (2, 1)]
    assert kinds(result, 2) == ["crash", "recover"]


def test_a_host_that_joins_takes_part_from_then_on():
    result = run(scenario([{"kind": "join", "at": "8s", "node": 3}], [("5s", 0), ("12s", 3), ("13s", 1)]))
    assert delivered(result, 3) == [(3, 1), (1, 1)]
    assert kinds(result, 3) == ["join"]


def test_a_host_leaves_when_it_has_been_heard():
    result = run(scenario([{"kind": "leave", "at": "8s", "node": 1}], [("5s", 1), ("7999ms", 1), ("9s", 1)]))
    assert delivered(result, 0) == [(1, 1), (1, 2)]
    assert kinds(result, 1) == ["leave"]
    left = next(row["t"] for row in result.events.to_pylist() if row["kind"] == "leave")
    assert left > 8 * 10**9
    last = result.samples.to_pylist()[-40:]
    assert {row["value"] for row in last if row["gauge"] == "station_hosts"} == {1}


def test_a_random_host_of_a_cell_can_be_struck():
    result = run(scenario([{"kind": "cell-crash", "at": "6s", "station": 0, "lasts": "2s"}], [("7s", 2)]))
    struck = [node for node in range(3) if kinds(result, node)]
    assert struck in ([0], [1])
    assert delivered(result, struck[0]) == [(2, 1)]


def test_collisions_are_counted():
    packed = STREET | {"hosts": [[-100, 0], [100, 0], [0, 100]], "carrier_sense": False, "places": [[0, 0]]}
    result = run(scenario(topology=packed, workload=[{"kind": "poisson", "rate": 20.0}]))
    gauges = {row["gauge"]: row["value"] for row in result.samples.to_pylist() if row["node"] == 3}
    assert gauges["radio_received"] > 100
    assert gauges["radio_missed"] > 10


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"protocol": {"name": "vector"}}, "vector has no stations; in cells choose cellular or tcp-flooding"),
        ({"network": {}}, 'cellular needs stations and cells: topology = { kind = "cells" }'),
        (
            {"network": {"topology": STREET | {"wires": [[0, 5]]}}},
            "there is no station 5; stations are 0 to 1",
        ),
        (
            {"network": {"topology": STREET | {"wires": [[0, 1], [1, 0]]}}},
            "the wire 1 to 0 closes a circle; wires must make a tree",
        ),
        ({"network": {"topology": STREET | {"wires": []}}}, "2 stations need 1 wires to make a tree, got 0"),
        (
            {"faults": [{"kind": "cut", "at": "1s", "a": 0, "b": 1}]},
            "hosts in cells have no links that could break or heal",
        ),
        (
            {"faults": [{"kind": "cell-crash", "at": "1s", "station": 2, "lasts": "1s"}]},
            "there is no station 2; stations are 0 to 1",
        ),
        ({"faults": [{"kind": "crash", "at": "1s", "node": 3}]}, "there is no node 3"),
        ({"network": {"topology": STREET | {"range": -1}}}, "expected a number above 0, got -1"),
        ({"network": {"topology": STREET | {"range": float("inf")}}}, "range: expected a finite number, got inf"),
        ({"network": {"topology": STREET | {"wires": [[-1, 0]]}}}, "there is no station -1; stations are 0 to 1"),
        ({"network": {"topology": STREET | {"places": []}}}, "places must name one station at least"),
        (
            {"network": {"topology": STREET | {"places": [[0, 0], [float("nan"), 0]]}}},
            r"places\[1\]\[0\]: expected a finite number, got nan",
        ),
        (
            {"network": {"topology": STREET | {"mobility": {"kind": "waypoint", "speed": 1e12}}}},
            "expected a number above 0 and up to 10,000, got 1000000000000.0",
        ),
        (
            {"network": {"topology": STREET | {"fading": {"every": 0, "lasts": "1us"}}}},
            "every and lasts must make 1ms at least, got 0s and 1us",
        ),
        ({"protocol": {"name": "cellular", "connect": 0}}, "connect must be 1ms at least, got 0s"),
        ({"protocol": {"name": "cellular", "evict": "1ms"}}, "evict must be 2s at least, twice connect and ack"),
    ],
)
def test_what_cannot_be_is_refused(change, problem):
    values = {"nodes": 3, "protocol": {"name": "cellular"}, "network": {"topology": STREET}}
    with pytest.raises(ConfigurationError, match=problem.replace("(", r"\(").replace("{", r"\{")):
        make_scenario(values | change)


def test_a_fault_of_cells_needs_cells():
    fault = {"kind": "cell-crash", "at": "1s", "station": 0, "lasts": "1s"}
    with pytest.raises(ConfigurationError, match="this fault needs topology"):
        make_scenario({"faults": [fault]})


def test_movement_is_more_than_tcp_flooding_bears():
    walking = {"kind": "cells", "mobility": {"kind": "waypoint"}}
    assert scenario(topology=walking, protocol="tcp-flooding").unmet_needs() == ["static membership"]
    assert scenario(topology=walking).unmet_needs() == []
