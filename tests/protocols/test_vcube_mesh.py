"""Links with two ends, crashes, joins and leaves, and hardly anything kept: the cube stays alive and in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshes import MS, SECOND, Mesh

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


def play(mesh, events):
    """Let things happen at their times, in milliseconds; newcomers take numbers that were never used."""
    bench = mesh.bench
    newcomers = iter(range(max(bench.nodes) + 1, 1000))
    for at, kind, a, b in sorted(events):
        bench.run(max(0, at * MS - bench.now))
        known = sorted(bench.nodes.keys() | bench.saved.keys())
        a, b = known[a % len(known)], known[b % len(known)]
        if kind == "broadcast" and a in bench.nodes:
            bench.broadcast(a)
        elif kind in ("open", "close") and a != b and {a, b} <= bench.nodes.keys():
            getattr(mesh, kind)(a, b)
        elif kind in ("cut off", "let in") and a in bench.nodes:
            for other in bench.nodes.keys() - {a}:
                (mesh.close if kind == "cut off" else mesh.open)(a, other)
        elif kind in ("crash", "recover") or (kind == "leave" and a in bench.nodes and len(bench.nodes) > 1):
            getattr(mesh, kind)(a)
        elif kind == "join":
            mesh.join(next(newcomers))


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@given(
    st.integers(1, 7), EVENTS, st.integers(0, 2**32), st.sampled_from([0, 1, 2, 3, 4, 5, 1000]), st.booleans(),
    st.sampled_from([0.0, 0.2]),
)  # fmt: skip
def test_once_whole_and_quiet_whatever_anyone_broadcasts_is_delivered_everywhere(
    name, nodes, events, seed, retain, aggregate, loss
):
    mesh = Mesh(
        nodes, protocol=name, seed=seed, loss=loss, retain=retain, aggregate=aggregate,
        diagnosis="100ms", timeout="100ms", patience="1s",
    )  # fmt: skip
    play(mesh, events)
    mesh.heal()
    mesh.assert_alive(SECOND)
    mesh.assert_order()


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@pytest.mark.parametrize("nodes", [1, 3, 5, 8])
@pytest.mark.parametrize("newcomer", [8, 9, 100, 2**32 - 1])
def test_a_node_joins_under_a_number_beyond_the_cube(name, nodes, newcomer):
    """It takes part at once, gets what is kept of the past, and its place blocks nobody when it is gone."""
    mesh = Mesh(nodes, protocol=name, diagnosis="100ms", timeout="100ms", patience="1s")
    mesh.bench.run(SECOND)
    first = [mesh.bench.broadcast(node) for node in range(nodes)]
    mesh.bench.run(SECOND)
    mesh.join(newcomer)
    mesh.assert_alive(SECOND)
    assert set(first) <= set(mesh.bench.delivered[newcomer])
    mesh.leave(newcomer)
    mesh.assert_alive(SECOND)
    mesh.assert_order()


@pytest.mark.parametrize("nodes", [1, 3, 5, 8])
@pytest.mark.parametrize("newcomer", [8, 100])
def test_without_diagnosis_a_node_may_join_before_the_first_message(nodes, newcomer):
    mesh = Mesh(nodes, protocol="vcube", diagnosis=0)
    mesh.bench.run(SECOND)
    mesh.join(newcomer)
    mesh.assert_alive(SECOND)


def test_a_node_that_lost_its_state_comes_back_under_a_new_number():
    mesh = Mesh(4, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s")
    mesh.bench.run(SECOND)
    for _ in range(3):
        mesh.bench.broadcast(1)
    mesh.bench.run(SECOND)
    mesh.leave(1)
    mesh.join(4)
    mesh.assert_alive(SECOND)
    assert {(1, 1), (1, 2), (1, 3)} <= set(mesh.bench.delivered[4])
    assert not any(mesh.bench.alerts.values())


def test_a_node_that_takes_its_old_number_without_its_state_is_told_so():
    mesh = Mesh(3, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s")
    mesh.bench.run(SECOND)
    for _ in range(3):
        mesh.bench.broadcast(1)
    mesh.bench.run(SECOND)
    mesh.leave(1)
    mesh.bench.run(SECOND)
    mesh.join(1)
    mesh.bench.run(4 * SECOND)
    texts = mesh.bench.alerts[1]
    assert texts and all("up to 1:3" in text and "new number" in text for text in texts)
    assert len(texts) <= 2  # one a link
    # The others go on among themselves.
    mesh.crash(1)
    mesh.assert_alive(SECOND)


def test_after_a_crash_tests_and_doubts_start_again():
    mesh = Mesh(4, protocol="vcube", diagnosis="100ms", timeout="100ms", patience="1s", retain=0)
    mesh.bench.run(SECOND)
    mesh.crash(0)
    mesh.bench.run(SECOND)
    for _ in range(3):
        mesh.bench.broadcast(1)
    mesh.recover(0)
    mesh.bench.run(SECOND)
    assert mesh.bench.timers[0].keys() >= {"vcube/round"}
    mesh.crash(3)  # node 0 finds out, though its timers were lost
    mesh.bench.run(SECOND)
    assert mesh.bench.nodes[0].gauges()["doubted"] >= 1
    mesh.assert_alive(SECOND)
