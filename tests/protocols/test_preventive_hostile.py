"""PC-broadcast with neighbours that are broken, or lie: what one frame can do, and what it cannot."""

import msgspec
import pytest
from by_hand import ByHand, kinds

from antecast.core import Alert, Deliver, LocalMisuse, Message, RemoteFault, Send, SetTimer
from antecast.protocols import specification
from antecast.protocols.preventive import catching_up, frames, past, pings
from antecast.protocols.preventive import pc as pc_module
from antecast.protocols.preventive.frames import (
    EVERYTHING,
    Anew,
    Ask,
    Claim,
    Disown,
    Gap,
    Hello,
    Known,
    Notice,
    Part,
    Ping,
    Pong,
    Refuse,
    Start,
    Sync,
)

A, B, C, D, E = range(5)
LAST = 2**63 - 1


def alerts(effects):
    return [effect.text for effect in effects if isinstance(effect, Alert)]


def sent(effects):
    return [effect.frame for effect in effects if isinstance(effect, Send)]


def message(origin, seq):
    return Message(origin, seq, b"", None)


def delivers(effects):
    """Whether a node hands its own new message to its application: it goes on as before."""
    return any(isinstance(effect, Deliver) for effect in effects)


class TestStrangers:
    ALL = (
        message(B, 1), Notice(B, 1, 9, False), Ping(9, 8, 1, 3), Pong(7), Hello(), Sync({}, {}, True, False),
        Refuse({B: 1}, None), Start({}, {}, [], False), Ask(), Known(), Part({B: 1}, {}, []), Gap(), Anew(),
        Claim(3), Disown(3),
    )  # fmt: skip

    @pytest.mark.parametrize("frame", ALL, ids=lambda frame: type(frame).__name__)
    @pytest.mark.parametrize("protocol", ["pc-broadcast", "pc-broadcast-paper"])
    def test_frames_without_a_link_are_refused_and_change_nothing(self, frame, protocol):
        net = ByHand(3, [(A, B)], protocol=protocol)
        net.broadcast(A)
        net.carry()
        for stranger in (C, 9):
            before = net.nodes[A].snapshot(), net.nodes[A].gauges()
            with pytest.raises(RemoteFault, match=f"node {stranger} sent"):
                net.nodes[A].receive(frame, stranger, 0)
            assert (net.nodes[A].snapshot(), net.nodes[A].gauges()) == before

    def test_nor_do_they_after_the_link_has_gone(self):
        net = ByHand(2, [(A, B)])
        net.close(A, B)
        with pytest.raises(RemoteFault):
            net.nodes[A].receive(message(B, 1), B, 0)

    @pytest.mark.parametrize(
        "frame",
        [
            Start({}, {}, [], False), Start({B: 3}, {}, [], False), Start({}, {}, [C], False),
            Refuse({B: 3}, None), Refuse({}, None), Anew(), Part({}, {}, []),
        ],
        ids=lambda frame: type(frame).__name__,
    )  # fmt: skip
    def test_what_nobody_asked_for_is_refused_and_changes_nothing(self, frame):
        net = ByHand(2, [(A, B)])
        net.broadcast(A)
        before = net.nodes[A].snapshot(), net.nodes[A].gauges()
        with pytest.raises(RemoteFault):
            net.nodes[A].receive(frame, B, 0)
        assert (net.nodes[A].snapshot(), net.nodes[A].gauges()) == before


