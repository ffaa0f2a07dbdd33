"""The cellular protocol: the paper's two examples, random runs that must not go wrong, and hosts that are given
up."""

import pytest
from cellular_bench import Bench, Plan, hasty_plan, impatient_plan, random_plan
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import Deliver, LocalMisuse, Message, RemoteFault, Transmit
from antecast.papers.cellular.cells import A, B, C, Cells
from antecast.protocols import specification
from antecast.protocols.cellular.frames import CODEC, Ack, Acks, Init, Reject, Req1, Rsp1, Rsp2


def frames(stage, kind):
    """The frames of a kind that wait on the wires."""
    return [frame for waiting in stage.wires.values() for frame in waiting if isinstance(frame, kind)]


def test_the_broadcast_of_two_messages_of_figure_4():
    """h1 broadcasts m1; h2, in the next cell, delivers it and broadcasts m2. A copy of m1 to h1 is lost."""
    stage = Cells((A, B))
    stage.at(A, 1)
    stage.at(B, 2)
    m1 = stage.broadcast(1)
    stage.put(stage.hold("Message", sender=1))
    stage.lose("Message", sender=A)  # A's copy to its own cell
    stage.settle()
    assert stage.delivered == {2: [m1]}  # B has sent it on; a host waits for its own message too
    m2 = stage.broadcast(2)
    stage.settle()
    assert stage.delivered == {2: [m1, m2]}
    assert stage.nodes[1].gauges()["host_received_buffer"] == 1  # m2 came, m1 is missing
    stage.tick(2000)
    assert stage.delivered == {1: [m1, m2], 2: [m1, m2]}
    stage.tick(2000)
    assert stage.kept(A) == stage.kept(B) == []
    assert not any(sum(node.gauges().values()) for host, node in stage.nodes.items() if host < 100)


def test_the_handoff_of_figure_5():
    """h1 moves from A to B. It has delivered m1, which A has dropped and B keeps; not m2, which B has dropped
    and A keeps; m3 arrives during the handoff."""
    stage = Cells((A, B))
    stage.at(A, 1, 3)
    stage.at(B, 2, 4)
    stage.close(A, B)
    stage.close(B, A)
    m1, m2 = stage.broadcast(3), stage.broadcast(2)
    stage.settle()  # each in its own cell
    stage.open(A, B)
    stage.open(B, A)
    stage.wire()
    stage.lose("Message", to=1)  # m2 at A
    stage.lose("Message", sender=B, to=4)  # m1 at B
    stage.settle()
    for host in (1, 3, 2, 4):
        stage.fire(host, "ack")
    stage.settle()
    assert stage.kept(A) == [m2]
    assert stage.kept(B) == [m1]
    assert stage.delivered[1] == [m1]

    stage.close(A, B)
    stage.close(B, A)
    stage.move(1, B)
    stage.settle()
    (request,) = frames(stage, Req1)
    assert (request.host, request.lc, request.seqc) == (1, 1, 1)
    stage.open(B, A)
    stage.wire()
    (answer,) = frames(stage, Rsp1)
    assert answer.missing == [m2]
    m3 = stage.broadcast(3)  # reaches A after Rsp1 has left; B behind it
    stage.put(stage.hold("Message", sender=3))
    stage.open(A, B)
    sent = []
    while stage.wires[A, B] or stage.wires[B, A]:
        sent += frames(stage, Rsp2)
        for a, b in ((A, B), (B, A)):
            if stage.wires[a, b]:
                stage.perform(b, stage.nodes[b].receive(stage.wires[a, b].pop(0), a, stage.now))
    assert sent[0].received == [m3]
    (confirmed,) = stage.hold("InitAck", to=1)
    assert (confirmed.frame.catch_up, confirmed.frame.seqc, confirmed.frame.seqh) == (
        1,
        2,
        1,
    )  # m2, then from m3 on
    stage.put([confirmed])
    stage.settle()
    assert stage.delivered[1] == [m1, m2, m3]
    assert not stage.wrong()


@st.composite
def plans(draw, **fixed):
    few = st.integers(0, 6)
    values = {
        "seed": draw(st.integers(0, 2**32)),
        "stations": draw(st.integers(1, 5)),
        "hosts": draw(st.integers(2, 6)),
        "loss": draw(st.sampled_from([0.0, 0.1, 0.3, 0.5])),
        "burst": draw(st.sampled_from([0.0, 0.2, 0.4])),
        "radio_delay": draw(st.sampled_from([1, 50, 300, 1000])),
        "wire_delay": draw(st.sampled_from([1, 50, 300, 1000])),
        "broadcasts": draw(st.integers(0, 40)),
        "moves": draw(st.integers(0, 20)),
        "pairs": draw(st.integers(0, 15)),
        "crashes": draw(few),
        "joins": draw(few),
        "leaves": draw(st.integers(0, 2)),
        "outages": draw(few),
    }
    return Plan(**values | fixed)


