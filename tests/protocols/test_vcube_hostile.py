"""Broken and lying peers: what they send is refused without a trace or does no lasting harm, and takes bounded
space."""

import pytest

from antecast.core import Alert, Deliver, LocalMisuse, Message, RemoteFault, Send
from antecast.protocols import specification
from antecast.protocols.retained import Base, Summary
from antecast.protocols.vcube import holding, trees
from antecast.protocols.vcube.backlog import WINDOW
from antecast.protocols.vcube.diagnosis import LEAP, OVERDUE, ROUND, ROUNDS_REMEMBERED, Reply, Test
from antecast.protocols.vcube.packets import Packet
from antecast.protocols.vcube.view import View
from antecast.testing import Bench
from antecast.testing.hostile import HOSTILE, Play, Stage, Step

MS, SECOND = 10**6, 10**9
LARGEST = 2**63 - 1
LIAR = 1 << 16
MODES = [{"diagnosis": 0}, {}]


def cube_of(nodes, protocol="vcube", **settings):
    bench = Bench(protocol, nodes=nodes, settings=settings)
    for a in range(nodes):
        for b in range(a + 1, nodes):
            bench.link(a, b)
    return bench


def packet(*messages):
    return Packet(tuple(Message(origin, seq, b"", stamp) for origin, seq, stamp in messages))


def delivered(effects):
    return [(each.message.origin, each.message.seq) for each in effects if isinstance(each, Deliver)]


def sent(effects, kind=Packet):
    return [(each.to, each.frame) for each in effects if isinstance(each, Send) and isinstance(each.frame, kind)]


def alerts(effects):
    return [each.text for each in effects if isinstance(each, Alert)]


def reply_of(node, peer=1):
    """What a node answers to a test, as its peer decodes it."""
    ((_, reply),) = sent(node.receive(Test(), peer, 0), Reply)
    return node.codec.decode(node.codec.encode(reply))


# News.


@pytest.mark.parametrize("about", [0, 1, 2, 3])
@pytest.mark.parametrize("number", [LARGEST, LARGEST - 1])
def test_news_with_the_largest_number_leave_replies_that_can_be_decoded(about, number):
    bench = cube_of(4)
    node = bench.nodes[0]
    node.receive(Reply(0, {about: number}), 1, 0)
    for _ in range(3):
        assert max(reply_of(node).news.values(), default=0) <= LARGEST
        node.receive(Reply(0, {about: number}), 1, 0)
        bench.unlink(0, 2)
        bench.link(0, 2)
        node.receive(Test(), 2, 0)


def test_news_of_the_largest_number_do_not_silence_later_news():
    node = cube_of(4).nodes[0]
    node.receive(Reply(0, {2: LARGEST}), 1, 0)
    node.receive(Reply(0, {2: 1}), 1, 0)
    assert node.gauges()["doubted"] == 1
    node.receive(Reply(0, {2: 2}), 1, 0)
    assert node.gauges()["doubted"] == 0


def test_numbers_driven_up_leap_by_leap_stop_where_a_frame_still_holds_them(monkeypatch):
    node = cube_of(4).nodes[0]
    known = 0
    for _ in range(40):
        known = min(known + LEAP * 2**27, 2**62)
        monkeypatch.setattr("antecast.protocols.vcube.diagnosis.LEAP", 2**60)
        node.receive(Reply(0, {0: known - 1, 2: known - 1}), 1, 0)
        node.receive(Test(), 2, 0)
    assert all(number <= 2**62 + 1 for number in reply_of(node).news.values())
    # What the node sees for itself counts, whatever the number says.
    assert node.gauges()["doubted"] == 0


def test_news_of_nodes_that_do_not_exist_are_neither_kept_nor_passed_on():
    node = cube_of(4).nodes[0]
    node.receive(Reply(0, dict.fromkeys(range(100, 60000), 3)), 1, 0)
    assert reply_of(node).news == {}
    assert node.gauges()["doubted"] == 0


def test_a_node_that_left_for_good_is_forgotten():
    bench = cube_of(4)
    for node in range(3):
        bench.unlink(3, node)
    assert reply_of(bench.nodes[0]).news == {3: 1}
    for _ in range(ROUNDS_REMEMBERED + 2):
        for node in range(3):
            bench.fire(node, ROUND)
        bench.transfer()
    for node in range(3):
        assert reply_of(bench.nodes[node], peer=(node + 1) % 3).news == {}
        assert bench.nodes[node].gauges()["doubted"] == 0
    # Somebody who still speaks of it does not bring it back.
    bench.nodes[0].receive(Reply(0, {3: 7}), 1, 0)
    assert reply_of(bench.nodes[0]).news == {}


