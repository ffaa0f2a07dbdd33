"""The experiments of the PC-broadcast study, at sizes that take seconds."""

import pytest

from antecast.papers.findings import Mark
from antecast.papers.preventive.experiment import STEPS, costs, large, overlay
from antecast.papers.preventive.judgement import growth_of_costs, slower_links


def test_a_message_of_pc_broadcast_costs_the_same_in_any_system_and_a_vector_grows():
    few, many = (
        {name: costs(name, sources, 20) for name in ("vector", "fifo", "pc-broadcast")} for sources in (10, 500)
    )
    assert few["pc-broadcast"]["control"] == many["pc-broadcast"]["control"] < 20
    assert few["fifo"]["control"] == many["fifo"]["control"]
    assert many["vector"]["control"] > 20 * few["vector"]["control"]
    assert [each["state"] for each in many.values()] == [501, 501, 501]


@pytest.fixture(scope="module")
def slowing():
    return overlay(processes=150, seconds=120, sources=5, seed=1)


def test_messages_reach_everyone_while_links_get_slower(slowing):
    assert slowing["missed_pc"] == slowing["missed_r"] == 0
    assert len(slowing["steps"]) == STEPS
    assert all(step["cut off"] == 0 for step in slowing["steps"])


def test_slower_links_stay_unsafe_for_longer(slowing):
    first, last = slowing["steps"][0], slowing["steps"][-1]
    assert first["unsafe"] < last["unsafe"] < last["links"] / 2
    assert last["path, R, as published"] <= last["path, PC, as published"]
    assert last["path, R"] <= last["path, PC"]


def test_findings_follow_the_data(slowing):
    run = {"processes": 1_000} | slowing
    found = {each.quantity: each for each in slower_links([run], [1_000])}
    assert found["R-broadcast"].mark is Mark.AGREES
    steps = [step | {"path, R, as published": 2.0 + step["delay"]} for step in slowing["steps"]]
    found = {each.quantity: each for each in slower_links([run | {"steps": steps}], [1_000])}
    assert found["R-broadcast"].mark is Mark.DIFFERS


def test_growth_is_told_from_standing_still():
    def rows(control):
        return [
            {"protocol": name, "sources": n, "control": control[name](n), "state": n, "delivery": 1e-6}
            for name in control
            for n in (10, 100, 1000)
        ]

    as_claimed = {"vector": lambda n: 3 * n, "fifo": lambda n: 12, "pc-broadcast": lambda n: 12}
    found = {each.quantity: each.mark for each in growth_of_costs(rows(as_claimed))}
    assert found["control bytes of a message"] is Mark.AGREES
    found = {
        each.quantity: each.mark for each in growth_of_costs(rows(as_claimed | {"pc-broadcast": lambda n: n}))
    }
    assert found["control bytes of a message"] is Mark.DIFFERS


def test_one_broadcast_over_many_processes():
    found = large(processes=20_000, arcs=7.5, seed=1)
    assert found["unreached"] == 0
    assert 3 < found["path"] < 5 < found["hops"]
    assert 0 < found["latency"] < found["last"] < 1