@given(plans())
def test_every_host_delivers_everything_once_and_in_causal_order(plan):
    assert Bench(plan).play().faults() == []


@given(plans(settings={"evict": "3s"}))
def test_hosts_that_were_given_up_start_anew_and_deliver_nothing_twice(plan):
    assert Bench(plan).play().faults() == []


@given(plans(settings={"window": 3}))
def test_a_small_window_holds_nobody_up(plan):
    assert Bench(plan).play().faults() == []


@given(st.integers(0, 2**32))
def test_hosts_that_are_given_up_within_moments_break_nothing(seed):
    """`evict` below `forget`, below the wires' delay, below the longest handoff."""
    assert Bench(hasty_plan(seed)).play().faults() == []


@given(st.integers(0, 2**32))
@example(1)
@example(19)
@example(370423)
def test_handoffs_that_are_broken_off_and_begun_again_lose_nothing(seed):
    """`handoff` below the wires' delay: a host is offered again while its first offer is on its way."""
    assert Bench(impatient_plan(seed)).play().faults() == []


def test_offers_are_taken_only_for_the_request_that_they_answer():
    """A's lock is opened in time and closed again by B's next request, while its first offer is still on the wire.
    What came to A between the two is named in the second offer alone."""
    stage = Cells((A, B), handoff="1s")
    stage.at(A, 0, 1)
    stage.at(B, 2)
    stage.close(A, B)
    stage.move(0, B)
    stage.settle()
    message = stage.broadcast(2)
    stage.tick(4000)
    assert len(frames(stage, Rsp1)) > 1
    stage.open(A, B)
    stage.tick(5000)
    assert message in stage.delivered[0]
    assert stage.wrong() == []


def test_a_refusal_of_one_handoff_does_not_end_another():
    stage = Cells((A, B), (B, C))
    stage.at(A, 0)
    stage.close(B, A)
    stage.move(0, C)
    stage.settle()
    stage.open(B, A)
    stage.close(A, B)
    stage.wire()
    (offer,) = frames(stage, Rsp1)
    assert not stage.nodes[A].records[0].held
    stage.perform(A, stage.nodes[A].receive(Reject(0, 2, A, C, offer.wave - 1), B, stage.now))
    assert not stage.nodes[A].records[0].held
    stage.perform(C, stage.nodes[C].receive(Reject(0, 2, C, A, offer.wave - 1), B, stage.now))
    assert 0 in stage.nodes[C].records
    stage.open(A, B)
    stage.tick(1000)
    assert stage.nodes[C].records[0].held
    assert stage.wrong() == []


@pytest.mark.parametrize("seed", [145, 196, 422])
def test_locks_do_not_outlive_their_handoff(seed):
    """Runs in which a host was given up by one station while another was asking for it."""
    assert Bench(random_plan(seed, evict="1500ms")).play().faults() == []


def asleep(stage, host, ms):
    """A host hears nothing and does nothing for a while, and does not know it. Then it first sends again what it
    had sent last."""
    station = stage.cell.pop(host)
    timers = [stage.timers.pop(who) and who for who in list(stage.timers) if who[0] == host]
    stage.tick(ms)
    for who in timers:
        stage.timers[who] = stage.now + (0 if who[1] == "resend" else 100 * 10**6)
    stage.cell[host] = station


@pytest.mark.parametrize("busy", [True, False])
def test_a_host_that_slept_until_it_was_given_up_is_told_within_seconds(busy):
    """Default settings, 13 minutes. Also while it keeps sending what nobody acknowledges."""
    stage = Cells((A, B), evict="5min")
    stage.at(A, 0, 1)
    if busy:
        stage.broadcast(0)
        stage.lose("Message")
    asleep(stage, 0, 13 * 60_000)
    assert stage.nodes[A].gauges()["station_hosts"] == 1
    stage.tick(5000 if busy else 25_000)
    message = stage.broadcast(1)
    answer = stage.broadcast(0)
    stage.tick(3000)
    assert stage.delivered[0][-2:] == [message, answer]
    assert stage.nodes[A].gauges()["station_hosts"] == 2


def test_a_host_that_stays_away_for_good_is_given_up():
    stage = Cells((A, B), evict="20s")
    stage.at(A, 0, 1)
    stage.crash(0)
    stage.broadcast(1)
    stage.tick(15_000)
    assert stage.kept(A) == [(1, 1)]
    stage.tick(15_000)
    assert stage.kept(A) == []
    assert stage.nodes[A].gauges()["station_hosts"] == 1


