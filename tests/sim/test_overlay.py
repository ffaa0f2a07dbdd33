"""Spray keeps its promises: views of ln n, no arc and no connection lost, every new connection safe or dropped."""

import math

import pinging
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.overlay.views import first_views
from antecast.sim.scenario import make_scenario
from antecast.sim.streams import Stream
from antecast.sim.study import link_count
from antecast.sim.topology import Spray

SECOND = 10**9


def spray_engine(seed=1, nodes=30, delay="100ms", duration="60s", faults=(), every="5s", **topology):
    return pinging.make_engine(
        seed=seed,
        nodes=nodes,
        duration=duration,
        drain="100s",
        network={"topology": {"kind": "spray", "every": every} | topology, "delay": delay, "fifo": True},
        faults=list(faults),
    )


def component(engine, *, safe):
    """The processes that one of those that are up reaches, over all links or over those safe both ways."""
    network = engine._overlay._network
    up = network.present()
    reached, frontier = {up[0]}, [up[0]]
    while frontier:
        p = frontier.pop()
        for q in network.links(p):
            if q not in reached and (not safe or network.safe(p, q)):
                reached.add(q)
                frontier.append(q)
    return reached, set(up)


def assert_pings_went_over_safe_links(engine):
    """Unless connections were given up: a ping of theirs may come late, to where a new one is being opened."""
    if not engine._overlay.dropped:
        assert sum(host.protocol.unsafe_legs for host in engine.hosts.values()) == 0


def arcs(engine):
    return sum(len(view) for view in engine._overlay.views.values())


def watch(engine, look, every="1s"):
    """Look at a run every second."""

    def at(_):
        look()
        if engine.scheduler.now < engine.scenario.duration:
            engine.scheduler.at(engine.scheduler.now + SECOND, at, None)

    engine.scheduler.at(0, at, None)


def streams(n, seed):
    return [Stream(seed, "spray", p) for p in range(n)]


@pytest.mark.parametrize(("n", "core", "expected"), [(50, 2, 4.0), (400, 2, 6.07), (400, 4, 7.49), (1000, 4, 8.4)])
def test_views_hold_about_ln_n_arcs(n, core, expected):
    """H(n) − H(core) + core − 1, on average over seeds."""
    topology = Spray(core=core, settle=1)
    seeds = range(24)
    total = sum(len(view) for seed in seeds for view in first_views(topology, n, seed, streams(n, seed)))
    assert total / n / len(seeds) == pytest.approx(expected, abs=0.5)
    assert math.log(n) < expected + 0.1


def test_views_even_out():
    views = first_views(Spray(settle=20), 300, 1, streams(300, 1))
    sizes = sorted(map(len, views))
    assert sizes[-1] <= 3 * sizes[150]
    incoming = [0] * 300
    for view in views:
        for arc in view:
            incoming[arc.peer] += 1
    assert min(incoming) >= 1 and max(incoming) <= 5 * sizes[150]


def test_a_view_may_start_with_random_arcs():
    views = first_views(Spray(arcs=3.5, settle=0), 400, 1, streams(400, 1))
    assert {len(view) for view in views} == {3, 4}
    assert sum(map(len, views)) / 400 == pytest.approx(3.5, abs=0.1)
    assert all(arc.peer != p for p, view in enumerate(views) for arc in view)


delays = st.one_of(
    st.integers(0, 4000).map(lambda ms: f"{ms}ms"),
    st.tuples(st.integers(0, 500), st.integers(500, 6000)).map(
        lambda ms: {"kind": "uniform", "low": f"{ms[0]}ms", "high": f"{ms[1]}ms"}
    ),
    st.integers(0, 6000).map(
        lambda ms: {"kind": "growing", "low": "10ms", "high": f"{ms}ms", "until": "40s", "spread": 0.5}
    ),
)


