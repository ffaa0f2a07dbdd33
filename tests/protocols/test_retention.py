"""Messages that nobody keeps any more: who goes on without them, when, and in what order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unsteady import Unsteady

from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.scenario import make_scenario

ORDERED = ["fifo", "vector", "vector-changes"]
ALL = ["r-broadcast", *ORDERED]

happenings = st.lists(
    st.sampled_from(
        [
            "broadcast",
            "broadcast",
            "connect",
            "up",
            "up",
            "up",
            "carry",
            "lose",
            "flow",
            "drop",
            "wait",
            "crash",
            "recover",
            "join",
        ]
    ),
    min_size=30,
    max_size=80,
)


repairs = st.sampled_from([None, None, "4s"])
"""With repair, frames may be lost."""


def line(network, *nodes):
    for a, b in pairwise(nodes):
        link(network, a, b)


def link(network, a, b):
    network.connect(a, b)
    for end in (a, b):
        network.up(network.connections[-1], end)


@pytest.mark.parametrize("protocol", ALL)
@given(happenings, st.integers(2, 4), st.integers(0, 5), repairs, st.integers(0, 2**32), st.booleans())
def test_order_is_kept_and_everyone_reaches_everyone_after_healing(
    protocol, steps, nodes, retain, repair, seed, fifo
):
    network = Unsteady(protocol, nodes, seed=seed, fifo=fifo, retain=retain, repair=repair)
    for step in steps:
        network.step(step)
    network.heal()
    network.everyone_reaches_everyone(at_once=False)
    network.everyone_reaches_everyone(at_once=True)


@pytest.mark.parametrize("protocol", ALL)
@given(happenings, st.integers(2, 4), repairs, st.integers(0, 2**32), st.booleans())
def test_nothing_is_given_up_while_everything_is_kept(protocol, steps, nodes, repair, seed, fifo):
    network = Unsteady(protocol, nodes, seed=seed, fifo=fifo, retain=1000, repair=repair)
    for step in steps:
        network.step(step)
    network.heal()
    everything = set(network.past)
    assert all(set(names) == everything for names in network.delivered.values())


@pytest.mark.parametrize("protocol", ALL)
def test_a_neighbour_learns_what_was_given_up(protocol):
    """0 was apart for longer than messages are kept; 1 and 2 were linked all the time."""
    network = Unsteady(protocol, 3, retain=20, fifo=True)
    line(network, 1, 2)
    network.broadcast(1)
    network.broadcast(2)
    network.carry_all()
    for _ in range(41):
        network.broadcast(0)
    line(network, 0, 1)
    network.rest()
    network.everyone_reaches_everyone(at_once=True)
    assert network.delivered[2] == [(2, 1), (1, 1), *[(0, seq) for seq in range(22, 42)], (0, 42), (1, 2), (2, 2)]


@pytest.mark.parametrize("protocol", ORDERED)
def test_a_line_of_three_agrees_after_a_partition(protocol):
    result = run(
        make_scenario(
            {
                "nodes": 3,
                "duration": "80s",
                "drain": "60s",
                "protocol": {"name": protocol, "retain": 20},
                "network": {
                    "delay": "10ms",
                    "topology": {"kind": "links", "links": [[0, 1], [1, 2]]},
                },
                "workload": [{"kind": "periodic", "every": "1s"}],
                "faults": [
                    {"kind": "partition", "at": "10s", "groups": [[0], [1, 2]]},
                    {"kind": "heal", "at": "50s"},
                ],
            }
        )
    )
    assert protocol == "fifo" or not judge(result.events).early
    delivered = {node: set() for node in range(3)}
    for row in result.events.to_pylist():
        if row["kind"] == "deliver":
            delivered[row["node"]].add((row["origin"], row["seq"]))
    late = {name for names in delivered.values() for name in names if name[1] > 60}
    assert len(late) >= 45
    assert all(late <= names for names in delivered.values())
