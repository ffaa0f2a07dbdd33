"""Random networks for the simulator, with the faults that a protocol must tolerate.

Every choice is short, and its simplest value comes first, so that Hypothesis shrinks a counterexample to something
a person can read. Most networks are small; some are crowds, since it takes many nodes to find out a protocol that
confuses them. Settings are drawn too (`settings`).

Things happen in the first two seconds; then the network is left to heal. `LAST` milliseconds after the start every
node broadcasts once more, and again ten seconds later: whatever was lost before, these must reach everyone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from antecast.protocols import Need, Specification
from antecast.protocols.registry import address
from antecast.sim.scenario import Scenario, make_scenario
from antecast.testing.settings import drawn_settings

_STEP = 100
_DURATION = 2_000
"""Milliseconds in which things happen, in steps of 100; short, so that broadcasts, faults and copies meet."""

LAST = 30_000
AGAIN = 12_000
"""When the last round of broadcasts begins, longer than every patience after the last fault, and how much later
the very last one: where next to nothing is kept, the first may only show that something is missing."""

LASTS = LAST + AGAIN + _DURATION
"""How many milliseconds a run lasts, apart from what is left to arrive."""

_SETTLED = 60_000
"""In cells: the millisecond by which all hosts have joined, even where half of all frames are lost."""


def _ms(value: int) -> str:
    return f"{value}ms"


def _times() -> st.SearchStrategy[int]:
    return st.integers(0, _DURATION // _STEP).map(lambda step: step * _STEP)


_REGULAR = [{"kind": "constant", "value": _ms(ms)} for ms in (1, 0, 50)]
_UNEVEN: list[dict[str, Any]] = [
    {"kind": "uniform", "low": "0ms", "high": "500ms"},
    {"kind": "exponential", "mean": "100ms"},
    {"kind": "normal", "mean": "100ms", "stdev": "100ms"},
]
_HEAVY = [{"kind": "pareto", "least": "1ms", "shape": shape, "most": "8s"} for shape in (2.0, 0.6)]
"""Now and then late by three orders of magnitude."""


def delays() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from([*_REGULAR, *_UNEVEN, *_HEAVY])


@st.composite
def _faults(draw: st.DrawFn, nodes: int, *, complete: bool) -> list[dict[str, Any]]:
    """Faults that end: what crashes recovers, what is cut is linked again, partitions heal. A complete network
    stays complete, so nodes may leave it for good. Node 0 stays throughout."""
    faults: list[dict[str, Any]] = []
    unused = nodes
    going: set[int] = set()
    node = st.integers(0, nodes - 1)
    kinds = ["cut", "crash", "partition", "join", "leave", "rebirth"]
    for kind in sorted(draw(st.lists(st.sampled_from(kinds), max_size=4)), key=kinds.index, reverse=True):
        first, second = sorted((draw(_times()), draw(_times())))
        begin, end, victim = _ms(first), _ms(second + 1), draw(node)
        if victim in going:
            continue
        if kind == "crash":
            faults.append({"kind": "crash", "at": begin, "node": victim})
            faults.append({"kind": "recover", "at": end, "node": victim})
        elif kind == "partition":
            group = sorted({victim, *draw(st.sets(node, max_size=3))})
            faults += [{"kind": "partition", "at": begin, "groups": [group]}, {"kind": "heal", "at": end}]
        elif kind == "cut" and nodes > 1:
            other = (victim + draw(st.integers(1, nodes - 1))) % nodes
            if other in going:
                continue
            ends = {"a": victim, "b": other}
            faults += [{"kind": "cut", "at": begin} | ends, {"kind": "link", "at": end} | ends]
        elif kind == "join":
            peers = {} if complete else {"peers": [0, victim][: 1 + (victim > 0)]}
            faults.append({"kind": "join", "at": begin, "node": unused} | peers)
            unused += 1
        elif kind == "leave" and complete and victim:
            going.add(victim)
            faults.append({"kind": "leave", "at": begin, "node": victim})
        elif kind == "rebirth" and victim:
            going.add(victim)
            faults.append({"kind": "rebirth", "at": begin, "node": victim, "number": unused})
            unused += 1
    return faults


def _last_rounds(nodes: int, start: int = 0) -> dict[str, Any]:
    times = start + LAST, start + LAST + AGAIN
    at = [{"t": _ms(t + 10 * node), "node": node} for t in times for node in range(nodes)]
    return {"kind": "at", "broadcasts": at}


@st.composite
def workload(draw: st.DrawFn, nodes: int, most: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Broadcasts at given times, answers to them, and the last round."""
    one = st.tuples(_times(), st.integers(0, nodes - 1))
    at = [{"t": _ms(start + t), "node": node} for t, node in draw(st.lists(one, max_size=most))]
    work: list[dict[str, Any]] = [{"kind": "at", "broadcasts": at}, _last_rounds(nodes, start)]
    share = draw(st.sampled_from([0.0, 0.3, 0.9]))
    if share:
        thinking = draw(st.none() | delays())
        until = _ms(start + _DURATION)
        work.append({"kind": "chatter", "answers": share, "delay": thinking, "until": until, "payload": 8})
    return work


