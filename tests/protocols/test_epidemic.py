"""Epidemic exchange by hand: who gets what from whom, and what the cache does."""

import pytest

from antecast.core import Alert, Message, RemoteFault
from antecast.protocols import specification
from antecast.protocols.contact import Offer, Request
from antecast.protocols.retained import Base
from antecast.testing import Bench

SECOND = 10**9


def sent(travelled):
    return [(each.sender, each.to, *each.frame.id) for each in travelled if isinstance(each.frame, Message)]


def test_a_message_is_carried_from_contact_to_contact():
    bench = Bench("barrier", nodes=3)
    bench.broadcast(0)
    bench.meet(0, 1)
    bench.meet(1, 2)
    assert bench.delivered == {0: [(0, 1)], 1: [(0, 1)], 2: [(0, 1)]}


def test_only_what_the_other_has_not_seen_is_sent():
    bench = Bench("epidemic", nodes=2)
    bench.broadcast(0)
    assert sent(bench.meet(0, 1)) == [(0, 1, 0, 1)]
    bench.broadcast(1)
    assert sent(bench.meet(0, 1)) == [(1, 0, 1, 1)]
    assert sent(bench.meet(0, 1)) == []


def test_what_is_new_during_a_contact_goes_over_at_once_and_not_back():
    bench = Bench("epidemic", nodes=3)
    bench.link(0, 1)
    bench.link(1, 2)
    bench.transfer()
    bench.broadcast(0)
    assert sent(bench.transfer()) == [(0, 1, 0, 1), (1, 2, 0, 1)]


