"""TCP-like connections: everything once and in order over a medium that loses; and what makes TCP slow."""

import random
from collections import deque
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Message,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    Transmit,
)
from antecast.protocols import specification
from antecast.protocols.tcp_flooding.connection import Connection
from antecast.protocols.tcp_flooding.frames import Open, Opened, Segment, SegmentAck

MS = 10**6
STATION, OTHER = 10, 11


class Pair:
    """A station and its hosts, frame by frame; `lose` says which frames do not arrive."""

    def __init__(self, hosts=1, *, lose=lambda frame: False, delay=lambda: 1, **settings):
        spec = specification("tcp-flooding")
        self.settings = spec.configure(settings)
        self.nodes = {host: spec.make(host, self.settings) for host in range(hosts)}
        self.nodes[STATION] = spec.make_station(STATION, self.settings)
        self.lose, self.delay = lose, delay
        self.now, self.flying, self.timers = 0, [], {}
        self.delivered = {host: [] for host in range(hosts)}
        self.sent, self.wired = [], []
        self.perform(STATION, self.nodes[STATION].link_up(OTHER, 0))
        for host in range(hosts):
            self.perform(host, self.nodes[host].link_up(STATION, 0))

    def perform(self, node, effects):
        for effect in effects:
            match effect:
                case Transmit(frame=frame):
                    self.sent.append((self.now, node, frame))
                    for to in [STATION] if node != STATION else list(self.delivered):
                        if not self.lose(frame):
                            self.flying.append((self.now + self.delay() * MS, len(self.sent), node, to, frame))
                case Send(to=to, frame=frame):
                    self.wired.append((to, frame))
                case Deliver(message=message):
                    self.delivered[node].append((message.origin, message.seq))
                case SetTimer(token=token, at=at):
                    self.timers[node, token] = at
                case CancelTimer(token=token):
                    self.timers.pop((node, token), None)

    def run(self, until):
        while True:
            arrives = min(self.flying, default=None, key=lambda each: each[:2])
            fires = min(((at, *who) for who, at in self.timers.items()), default=None)
            at = min(each[0] for each in (arrives, fires) if each) if arrives or fires else until
            if at >= until:
                break
            self.now = at
            if arrives and arrives[0] == at:
                self.flying.remove(arrives)
                _, _, sender, to, frame = arrives
                self.perform(to, self.nodes[to].receive(frame, sender, at))
            else:
                _, node, token = fires
                del self.timers[node, token]
                self.perform(node, self.nodes[node].timer(token, at))
        self.now = until

    def from_afar(self, count, origin=7):
        """Messages over the wire."""
        for seq in range(1, count + 1):
            message = Message(origin, seq, bytes(100), None)
            self.perform(STATION, self.nodes[STATION].receive(message, OTHER, self.now))

    def segments(self, node):
        return [(t, frame) for t, sender, frame in self.sent if sender == node and isinstance(frame, Segment)]


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]), st.integers(1, 60), st.booleans())
def test_everything_arrives_once_and_in_order(seed, loss, count, nagle):
    draw = random.Random(seed)
    pair = Pair(2, lose=lambda _: draw.random() < loss, delay=lambda: draw.randint(1, 80), nagle=nagle,
                retransmit_most="1s", connect="200ms")  # fmt: skip
    pair.run(60_000 * MS)
    pair.from_afar(count)
    for _ in range(5):
        pair.perform(0, pair.nodes[0].broadcast(b"x", pair.now))
    pair.run(600_000 * MS)
    theirs, own = [(7, seq) for seq in range(1, count + 1)], [(0, seq) for seq in range(1, 6)]
    assert [each for each in pair.delivered[1] if each[0] == 7] == theirs
    assert [each for each in pair.delivered[1] if each[0] == 0] == own
    assert pair.delivered[0] == own + theirs
    assert [frame.id for _, frame in pair.wired] == own
    assert all(sum(pair.nodes[node].gauges().values()) == 0 for node in (0, 1))
    assert pair.nodes[STATION].gauges()["station_sent_buffer"] == 0


