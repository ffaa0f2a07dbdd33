"""Δ-causal runs: settings that would void the promise, clocks out of bounds, crashes while messages wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, Deliver, Discard, LocalMisuse
from antecast.history.oracle import judge
from antecast.protocols import Need, specification
from antecast.sim import run
from antecast.sim.clocks import ClockSettings
from antecast.sim.scenario import make_scenario

SECOND = 10**9


def values(**changes):
    return {
        "nodes": 3,
        "duration": "60s",
        "protocol": {"name": "delta", "lifetime": "10s"},
        "network": {"delay": "5ms"},
        "workload": [{"kind": "periodic", "every": "2s"}],
        "log": {"sample": 0},
    } | changes


def rows(result, *kinds):
    return [row for row in result.events.to_pylist() if row["kind"] in kinds]


def test_a_longest_lifetime_below_the_usual_one_is_refused():
    with pytest.raises(ConfigurationError, match=r"protocol: max_lifetime of 5s is below the lifetime of 10s"):
        make_scenario(values(protocol={"name": "delta", "lifetime": "10s", "max_lifetime": "5s"}))


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        ({"kind": "periodic", "every": "2s", "lifetime": "11s"}, r"workload\[0\]\.lifetime"),
        (
            {"kind": "at", "broadcasts": [{"t": "1s", "node": 0}, {"t": "1s", "node": 0, "lifetime": "1h"}]},
            r"workload\[0\]\.broadcasts\[1\]\.lifetime",
        ),
    ],
)
def test_a_lifetime_that_nobody_would_accept_is_refused_and_not_cut(workload, field):
    with pytest.raises(ConfigurationError, match=field + r".* exceeds the protocol's longest lifetime.* is 10s"):
        make_scenario(values(workload=[workload]))
    make_scenario(values(workload=[workload], protocol={"name": "delta", "max_lifetime": "1h"}))


def test_a_broadcast_with_such_a_lifetime_changes_nothing():
    spec = specification("delta")
    node = spec.make(0, spec.configure({"lifetime": "10s"}))
    before = node.snapshot()
    with pytest.raises(LocalMisuse, match="is not from 0s to max_lifetime, 10s"):
        node.broadcast(b"", 0, lifetime=10 * SECOND + 1)
    assert node.snapshot() == before
    assert node.broadcast(b"", 0, lifetime=10 * SECOND)[-1].message.seq == 1


@pytest.mark.parametrize(
    ("clocks", "apart"),
    [
        ({}, 0),
        ({"offset": "5s"}, 10),
        ({"offset": "5s", "bound": "2s"}, 4),
        ({"fixed": {"0": "-3s"}}, 3),
        ({"fixed": {"0": "-3s", "1": "4s", "2": "4s"}}, 7),
        ({"drift": 50_000.0}, 12),
    ],
)
def test_how_far_apart_clocks_can_be(clocks, apart):
    settings = make_scenario(values(clocks=clocks, drain="60s")).clocks
    assert isinstance(settings, ClockSettings)
    assert settings.spread(3, 120 * SECOND) == apart * SECOND


def test_clocks_further_apart_than_their_bound_are_an_unmet_need():
    clocks = {"offset": "5s"}
    assert make_scenario(values(clocks=clocks)).unmet_needs() == []
    narrow = values(clocks=clocks, protocol={"name": "delta", "clock_bound": "9s"})
    assert make_scenario(narrow).unmet_needs() == [Need.CLOCKS]
    assert make_scenario(values(clocks=clocks, protocol={"name": "barrier"})).unmet_needs() == []


@given(data=st.data())
def test_settings_keep_their_promise_are_refused_or_said_to_void_it(data):
    """Lifetimes, their limits and clocks as they come: a run that starts without a word keeps causal order."""
    seconds = st.sampled_from([None, 0, 1, 5, 20, 60])
    settings, clocks = {"name": "delta"}, {"offset": f"{data.draw(st.sampled_from([0, 1, 4, 20]))}s"}
    for name in ("lifetime", "max_lifetime", "clock_bound"):
        if (value := data.draw(seconds, name)) is not None:
            settings[name] = f"{value}s"
    workload = {"kind": "periodic", "every": "2s"}
    if (value := data.draw(seconds, "lifetime of the workload")) is not None:
        workload["lifetime"] = f"{value}s"
    chosen = values(protocol=settings, clocks=clocks, workload=[workload], seed=data.draw(st.integers(0, 99)))
    try:
        made = make_scenario(chosen)
    except ConfigurationError:
        return
    result = run(made)
    if not made.unmet_needs():
        assert not judge(result.events, clock="local").early
        lives = int(workload.get("lifetime", settings.get("lifetime", "10s"))[:-1]) * SECOND
        if lives > made.clocks.spread(3, 120 * SECOND):  # else a message may have expired by the clock of another
            assert len({(row["node"], row["origin"]) for row in rows(result, "deliver")}) == 9


@given(st.integers(0, 2**32), st.integers(-200, 200))
def test_a_wild_clock_harms_nobody_but_its_owner(seed, ahead):
    """Node 0 is off by minutes, the others by seconds; links stay up. Among the others everything arrives while it
    lives, in causal order."""
    result = run(
        make_scenario(
            values(
                nodes=4,
                seed=seed,
                duration="150s",
                protocol={"name": "delta", "lifetime": "20s", "clock_bound": "6s", "patience": "2s"},
                clocks={"offset": "3s", "fixed": {"0": f"{ahead}s"}},
                workload=[{"kind": "poisson", "rate": 0.2}, {"kind": "chatter", "answers": 0.5}],
            )
        )
    )
    honest = result.events.to_pylist()
    honest = [row for row in honest if row["node"] != 0 and row["origin"] != 0]
    delivered = {(row["node"], row["origin"], row["seq"]) for row in honest if row["kind"] == "deliver"}
    for row in honest:
        if row["kind"] == "broadcast":
            for node in (1, 2, 3):
                assert (node, row["origin"], row["seq"]) in delivered
    import pyarrow.compute as pc

    events = result.events
    others = events.filter(
        pc.and_(pc.not_equal(events["node"], 0), pc.not_equal(pc.fill_null(events["origin"], 1), 0))
    )
    assert not judge(others, clock="global").early


@given(st.integers(0, 2**32), st.integers(-30, 30))
def test_a_wild_clock_costs_no_other_node_its_order_whatever_the_lifetimes(seed, ahead):
    """What node 0 broadcasts counts as well: nothing is delivered at another node after what depends on it."""
    result = run(
        make_scenario(
            values(
                nodes=4,
                seed=seed,
                duration="60s",
                protocol={"name": "delta", "lifetime": "20s", "clock_bound": "2s", "patience": "2s"},
                network={"topology": {"kind": "complete"}, "delay": {"kind": "exponential", "mean": "3s"}},
                clocks={"offset": "1s", "fixed": {"0": f"{ahead}s"}},
                workload=[
                    {"kind": "poisson", "rate": 0.2},
                    {"kind": "poisson", "rate": 0.3, "lifetime": "1s"},
                    {"kind": "chatter", "answers": 0.5, "lifetime": "8s"},
                ],
            )
        )
    )
    assert {node.node for node, _ in judge(result.events, clock="local").early} <= {0}


def test_without_patience_time_goes_on():
    """Node 1 is offered, again and again, a message that is ahead of its time."""
    scenario = make_scenario(
        {
            "nodes": 2,
            "duration": "2s",
            "drain": "0s",
            "protocol": {"name": "delta", "patience": "0s", "lifetime": "1min", "clock_bound": "1s"},
            "network": {"delay": "0s"},
            "clocks": {"fixed": {"0": "1h", "1": "0s"}},
            "workload": [{"kind": "at", "broadcasts": [{"t": "0s", "node": 0}]}],
        }
    )
    result = run(scenario, on_progress=lambda progress: progress.events < 100_000)
    assert not result.interrupted and result.logged < 1000


def test_no_delivery_follows_a_discard_and_nothing_delivered_expires():
    """Contacts of a moment, lifetimes of seconds, clocks seconds apart, a clock out of bounds."""
    for seed in range(30):
        faults = []
        for second in range(60):
            a, b = second % 4, (second * 7 + 1 + seed) % 4
            if a != b:
                faults.append({"kind": "link", "at": f"{second}s", "a": a, "b": b})
                faults.append({"kind": "cut", "at": f"{second * 1000 + 700}ms", "a": a, "b": b})
        scenario = make_scenario(
            values(
                nodes=4,
                seed=seed,
                protocol={
                    "name": "delta",
                    "lifetime": "4s",
                    "clock_bound": "4s",
                    "rule": ["safe", "paper"][seed % 2],
                },
                network={"topology": {"kind": "links", "links": []}, "delay": "5ms"},
                clocks={"offset": "2s", "fixed": {"3": "9s"} if seed % 3 else {}},
                faults=faults,
            )
        )
        ended, delivered = set(), set()
        for row in rows(run(scenario), "deliver", "discard", "expire"):
            name = (row["node"], row["origin"], row["seq"])
            if row["kind"] == "deliver":
                assert name not in ended
                delivered.add(name)
            else:
                assert name not in delivered
                ended.add(name)


@pytest.mark.parametrize("rule", ["safe", "paper"])
def test_a_node_that_resumes_delivers_what_waited_and_lets_go_what_expired(rule):
    from antecast.core import Message
    from antecast.protocols.delta import Stamp

    spec = specification("delta")
    settings = spec.configure({"lifetime": "10s", "rule": rule})
    node = spec.make(0, settings)
    node.link_up(1, 0)
    waits = Message(1, 1, b"", Stamp(9 * SECOND, {2: 4 * SECOND}))
    later = Message(1, 2, b"", Stamp(10 * SECOND, {1: 9 * SECOND, 2: 8 * SECOND}))
    for message in (waits, later):
        assert not [each for each in node.receive(message, 1, SECOND) if isinstance(each, Deliver)]

    def resumed(now):
        copy = spec.make(0, settings)
        copy.restore(node.snapshot())
        effects = copy.resume(now)
        ends = {kind: [each for each in effects if isinstance(each, kind)] for kind in (Deliver, Discard)}
        timers = {each.token: each.at for each in effects if hasattr(each, "token")}
        return copy, [each.message.seq for each in ends[Deliver]], [each.id.seq for each in ends[Discard]], timers

    _, delivered, dropped, timers = resumed(2 * SECOND)
    assert (delivered, dropped) == ([], [])
    assert "epidemic/purge" in timers and ("ordering/expiry" in timers) == (rule == "safe")
    copy, delivered, dropped, timers = resumed(5 * SECOND)
    assert (delivered, dropped) == ([1], [])
    assert copy.gauges()["pending"] == 1
    if rule == "safe":
        assert timers["ordering/expiry"] == 8 * SECOND + 1
        effects = copy.timer("ordering/expiry", 8 * SECOND + 1)
        assert [each.message.seq for each in effects if isinstance(each, Deliver)] == [2]
    copy, delivered, dropped, timers = resumed(11 * SECOND)
    assert (delivered, sorted(dropped)) == ([], [1, 2])
    assert copy.gauges()["cached"] == copy.gauges()["pending"] == 0


def test_messages_held_back_over_a_crash_are_delivered_or_expire():
    """1 answers 0; 2 gets only the answer, crashes, and is alone when it comes back."""
    faults = [
        {"kind": "link", "at": "1s", "a": 0, "b": 1},
        {"kind": "cut", "at": "2s", "a": 0, "b": 1},
        {"kind": "link", "at": "4s", "a": 1, "b": 2},
        {"kind": "crash", "at": "4.006s", "node": 1},
        {"kind": "crash", "at": "5s", "node": 2},
        {"kind": "recover", "at": "7s", "node": 2},
    ]
    network = {"topology": {"kind": "links", "links": []}, "delay": "1ms", "bandwidth": "400kb/s"}
    broadcasts = [
        {"t": "0s", "node": 0, "payload": 10_000},
        {"t": "3s", "node": 1, "lifetime": "60s"},
    ]
    scenario = values(
        protocol={"name": "delta", "lifetime": "10s", "max_lifetime": "60s", "order": "newest"},
        network=network,
        workload=[{"kind": "at", "broadcasts": broadcasts}],
        faults=faults,
    )
    delivered = [(row["node"], row["origin"], row["t"]) for row in rows(run(make_scenario(scenario)), "deliver")]
    assert delivered[-1] == (2, 1, 10 * SECOND + 1)