@given(st.integers(0, 2**32), st.integers(2, 30), delays, st.integers(1, 4), st.sampled_from(["2s", "20s", "90s"]))
def test_without_faults_no_arc_and_no_path_is_ever_lost(seed, nodes, delay, core, patience):
    """The overlay is connected over safe links at every instant, and connections are those that are needed."""
    engine = spray_engine(seed, nodes, delay, core=core, patience=patience)
    overlay, network = engine._overlay, engine._overlay._network
    before = arcs(engine)

    def look():
        assert arcs(engine) == before
        reached, up = component(engine, safe=True)
        assert reached == up
        linked = {(a, b) for a in range(nodes) for b in network.links(a) if a < b}
        opening = {pair for pair in overlay._opening if pair[0] < pair[1]}
        assert {pair for pair in linked if overlay.connections.needed(*pair)} | opening == linked
        assert all(pair in linked for pair in overlay.connections.pairs())
        assert sum(arc.lent for view in overlay.views.values() for arc in view) == len(opening)

    def introduce(what, proceed=overlay._introduce):
        assert network.safe(what.by, what.borrower) and network.safe(what.by, what.peer)
        assert not overlay.connections.held(what.by, what.peer), "gives what is lent or pinned"
        return proceed(what)

    overlay._introduce = introduce
    watch(engine, look)
    engine.run()
    look()
    assert not overlay._opening
    assert not overlay.connections._holds
    assert not any(arc.lent for view in overlay.views.values() for arc in view)
    assert all(network.safe(a, b) for a in range(nodes) for b in network.links(a))
    assert_pings_went_over_safe_links(engine)
    if patience == "90s":
        assert overlay.dropped == 0


@given(st.integers(0, 2**32), delays, st.data())
def test_under_churn_the_overlay_stays_whole_and_its_loans_return(seed, delay, data):
    nodes = 28
    faults, newcomer = [], nodes
    times = st.integers(1000, 50_000).map(lambda ms: f"{ms}ms")
    for kind in data.draw(st.lists(st.sampled_from(["crash", "leave", "join", "cut"]), max_size=8)):
        at = data.draw(times)
        node = data.draw(st.integers(0, nodes - 1))
        if kind == "join":
            faults.append({"kind": "join", "at": at, "node": newcomer})
            newcomer += 1
        elif kind == "cut":
            faults.append({"kind": "cut", "at": at, "a": node, "b": (node + 1) % nodes})
        else:
            faults.append({"kind": kind, "at": at, "node": node})
            if kind == "crash":
                faults.append({"kind": "recover", "at": "55s", "node": node})
    engine = spray_engine(seed, nodes, delay, faults=faults, core=6, patience="30s", duration="75s")
    overlay, network = engine._overlay, engine._overlay._network
    engine.run()
    reached, up = component(engine, safe=False)
    assert reached == up
    assert not overlay._opening and not overlay.connections._holds
    assert not any(arc.lent for view in overlay.views.values() for arc in view)
    assert_pings_went_over_safe_links(engine)
    assert all(network.safe(a, b) for a in up for b in network.links(a))
    assert all(overlay.connections.needed(a, b) for a in up for b in network.links(a))


def test_the_number_of_arcs_follows_the_number_of_processes():
    """Half of the processes leave, and as many join: views shrink by about ln 2, and grow again."""
    leave = [{"kind": "leave", "at": f"{10 + p}s", "node": p} for p in range(75)]
    join = [{"kind": "join", "at": f"{150 + p}s", "node": 150 + p} for p in range(75)]
    sizes = {"start": [], "half": [], "again": []}
    for seed in range(3):
        engine = spray_engine(seed, 150, "10ms", "300s", [*leave, *join], every="8s")
        for name, at in (("start", 1), ("half", 145), ("again", 290)):

            def look(name, engine=engine):
                sizes[name].append(arcs(engine) / len(engine._overlay._network.present()))

            engine.scheduler.at(at * SECOND, look, name)
        engine.run()
    start, half, again = (sum(sizes[name]) / 3 for name in ("start", "half", "again"))
    assert start == pytest.approx(math.log(150), abs=0.9)
    assert start - 1.3 < half < start - 0.2
    assert start - 0.6 < again < start + 0.6


