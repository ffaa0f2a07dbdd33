"""PC-broadcast by hand: the paper's figures, and the life of links and processes."""

import pytest
from by_hand import ByHand, kinds

from antecast.core import Deliver, LinkSafety, LocalMisuse, Message, Send
from antecast.core.frames import MAX_PAYLOAD
from antecast.protocols import specification
from antecast.protocols.preventive.frames import Hello, Ping, Pong
from antecast.protocols.preventive.pc import PreventiveBroadcast

A, B, C, D, E = range(5)


class TestFigures:
    """Of "Breaking the scalability barrier of causal broadcast for large and dynamic systems"."""

    def story_of_figure_3(self, protocol):
        net = ByHand(4, [(A, B), (B, D)], protocol=protocol)
        net.broadcast(A)
        net.open(A, D)
        net.broadcast(A)
        net.carry(A, D)  # the new link is the faster one
        net.carry()
        return net

    def test_figure_3_plain_flooding_lets_a_new_link_overtake(self):
        assert self.story_of_figure_3("r-broadcast").violations == [(D, (A, 1))]

    def test_figure_4_a_new_link_is_used_once_it_is_safe(self):
        net = self.story_of_figure_3("pc-broadcast")
        assert not net.violations
        assert net.delivered[D] == [(A, 1), (A, 2)]
        assert net.safe(A, D) and net.safe(D, A)

    def test_figure_4_step_by_step(self):
        net = ByHand(4, [(A, B), (B, D)])
        net.broadcast(A)
        net.open(A, D)
        assert kinds(net.queues[A, B]) == ["Message", "Ping"]
        assert kinds(net.queues[A, D]) == ["Hello"]
        net.broadcast(A)
        assert kinds(net.queues[A, B]) == ["Message", "Ping", "Message"]
        net.carry(A, B)
        net.carry(B, D, frames=2)
        assert net.delivered[D] == [(A, 1)]
        assert isinstance(net.queues[D, A][-1], Pong)
        net.carry(D, A)
        assert net.safe(A, D)
        assert [frame.seq for frame in net.queues[A, D] if isinstance(frame, Message)] == [2]

    def crowded(self, retain=2, **options):
        """Fig. 5: messages are delivered while the ping of A → D is under way."""
        net = ByHand(5, [(A, B), (B, D), (A, E), (E, B)], retain=retain, **options)
        net.broadcast(A)
        net.carry()
        net.open(A, D)
        return net

    def test_figure_5a_slow_pings_do_not_make_buffers_grow(self):
        net = self.crowded()
        for _ in range(50):
            net.broadcast(A)
        assert net.nodes[A].gauges()["log"] == 2
        net.rest()
        assert net.safe(A, D) and len(net.delivered[D]) == 51 and not net.violations

    def test_figure_5b_nor_does_a_neighbour_who_has_gone_unnoticed(self):
        net = self.crowded()
        net.crash(D, memory=False)
        net.nodes[A].link_up(D, net.now)
        for _ in range(50):
            net.broadcast(A)
            net.wait(1)
            net.carry(A, B, A)
        gauges = net.nodes[A].gauges()
        assert gauges["log"] == 2 and gauges["outstanding"] <= 3 and gauges["unsafe"] == 1

    def test_figure_5c_nor_a_pong_that_is_lost(self):
        net = self.crowded()
        net.carry(A, B, D)
        assert isinstance(net.lose(D, A)[-1], Pong)
        for _ in range(50):
            net.broadcast(A)
        assert net.nodes[A].gauges()["log"] == 2
        net.rest()
        assert net.safe(A, D) and len(net.delivered[D]) == 51 and not net.violations

    @pytest.mark.parametrize(
        "options",
        [
            {"protocol": "pc-broadcast", "retain": 2, "tries": 2},
            {"protocol": "pc-broadcast-paper", "algorithm": 3, "buffer": 2, "ids": "checked"},
        ],
        ids=["ours", "printed"],
    )
    def test_figure_6_a_buffer_that_overflows_begins_anew(self, options):
        net = ByHand(5, [(A, B), (B, D), (A, E), (E, B)], **options)
        net.broadcast(A)
        net.carry()
        net.open(A, D)  # π1
        net.broadcast(A)
        net.broadcast(A)
        net.carry(A, B, D)
        net.broadcast(E)
        net.carry(E, A)  # x: the buffer holds two
        net.carry(D, A)  # ρ1: too late
        assert not net.safe(A, D)
        net.broadcast(E)
        net.carry(E, A)  # y
        net.carry(A, B, D)  # π2
        net.carry(E, B, D)
        net.carry(D, A)  # ρ2
        assert net.safe(A, D)
        net.carry()
        assert not net.violations and len(net.delivered[D]) == 5


