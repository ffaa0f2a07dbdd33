"""Frames that no correct host or station sends: refused without a trace, or harmless. Every frame type, over the
radio and over the wires, with extreme and inconsistent values."""

from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import Alert, Deliver, Message, RemoteFault, Send, SetTimer, Transmit
from antecast.papers.cellular.cells import A, B, C, Cells
from antecast.protocols import specification
from antecast.protocols.cellular.frames import (
    MAX_LISTED,
    Ack,
    Acks,
    Carried,
    CatchUp,
    Delete,
    Echo,
    Gone,
    Init,
    InitAck,
    Join,
    Leave,
    LeaveAck,
    Left,
    Marked,
    Reject,
    Req1,
    Req2,
    Rsp1,
    Rsp2,
)
from antecast.testing.hostile import HOSTILE, Stage

FAR = 2**63 - 1
STRANGER = 77


def state(value, seen=()):
    """Everything inside a node: what a snapshot holds, and what it does not."""
    if isinstance(value, (int, float, str, bytes, type(None), Enum)):
        return value
    if isinstance(value, msgspec.Struct):
        return repr(value)
    if isinstance(value, dict):
        return [(state(key, seen), state(each, seen)) for key, each in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple, deque)):
        return [state(each, seen) for each in value]
    if id(value) in seen or (callable(value) and not hasattr(value, "_count")):
        return type(value).__name__
    if is_dataclass(value):
        inside = {each.name: getattr(value, each.name) for each in fields(value)}
    else:
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        inside = getattr(value, "__dict__", None) or {name: getattr(value, name) for name in names}
    return [(name, state(each, (*seen, id(value)))) for name, each in sorted(inside.items())]


def scene():
    """Host 0 is with A and is being handed over to C, whose answer is held back; 1 with A, 2 with B; messages are
    under way everywhere."""
    stage = Cells((A, B), (B, C), evict="20s")
    stage.at(A, 0, 1)
    stage.at(B, 2)
    stage.broadcast(1)
    stage.put(stage.hold("Message", sender=1))
    stage.lose("Message", to=0)
    stage.settle()
    stage.close(A, B)
    stage.move(0, C)
    stage.settle()
    stage.broadcast(2)
    stage.broadcast(0)
    stage.settle()
    return stage


def refuse(node, frame, sender, now):
    before = state(node), node.snapshot()
    with pytest.raises(RemoteFault):
        node.receive(frame, sender, now)
    assert (state(node), node.snapshot()) == before


REFUSED_FROM_THE_RADIO = [
    Message(9, 1, b"", None),
    Message(1, 2, b"", 5),
    Message(1, 2, b"", Carried(1, 1, A, B, 1)),
    Message(1, 2, b"", CatchUp(1, 1, 0)),
    Message(1, 2, b"", Marked(3, [1])),
    Ack(1, 0, FAR),
    Ack(1, 0, 0, FAR, []),
    Ack(1, 0, 0, 1, [FAR]),
    Ack(1, 0, 1, 1, [0]),
    Ack(1, 0, 0, 1, [0] * 200),
    Ack(1, 5, 0),
    Join(FAR, 1),
    Join(2**40, 1),
    Init(FAR, 1, 0, 0, 1),
    Init(2**40, 1, 0, 0, 1),
    Init(5, 5, 0, 0, 1),
    Init(5, FAR, 0, 0, 1),
    Init(5, 1, 0, 0, FAR),
    Join(5, 2**62),
    InitAck(1, 1, 0, 0, [], 1, False),
    Acks({1: 1}),
    LeaveAck(1),
    Gone(1, 1),
    Delete(1, 5),
    Left(1),
    Req1(1, 5, 1, 0, 0, B, 9),
    Echo(A, 1, False),
    Rsp1(1, 1, A, B, 1, []),
    Req2(1, 1, A, B, 1, []),
    Rsp2(1, 1, A, B, 1, [], 1, False),
    Reject(1, 1, A, B, 1),
]


