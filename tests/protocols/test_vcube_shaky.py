"""Links with two ends, crashes, joins and leaves, and hardly anything kept: the cube stays alive and in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shaky import MS, SECOND, Shaky

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 5000),
        st.sampled_from(
            ["broadcast"] * 4 + ["open", "close", "cut off", "let in", "crash", "recover", "leave", "join"]
        ),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=40,
)


def play(network, events):
    """Let things happen at their times, in milliseconds; newcomers take numbers that were never used."""
    newcomers = iter(range(max(network.nodes) + 1, 1000))
    for at, kind, a, b in sorted(events):
        network.run(max(0, at * MS - network.now))
        known = sorted(set(network.nodes) | set(network.saved))
        a, b = known[a % len(known)], known[b % len(known)]
        if kind == "broadcast":
            network.broadcast(a)
        elif kind in ("open", "close") and a != b and {a, b} <= network.nodes.keys():
            getattr(network, kind)(a, b)
        elif kind in ("cut off", "let in") and a in network.nodes:
            for other in network.nodes.keys() - {a}:
                (network.close if kind == "cut off" else network.open)(a, other)
        elif kind in ("crash", "recover") or (kind == "leave" and len(network.nodes) > 1):
            if kind != "leave" or a in network.nodes:
                getattr(network, kind)(a)
        elif kind == "join":
            network.join(next(newcomers))


def heal(network):
    """All that can come back does, and every two are linked anew."""
    network.run(network.skew)
    for node in sorted(network.saved):
        network.recover(node)
    network.loss = 0.0
    nodes = sorted(network.nodes)
    for index, a in enumerate(nodes):
        for b in nodes[:index]:
            network.open(a, b)


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@given(
    st.integers(1, 7), EVENTS, st.integers(0, 2**32), st.sampled_from([0, 1, 2, 3, 4, 5, 1000]), st.booleans(),
    st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_once_whole_and_quiet_whatever_anyone_broadcasts_is_delivered_everywhere(
    name, nodes, events, seed, retain, aggregate, loss
):
    network = Shaky(
        nodes, protocol=name, seed=seed, loss=loss, retain=retain, aggregate=aggregate,
        diagnosis="100ms", timeout="100ms", patience="1s",
    )  # fmt: skip
    play(network, events)
    heal(network)
    network.assert_alive(SECOND)
    network.assert_causal()


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@pytest.mark.parametrize("nodes", [1, 3, 5, 8])
@pytest.mark.parametrize("newcomer", [8, 9, 100, 2**32 - 1])
def test_a_node_joins_under_a_number_beyond_the_cube(name, nodes, newcomer):
    """It takes part at once, gets what is kept of the past, and its place blocks nobody when it is gone."""
    network = Shaky(nodes, protocol=name, diagnosis="100ms", timeout="100ms", patience="1s")
    network.run(SECOND)
    first = [network.broadcast(node) for node in range(nodes)]
    network.run(SECOND)
    network.join(newcomer)
    network.assert_alive(SECOND)
    assert set(first) <= set(network.delivered[newcomer])
    network.leave(newcomer)
    network.assert_alive(SECOND)
    network.assert_causal()


@pytest.mark.parametrize("nodes", [1, 3, 5, 8])
@pytest.mark.parametrize("newcomer", [8, 100])
def test_without_diagnosis_a_node_may_join_before_the_first_message(nodes, newcomer):
    network = Shaky(nodes, protocol="vcube", diagnosis=0)
    network.run(SECOND)
    network.join(newcomer)
    network.assert_alive(SECOND)


def test_a_node_that_lost_its_state_comes_back_under_a_new_number():
    network = Shaky(4, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s")
    network.run(SECOND)
    for _ in range(3):
        network.broadcast(1)
    network.run(SECOND)
    network.leave(1)
    network.join(4)
    network.assert_alive(SECOND)
    assert {(1, 1), (1, 2), (1, 3)} <= set(network.delivered[4])
    assert not network.alerts


def test_a_node_that_takes_its_old_number_without_its_state_is_told_so():
    network = Shaky(3, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s")
    network.run(SECOND)
    for _ in range(3):
        network.broadcast(1)
    network.run(SECOND)
    network.leave(1)
    network.run(SECOND)
    network.join(1)
    network.run(4 * SECOND)
    texts = [text for node, text in network.alerts if node == 1]
    assert texts and all("up to 1:3" in text and "new number" in text for text in texts)
    assert len(texts) <= 2  # one a link
    # The others go on among themselves.
    network.crash(1)
    network.assert_alive(SECOND)


def test_after_a_crash_tests_and_doubts_start_again():
    network = Shaky(4, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s", retain=0)
    network.run(SECOND)
    network.crash(0)
    network.run(SECOND)
    for _ in range(3):
        network.broadcast(1)
    network.recover(0)
    network.run(SECOND)
    assert network.timers[0].keys() >= {"vcube/round"}
    network.crash(3)  # node 0 finds out, though its timers were lost
    network.run(SECOND)
    assert network.nodes[0].gauges()["doubted"] >= 1
    network.assert_alive(SECOND)