# Links.


FRAMES = [
    packet((1, 1, {})),
    Message(1, 1, b"", {}),
    Test(),
    Reply(5, {2: 1}),
    Summary({1: 3}, {}, False),
    Base({1: 3}),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
def test_a_frame_from_a_peer_without_a_link_is_refused_and_leaves_no_trace(frame, settings):
    bench = cube_of(4, **settings)
    bench.unlink(0, 1)
    node = bench.nodes[0]
    for stranger in (1, 9, 2**32 - 1):
        before = node.snapshot(), node.gauges()
        with pytest.raises(RemoteFault):
            node.receive(frame, stranger, 0)
        assert (node.snapshot(), node.gauges()) == before


def test_the_end_of_a_link_that_was_not_up_is_no_reason_to_doubt():
    node = cube_of(4).nodes[0]
    assert node.link_down(9, 0) == []
    assert node.gauges()["doubted"] == 0 and reply_of(node).news == {}


def test_a_second_link_up_is_the_end_of_the_old_link():
    """Node 1 owed an answer on the old link; it does not on the new one."""
    bench = cube_of(2)
    bench.fire(0, ROUND)
    bench.drop()
    bench.pass_time(400 * MS)
    bench.call(0, "link_up", 1)
    bench.drop()
    bench.fire(0, OVERDUE)
    assert bench.nodes[0].gauges()["doubted"] == 0


def test_the_root_of_the_single_tree_follows_a_link_that_comes_up():
    bench = Bench("vcube-single", nodes=(3,), settings={"diagnosis": 0})
    node = bench.nodes[3]
    node.link_up(2, 0)
    assert [to for to, _ in sent(node.broadcast(b"", 0))] == [2]
    node.link_up(1, 0)
    assert [to for to, _ in sent(node.broadcast(b"", 0))] == [1]


# Messages.


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
@pytest.mark.parametrize("number", [2, 3, LARGEST])
def test_a_message_that_depends_on_itself_is_refused_with_all_of_its_packet(settings, number):
    node = cube_of(4, **settings).nodes[0]
    before = node.snapshot(), node.gauges()
    for frame in (packet((1, 2, {1: number})), packet((1, 1, {}), (1, 2, {1: number}))):
        with pytest.raises(RemoteFault, match="waits for itself"):
            node.receive(frame, 1, 0)
    assert (node.snapshot(), node.gauges()) == before


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
@pytest.mark.parametrize("claim", [(0, 2, {}), (0, LARGEST, {}), (3, 1, {0: 2})], ids=["next", "far", "depends"])
def test_a_claim_about_our_own_messages_is_left_out_and_said_once_a_link(settings, claim):
    bench = cube_of(4, **settings)
    bench.broadcast(0)
    node = bench.nodes[0]
    effects = node.receive(packet((1, 1, {}), claim, (2, 1, {0: 1})), 1, 0)
    assert delivered(effects) == [(1, 1), (2, 1)]
    (text,) = alerts(effects)
    assert text.startswith("node 1 has messages of this node up to 0:") and "new number" in text
    assert not alerts(node.receive(packet(claim), 1, 0))
    assert alerts(node.receive(packet(claim), 2, 0))
    node.link_up(1, 0)
    assert alerts(node.receive(packet(claim), 1, 0))
    # Its own counter stays where it was.
    assert delivered(node.broadcast(b"", 0)) == [(0, 2)]


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
def test_a_message_twice_in_a_packet_is_taken_once(settings):
    node = cube_of(8, **settings).nodes[4]
    effects = node.receive(packet((0, 1, {}), (0, 1, {}), (0, 2, {}), (0, 1, {})), 0, 0)
    assert delivered(effects) == [(0, 1), (0, 2)]
    assert [[m.seq for m in each.messages] for to, each in sent(effects) if to == 5] == [[1], [2]]


# Bounds.


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
@pytest.mark.parametrize(
    "junk",
    [
        lambda index: (1, index + 1, {9: 1}),
        lambda index: (1, 2 * index + 2, {}),
        lambda index: (100 + index, 2, {}),
        lambda index: (100 + index, 1, {9: 9}),
    ],
    ids=["wait for nobody", "out of turn", "strangers out of turn", "strangers that wait"],
)
def test_what_waits_for_ever_has_a_bound_and_others_are_unharmed(monkeypatch, settings, junk):
    monkeypatch.setattr(trees, "FULL", 100_000)
    node = cube_of(4, **settings).nodes[0]
    for index in range(2000):
        node.receive(packet(junk(index)), 1, 0)
    assert node.gauges()["pending"] <= 100_000 / 400 + WINDOW + 1
    assert len(node.codec._encoder.encode(node.snapshot())) < 50_000
    # Messages of others are delivered, in turn or not.
    assert delivered(node.receive(packet((2, 1, {})), 2, 0)) == [(2, 1)]
    assert not delivered(node.receive(packet((2, 3, {3: 1})), 2, 0))
    assert delivered(node.receive(packet((2, 2, {})), 2, 0)) == [(2, 2)]
    assert delivered(node.receive(packet((3, 1, {})), 2, 0)) == [(3, 1), (2, 3)]


def test_what_was_turned_away_comes_with_a_later_comparison(monkeypatch):
    monkeypatch.setattr(trees, "FULL", 5_000)
    bench = cube_of(2)
    for index in range(100):
        bench.nodes[0].receive(packet((50, index + 2, {})), 1, 0)
    for _ in range(2 * WINDOW):  # node 0 gets only what is far ahead of what it has
        bench.broadcast(1)
    for flight in bench.drop()[WINDOW + 10 :]:
        bench.arrive(flight)
    assert bench.delivered[0] == []
    for _ in range(6):
        bench.fire(0, ROUND)
        bench.transfer()
    assert bench.delivered[0] == [(1, seq + 1) for seq in range(2 * WINDOW)]


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
def test_invented_sources_leave_places_for_members(monkeypatch, settings):
    monkeypatch.setattr(trees, "STRANGERS", 100)
    node = cube_of(4, **settings).nodes[0]
    for number in range(1000, 2000):
        node.receive(packet((number, 1, {})), 1, 0)
    assert node.gauges()["clock"] <= 100
    for member in (1, 2, 3):
        assert delivered(node.receive(packet((member, 1, {})), member, 0)) == [(member, 1)]


def test_lists_of_what_is_missing_do_not_grow_with_every_message(monkeypatch):
    """Each message takes over what the one before it waits for; in all there is a bound, beyond which nothing is
    held back any more."""
    monkeypatch.setattr(holding, "LISTED", 10_000)
    node = cube_of(8, diagnosis=0).nodes[4]
    node.receive(packet((0, 1, dict.fromkeys(range(100, 1100), 1))), 0, 0)
    for seq in range(2, 100):
        node.receive(packet((0, seq, {})), 0, 0)
    hold = node._dissemination._hold
    assert sum(len(held.missing or ()) for held in hold._held.values()) == hold._listed <= 11_000
    assert len(hold) < 25


def test_heights_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr("antecast.protocols.vcube.view.MAX_SOURCES", 100)
    view = View(0)
    view.link(1)
    for root in range(5000):
        assert view.height(root) == (1 if root == 0 else view._find_height(root))
    assert len(view._heights) <= 101


def test_own_messages_that_never_come_back_from_the_root_are_forgotten():
    bench = cube_of(3, protocol="vcube-single")
    for _ in range(50):
        bench.broadcast(2)
    bench.drop()
    abroad = bench.nodes[2]._dissemination._abroad
    assert len(abroad) == 50
    bench.timers[2][ROUND] = 11 * SECOND
    bench.fire(2, ROUND)
    assert not abroad


def test_messages_that_came_by_comparison_are_remembered_in_a_bounded_number(monkeypatch):
    monkeypatch.setattr("antecast.protocols.vcube.reliable.MAX_SOURCES", 100)
    node = cube_of(2).nodes[0]
    for seq in range(1, 300):
        node.receive(Message(1, seq, b"", {}), 1, 0)
    assert len(node._dissemination._overtaken) == 100


# Nothing is sent that every receiver refuses.


def test_more_news_than_a_frame_holds_are_cut_to_what_it_holds():
    node = Bench("vcube", nodes=1).nodes[0]
    node.link_up(1, 0)
    diagnosis = node._dissemination._diagnosis
    diagnosis._news = dict.fromkeys(range(10, 70_010), 1)
    assert len(reply_of(node).news) == 65_536


@pytest.mark.parametrize("settings", MODES, ids=["static", "diagnosis"])
def test_a_clock_with_more_sources_than_a_frame_holds_is_a_local_mistake_that_changes_nothing(settings):
    node = cube_of(2, **settings).nodes[0]
    node._ordering._changed = dict.fromkeys(range(10, 70_010), 1)
    before = node.snapshot()
    with pytest.raises(LocalMisuse, match="65536"):
        node.broadcast(b"", 0)
    assert node.snapshot() == before


def test_the_largest_message_with_the_largest_clock_fits_into_a_packet():
    codec = cube_of(2).nodes[0].codec
    stamp = {2**32 - 1 - source: LARGEST for source in range(65_536)}
    whole = Packet((Message(2**32 - 1, LARGEST, bytes(1 << 20), stamp),))
    assert codec.decode(codec.encode(whole)) == whole


# Bases.


def test_a_base_that_answers_nothing_is_refused():
    node = cube_of(4).nodes[0]
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="not asked"):
        node.receive(Base({2: 5}), 1, 0)
    assert node.snapshot() == before