def test_a_dropped_connection_leaves_the_lender_s_arc_alone():
    """With links so slow that no ping phase ends in time, the overlay stays as it was."""
    engine = spray_engine(delay="1s", patience="2500ms", nodes=20, core=4)
    overlay = engine._overlay
    engine.run()
    assert overlay.dropped > 20
    assert component(engine, safe=True)[0] == set(range(20))
    slow_enough = spray_engine(delay="1s", patience="3500ms", nodes=20, core=4)
    slow_enough.run()
    assert slow_enough._overlay.dropped == 0


def test_the_work_of_a_run_is_estimated_from_the_links_it_will_have():
    for topology in (Spray(), Spray(arcs=6.5)):
        engine = spray_engine(1, 200, core=topology.core, **({"arcs": topology.arcs} if topology.arcs else {}))
        assert link_count(topology, 200) == pytest.approx(len(engine._overlay.connections.pairs()), rel=0.15)


def test_a_newcomer_whose_contact_crashes_finds_another():
    scenario = {
        "nodes": 12,
        "duration": "60s",
        "drain": "60s",
        "protocol": {"name": "pc-broadcast"},
        "network": {"topology": {"kind": "spray", "every": "0s", "core": 4}, "delay": "1s", "fifo": True},
        "workload": [{"kind": "at", "broadcasts": [{"t": "1s", "node": 0}, {"t": "50s", "node": 0}]}],
        "faults": [
            {"kind": "join", "at": "10s", "node": 12, "peers": [3]},
            {"kind": "crash", "at": "10500ms", "node": 3},
        ],
        "log": {"sample": 0},
    }
    rows = run(make_scenario(scenario)).events.to_pylist()
    up = [row["peer"] for row in rows if row["kind"] == "up" and row["node"] == 12]
    assert up[0] == 3 and len(set(up)) > 2
    assert [row["seq"] for row in rows if row["kind"] == "deliver" and row["node"] == 12] == [1, 2]


def test_a_lent_arc_returns_when_the_new_neighbour_crashes():
    """At once, not when patience ends: the next exchange may give it again."""
    engine = spray_engine(delay="1s", patience="1000s", nodes=20, core=4)
    overlay = engine._overlay
    found = []

    def crash_one(_):
        if not found and overlay._opening:
            what = next(iter(overlay._opening.values()))
            found.append(what)
            assert what.arc.lent
            engine._crash(what.peer)
            assert not what.arc.lent and not what.open
            assert what.borrower not in overlay._network.links(what.by) or not overlay.connections.held(
                what.by, what.borrower
            )

    for ms in range(1000, 30_000, 500):
        engine.scheduler.at(ms * 10**6 + 1, crash_one, None)
    engine.run()
    assert found


def test_lent_links_show_in_the_gauges():
    scenario = {
        "nodes": 60,
        "duration": "40s",
        "drain": "60s",
        "protocol": {"name": "pinging"},
        "network": {"topology": {"kind": "spray", "every": "10s", "core": 4}, "delay": "1s", "fifo": True},
        "log": {"sample": "1s"},
    }
    with pinging.registered():
        samples = run(make_scenario(scenario)).samples.to_pandas()
    means = samples.groupby(["t", "gauge"], observed=True).value.mean().unstack()
    assert {"links", "unsafe_links", "arcs", "lent_links", "exchanges"} <= set(means)
    middle = means.loc[20 * SECOND]
    assert middle.lent_links > 0.5
    # A lent arc stands for one new connection, which is unsafe at one end or both.
    assert middle.lent_links <= middle.unsafe_links <= 2 * middle.lent_links
    assert middle.links > 2 * middle.arcs - 1
    assert means.exchanges.iloc[-1] == pytest.approx(4, abs=1)
    assert means.lent_links.iloc[-1] == means.unsafe_links.iloc[-1] == 0