@pytest.mark.parametrize("frame", REFUSED_FROM_THE_RADIO, ids=repr)
def test_a_station_refuses_what_no_host_sends_and_has_changed_nothing(frame):
    stage = scene()
    refuse(stage.nodes[A], frame, 1, stage.now)


@pytest.mark.parametrize("sender", [STRANGER, C])
@pytest.mark.parametrize(
    "frame",
    [Delete(0, 5), Left(0), Req1(0, 9, 1, 0, 0, C, 9), Echo(A, 1, True), Rsp1(0, 2, A, C, 1, []),
     Req2(0, 2, A, C, 1, []), Rsp2(0, 2, A, C, 1, [], 1, False), Reject(0, 2, A, C, 1)],
    ids=repr,
)  # fmt: skip
def test_frames_of_stations_come_over_wires_only(frame, sender):
    stage = scene()
    refuse(stage.nodes[A], frame, sender, stage.now)


REFUSED_FROM_A_WIRE = [
    Message(1, 2, b"", 5),
    Message(1, 2, b"", CatchUp(1, 1, 0)),
    Message(1, 2, b"", Marked(3, [1])),
    Message(8, 1, b"", Carried(0, 2, STRANGER, C, 1)),  # to a station that nobody knows
    Message(8, 1, b"", Carried(0, 2, A, A, 1)),  # by this station itself
    Join(5, 1),
    Init(5, 1, 0, 0, 1),
    Ack(1, 0, 0),
    Leave(1),
    InitAck(1, 1, 0, 0, [], 1, False),
    Acks({1: 1}),
    LeaveAck(1),
    Gone(1, 1),
    Delete(0, FAR),
    Delete(0, 2**40),
    Req1(0, FAR, 1, 0, 0, C, 9),
    Req1(0, 2**40, 1, 0, 0, C, 9),
    Req1(0, 3, 3, 0, 0, C, 9),
    Req1(0, 3, 1, 0, 0, A, 9),
    Echo(A, 99, True),
    Echo(STRANGER, 1, False),
    Rsp1(0, 2, STRANGER, C, 1, []),
    Req2(0, 2, A, C, 1, [(8, 8)]),  # what was not offered
    Req2(0, 2, STRANGER, B, 1, []),
    Req2(0, 2, A, A, 1, []),
    Rsp2(0, 2, STRANGER, C, 1, [], 1, False),
    Rsp2(0, 2, A, C, 1, [], FAR, False),
    Message(8, 2**62, b"", None),
    Reject(0, 2, STRANGER, B, 1),
]


@pytest.mark.parametrize("frame", REFUSED_FROM_A_WIRE, ids=repr)
def test_a_station_refuses_what_no_station_sends_and_has_changed_nothing(frame):
    stage = scene()
    refuse(stage.nodes[A], frame, B, stage.now)


def test_a_station_that_awaits_a_host_takes_only_what_it_has_asked_for():
    stage = scene()
    stage.open(A, B)
    node = stage.nodes[C]
    before = node.snapshot()["records"]
    for frame in (Message(8, 1, b"", Carried(0, 2, C, A, 1)), Rsp2(0, 2, C, A, 1, [], 1, False)):
        assert node.receive(frame, B, stage.now) == []
    assert node.snapshot()["records"] == before
    stage.wire()
    assert not stage.wrong()


def test_a_station_has_one_wire_that_leads_to_it():
    """A frame that names a station as its sender, but comes from elsewhere, does not turn its answers away."""
    stage = Cells((A, B), (B, C))
    stage.at(A, 0)
    stage.move(0, C)
    stage.settle()
    assert stage.nodes[B]._wires.routes == {A: A, C: C}
    refuse(stage.nodes[B], Reject(5, 1, B, C, 1), A, stage.now)
    refuse(stage.nodes[B], Req1(5, 2, 1, 0, 0, C, 9), A, stage.now)