@st.composite
def scenarios(
    draw: st.DrawFn, spec: Specification, *, max_nodes: int = 6, max_broadcasts: int = 20, crowd: int = 20
) -> Scenario:
    """Networks, delays, losses, faults, settings and workloads that a protocol must tolerate.

    `max_nodes` bounds the small networks, `crowd` is the size of the large ones, 0 for none.
    """
    if Need.CELLS in spec.needs(spec.configure({})):
        return draw(_cells(spec, max_nodes=max_nodes, max_broadcasts=max_broadcasts))
    if crowd and draw(st.sampled_from([False, False, True])):
        return draw(_crowds(spec, nodes=crowd))
    nodes = draw(st.integers(1, max_nodes))
    settings = draw(drawn_settings(spec))
    loss = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5]))
    if loss and spec.loss_settings:
        settings |= spec.loss_settings
    needs = spec.needs(spec.configure(settings))
    if Need.RELIABLE_LINKS in needs:
        loss = 0.0
    whole = Need.COMPLETE_GRAPH in needs
    topology = "complete" if whole else draw(st.sampled_from(["complete", "ring", "tree", "random"]))
    link = st.fixed_dictionaries(
        {"a": st.integers(0, nodes - 1), "b": st.integers(0, nodes - 1), "delay": delays(), "both": st.booleans()}
    )
    static = Need.STATIC_MEMBERS in needs
    faults = [] if static else draw(_faults(nodes, complete=topology == "complete"))
    late = {"kind": "uniform", "low": "0ms"}
    notice = draw(st.sampled_from([None, late | {"high": "100ms"}, late | {"high": "5s"}])) if faults else None
    return scenario_of(
        spec,
        draw(st.integers(0, 99)),
        nodes,
        settings,
        {
            "topology": {"kind": topology},
            "delay": draw(delays()),
            "loss": loss,
            "fifo": Need.FIFO_LINKS in needs or draw(st.booleans()),
            "bandwidth": draw(st.sampled_from([None, "64kb/s"])),
            "links": [each for each in draw(st.lists(link, max_size=2)) if each["a"] != each["b"]],
            "notice": notice,
        },
        draw(workload(nodes, max_broadcasts)),
        faults,
        offset=draw(st.sampled_from([0, 300])),
    )


@st.composite
def _crowds(draw: st.DrawFn, spec: Specification, *, nodes: int) -> Scenario:
    """Many nodes that talk, over paths of very different lengths; nothing fails. Few choices, since each run takes
    long."""
    needs = spec.needs(spec.configure({}))
    topology = "complete" if Need.COMPLETE_GRAPH in needs else draw(st.sampled_from(["random", "ring"]))
    network = {
        "topology": {"kind": topology},
        "delay": draw(st.sampled_from(_UNEVEN)),
        "fifo": Need.FIFO_LINKS in needs,
    }
    talk = {"kind": "poisson", "rate": 1.5, "until": _ms(_DURATION), "payload": 8}
    return scenario_of(
        spec, draw(st.integers(0, 99)), nodes, {}, network, [talk, _last_rounds(nodes)], [], offset=0
    )


def scenario_of(
    spec: Specification,
    seed: int,
    nodes: int,
    settings: dict[str, Any],
    network: dict[str, Any],
    workload: list[dict[str, Any]],
    faults: list[dict[str, Any]],
    *,
    offset: int = 0,
    clocks: dict[str, Any] | None = None,
    start: int = 0,
    drain: str = "60s",
) -> Scenario:
    """A run in which things happen at first, and which is then left to heal. Clocks are off by up to `offset`
    milliseconds, or as `clocks` says."""
    return make_scenario(
        {
            "name": f"conformance of {spec.name}",
            "seed": seed,
            "nodes": nodes,
            "duration": _ms(start + LASTS),
            "drain": drain,
            "protocol": {"name": address(spec)} | settings,
            "network": network,
            "clocks": {"offset": _ms(offset)} if clocks is None else clocks,
            "workload": workload,
            "faults": faults,
            "log": {"events": "order", "sample": 0},
        }
    )


@st.composite
def _cells(draw: st.DrawFn, spec: Specification, *, max_nodes: int, max_broadcasts: int) -> Scenario:
    """Stations and hosts, a radio that loses single frames and whole spells, hosts that walk, crash, join and
    leave.

    A host that has not joined yet gets no history, so things begin when everyone is there.
    """
    nodes, stations = draw(st.integers(1, max_nodes)), draw(st.integers(1, 4))
    static = Need.STATIC_MEMBERS in spec.needs(spec.configure({}))
    faults = [] if static else draw(_faults(nodes, complete=True))
    known = [fault for fault in faults if fault["kind"] in ("crash", "recover", "join", "leave")]
    for fault in known:
        fault["at"] = _ms(_SETTLED + int(fault["at"].removesuffix("ms")))
    settings = {"connect": "200ms"}
    if "retransmit_most" in spec.settings.__struct_fields__:  # a run must not end before a timer does
        settings["retransmit_most"] = "1s"
    walks = [{"kind": "still"}, *({"kind": "waypoint", "speed": speed} for speed in (1.4, 8.0, 20.0))]
    topology = {
        "kind": "cells",
        "stations": stations,
        "spacing": draw(st.sampled_from([60.0, 150.0, 200.0])),
        "mobility": walks[0] if static else draw(st.sampled_from(walks)),
        "carrier_sense": draw(st.booleans()),
        "loss": draw(st.sampled_from([0.0, 0.2, 0.5])),
        "fading": draw(st.sampled_from([None, {"every": "3s", "lasts": "500ms"}])),
    }
    return scenario_of(
        spec,
        draw(st.integers(0, 99)),
        nodes,
        settings,
        {"topology": topology, "delay": draw(delays())},
        draw(workload(nodes, max_broadcasts, start=_SETTLED)),
        known,
        offset=draw(st.sampled_from([0, 300])),
        start=_SETTLED,
        drain="170s",
    )
