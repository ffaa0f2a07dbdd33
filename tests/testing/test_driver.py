"""The bench keeps the rules of the contract, and no others."""

import msgspec
import pytest
import toys

from antecast.core import Deliver, Message
from antecast.testing import Bench, ContractBroken

SECOND = 10**9
SPEC = toys.SPEC


def test_frames_wait_for_an_end_that_is_not_up_yet():
    bench = Bench(SPEC, nodes=2)
    bench.broadcast(0)
    bench.link(0, 1, notice=(0, 5 * SECOND))
    bench.run(4 * SECOND)
    assert bench.delivered[1] == []
    bench.run(2 * SECOND)
    assert bench.delivered[1] == [(0, 1)]


def test_frames_of_an_old_link_are_dropped_when_a_new_one_is_up():
    bench = Bench(SPEC, nodes=2, delay=SECOND)
    bench.link(0, 1)
    bench.broadcast(0)
    bench.link(0, 1)  # both ends are on a new link now; the second copy comes over it
    received = []
    bench.nodes[1].receive = lambda frame, sender, now: received.append(now) or []
    bench.run(5 * SECOND)
    assert received == [SECOND], "over the new link alone"


def test_a_link_that_comes_up_twice_is_one_call_of_link_up_each_time():
    bench = Bench(SPEC, nodes=2, record=True)
    bench.link(0, 1)
    bench.link(0, 1)
    assert [method for method, *_ in bench.calls[0]] == ["link_up", "link_up"]


def after_a_break(*, fifo):
    """What may arrive of three frames that were on their way when their link broke."""
    seen = set()
    for seed in range(60):
        bench = Bench(SPEC, nodes=2, delay=SECOND, fifo=fifo, seed=seed)
        received = []
        bench.nodes[1].receive = lambda frame, sender, now, seen=received: seen.append(frame.seq) or []
        bench.link(0, 1)
        for _ in range(3):
            bench.broadcast(0)
        bench.unlink(0, 1, notice=(0, 10 * SECOND))
        bench.run(5 * SECOND)
        seen.add(tuple(received))
    return seen


def test_after_a_break_nothing_or_a_first_part_arrives():
    assert after_a_break(fifo=True) == {(), (1,), (1, 2), (1, 2, 3)}


def test_after_a_break_any_part_arrives_where_links_keep_no_order():
    assert after_a_break(fifo=False) == {(), (1,), (2,), (3,), (1, 2), (1, 3), (2, 3), (1, 2, 3)}


def test_frames_overtake_each_other_unless_links_are_fifo():
    def order(fifo):
        bench = Bench(SPEC, nodes=2, fifo=fifo, seed=3, delay=lambda draw: draw.randrange(SECOND))
        bench.link(0, 1)
        for _ in range(6):
            bench.broadcast(0)
        bench.run(5 * SECOND)
        return [name.seq for name in bench.delivered[1]]

    assert order(True) == [1, 2, 3, 4, 5, 6]
    assert sorted(order(False)) == [1, 2, 3, 4, 5, 6] != order(False)


def test_an_answer_from_inside_a_delivery_is_the_next_call():
    calls = []

    def answer(node, message):
        calls.append(("delivered", node, message.id))
        if message.payload == b"?":
            assert bench.broadcast(node, b"!") is None
            calls.append(("asked", node))

    bench = Bench(SPEC, nodes=2, on_deliver=answer)
    bench.link(0, 1)
    bench.broadcast(0, b"?")
    assert calls[:3] == [("delivered", 0, (0, 1)), ("asked", 0), ("delivered", 0, (0, 2))]


@pytest.mark.parametrize("effects", [0, 1, 2])
def test_a_crash_inside_a_call_loses_frames_but_no_delivery(effects):
    """The state is saved with the deliveries before any effect leaves."""
    bench = Bench(SPEC, nodes=2)
    bench.link(0, 1)
    bench.doomed[0] = effects
    bench.broadcast(0)
    assert 0 not in bench.nodes
    bench.recover(0)
    assert bench.delivered[0] == [(0, 1)]
    assert bench.broadcast(0) == (0, 2)
    bench.link(0, 1)
    bench.transfer()
    assert sorted(bench.delivered[1]) == [(0, 1), (0, 2)]


