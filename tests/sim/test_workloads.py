"""Workloads broadcast when they say, and answers come from inside deliveries."""

from itertools import pairwise

import pytest

from antecast.core import InputError
from antecast.history.oracle import judge
from antecast.sim import load_scenario, run
from antecast.sim.scenario import make_scenario

SECOND = 10**9


def simulate(workload, **values):
    return run(make_scenario({"nodes": 4, "workload": workload, "log": {"events": "order", "sample": 0}} | values))


def broadcasts(result):
    return [row for row in result.events.to_pylist() if row["kind"] == "broadcast"]


def test_a_periodic_sender_keeps_its_interval():
    rows = broadcasts(simulate([{"kind": "periodic", "every": "1s", "senders": [2], "payload": 10}]))
    times = [row["t"] for row in rows]
    assert len(times) == 10 and {later - earlier for earlier, later in pairwise(times)} == {SECOND}
    assert {(row["node"], row["bytes"]) for row in rows} == {(2, 10)}


def test_senders_are_staggered_unless_told_otherwise():
    staggered = broadcasts(simulate([{"kind": "periodic", "every": "5s"}]))
    together = broadcasts(simulate([{"kind": "periodic", "every": "5s", "stagger": False}]))
    assert len({row["t"] for row in staggered}) == 8
    assert {row["t"] for row in together} == {0, 5 * SECOND}


def test_a_poisson_sender_has_its_rate():
    rows = broadcasts(simulate([{"kind": "poisson", "rate": 20.0}], duration="20s"))
    assert len(rows) == pytest.approx(4 * 20 * 20, rel=0.1)


def test_start_and_until_bound_a_workload():
    rows = broadcasts(simulate([{"kind": "poisson", "rate": 50.0, "start": "2s", "until": "3s"}]))
    assert rows and all(2 * SECOND <= row["t"] < 3 * SECOND for row in rows)


def test_a_trace_says_who_broadcasts_when(tmp_path):
    (tmp_path / "trace.csv").write_text("t,node,payload\n0.5,1,7\n1.25,3,8\n")
    (tmp_path / "scenario.toml").write_text('nodes = 4\n[[workload]]\nkind = "trace"\nfile = "trace.csv"\n')
    rows = broadcasts(run(load_scenario(tmp_path / "scenario.toml")))
    assert [(row["t"], row["node"], row["bytes"]) for row in rows] == [
        (SECOND // 2, 1, 7),
        (SECOND * 5 // 4, 3, 8),
    ]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("time,who\n1,2\n", 1, "expected a header"),
        ("t,node\n1,0\nsoon,1\n", 3, "expected seconds"),
        ("t,node\n1,9\n", 2, "a node from 0 to 3"),
        ("t,node\n-1,0\n", 2, "expected seconds"),
        ("t,node\n1,0\ninf,1\n", 3, "expected seconds"),
        ("t,node\n1e999999,1\n", 2, "expected seconds"),
        ("t,node,payload\n1,1,5000000000\n", 2, "a payload size"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path, text, line, problem):
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        simulate([{"kind": "trace", "file": str(trace)}])
    assert caught.value.line == line


def test_a_trace_that_is_no_text_is_refused(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_bytes(b"t,node\n1,0\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="not a text file"):
        simulate([{"kind": "trace", "file": str(trace)}])


def test_a_sender_may_be_so_rare_that_it_never_broadcasts():
    assert broadcasts(simulate([{"kind": "poisson", "rate": 1e-310}])) == []


def test_answers_are_broadcast_from_inside_the_delivery():
    workload = [{"kind": "periodic", "every": "100ms", "senders": [0]}, {"kind": "chatter", "answers": 0.9}]
    result = simulate(workload)
    rows = result.events.to_pylist()
    answers = [row for row in rows if row["kind"] == "broadcast" and row["node"] != 0]
    assert len(answers) > 50
    for answer in answers:
        before = next(row for row in rows if row["node"] == answer["node"] and row["pos"] == answer["pos"] - 1)
        assert before["kind"] == "deliver" and before["t"] == answer["t"]
    assert not judge(result.events).early


def test_an_answer_may_take_time_to_think():
    workload = [
        {"kind": "at", "broadcasts": [{"t": "0s", "node": 0}]},
        {"kind": "chatter", "answers": 0.99, "delay": "3s", "senders": [1]},
    ]
    for seed in range(20):
        times = [
            row["t"]
            for row in broadcasts(simulate(workload, seed=seed, network={"delay": "1s"}))
            if row["node"] == 1
        ]
        if times:
            assert times == [4 * SECOND]
            return
    pytest.fail("nobody ever answered")


def test_several_chatters_answer_side_by_side():
    workload = [{"kind": "periodic", "every": "100ms", "senders": [0]}]
    chatters = [{"kind": "chatter", "answers": 0.4, "payload": size} for size in (1, 2)]
    sizes = {row["bytes"] for row in broadcasts(simulate(workload + chatters)) if row["node"] != 0}
    assert sizes == {1, 2}