REFUSED_BY_A_HOST = [
    Message(9, 1, b"", None),
    Message(9, 1, b"", Carried(0, 1, A, B, 1)),
    Message(9, 1, b"", Marked(0, [])),
    InitAck(1, 1, MAX_LISTED + 1, 0, [], 1, False),
    InitAck(1, 1, 0, FAR, [], 1, False),
    InitAck(1, 1, 0, 5, [4], 1, False),
    InitAck(1, 1, 0, 5, [FAR], 1, False),
    Join(1, 1),
    Init(1, 0, 0, 0, 1),
    Ack(1, 0, 0),
    Leave(1),
    Delete(1, 1),
    Left(1),
    Req1(1, 1, 0, 0, 0, B, 1),
    Echo(A, 1, True),
    Rsp1(1, 1, A, B, 1, []),
    Req2(1, 1, A, B, 1, []),
    Rsp2(1, 1, A, B, 1, [], 1, False),
    Reject(1, 1, A, B, 1),
]


@pytest.mark.parametrize("frame", REFUSED_BY_A_HOST, ids=repr)
def test_a_host_refuses_what_no_station_sends_and_has_changed_nothing(frame):
    stage = scene()
    refuse(stage.nodes[1], frame, A, stage.now)


# What a refused or forged frame must not do.


def test_a_message_with_the_stamp_of_the_wires_does_not_get_lost():
    """A host's message stamped `Carried` would travel to one station instead of all."""
    stage = Cells((A, B))
    stage.at(A, 0)
    refuse(stage.nodes[A], Message(0, 1, b"x", Carried(0, 1, B, A, 1)), 0, stage.now)
    stage.broadcast(0)
    assert not stage.wrong()


@pytest.mark.parametrize("forged", [FAR, 2**62, 2**62 - 1, 2**40])
def test_a_forged_session_does_not_keep_a_host_out(forged):
    """Neither where the host is known nor, for longer than `forget` and `evict`, where it is not."""
    stage = Cells((A, B), evict="5s", forget="3s")
    stage.at(A, 0, 1)
    for frame in (Join(forged, 1), Init(forged, 1, 0, 0, 1)):
        for station in (A, B):
            try:
                stage.perform(station, stage.nodes[station].receive(frame, 0, stage.now))
            except RemoteFault:
                continue
    stage.settle()
    stage.tick(15_000)
    message = stage.broadcast(1)
    stage.tick(3000)
    assert message in stage.delivered[0]


def test_a_forged_leave_keeps_a_host_out_for_a_while_only():
    stage = Cells((A, B), evict="5s", forget="3s")
    stage.at(A, 0, 1)
    stage.perform(A, stage.nodes[A].receive(Leave(1), 0, stage.now))
    stage.tick(10_000)
    message = stage.broadcast(1)
    stage.tick(3000)
    assert message in stage.delivered[0]


def test_storms_of_forged_hosts_and_requests_leave_nothing_behind():
    stage = Cells((A, B), evict="5s", forget="3s")
    stage.at(A, 0)
    for number in range(300):
        stage.perform(A, stage.nodes[A].receive(Join(1, 1), 1000 + number, stage.now))
        stage.perform(A, stage.nodes[A].receive(Init(9 + number, 1, 0, 0, 1), 2000, stage.now))
        stage.perform(B, stage.nodes[B].receive(Init(9 + number, 1, 0, 0, 1), 3000 + number, stage.now))
    stage.air.clear()
    stage.tick(15_000)
    for _ in range(2):
        stage.broadcast(0)
        stage.tick(4000)
    for station in (A, B):
        gauges = stage.nodes[station].gauges()
        assert (gauges["station_hosts"], gauges["station_sent_buffer"]) == ((1, 0) if station == A else (0, 0))
        assert gauges["station_floors"] <= 1
        assert not stage.nodes[station].searching


def test_requests_of_one_station_for_one_host_take_one_place():
    """A storm of requests at a station that awaits the host itself."""
    stage = scene()
    for wave in range(100, 200):
        stage.perform(C, stage.nodes[C].receive(Req1(0, wave, 1, 0, 0, A, wave), B, stage.now))
    assert len(stage.nodes[C].records[0].handoff.stash) == 1


