"""Epidemic exchange among neighbours who are wrong, broken or lying: nothing hangs, nothing grows, and the honest
go on among themselves."""

import time

import msgspec
import pytest

from antecast.core import Alert, Deliver, Message, MessageId, RemoteFault, Send
from antecast.protocols import specification
from antecast.protocols.contact import Again, Offer, Request
from antecast.protocols.delta import Stamp
from antecast.protocols.epidemic import ASK, OFFERS
from antecast.protocols.runs import LAST
from antecast.testing import Bench
from antecast.testing.hostile import Play, Stage, Step

SECOND = 10**9
FAR = (1 << 63) - 1
PROTOCOLS = ["epidemic", "barrier", "epidemic-vector", "delta"]


def stamp(protocol, entries=None, deadline=5 * SECOND):
    entries = entries or {}
    return {"epidemic": None, "delta": Stamp(deadline, entries)}.get(protocol, entries)


def node_of(protocol, node=0, *, peers=(1,), broadcasts=2, **settings):
    """A node that has broadcast, in contact with others."""
    spec = specification(protocol)
    made = spec.make(node, spec.configure(settings))
    for _ in range(broadcasts):
        made.broadcast(b"", 0)
    for peer in peers:
        made.link_up(peer, 0)
    return made


def decoded(node, frame):
    """A frame as it comes over the wire, so that no test sends what a decoder refuses."""
    return node.codec.decode(node.codec.encode(frame))


def kinds(effects, kind):
    return [effect for effect in effects if isinstance(effect, kind)]


def frames_of(protocol):
    return [
        Message(7, 1, b"", stamp(protocol)),
        Offer({7: (1, 3)}),
        Request({0: (1, 3)}),
        Again(),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", range(4))
def test_a_frame_without_a_link_changes_nothing(protocol, kind):
    node = node_of(protocol)
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="without a link"):
        node.receive(decoded(node, frames_of(protocol)[kind]), 9, SECOND)
    assert node.snapshot() == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_offer_of_messages_that_the_node_never_broadcast_raises_the_alarm_once_and_is_heard_otherwise(protocol):
    node = node_of(protocol)
    effects = node.receive(Offer({0: (1, 9), 7: (1, 4)}), 1, SECOND)
    (alert,) = kinds(effects, Alert)
    assert "node 1 has messages of this node up to 0:8, which this node never broadcast" in alert.text
    assert "start it under a new number" in alert.text
    assert [send.frame for send in kinds(effects, Send)] == [Request({7: (1, 4)})]
    assert not kinds(node.receive(Message(0, 8, b"", stamp(protocol)), 1, SECOND), Alert | Deliver)
    node.link_up(1, SECOND)
    assert kinds(node.receive(Message(0, 8, b"", stamp(protocol)), 1, SECOND), Alert)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_node_that_lost_its_state_takes_nothing_of_its_old_life(protocol):
    bench = Bench(protocol, nodes=2)
    bench.broadcast(0, b"old")
    bench.meet(0, 1)
    bench.start(0)  # it has lost its state, and breaks the rule that it needs a new number
    bench.delivered[0].clear()
    bench.link(0, 1)
    assert bench.queue(0, 1) and bench.queue(1, 0) == [Offer({0: (1, 2)})]
    bench.carry(1, 0)
    assert bench.alerts[0] and len(bench.queue(0, 1)) == 1
    bench.broadcast(0, b"new")
    assert bench.delivered[0] == [(0, 1)]
    assert not kinds(bench.nodes[0].receive(Message(0, 1, b"old", stamp(protocol)), 1, 0), Deliver)


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector"])
@pytest.mark.parametrize("entries", [{7: 3}, {7: 4}, {7: FAR}])
def test_a_message_that_waits_for_itself_or_a_later_one_is_refused(protocol, entries):
    node = node_of(protocol)
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="waits for itself"):
        node.receive(decoded(node, Message(7, 3, b"", entries)), 1, SECOND)
    assert node.snapshot() == before


