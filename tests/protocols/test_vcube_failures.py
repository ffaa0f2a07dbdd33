"""Nodes crash and recover while messages travel: what the others deliver, and what they know of each other."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import Message, Send
from antecast.history.oracle import judge
from antecast.protocols.retained import Summary
from antecast.protocols.vcube.diagnosis import OVERDUE, ROUND, Reply, Test
from antecast.protocols.vcube.packets import Packet
from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.testing import Bench, assert_conforms

MS, SECOND = 10**6, 10**9


def simulate(
    nodes,
    broadcasts,
    faults,
    *,
    seed=1,
    delay="20ms",
    name="vcube",
    loss=0.0,
    log="order",
    answers=0.5,
    **settings,
):
    return run(
        make_scenario(
            {
                "nodes": nodes,
                "seed": seed,
                "duration": "2s",
                "drain": "30s",
                "protocol": {"name": name} | settings,
                "network": {"delay": delay, "loss": loss},
                "workload": [
                    {"kind": "at", "broadcasts": [{"t": f"{t}ms", "node": node} for t, node in broadcasts]},
                    {"kind": "chatter", "answers": answers},
                ],
                "faults": [{"kind": kind, "at": f"{at}ms", "node": node} for at, kind, node in faults],
                "log": {"events": log, "sample": 0},
            }
        )
    )


def check(result, faults):
    """No causal violation; all that are up at the end delivered what any of them delivered, and all that a node
    that never failed broadcast. The nodes up at the end, and what they delivered."""
    nodes = result.scenario.nodes
    judged = judge(result.events, clock="global")
    assert not judged.early and not judged.duplicates and not judged.unknown
    up = set(range(nodes))
    for _, kind, node in sorted(faults):
        (up.add if kind == "recover" else up.discard)(node)
    delivered = {node: set() for node in up}
    for row in result.events.to_pylist():
        if row["kind"] == "deliver" and row["node"] in up:
            delivered[row["node"]].add((row["origin"], row["seq"]))
    everything = set().union(*delivered.values())
    own = {(message.origin, message.seq) for message in judged.past if message.origin in up}
    assert own <= everything
    for node in up:
        assert delivered[node] == everything, f"node {node} lacks {sorted(everything - delivered[node])}"
    return up, everything


@st.composite
def failures(draw):
    """Crashes, some with a recovery; several of one node at times."""
    nodes = draw(st.integers(1, 11))
    times = st.integers(0, 2000)
    faults = []
    for node in draw(st.lists(st.integers(0, nodes - 1), max_size=6)):
        crash, recovery = sorted((draw(times), draw(times)))
        if any(other == node for _, _, other in faults):
            continue
        faults.append((crash, "crash", node))
        if draw(st.booleans()):
            faults.append((recovery + 1, "recover", node))
    broadcasts = draw(st.lists(st.tuples(times, st.integers(0, nodes - 1)), max_size=15))
    return nodes, broadcasts, faults


DELAYS = [
    "20ms",
    {"kind": "exponential", "mean": "60ms"},
    {"kind": "pareto", "least": "2ms", "shape": 0.8, "most": "3s"},
]


@given(
    failures(),
    st.integers(0, 2**32),
    st.sampled_from(DELAYS),
    st.sampled_from(["vcube", "vcube-single"]),
    st.booleans(),
)
@example((2, [(0, 0)], [(10, "crash", 0)]), 1, "20ms", "vcube", True)
@example((8, [(0, 0), (30, 4)], [(30, "crash", 4), (45, "crash", 2)]), 1, "20ms", "vcube", True)
def test_correct_nodes_agree_whoever_crashes_and_recovers(case, seed, delay, name, aggregate):
    nodes, broadcasts, faults = case
    check(simulate(nodes, broadcasts, faults, seed=seed, delay=delay, name=name, aggregate=aggregate), faults)


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@pytest.mark.parametrize("victim", [0, 1, 2, 4, 5, 6, 7])
def test_a_message_on_its_way_through_a_node_that_crashes_reaches_everyone_else(name, victim):
    """Node 3 broadcasts; whoever crashes while the message is under way, wherever it stands in the tree."""
    for at in (15, 25, 35, 45, 55):
        faults = [(at, "crash", victim)]
        up, everything = check(simulate(8, [(0, 3)], faults, name=name), faults)
        assert victim not in up
        assert (3, 1) in everything


def test_the_last_message_of_a_sender_that_crashes_is_delivered_by_all_or_by_none():
    before = [(0, "crash", 0)]
    assert check(simulate(4, [(0, 0)], before), before)[1] == set()  # it never left
    on_the_way = [(19, "crash", 0)]
    assert check(simulate(4, [(0, 0)], on_the_way), on_the_way)[1] == set()  # links break with what is on them
    after = [(21, "crash", 0)]
    up, everything = check(simulate(4, [(0, 0)], after), after)
    assert (0, 1) in everything and up == {1, 2, 3}


def test_and_by_all_once_the_sender_recovers():
    faults = [(19, "crash", 0), (900, "recover", 0)]
    assert (0, 1) in check(simulate(4, [(0, 0)], faults), faults)[1]


def test_a_message_whose_past_was_lost_with_a_crash_waits_until_somebody_has_it():
    """Node 1 alone delivers node 0's message, answers it, and both crash. Its answer got away."""

    def case(*faults):
        links = [{"a": 0, "b": b, "delay": "10s", "both": False} for b in (2, 3)]
        links += [{"a": 1, "b": b, "delay": "1ms", "both": False} for b in (2, 3)]
        values = {
            "nodes": 4,
            "duration": "2s",
            "drain": "30s",
            "protocol": {"name": "vcube"},
            "network": {"delay": "10ms", "links": links},
            "workload": [{"kind": "at", "broadcasts": [{"t": "0ms", "node": 0}, {"t": "11ms", "node": 1}]}],
            "faults": [{"kind": kind, "at": f"{at}ms", "node": node} for at, kind, node in faults],
            "log": {"events": "order", "sample": 0},
        }
        return check(run(make_scenario(values)), faults)

    crashes = [(14, "crash", 0), (14, "crash", 1)]
    assert case(*crashes) == ({2, 3}, set())
    assert case(*crashes, (1500, "recover", 0))[1] == {(0, 1), (1, 1)}


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 6, 7, 9, 12, 13])
def test_any_number_of_nodes_will_do(name, nodes):
    broadcasts = [(10 * node, node) for node in range(nodes)]
    up, everything = check(simulate(nodes, broadcasts, [], name=name), [])
    assert len(up) == nodes and {(node, 1) for node in range(nodes)} <= everything


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
def test_the_root_crashes_and_comes_back(name):
    broadcasts = [(t, t // 100 % 8) for t in range(0, 2000, 100)]
    faults = [(450, "crash", 0), (1250, "recover", 0)]
    up, everything = check(simulate(8, broadcasts, faults, name=name), faults)
    assert len(up) == 8 and (1, 3) in everything


@pytest.mark.parametrize("left", [(0, 1), (0, 7), (3, 4)])
def test_two_nodes_are_left(left):
    faults = [(100 * node + 50, "crash", node) for node in range(8) if node not in left]
    broadcasts = [(t, node) for t in range(0, 2000, 200) for node in left]
    up, everything = check(simulate(8, broadcasts, faults), faults)
    assert up == set(left)
    assert {(node, 10) for node in left} <= everything


def test_a_node_that_comes_back_gets_what_it_missed_from_one_neighbour():
    broadcasts = [(t, 1) for t in range(300, 1000, 10)]
    faults = [(200, "crash", 5), (1500, "recover", 5)]
    result = simulate(8, broadcasts, faults, log="all", answers=0.0)
    check(result, faults)
    missed = [
        row
        for row in result.events.to_pylist()
        if row["kind"] == "receive" and row["node"] == 5 and row["t"] > 1500 * MS and row["origin"] is not None
    ]
    names = {(row["origin"], row["seq"]) for row in missed}
    assert len(missed) == 70 and names == {(1, seq) for seq in range(1, 71)}
    assert len({row["peer"] for row in missed}) == 1


def test_lost_frames_are_found_by_comparison():
    broadcasts = [(100 * index, index % 6) for index in range(20)]
    result = simulate(6, broadcasts, [], loss=0.3, diagnosis="100ms", timeout="200ms")
    assert len(check(result, [])[1]) >= 20


# Diagnosis, by hand.


def cube_of(nodes, **settings):
    bench = Bench("vcube", nodes=nodes, settings=settings)
    for a in range(nodes):
        for b in range(a + 1, nodes):
            bench.link(a, b)
    return bench


def whom_it_tests(bench, node):
    """Whom a node tests in a round; everyone answers."""
    bench.fire(node, ROUND)
    return sorted(each.to for each in bench.transfer() if each.sender == node and isinstance(each.frame, Test))


def silence(bench, *dead):
    """Frames to and from these nodes vanish, though their links seem to be there."""
    bench.drop(lambda flight: {flight.sender, flight.to} & set(dead))


def lose_round(bench, node, *dead):
    """A round of tests in which these do not answer, and the time to wait for them."""
    bench.fire(node, ROUND)
    silence(bench, *dead)
    bench.transfer()
    bench.fire(node, OVERDUE)


def gauge(bench, node, name="doubted"):
    return bench.nodes[node].gauges()[name]


def test_a_node_tests_the_first_node_of_each_cluster():
    bench = cube_of(8)
    assert whom_it_tests(bench, 0) == [1, 2, 4]
    assert whom_it_tests(bench, 5) == [1, 4, 7]
    assert bench.timers[0][ROUND] == SECOND


def test_who_does_not_answer_in_time_is_doubted_and_the_next_in_its_cluster_tested():
    bench = cube_of(8)
    lose_round(bench, 0, 4)
    assert gauge(bench, 0) == 1
    assert whom_it_tests(bench, 0) == [1, 2, 4, 5]
    # Node 4 answered this time: the doubt is over, and it is given more time from now on.
    assert gauge(bench, 0) == 0
    bench.timers[0][ROUND] = 10 * SECOND
    bench.fire(0, ROUND)
    assert bench.timers[0][OVERDUE] == bench.now + 500 * MS
    silence(bench, 4)
    bench.transfer()
    bench.fire(0, OVERDUE)  # nobody but 4 is late
    assert gauge(bench, 0) == 0
    assert bench.timers[0][OVERDUE] == 11 * SECOND


def test_a_broken_link_is_a_reason_to_doubt_and_a_new_one_ends_it():
    bench = cube_of(8)
    bench.unlink(0, 4)
    assert gauge(bench, 0) == 1
    assert whom_it_tests(bench, 0) == [1, 2, 5]
    bench.link(0, 4)
    assert gauge(bench, 0) == 0
    assert whom_it_tests(bench, 0) == [1, 2, 4]


def test_a_node_learns_of_others_from_those_it_tests():
    """Node 5 is in the cluster that node 0 tests through node 4."""
    bench = cube_of(8)
    lose_round(bench, 4, 5)
    assert gauge(bench, 4) == 1 and gauge(bench, 0) == 0
    whom_it_tests(bench, 0)
    assert gauge(bench, 0) == 1
    # Then 5 answers 4 again, and that is newer.
    whom_it_tests(bench, 4)
    whom_it_tests(bench, 0)
    assert gauge(bench, 0) == 0


def test_a_node_that_hears_itself_doubted_objects():
    bench = cube_of(8)
    one = bench.nodes[1]
    (answer,) = one.receive(Test(), 3, 0)
    assert answer.frame.news == {}
    one.receive(Reply(answer.frame.digest, {1: 3}), 3, 0)
    (answer,) = one.receive(Test(), 3, 0)
    assert answer.frame.news == {1: 4}


def packets_of(flights):
    return sorted((flight.sender, flight.to) for flight in flights if isinstance(flight.frame, Packet))


def test_trees_go_around_nodes_without_a_link():
    bench = cube_of(8)
    for node in range(8):
        if node != 4:
            bench.unlink(4, node)
    bench.drop()
    bench.broadcast(0)
    assert packets_of(bench.flying) == [(0, 1), (0, 2), (0, 5)]
    assert len(packets_of(bench.transfer())) == 6
    assert all(bench.delivered[node] == [(0, 1)] for node in range(8) if node != 4)


def test_a_doubted_node_gets_its_copy_beside_the_one_that_takes_its_place():
    bench = cube_of(8)
    lose_round(bench, 0, 4)
    bench.broadcast(0)
    assert packets_of(bench.flying) == [(0, 1), (0, 2), (0, 4), (0, 5)]
    assert len(packets_of(bench.transfer())) == 7 + 4  # 4 and 5 each pass it on to all of their cluster
    assert all(bench.delivered[node] == [(0, 1)] for node in range(8))


def test_a_message_that_comes_by_comparison_first_is_passed_on_when_its_packet_comes():
    bench = cube_of(8)
    bench.broadcast(0)
    (packet,) = bench.queue(0, 4)
    bench.drop()
    four = bench.nodes[4]
    message = packet.messages[0]
    assert not [each for each in four.receive(message, 2, 0) if isinstance(each, Send)]
    passed = [each.to for each in four.receive(packet, 0, 0) if isinstance(each, Send)]
    assert passed == [5, 6]
    assert not [each for each in four.receive(packet, 0, 0) if isinstance(each, Send)]


def test_what_is_held_back_goes_out_when_the_trees_change():
    bench = cube_of(8)
    bench.drop()
    bench.inject(0, 4, Packet((Message(0, 1, b"", {2: 1}),)))
    assert gauge(bench, 4, "held") == 1
    assert [flight.to for flight in bench.drop()] == [6]
    bench.unlink(4, 7)
    assert gauge(bench, 4, "held") == 0
    assert [flight.to for flight in bench.drop()] == [5]


def test_nodes_that_have_the_same_do_not_compare():
    bench = cube_of(4)
    bench.broadcast(0)
    bench.transfer()
    for node in range(4):
        bench.fire(node, ROUND)
    kinds = {type(flight.frame) for flight in bench.transfer()}
    assert kinds == {Test, Reply}


def test_nodes_that_have_not_the_same_compare_once_a_round():
    bench = cube_of(8)
    bench.broadcast(0)
    bench.drop()
    bench.fire(0, ROUND)
    asked = [each.to for each in bench.transfer() if each.sender == 0 and isinstance(each.frame, Summary)]
    assert len(asked) == 1
    assert bench.delivered[asked[0]] == [(0, 1)]


def test_a_snapshot_restores_the_same_state():
    bench = cube_of(4, retain=3)
    for node in (0, 1, 2, 0, 1):
        bench.broadcast(node)
        bench.transfer()
    bench.inject(1, 0, Packet((Message(3, 4, b"early", {1: 9}),)))
    for node, protocol in bench.nodes.items():
        copy = bench.make(node)
        copy.restore(protocol.snapshot())
        assert copy.snapshot() == protocol.snapshot()
    restored = bench.make(0)
    restored.restore(bench.nodes[0].snapshot())
    assert restored.link_up(1, 0) and not any(isinstance(each, Send) for each in restored.link_up(2, 0))


@pytest.mark.parametrize("seed", range(6))
def test_a_comparison_that_overtakes_the_first_message_does_not_skip_it(seed):
    """Nothing is kept, and replies to tests may be quicker than packets: what they reveal is still on its way."""
    delay = {"kind": "uniform", "low": "0ms", "high": "2ms"}
    result = simulate(2, [(1, 0)], [], seed=seed, delay=delay, answers=0.0, retain=0)
    delivered = [row["node"] for row in result.events.to_pylist() if row["kind"] == "deliver"]
    assert sorted(delivered) == [0, 1]


@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@given(nodes=st.integers(2, 9), seed=st.integers(0, 2**32))
def test_nobody_misses_a_message_for_being_slow(name, nodes, seed):
    """Answers take longer than the timeout, so all are doubted now and then, and nothing is kept for repair."""
    scenario = make_scenario(
        {
            "nodes": nodes,
            "seed": seed,
            "duration": "4s",
            "drain": "20s",
            "protocol": {"name": name, "retain": 0, "diagnosis": "300ms", "timeout": "100ms"},
            "network": {"delay": {"kind": "uniform", "low": "0ms", "high": "300ms"}},
            "workload": [{"kind": "poisson", "rate": 2.0}, {"kind": "chatter", "answers": 0.3}],
            "log": {"events": "order", "sample": 0},
        }
    )
    assert_conforms(scenario)
