"""Scenarios that are well formed and mean nothing: refused, noted, or idle."""

import re

import pytest

from antecast.core import ConfigurationError
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario
from antecast.sim.sense import idle, remarks

POISSON = {"kind": "poisson", "rate": 1.0}
RING = {"kind": "ring"}


def scenario(**values):
    topology = values.pop("topology", {"kind": "complete"})
    network = {"topology": topology} | values.pop("network", {})
    return make_scenario({"nodes": 6, "duration": "2s", "drain": "3s", "network": network, **values})


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"faults": [{"kind": "partition", "at": "1s", "groups": [[0, 1], [1, 2]]}]},
            "faults[0].groups: node 1 is named twice; groups do not overlap",
        ),
        (
            {"faults": [{"kind": "partition", "at": "1s", "groups": [[3, 3]]}]},
            "faults[0].groups: node 3 is named twice",
        ),
        (
            {"topology": {"kind": "links", "links": [[0, 1], [2, 2]]}},
            "network.topology.links[1]: node 2 cannot be linked with itself",
        ),
        ({"network": {"links": [{"a": 4, "b": 4}]}}, "network.links[0]: node 4 cannot be linked with itself"),
        (
            {"topology": {"kind": "random", "degree": 6}},
            "degree: got 6; in a network of 6 nodes each has at most 5 neighbours",
        ),
        ({"topology": {"kind": "ring", "reach": 4}}, "reach: got 4; around a ring of 6 nodes it is at most 3"),
        (
            {"faults": [{"kind": "crash", "at": "1s", "node": 0}, {"kind": "heal", "at": "6s"}]},
            "faults[1].at: got 6s, after the end of the run at 5s (duration and drain)",
        ),
        (
            {"faults": [{"kind": "churn", "uptime": "1s", "downtime": "1s", "start": "2s"}]},
            "faults[0].start: got 2s, and churn ends at 2s",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(values, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        scenario(**values)


@pytest.mark.parametrize("kind", ["random", "ring"])
def test_the_defaults_of_a_topology_fit_any_network(kind):
    for nodes in (1, 2, 3):
        assert scenario(nodes=nodes, topology={"kind": kind}).nodes == nodes


@pytest.mark.parametrize(
    ("faults", "values", "noted"),
    [
        ([("recover", {"node": 2})], {}, ["faults[0].node: node 2 has not crashed, so it does not recover at 1s"]),
        ([("crash", {"node": 1}), ("recover", {"node": 2})], {}, ["faults[1].node: node 2 has not crashed"]),
        ([("crash", {"node": 2}), ("recover", {"node": 2})], {}, []),
        ([("crash", {"node": 2}), ("crash", {"node": 2})], {}, ["faults[1].node: node 2 is down already"]),
        (
            [("crash", {"node": 2}), ("recover", {"node": 2}), ("recover", {"node": 2})],
            {},
            ["faults[2].node: node 2 has not crashed"],
        ),
        ([("rebirth", {"node": 2, "number": 6}), ("recover", {"node": 2})], {}, ["faults[1].node: node 2"]),
        *[
            (
                [("leave", {"node": 2}), (kind, {"node": 2} | more)],
                {},
                ["faults[1].node: node 2 leaves for good at 1s"],
            )
            for kind, more in [("crash", {}), ("recover", {}), ("leave", {}), ("rebirth", {"number": 6})]
        ],
        ([("crash", {"node": 6}), ("join", {"node": 6})], {}, ["faults[0].node: node 6 has not joined before"]),
        ([("join", {"node": 6}), ("crash", {"node": 6}), ("recover", {"node": 6})], {}, []),
        ([("join", {"node": 6}), ("join", {"node": 6})], {}, ["faults[1].node: node 6 has joined already"]),
        ([("rebirth", {"node": 2, "number": 6}), ("leave", {"node": 6})], {}, []),
        ([("heal", {})], {}, ["faults[0]: there is no partition to heal at 1s"]),
        ([("partition", {"groups": [[0]]}), ("heal", {})], {}, []),
        ([("partition", {"groups": [[0]]}), ("heal", {}), ("heal", {})], {}, ["faults[2]: there is no partition"]),
        ([("partition", {"groups": []}), ("heal", {})], {}, ["faults[0].groups: all nodes are in one group"]),
        ([("partition", {"groups": [[0, 1, 2, 3, 4, 5]]})], {}, ["faults[0].groups: all nodes are in one group"]),
        ([("cut", {"a": 0, "b": 3})], {}, []),
        (
            [("cut", {"a": 0, "b": 3}), ("cut", {"a": 3, "b": 0})],
            {},
            ["faults[1]: there is no link between 0 and 3"],
        ),
        ([("cut", {"a": 0, "b": 1})], {"topology": RING}, []),
        (
            [("cut", {"a": 0, "b": 3})],
            {"topology": RING},
            ["faults[0]: there is no link between 0 and 3 to cut at 1s"],
        ),
        ([("link", {"a": 0, "b": 3}), ("cut", {"a": 0, "b": 3})], {"topology": RING}, []),
        ([("join", {"node": 6, "peers": [1]}), ("cut", {"a": 1, "b": 6})], {"topology": RING}, []),
        ([("link", {"a": 2, "b": 2})], {}, ["faults[0]: node 2 has no link with itself at 1s"]),
        ([("cut", {"a": 0, "b": 3})], {"topology": {"kind": "random"}}, []),
    ],
)
def test_faults_that_do_nothing_are_noted(faults, values, noted):
    timed = [{"kind": kind, "at": f"{1 + 0.1 * place:g}s", **rest} for place, (kind, rest) in enumerate(faults)]
    found = remarks(scenario(faults=timed, **values))
    assert len(found) == len(noted)
    for text, beginning in zip(found, noted, strict=True):
        assert text.startswith(beginning)


def test_faults_are_followed_by_their_times_and_not_by_their_places():
    crash, recover = {"kind": "crash", "at": "1s", "node": 2}, {"kind": "recover", "at": "2s", "node": 2}
    assert remarks(scenario(faults=[recover, crash])) == []
    assert remarks(scenario(faults=[recover | {"at": "0.5s"}, crash])) != []


def test_where_chance_crashes_nodes_a_recovery_may_be_meant():
    churn = {"kind": "churn", "uptime": "1s", "downtime": "1s"}
    assert remarks(scenario(faults=[{"kind": "recover", "at": "1s", "node": 0}, churn])) == []


@pytest.mark.parametrize("faults", [[{"kind": "heal", "at": "1s"}], [{"kind": "recover", "at": "1s", "node": 1}]])
def test_notes_go_with_the_run(faults):
    result = run(scenario(faults=faults, workload=[POISSON]))
    assert result.summary()["notes"] == remarks(result.scenario) != []


@pytest.mark.parametrize(
    ("workload", "field", "words"),
    [
        ([], "workload", "nothing is broadcast, so there is nothing to judge; add a [[workload]]"),
        ([{"kind": "chatter"}], "workload[0]", "answers what others broadcast, and nothing else is"),
        ([POISSON | {"senders": []}], "workload[0].senders", "names no node"),
        ([POISSON | {"start": "2s"}], "workload[0].start", "starts at 2s, and ends at 2s"),
        ([POISSON | {"until": "0s"}], "workload[0].start", "starts at 0s, and ends at 0s"),
        ([{"kind": "at", "broadcasts": []}], "workload[0].broadcasts", "none of them comes before the end"),
        ([{"kind": "at", "broadcasts": [{"t": "6s", "node": 0}]}], "workload[0].broadcasts", "none of them comes"),
    ],
)
def test_a_scenario_that_broadcasts_nothing_is_idle(workload, field, words):
    made = scenario(workload=workload)
    found = idle(made)
    assert found is not None and found[0] == field and words in found[1]
    assert run(made).summary()["broadcasts"] == 0


@pytest.mark.parametrize(
    "workload",
    [
        [POISSON],
        [{"kind": "chatter"}, POISSON],
        [POISSON | {"senders": []}, POISSON],
        [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0}]}],
    ],
)
def test_one_that_broadcasts_something_is_not(workload):
    assert idle(scenario(workload=workload)) is None


def test_no_time_is_idle_too():
    assert idle(scenario(workload=[POISSON], duration="0s")) == (
        "duration",
        "got 0s, which leaves no time to broadcast",
    )