def test_a_segment_is_sent_again_after_200_ms_and_twice_as_long_each_time():
    pair = Pair(lose=lambda frame: isinstance(frame, Segment))
    pair.run(100 * MS)
    pair.from_afar(1)
    pair.run(10_000 * MS)
    times = [t / MS for t, _ in pair.segments(STATION)]
    waits = [b - a for a, b in pairwise(times)]
    for wait, nominal in zip(waits, [200, 400, 800, 1600, 3200], strict=False):
        assert nominal <= wait <= nominal * 17 / 16
    assert len(waits) == 5


def test_no_more_than_46_segments_are_under_way():
    pair = Pair(nagle=False, segment=100, pace=0)
    pair.run(100 * MS)
    pair.from_afar(400)
    most = 0
    while pair.flying or pair.timers:
        pair.run(pair.now + MS)
        most = max(most, len(pair.nodes[STATION]._connections[0]._flight))
        if len(pair.delivered[0]) == 400:
            break
    assert most == 46


def test_small_messages_travel_together_while_one_is_under_way():
    pair = Pair(pace=0)
    pair.run(100 * MS)
    pair.from_afar(7)
    pair.run(1000 * MS)
    sizes = [len(frame.messages) for _, frame in pair.segments(STATION)]
    assert sizes[:3] == [1, 5, 1]
    assert len(pair.delivered[0]) == 7


def test_acknowledgements_go_out_on_a_heartbeat():
    pair = Pair(pace=0, nagle=False)
    pair.run(1000 * MS)
    pair.from_afar(2)
    pair.run(2000 * MS)
    acks = [t for t, sender, frame in pair.sent if sender == 0 and isinstance(frame, SegmentAck)]
    assert len(acks) == 1
    assert acks[0] - 1000 * MS <= 201 * MS


def test_a_lost_segment_is_noticed_by_those_behind_it():
    """Three acknowledgements of the same number, long before the timer."""
    lost = iter([True])
    first = lambda frame: isinstance(frame, Segment) and frame.number == 8 and next(lost, False)  # noqa: E731
    pair = Pair(pace=0, nagle=False, segment=100, lose=first)
    pair.run(100 * MS)
    pair.from_afar(30)
    pair.run(4000 * MS)
    again = [t for t, frame in pair.segments(STATION) if frame.number == 8]
    assert len(again) == 2
    assert again[1] - again[0] < 150 * MS
    assert len(pair.delivered[0]) == 30


def test_a_station_sends_a_message_to_one_host_after_the_other():
    pair = Pair(4)
    pair.run(100 * MS)
    pair.from_afar(1)
    pair.run(150 * MS)
    times = [(frame.to, t - 100 * MS) for t, frame in pair.segments(STATION)]
    assert times == [(0, 0), (1, 5 * MS), (2, 10 * MS), (3, 15 * MS)]


def test_a_host_asks_for_its_connection_until_it_has_it():
    pair = Pair(lose=lambda frame: isinstance(frame, Opened))
    pair.run(10_000 * MS)
    asked = [t / MS for t, _, frame in pair.sent if isinstance(frame, Open)]
    assert all(later - sooner >= 1000 for sooner, later in pairwise(asked))
    pair.perform(0, pair.nodes[0].broadcast(b"early", pair.now))
    pair.lose = lambda frame: False
    pair.run(40_000 * MS)
    assert [frame.id for _, frame in pair.wired] == [(0, 1)]


def test_a_new_connection_delivers_nothing_twice():
    """The other station has not seen yet what the first one had delivered."""
    pair = Pair()
    pair.run(100 * MS)
    pair.from_afar(2)
    pair.run(1000 * MS)
    pair.perform(0, pair.nodes[0].link_down(STATION, pair.now))
    pair.perform(0, pair.nodes[0].link_up(STATION, pair.now))
    pair.run(2000 * MS)
    pair.from_afar(3)
    pair.run(3000 * MS)
    assert pair.delivered[0] == [(7, 1), (7, 2), (7, 3)]


def test_what_nobody_would_send_is_refused():
    pair = Pair()
    pair.run(100 * MS)
    with pytest.raises(RemoteFault):
        pair.nodes[STATION].receive(Opened(0, 1), 0, 0)
    with pytest.raises(RemoteFault):
        pair.nodes[STATION].receive(Open(1), OTHER, 0)
    with pytest.raises(RemoteFault):
        pair.nodes[0].receive(Open(1), STATION, 0)