class TestLinks:
    def test_it_tells_overlays_which_links_are_safe(self):
        assert isinstance(PreventiveBroadcast(0, specification("pc-broadcast").configure({})), LinkSafety)

    def test_a_network_without_a_past_starts_without_a_word(self):
        net = ByHand(3)
        for pair in ((A, B), (B, C), (A, C)):
            net.open(*pair)
        assert not any(net.queues.values())
        assert net.safe(A, B) and net.safe(B, A)

    def test_a_message_is_passed_on_and_kept_before_it_is_delivered(self):
        """So that an answer from inside the delivery leaves behind it."""
        net = ByHand(3, [(A, B), (A, C)])
        effects = net.nodes[A].receive(Message(B, 1, b"", None), B, 0)
        assert [type(effect) for effect in effects] == [Send, Deliver]
        assert net.nodes[A].gauges()["log"] == 1

    def test_a_copy_costs_nothing(self):
        net = ByHand(3, [(A, B), (A, C)])
        net.broadcast(B)
        net.carry()
        assert net.nodes[A].receive(Message(B, 1, b"", None), C, 0) == []

    def test_neighbours_who_were_introduced_take_three_hops(self):
        net = ByHand(3, [(A, B), (B, C)])
        net.broadcast(A)
        net.carry()
        net.open(A, C, by=B)
        assert kinds(net.queues[A, B]) == ["Ping"] and not net.queues[A, C]
        net.carry(A, B, C, A)
        assert net.safe(A, C) and not net.safe(C, A)
        net.carry(C, B, A, C)
        assert net.safe(C, A)

    def test_an_introduction_over_a_link_that_is_not_safe_is_not_passed_on(self):
        net = ByHand(4, [(A, B), (B, C), (C, D)])
        net.broadcast(A)
        net.carry()
        net.close(B, C)
        net.open(B, C)
        net.open(A, C, by=B)
        net.carry(A, B)
        assert Ping not in map(type, net.queues[B, C])
        net.rest()
        assert net.safe(A, C) and net.safe(B, C)

    def test_without_a_safe_way_out_the_neighbour_is_asked_what_it_has(self):
        net = ByHand(3, [(A, B)])
        net.broadcast(A)
        net.broadcast(C)
        net.carry()
        net.open(B, C)
        net.close(A, B)
        net.rest()
        assert net.delivered[C] == [(C, 1), (A, 1)] and net.delivered[B] == [(A, 1), (C, 1)]
        assert net.safe(B, C) and net.safe(C, B)

    def test_a_link_that_comes_back_is_a_new_link(self):
        net = ByHand(3, [(A, B), (B, C), (A, C)])
        net.broadcast(A)
        net.carry()
        net.close(A, B)
        net.broadcast(A)
        net.open(A, B)
        assert not net.safe(A, B)
        net.rest()
        assert net.safe(A, B) and net.delivered[B] == [(A, 1), (A, 2)]


