"""Aggregation: exactly the packets of Algorithm 2, and never a later delivery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import Deliver, Message, RemoteFault, Send
from antecast.history.oracle import judge
from antecast.papers.vcube import algorithm2
from antecast.protocols import specification
from antecast.protocols.vcube.packets import Packet, fill
from antecast.protocols.vcube.trees import Trees
from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.testing import Bench


def cube_of(nodes, **settings):
    bench = Bench("vcube", nodes=nodes, settings={"diagnosis": 0, **settings})
    for a in range(nodes):
        for b in range(a + 1, nodes):
            bench.link(a, b)
    return bench


def names(frame):
    return [(message.origin, message.seq) for message in frame.messages]


@given(st.integers(0, 4), st.booleans(), st.data())
def test_the_packets_are_those_of_algorithm_2(dimension, aggregate, data):
    """Both run side by side on one schedule: every packet of one is a packet of the other."""
    nodes = 2**dimension
    bench = cube_of(nodes, aggregate=aggregate, mtu=65_535)
    plain = [algorithm2.Node(i, dimension, aggregate=aggregate) for i in range(nodes)]
    flying = []

    def compare(node, ours):
        theirs, plain[node].sends = plain[node].sends, []
        sends = [(each.to, each.frame) for each in ours if isinstance(each, Send)]
        named = [(k, [(each.source, each.seq) for each in together]) for k, together in theirs]
        # Ours goes child by child within a message, theirs too; a packet of several messages makes no others.
        assert [(to, names(frame)) for to, frame in sends] == named
        flying.extend(
            (node, to, frame, together) for (to, frame), (_, together) in zip(sends, theirs, strict=True)
        )
        bench.delivered[node] += [
            (each.message.origin, each.message.seq) for each in ours if isinstance(each, Deliver)
        ]
        assert sorted(bench.delivered[node]) == sorted((each.source, each.seq) for each in plain[node].delivered)

    for _ in range(data.draw(st.integers(0, 60))):
        if flying and data.draw(st.integers(0, 3)):
            sender, to, frame, together = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            plain[to].receive(together, sender)
            compare(to, bench.nodes[to].receive(frame, sender, 0))
        else:
            node = data.draw(st.integers(0, nodes - 1))
            plain[node].broadcast()
            compare(node, bench.nodes[node].broadcast(b"", 0))


def packet(origin, seq, **stamp):
    return Packet((Message(origin, seq, b"", {int(source[1:]): count for source, count in stamp.items()}),))


def sends(effects):
    return [(each.to, names(each.frame)) for each in effects if isinstance(each, Send)]


def test_figure_5_a_message_is_held_from_the_child_that_lacks_its_past_and_from_no_other():
    """m2 → m1 → m0. Node 4 has m0 first: 5 gets both from 4, 6 gets m2 from elsewhere."""
    four = cube_of(8).nodes[4]
    assert sends(four.receive(packet(0, 1, n2=1, n1=1), 0, 0)) == [(6, [(0, 1)])]
    assert sends(four.receive(packet(2, 1), 6, 0)) == [(5, [(0, 1), (2, 1)])]
    # m1 comes by way of node 5 itself, so nothing waited for it.
    assert sends(four.receive(packet(1, 1, n2=1), 5, 0)) == []


def test_a_gap_in_a_source_s_messages_holds_what_comes_after_it():
    """m2¹ → m2² → m2³ → m0¹, and node 4 lacks only m2²."""
    four = cube_of(8).nodes[4]
    assert sends(four.receive(packet(2, 1), 6, 0)) == [(5, [(2, 1)])]
    assert sends(four.receive(packet(2, 3), 6, 0)) == []
    assert sends(four.receive(packet(0, 1, n2=3), 0, 0)) == [(6, [(0, 1)])]
    assert sends(four.receive(packet(2, 2), 6, 0)) == [(5, [(2, 3), (0, 1), (2, 2)])]


def test_what_was_sent_to_a_child_is_not_sent_again():
    """m2¹ → m0¹ → m0²: the second of node 0 carries no entry for node 2, and waits for it all the same."""
    four = cube_of(8).nodes[4]
    assert sends(four.receive(packet(0, 1, n2=1), 0, 0)) == [(6, [(0, 1)])]
    assert sends(four.receive(packet(0, 2), 0, 0)) == [(6, [(0, 2)])]
    assert sends(four.receive(packet(2, 1), 6, 0)) == [(5, [(0, 1), (0, 2), (2, 1)])]


def test_copies_are_dropped_and_not_passed_on():
    four = cube_of(8).nodes[4]
    assert len(four.receive(packet(0, 1), 0, 0)) == 3
    assert four.receive(packet(0, 1), 0, 0) == []


def test_trees_refuse_a_message_without_a_packet():
    four = cube_of(8).nodes[4]
    with pytest.raises(RemoteFault, match="this protocol does not know"):
        four.receive(packet(0, 1).messages[0], 0, 0)


def test_an_answer_from_inside_a_delivery_depends_on_what_it_answers_and_leaves_behind_it():
    four = cube_of(8).nodes[4]
    effects = four.receive(packet(0, 1), 0, 0)
    assert [type(each) for each in effects] == [Send, Send, Deliver]
    answer = next(each.frame.messages[0] for each in four.broadcast(b"", 0) if isinstance(each, Send))
    assert answer.stamp == {0: 1}


@given(st.sampled_from(["vcube", "vcube-single"]), st.integers(1, 12), st.integers(0, 2**32), st.booleans())
def test_applications_that_answer_inside_deliveries_keep_causal_order(name, nodes, seed, aggregate):
    result = run(
        make_scenario(
            {
                "nodes": nodes,
                "seed": seed,
                "duration": "1s",
                "protocol": {"name": name, "aggregate": aggregate, "diagnosis": 0},
                "network": {"delay": {"kind": "exponential", "mean": "80ms"}},
                "workload": [{"kind": "poisson", "rate": 2.0}, {"kind": "chatter", "answers": 0.9}],
                "log": {"events": "order", "sample": 0},
            }
        )
    )
    judged = judge(result.events, clock="global")
    assert not judged.early and not judged.duplicates
    delivered = sum(row["kind"] == "deliver" for row in result.events.to_pylist())
    assert delivered == nodes * len(judged.past)


# Packets.


@given(st.lists(st.integers(0, 200), min_size=1, max_size=30), st.integers(44, 600))
def test_packets_are_filled_in_order_and_no_further_than_they_hold(sizes, room):
    messages = [Message(index, 1, bytes(size), {}) for index, size in enumerate(sizes)]
    packets = list(fill(messages, room))
    assert [message for each in packets for message in each.messages] == messages
    codec = specification("vcube").make(0, specification("vcube").configure({})).codec
    for each, following in zip(packets, [*packets[1:], None], strict=True):
        assert len(each.messages) == 1 or codec.size(each) <= room
        if following is not None:  # the next message would not have fitted, but for the head of a list
            larger = Packet((*each.messages, following.messages[0]))
            assert codec.size(larger) > room - 3


def test_an_mtu_splits_what_would_travel_together():
    four = cube_of(8, mtu=220).nodes[4]
    payload = bytes(50)
    for seq in (1, 2, 3, 4):
        four.receive(Packet((Message(0, seq, payload, {2: 1} if seq == 1 else {}),)), 0, 0)
    together = sends(four.receive(packet(2, 1), 6, 0))
    assert together == [(5, [(0, 1), (0, 2), (0, 3)]), (5, [(0, 4), (2, 1)])]


# Coupled runs: a message crosses a link in the same time with aggregation and without.


def coupled(nodes, seed, workload, *, aggregate, name="vcube"):
    """When each node delivers each message, and the causal past of each message."""
    result = run(
        make_scenario(
            {
                "nodes": nodes,
                "seed": seed,
                "duration": "1s",
                "protocol": {"name": name, "diagnosis": 0, "aggregate": aggregate, "mtu": 65_535},
                "network": {"delay": {"kind": "normal", "mean": "100ms", "stdev": "60ms"}, "delays": "message"},
                "workload": [workload],
                "log": {"events": "order", "sample": 0},
            }
        )
    )
    times, seen, past = {}, {node: set() for node in range(nodes)}, {}
    for row in result.events.to_pylist():
        message = row["origin"], row["seq"]
        if row["kind"] == "broadcast":
            past[message] = frozenset(seen[row["node"]])
        else:
            times[row["node"], message] = row["t"]
            seen[row["node"]].add(message)
    return times, past


def later_with_aggregation(nodes, seed, workload):
    """Deliveries that come later with aggregation, among the messages that depend on the same in both runs.

    An earlier delivery lets a node broadcast with more in its past; such a message is not the same any more.
    """
    times, past = coupled(nodes, seed, workload, aggregate=True)
    plain_times, plain_past = coupled(nodes, seed, workload, aggregate=False)
    assert times.keys() == plain_times.keys()
    same = {m for m in past if past[m] == plain_past[m]}
    same = {m for m in same if past[m] <= same}
    return sum(times[at] > plain_times[at] for at in times if at[1] in same), times != plain_times


ONCE = {"kind": "once", "at": {"kind": "triangular", "low": "0ms", "mode": "290ms", "high": "580ms"}}
OFTEN = {"kind": "poisson", "rate": 3.0}


@given(st.integers(2, 20), st.integers(0, 2**32), st.sampled_from([ONCE, OFTEN]))
def test_aggregation_makes_no_delivery_later(nodes, seed, workload):
    assert later_with_aggregation(nodes, seed, workload)[0] == 0


def test_it_would_if_the_message_that_sets_the_others_free_came_first(monkeypatch):
    """The control of the test above: it notices."""
    proper = Trees._send_parts
    monkeypatch.setattr(Trees, "_send_parts", lambda self, parts, out: proper(self, parts[-1:] + parts[:-1], out))
    found = [later_with_aggregation(16, seed, OFTEN) for seed in range(3)]
    assert all(differ for _, differ in found)
    assert sum(later for later, _ in found) > 100
