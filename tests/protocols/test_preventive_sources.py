"""PC-broadcast by hand: processes that become sources, and that leave."""

import pytest
from by_hand import ByHand, kinds

from antecast.core import LocalMisuse, Message

A, B = range(2)


def test_a_newcomer_is_announced_when_it_first_broadcasts():
    net = ByHand(2, [(A, B)])
    newcomer = net.join([A])
    net.broadcast(newcomer)
    assert kinds(net.queues[newcomer, A]) == ["Ask"]
    net.carry(newcomer, A)
    assert kinds(net.queues[A, B]) == ["Notice"]
    net.carry()
    assert net.delivered[A] == net.delivered[B] == net.delivered[newcomer] == [(newcomer, 1)]


def test_a_message_of_an_unknown_source_is_a_leftover():
    net = ByHand(2, [(A, B)])
    assert net.nodes[A].receive(Message(7, 1, b"", None), B, 0) == []


def test_who_leaves_is_forgotten_and_its_leftovers_are_dropped():
    net = ByHand(2, [(A, B)])
    newcomer = net.join([A])
    net.broadcast(newcomer)
    net.carry()
    leftover, protocol = net.nodes[A]._log[-1], net.nodes[newcomer]
    net.leave(newcomer)
    net.carry()
    assert newcomer not in net.nodes[B].snapshot()["past"]["vector"]
    assert net.nodes[B].receive(leftover, A, net.now) == []
    with pytest.raises(LocalMisuse, match="has left"):
        protocol.broadcast(b"", 0)


def test_the_counters_are_those_of_the_sources_there_are():
    """A hundred processes come, speak and go; the state is that of the five that are there."""
    net = ByHand(2, [(A, B)], retain=20)
    for _ in range(100):
        newcomer = net.join([A])
        net.rest(1)
        net.broadcast(newcomer)
        net.rest(1)
        net.leave(newcomer)
        net.rest(1)
        net.go(newcomer)
    net.rest(5)
    for node in (A, B):
        state = net.nodes[node].snapshot()
        assert len(state["past"]["vector"]) <= 3 and len(state["past"]["trimmed"]) <= 3 + 20
        assert net.nodes[node].gauges()["log"] <= 20
        assert len(net.delivered[node]) == 100
    net.assert_order()


def test_a_process_that_is_gone_for_good_can_be_retired_by_another():
    net = ByHand(2, [(A, B)])
    newcomer = net.join([A])
    net.broadcast(newcomer)
    net.carry()
    net.crash(newcomer, memory=False)
    net.perform(B, net.nodes[B].retire(newcomer, net.now))
    net.carry()
    assert newcomer not in net.nodes[A].snapshot()["past"]["vector"]
    assert net.nodes[B].retire(newcomer, net.now) == []


def test_only_a_known_source_can_speak_for_another():
    net = ByHand(2, [(A, B)])
    newcomer = net.join([A])
    with pytest.raises(LocalMisuse, match="cannot speak for node 1"):
        net.nodes[newcomer].retire(B, 0)


def test_an_ask_goes_on_until_somebody_known_is_found():
    net = ByHand(2, [(A, B)])
    first = net.join([A])
    second = net.join([first])
    net.broadcast(second)
    net.rest(20)
    assert net.delivered[B] == [(second, 1)]


def test_who_has_asked_two_leaves_only_when_both_have_answered():
    net = ByHand(2, [(A, B)], timeout="1s")
    newcomer = net.join([A, B])
    net.broadcast(newcomer)
    net.wait(2)
    assert [kinds(net.queues[newcomer, peer]) for peer in (A, B)] == [["Ask"], ["Ask"]]
    net.carry(newcomer, A)
    net.carry(A, newcomer)
    assert net.nodes[newcomer].leave(net.now) == []
    assert newcomer in net.nodes[A].snapshot()["past"]["vector"]


def test_who_knows_already_says_so():
    net = ByHand(2, [(A, B)], timeout="1s")
    newcomer = net.join([A, B])
    net.broadcast(newcomer)
    net.wait(2)
    net.carry(newcomer, A, B)
    net.carry(newcomer, B, newcomer)
    net.carry()
    assert newcomer in net.nodes[B].snapshot()["past"]["vector"]
    net.leave(newcomer)
    net.carry()
    assert newcomer not in net.nodes[B].snapshot()["past"]["vector"]