@pytest.mark.parametrize("entries", [{7: 5 * SECOND}, {3: 5 * SECOND + 1}, {3: 1 << 62}])
def test_a_message_that_expires_before_what_it_waits_for_is_refused(entries):
    node = node_of("delta")
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="expires before"):
        node.receive(decoded(node, Message(7, 3, b"", Stamp(5 * SECOND, entries))), 1, SECOND)
    assert node.snapshot() == before


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector", "delta"])
def test_a_message_that_waits_for_one_never_broadcast_here_is_not_taken_until_that_is(protocol):
    node = node_of(protocol, lifetime="10s") if protocol == "delta" else node_of(protocol)
    claim = 10 * SECOND + 4 if protocol == "delta" else 3
    message = Message(7, 1, b"", stamp(protocol, {0: claim}, 12 * SECOND))
    for _ in range(2):
        before = node.snapshot()
        effects = node.receive(message, 1, SECOND)
        assert not kinds(effects, Deliver)
        assert node.snapshot() == before
    node.broadcast(b"", SECOND)
    assert kinds(node.receive(message, 1, SECOND), Deliver)


def test_a_wait_for_one_never_broadcast_is_told_once_a_contact():
    node = node_of("barrier")
    told = [kinds(node.receive(Message(7, seq, b"", {0: 9}), 1, 0), Alert) for seq in (1, 2)]
    assert [len(alerts) for alerts in told] == [1, 0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "spans", [{0: (1, FAR)}, {0: (FAR - 1, FAR), 7: (1, 1 << 60)}, dict.fromkeys(range(20_000), (1, FAR))]
)
def test_endless_runs_cost_what_is_there(protocol, spans):
    node = node_of(protocol)
    for source in range(1, 50):
        node.receive(Message(source, 1, b"", stamp(protocol)), 1, 0)
    begin = time.process_time()
    for frame in (Offer(spans), Request(spans)):
        effects = node.receive(decoded(node, frame), 1, 0)
        for send in kinds(effects, Send):
            decoded(node, send.frame)
    assert time.process_time() - begin < 1


def test_a_run_cut_into_pieces_is_asked_for_in_frames_that_are_small_enough():
    """Every second message of a source is here: what is wanted of one long run is as many runs again."""
    node = node_of("epidemic")
    node._dissemination._seen.spans[7] = tuple(range(1, 140_001))
    requests = [send.frame for send in node.receive(Offer({7: (1, FAR)}), 1, 0)]
    assert len(requests) == 3
    assert [decoded(node, request) for request in requests] == requests


def test_a_full_house_is_offered_in_frames_that_are_small_enough_and_arrives():
    bench = Bench("epidemic", nodes=3, settings={"order": "oldest"})
    bench.nodes[0].link_up(2, 0)
    for source in range(10, 70_010):
        bench.nodes[0].receive(Message(source, 1, b"", None), 2, 0)
    bench.nodes[0].link_down(2, 0)
    travelled = bench.meet(0, 1)
    assert len(bench.delivered[1]) == 70_000
    assert sum(isinstance(flight.frame, Offer) for flight in travelled) == 5


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector", "delta"])
def test_more_sources_than_a_stamp_can_name_are_refused_and_the_node_can_still_broadcast(protocol):
    node = node_of(protocol)
    refused = 0
    for source in range(10, 70_000):
        try:
            node.receive(Message(source, 1, b"", stamp(protocol)), 1, SECOND)
        except RemoteFault as fault:
            refused += 1
            assert "as many as a stamp can name" in str(fault)
    assert refused == 70_000 - 10 - (1 << 16) + 2
    (delivery,) = kinds(node.broadcast(b"", SECOND), Deliver)
    assert decoded(node, delivery.message) == delivery.message


