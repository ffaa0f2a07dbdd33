"""TCP-like connections: everything once and in order over a medium that loses; and what makes TCP slow."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import CancelTimer, Deliver, Message, RemoteFault, Send, SetTimer, Transmit
from antecast.protocols import specification
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