def test_messages_flow_and_keep_causal_order_while_neighbours_change():
    result = run(
        make_scenario(
            {
                "nodes": 40,
                "duration": "30s",
                "protocol": {"name": "vector-changes"},
                "network": {
                    "topology": {"kind": "spray", "every": "5s"},
                    "delay": {"kind": "growing", "low": "10ms", "high": "1s", "until": "30s", "spread": 0.5},
                },
                "workload": [{"kind": "poisson", "rate": 0.1}],
                "log": {"sample": 0},
            }
        )
    )
    verdict = judge(result.events)
    assert not verdict.early and not verdict.duplicates
    kinds = result.events["kind"].to_pylist()
    assert kinds.count("deliver") == 40 * kinds.count("broadcast") > 0
    assert kinds.count("up") > 100


@given(st.integers(0, 2**32), delays, st.sampled_from(["1s", "1000s"]), st.data())
def test_pc_broadcast_keeps_causal_order_over_it_and_reaches_everyone(seed, delay, timeout, data):
    """Also while processes crash, come back and join; those that are there at the end have everything."""
    nodes = 16
    node = st.integers(0, nodes - 1)
    at = st.integers(0, 60_000).map(lambda ms: f"{ms}ms")
    faults = []
    for kind in data.draw(st.lists(st.sampled_from(["crash", "join"]), max_size=3)):
        if kind == "join":
            faults.append({"kind": "join", "at": data.draw(at), "node": nodes + len(faults)})
        else:
            victim = data.draw(node)
            faults.append({"kind": "crash", "at": data.draw(at), "node": victim})
            faults.append({"kind": "recover", "at": "61s", "node": victim})
    broadcast = st.fixed_dictionaries({"t": at, "node": node})
    result = run(
        make_scenario(
            {
                "nodes": nodes,
                "seed": seed,
                "duration": "65s",
                "drain": "500s",
                "protocol": {"name": "pc-broadcast", "timeout": timeout},
                "network": {
                    "topology": {"kind": "spray", "every": "5s", "core": 5, "patience": "40s"},
                    "delay": delay,
                    "fifo": True,
                },
                "workload": [
                    {"kind": "at", "broadcasts": data.draw(st.lists(broadcast, max_size=30))},
                    {"kind": "chatter", "answers": 0.5},
                ],
                "faults": faults,
                "log": {"sample": 0, "events": "order"},
            }
        )
    )
    verdict = judge(result.events)
    assert not verdict.early and not verdict.duplicates
    delivered = {}
    for row in result.events.to_pylist():
        if row["kind"] == "deliver":
            delivered.setdefault(row["node"], set()).add((row["origin"], row["seq"]))
    everything = set().union(*delivered.values())
    if everything and timeout == "1s":
        present = set(range(nodes)) | {fault["node"] for fault in faults if fault["kind"] == "join"}
        assert {node: everything - delivered.get(node, set()) for node in present} == {
            node: set() for node in present
        }


def test_an_overlay_that_never_exchanges_is_a_static_random_graph():
    engine = spray_engine(every="0s")
    before = [list(engine._overlay._network.links(p)) for p in range(30)]
    engine.run()
    assert [list(engine._overlay._network.links(p)) for p in range(30)] == before
    assert component(engine, safe=True)[0] == set(range(30))


def test_a_link_of_a_script_names_who_introduces():
    """`link` and `cut` at given times are an overlay by script."""
    engine = pinging.make_engine(
        nodes=3,
        network={"topology": {"kind": "links", "links": [[0, 1], [1, 2]]}, "delay": "100ms", "fifo": True},
        faults=[
            {"kind": "link", "at": "1s", "a": 0, "b": 2, "by": 1},
            {"kind": "cut", "at": "5s", "a": 0, "b": 1},
        ],
    )
    seen = {}

    def look(ms):
        seen[ms] = [engine.hosts[p].protocol.safe(q) for p, q in ((0, 2), (2, 0), (0, 1))]

    for ms in (1299, 1300, 5001):
        engine.scheduler.at(ms * 10**6 + 1, look, ms)
    engine.run()
    assert seen == {1299: [False, False, True], 1300: [True, True, True], 5001: [True, True, False]}