class TestPings:
    @pytest.mark.parametrize("protocol", ["pc-broadcast", "pc-broadcast-paper"])
    def test_a_ping_with_no_hops_left_goes_nowhere(self, protocol):
        net = ByHand(3, [(A, B), (B, C)], protocol=protocol)
        assert net.nodes[B].receive(Ping(A, C, 1, 0), A, 0) == []

    @pytest.mark.parametrize("protocol", ["pc-broadcast", "pc-broadcast-paper"])
    def test_every_ping_that_is_passed_on_can_be_read(self, protocol):
        for hops in range(4):
            net = ByHand(3, [(A, B), (B, C)], protocol=protocol)
            for frame in sent(net.nodes[B].receive(Ping(A, C, 1, hops), A, 0)):
                assert net.nodes[C].codec.decode(net.nodes[B].codec.encode(frame)) == frame

    def test_pongs_that_nobody_waits_for_do_nothing(self):
        net = ByHand(2, [(A, B)])
        for number in (0, 1, LAST):
            assert net.nodes[A].receive(Pong(number), B, 0) == []

    def test_more_pings_than_are_remembered_do_not_go_round_in_circles(self, monkeypatch):
        """In a triangle each ping would come back twice as often as it was sent, up to 255 times."""
        monkeypatch.setattr(pings, "SEEN", 8)
        net = ByHand(4, [(A, B), (B, C), (A, C), (A, D)])
        for origin in range(100, 130):
            net.perform(A, net.nodes[A].receive(Ping(origin, 99, 1, 255), D, 0))
        for _ in range(20):
            for pair in ((A, B), (A, C), (B, C), (B, A), (C, A), (C, B)):
                net.carry(*pair)
        assert not any(net.queues[pair] for pair in ((A, B), (A, C), (B, C), (B, A), (C, A), (C, B)))

    def test_a_number_far_ahead_in_the_name_of_another_stops_its_pings_for_a_while_only(self):
        net = ByHand(4, [(A, B), (B, C)])
        node = net.nodes[B]
        node.receive(Ping(A, 9, LAST, 255), C, 0)
        assert not sent(node.receive(Ping(A, D, 1, 255), A, 10**9))
        assert sent(node.receive(Ping(A, D, 2, 255), A, 20 * 10**9))

    def test_pings_that_come_before_the_link_are_answered_when_it_is_up_and_not_without_bound(self, monkeypatch):
        monkeypatch.setattr(pings, "SEEN", 8)
        net = ByHand(3, [(A, B)])
        for origin in range(100, 200):
            assert net.nodes[A].receive(Ping(origin, A, 1, 3), B, 0) == []
        assert sent(net.nodes[A].link_up(100, 0)) == [Pong(1)]
        assert sent(net.nodes[A].link_up(150, 0)) == []