@pytest.mark.parametrize("wanted", [False, True])
def test_a_base_that_says_more_of_a_source_than_the_source_does_is_never_taken(wanted):
    bench = cube_of(4, retain=0)
    node = bench.nodes[0]
    if wanted:
        node.receive(packet((1, 1, {2: 1000})), 1, 0)
    for turn in range(40):
        bench.timers[0][ROUND] = bench.now + SECOND
        bench.fire(0, ROUND)
        bench.transfer()
        node.receive(Reply(turn, {}), 1, bench.now)
        if node._dissemination._log.has_asked(1):
            node.receive(Base({2: 2**40}), 1, bench.now)
    bench.broadcast(2)
    bench.transfer()
    assert bench.delivered[0] == [(2, 1)]


# Comparisons.


def lying_round(bench, lies):
    """A round of node 0 in which nodes 1 and 4 lie before anyone else answers."""
    bench.time.advance(bench.now + SECOND)
    bench.timers[0][ROUND] = bench.now
    bench.fire(0, ROUND)
    for flight in bench.drop(lambda flight: flight.to in (1, 4)):
        bench.inject(flight.to, 0, *lies)
    bench.drop(lambda flight: flight.to in (1, 4))
    bench.transfer()


@pytest.mark.parametrize(
    "lies",
    [[Reply(1, {})], [Summary({1: LARGEST}, {}, False)], [Reply(1, {}), Summary({77: 5}, {}, False)]],
    ids=["digest", "summary", "both"],
)
def test_peers_that_never_agree_do_not_keep_a_node_from_asking_others(lies):
    bench = cube_of(8)
    bench.broadcast(2)
    bench.drop(lambda flight: flight.to == 0)
    bench.transfer()
    bench.delivered[0].clear()
    for _ in range(8):
        lying_round(bench, lies)
    assert bench.delivered[0] == [(2, 1)]