def test_a_lock_that_nobody_asked_for_is_opened():
    """A request over the wire for a host that is nowhere else: its station never takes the offer."""
    stage = Cells((A, B), (B, C), handoff="10s")
    stage.at(A, 0, 1)
    stage.perform(B, stage.nodes[B].receive(Req1(0, 9, 1, 0, 0, C, 9), C, stage.now))
    stage.close(B, C)
    stage.wire()
    (offer,) = [frame for frame in stage.wires.pop((B, C)) if isinstance(frame, Rsp1)]
    stage.open(B, C)
    assert not stage.nodes[A].records[0].held
    stage.perform(C, stage.nodes[C].receive(offer, B, stage.now))  # it knows nothing of it, and declines
    stage.wire()
    assert stage.nodes[A].records[0].held
    message = stage.broadcast(1)
    stage.tick(3000)
    assert message in stage.delivered[0]


def test_a_lock_whose_station_says_nothing_is_opened_in_time():
    stage = Cells((A, B), (B, C), handoff="10s")
    stage.at(A, 0, 1)
    stage.perform(A, stage.nodes[A].receive(Req1(0, 9, 1, 0, 0, C, 9), B, stage.now))
    for frames in stage.wires.values():
        frames.clear()
    assert not stage.nodes[A].records[0].held
    message = stage.broadcast(1)
    stage.tick(25_000)
    assert stage.nodes[A].records[0].held
    assert message in stage.delivered[0]


def test_a_host_that_hears_of_its_own_messages_that_it_never_sent_says_so_once():
    stage = Cells((A, B))
    stage.at(A, 0)
    host = stage.nodes[0]
    effects = [
        *host.receive(Message(0, 7, b"", 0), A, stage.now),
        *host.receive(Acks({0: 9}), A, stage.now),
        *host.receive(Message(9, 1, b"", 1), A, stage.now),
    ]
    (alert,) = [effect for effect in effects if isinstance(effect, Alert)]
    assert "0:7" in alert.text
    assert [effect.message.origin for effect in effects if isinstance(effect, Deliver)] == [9]


def test_a_host_that_comes_back_without_its_state_is_told():
    stage = Cells((A, B))
    stage.at(A, 0)
    stage.move(0, B)
    stage.tick(1000)
    stage.move(0, A)
    stage.tick(1000)
    alerts = []
    stage.nodes[0] = stage.spec.make(0, stage.settings)
    stage.perform(0, stage.nodes[0].link_up(A, stage.now))
    for packet in stage.hold("Join"):
        stage.perform(A, stage.nodes[A].receive(packet.frame, 0, stage.now))
    for packet in stage.hold("InitAck", to=0):
        alerts += stage.nodes[0].receive(packet.frame, A, stage.now)
    assert ["lost its state" in effect.text for effect in alerts if isinstance(effect, Alert)] == [True]


def test_a_station_never_sends_a_list_that_others_refuse():
    """A host that lacks more than a list may name is given up, however long stations keep silent hosts."""
    stage = Cells((A, B), evict=0)
    stage.at(A, 0)
    stage.move(0, None)
    station = stage.nodes[A]
    for seq in range(1, MAX_LISTED + 2):
        station.receive(Message(9, seq, b"", None), B, stage.now)
    assert station.gauges()["station_hosts"] == 0
    assert station.gauges()["station_sent_buffer"] == 0
    stage.move(0, B)
    stage.tick(1000)
    assert stage.nodes[0].established


# One name, one message.