# The contract.


def state(node):
    """Everything inside a node, timers and connections too."""

    def plain(value):
        if isinstance(value, dict):
            return [(plain(key), plain(each)) for key, each in value.items()]
        if isinstance(value, (list, tuple, deque)):
            return [plain(each) for each in value]
        if isinstance(value, (Protocol, Connection)):
            return [(name, plain(each)) for name, each in sorted(vars(value).items())]
        return value if isinstance(value, (int, float, str, bytes, type(None))) else repr(value)

    return plain(node)


def test_a_broadcast_is_delivered_at_once_and_named_once():
    pair = Pair()
    for _ in range(2):
        effects = pair.nodes[0].broadcast(b"x", pair.now)
        assert [isinstance(effect, (Deliver, Accepted)) for effect in effects].count(True) == 1
        pair.perform(0, effects)
        pair.run(pair.now + 100 * MS)


def restored(node, make, settings):
    again = make(node.node, settings)
    again.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(node.snapshot()), strict=False))
    return again


def test_a_station_goes_on_from_its_snapshot():
    """In the middle of sending, with messages under way in both directions and others paced."""
    pair = Pair(3)
    pair.run(100 * MS)
    pair.from_afar(20)
    pair.perform(0, pair.nodes[0].broadcast(b"x", pair.now))
    pair.run(108 * MS)
    station = restored(pair.nodes[STATION], specification("tcp-flooding").make_station, pair.settings)
    assert station.snapshot() == pair.nodes[STATION].snapshot()
    pair.nodes[STATION] = station
    pair.timers = {who: at for who, at in pair.timers.items() if who[0] != STATION}
    pair.perform(STATION, station.resume(pair.now))
    pair.perform(STATION, station.link_up(OTHER, pair.now))
    pair.run(60_000 * MS)
    for host in (0, 1, 2):
        assert [each for each in pair.delivered[host] if each[0] == 7] == [(7, seq) for seq in range(1, 21)]
        assert pair.delivered[host].count((0, 1)) == 1


def test_what_a_host_had_still_to_send_outlives_a_crash_and_a_new_connection():
    pair = Pair(lose=lambda frame: isinstance(frame, Segment))
    pair.run(100 * MS)
    for _ in range(3):
        pair.perform(0, pair.nodes[0].broadcast(b"x", pair.now))
    pair.nodes[0] = restored(pair.nodes[0], specification("tcp-flooding").make, pair.settings)
    pair.timers = {who: at for who, at in pair.timers.items() if who[0] != 0}
    pair.lose = lambda frame: False
    pair.perform(0, pair.nodes[0].resume(pair.now))
    pair.perform(0, pair.nodes[0].link_up(STATION, pair.now))
    pair.run(60_000 * MS)
    assert [frame.id for _, frame in pair.wired] == [(0, 1), (0, 2), (0, 3)]


def test_links_that_are_up_twice_or_not_at_all_are_no_trouble():
    pair = Pair()
    station, host = pair.nodes[STATION], pair.nodes[0]
    assert station.link_down(99, 0) == []
    station.link_up(OTHER, 0)
    assert host.link_down(99, 0) == []
    pair.perform(0, host.link_up(STATION, 0))
    pair.run(1000 * MS)
    pair.perform(0, host.broadcast(b"x", pair.now))
    pair.run(5000 * MS)
    assert [(to, frame.id) for to, frame in pair.wired] == [(OTHER, (0, 1))]


far = 2**63 - 1

REFUSED_BY_STATION = [
    (Opened(0, 1), 0),
    (Message(0, 1, b"", None), 0),
    (Segment(STATION, 0, 0, [Message(9, 1, b"", None)]), 0),
    (Segment(STATION, far, 0, [Message(0, 1, b"", None)]), 0),
    (Segment(STATION, 46, 0, []), 0),
    (Open(1), OTHER),
    (Segment(STATION, 0, 0, []), OTHER),
    (SegmentAck(STATION, 0), OTHER),
    (Opened(STATION, 1), OTHER),
]
REFUSED_BY_HOST = [Open(1), Message(9, 1, b"", None), Segment(0, far, far, [Message(9, 1, b"", None)])]


