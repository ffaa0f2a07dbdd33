"""PC-broadcast and the contract: links with two ends, crashes, and what is behind a base."""

import msgspec
import pytest
from by_hand import ByHand, kinds

from antecast.core import Alert, Message, Send
from antecast.protocols.preventive.frames import Ping, Pong, Refuse
from antecast.testing import Bench

SECOND = 10**9

A, B, C, D, E = range(5)


def sent(effects):
    return [effect.frame for effect in effects if isinstance(effect, Send)]


@pytest.mark.parametrize("protocol", ["pc-broadcast", "pc-broadcast-paper"])
class TestBothProtocols:
    def test_a_link_up_without_a_link_down_is_a_new_link(self, protocol):
        net = ByHand(3, [(A, B), (A, C), (B, C)], protocol=protocol)
        net.broadcast(A)
        net.carry()
        assert net.safe(A, B)
        twin = net.make(A, net.settings)
        for node in (B, C):
            twin.link_up(node, 0)
        for call in (net.nodes[A], twin):
            call.receive(Message(B, 1, b"", None), B, 0)
        # One is told of the end of the old link, the other is not.
        twin.link_down(B, 1)
        up = sent(net.nodes[A].link_up(B, 1))
        assert kinds(up) == kinds(sent(twin.link_up(B, 1)))
        assert not net.safe(A, B) and not twin.safe(B)

    def test_a_link_down_of_a_link_that_is_not_up_does_nothing(self, protocol):
        net = ByHand(2, [(A, B)], protocol=protocol)
        net.broadcast(A)
        before = net.nodes[A].snapshot(), net.nodes[A].gauges()
        for peer in (C, 77, A):
            assert net.nodes[A].link_down(peer, 0) == []
        assert (net.nodes[A].snapshot(), net.nodes[A].gauges()) == before

    def test_nothing_is_sent_to_one_without_a_link(self, protocol):
        """A ping may come from one whose link is not up at this end."""
        net = ByHand(2, [(A, B)], protocol=protocol)
        assert net.nodes[A].receive(Ping(9, A, 1, 5), B, 0) == []


class TestLinks:
    def test_a_new_link_does_not_remember_what_was_said_over_the_old_one(self):
        net = ByHand(2, [(A, B)], retain=0, patience="2s")
        net.broadcast(A)
        net.carry()
        net.close(A, B)
        for _ in range(3):
            net.broadcast(A)
        net.open(A, B)
        net.rest(1)  # B is refused, and waits
        assert net.nodes[A].gauges()["refusals"] and not net.safe(A, B)
        net.close(A, B)
        net.wait(10)
        net.open(A, B)
        net.rest(1)
        assert not net.safe(A, B)
        net.rest(30)
        assert net.safe(A, B)

    def test_the_ping_of_a_link_whose_other_end_is_late_is_answered_when_that_is_up(self):
        net = ByHand(3, [(A, B), (B, C)])
        net.broadcast(A)
        net.carry()
        net.perform(A, net.nodes[A].link_up(C, net.now))
        net.carry(A, B, C)
        assert not [frame for frame in net.queues[C, A] if isinstance(frame, Pong)]
        effects = net.nodes[C].link_up(A, net.now)
        (pong,) = (frame for frame in sent(effects) if isinstance(frame, Pong))
        net.nodes[A].receive(pong, C, net.now)
        assert net.safe(A, C)

    def test_one_end_may_be_on_its_second_new_link_while_the_other_is_on_the_old_one(self):
        net = ByHand(3, [(A, B), (B, C), (A, C)])
        net.broadcast(A)
        net.carry()
        for _ in range(2):
            net.nodes[A].link_down(B, net.now)
            net.nodes[A].link_up(B, net.now)
        assert net.safe(B, A) and not net.safe(A, B)
        net.broadcast(B)
        assert kinds(net.lose(B, A)) == ["Message"]  # into the old link, which is gone
        net.close(A, B)
        net.open(A, B)
        net.rest(5)
        assert net.safe(A, B) and net.safe(B, A) and net.delivered[A] == [(A, 1), (B, 1)]