class TestCatchingUp:
    def parted(self, **options):
        """Two on either side, and more messages than are kept."""
        net = ByHand(4, [(A, B), (C, D), (B, C)], **options)
        net.broadcast(A)
        net.carry()
        net.close(B, C)
        for _ in range(5):
            net.broadcast(A)
            net.broadcast(D)
        net.carry()
        net.open(B, C)
        return net

    def test_after_a_partition_logs_that_reach_back_restore_everything(self):
        net = self.parted(retain=6)
        net.rest()
        net.assert_order()
        net.assert_complete()
        assert {len(net.delivered[node]) for node in range(4)} == {11}

    def test_logs_that_do_not_cost_messages_and_say_so(self):
        net = self.parted(retain=2, patience="5s")
        net.rest(4)
        assert not net.safe(B, C)
        net.rest(60)
        net.assert_order()
        net.assert_complete()
        gauges = [net.nodes[node].gauges() for node in range(4)]
        assert sum(each["skipped"] for each in gauges) > 0
        assert all(len(net.delivered[node]) + gauges[node]["skipped"] == 11 for node in range(4))
        net.broadcast(A)
        net.broadcast(D)
        net.carry()
        assert all(set(net.delivered[node]) >= {(A, 7), (D, 6)} for node in range(4))

    def test_who_is_refused_waits_for_another_to_have_it(self):
        net = ByHand(3, [(A, B), (B, C)], retain=1)
        for _ in range(3):
            net.broadcast(A)
        net.carry(A, B)
        net.open(A, C)
        net.carry(A, C, A, C)
        net.rest()
        assert net.delivered[C] == [(A, 1), (A, 2), (A, 3)]
        assert net.nodes[C].gauges()["skipped"] == 0

    def test_a_newcomer_takes_what_one_neighbour_keeps(self):
        net = ByHand(3, [(A, B), (B, C), (A, C)], retain=2)
        for _ in range(4):
            net.broadcast(A)
        net.carry()
        newcomer = net.join([A, B, C])
        net.rest()
        assert net.delivered[newcomer] == [(A, 3), (A, 4)]
        net.broadcast(newcomer)
        net.broadcast(B)
        net.rest()
        net.assert_order()
        assert set(net.delivered[A]) == {(A, 1), (A, 2), (A, 3), (A, 4), (newcomer, 1), (B, 1)}

    def test_or_nothing_of_the_past(self):
        net = ByHand(2, [(A, B)], newcomers="now")
        net.broadcast(A)
        net.carry()
        newcomer = net.join([A])
        net.rest()
        net.broadcast(B)
        net.rest()
        assert net.delivered[newcomer] == [(B, 1)]

    def test_a_newcomer_whose_first_neighbour_goes_joins_through_another(self):
        net = ByHand(3, [(A, B), (B, C)])
        net.broadcast(A)
        net.carry()
        newcomer = net.join([A, C])
        net.carry(A, newcomer)
        net.close(A, newcomer)
        net.rest()
        assert net.delivered[newcomer] == [(A, 1)]

    def test_a_crash_with_memory_loses_nothing(self):
        net = ByHand(3, [(A, B), (B, C), (A, C)])
        net.broadcast(A)
        net.carry()
        net.broadcast(A)  # on its way when A crashes
        net.crash(A, memory=True)
        net.broadcast(B)
        net.carry()
        net.recover(A)
        net.open(A, B)
        net.open(A, C)
        net.broadcast(A)
        net.rest()
        net.assert_order()
        net.assert_complete()
        assert {len(net.delivered[node]) for node in range(3)} == {4}

    def test_a_crash_without_memory_needs_a_new_number(self):
        net = ByHand(3, [(A, B), (B, C), (A, C)])
        net.broadcast(A)
        net.carry()
        net.crash(A, memory=False)
        again = net.join([B, C])
        net.rest()
        net.broadcast(again)
        net.rest()
        assert net.delivered[B][-1] == net.delivered[C][-1] == (again, 1)

    def test_a_snapshot_restores_the_same_state(self):
        net = ByHand(2, [(A, B)], retain=2, founders=1)
        newcomer = net.join([A])
        for node in (A, B, newcomer, A):
            net.broadcast(node)
        net.rest(5)
        net.leave(newcomer)
        net.carry()
        for node, protocol in net.nodes.items():
            copy = net.make(node, net.settings)
            copy.restore(protocol.snapshot())
            assert copy.snapshot() == protocol.snapshot()

    def test_who_joins_where_it_is_known_already_is_told_so(self):
        """C's own message is all that there is. A hears of it, and makes its link to C safe by a ping; then A's
        greeting, which came by the slow way, makes C ask A for what C has already."""
        net = ByHand(4, [(C, B), (B, A)])
        net.broadcast(C)
        net.carry(C, B, A)
        net.open(A, C)
        net.carry(A, B, C)
        net.carry(C, A)
        assert net.safe(A, C) and kinds(net.queues[A, C]) == ["Hello"]
        net.rest(3)
        net.broadcast(D)
        net.open(D, C)
        net.rest()
        assert net.safe(D, C) and net.safe(C, D)
        assert net.delivered[A] == net.delivered[B] == [(C, 1), (D, 1)]


class TestLimits:
    def test_what_is_too_large_or_has_a_lifetime_is_refused(self):
        node = ByHand(1).nodes[A]
        with pytest.raises(LocalMisuse, match="exceeds the limit"):
            node.broadcast(bytes(MAX_PAYLOAD + 1), 0)
        with pytest.raises(LocalMisuse, match="does not support lifetimes"):
            node.broadcast(b"", 0, lifetime=1)


class TestCosts:
    @staticmethod
    def control_bytes(name, processes):
        """Bytes of node 5's fourth message beside its payload, when every process has been heard of."""
        spec = specification(name)
        node = spec.make(5, spec.configure({"retain": 0}))
        node.link_up(1, 0)
        stamp = {} if name == "vector" else None
        for origin in range(processes):
            if origin != 5:
                node.receive(Message(origin, 1, b"", stamp), 1, 0)
        for _ in range(3):
            node.broadcast(b"", 0)
        (message,) = [each.message for each in node.broadcast(b"payload", 0) if isinstance(each, Deliver)]
        return len(node.codec.encode(message)) - len(b"payload")

    def test_control_bytes_do_not_depend_on_the_number_of_processes(self):
        assert {self.control_bytes("pc-broadcast", n) for n in (10, 1_000, 100_000)} == {8}
        assert self.control_bytes("vector", 1_000) > 3_000

    def test_the_largest_names_add_a_few_bytes(self):
        codec = specification("pc-broadcast").make(0, specification("pc-broadcast").configure({})).codec
        assert len(codec.encode(Message(2**32 - 1, 2**63 - 1, b"", None))) == 20

    def test_gauges_tell_what_it_costs(self):
        net = ByHand(4, [(A, B), (B, D)])
        net.broadcast(A)
        net.open(A, D)
        gauges = net.nodes[A].gauges()
        assert gauges["pings"] == gauges["outstanding"] == gauges["unsafe"] == 1
        assert gauges["sources"] == gauges["log"] == 1
        ping, hello = Ping(A, D, 1, 255), Hello()
        size = net.nodes[A].codec.size
        assert gauges["control_bytes"] == size(ping) + size(hello)
        net.rest()
        assert net.nodes[D].gauges()["pongs"] == 1 and net.nodes[A].gauges()["outstanding"] == 0
