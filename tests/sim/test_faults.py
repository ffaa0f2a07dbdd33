"""Nodes crash, recover, join and leave; links break; networks part and heal."""

from antecast.history.oracle import judge
from antecast.protocols.layered import Layered
from antecast.sim import run
from antecast.sim.scenario import make_scenario


def simulate(faults, broadcasts, *, protocol="vector", nodes=3, **more):
    return run(
        make_scenario(
            {
                "nodes": nodes,
                "duration": "10s",
                "protocol": {"name": protocol},
                "network": {"delay": "10ms"} | more,
                "workload": [{"kind": "at", "broadcasts": [{"t": t, "node": node} for t, node in broadcasts]}],
                "faults": faults,
            }
        )
    )


def delivered(result, node):
    rows = result.events.to_pylist()
    return [(row["origin"], row["seq"]) for row in rows if row["kind"] == "deliver" and row["node"] == node]


def kinds(result, node):
    rows = result.events.to_pylist()
    return [
        row["kind"] for row in rows if row["node"] == node and row["kind"] in ("crash", "recover", "join", "leave")
    ]


def test_a_crashed_node_hears_nothing_and_catches_up_when_it_recovers():
    crash = [{"kind": "crash", "at": "1s", "node": 2}, {"kind": "recover", "at": "5s", "node": 2}]
    during = simulate(crash[:1], [("0s", 0), ("2s", 0), ("3s", 1)])
    assert delivered(during, 2) == [(0, 1)]
    after = simulate(crash, [("0s", 0), ("2s", 0), ("3s", 1)])
    assert delivered(after, 2) == [(0, 1), (0, 2), (1, 1)]
    assert kinds(after, 2) == ["crash", "recover"]


def test_a_node_that_recovers_goes_on_with_its_own_numbers():
    faults = [{"kind": "crash", "at": "2s", "node": 0}, {"kind": "recover", "at": "3s", "node": 0}]
    result = simulate(faults, [("1s", 0), ("4s", 0)])
    assert delivered(result, 1) == [(0, 1), (0, 2)]
    assert not judge(result.events).duplicates


def test_what_was_broadcast_just_before_a_crash_arrives_after_the_recovery():
    faults = [{"kind": "crash", "at": "1001ms", "node": 0}, {"kind": "recover", "at": "3s", "node": 0}]
    result = simulate(faults, [("1s", 0)])
    assert delivered(result, 1) == delivered(result, 2) == [(0, 1)]


def test_a_crashed_node_broadcasts_nothing():
    result = simulate([{"kind": "crash", "at": "1s", "node": 0}], [("2s", 0)])
    assert delivered(result, 1) == []


def test_a_newcomer_gets_what_is_kept_and_takes_part():
    result = simulate([{"kind": "join", "at": "2s", "node": 3}], [("1s", 0), ("3s", 3), ("4s", 1)])
    assert delivered(result, 3) == [(0, 1), (3, 1), (1, 1)]
    assert delivered(result, 0) == [(0, 1), (3, 1), (1, 1)]
    assert kinds(result, 3) == ["join"]


def test_numbers_that_newcomers_leave_out_are_nobody_s():
    """A far number made a node of each number before it: minutes, and figures of nodes that never were."""
    values = {"nodes": 3, "duration": "2s", "workload": [{"kind": "poisson", "rate": 3.0}]}
    result = run(make_scenario(values | {"faults": [{"kind": "join", "at": "1s", "node": 9_999_999}]}))
    assert result.scenario.members == [0, 1, 2, 9_999_999]
    assert {node for node, _ in delivered(result, 0)} == {0, 1, 2, 9_999_999}
    assert result.judge().summary()["nodes"] == 4


def test_a_newcomer_without_history_starts_where_its_neighbours_are():
    scenario = {
        "nodes": 2,
        "protocol": {"name": "vector", "retain": 0},
        "workload": [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0}, {"t": "3s", "node": 0}]}],
        "faults": [{"kind": "join", "at": "2s", "node": 2}],
    }
    assert delivered(run(make_scenario(scenario)), 2) == [(0, 2)]