def test_a_host_that_comes_back_without_its_state_long_after_it_was_given_up_is_told_too():
    """Nobody knows its sessions any more. Its first messages would go under names that others have delivered."""
    stage = Cells((A, B), evict="5s", forget="3s")
    stage.at(A, 0, 1)
    for _ in range(3):
        stage.broadcast(0)
    stage.move(0, None)
    stage.tick(20_000)
    assert stage.nodes[A].gauges()["station_hosts"] == 1
    stage.enter(0, B)
    stage.put(stage.hold("Join"))
    (answer,) = stage.hold("InitAck", to=0)
    effects = stage.nodes[0].receive(answer.frame, B, stage.now)
    assert ["0:3" in effect.text for effect in effects if isinstance(effect, Alert)] == [True]
    stage.perform(0, effects)
    stage.broadcast(0)
    stage.tick(3000)
    assert stage.delivered[1] == [(0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize(
    "again",
    [
        [Leave(0), 90, Join(0, 2)],  # after `forget`
        [Init(2, 1, 0, 0, 2)],  # it claims a session elsewhere, which voids its record
    ],
    ids=lambda steps: type(steps[0]).__name__,
)
def test_a_host_cannot_broadcast_two_messages_under_one_name(again):
    bench = Stage(specification("cellular"), {}, (A,), "host").open()
    for step in [Join(0, 2), Message(HOSTILE, 2, b"", None), *again, Message(HOSTILE, 2, b"other", None)]:
        if isinstance(step, int):
            bench.run(step * 10**9)
        else:
            bench.inject(HOSTILE, A, step)
        bench.transfer()
    bench.run(10**10)
    for host in (0, 1, 2):
        assert bench.delivered[host].count((HOSTILE, 2)) == 1


def test_what_a_host_tells_two_stations_under_one_name_reaches_each_cell_once():
    stage = Cells((A, B))
    stage.at(A, 0)
    stage.at(B, 1)
    for station, text in ((A, b"yes"), (B, b"no")):
        for frame in (Join(1, 1), Message(STRANGER, 1, text, None)):
            stage.perform(station, stage.nodes[station].receive(frame, STRANGER, stage.now))
    stage.settle()
    stage.tick(3000)
    assert [stage.delivered[host] for host in (0, 1)] == [[(STRANGER, 1)]] * 2


def test_the_numbers_of_hosts_are_kept_for_the_last_that_broadcast(monkeypatch):
    monkeypatch.setattr("antecast.protocols.cellular.passed_on._MOST_HOSTS", 3)
    stage = Cells((A, B))
    station = stage.nodes[A]
    for origin, seq in ((10, 1), (11, 1), (12, 1), (10, 2), (13, 1)):
        station.receive(Message(origin, seq, b"", None), B, stage.now)
    assert station.snapshot()["passed_on"] == [[12, 1], [10, 2], [13, 1]]


# Crashes of stations, links that come and go.


def test_a_station_goes_on_from_its_snapshot():
    stage = Cells((A, B), (B, C), evict="20s")
    stage.at(A, 0, 1)
    stage.at(B, 2)
    for sender in (1, 2):
        stage.broadcast(sender)
        stage.put(stage.hold("Message", sender=sender))
    stage.wire()
    stage.lose("Message", to=0)
    stage.move(0, C)  # its request is in the air, the others have not acknowledged
    for station in (A, B, C):
        saved = msgspec.msgpack.decode(msgspec.msgpack.encode(stage.nodes[station].snapshot()), strict=False)
        again = stage.spec.make_station(station, stage.settings)
        again.restore(saved)
        assert again.snapshot() == stage.nodes[station].snapshot()
        stage.nodes[station] = again
        stage.timers = {who: at for who, at in stage.timers.items() if who[0] != station}
        stage.perform(station, again.resume(stage.now))
        for peer in {A: [B], B: [A, C], C: [B]}[station]:
            stage.perform(station, again.link_up(peer, stage.now))
    assert not stage.wrong()


def test_links_that_are_up_twice_or_not_at_all_are_no_trouble():
    stage = Cells((A, B))
    stage.at(A, 0)
    stage.at(B, 1)
    for node in (A, 0):
        before = state(stage.nodes[node])
        assert stage.nodes[node].link_down(STRANGER, stage.now) == []
        assert state(stage.nodes[node]) == before
    stage.perform(A, stage.nodes[A].link_up(B, stage.now))
    stage.perform(0, stage.nodes[0].link_up(A, stage.now))
    stage.broadcast(0)
    assert not stage.wrong()
    stage.nodes[A].link_down(B, stage.now)
    assert [effect for effect in stage.nodes[A].link_down(B, stage.now) if isinstance(effect, Send)] == []


# Structured noise.

HOSTS, STATIONS = (0, 1, 2, 8, 9), (A, B, C, 200)
few = st.sampled_from([0, 1, 2, 3, 4, 5, 9, 150, 151, 1000, 2**32, 2**62, FAR])
positive = few.map(lambda number: max(number, 1))
host, station = st.sampled_from([*HOSTS, 2**32 - 1]), st.sampled_from(STATIONS)
ids = st.lists(st.tuples(host, positive), max_size=4)
numbers = st.lists(few, max_size=4)
stamp = st.one_of(
    st.none(), few, st.builds(CatchUp, host, few, few), st.builds(Carried, host, few, station, station),
    st.builds(Marked, few, st.lists(host, max_size=2)),
)  # fmt: skip
frames = st.one_of(
    st.builds(Message, host, positive, st.just(b"x"), stamp),
    st.builds(Join, few, positive), st.builds(Init, few, few, few, few, positive),
    st.builds(Ack, few, few, few, few, numbers), st.builds(Leave, few),
    st.builds(InitAck, host, few, few, few, numbers, positive, st.booleans()),
    st.builds(Acks, st.dictionaries(host, positive, max_size=3)), st.builds(LeaveAck, host),
    st.builds(Gone, host, few), st.builds(Delete, host, few), st.builds(Left, host),
    st.builds(Req1, host, few, few, few, few, station, few), st.builds(Echo, station, few, st.booleans()),
    st.builds(Rsp1, host, few, station, station, ids), st.builds(Req2, host, few, station, station, ids),
    st.builds(Rsp2, host, few, station, station, ids, positive, st.booleans()),
    st.builds(Reject, host, few, station, station),
)  # fmt: skip


def attack(stage, to, sender, frame):
    node = stage.nodes[to]
    before = state(node), node.snapshot()
    try:
        effects = node.receive(frame, sender, stage.now)
    except RemoteFault:
        assert (state(node), node.snapshot()) == before
        return
    for effect in effects:
        if isinstance(effect, (Send, Transmit)):
            assert node.codec.decode(node.codec.encode(effect.frame)) == effect.frame
        assert not isinstance(effect, SetTimer) or effect.at < stage.now + 10**12
    assert len(effects) < 500
    stage.perform(to, effects)


hits = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, A, B, C]), st.sampled_from([*HOSTS, *STATIONS]), frames, st.booleans()),
    min_size=1,
    max_size=40,
)