def test_offers_without_end_are_refused():
    node = node_of("epidemic")
    for part in range(OFFERS):
        node.receive(Offer({7 + part: (1, 3)}), 1, 0)
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="more than 16 offers"):
        node.receive(Offer({99: (1, 3)}), 1, 0)
    assert node.snapshot() == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_message_with_the_last_number_of_all_is_refused_and_offers_can_still_be_read(protocol):
    node = node_of(protocol)
    with pytest.raises(RemoteFault, match="beyond the last number"):
        node.receive(Message(7, FAR, b"", stamp(protocol)), 1, 0)
    node.receive(Message(7, LAST, b"", stamp(protocol)), 1, 0)
    offer = node.link_up(2, 0)[0].frame
    assert decoded(node, offer) == offer


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_offers_everything_and_sends_nothing_delays_others_by_the_time_of_patience(protocol):
    bench = Bench(protocol, nodes=2, strangers=[9], settings={"patience": "3s"})
    for _ in range(5):
        bench.broadcast(1)
    bench.link(0, 9)
    bench.inject(9, 0, Offer({1: (1, FAR)}))
    bench.drop()
    bench.link(0, 1)
    bench.transfer()
    assert bench.delivered[0] == []
    bench.pass_time(3 * SECOND)
    bench.transfer()
    assert sorted(bench.delivered[0]) == [(1, seq) for seq in range(1, 6)]


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector", "delta"])
@pytest.mark.parametrize("early", [0, 1000, 5000])
def test_early_messages_take_a_bounded_memory_and_those_in_order_get_through(protocol, early):
    """A liar (9) has the neighbour (1) full of messages that wait for ever; 0 still gets all that 1 broadcasts,
    in a transfer that begins with the newest."""
    settings = {"early": early, "patience": "1s", "order": "newest"}
    bench = Bench(protocol, nodes=2, strangers=[9], settings=settings)
    forged = [Message(9, seq, b"", stamp(protocol, {8: 9 * SECOND}, 11 * SECOND)) for seq in range(2, 400)]
    for node in (0, 1):
        bench.link(node, 9)
        bench.inject(9, node, *forged)
        assert bench.nodes[node].gauges()["pending"] <= early // 400 + 1
    for _ in range(20):
        bench.broadcast(1)
    bench.link(0, 1)
    for second in range(1, 8):
        bench.transfer()
        bench.pass_time(second * SECOND)
    bench.transfer()
    assert [name for name in bench.delivered[0] if name[0] == 1] == [(1, seq) for seq in range(1, 21)]
    for node in (0, 1):
        assert bench.nodes[node].gauges()["pending"] <= 2 * (early // 400 + 1)


def test_what_waits_is_remembered_with_its_sender_over_contacts_and_crashes():
    node = node_of("barrier", early=1000)
    for seq in range(2, 50):
        node.receive(Message(7, seq, b"", {}), 1, 0)
    waiting = node.gauges()["pending"]
    node.link_down(1, 0)
    spec = specification("barrier")
    copy = spec.make(0, spec.configure({"early": 1000}))
    copy.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(node.snapshot()), strict=False))
    for again in (node, copy):
        again.link_up(1, 0)
        for seq in range(50, 99):
            again.receive(Message(7, seq, b"", {}), 1, 0)
        assert again.gauges()["pending"] == waiting
    for seq in range(1, 2 + waiting):
        copy.receive(Message(7, seq, b"", {}), 1, 0)
    assert copy.gauges()["pending"] == 0
    assert copy.snapshot()["dissemination"]["early"] == []