class TestCrashes:
    @pytest.mark.parametrize("retain", [0, 2, 10_000])
    @pytest.mark.parametrize("moment", range(6))
    def test_a_crash_at_any_moment_of_a_new_link_loses_time_only(self, moment, retain):
        """In the midst of a ping, of a sync, of a refusal: what timers would have done, the new link does."""
        net = ByHand(3, [(A, B), (B, C)], retain=retain, patience="2s")
        for node in (A, B, C):
            net.broadcast(node)
            net.carry()
        net.close(A, B)
        net.broadcast(A)
        net.broadcast(C)
        net.open(A, B)
        for _ in range(moment):
            for pair in sorted(net.queues):
                if net.queues[pair]:
                    net.carry(*pair, frames=1)
            net.wait(0.4)
        net.crash(A, memory=True)
        net.wait(1)
        net.recover(A)
        assert net.nodes[A].resume(net.now) == []
        net.open(A, B)
        net.rest(60)
        net.broadcast(A)
        net.broadcast(C)
        net.rest()
        net.assert_order()
        net.assert_complete()
        assert all(net.delivered[node][-2:] == [(A, 3), (C, 3)] or {*net.delivered[node]} >= {(A, 3), (C, 3)}
                   for node in range(3))  # fmt: skip

    def test_the_state_is_plain_values(self):
        net = ByHand(2, [(A, B)], founders=1)
        newcomer = net.join([A])
        for node in (A, B, newcomer):
            net.broadcast(node)
        net.rest(5)
        for node, protocol in net.nodes.items():
            copy = net.make(node, net.settings)
            copy.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(protocol.snapshot()), strict=False))
            assert copy.snapshot() == protocol.snapshot()


class TestBehindABase:
    """0 has been away, and has broadcast more than is kept. What 1 takes as given when it comes back, those behind
    it have to take too, though their links never broke."""

    @pytest.mark.parametrize("retain", range(6))
    @pytest.mark.parametrize("behind", [1, 3])
    def test_those_behind_a_base_go_on(self, retain, behind):
        last = 1 + behind
        line = [(node, node + 1) for node in range(last)]
        net = ByHand(last + 1, line, retain=retain, patience="5s")
        for node in (0, last):
            net.broadcast(node)
        net.carry()
        net.close(0, 1)
        for _ in range(retain + 3):
            net.broadcast(0)
        for node in range(1, last + 1):
            net.broadcast(node)
            net.carry()
        net.open(0, 1)
        net.broadcast(1)  # while 1 is refused
        net.rest(20 * (behind + 1))
        for node in range(last + 1):
            net.broadcast(node)
            net.rest(1)
        net.assert_order()
        net.assert_complete()
        newest = {(node, net.nodes[node].snapshot()["seq"]) for node in net.nodes}
        for node in net.nodes:
            assert newest <= set(net.delivered[node])
            assert not net.alerts[node]

    def test_what_is_on_its_way_is_delivered_before_anybody_gives_it_up(self):
        """1 takes a base. 2 is refused by 1 for a moment, and gets what 1 skipped from 3, who has it."""
        net = ByHand(4, [(0, 1), (1, 2), (0, 3)], retain=2, patience="5s")
        net.broadcast(0)
        net.carry()
        net.close(0, 1)
        for _ in range(2):
            net.broadcast(0)
        net.carry()
        net.open(3, 2)
        net.rest(3)
        assert [name for name in net.delivered[2] if name[0] == 0] == [(0, 1), (0, 2), (0, 3)]
        net.open(0, 1)
        net.rest()
        net.assert_order()
        net.assert_complete()
        assert all(net.nodes[node].gauges()["skipped"] == 0 for node in net.nodes)

    def test_a_refusal_says_what_is_lacking(self):
        net = ByHand(2, [(A, B)], retain=0)
        net.broadcast(A)
        net.carry()
        net.close(A, B)
        net.broadcast(A)
        net.open(A, B)
        net.wait(1)
        net.carry(A, B)
        net.carry(B, A)
        refuse, *_ = (frame for frame in net.queues[A, B] if isinstance(frame, Refuse))
        assert refuse.lacking == {A: 2}
        assert not [each for each in net.nodes[B].receive(refuse, A, net.now) if isinstance(each, Alert)]


def test_a_source_that_came_and_went_while_a_process_was_away_is_named_among_what_it_skips():
    """Nobody remembers how many messages it had; the first that is missing stands for them."""
    bench = Bench("pc-broadcast", nodes=3, settings={"retain": 3})
    bench.link(0, 1)
    bench.link(1, 2)
    for node in range(3):
        bench.broadcast(node)
    bench.run(SECOND)
    bench.unlink(0, 1)
    bench.start(3)
    bench.link(3, 1)
    bench.run(SECOND)
    bench.broadcast(3)
    bench.run(SECOND)
    bench.call(3, "leave")
    bench.run(SECOND)
    assert bench.nodes[3].left
    bench.kill(3)
    for _ in range(5):
        bench.broadcast(1)
    bench.link(0, 1)
    bench.run(60 * SECOND)
    assert bench.delivered[0][3:] == [(1, 5), (1, 6), (1, 7)]
    assert bench.discarded[0] == [(1, 4), (3, 1)]
