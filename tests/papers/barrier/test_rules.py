"""The published rule for deadlines beside the safe one, on the networks of the barrier study."""

from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecast.core.settings import Duration
from antecast.papers.barrier.experiment import BUSES, NETWORKS, PEDESTRIANS, Radio, protocol, rules, scenario
from antecast.papers.barrier.measured_run import OUT_OF_ORDER, measured, measured_run, with_radio
from antecast.sim.mobility.pedestrians import Pedestrians, pedestrians
from antecast.traces.contact_detection import find_contacts
from antecast.traces.presence import presence

FIVE = [(Path(f"c{n}"), Path(f"p{n}")) for n in range(5)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The contacts and the presence of a quarter of an hour of pedestrians, as files."""
    moved = pedestrians(1, Pedestrians(duration=Duration(900 * 10**9), walkers=106.5))
    folder = tmp_path_factory.mktemp("place")
    files = folder / "walked-contacts.parquet", folder / "walked-presence.parquet"
    pq.write_table(find_contacts(moved, PEDESTRIANS.reach), files[0])
    pq.write_table(presence(moved), files[1])
    return files


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_every_lifetime_is_run_by_the_published_rule_on_two_networks(network):
    points = rules(network, FIVE, quick=False)
    by_rule = [point for point in points if point["clocks"] == "0s"]
    assert {point["rule"] for point in by_rule} == {"paper"}
    expected = [
        (place, lifetime) for place in ("c0", "c1") for lifetime in network.lifetimes if lifetime != "none"
    ]
    assert [(point["contacts"], point["lifetime"]) for point in by_rule] == expected
    apart = {(point["rule"], point["lifetime"]) for point in points if point["clocks"] != "0s"}
    assert apart == {("safe", network.lifetimes[-1]), ("paper", network.lifetimes[-1])}


def test_the_quick_study_has_two_such_runs_a_network():
    for network in NETWORKS:
        points = rules(network, FIVE[:1], quick=True)
        assert [(point["lifetime"], point["rule"], point["clocks"]) for point in points] == [
            (network.lifetimes[-1], "paper", "0s"),
            (network.lifetimes[-1], "paper", "2s"),
        ]


def test_rules_are_settings_of_the_protocol():
    assert protocol("5'", "paper") == {"name": "delta", "lifetime": "5min", "rule": "paper"}
    assert protocol("none") == {"name": "barrier"}
    assert scenario(BUSES, "10'", "c", None) | {"protocol": {}} == scenario(
        BUSES, "10'", "c", None, rule="paper"
    ) | {"protocol": {}}


def test_the_published_rule_breaks_order_where_clocks_differ_by_a_few_seconds(place):
    files = tuple(map(str, place))
    radio, found = Radio("75kb/s", "5s"), {}
    for rule, clocks in product(("safe", "paper"), ("0s", "2s")):
        values = with_radio(scenario(PEDESTRIANS, "2'", *files, rule=rule, clocks=clocks), radio)
        found[rule, clocks] = measured_run(values, "2'", audited=True)
    assert found["safe", "0s"][OUT_OF_ORDER] == found["safe", "2s"][OUT_OF_ORDER] == 0
    assert found["paper", "2s"][OUT_OF_ORDER] > 0
    assert found["safe", "2s"]["co-delivered"] > found["paper", "2s"]["co-delivered"]


def test_a_point_of_the_rules_is_the_run_of_its_scenario(place):
    files = tuple(map(str, place))
    point = next(point for point in rules(PEDESTRIANS, [place], quick=True) if point["clocks"] == "2s")
    values = scenario(PEDESTRIANS, "5'", *files, rule="paper", clocks="2s")
    assert measured(**point) == measured_run(values, "5'", audited=True)


def test_a_contact_trace_alone_will_do(place):
    """Then all nodes are there all the time, and broadcast as long as it lasts."""
    point = rules(PEDESTRIANS, [(place[0], None)], quick=True)[0]
    assert point["presence"] is None
    assert measured(**point)["broadcast"] > 282, "as many as with presence"