class TestGaps:
    def test_a_gap_holds_the_link_until_its_sender_has_begun_anew(self):
        net = ByHand(2, [(A, B)])
        effects = net.nodes[A].receive(message(B, 2), B, 0)
        assert sent(effects) == [Gap()]
        assert "node 1 sent message 1:2 before 1:1: the link from it loses frames or" in alerts(effects)[0]
        assert net.nodes[A].snapshot()["past"]["vector"] == {}
        # What follows may depend on what is missing, and a ping would say that all is here.
        assert net.nodes[A].receive(message(B, 1), B, 0) == []
        assert net.nodes[A].receive(Notice(B, 1, 9, False), B, 0) == []
        assert net.nodes[A].receive(Ping(B, A, 1, 3), B, 0) == []
        assert net.nodes[A].receive(Anew(), B, 0) == []
        assert [type(effect) for effect in net.nodes[A].receive(message(B, 1), B, 0)] == [Deliver]

    def test_who_hears_of_a_gap_syncs_and_nothing_is_lost(self):
        net = ByHand(2, [(A, B)])
        for _ in range(4):
            net.broadcast(A)
        del net.queues[A, B][1]
        net.carry(A, B)
        assert net.delivered[B] == [(A, 1)]
        assert kinds(net.queues[B, A]) == ["Gap"]
        net.carry(B, A)
        assert not net.safe(A, B)
        assert kinds(net.queues[A, B]) == ["Anew", "Sync"]
        net.rest(2)
        assert net.safe(A, B) and net.delivered[B] == [(A, 1), (A, 2), (A, 3), (A, 4)]

    def test_it_is_said_once_a_link(self):
        net = ByHand(2, [(A, B)])
        assert alerts(net.nodes[A].receive(message(B, 2), B, 0))
        net.nodes[A].receive(Anew(), B, 0)
        assert not alerts(net.nodes[A].receive(message(B, 2), B, 0))

    def test_an_honest_neighbour_that_was_misled_is_not_blamed(self):
        """E makes B believe in messages of C that C never sent. C passes on what B sends, but not these; so a ping
        from B that comes by C tells D nothing of them. When B is the first to pass on the real third one, D finds
        a gap, syncs, and all go on."""
        net = ByHand(5, [(B, C), (C, D), (E, B)])
        net.broadcast(E)
        net.carry()
        for seq in (1, 2):
            net.perform(B, net.nodes[B].receive(message_known(net, C, seq), E, net.now))
        net.carry()
        assert net.nodes[C].snapshot()["past"]["vector"] == {E: 1}
        assert "node 1 has messages of this node up to 2:1, which this node never broadcast" in net.alerts[C][0]
        assert "node 2 has broadcast 0 messages, and" in net.alerts[B][0]
        net.open(B, D)
        net.carry()
        assert net.safe(B, D)
        for _ in range(3):
            net.broadcast(C)
        net.carry(C, B, D)  # 2:3, before the first two have come from C
        assert kinds(net.queues[D, B]) == ["Gap"]
        net.rest()
        net.broadcast(C)
        net.broadcast(B)
        net.rest()
        for node in (B, C, D):
            assert {(C, 3), (C, 4), (B, 1)} <= set(net.delivered[node])

    def test_a_message_far_ahead_does_no_harm_to_its_source(self):
        net = ByHand(4, [(A, B), (B, C)])
        net.broadcast(A)
        net.carry()
        net.open(B, D)
        net.carry()
        net.perform(B, net.nodes[B].receive(message(A, LAST), D, net.now))
        net.broadcast(A)
        net.carry()
        assert net.delivered[B] == net.delivered[C] == [(A, 1), (A, 2)] and not net.alerts[A]


def message_known(net, origin, seq):
    """A message in the name of another, which the bench has to know of."""
    net.bit.setdefault((origin, seq), 1 << len(net.bit))
    net.past.setdefault((origin, seq), 0)
    return message(origin, seq)


