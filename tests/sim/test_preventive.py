"""PC-broadcast in the simulator: links that come and go, judged by the oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.testing import assert_conforms

DURATION = 3_000
times = st.integers(0, DURATION).map(lambda ms: f"{ms}ms")
delays = st.sampled_from(["0ms", "1ms", "30ms", "300ms", "3s"])


@st.composite
def dynamic_scenarios(draw, protocol="pc-broadcast", **settings):
    """Up to six nodes and three newcomers, up to forty faults, delays over three orders of magnitude."""
    nodes = draw(st.integers(2, 6))
    node = st.integers(0, nodes - 1)
    pairs = st.lists(node, min_size=2, max_size=2, unique=True)
    faults = []
    for kind in draw(
        st.lists(st.sampled_from(["link", "cut", "cut", "crash", "partition", "join", "leave"]), max_size=20)
    ):
        at = draw(times)
        if kind in ("link", "cut"):
            a, b = draw(pairs)
            faults.append({"kind": kind, "at": at, "a": a, "b": b})
        elif kind == "crash":
            victim = draw(node)
            faults += [
                {"kind": "crash", "at": at, "node": victim},
                {"kind": "recover", "at": draw(times), "node": victim},
            ]
        elif kind == "partition":
            faults.append({"kind": "partition", "at": at, "groups": [sorted(draw(st.sets(node)))]})
            faults.append({"kind": "heal", "at": draw(times)})
        elif kind == "join" and (joined := nodes + sum(each["kind"] == "join" for each in faults)) < nodes + 3:
            faults.append(
                {"kind": "join", "at": at, "node": joined, "peers": sorted(draw(st.sets(node, min_size=1)))}
            )
        elif kind == "leave" and not any(each["kind"] == "leave" for each in faults):
            faults.append({"kind": "leave", "at": at, "node": nodes - 1})
    # In the end all are linked: what comes to rest must be complete.
    end = f"{DURATION + 1}ms"
    faults += [{"kind": "recover", "at": end, "node": each} for each in range(nodes)] + [
        {"kind": "heal", "at": end}
    ]
    newcomers = sum(each["kind"] == "join" for each in faults)
    everyone = range(nodes + newcomers)
    faults += [{"kind": "link", "at": end, "a": a, "b": b} for a in everyone for b in everyone if a < b]
    special = st.fixed_dictionaries({"a": node, "b": node, "delay": delays, "both": st.booleans()})
    broadcasts = st.fixed_dictionaries({"t": times, "node": st.sampled_from(everyone)})
    return make_scenario(
        {
            "seed": draw(st.integers(0, 2**32)),
            "nodes": nodes,
            "duration": f"{DURATION + 2}ms",
            "drain": "120s",
            "protocol": {"name": protocol} | settings,
            "network": {
                "topology": {"kind": draw(st.sampled_from(["complete", "ring", "tree"]))},
                "fifo": True,
                "delay": draw(delays),
                "links": [each for each in draw(st.lists(special, max_size=8)) if each["a"] != each["b"]],
            },
            "workload": [
                {"kind": "at", "broadcasts": draw(st.lists(broadcasts, max_size=25))},
                {"kind": "chatter", "answers": draw(st.sampled_from([0.0, 0.5, 0.9]))},
            ],
            "faults": faults,
            "log": {"events": "order", "sample": 0},
        }
    )


@given(scenario=dynamic_scenarios())
def test_everything_in_causal_order_and_everything_in_the_end(scenario):
    """`assert_conforms` asks for order, integrity and, at the end, agreement of all who are there."""
    assert_conforms(scenario)


@pytest.mark.parametrize("retain", [0, 1, 4])
@given(data=st.data())
def test_order_whatever_is_kept(retain, data):
    assert_conforms(data.draw(dynamic_scenarios(retain=retain, patience="1s", timeout="100ms")))


def test_the_paper_s_algorithms_break_order_on_such_networks():
    """A negative control: the same kind of network, and the oracle finds what it should."""
    values = {
        "nodes": 6,
        "duration": "4s",
        "protocol": {"name": "pc-broadcast-paper", "algorithm": 2},
        "network": {
            "topology": {"kind": "ring"},
            "fifo": True,
            "delay": "1ms",
            "links": [{"a": 1, "b": 2, "delay": "2s"}, {"a": 4, "b": 5, "delay": "2s"}],
        },
        "workload": [{"kind": "poisson", "rate": 5.0}],
        "faults": [
            {"kind": kind, "at": f"{at}ms", "a": 0, "b": 3}
            for at, kind in zip(range(100, 3900, 100), ["link", "cut"] * 19, strict=True)
        ],
        "log": {"events": "order"},
    }
    assert any(judge(run(make_scenario(values | {"seed": seed})).events).early for seed in range(5))
    for seed in range(5):
        ours = make_scenario(values | {"seed": seed, "protocol": {"name": "pc-broadcast"}})
        assert not judge(run(ours).events).early


static = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32),
        "nodes": st.integers(2, 7),
        "duration": st.just("2s"),
        "network": st.fixed_dictionaries(
            {
                "topology": st.sampled_from(["complete", "ring", "tree", "random"]).map(
                    lambda kind: {"kind": kind}
                ),
                "fifo": st.just(True),
                "delay": st.just({"kind": "pareto", "least": "1ms", "shape": 0.6, "most": "2s"}),
            }
        ),
        "workload": st.just([{"kind": "poisson", "rate": 3.0}, {"kind": "chatter", "answers": 0.5}]),
        "log": st.just({"events": "order", "sample": 0}),
    }
)


@given(values=static)
def test_while_nothing_changes_flooding_over_fifo_links_is_causal(values):
    """Theorem 1: R-broadcast is enough, and PC-broadcast makes the very same run of it."""
    logs = []
    for name in ("r-broadcast", "pc-broadcast", "pc-broadcast-paper"):
        events = run(make_scenario(values | {"protocol": {"name": name}})).events
        assert not judge(events).early
        logs.append(events.drop_columns(["run"]))
    assert logs[0] == logs[1] == logs[2]


def test_the_founders_are_the_nodes_of_the_scenario_unless_it_says_otherwise():
    scenario = make_scenario({"nodes": 7, "protocol": {"name": "pc-broadcast"}})
    assert scenario.protocol_settings.founders == 7
    assert scenario.plain()["protocol"]["founders"] == 7
    scenario = make_scenario({"nodes": 7, "protocol": {"name": "pc-broadcast", "founders": 2}})
    assert scenario.protocol_settings.founders == 2


def test_gauges_of_a_run_tell_what_it_costs():
    result = run(
        make_scenario(
            {
                "nodes": 4,
                "duration": "5s",
                "protocol": {"name": "pc-broadcast"},
                "network": {"topology": {"kind": "ring"}, "fifo": True},
                "workload": [{"kind": "poisson", "rate": 2.0}],
                "faults": [{"kind": "link", "at": "2s", "a": 0, "b": 2}, {"kind": "crash", "at": "3s", "node": 1}],
            }
        )
    )
    last = {}
    for row in result.samples.to_pylist():
        last[row["node"], row["gauge"]] = row["value"]
    assert last[0, "pings"] == last[2, "pings"] == 1
    assert last[0, "unsafe"] == 0 and last[0, "sources"] == 4
    assert 0 < last[0, "control_bytes"] < 100


@pytest.mark.parametrize("retain", [0, 3, 10_000])
def test_those_who_came_and_went_are_forgotten(retain):
    """3 founders, and 20 who join, speak and leave: 3 sources in the end."""
    faults, broadcasts = [], [{"t": f"{t}s", "node": t % 3} for t in range(1, 60, 2)]
    for each in range(20):
        node, at = 3 + each, 1 + 3 * each
        faults.append({"kind": "join", "at": f"{at}s", "node": node, "peers": [each % 3]})
        broadcasts.append({"t": f"{at + 2}s", "node": node})
        faults.append({"kind": "leave", "at": f"{at + 5}s", "node": node})
    scenario = make_scenario(
        {
            "nodes": 3,
            "duration": "80s",
            "drain": "60s",
            "protocol": {"name": "pc-broadcast", "retain": retain, "patience": "1s"},
            "network": {"topology": {"kind": "complete"}, "fifo": True, "delay": "20ms"},
            "workload": [{"kind": "at", "broadcasts": broadcasts}],
            "faults": faults,
            "log": {"sample": "1s"},
        }
    )
    result = run(scenario)
    last = {(row["node"], row["gauge"]): row["value"] for row in result.samples.to_pylist()}
    assert [last[node, "sources"] for node in range(3)] == [3, 3, 3]
    assert not judge(result.events).early
    delivered = {(row["node"], row["origin"]) for row in result.events.to_pylist() if row["kind"] == "deliver"}
    assert {(node, origin) for node in range(3) for origin in range(23)} <= delivered