def test_peers_that_are_not_under_test_share_one_turn():
    """Nodes 3, 5, 6 and 7 are not tested by node 0; they offer what they do not have, one after the other."""
    bench = cube_of(8)
    bench.broadcast(2)
    bench.drop(lambda flight: flight.to == 0)
    bench.transfer()
    for turn in range(8):
        bench.timers[0][ROUND] = bench.now + SECOND
        bench.fire(0, ROUND)
        liar = (3, 5, 6, 7)[turn % 4]
        bench.nodes[0].receive(Summary({77: 5}, {}, False), liar, bench.now)
        bench.transfer()
    assert (2, 1) in bench.delivered[0]


# Trees.


@pytest.mark.parametrize("protocol", ["vcube", "vcube-single"])
def test_a_copy_from_another_than_the_parent_does_not_take_the_duty_away(protocol):
    """Node 5 hands node 4 a message of node 0, which should have come from node 0 with the duty for 5, 6 and 7."""
    bench = cube_of(8, protocol=protocol, diagnosis=0)
    bench.broadcast(0)
    (stray,) = bench.queue(0, 4)
    bench.inject(5, 4, stray)
    bench.transfer()
    assert all(bench.delivered[node] == [(0, 1)] for node in range(8))


@pytest.mark.parametrize("protocol", ["vcube", "vcube-single"])
def test_a_message_that_can_never_be_delivered_stops_nobody(protocol):
    """Node 0 is made to go on without a liar's first message; the others hold it, since it depends on one that
    nobody broadcast, and with it the liar's second, on which all that 0 broadcasts from there on depends."""
    play = Play(Stage(specification(protocol), {"diagnosis": "100ms", "timeout": "200ms"}, (0, 1, 2)))

    def send(to, frame):
        play.do(Step("frame", HOSTILE, to, play.codec.encode(frame)))

    send(0, Reply(0, {}))
    send(0, Base({LIAR: 1}))
    play.do(Step("wait", 15 * SECOND))
    send(0, Message(LIAR, 2, b"", {}))
    send(2, packet((LIAR, 1, {HOSTILE: LARGEST})))
    play.end()  # everyone delivers everything