class TestOneLife:
    """A number stands for one life: coming back under it without the state is never silent."""

    def reborn(self, *, peers=(B,), retain=10_000, broadcasts=3, founders=4, **options):
        net = ByHand(4, [(A, B), (B, C)], retain=retain, founders=founders, **options)
        for _ in range(broadcasts):
            net.broadcast(A)
        net.rest(5)
        net.crash(A, memory=False)
        net.start(A)
        for peer in peers:
            net.open(A, peer)
        return net

    @pytest.mark.parametrize("retain", [0, 1, 2, 10_000])
    @pytest.mark.parametrize("newcomers", ["kept", "now"])
    @pytest.mark.parametrize("founders", [4, 1])
    @pytest.mark.parametrize("speaks", [False, True])
    def test_who_comes_back_without_its_state_is_told_and_so_are_its_neighbours(
        self, retain, newcomers, founders, speaks
    ):
        reborn = C if founders == 1 else A
        net = ByHand(4, [(A, B), (B, C)], retain=retain, newcomers=newcomers, founders=founders)
        for _ in range(3):
            net.broadcast(reborn)
        net.rest(5)
        net.crash(reborn, memory=False)
        net.start(reborn)
        if speaks:
            net.nodes[reborn].broadcast(b"again", net.now)
        net.open(reborn, B)
        net.rest()
        assert any("this node has lost its state; if so, start it under a new number" in each
                   for each in net.alerts[reborn])  # fmt: skip
        assert any(f"node {reborn} has broadcast" in each and "lost its state" in each for each in net.alerts[B])

    def test_each_says_so_once_a_link(self):
        net = self.reborn(peers=(B, C))
        net.rest()
        assert len(net.alerts[A]) == len({text.split()[1] for text in net.alerts[A]}) <= 2
        assert len(net.alerts[B]) <= 1 and len(net.alerts[C]) <= 1

    def test_its_counter_is_its_own(self):
        net = self.reborn()
        net.rest()
        assert net.nodes[A].snapshot()["seq"] == 0
        assert A not in net.nodes[A].snapshot()["past"]["vector"]

    def test_the_others_are_not_harmed(self):
        net = self.reborn(peers=(B, C))
        for node in (B, C, A):
            net.nodes[node].broadcast(b"", net.now) if node == A else net.broadcast(node)
        net.rest()
        net.broadcast(B)
        net.rest()
        assert net.delivered[C][-1] == net.delivered[A][-1] == (B, 2)
        assert {(B, 1), (C, 1)} <= set(net.delivered[B]) & set(net.delivered[C]) & set(net.delivered[A])

    @pytest.mark.parametrize("retain", [0, 10_000])
    def test_who_has_left_and_comes_back_under_its_number_is_told(self, retain):
        net = ByHand(2, [(A, B)], retain=retain)
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.carry()
        net.leave(newcomer)
        net.carry()
        assert newcomer not in net.nodes
        net.start(newcomer)
        net.open(newcomer, A)
        net.rest(5)
        net.perform(
            newcomer, [e for e in net.nodes[newcomer].broadcast(b"", net.now) if not isinstance(e, Deliver)]
        )
        net.rest(5)
        assert any("start it under a new number" in text for text in net.alerts[newcomer])

    @pytest.mark.parametrize(
        "frame",
        [
            message(A, 3), Notice(A, 3, 9, False), Claim(3), Sync({A: 3}, {}, True, False), Claim(EVERYTHING),
            Sync({A: EVERYTHING - 1}, {}, False, False),
        ],
        ids=lambda frame: f"{type(frame).__name__}",
    )  # fmt: skip
    def test_a_claim_to_messages_it_never_broadcast_is_ignored_and_reported_once(self, frame):
        net = ByHand(2, [(A, B)])
        net.broadcast(A)
        net.carry()
        before = net.nodes[A].snapshot()
        effects = net.nodes[A].receive(frame, B, 0)
        (text,) = alerts(effects)
        assert "node 1 is wrong, or this node has lost its state; if so, start it under a new number" in text
        assert Disown(1) in sent(effects)
        assert net.nodes[A].snapshot() == before
        assert not alerts(net.nodes[A].receive(frame, B, 0))

    def test_the_rest_of_such_a_sync_counts(self):
        net = ByHand(2)
        net.broadcast(A)
        net.open(A, B)
        effects = net.nodes[A].receive(Sync({A: 7, B: 2}, {}, True, False), B, 0)
        assert [type(frame) for frame in sent(effects)] == [Disown, Start, Sync] and net.safe(A, B)

    def test_a_base_that_names_me_is_taken_but_for_that(self):
        net = ByHand(3, [(B, C)])
        net.broadcast(B)
        net.carry()
        net.open(A, B)
        net.carry(B, A)
        assert kinds(net.queues[A, B]) == ["Sync"]
        effects = net.nodes[A].receive(Start({A: 9, B: 1}, {}, [], False), B, net.now)
        assert "up to 0:9" in alerts(effects)[0]
        assert net.nodes[A].snapshot()["past"]["vector"] in ({B: 1}, {A: 0, B: 1})
        assert net.nodes[A].snapshot()["seq"] == 0

    def test_a_disown_without_reason_says_nothing(self):
        net = ByHand(2, [(A, B)])
        net.broadcast(B)
        net.carry()
        assert net.nodes[A].receive(Disown(1), B, 0) == []
        assert len(alerts(net.nodes[A].receive(Disown(0), B, 0))) == 1

    def test_who_is_said_to_have_gone_is_told(self):
        net = ByHand(2, [(A, B)])
        newcomer = net.join([A])
        net.broadcast(newcomer)
        net.carry()
        net.perform(B, net.nodes[B].retire(newcomer, net.now))
        net.carry()
        assert "says that this node has gone for good" in net.alerts[newcomer][0]
        assert net.nodes[newcomer].left
        with pytest.raises(LocalMisuse, match="new number"):
            net.nodes[newcomer].broadcast(b"", net.now)


