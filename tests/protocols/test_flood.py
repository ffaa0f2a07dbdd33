"""Flooding by hand: two and three nodes wired back to back."""

import pytest
from wires import Wires

from antecast.core import Deliver, LocalMisuse, Message, RemoteFault, Send
from antecast.core.frames import MAX_PAYLOAD
from antecast.protocols.flood import REPAIR
from antecast.protocols.received import Received
from antecast.protocols.retained import PATIENCE, Base, Summary

SECOND = 10**9


def test_an_empty_network_starts_without_a_word():
    wires = Wires(0, 1)
    wires.link(0, 1)
    assert wires.transfer() == []


def test_a_message_is_passed_on_once_and_not_back():
    wires = Wires(0, 1, 2)
    wires.link(0, 1)
    wires.link(1, 2)
    wires.broadcast(0)
    assert [(sender, to) for sender, to, _ in wires.transfer()] == [(0, 1), (1, 2)]
    assert all(wires.delivered[node] == [(0, 1)] for node in range(3))


def test_in_a_triangle_each_copy_after_the_first_is_dropped():
    wires = Wires(0, 1, 2)
    for pair in ((0, 1), (1, 2), (0, 2)):
        wires.link(*pair)
    wires.broadcast(0)
    wires.transfer()
    assert all(wires.delivered[node] == [(0, 1)] for node in range(3))


def test_a_message_is_passed_on_before_it_is_delivered():
    """So that an answer from inside the delivery leaves behind it."""
    wires = Wires(0, 1)
    node = wires.nodes[0]
    node.link_up(1, 0)
    node.link_up(2, 0)
    effects = node.receive(Message(5, 1, b"", {}), 1, 0)
    assert [type(effect) for effect in effects] == [Send, Deliver]


def test_neighbours_exchange_what_the_other_lacks_when_a_link_comes_up():
    wires = Wires(0, 1)
    wires.broadcast(0)
    wires.broadcast(1)
    wires.link(0, 1)
    wires.transfer()
    assert sorted(wires.delivered[0]) == sorted(wires.delivered[1]) == [(0, 1), (1, 1)]


def test_a_node_with_nothing_asks_when_it_hears_that_there_is_something():
    wires = Wires(0, 1)
    wires.broadcast(0)
    wires.link(0, 1)
    kinds = [type(frame) for _, _, frame in wires.transfer()]
    # Node 0 cannot know what node 1 has: it sends all of it with its summary's answer.
    assert kinds.count(Message) == 1 and kinds.count(Summary) == 2
    assert wires.delivered[1] == [(0, 1)]


def test_repair_finds_what_was_lost():
    wires = Wires(0, 1, repair="1s")
    wires.link(0, 1)
    wires.broadcast(0)
    assert len(wires.drop()) == 1
    wires.fire(0, REPAIR)
    wires.transfer()
    assert wires.delivered[1] == [(0, 1)]
    assert wires.timers[0][REPAIR] == 2 * SECOND


def test_repair_goes_round_the_neighbours_and_stops_without_any():
    wires = Wires(0, 1, 2, repair="1s")
    wires.link(0, 1)
    wires.link(0, 2)
    asked = set()
    for _ in range(2):
        wires.fire(0, REPAIR)
        asked |= {to for sender, to, _ in wires.drop() if sender == 0}
    assert asked == {1, 2}
    wires.unlink(0, 1)
    wires.unlink(0, 2)
    assert wires.nodes[0].timer(REPAIR, 9 * SECOND) == []


def test_only_the_last_messages_are_kept():
    wires = Wires(0, 1, retain=2)
    for _ in range(5):
        wires.broadcast(0)
    assert wires.nodes[0].gauges()["stored"] == 2
    wires.link(0, 1)
    wires.transfer()
    assert wires.delivered[1] == [(0, 4), (0, 5)]


def test_a_node_with_a_past_waits_before_it_gives_messages_up():
    wires = Wires(0, 1, 2, retain=1, patience="5s")
    wires.broadcast(0)
    wires.link(0, 1)
    wires.transfer()
    wires.unlink(0, 1)
    for _ in range(3):
        wires.broadcast(0)
    wires.link(0, 1)
    wires.transfer()
    assert wires.delivered[1] == [(0, 1)]
    assert wires.timers[1][PATIENCE] == 5 * SECOND
    wires.fire(1, PATIENCE)
    assert wires.delivered[1] == [(0, 1), (0, 4)]


def test_what_comes_in_time_is_not_given_up():
    wires = Wires(0, 1, 2, patience="5s", retain=100)
    wires.broadcast(1)
    node = wires.nodes[1]
    wires.perform(1, node.receive(Message(7, 1, b"", {}), 0, 0))
    wires.perform(1, node.receive(Base({0: 2}), 0, 0))
    for seq in (1, 2):
        wires.perform(1, node.receive(Message(0, seq, b"", {}), 0, 0))
    wires.fire(1, PATIENCE)
    assert wires.delivered[1] == [(1, 1), (7, 1), (0, 1), (0, 2)]
    assert wires.discarded[1] == []


def test_a_message_that_waits_when_its_past_is_given_up_is_reported():
    wires = Wires(1)
    node = wires.nodes[1]
    wires.perform(1, node.receive(Message(0, 2, b"", {}), 0, 0))
    wires.perform(1, node.receive(Base({0: 3}), 0, 0))
    assert wires.discarded[1] == [(0, 2)]
    assert wires.delivered[1] == []
    assert node.receive(Message(0, 3, b"", {}), 0, 0) == []


def test_a_message_in_our_name_that_we_never_sent_is_a_remote_fault():
    wires = Wires(0)
    with pytest.raises(RemoteFault, match="never broadcast here"):
        wires.nodes[0].receive(Message(0, 1, b"", {}), 1, 0)


def test_too_large_a_payload_is_refused_at_the_sender():
    with pytest.raises(LocalMisuse, match="exceeds the limit"):
        Wires(0).nodes[0].broadcast(bytes(MAX_PAYLOAD + 1), 0)


def test_a_snapshot_restores_the_same_state():
    wires = Wires(0, 1, retain=3)
    wires.link(0, 1)
    for _ in range(5):
        wires.broadcast(0)
    wires.perform(0, wires.nodes[0].receive(Message(9, 4, b"early", {}), 1, 0))
    wires.transfer()
    for node, protocol in wires.nodes.items():
        copy = wires.spec.make(node, wires.settings)
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