def test_a_host_that_was_given_up_starts_behind_what_it_missed():
    """Also where another host keeps the station from dropping what it has delivered before."""
    stage = Cells((A, B), evict="20s")
    stage.at(A, 0, 1)
    first = stage.broadcast(1)
    stage.settle()
    stage.crash(0)
    missed = stage.broadcast(1)
    stage.tick(60_000)
    stage.recover(0)
    stage.move(0, B)
    stage.tick(1000)
    later = stage.broadcast(1)
    stage.tick(5000)
    assert stage.delivered[0] == [first, later]
    assert stage.delivered[1] == [first, missed, later]


def test_messages_of_a_host_that_was_given_up_are_never_passed_on_twice():
    """Its message had reached the station, but it never knew."""
    stage = Cells((A, B), evict="20s")
    stage.at(A, 0, 1)
    unsure = stage.broadcast(0)
    stage.settle()
    assert stage.delivered[1] == [unsure]
    stage.crash(0)
    stage.tick(60_000)
    stage.recover(0)
    fresh = stage.broadcast(0)
    stage.tick(5000)
    assert stage.discarded == [unsure]
    assert stage.delivered[1] == [unsure, fresh]


def test_a_host_with_nothing_to_say_is_not_given_up():
    stage = Cells((A, B), evict="20s")
    stage.at(A, 0, 1)
    stage.tick(200_000)
    assert stage.nodes[A].gauges()["station_hosts"] == 2


def test_a_host_given_up_while_it_thought_itself_established_is_told():
    stage = Cells((A, B), evict="20s")
    stage.at(A, 0, 1)
    stage.nodes[A].records[0].heard_at = -(10**12)
    stage.fire(A, "look")
    assert stage.nodes[A].gauges()["station_hosts"] == 1
    stage.tick(20_000)
    message = stage.broadcast(1)
    stage.tick(2000)
    assert stage.delivered[0] == [message]


@pytest.mark.parametrize("handed_on", [0, 1, 2])
def test_a_crash_in_the_middle_of_a_batch_of_deliveries_repeats_and_loses_none(handed_on):
    """The state is saved with the deliveries of each call: what had not been handed on is handed on afterwards."""
    stage = Cells((A, B))
    stage.at(A, 0, 1)
    first, second = stage.broadcast(1), stage.broadcast(1)
    stage.put(stage.hold("Message", sender=1))
    copies = stage.hold("Message", to=0)
    stage.put(copies[1:])  # the second waits for the first
    effects = stage.nodes[0].receive(copies[0].frame, A, stage.now)
    saved = [effect for effect in effects if isinstance(effect, Deliver)]
    assert len(saved) == 2
    stage.perform(0, saved[:handed_on])
    stage.crash(0)
    stage.perform(0, saved[handed_on:])
    stage.recover(0)
    third = stage.broadcast(1)
    stage.tick(5000)
    assert stage.delivered[0] == [first, second, third]
    assert stage.delivered[1] == [first, second, third]


@pytest.mark.parametrize("window", [1, 2, 5])
def test_silent_hosts_do_not_hold_up_their_cell(window):
    """What a host that is gone lacks is kept for it, and the others go on."""
    stage = Cells((A, B), window=window)
    stage.at(A, 0, 1)
    stage.crash(0)
    for _ in range(40):
        stage.broadcast(1)
        stage.tick(400)
    stage.tick(10_000)
    assert len(stage.delivered[1]) == 40
    assert len(stage.kept(A)) == 40
    stage.recover(0)
    assert not stage.wrong()


def test_a_silent_host_costs_one_frame_a_second():
    stage = Cells((A, B))
    stage.at(A, 0, 1)
    stage.move(0, None)
    for _ in range(20):
        stage.broadcast(1)
    stage.tick(10_000)
    before = stage.now
    sent = 0
    while stage.now < before + 10_000 * 10**6:
        stage.now, node, token = min((at, *who) for who, at in stage.timers.items())
        stage.fire(node, token)
        sent += len(stage.hold("Message", sender=A, to=1))
        stage.air.clear()
    assert 5 <= sent <= 11


@pytest.mark.parametrize("evict", [0, "5min"])
def test_a_host_that_had_nothing_to_say_gets_the_next_message_at_once(evict):
    """Also where nobody else is in its cell, and more messages than a window holds have gone by."""
    stage = Cells((A, B), window=3, evict=evict)
    stage.at(A, 0)
    stage.at(B, 1)
    for count in range(1, 11):
        stage.tick(7000)
        stage.broadcast(1)
        stage.settle()
        assert len(stage.delivered[0]) == count


