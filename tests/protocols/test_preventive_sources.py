"""PC-broadcast by hand: processes that become sources, and that leave."""

import pytest
from by_hand import ByHand, kinds
from restless import SECOND

from antecast.core import Alert, Leaving, LocalMisuse, Message, Send
from antecast.protocols import specification
from antecast.protocols.preventive.frames import Notice, Ping
from antecast.protocols.preventive.membership import SPONSOR
from antecast.protocols.preventive.past import Past

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


def test_a_newcomer_whom_nobody_can_announce_says_so_once():
    spec = specification("pc-broadcast")
    newcomer = spec.make(5, spec.settings(founders=1, timeout=SECOND))
    newcomer.link_up(6, 0)
    newcomer.broadcast(b"", 0)
    said = [
        effect.text for at in range(1, 20) for effect in newcomer.timer(SPONSOR, at) if isinstance(effect, Alert)
    ]
    assert len(said) == 1 and "(1 so far)" in said[0]


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
    protocol = net.nodes[newcomer]
    net.leave(newcomer)
    assert not protocol.left and newcomer in net.nodes[A].snapshot()["past"]["vector"]
    net.carry()  # B's answer, the last words, and the answer to these
    assert protocol.left and newcomer not in net.nodes
    assert newcomer not in net.nodes[A].snapshot()["past"]["vector"]


def test_an_answer_that_was_lost_with_its_link_is_asked_for_again():
    net = ByHand(2, [(A, B)], timeout="1s")
    newcomer = net.join([A, B])
    net.broadcast(newcomer)
    net.wait(2)
    net.carry(newcomer, A)
    net.carry(A, newcomer)
    net.close(newcomer, B)  # with the question on it
    net.leave(newcomer)
    net.rest(3)
    assert newcomer in net.nodes
    net.open(newcomer, B)
    net.rest(3)
    assert newcomer not in net.nodes and newcomer not in net.nodes[A].snapshot()["past"]["vector"]


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


class TestLeaving:
    def test_drivers_can_see_that_a_process_leaves(self):
        spec = specification("pc-broadcast")
        assert isinstance(spec.make(0, spec.configure({})), Leaving)

    def test_it_stays_until_a_neighbour_has_its_last_words(self):
        net = ByHand(2, [(A, B)])
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.carry()
        protocol = net.nodes[newcomer]
        net.leave(newcomer)
        assert kinds(net.queues[newcomer, A]) == ["Notice", "Ping"] and not protocol.left
        net.carry(newcomer, A)
        assert not protocol.left
        net.carry(A, newcomer)
        assert protocol.left

    def test_messages_that_wait_to_be_announced_go_out_first(self):
        net = ByHand(2, [(A, B)])
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.leave(newcomer)
        with pytest.raises(LocalMisuse, match="has left"):
            net.nodes[newcomer].broadcast(b"", 0)
        net.carry()
        assert newcomer not in net.nodes and net.delivered[B] == [(newcomer, 1)]
        assert newcomer not in net.nodes[B].snapshot()["past"]["vector"]

    def test_who_was_never_heard_of_goes_at_once(self):
        net = ByHand(2)
        newcomer = net.join([A])
        net.leave(newcomer)
        assert newcomer not in net.nodes

    def test_without_a_link_it_waits_for_one(self):
        net = ByHand(2, [(A, B)])
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.carry()
        net.close(newcomer, A)
        net.leave(newcomer)
        net.rest(3)
        assert newcomer in net.nodes
        net.open(newcomer, B)
        net.rest(10)
        assert newcomer not in net.nodes and newcomer not in net.nodes[A].snapshot()["past"]["vector"]

    def test_a_crash_does_not_make_it_a_member_again(self):
        net = ByHand(2, [(A, B)])
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.carry()
        net.leave(newcomer)
        net.crash(newcomer, memory=True)  # with its last words on their way
        net.recover(newcomer)
        net.open(newcomer, A)
        net.rest(5)
        assert newcomer not in net.nodes and newcomer not in net.nodes[A].snapshot()["past"]["vector"]

    def test_those_who_go_do_not_count_as_having_heard_another(self):
        """B would go with what it heard and may not have passed on."""
        net = ByHand(3, [(A, B)])
        first, second = net.join([A]), net.join([A])
        net.open(first, second)
        for node in (first, second):
            net.broadcast(node)
        net.rest(5)
        net.leave(first)
        effects = net.nodes[first].receive(Ping(second, first, 10**6, 0), second, net.now)
        assert not [effect for effect in effects if isinstance(effect, Send)]

    def test_a_founder_waits_to_be_heard_and_is_not_forgotten(self):
        net = ByHand(3, [(A, B), (B, 2)])
        net.broadcast(2)
        protocol = net.nodes[2]
        net.leave(2)
        assert not protocol.left
        net.carry()
        assert protocol.left and net.nodes[A].snapshot()["past"]["vector"] == {2: 1}

    @pytest.mark.parametrize("retain", range(6))
    def test_three_founders_and_twenty_who_come_and_go_leave_three_sources(self, retain):
        net = ByHand(3, [(A, B), (B, 2)], retain=retain)
        for each in range(20):
            newcomer = net.join([each % 3])
            net.rest(2)
            net.broadcast(newcomer)
            net.broadcast(each % 3)
            net.rest(2)
            if each % 5 == 1:
                net.close(B, 2)
            net.leave(newcomer)
            net.rest(3)
            assert newcomer not in net.nodes
            net.open(B, 2)
            net.rest(30)
        net.now += 100 * SECOND
        net.rest(5)
        net.assert_order()
        net.assert_complete()
        for node in range(3):
            assert net.nodes[node].snapshot()["past"]["vector"].keys() == {0, 1, 2}
            assert net.nodes[node].gauges()["sources"] == 3


def test_a_base_keeps_the_sources_whose_departure_is_still_in_the_log():
    """2 announces 7, who announces 9 and leaves. One who has all that in its log takes the announcement of 7, and
    no more, as given: what it gives as a base itself must name 7, or who takes that would think that 9 has
    gone."""
    past, other = (Past(retain=10, founders=3) for _ in range(2))
    for each in (past, other):
        for entry in (Notice(2, 1, 7, False), Notice(7, 1, 9, False), Notice(7, 2, 7, True)):
            each.add(entry)
    past.take({1: 5, 2: 1, 7: 0}, {7: (2, 1)}, [], False)
    base = past.base([])
    assert base.base == {1: 5, 2: 1, 7: 0}
    other.take(base.base, base.births, base.gone, base.more)
    assert 9 in other.vector and 7 not in other.vector