def test_a_transfer_that_was_broken_off_goes_on_in_the_next_contact():
    bench = Bench("epidemic", nodes=2)
    for _ in range(3):
        bench.broadcast(0)
    bench.link(0, 1)
    for _ in range(2 + 1 + 1):  # both offers, the request, and the first message
        bench.arrive(bench.wiring.pop())
    assert len(bench.delivered[1]) == 1
    bench.drop()
    bench.unlink(0, 1)
    bench.meet(0, 1)
    assert sorted(bench.delivered[1]) == [(0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("order", ["random", "newest", "oldest"])
def test_the_order_of_a_transfer_can_be_chosen(order):
    bench = Bench("epidemic", nodes=2, settings={"order": order})
    for _ in range(20):
        bench.broadcast(0)
    numbers = [seq for _, _, _, seq in sent(bench.meet(0, 1))]
    assert sorted(numbers) == list(range(1, 21))
    assert (numbers == list(range(1, 21))) == (order == "oldest")
    assert (numbers == list(range(20, 0, -1))) == (order == "newest")


def test_a_scrambled_order_differs_from_contact_to_contact():
    bench = Bench("epidemic", nodes=3)
    for _ in range(20):
        bench.broadcast(0)
    assert [seq for *_, seq in sent(bench.meet(0, 1))] != [seq for *_, seq in sent(bench.meet(0, 2))]


def test_causal_order_holds_whatever_the_order_of_the_transfer():
    bench = Bench("barrier", nodes=3, settings={"order": "newest"})
    bench.broadcast(0)
    bench.meet(0, 1)
    bench.broadcast(1)
    bench.broadcast(1)
    assert [frame[2:] for frame in sent(bench.meet(1, 2))] == [(1, 2), (1, 1), (0, 1)]
    assert bench.delivered[2] == [(0, 1), (1, 1), (1, 2)]


@pytest.mark.parametrize(("policy", "dropped"), [("oldest", (1, 1)), ("random", None), ("expire-first", (0, 1))])
def test_a_full_cache_makes_room_by_its_policy(policy, dropped):
    bench = Bench(
        "delta", nodes=3, settings={"capacity": 2, "policy": policy, "lifetime": "100s", "rule": "paper"}
    )
    bench.broadcast(1, lifetime=100 * SECOND)
    bench.meet(0, 1)
    bench.broadcast(0, lifetime=50 * SECOND)
    bench.broadcast(0, lifetime=100 * SECOND)
    left = {(origin, seq) for *_, origin, seq in sent(bench.meet(0, 2))}
    assert len(left) == 2
    assert bench.nodes[0].gauges()["dropped"] == 1
    if dropped is not None:
        assert dropped not in left


def test_a_dropped_message_is_remembered_and_not_taken_again():
    bench = Bench("epidemic", nodes=2, settings={"capacity": 1})
    bench.broadcast(0)
    bench.meet(0, 1)
    bench.broadcast(1)
    assert bench.nodes[1].gauges()["cached"] == 1
    assert sent(bench.meet(0, 1)) == [(1, 0, 1, 1)]
    assert bench.delivered[1] == [(0, 1), (1, 1)]


def test_an_expired_message_is_neither_kept_nor_sent():
    bench = Bench("delta", nodes=2, settings={"lifetime": "10s", "clock_bound": "0s"})
    bench.broadcast(0)
    bench.time.advance(10 * SECOND + 1)
    assert sent(bench.meet(0, 1)) == []
    bench.pass_time(20 * SECOND)
    assert bench.nodes[0].gauges()["cached"] == 0


def test_state_does_not_grow_with_the_messages_that_have_passed():
    bench = Bench("delta", nodes=2, settings={"lifetime": "10s", "clock_bound": "1s"})
    for second in range(200):
        bench.pass_time(second * SECOND)
        bench.broadcast(second % 2)
        bench.meet(0, 1)
    for node in (0, 1):
        gauges = bench.nodes[node].gauges()
        assert gauges["cached"] <= 12 and gauges["clock"] <= 2
        assert len(bench.nodes[node].snapshot()["dissemination"]["cache"]["deadlines"]) <= 12


def test_a_snapshot_restores_the_same_state():
    bench = Bench("delta", nodes=2, settings={"lifetime": "10s"})
    for _ in range(3):
        bench.broadcast(0)
        bench.meet(0, 1)
    for node, protocol in bench.nodes.items():
        copy = bench.make(node)
        copy.restore(protocol.snapshot())
        assert copy.snapshot() == protocol.snapshot()


def test_a_frame_of_another_dissemination_is_a_remote_fault():
    node = Bench("epidemic", nodes=1).nodes[0]
    node.link_up(1, 0)
    with pytest.raises(RemoteFault, match="this protocol does not know"):
        node.receive(Base({}), 1, 0)


def test_an_offer_names_what_is_held():
    bench = Bench("epidemic", nodes=1, settings={"capacity": 2})
    for _ in range(3):
        bench.broadcast(0)
    (effect,) = bench.nodes[0].link_up(1, 0)
    assert effect.frame == Offer({0: (2, 4)})


def crowd(newcomer, *others):
    """Nodes that all hold two messages, and one that comes into contact with all of them at once."""
    bench = Bench("epidemic", nodes=(newcomer, *others))
    bench.broadcast(others[0])
    bench.broadcast(others[0])
    for other in others[1:]:
        bench.meet(others[0], other)
    for other in others:
        bench.link(newcomer, other)
    return bench


def test_who_walks_into_a_crowd_gets_each_message_once():
    travelled = sent(crowd(9, 0, 1, 2).transfer())
    assert sorted(travelled) == [(0, 9, 0, 1), (0, 9, 0, 2)]


def test_what_was_asked_of_one_who_went_away_is_asked_of_another():
    bench = crowd(9, 0, 1, 2)
    while not isinstance(bench.flying[0].frame, Message):
        bench.arrive(bench.wiring.pop())
    assert [(flight.sender, flight.to) for flight in bench.drop()] == [(0, 9), (0, 9)]
    bench.unlink(9, 0)
    assert sorted(sent(bench.transfer())) == [(1, 9, 0, 1), (1, 9, 0, 2)]


def test_what_is_new_while_the_offers_travel_is_not_forgotten():
    bench = Bench("epidemic", nodes=2)
    bench.link(0, 1)
    bench.broadcast(0)
    assert sent(bench.transfer()) == [(0, 1, 0, 1)]


def test_expired_messages_are_not_offered():
    bench = Bench("delta", nodes=1, settings={"lifetime": "10s", "clock_bound": "0s"})
    bench.broadcast(0)
    (before, after) = (bench.nodes[0].link_up(1, at * SECOND)[0].frame for at in (10, 11))
    assert (before, after) == (Offer({0: (1, 2)}), Offer({}))


@pytest.mark.parametrize(
    "frame", [Offer({3: (4, 2)}), Offer({3: (1, 2, 3)}), Offer({3: ()}), Request({3: (2, 2)})]
)
def test_runs_that_are_none_are_a_remote_fault(frame):
    node = Bench("epidemic", nodes=2).nodes[0]
    node.link_up(1, 0)
    with pytest.raises(RemoteFault, match="not runs"):
        node.receive(frame, 1, 0)


def test_a_request_for_more_than_there_is_costs_what_there_is():
    bench = Bench("epidemic", nodes=2)
    bench.broadcast(0)
    bench.nodes[0].link_up(1, 0)
    (effect,) = bench.nodes[0].receive(Request({0: (1, 1 << 62), 7: (1, 1 << 62)}), 1, 0)
    assert effect.frame.id == (0, 1)


@pytest.mark.parametrize("protocol", ["barrier", "epidemic-vector"])
def test_a_node_that_waits_for_what_every_cache_has_dropped_says_so_once(protocol):
    bench = Bench(protocol, nodes=3, settings={"capacity": 1})
    for _ in range(2):
        bench.broadcast(0)  # the second drives the first out
    for _ in range(16):
        bench.meet(0, 1)
        assert bench.alerts[1] == []
    for _ in range(20):
        bench.meet(1, 2)
        bench.meet(0, 1)
    assert ["0:2 waits for 0:1" in text for text in bench.alerts[1]] == [True]
    assert bench.nodes[1].gauges()["pending"] == 1


@pytest.mark.parametrize("crashes", [False, True])
def test_what_has_waited_longest_is_named_after_a_crash_too(crashes):
    """The order in which early messages came outlasts a crash. It was that of their names afterwards, which
    differs from node to node."""
    spec = specification("barrier")
    settings = spec.configure({"capacity": 8})
    node = spec.make(0, settings)
    node.link_up(1, 0)
    for source in (5, 4):
        node.receive(Message(source, 2, b"", {}), 1, 0)  # each waits for the first of its source
    node.link_down(1, 0)
    if crashes:
        saved, node = node.snapshot(), spec.make(0, settings)
        node.restore(saved)
    alerts = []
    for _ in range(30):
        node.link_up(1, 0)
        node.receive(Offer({}), 1, 0)
        alerts += [each.text for each in node.link_down(1, 0) if isinstance(each, Alert)]
    assert ["5:2 waits for 5:1" in text for text in alerts] == [True]


def test_a_node_that_waits_for_what_comes_at_last_says_nothing():
    bench = Bench("barrier", nodes=3, settings={"capacity": 1})
    bench.broadcast(0)
    bench.meet(0, 2)
    bench.broadcast(0)
    for _ in range(10):
        bench.meet(0, 1)
    bench.meet(1, 2)
    for _ in range(30):
        bench.meet(0, 1)
    assert bench.delivered[1] == [(0, 1), (0, 2)]
    assert bench.alerts[1] == []