def test_a_node_that_was_away_too_long_skips_what_nobody_keeps():
    scenario = {
        "nodes": 3,
        "duration": "30s",
        "protocol": {"name": "vector", "retain": 1, "patience": "2s"},
        "workload": [{"kind": "at", "broadcasts": [{"t": f"{t}s", "node": 0} for t in (1, 3, 4, 5, 20)]}],
        "faults": [{"kind": "crash", "at": "2s", "node": 2}, {"kind": "recover", "at": "6s", "node": 2}],
    }
    result = run(make_scenario(scenario))
    assert delivered(result, 2) == [(0, 1), (0, 4), (0, 5)]
    assert not judge(result.events).early


def test_those_who_stay_go_on_without_those_who_leave():
    result = simulate([{"kind": "leave", "at": "2s", "node": 2}], [("1s", 2), ("3s", 2), ("4s", 0)])
    assert delivered(result, 1) == [(2, 1), (0, 1)]
    assert kinds(result, 2) == ["leave"]


def test_each_side_of_a_partition_goes_on_and_both_agree_after_it_heals():
    parts = [{"kind": "partition", "at": "1s", "groups": [[0, 1], [2, 3]]}]
    broadcasts = [("2s", 0), ("3s", 2)]
    parted = simulate(parts, broadcasts, nodes=4)
    assert delivered(parted, 1) == [(0, 1)] and delivered(parted, 3) == [(2, 1)]
    healed = simulate([*parts, {"kind": "heal", "at": "5s"}], broadcasts, nodes=4)
    assert all(sorted(delivered(healed, node)) == [(0, 1), (2, 1)] for node in range(4))


def test_frames_in_flight_on_a_broken_link_are_lost():
    cut = [{"kind": "cut", "at": "1005ms", "a": 0, "b": 1}]
    result = simulate(cut, [("1s", 0)], protocol="r-broadcast", nodes=2)
    assert delivered(result, 1) == []
    again = simulate(
        [*cut, {"kind": "link", "at": "2s", "a": 0, "b": 1}], [("1s", 0)], protocol="r-broadcast", nodes=2
    )
    assert delivered(again, 1) == [(0, 1)]


def test_churn_crashes_nodes_and_all_recover():
    result = run(
        make_scenario(
            {
                "nodes": 5,
                "duration": "20s",
                "workload": [{"kind": "periodic", "every": "500ms"}],
                "faults": [{"kind": "churn", "uptime": "5s", "downtime": "1s"}],
            }
        )
    )
    rows = result.events.to_pylist()
    crashes = sum(row["kind"] == "crash" for row in rows)
    assert crashes > 5
    assert crashes == sum(row["kind"] == "recover" for row in rows)
    everyone = [set(delivered(result, node)) for node in range(5)]
    assert all(each == everyone[0] for each in everyone)
    assert not judge(result.events).early


def test_repair_every_0_seconds_is_no_repair():
    """It was a timer that fired for ever at one instant."""
    values = {"nodes": 3, "duration": "1s", "workload": [{"kind": "poisson", "rate": 3.0}]}
    never, zero = (
        run(make_scenario(values | {"protocol": {"name": "vector"} | more})) for more in ({}, {"repair": 0})
    )
    assert delivered(zero, 0) == delivered(never, 0) != []


PLACE_OF_NOW = {"broadcast": 1, "receive": 2, "link_up": 1, "link_down": 1, "timer": 1, "resume": 0}


def test_protocols_are_told_the_time_in_plain_numbers(monkeypatch):
    """A protocol may keep the time of a call in its snapshot, which is encoded when its node crashes."""
    told = {}

    def spied(method):
        real = getattr(Layered, method)

        def call(self, *arguments, **options):
            told.setdefault(method, set()).add(type(arguments[PLACE_OF_NOW[method]]))
            return real(self, *arguments, **options)

        return call

    for method in PLACE_OF_NOW:
        monkeypatch.setattr(Layered, method, spied(method))
    faults = [
        {"kind": "crash", "at": "2s", "node": 0},
        {"kind": "recover", "at": "3s", "node": 0},
        {"kind": "partition", "at": "4s", "groups": [[0], [1, 2]]},
        {"kind": "heal", "at": "5s"},
        {"kind": "leave", "at": "6s", "node": 2},
    ]
    workload = [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0}]}]
    protocol = {"name": "delta", "lifetime": "3s"}
    run(
        make_scenario(
            {"nodes": 3, "duration": "10s", "protocol": protocol, "engine": "reference"}
            | {"workload": workload, "faults": faults}
        )
    )
    assert told == {method: {int} for method in PLACE_OF_NOW}