class TestSyncs:
    def with_departures(self):
        """A has forgotten sources, and no longer knows which: births have to tell."""
        net = ByHand(2, [(A, B)], retain=0)
        net.nodes[A]._past.forgot_more = True
        return net

    def test_births_in_a_circle_come_to_an_end(self):
        net = self.with_departures()
        births = {7: (8, 1), 8: (9, 1), 9: (7, 1)}
        net.nodes[A].link_up(B, 0)
        net.nodes[A].receive(Sync(dict.fromkeys(births, 1), births, True, False), B, 0)
        net.nodes[A].receive(Sync(dict.fromkeys(births, 1), births, True, True), B, 0)
        assert delivers(net.nodes[A].broadcast(b"still here", 0))

    def test_a_long_row_of_births_costs_what_it_is_long(self):
        """65 536 sources, each announced by the next: asked one by one it would be two thousand million steps."""
        net = self.with_departures()
        net.broadcast(A)
        net.nodes[A].link_up(B, 0)
        births = {source: (source + 1, 1) for source in range(10, 10 + 65_535)}
        net.nodes[A].receive(Sync(dict.fromkeys(births, 1), births, True, False), B, 0)
        assert delivers(net.nodes[A].broadcast(b"still here", 0))

    def test_a_base_with_births_in_a_circle_comes_to_an_end(self):
        net = self.with_departures()
        node = net.nodes[A]
        node.link_up(B, 0)
        node.receive(Hello(), B, 0)
        births = {7: (8, 1), 8: (7, 1)}
        node.receive(Start({7: 1, 8: 1}, births, [], True), B, 0)
        node.receive(Sync({5: 1}, {}, True, False), B, 0)
        assert delivers(node.broadcast(b"still here", 0))

    def test_a_base_cannot_make_founders_go(self):
        """Their messages would be delivered again."""
        net = ByHand(3, [(A, B), (A, C)])
        net.broadcast(C)
        net.carry()
        net.close(A, B)
        net.open(A, B)
        net.rest(3)
        net.nodes[A]._links[B].unanswered = net.nodes[A]._links[B].taking = 1
        net.nodes[A].receive(Start({}, {}, [C], True), B, net.now)
        assert net.nodes[A].snapshot()["past"]["vector"] == {C: 1}

    def test_a_base_is_taken_once(self):
        net = ByHand(3, [(B, C)])
        net.broadcast(B)
        net.carry()
        net.open(A, B)
        net.carry(B, A)
        net.nodes[A].receive(Start({B: 1}, {}, [], False), B, net.now)
        with pytest.raises(RemoteFault, match="not asked for"):
            net.nodes[A].receive(Start({C: 10**9}, {}, [], False), B, net.now)

    def test_a_base_that_no_process_can_have_is_refused(self):
        net = ByHand(3, [(B, C)])
        net.broadcast(B)
        net.carry()
        net.open(A, B)
        net.carry(B, A)
        before = net.nodes[A].snapshot()
        with pytest.raises(RemoteFault, match="no process can have"):
            net.nodes[A].receive(Start({B: EVERYTHING}, {}, [], False), B, net.now)
        assert net.nodes[A].snapshot() == before

    def test_a_newcomer_whose_provider_is_silent_joins_through_another(self):
        net = ByHand(3, [(B, C)])
        net.broadcast(B)
        net.carry()
        newcomer = net.join([A, B])
        net.queues.clear()
        net.perform(newcomer, net.nodes[newcomer].receive(Hello(), A, net.now))
        net.perform(newcomer, net.nodes[newcomer].receive(Hello(), B, net.now))
        assert kinds(net.queues[newcomer, A]) == ["Sync"] and not net.queues[newcomer, B]
        net.wait(17)
        net.carry(newcomer, B)
        net.carry(B, newcomer)
        assert net.delivered[newcomer] == [(B, 1)]

    def test_refusals_of_what_cannot_be_do_not_wake_it_up_more_often(self):
        net = ByHand(2, [(A, B)])
        net.broadcast(A)
        net.close(A, B)
        net.open(A, B)
        net.wait(3)
        node = net.nodes[A]
        for provider in (A, B, 77):
            node._links[B].unanswered = 1
            effects = node.receive(Refuse(dict.fromkeys(range(5, 500), LAST), provider), B, net.now)
            assert [type(each) for each in effects] == [SetTimer]

    def test_a_sync_of_more_sources_than_a_frame_holds_comes_in_parts(self):
        sources = 100_000
        spec = specification("pc-broadcast")
        one, other = (spec.make(node, spec.configure({"retain": 10})) for node in (0, 1))
        one.link_up(2, 0)
        for origin in range(3, sources):
            one.receive(message(origin, 1), 2, 0)
        queue = [(one, each) for each in one.link_up(1, 0)] + [(other, each) for each in other.link_up(0, 0)]
        queue += [(one, each) for each in one.timer("pc/link/1", 10**9)]
        sizes = []
        while queue:
            node, effect = queue.pop(0)
            if isinstance(effect, Send) and effect.to in (0, 1):
                data = node.codec.encode(effect.frame)
                sizes.append(len(data))
                to = (one, other)[effect.to]
                queue += [(to, each) for each in to.receive(to.codec.decode(data), node.node, 10**9)]
        assert one.safe(1) and other.snapshot()["past"]["vector"].keys() == set(range(3, sources))
        assert max(sizes) < frames.CODEC.max_frame

    def test_the_largest_frames_can_be_read(self):
        full = {(1 << 32) - 1 - each: LAST for each in range(frames.PIECE + 5)}
        births = dict.fromkeys(full, ((1 << 32) - 1, LAST))
        for frame in (Sync(full, births, True, True), Start(full, births, [*full], True), Refuse(full, 1)):
            *parts, last = frames.in_parts(frame)
            read = [frames.CODEC.decode(frames.CODEC.encode(each)) for each in (*parts, last)]
            assert frames.joined(read[:-1], read[-1]) == frame

    def test_parts_without_an_end_are_bounded(self, monkeypatch):
        monkeypatch.setattr(catching_up, "MOST_SOURCES", 1000)
        net = ByHand(2, [(A, B)])
        part = Part(dict.fromkeys(range(500), 1), {}, [])
        with pytest.raises(RemoteFault, match="more than 1000 sources"):
            for _ in range(10):
                net.nodes[A].receive(part, B, 0)

    def test_sources_have_a_limit_and_say_what_to_do(self, monkeypatch):
        for module in (pc_module, past):
            monkeypatch.setattr(module, "MOST_SOURCES", 50)
        net = ByHand(2, [(A, B)], founders=1000)
        node = net.nodes[A]
        for origin in range(1, 51):
            node.receive(message(origin, 1), B, 0)
        before = node.snapshot()
        for frame in (message(51, 1), Notice(51, 1, 2000, False)):
            with pytest.raises(RemoteFault, match="50 are known here"):
                node.receive(frame, B, 0)
        with pytest.raises(LocalMisuse, match="set `founders` so that sources are announced"):
            node.broadcast(b"", 0)
        assert node.snapshot() == before
        node.receive(Notice(1, 2, 2000, False), B, 0)
        assert node.gauges()["sources"] == 50


def test_every_frame_survives_the_wire():
    for frame in TestStrangers.ALL:
        data = frames.CODEC.encode(frame)
        assert frames.CODEC.decode(data) == frame and msgspec.msgpack.decode(data[1:])
