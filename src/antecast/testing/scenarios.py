"""For testing protocols, yours or ours: random networks, and the promises every protocol must keep.

`scenarios(specification)` draws networks with the faults that the protocol is meant to bear, and
`assert_conforms` runs one and lets the happened-before oracle judge. A protocol of your own, once
registered, is tested by

    from hypothesis import given
    from antecast.protocols import specification
    from antecast.testing import assert_conforms, scenarios

    @given(scenarios(specification("my-protocol")))
    def test_my_protocol(scenario):
        assert_conforms(scenario)

This module needs Hypothesis.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from antecast.history.metrics import delivery_latency
from antecast.history.oracle import judge
from antecast.history.promises import judge_promises
from antecast.history.violations import Tally
from antecast.protocols import Need, Specification
from antecast.protocols.registry import address
from antecast.sim.run import RunResult, run
from antecast.sim.scenario import Join, Leave, Scenario, make_scenario

_DURATION = 2_000
"""Milliseconds in which things happen; short, so that broadcasts, faults and copies meet."""


_SETTLED = 60_000
"""In cells: the millisecond by which all hosts have joined, also where half of all frames are lost."""


def _ms(value: int) -> str:
    return f"{value}ms"


def _times() -> st.SearchStrategy[int]:
    return st.integers(0, _DURATION)


def _delays() -> st.SearchStrategy[dict[str, Any]]:
    """None at all, regular, and heavy-tailed: late by three orders of magnitude now and then."""
    return st.one_of(
        st.sampled_from([0, 1, 50]).map(lambda ms: {"kind": "constant", "value": _ms(ms)}),
        st.integers(1, 500).map(lambda ms: {"kind": "uniform", "low": "0ms", "high": _ms(ms)}),
        st.integers(1, 200).map(lambda ms: {"kind": "normal", "mean": _ms(ms), "stdev": _ms(ms)}),
        st.integers(1, 200).map(lambda ms: {"kind": "exponential", "mean": _ms(ms)}),
        st.sampled_from([0.6, 1.0, 2.0]).map(
            lambda shape: {"kind": "pareto", "least": "1ms", "shape": shape, "most": "8s"}
        ),
    )


@st.composite
def _faults(draw: st.DrawFn, nodes: int, *, complete: bool) -> list[dict[str, Any]]:
    """Faults that end: what crashes recovers, what is cut is linked again, partitions heal. A complete network
    stays complete, so nodes may leave it for good."""
    faults: list[dict[str, Any]] = []

    def spell() -> tuple[str, str]:
        first, second = sorted((draw(_times()), draw(_times())))
        return _ms(first), _ms(second + 1)

    node = st.integers(0, nodes - 1)
    for kind in draw(st.lists(st.sampled_from(["crash", "partition", "cut", "join", "leave"]), max_size=5)):
        begin, end = spell()
        if kind == "crash":
            victim = draw(node)
            faults.append({"kind": "crash", "at": begin, "node": victim})
            faults.append({"kind": "recover", "at": end, "node": victim})
        elif kind == "partition":
            group = sorted(draw(st.sets(node)))
            faults += [{"kind": "partition", "at": begin, "groups": [group]}, {"kind": "heal", "at": end}]
        elif kind == "cut" and nodes > 1:
            a, b = draw(st.lists(node, min_size=2, max_size=2, unique=True))
            faults += [{"kind": "cut", "at": begin, "a": a, "b": b}, {"kind": "link", "at": end, "a": a, "b": b}]
        elif kind == "join":
            joined = nodes + sum(fault["kind"] == "join" for fault in faults)
            peers = {} if complete else {"peers": list(range(joined))}
            faults.append({"kind": "join", "at": begin, "node": joined} | peers)
        elif kind == "leave" and complete:
            faults.append({"kind": "leave", "at": begin, "node": draw(node)})
    return faults


@st.composite
def scenarios(draw: st.DrawFn, spec: Specification, *, max_nodes: int = 6, max_broadcasts: int = 20) -> Scenario:
    """Networks, delays, losses, faults and workloads that a protocol must bear."""
    if Need.CELLS in spec.needs(spec.configure({})):
        return draw(_cells(spec, max_nodes=max_nodes, max_broadcasts=max_broadcasts))
    nodes = draw(st.integers(1, max_nodes))
    settings: dict[str, Any] = {}
    if "retain" in spec.settings.__struct_fields__:
        settings["retain"] = draw(st.sampled_from([0, 3, 10_000]))
    loss = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    if loss and spec.loss_settings:
        settings |= spec.loss_settings
    if Need.RELIABLE_LINKS in spec.needs(spec.configure(settings)):
        loss = 0.0
    needs = spec.needs(spec.configure(settings))
    whole = Need.COMPLETE_GRAPH in needs
    topology = "complete" if whole else draw(st.sampled_from(["complete", "ring", "tree", "random"]))
    link = st.fixed_dictionaries(
        {"a": st.integers(0, nodes - 1), "b": st.integers(0, nodes - 1), "delay": _delays(), "both": st.booleans()}
    )
    broadcast = st.fixed_dictionaries({"t": _times().map(_ms), "node": st.integers(0, nodes - 1)})
    faults = [] if Need.STATIC_MEMBERS in needs else draw(_faults(nodes, complete=topology == "complete"))
    workload: list[dict[str, Any]] = [
        {"kind": "at", "broadcasts": draw(st.lists(broadcast, max_size=max_broadcasts))},
    ]
    if draw(st.booleans()):
        thinking = draw(st.none() | _delays())
        workload.append({"kind": "chatter", "answers": draw(st.sampled_from([0.3, 0.9])), "delay": thinking})
    return make_scenario(
        {
            "name": f"conformance of {spec.name}",
            "seed": draw(st.integers(0, 2**32)),
            "nodes": nodes,
            "duration": _ms(_DURATION),
            "drain": "40s",
            "protocol": {"name": address(spec)} | settings,
            "network": {
                "topology": {"kind": topology},
                "delay": draw(_delays()),
                "loss": loss,
                "fifo": Need.FIFO_LINKS in needs or draw(st.booleans()),
                "bandwidth": draw(st.sampled_from([None, "64kb/s"])),
                "links": [each for each in draw(st.lists(link, max_size=4)) if each["a"] != each["b"]],
            },
            "clocks": {"offset": _ms(draw(st.sampled_from([0, 300])))},
            "workload": workload,
            "faults": faults,
            "log": {"events": "order", "sample": 0},
        }
    )


@st.composite
def _cells(draw: st.DrawFn, spec: Specification, *, max_nodes: int, max_broadcasts: int) -> Scenario:
    """Stations and hosts, a radio that loses, alone and in spells, hosts that walk, crash, join and leave.

    Whoever has not joined yet gets no history, so things begin when everyone is there.
    """
    nodes, stations = draw(st.integers(1, max_nodes)), draw(st.integers(1, 4))
    static = Need.STATIC_MEMBERS in spec.needs(spec.configure({}))
    times = _times().map(lambda ms: _SETTLED + ms)
    broadcast = st.fixed_dictionaries({"t": times.map(_ms), "node": st.integers(0, nodes - 1)})
    walk = st.sampled_from([1.4, 8.0, 20.0]).map(lambda speed: {"kind": "waypoint", "speed": speed})
    workload: list[dict[str, Any]] = [
        {"kind": "at", "broadcasts": draw(st.lists(broadcast, max_size=max_broadcasts))}
    ]
    if draw(st.booleans()):
        thinking = draw(st.none() | _delays())
        workload.append({"kind": "chatter", "answers": draw(st.sampled_from([0.3, 0.9])), "delay": thinking})
    faults = [] if static else draw(_faults(nodes, complete=True))
    known = [fault for fault in faults if fault["kind"] in ("crash", "recover", "join", "leave")]
    for fault in known:
        fault["at"] = _ms(_SETTLED + int(fault["at"].removesuffix("ms")))
        fault.pop("peers", None)
    settings = {"connect": "200ms"}
    if "retransmit_most" in spec.settings.__struct_fields__:  # a run must not end before a timer does
        settings["retransmit_most"] = "1s"
    topology = {
        "kind": "cells",
        "stations": stations,
        "spacing": draw(st.sampled_from([60.0, 150.0, 200.0])),
        "mobility": {"kind": "still"} if static else draw(st.just({"kind": "still"}) | walk),
        "carrier_sense": draw(st.booleans()),
        "loss": draw(st.sampled_from([0.0, 0.2, 0.5])),
        "fading": draw(st.sampled_from([None, {"every": "3s", "lasts": "500ms"}])),
    }
    return make_scenario(
        {
            "name": f"conformance of {spec.name}",
            "seed": draw(st.integers(0, 2**32)),
            "nodes": nodes,
            "duration": _ms(_SETTLED + _DURATION),
            "drain": "200s",
            "protocol": {"name": address(spec)} | settings,
            "network": {"topology": topology, "delay": draw(_delays())},
            "clocks": {"offset": _ms(draw(st.sampled_from([0, 300])))},
            "workload": workload,
            "faults": known,
            "log": {"events": "order", "sample": 0},
        }
    )


def assert_conforms(scenario: Scenario) -> RunResult:
    """Run a scenario and check every promise of its protocol; the run, for further questions."""
    result = run(scenario)
    events = result.events
    oracle = judge(events, clock="global")
    tally = Tally(
        early=len(oracle.early),
        late=len(oracle.late),
        duplicates=len(oracle.duplicates),
        unknown=len(oracle.unknown),
        before_broadcast=len(oracle.before_broadcast),
    )
    promises = judge_promises(
        scenario.specification.guarantees,
        tally,
        lambda: events,
        elsewhere=len(delivery_latency(events)),
        latest=scenario.latest_delivery(),
        agreeing=_agreeing(scenario),
    )
    examples = [sorted(some)[:3] for some in (oracle.early, oracle.duplicates, oracle.unknown) if some]
    assert not promises.broken, f"{promises}; for example {promises.example or examples}"
    return result


def _agreeing(scenario: Scenario) -> list[int] | None:
    """The nodes that must all deliver what any of them delivers: those that are up at the end.

    Where nodes come and go or frames are lost, and little is retained, messages may rightly be
    skipped; those runs are judged for order alone, and so are those on networks that lack what the protocol needs.
    """
    kept = scenario.protocol.get("retain", 10_000) > 1_000
    if scenario.unmet_needs() or ((scenario.faults or scenario.network.loss) and not kept):
        return None
    gone = {fault.node for fault in scenario.faults if isinstance(fault, Leave)}
    if Need.CELLS in scenario.specification.needs(scenario.protocol_settings):
        gone |= {fault.node for fault in scenario.faults if isinstance(fault, Join)}  # they get no history
    newcomers = {fault.node for fault in scenario.faults if isinstance(fault, Join)}
    return sorted((set(range(scenario.nodes)) | newcomers) - gone)
