"""The simulator as a driver of protocols: the rules of `core.protocol`, kept."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast import audit
from antecast.core import Alert, Deliver, RemoteFault, Send, SetTimer
from antecast.protocols import specification
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario


def scenario(**changes):
    values = {
        "nodes": 4,
        "duration": "2s",
        "drain": "60s",
        "protocol": {"name": "vector"},
        "network": {"topology": {"kind": "ring"}, "delay": {"kind": "uniform", "low": "1ms", "high": "80ms"}},
        "workload": [{"kind": "poisson", "rate": 5.0}],
    }
    network = values["network"] | changes.pop("network", {})
    return make_scenario(values | {"network": network} | changes)


def rows(result, *kinds):
    return [row for row in result.events.to_pylist() if row["kind"] in kinds]


class Scripted:
    """Hands every call to a protocol and notes it, and does something else where it is told to."""

    def __init__(self, protocol, calls, **instead):
        self._protocol, self._calls, self._instead = protocol, calls, instead

    def __getattr__(self, name):
        meant = getattr(self._protocol, name)
        if not callable(meant) or name in ("gauges", "snapshot", "restore"):
            return meant

        def call(*arguments, **options):
            self._calls.append((self._protocol.node, name, arguments))
            return self._instead.get(name, lambda protocol, *a, **o: meant(*a, **o))(
                self._protocol, *arguments, **options
            )

        return call


@pytest.fixture
def scripted(monkeypatch):
    """Lets the nodes of a protocol do something else in some of their calls; the calls they got."""

    def arrange(name, **instead):
        calls = []
        spec = specification(name)
        make = spec.make
        object.__setattr__(spec, "make", lambda node, settings: Scripted(make(node, settings), calls, **instead))
        undo.append((spec, make))
        return calls

    undo = []
    yield arrange
    for spec, make in undo:
        object.__setattr__(spec, "make", make)


def test_a_frame_that_is_refused_is_dropped_counted_and_logged(scripted, tmp_path):
    def refuse_from_1(protocol, frame, sender, now):
        if sender == 1:
            raise RemoteFault("node 1 sent nonsense")
        return protocol.receive(frame, sender, now)

    scripted("vector", receive=refuse_from_1)
    result = run(scenario(), out=tmp_path / "run")
    logged = [row for row in rows(result, "discard") if row["peer"] is not None]
    assert result.refused == len(logged) > 0
    assert {row["peer"] for row in logged} == {1}
    assert all(row["origin"] is None and row["bytes"] > 0 for row in logged)
    assert "node 1 sent nonsense" in result.troubles[0]
    assert len(result.troubles) <= 5


def test_an_unmet_need_no_longer_ends_a_run_and_is_named_before_it(antecast, tmp_path):
    (tmp_path / "s.toml").write_text(
        'duration = "3s"\nprotocol = "pc-broadcast"\n[network]\ntopology = { kind = "ring" }\n'
        'delay = { kind = "uniform", low = "1ms", high = "500ms" }\n[[workload]]\nkind = "poisson"\nrate = 3.0\n'
    )
    code, out, err = antecast("run", "s.toml")
    assert code in (0, 1)
    assert "pc-broadcast needs FIFO links, which this network does not have" in err
    assert "alerts" in out


@pytest.mark.parametrize("existed", [False, True])
def test_a_run_that_fails_leaves_no_half_folder(scripted, tmp_path, existed):
    def fail(protocol, frame, sender, now):
        raise ZeroDivisionError

    scripted("vector", receive=fail)
    folder = tmp_path / "runs" / "one"
    if existed:
        folder.mkdir(parents=True)
    with pytest.raises(ZeroDivisionError):
        run(scenario(), out=folder)
    assert folder.exists() == existed
    assert not existed or not list(folder.iterdir())


def test_alerts_and_frames_gone_astray_are_counted(scripted):
    def odd(protocol, payload, now, **options):
        return [*protocol.broadcast(payload, now, **options), Alert("odd"), Send(99, None)]

    scripted("vector", broadcast=odd)
    result = run(scenario())
    broadcasts = len(rows(result, "broadcast"))
    assert (result.alerts, result.astray) == (broadcasts, broadcasts)
    assert "odd" in result.troubles[0]


def test_an_answer_depends_on_what_the_application_was_shown_and_on_nothing_else(scripted):
    """A call may deliver several messages: whoever answers the first has been shown all when it answers."""
    stamps = {}

    def broadcast(protocol, payload, now, **options):
        effects = protocol.broadcast(payload, now, **options)
        message = next(effect.message for effect in effects if isinstance(effect, Deliver))
        stamps[message.id] = message.stamp
        return effects

    scripted("vector", broadcast=broadcast)
    result = run(scenario(workload=[{"kind": "poisson", "rate": 5.0}, {"kind": "chatter", "answers": 0.9}]))
    shown = [{} for _ in range(4)]
    for row in rows(result, "broadcast", "deliver"):
        node, origin, seq = row["node"], row["origin"], row["seq"]
        if row["kind"] == "deliver":
            shown[node][origin] = seq
        else:
            assert stamps[origin, seq] == {each: count for each, count in shown[node].items() if each != node}
    assert len(stamps) > 40


def test_the_first_call_after_a_crash_is_resume_and_its_effects_are_carried_out(scripted):
    fired = []

    def resume(protocol, now):
        return [SetTimer("wake", now + 10**9)]

    def timer(protocol, token, now):
        if token == "wake":
            fired.append((protocol.node, now))
            return []
        return protocol.timer(token, now)

    calls = scripted("vector", resume=resume, timer=timer)
    run(
        scenario(faults=[{"kind": "crash", "at": "1s", "node": 2}, {"kind": "recover", "at": "1500ms", "node": 2}])
    )
    assert fired == [(2, 2_500_000_000)]
    after = [name for node, name, _ in calls if node == 2]
    assert after[after.index("resume") + 1] == "link_up"


# The ends of a link.


def ends_of(calls):
    """For each (node, peer), the ups, downs and receipts in their order."""
    seen = {}
    for node, name, arguments in calls:
        if name in ("link_up", "link_down"):
            seen.setdefault((node, arguments[0]), []).append(name)
        elif name == "receive":
            seen.setdefault((node, arguments[1]), []).append(name)
    return seen


@given(seed=st.integers(0, 2**32), notice=st.sampled_from(["1ms", "50ms", "700ms"]))
def test_the_two_ends_of_a_link_change_each_in_its_own_time(seed, notice):
    calls = []
    spec = specification("vector")
    make = spec.make
    object.__setattr__(spec, "make", lambda node, settings: Scripted(make(node, settings), calls))
    spread = {"kind": "uniform", "low": "0ms", "high": notice}
    cuts = [
        {"kind": kind, "at": f"{300 + 350 * index}ms", "a": 0, "b": 1}
        for index, kind in enumerate(["cut", "link", "cut", "link"])
    ]
    try:
        result = run(scenario(seed=seed, network={"notice": spread}, faults=cuts))
    finally:
        object.__setattr__(spec, "make", make)
    assert audit(result).outcome == "causal"
    assert result.astray == 0
    for events in ends_of(calls).values():
        up = False
        for event in events:
            if event == "receive":
                assert up
            else:
                up = event == "link_up"
        assert up
    moments = {}
    for row in rows(result, "up", "down"):
        moments.setdefault(frozenset((row["node"], row["peer"])), []).append(row["t"])
    assert any(len(set(times)) > len(times) / 2 for times in moments.values())
    delivered = Counter(row["node"] for row in rows(result, "deliver"))
    assert set(delivered.values()) == {len(rows(result, "broadcast"))}


def test_late_ends_meet_a_second_link_up_without_a_link_down(scripted):
    calls = scripted("vector")
    flapping = [
        {"kind": kind, "at": f"{100 + 20 * index}ms", "a": 0, "b": 1}
        for index, kind in enumerate(["cut", "link"] * 10)
    ]
    late = {"kind": "uniform", "low": "0ms", "high": "200ms"}
    run(scenario(network={"notice": late}, faults=flapping))
    news = {pair: [event for event in events if event != "receive"] for pair, events in ends_of(calls).items()}
    for pair in ((0, 1), (1, 0)):
        assert ("link_up", "link_up") in pairwise(news[pair])


def test_notice_is_for_networks_of_links():
    with pytest.raises(Exception, match="notice is for networks of links"):
        scenario(network={"notice": "1s", "topology": {"kind": "spray"}})


# Lives.


@pytest.mark.parametrize("crashed", [False, True])
def test_a_node_that_lost_its_state_comes_back_as_a_newcomer_that_works(crashed):
    before = [{"kind": "crash", "at": "800ms", "node": 1}] if crashed else []
    result = run(
        scenario(
            faults=[*before, {"kind": "rebirth", "at": "1s", "node": 1, "number": 4}],
            workload=[
                {"kind": "at", "broadcasts": [{"t": f"{t}ms", "node": node} for t, node in ((500, 1), (1500, 4))]}
            ],
        )
    )
    assert audit(result).outcome == "causal"
    delivered = {(row["node"], row["origin"]) for row in rows(result, "deliver")}
    assert {(node, 4) for node in (0, 2, 3, 4)} <= delivered
    assert {row["peer"] for row in rows(result, "up") if row["node"] == 4} == {0, 2}
    assert [row["node"] for row in rows(result, "join")] == [4]


def test_a_number_of_a_new_life_must_be_new():
    with pytest.raises(Exception, match=r"faults\[0\].number: node 2 is there from the start"):
        scenario(faults=[{"kind": "rebirth", "at": "1s", "node": 1, "number": 2}])


def test_every_broadcast_has_one_name(scripted):
    """Also where a node's own messages come back through the network: `Accepted`, and the delivery later."""
    calls = scripted("cellular")
    cells = {"topology": {"kind": "cells", "stations": 2}, "delay": "5ms"}
    result = run(
        make_scenario(
            {"nodes": 3, "duration": "20s", "protocol": "cellular", "network": cells,
             "workload": [{"kind": "periodic", "every": "2s", "start": "5s"}]}
        )
    )  # fmt: skip
    assert sum(name == "broadcast" for _, name, _ in calls) == len(rows(result, "broadcast")) > 0