def test_what_a_host_has_to_catch_up_on_is_sent_before_all_else():
    """A radio with a short queue drops the end of what a station sends at once, each time."""
    stage = Cells((A, B))
    stage.at(A, 0, 1)
    stage.at(B, 2)
    missed = stage.broadcast(1)
    stage.put(stage.hold("Message", sender=1))
    stage.lose("Message", to=0)
    stage.settle()
    stage.fire(2, "ack")
    stage.settle()
    assert stage.kept(B) == []
    stage.move(0, B)
    stage.put(stage.hold("Init"))
    stage.wire()
    stage.put(stage.hold("InitAck"))
    assert stage.nodes[0].established
    later = stage.broadcast(2)
    stage.put(stage.hold("Message", sender=2))
    stage.lose("Message")
    stage.now += 2000 * 10**6
    stage.fire(B, "resend")
    sent = [(packet.frame.origin, packet.frame.seq) for packet in stage.hold("Message", sender=B, to=0)]
    assert sent == [missed, later]


def test_floors_are_forgotten():
    stage = Cells((A, B), forget="5s")
    stage.at(A, *range(20))
    for host in range(19):
        stage.leave(host)
    stage.tick(1000)
    assert stage.nodes[B].gauges()["station_floors"] == 20
    stage.tick(10_000)
    stage.enter(30, A)
    stage.tick(1000)
    assert stage.nodes[B].gauges()["station_floors"] == 1


def test_a_host_that_leaves_sends_its_last_words_first():
    stage = Cells((A, B))
    stage.at(A, 0, 1)
    stage.broadcast(0)
    stage.lose("Message")
    stage.leave(0)
    assert not stage.hold("Leave")
    stage.tick(5000)
    assert stage.nodes[0].left
    assert stage.delivered[1] == [(0, 1)]
    with pytest.raises(LocalMisuse, match="leaves"):
        stage.nodes[0].broadcast(b"", 0)


def test_frames_survive_the_wire():
    bench = Bench(Plan(seed=7, moves=20))
    carried = []
    copy = bench.copy
    bench.copy = lambda frame: carried.append((frame, copy(frame))) or carried[-1][1]
    bench.play()
    kinds = {type(frame).__name__ for frame, _ in carried}
    assert {"Message", "Req1", "Rsp1", "Req2", "Rsp2"} <= kinds
    assert all(before == after for before, after in carried)


@pytest.mark.parametrize(
    "frame",
    [Message(9, 1, b"", None), Acks({0: 1}), Ack(1, 0, 99)],
    ids=["someone else's message", "a station's frame", "an acknowledgement of the future"],
)
def test_a_station_refuses_what_no_host_would_send(frame):
    stage = Cells((A, B))
    stage.at(A, 0)
    with pytest.raises(RemoteFault):
        stage.nodes[A].receive(frame, 0, 0)


@pytest.mark.parametrize("frame", [Message(9, 1, b"", None), Init(1, 0, 0, 0, 1)])
def test_a_host_refuses_what_no_station_would_send(frame):
    stage = Cells((A, B))
    stage.at(A, 0)
    with pytest.raises(RemoteFault):
        stage.nodes[0].receive(frame, A, 0)


def test_an_acknowledgement_is_a_few_bytes():
    assert CODEC.size(Ack(12, 0, 3000, 3001, [])) <= 13
    assert CODEC.size(Message(30, 200, bytes(100), 3000)) <= 114


def test_roles_share_one_language():
    spec = specification("cellular")
    settings = spec.configure({})
    assert spec.make(0, settings).codec is spec.make_station(9, settings).codec


def test_a_late_copy_does_not_show_that_a_host_knows_it_was_given_up():
    """The host must be told until it has heard it, or it takes what is gone for passed on."""
    spec = specification("cellular")
    station = spec.make_station(A, spec.configure({}))
    init = Init(ses=5, lc=4, co=0, seqc=1, next=13)

    def told():
        (ack,) = [effect.frame for effect in station.receive(init, 0, 1) if isinstance(effect, Transmit)]
        return ack.seqh, ack.fresh

    assert told() == (13, True)
    station.receive(Message(0, 12, b"late", None), 0, 2)
    init = Init(ses=6, lc=4, co=0, seqc=1, next=13)
    assert told() == (13, True)
    station.receive(Message(0, 13, b"new", None), 0, 3)
    init = Init(ses=7, lc=6, co=0, seqc=1, next=14)
    assert told() == (14, False)
