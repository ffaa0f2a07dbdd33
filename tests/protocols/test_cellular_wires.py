"""Wires between stations that break and come back: what is under way on the others still finds its way."""

import msgspec
import pytest

from antecast.core import RemoteFault, Send
from antecast.papers.cellular.cells import A, B, C, Cells
from antecast.protocols.cellular.frames import Left, Req1, Req2, Rsp1, Rsp2
from antecast.protocols.cellular.wires import Wires


def blink(stage, one, other):
    """A wire breaks and comes back, with nothing on it."""
    assert not stage.wires[one, other] + stage.wires[other, one]
    for a, b in ((one, other), (other, one)):
        stage.perform(a, stage.nodes[a].link_down(b, stage.now))
        stage.perform(a, stage.nodes[a].link_up(b, stage.now))


def restart(stage, station):
    """A station goes on from its snapshot; its wires come up afterwards."""
    state = msgspec.msgpack.encode(stage.nodes[station].snapshot())
    node = stage.nodes[station] = stage.spec.make_station(station, stage.settings)
    node.restore(msgspec.msgpack.decode(state, strict=False))
    stage.perform(station, node.resume(stage.now))


@pytest.mark.parametrize("next_station", ["stays", "restarts"])
def test_what_is_handed_over_finds_its_way_though_a_wire_ahead_was_down_for_a_moment(next_station):
    """Host 0 moves from A to C. Its record is on the wire from A to B, and nowhere else, when the wire from B to C
    breaks and comes back."""
    stage = Cells((A, B), (B, C))
    stage.at(A, 0, 1)
    stage.move(0, None)
    stage.broadcast(1)
    stage.tick(10)
    stage.move(0, C)
    for held, kind in ((C, Req1), (A, Rsp1), (C, Req2), (A, Rsp2)):
        stage.close(held, B)
        stage.open(A if held == C else C, B)
        stage.settle()
        assert any(isinstance(frame, kind) for frame in stage.wires[held, B])
    assert 0 not in stage.nodes[A].records
    if next_station == "restarts":
        restart(stage, C)
    blink(stage, B, C)
    stage.open(A, B)
    stage.settle()
    assert not stage.wrong()
    assert stage.delivered[0] == [(1, 1)]


def test_a_station_whose_wire_was_down_may_be_behind_another_one():
    wires = Wires(A)
    for peer in (B, C):
        wires.up(peer)
    wires.learn(7, B)
    with pytest.raises(RemoteFault, match="it is behind 101"):
        wires.check(7, C)
    wires.down(B)
    out = []
    wires.send(7, Left(0), out)
    assert out == []
    wires.up(B)
    wires.send(7, Left(0), out)
    assert out == [Send(B, Left(0))]
    wires.check(7, C)
    wires.learn(7, C)
    wires.send(7, Left(0), out)
    assert out[1:] == [Send(C, Left(0))]
    with pytest.raises(RemoteFault, match="it is behind 102"):
        wires.check(7, B)


def test_stations_that_a_wire_invented_make_room_for_others_when_it_has_been_down():
    wires = Wires(A)
    for peer in (B, C):
        wires.up(peer)
    for station in range(1000, 1000 + (1 << 16)):
        wires.check(station, B)
        wires.learn(station, B)
    with pytest.raises(RemoteFault, match="65536 stations"):
        wires.check(7, C)
    wires.down(B)
    wires.check(7, C)
    wires.learn(7, C)
    assert wires.routes == {7: C}


def test_a_wire_that_comes_up_twice_was_down_in_between():
    """What was asked over the old wire is not waited for any more."""
    stage = Cells((A, B), handoff="1s")
    stage.at(A, 0)
    stage.close(B, A)
    stage.move(0, B)
    stage.settle()
    assert stage.nodes[B].searching
    stage.wires[B, A].clear()
    for one, other in ((A, B), (B, A)):
        stage.perform(one, stage.nodes[one].link_up(other, stage.now))
    assert not stage.nodes[B].searching
    assert not stage.wrong()
