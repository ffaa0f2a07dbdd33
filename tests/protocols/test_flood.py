"""Flooding by hand: two and three nodes wired back to back."""

import pytest

from antecast.core import Deliver, LocalMisuse, Message, Send
from antecast.core.frames import MAX_PAYLOAD
from antecast.protocols.flood import REPAIR
from antecast.protocols.received import Received
from antecast.protocols.retained import PATIENCE, Base, Summary
from antecast.testing import Bench

SECOND = 10**9


def test_an_empty_network_starts_without_a_word():
    bench = Bench("vector", nodes=2)
    bench.link(0, 1)
    assert bench.transfer() == []


def test_a_message_is_passed_on_once_and_not_back():
    bench = Bench("vector", nodes=3)
    bench.link(0, 1)
    bench.link(1, 2)
    bench.broadcast(0)
    assert [(flight.sender, flight.to) for flight in bench.transfer()] == [(0, 1), (1, 2)]
    assert all(bench.delivered[node] == [(0, 1)] for node in range(3))


def test_in_a_triangle_each_copy_after_the_first_is_dropped():
    bench = Bench("vector", nodes=3)
    for pair in ((0, 1), (1, 2), (0, 2)):
        bench.link(*pair)
    bench.broadcast(0)
    bench.transfer()
    assert all(bench.delivered[node] == [(0, 1)] for node in range(3))


def test_a_message_is_passed_on_before_it_is_delivered():
    """So that an answer from inside the delivery leaves behind it."""
    bench = Bench("vector", nodes=2)
    node = bench.nodes[0]
    node.link_up(1, 0)
    node.link_up(2, 0)
    effects = node.receive(Message(5, 1, b"", {}), 1, 0)
    assert [type(effect) for effect in effects] == [Send, Deliver]


def test_neighbours_exchange_what_the_other_lacks_when_a_link_comes_up():
    bench = Bench("vector", nodes=2)
    bench.broadcast(0)
    bench.broadcast(1)
    bench.link(0, 1)
    bench.transfer()
    assert sorted(bench.delivered[0]) == sorted(bench.delivered[1]) == [(0, 1), (1, 1)]


def test_a_node_with_nothing_asks_when_it_hears_that_there_is_something():
    bench = Bench("vector", nodes=2)
    bench.broadcast(0)
    bench.link(0, 1)
    kinds = [type(flight.frame) for flight in bench.transfer()]
    # Node 0 cannot know what node 1 has: it sends all of it with its summary's answer.
    assert kinds.count(Message) == 1 and kinds.count(Summary) == 2
    assert bench.delivered[1] == [(0, 1)]


def test_repair_finds_what_was_lost():
    bench = Bench("vector", nodes=2, settings={"repair": "1s"})
    bench.link(0, 1)
    bench.broadcast(0)
    assert len(bench.drop()) == 1
    bench.fire(0, REPAIR)
    bench.transfer()
    assert bench.delivered[1] == [(0, 1)]
    assert bench.timers[0][REPAIR] == 2 * SECOND


def test_repair_goes_round_the_neighbours_and_stops_without_any():
    bench = Bench("vector", nodes=3, settings={"repair": "1s"})
    bench.link(0, 1)
    bench.link(0, 2)
    asked = set()
    for _ in range(2):
        bench.fire(0, REPAIR)
        asked |= {flight.to for flight in bench.drop() if flight.sender == 0}
    assert asked == {1, 2}
    bench.unlink(0, 1)
    bench.unlink(0, 2)
    assert bench.nodes[0].timer(REPAIR, 9 * SECOND) == []


def test_only_the_last_messages_are_kept():
    bench = Bench("vector", nodes=2, settings={"retain": 2})
    for _ in range(5):
        bench.broadcast(0)
    assert bench.nodes[0].gauges()["stored"] == 2
    bench.link(0, 1)
    bench.transfer()
    assert bench.delivered[1] == [(0, 4), (0, 5)]


def test_a_node_with_a_past_waits_before_it_gives_messages_up():
    bench = Bench("vector", nodes=3, settings={"retain": 1, "patience": "5s"})
    bench.broadcast(0)
    bench.link(0, 1)
    bench.transfer()
    bench.unlink(0, 1)
    for _ in range(3):
        bench.broadcast(0)
    bench.link(0, 1)
    bench.transfer()
    assert bench.delivered[1] == [(0, 1)]
    assert bench.timers[1][PATIENCE] == 5 * SECOND
    bench.fire(1, PATIENCE)
    assert bench.delivered[1] == [(0, 1), (0, 4)]
    assert bench.discarded[1] == [(0, 3)], "the last that never came, for all of its source"


def test_what_comes_in_time_is_not_given_up():
    bench = Bench("vector", nodes=2, settings={"patience": "5s", "retain": 100})
    bench.broadcast(1)
    bench.link(0, 1)
    bench.inject(0, 1, Message(7, 1, b"", {}), Base({0: 2}), Message(0, 3, b"", {}))
    assert bench.timers[1][PATIENCE] == 5 * SECOND
    bench.inject(0, 1, Message(0, 1, b"", {}), Message(0, 2, b"", {}))
    bench.fire(1, PATIENCE)
    assert bench.delivered[1] == [(1, 1), (7, 1), (0, 1), (0, 2), (0, 3)]
    assert bench.discarded[1] == []


