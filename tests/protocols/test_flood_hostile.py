"""Frames that no correct neighbour sends: they are refused, or do no lasting harm to honest nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import Alert, Deliver, LocalMisuse, Message, RemoteFault
from antecast.protocols import retained, specification
from antecast.protocols.flood import OWED
from antecast.protocols.received import Received, some_gaps
from antecast.protocols.retained import Base, Summary
from antecast.testing import Bench
from antecast.testing.hostile import Play, Stage, Step

ALL = ["r-broadcast", "fifo", "vector", "vector-changes"]
CAUSAL = ["vector", "vector-changes"]
HUGE = 2**63 - 1
LIAR = 9

every = pytest.mark.parametrize("protocol", ALL)
causal = pytest.mark.parametrize("protocol", CAUSAL)


def stamp(protocol, entries=None):
    return (entries or {}) if protocol in CAUSAL else None


def line(protocol, **settings):
    """Three honest nodes in a line, and a liar beside the one in the middle."""
    bench = Bench(protocol, nodes=3, strangers=[LIAR], settings=settings, watch=True)
    bench.broadcast(1)
    for pair in ((0, 1), (1, 2), (1, LIAR)):
        bench.link(*pair)
    bench.transfer()
    return bench


def lie(bench, frame):
    """Send a frame as the liar; whether it was refused. A refusal changes nothing."""
    node, refused = bench.nodes[1], bench.refused[1]
    gauges = node.gauges()
    bench.inject(LIAR, 1, node.codec.decode(node.codec.encode(frame)))
    if bench.refused[1] > refused:
        assert node.gauges() == gauges
        return True
    bench.transfer()
    return False


def wait(bench, times=6):
    for _ in range(times):
        bench.pass_time(bench.now + bench.settings.patience)
        bench.transfer()


def assert_unharmed(bench):
    """Whatever an honest node broadcasts, all of them deliver: perhaps in a while, then at once."""
    for at_once in (False, False, True):
        for node in bench.nodes:
            bench.broadcast(node)
            name = bench.delivered[node][-1]
            bench.transfer()
            if not at_once:
                wait(bench)
            assert all(name in bench.delivered[each] for each in bench.nodes), name


@every
@pytest.mark.parametrize("frame", [Message(5, 1, b"", None), Summary({}, {}, False), Base({5: 1})])
def test_a_frame_without_a_link_is_refused(protocol, frame):
    node = Bench(protocol, nodes=1).nodes[0]
    for moment in ("before", "after"):
        with pytest.raises(RemoteFault, match="without a link"):
            node.receive(frame, 3, 0)
        if moment == "before":
            node.link_up(3, 0)
            node.link_down(3, 0)


@every
def test_a_base_that_nobody_asked_for_is_refused(protocol):
    bench = Bench(protocol, nodes=[1], strangers=[LIAR], watch=True)
    bench.link(1, LIAR)
    assert lie(bench, Base({0: 5}))


@every
@pytest.mark.parametrize("base", [{0: HUGE}, {1: HUGE}, {2: 7, 50: HUGE}, dict.fromkeys(range(60), HUGE)])
def test_a_lying_base_harms_nobody(protocol, base):
    bench = line(protocol)
    lie(bench, Base(base))
    wait(bench)
    assert_unharmed(bench)


@causal
def test_a_message_that_depends_on_itself_or_a_later_one_is_refused(protocol):
    bench = line(protocol)
    assert lie(bench, Message(LIAR, 2, b"", {LIAR: 2}))
    assert lie(bench, Message(LIAR, 2, b"", {LIAR: HUGE}))
    assert bench.nodes[2].gauges()["pending"] == 0


@causal
def test_a_message_that_depends_on_ours_that_we_never_sent_is_dropped(protocol):
    bench = line(protocol)
    node = bench.nodes[1]
    frame = Message(LIAR, 1, b"", {1: 5})
    (alert,) = node.receive(frame, LIAR, 0)
    assert isinstance(alert, Alert) and "1:5" in alert.text and f"node {LIAR} is wrong" in alert.text
    assert node.receive(frame, LIAR, 0) == []
    assert node.gauges()["pending"] == 0
    assert_unharmed(bench)


@causal
def test_a_message_that_others_can_deliver_later_is_asked_for_then(protocol):
    """Node 0 does not take a message that depends on its next one. The others hold it, and deliver it then; what
    they broadcast afterwards depends on it."""
    bench = line(protocol)
    assert not lie(bench, Message(LIAR, 1, b"", {0: 1}))
    assert_unharmed(bench)
    assert all((LIAR, 1) in bench.delivered[node] for node in bench.nodes)


@every
def test_claims_about_our_own_messages_are_ignored_with_an_alert_a_link(protocol):
    bench = line(protocol)
    node = bench.nodes[1]
    frames = [
        Message(1, 9, b"", stamp(protocol)),
        Summary({1: HUGE}, {}, True),
        Summary({}, {1: [3, HUGE]}, True),
        Base({1: HUGE}),
    ]
    for frame in frames:
        node.link_down(LIAR, 0)
        node.link_up(LIAR, 0)
        effects = node.receive(frame, LIAR, 0)
        assert [type(effect) for effect in effects].count(Alert) == 1
        assert not any(isinstance(effect, Alert) for effect in node.receive(frame, LIAR, 0))
    assert_unharmed(bench)


@every
def test_a_forged_message_does_not_turn_its_source_against_an_honest_neighbour(protocol):
    """Node 1 was misled, and passes on a message in the name of node 0. Node 0 goes on with node 1."""
    bench = line(protocol)
    assert not lie(bench, Message(0, 77, b"", stamp(protocol)))
    assert_unharmed(bench)


@every
def test_counts_near_the_limit_take_no_time(protocol):
    bench = line(protocol)
    assert not lie(bench, Summary({0: HUGE, 3: HUGE, 2**32 - 1: 1}, {4: [HUGE, HUGE - 1, 2]}, False))
    assert not lie(bench, Summary({}, {4: list(range(2, 60_000))}, False))
    wait(bench)
    assert_unharmed(bench)


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
def test_early_messages_of_a_neighbour_are_bounded(protocol):
    bench = line(protocol, early=10_000)
    for seq in range(2, 200):
        lie(bench, Message(LIAR, seq, bytes(100), stamp(protocol)))
    assert bench.nodes[1].gauges()["pending"] <= 21
    assert bench.nodes[2].gauges()["pending"] <= 21
    assert_unharmed(bench)


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
def test_a_base_that_nobody_needs_does_not_make_each_early_message_a_search_through_all(protocol, monkeypatch):
    bench = line(protocol)
    node, looks = bench.nodes[1], []
    pending = node.pending
    monkeypatch.setattr(node, "pending", lambda: looks.append(len(pending())) or pending())
    assert not lie(bench, Base({70: 5}))
    for source in range(1000, 1050):
        for seq in (2, 3):  # the first of each source never comes
            lie(bench, Message(source, seq, b"", stamp(protocol, {})))
    assert len(pending()) == 100
    assert sum(looks) < 1000


def test_numbers_out_of_turn_are_bounded_without_an_order(monkeypatch):
    monkeypatch.setattr("antecast.protocols.flood.MAX_SOURCES", 100)
    bench = line("r-broadcast")
    for seq in range(2, 300):
        lie(bench, Message(LIAR, 2 * seq, b"", None))
    assert bench.nodes[1].gauges()["out_of_turn"] == 100
    assert_unharmed(bench)


@causal
def test_what_is_over_the_quota_comes_later(protocol):
    """Node 1 is sent much that it cannot deliver yet: it takes what it can, and asks for the rest again."""
    bench = Bench(protocol, nodes=2, settings={"early": 3000})
    bench.link(0, 1)
    for _ in range(30):
        bench.broadcast(0)
    for flight in reversed(bench.drop()):
        bench.arrive(flight)
    bench.transfer()
    assert bench.delivered[1] != bench.delivered[0]
    while OWED in bench.timers[1]:
        bench.pass_time(bench.timers[1][OWED])
        bench.transfer()
    assert bench.delivered[1] == bench.delivered[0]


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
def test_a_quota_that_stays_full_does_not_keep_a_base_from_being_taken(protocol):
    """A message that can never be delivered, passed on by an honest neighbour, fills its quota. Node 2 then misses
    more than is kept: what comes next cannot be held, and yet it must make node 2 go on without the rest."""
    bench = line(protocol, early=1000, retain=1)
    lie(bench, Message(LIAR, 2, bytes(1000), stamp(protocol)))
    assert bench.nodes[2].gauges()["pending"] == 1
    bench.unlink(1, 2)
    for _ in range(5):
        bench.broadcast(0)
    bench.transfer()
    bench.link(1, 2)
    bench.transfer()
    wait(bench)
    assert bench.nodes[2].gauges()["pending"] == 1
    assert_unharmed(bench)


@every
def test_a_source_too_many_is_refused_and_is_a_misuse_at_the_source(protocol, monkeypatch):
    monkeypatch.setattr(retained, "MAX_SOURCES", 4)
    bench = Bench(protocol, nodes=2)
    bench.link(0, 1)
    node = bench.nodes[1]
    for source in (2, 3, 4, 5):
        node.receive(Message(source, 1, b"", stamp(protocol)), 0, 0)
    before = node.snapshot()
    with pytest.raises(RemoteFault, match="as many as a clock can name"):
        node.receive(Message(6, 1, b"", stamp(protocol)), 0, 0)
    with pytest.raises(LocalMisuse, match="split the group"):
        node.broadcast(b"", 0)
    assert node.snapshot() == before
    effects = node.receive(Message(5, 2, b"", stamp(protocol)), 0, 0)
    assert any(isinstance(effect, Deliver) for effect in effects)


def test_a_summary_names_no_more_than_a_frame_holds():
    received = Received()
    for seq in range(2, 200, 2):
        received.add(1, seq)
        received.add(2, seq)
    some = some_gaps(received.beyond, 120)
    assert {origin: len(numbers) for origin, numbers in some.items()} == {1: 99, 2: 21}
    assert some_gaps(received.beyond, 10**6) == received.gaps()


counts = st.sampled_from([0, 1, 2, 3, 5, 60, 2**31, HUGE - 1, HUGE])
seqs = st.sampled_from([1, 2, 3, 5, 60, 2**31, HUGE - 1, HUGE])
strangers = st.sampled_from([LIAR, 50, 51, 2**32 - 1])
anyone = strangers | st.integers(0, 3)


def clocks(sources):
    return st.dictionaries(sources, counts, max_size=4)


def frames(protocol):
    """Anything that decodes, but for what no protocol can tell from the truth: messages of honest sources, and
    messages of liars that say they depend on what honest sources have not sent."""
    stamps = clocks(strangers) | st.dictionaries(st.integers(0, 2), st.just(1), max_size=3)
    bases = clocks(strangers) if protocol == "vector-changes" else clocks(anyone)
    return st.one_of(
        st.builds(Message, strangers, seqs, st.just(b""), stamps if protocol in CAUSAL else st.none()),
        st.builds(
            Summary, clocks(anyone), st.dictionaries(anyone, st.lists(seqs, max_size=4), max_size=3), st.booleans()
        ),
        st.builds(Base, bases),
    )


@every
@given(data=st.data())
def test_honest_nodes_go_on_whatever_a_neighbour_sends(protocol, data):
    bench = line(protocol, retain=data.draw(st.sampled_from([0, 2, 10_000])), early=5000)
    for node in (0, 2):
        bench.broadcast(node)
        bench.transfer()
    for action in data.draw(st.lists(st.sampled_from(["lie", "lie", "lie", "broadcast", "wait"]), max_size=40)):
        if action == "lie":
            lie(bench, data.draw(frames(protocol)))
        elif action == "broadcast":
            bench.broadcast(data.draw(st.integers(0, 2)))
            bench.transfer()
        else:
            wait(bench, 1)
    wait(bench)
    assert_unharmed(bench)
    assert all(node.gauges()["stored"] <= 10_100 for node in bench.nodes.values())


@causal
@pytest.mark.parametrize("known", [0, 1], ids=["a stranger", "a source that was heard before"])
def test_a_held_message_that_can_never_be_delivered_stops_nobody(protocol, known):
    """The liar's message depends on one of node 0 that does not exist: 0 drops it, the others hold it. Then 0 is
    made to go on without it, and what 0 broadcasts from there on depends on what the others hold."""
    play = Play(Stage(specification(protocol), {}, (0, 2)))

    def send(to, frame):
        play.do(Step("frame", LIAR, to, play.codec.encode(frame)))

    play.do(Step("link", 0, 0))
    for seq in range(1, known + 1):
        send(0, Message(LIAR, seq, b"", {}))
    play.do(Step("transfer"))
    send(2, Message(LIAR, known + 1, b"", {0: 2**31}))
    play.do(Step("transfer"))
    send(0, Base({LIAR: known + 1}))
    send(0, Message(LIAR, known + 2, b"", {}))
    play.end()  # everyone delivers everything