@given(hits)
def test_forged_frames_are_refused_without_a_trace_or_taken_in_bounds(noise):
    """Whoever they claim to be from; time goes on in between."""
    stage = scene()
    stage.open(A, B)
    for to, sender, frame, settles in noise:
        attack(stage, to, sender, frame)
        if settles:
            try:
                stage.tick(50)
            except RemoteFault:
                stage.air.clear()
    for node in stage.nodes.values():
        gauges = node.gauges()
        assert gauges.get("station_hosts", 0) <= 8
        assert gauges.get("host_received_buffer", 0) <= 300
        assert gauges.get("station_received_buffer", 0) <= 8 * 150


@given(hits)
def test_strangers_on_the_radio_do_the_honest_hosts_no_harm(noise):
    """Hosts 8 and 9 send what they like; 0, 1 and 2 still deliver everything among themselves, and when the
    strangers have been given up nothing of them is left."""
    stage = Cells((A, B), (B, C), evict="5s", forget="3s")
    stage.at(A, 0, 1)
    stage.at(B, 2)
    for to, sender, frame, settles in noise:
        if to in (A, B, C) and sender in (8, 9) and not isinstance(frame, Message):
            attack(stage, to, sender, frame)
        if settles:
            stage.broadcast(0)
            stage.tick(300)
    stage.move(0, C)
    stage.tick(20_000)
    for sender in (0, 1, 2):
        stage.broadcast(sender)
    stage.tick(30_000)
    names = {name for kind, _, name in stage.log if kind == "broadcast"}
    for each in (0, 1, 2):
        assert sorted(stage.delivered[each]) == sorted(names)
    for station_ in (A, B, C):
        assert stage.nodes[station_].gauges()["station_sent_buffer"] == 0
        assert set(stage.nodes[station_].records) <= {0, 1, 2}