def test_while_messages_keep_coming_nothing_is_given_up():
    bench = Bench("vector", nodes=2, settings={"patience": "5s", "retain": 100})
    bench.broadcast(1)
    bench.link(0, 1)
    bench.inject(0, 1, Base({0: 3}), Message(0, 4, b"", {}), Message(0, 1, b"", {}))
    bench.pass_time(9 * SECOND)
    assert bench.delivered[1] == [(1, 1), (0, 1)]
    bench.pass_time(10 * SECOND)
    assert bench.delivered[1] == [(1, 1), (0, 1), (0, 4)]


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
def test_an_offer_that_nothing_needs_is_not_taken(protocol):
    bench = Bench(protocol, nodes=2, settings={"patience": "5s"})
    bench.broadcast(1)
    bench.link(0, 1)
    bench.inject(0, 1, Base({0: 3, 7: 2**63 - 1}))
    assert bench.timers[1] == {}
    bench.inject(0, 1, *(Message(7, seq, b"", None if protocol == "fifo" else {}) for seq in (1, 2)))
    assert bench.delivered[1] == [(1, 1), (7, 1), (7, 2)]


def test_no_more_is_given_up_than_is_waited_for():
    bench = Bench("vector", nodes=2, settings={"patience": "5s"})
    bench.broadcast(1)
    bench.link(0, 1)
    bench.inject(0, 1, Message(7, 3, b"", {0: 2}), Base({0: 9, 7: 9, 8: 9}))
    bench.fire(1, PATIENCE)
    assert bench.delivered[1] == [(1, 1), (7, 3)]
    bench.broadcast(1)
    assert bench.drop()[-1].frame.stamp == {0: 2, 7: 3}


def test_messages_that_are_held_and_given_up_are_reported():
    """A barrier names a part of the past only: what another no longer keeps is given up as a whole."""
    bench = Bench("vector-changes", nodes=2, settings={"patience": "5s"})
    bench.broadcast(1)
    bench.link(0, 1)
    bench.inject(0, 1, Message(0, 2, b"", {}), Message(7, 1, b"", {0: 3}), Base({0: 3}))
    bench.fire(1, PATIENCE)
    assert bench.discarded[1] == [(0, 2)]
    assert bench.delivered[1] == [(1, 1), (7, 1)]
    assert bench.nodes[1].receive(Message(0, 3, b"", {}), 0, 0) == []


def behind():
    """Node 1 has delivered one message of node 0, and lacks another that node 0 no longer keeps."""
    bench = Bench("vector", nodes=2, settings={"retain": 1, "patience": "5s"})
    bench.broadcast(0)
    bench.meet(0, 1)
    bench.broadcast(0)
    bench.broadcast(0)
    bench.link(0, 1)
    bench.transfer()
    return bench


def test_an_offer_outlives_a_contact_that_is_shorter_than_patience():
    bench = behind()
    bench.unlink(0, 1)
    bench.pass_time(5 * SECOND)
    assert bench.delivered[1] == [(0, 1), (0, 3)]


def test_patience_goes_on_after_a_crash():
    bench = behind()
    bench.crash(1)
    bench.pass_time(2 * SECOND)
    bench.recover(1)
    assert bench.timers[1] == {PATIENCE: 5 * SECOND}
    bench.fire(1, PATIENCE)
    assert bench.delivered[1] == [(0, 1), (0, 3)]


def test_a_second_link_up_is_a_new_link():
    bench = Bench("vector", nodes=2, settings={"repair": "1s"})
    bench.broadcast(0)
    bench.link(0, 1)
    bench.drop()
    assert [type(effect.frame) for effect in bench.nodes[0].link_up(1, 0) if isinstance(effect, Send)] == [Summary]
    bench.broadcast(0)
    assert len(bench.drop()) == 1


def test_the_end_of_a_link_that_is_not_up_is_nothing():
    bench = Bench("vector", nodes=2, settings={"repair": "1s"})
    assert bench.nodes[0].link_down(1, 0) == []
    bench.link(0, 1)
    bench.unlink(0, 1)
    assert bench.nodes[0].link_down(1, 0) == []


def test_too_large_a_payload_is_refused_at_the_sender():
    with pytest.raises(LocalMisuse, match="exceeds the limit"):
        Bench("vector", nodes=1).nodes[0].broadcast(bytes(MAX_PAYLOAD + 1), 0)


def test_a_snapshot_restores_the_same_state():
    bench = Bench("vector", nodes=2, settings={"retain": 3})
    bench.link(0, 1)
    for _ in range(5):
        bench.broadcast(0)
    bench.inject(1, 0, Message(9, 4, b"early", {}))
    bench.transfer()
    for node, protocol in bench.nodes.items():
        copy = bench.make(node)
        copy.restore(protocol.snapshot())
        assert copy.snapshot() == protocol.snapshot()
        assert copy.gauges() == protocol.gauges()


def test_received_counts_without_gaps_and_remembers_the_rest():
    received = Received()
    assert received.add(1, 3) and received.add(1, 1) and not received.add(1, 3)
    assert (received.upto, received.beyond) == ({1: 1}, {1: {3}})
    assert received.add(1, 2) and not received.add(1, 1)
    assert (received.upto, received.beyond) == ({1: 3}, {})
    received.add(1, 6)
    received.advance({1: 5, 2: 0})
    assert (received.upto, received.beyond) == ({1: 6}, {})