def test_timers_are_lost_in_a_crash_and_come_back_with_resume():
    bench = Bench(toys.spec_of(toys.Slow), nodes=2)
    bench.link(0, 1)
    bench.broadcast(0)
    bench.transfer()
    assert bench.timers[1] == {"later": SECOND}
    bench.crash(1)
    assert 1 not in bench.timers
    bench.recover(1)
    bench.run(SECOND)
    assert bench.delivered[1] == [(0, 1)]


def test_a_snapshot_goes_through_messagepack():
    class Unplain(toys.Gossip):
        def snapshot(self):
            return {"seq": self.seq, "messages": [], "what": object()}

    bench = Bench(toys.spec_of(Unplain), nodes=1)
    with pytest.raises(TypeError):
        bench.crash(0)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode({"a": (1,)})) == {"a": [1]}


def test_a_node_that_lost_its_state_comes_back_under_a_new_number():
    bench = Bench(SPEC, nodes=2)
    bench.link(0, 1)
    bench.broadcast(0)
    bench.rebirth(0, 7)
    bench.link(7, 1)
    bench.transfer()
    assert 0 not in bench.nodes
    assert bench.broadcast(7) == (7, 1)


def test_sends_without_a_link_and_names_that_come_twice_break_the_contract():
    bench = Bench(toys.spec_of(toys.SendsIntoNowhere), nodes=2)
    bench.link(0, 1)
    bench.unlink(0, 1)
    with pytest.raises(ContractBroken, match="no link"):
        bench.broadcast(0)
    with pytest.raises(ContractBroken, match="exactly one"):
        Bench(toys.spec_of(toys.NamesTwice), nodes=1).broadcast(0)


def test_refused_frames_are_dropped_and_counted_and_must_change_nothing():
    bench = Bench(toys.spec_of(toys.ChangesFirst), nodes=1, strangers=[9], watch=True)
    bench.inject(9, 0, toys.Poke(1, []))
    assert bench.refused[0] == 1
    bench.link(0, 9)
    with pytest.raises(ContractBroken, match="changed"):
        bench.inject(9, 0, toys.Poke(-1, []))


def test_a_stranger_has_a_link_and_an_inbox():
    bench = Bench(SPEC, nodes=1, strangers=[9])
    bench.link(0, 9)
    bench.broadcast(0)
    bench.transfer()
    assert bench.inbox[9] == [Message(0, 1, b"x", None)]
    bench.inject(9, 0, Message(9, 1, b"hello", None))
    assert bench.delivered[0] == [(0, 1), (9, 1)]


def test_clocks_may_differ():
    bench = Bench(toys.spec_of(toys.Slow), nodes=2, offsets={1: 100 * SECOND})
    bench.link(0, 1)
    bench.broadcast(0)
    bench.transfer()
    assert bench.timers[1] == {"later": 101 * SECOND}
    bench.run(SECOND)
    assert bench.delivered[1] == [(0, 1)]


def test_what_is_lost_is_lost():
    bench = Bench(SPEC, nodes=2)
    bench.link(0, 1)
    bench.broadcast(0)
    assert [flight.to for flight in bench.drop()] == [1]
    assert bench.transfer() == []
    assert len(bench.meet(0, 1)) == 1
    assert bench.delivered[1] == [(0, 1)]


def test_frames_that_go_round_in_circles_are_noticed():
    class Circles(toys.Gossip):
        def receive(self, frame, sender, now):
            return [*super().receive(frame, sender, now), *self.link_up(sender, now)]

    bench = Bench(toys.spec_of(Circles), nodes=2)
    bench.link(0, 1)
    bench.broadcast(0)
    with pytest.raises(ContractBroken, match="circles"):
        bench.transfer()


def test_the_log_is_what_an_auditor_sees():
    bench = Bench(SPEC, nodes=1)
    bench.broadcast(0)
    assert [(event.kind, event.id) for event in bench.log] == [("broadcast", (0, 1)), ("deliver", (0, 1))]
    assert isinstance(bench.nodes[0].broadcast(b"", 0)[-1], Deliver)