def test_what_could_not_be_taken_is_asked_for_again_less_and_less_often():
    node = node_of("delta", lifetime="10s", clock_bound="1s", patience="1s", broadcasts=0)
    wild = Message(7, 1, b"", Stamp(1000 * SECOND, {}))
    asked, timer = [], None
    now = 0
    effects = node.receive(wild, 1, 0)
    while now < 60 * SECOND:
        timer = next(each.at for each in effects if getattr(each, "token", None) == ASK)
        now = timer
        effects = node.timer(ASK, now)
        assert [send.frame for send in kinds(effects, Send)] == [Again()]
        asked.append(now // SECOND)
        node.receive(Offer({7: (1, 2)}), 1, now)
        effects = node.receive(wild, 1, now)
    assert asked == [1, 3, 7, 15, 31, 63]


def test_a_word_does_not_cost_an_offer_each_time():
    node = node_of("epidemic", patience="10s")
    assert node.receive(Again(), 1, 1) == []
    assert len(node.receive(Again(), 1, 10 * SECOND)) == 1
    assert node.receive(Again(), 1, 11 * SECOND) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_link_that_comes_up_twice_was_gone_in_between(protocol):
    """What was asked for over the old link is asked of another, and of the peer itself when it offers it again."""
    node = node_of(protocol, peers=(1, 2))
    for peer in (1, 2):
        node.receive(Offer({7: (1, 3)}), peer, 0)
    effects = node.link_up(1, 0)
    assert [(send.to, send.frame) for send in kinds(effects, Send)] == [
        (2, Request({7: (1, 3)})),
        (1, Offer({0: (1, 3)})),
    ]
    assert node.link_down(5, 0) == []


def test_names_are_not_taken_twice_while_they_are_remembered():
    """A copy with another deadline, after the message has expired here: somebody made it."""
    node = node_of("delta", lifetime="10s", clock_bound="1s", broadcasts=0)
    assert kinds(node.receive(Message(7, 1, b"", Stamp(5 * SECOND, {})), 1, 0), Deliver)
    node.link_up(2, 6 * SECOND)
    assert node.receive(Message(7, 1, b"", Stamp(12 * SECOND, {})), 1, 6 * SECOND) == []


def test_a_late_copy_of_a_delivered_message_is_not_logged_as_expired():
    node = node_of("delta", lifetime="10s", clock_bound="1s", broadcasts=0)
    seen, unseen = (Message(7, seq, b"", Stamp(5 * SECOND, {})) for seq in (1, 2))
    node.receive(seen, 1, 0)
    node.link_up(2, 6 * SECOND)
    assert node.receive(seen, 1, 6 * SECOND) == []
    (discard,) = node.receive(unseen, 1, 6 * SECOND)
    assert discard.id == MessageId(7, 2)
    node.link_up(2, 60 * SECOND)  # all is forgotten by now: nothing is said of what may have been here
    assert node.receive(seen, 1, 60 * SECOND) == []


def test_the_end_of_a_message_that_came_too_late_is_told_once():
    """Every neighbour with a slow clock may hand over a copy, before and after a crash here."""
    node = node_of("delta", lifetime="10s", clock_bound="1s", broadcasts=0)
    late = Message(7, 1, b"", Stamp(5 * SECOND, {}))
    assert [each.id for each in node.receive(late, 1, 6 * SECOND)] == [MessageId(7, 1)]
    assert node.receive(late, 1, 7 * SECOND) == []
    again = node_of("delta", lifetime="10s", clock_bound="1s", broadcasts=0)
    again.restore(node.snapshot())
    assert again.receive(late, 1, 8 * SECOND) == []


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector"])
def test_what_depended_on_a_message_to_come_is_asked_for_soon_after_its_broadcast(protocol):
    """The stranger's message names one that node 0 broadcasts minutes later. By then 0 has asked for it in vain so
    often that it would wait for minutes more, while the others deliver it and depend on it."""
    play = Play(Stage(specification(protocol), {}, (0, 2)))
    play.do(Step("broadcast", 0))
    play.do(Step("frame", 9, 2, play.codec.encode(Message(9, 1, b"", {0: 5}))))
    for _ in range(2):
        play.do(Step("broadcast", 0))
        play.do(Step("wait", 30 * SECOND))
    play.end()  # everyone has delivered everything
