"""Flooding by hand: two and three nodes wired back to back."""

import pytest
from wires import Wires

from antecast.core import Deliver, LocalMisuse, Message, Send
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


def hears(wires, node, *frames, peer=0):
    """A neighbour whose frames are made up here."""
    for frame in frames:
        wires.perform(node, wires.nodes[node].receive(frame, peer, wires.now))


def test_what_comes_in_time_is_not_given_up():
    wires = Wires(0, 1, patience="5s", retain=100)
    wires.broadcast(1)
    wires.link(0, 1)
    hears(wires, 1, Message(7, 1, b"", {}), Base({0: 2}), Message(0, 3, b"", {}))
    assert wires.timers[1][PATIENCE] == 5 * SECOND
    hears(wires, 1, Message(0, 1, b"", {}), Message(0, 2, b"", {}))
    wires.fire(1, PATIENCE)
    assert wires.delivered[1] == [(1, 1), (7, 1), (0, 1), (0, 2), (0, 3)]
    assert wires.discarded[1] == []


def test_while_messages_keep_coming_nothing_is_given_up():
    wires = Wires(0, 1, patience="5s", retain=100)
    wires.broadcast(1)
    wires.link(0, 1)
    hears(wires, 1, Base({0: 3}), Message(0, 4, b"", {}), Message(0, 1, b"", {}))
    wires.pass_time(9 * SECOND)
    assert wires.delivered[1] == [(1, 1), (0, 1)]
    wires.pass_time(10 * SECOND)
    assert wires.delivered[1] == [(1, 1), (0, 1), (0, 4)]


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
def test_an_offer_that_nothing_needs_is_not_taken(protocol):
    wires = Wires(0, 1, protocol=protocol, patience="5s")
    wires.broadcast(1)
    wires.link(0, 1)
    hears(wires, 1, Base({0: 3, 7: 2**63 - 1}))
    assert wires.timers[1] == {}
    hears(wires, 1, *(Message(7, seq, b"", None if protocol == "fifo" else {}) for seq in (1, 2)))
    assert wires.delivered[1] == [(1, 1), (7, 1), (7, 2)]


def test_no_more_is_given_up_than_is_waited_for():
    wires = Wires(0, 1, patience="5s")
    wires.broadcast(1)
    wires.link(0, 1)
    hears(wires, 1, Message(7, 3, b"", {0: 2}), Base({0: 9, 7: 9, 8: 9}))
    wires.fire(1, PATIENCE)
    assert wires.delivered[1] == [(1, 1), (7, 3)]
    wires.broadcast(1)
    assert wires.drop()[-1][2].stamp == {0: 2, 7: 3}


def test_messages_that_are_held_and_given_up_are_reported():
    """A barrier names a part of the past only: what another no longer keeps is given up as a whole."""
    wires = Wires(0, 1, protocol="vector-changes", patience="5s")
    wires.broadcast(1)
    wires.link(0, 1)
    hears(wires, 1, Message(0, 2, b"", {}), Message(7, 1, b"", {0: 3}), Base({0: 3}))
    wires.fire(1, PATIENCE)
    assert wires.discarded[1] == [(0, 2)]
    assert wires.delivered[1] == [(1, 1), (7, 1)]
    assert wires.nodes[1].receive(Message(0, 3, b"", {}), 0, 0) == []


def behind():
    """Node 1 has delivered one message of node 0, and lacks another that node 0 no longer keeps."""
    wires = Wires(0, 1, retain=1, patience="5s")
    wires.broadcast(0)
    wires.meet(0, 1)
    wires.broadcast(0)
    wires.broadcast(0)
    wires.link(0, 1)
    wires.transfer()
    return wires


def test_an_offer_outlives_a_contact_that_is_shorter_than_patience():
    wires = behind()
    wires.unlink(0, 1)
    wires.pass_time(5 * SECOND)
    assert wires.delivered[1] == [(0, 1), (0, 3)]


def test_patience_goes_on_after_a_crash():
    wires = behind()
    state, wires.timers[1] = wires.nodes[1].snapshot(), {}
    wires.nodes[1] = wires.spec.make(1, wires.settings)
    wires.nodes[1].restore(state)
    wires.perform(1, wires.nodes[1].resume(2 * SECOND))
    assert wires.timers[1] == {PATIENCE: 5 * SECOND}
    wires.fire(1, PATIENCE)
    assert wires.delivered[1] == [(0, 1), (0, 3)]


def test_a_second_link_up_is_a_new_link():
    wires = Wires(0, 1, repair="1s")
    wires.broadcast(0)
    wires.link(0, 1)
    wires.drop()
    assert [type(effect.frame) for effect in wires.nodes[0].link_up(1, 0) if isinstance(effect, Send)] == [Summary]
    wires.broadcast(0)
    assert len(wires.drop()) == 1


def test_the_end_of_a_link_that_is_not_up_is_nothing():
    wires = Wires(0, 1, repair="1s")
    assert wires.nodes[0].link_down(1, 0) == []
    wires.link(0, 1)
    wires.unlink(0, 1)
    assert wires.nodes[0].link_down(1, 0) == []


def test_too_large_a_payload_is_refused_at_the_sender():
    with pytest.raises(LocalMisuse, match="exceeds the limit"):
        Wires(0).nodes[0].broadcast(bytes(MAX_PAYLOAD + 1), 0)


def test_a_snapshot_restores_the_same_state():
    wires = Wires(0, 1, retain=3)
    wires.link(0, 1)
    for _ in range(5):
        wires.broadcast(0)
    hears(wires, 0, Message(9, 4, b"early", {}), peer=1)
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
