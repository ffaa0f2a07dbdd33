"""Random contact traces, and clocks that are off: what networks of people and vehicles bring along.

`encounters` writes traces: recorded from 0 or by the calendar, with contacts of no length, contacts that follow
each other at once, and long gaps. `odd_clocks` draws clocks within and beyond what a protocol allows for, and now
and then one that is off by minutes. In the end everyone is in contact with everyone, so that the last broadcasts
must arrive (`networks`).
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from antecast.core import NodeId
from antecast.core.settings import format_duration
from antecast.protocols import Need, Specification
from antecast.sim.scenario import Scenario
from antecast.testing.networks import LAST, LASTS, delays, scenario_of, workload
from antecast.testing.settings import drawn_settings

_RECORDED = (0, 1_246_255_220, 2**31)
"""When a trace begins, in seconds: at 0, in June 2009, beyond 32 bits."""

_GATHERING = LAST // 1000 - 8
"""The second from which everyone is in contact with everyone."""

_DRAIN = 600
"""Seconds left to arrive in: who may hold next to nothing is asked again and again, after ever longer waits."""

_END = LASTS // 1000 + _DRAIN + 2

_WILD = (1.5, 1.1, -1.5, 10.0, -10.0, 360.0)
"""By how many times what is allowed for a broken clock is off. Just beyond it, some believe what others refuse."""


class OddClocks(NamedTuple):
    """A scenario, and the nodes whose clocks nobody could allow for: only they may suffer from it."""

    scenario: Scenario
    wild: frozenset[NodeId]


def can_meet(spec: Specification) -> bool:
    """Whether a protocol works where nodes meet and part."""
    apart = {Need.CELLS, Need.COMPLETE_GRAPH, Need.STATIC_MEMBERS}
    return apart.isdisjoint(spec.needs(spec.configure({})))


@st.composite
def _meetings(draw: st.DrawFn, nodes: int) -> list[tuple[float, int, str]]:
    """The lines of a trace: the contacts of each pair one after the other, some at once, some of no length."""
    lines: list[tuple[float, int, str]] = []
    number = 0
    for a, b in combinations(range(nodes), 2):
        t = draw(st.sampled_from([0.0, 0.5, 2.0]))
        contact = st.tuples(st.sampled_from([1.0, 0.0, 0.1, 3.0]), st.sampled_from([1.0, 0.0, 0.3, 12.0]))
        for length, gap in draw(st.lists(contact, max_size=3)):
            if t + length >= _GATHERING:
                break
            lines += [(t, number, f"{a} {b} up"), (t + length, number + 1, f"{a} {b} down")]
            number, t = number + 2, t + length + gap
        lines += [(_GATHERING, number, f"{a} {b} up"), (_END, number + 1, f"{a} {b} down")]
        number += 2
    return sorted(lines)


@st.composite
def encounters(draw: st.DrawFn, spec: Specification, folder: Path, *, max_nodes: int = 4) -> Scenario:
    """Nodes that meet and part as a trace says, which is written into a folder."""
    nodes = draw(st.integers(2, max_nodes))
    start = draw(st.sampled_from(_RECORDED))
    lines = draw(_meetings(nodes))
    text = "".join(f"{start + t:.1f} CONN {what}\n" for t, _, what in lines)
    path = folder / f"{blake2b(text.encode(), digest_size=8).hexdigest()}.one"
    path.write_text(text)
    settings = draw(drawn_settings(spec))
    needs = spec.needs(spec.configure(settings))
    return scenario_of(
        spec,
        draw(st.integers(0, 99)),
        nodes,
        settings,
        {
            "topology": {"kind": "contacts", "file": str(path), "shift": True},
            "delay": draw(delays()),
            "fifo": Need.FIFO_LINKS in needs or draw(st.booleans()),
            "bandwidth": draw(st.sampled_from([None, "64kb/s"])),
        },
        draw(workload(nodes, 12)),
        [],
        offset=draw(st.sampled_from([0, 300])),
        drain=f"{_DRAIN}s" if "early" in settings else "60s",
    )


@st.composite
def odd_clocks(draw: st.DrawFn, spec: Specification, *, max_nodes: int = 5) -> OddClocks:
    """Clocks that differ as much as the protocol allows for, or more (which a run says before it starts), and one
    that is broken. Links stay up."""
    nodes = draw(st.integers(3, max_nodes))
    settings = draw(drawn_settings(spec))
    needs = spec.needs(spec.configure(settings))
    bound = spec.clock_bound(spec.configure(settings))
    share = draw(st.sampled_from([0.0, 0.5, 0.25, 2.0]))
    allowed = 600 * 10**6 if bound is None else bound
    wild = draw(st.sampled_from([None, *_WILD]))
    clocks: dict[str, Any] = {"offset": format_duration(round(share * allowed))}
    if wild is not None:
        clocks["fixed"] = {"0": f"{round(wild * allowed / 10**6)}ms"}
    scenario = scenario_of(
        spec,
        draw(st.integers(0, 99)),
        nodes,
        settings,
        {
            "topology": {"kind": "complete"},
            "delay": draw(delays()),
            "fifo": Need.FIFO_LINKS in needs or draw(st.booleans()),
        },
        draw(workload(nodes, 12)),
        [],
        clocks=clocks,
        drain=f"{_DRAIN}s" if "early" in settings else "60s",
    )
    return OddClocks(scenario, frozenset({0} if wild is not None and bound is not None else ()))