@pytest.mark.parametrize(("frame", "sender"), REFUSED_BY_STATION)
def test_a_station_that_refuses_a_frame_has_changed_nothing(frame, sender):
    pair = Pair()
    pair.run(100 * MS)
    before = state(pair.nodes[STATION])
    with pytest.raises(RemoteFault):
        pair.nodes[STATION].receive(frame, sender, pair.now)
    assert state(pair.nodes[STATION]) == before


@pytest.mark.parametrize("frame", REFUSED_BY_HOST)
def test_a_host_that_refuses_a_frame_has_changed_nothing(frame):
    pair = Pair()
    pair.run(100 * MS)
    before = state(pair.nodes[0])
    with pytest.raises(RemoteFault):
        pair.nodes[0].receive(frame, STATION, pair.now)
    assert state(pair.nodes[0]) == before


def test_a_host_that_hears_of_messages_it_never_broadcast_says_so_once_and_goes_on():
    pair = Pair()
    pair.run(100 * MS)
    messages = [Message(0, 5, b"", None), Message(9, 1, b"", None), Message(0, 6, b"", None)]
    effects = pair.nodes[0].receive(Segment(0, 0, 0, messages), STATION, pair.now)
    (alert,) = [effect for effect in effects if isinstance(effect, Alert)]
    assert "0:5" in alert.text
    assert [effect.message.origin for effect in effects if isinstance(effect, Deliver)] == [9]


number = st.sampled_from([0, 1, 2, 3, 45, 46, 47, 1000, 2**31, 2**62, far])
source = st.sampled_from([0, 1, 2, 9, STATION, OTHER, 2**32 - 1])
messages = st.lists(
    st.builds(Message, source, number.map(lambda n: max(n, 1)), st.just(b""), st.none()), max_size=3
)
hostile = st.one_of(
    st.builds(Open, number), st.builds(Opened, source, number), st.builds(SegmentAck, source, number),
    st.builds(Segment, source, number, number, messages), messages.filter(bool).map(lambda each: each[0]),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([0, 1, STATION]), source, hostile), min_size=1, max_size=60))
def test_whatever_a_stranger_sends_is_refused_or_harmless(attack):
    """Frames under numbers that nobody honest uses (8 and above) leave the honest hosts as they were."""
    pair = Pair(2)
    pair.run(1000 * MS)
    for to, sender, frame in attack:
        if (to != STATION and sender == STATION) or (to == STATION and sender in (0, 1, OTHER)):
            continue  # a forged number of an honest node: beyond what can be known without signatures
        node, before = pair.nodes[to], state(pair.nodes[to])
        try:
            pair.perform(to, node.receive(frame, sender, pair.now))
        except RemoteFault:
            assert state(node) == before
    pair.wired.clear()
    pair.from_afar(5)
    pair.perform(0, pair.nodes[0].broadcast(b"x", pair.now))
    pair.run(120_000 * MS)
    assert [each for each in pair.delivered[1] if each[0] in (0, 7)].count((0, 1)) == 1
    for host in (0, 1):
        assert [each for each in pair.delivered[host] if each[0] == 7] == [(7, seq) for seq in range(1, 6)]


@given(st.lists(st.tuples(st.sampled_from([0, 1, STATION]), source, hostile), min_size=1, max_size=200))
def test_forged_frames_never_raise_anything_but_a_remote_fault_nor_fill_memory(attack):
    """Whoever they claim to be from."""
    pair = Pair(2)
    pair.run(1000 * MS)
    for to, sender, frame in attack:
        node, before = pair.nodes[to], state(pair.nodes[to])
        try:
            pair.perform(to, node.receive(frame, sender, pair.now))
        except RemoteFault:
            assert state(node) == before
        codec = node.codec
        for _, _, sent in pair.sent[-3:]:
            assert codec.decode(codec.encode(sent)) == sent
    pair.run(pair.now + 5000 * MS)
    for host in (0, 1):
        assert pair.nodes[host].gauges()["host_received_buffer"] <= 46 * 3
