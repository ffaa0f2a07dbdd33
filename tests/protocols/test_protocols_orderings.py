"""The orderings by hand: what is held back, what is released, and in which order."""

import pytest

from antecast.core import Message
from antecast.protocols.fifo import Fifo
from antecast.protocols.unordered import Unordered
from antecast.protocols.vector import Vector


def message(origin, seq, stamp=None):
    return Message(origin, seq, b"", stamp)


def ids(messages):
    return [(each.origin, each.seq) for each in messages]


class TestUnordered:
    def test_everything_is_delivered_at_once(self):
        assert ids(Unordered().accept(message(1, 7))) == [(1, 7)]


class TestFifo:
    def test_a_message_waits_for_its_predecessors_and_releases_its_successors(self):
        fifo = Fifo(0)
        assert fifo.accept(message(1, 3)) == []
        assert fifo.accept(message(1, 2)) == []
        assert fifo.gauges()["pending"] == 2
        assert ids(fifo.accept(message(1, 1))) == [(1, 1), (1, 2), (1, 3)]
        assert fifo.progress() == {1: 3}

    def test_sources_do_not_wait_for_each_other(self):
        fifo = Fifo(0)
        fifo.accept(message(1, 2))
        assert ids(fifo.accept(message(2, 1))) == [(2, 1)]

    def test_a_skip_drops_what_lies_behind_it_and_releases_what_follows(self):
        fifo = Fifo(0)
        for seq in (2, 5, 6, 9):
            fifo.accept(message(1, seq))
        released, dropped = fifo.skip({1: 4})
        assert (ids(released), ids(dropped)) == ([(1, 5), (1, 6)], [(1, 2)])
        assert ids(fifo.pending()) == [(1, 9)]


@pytest.mark.parametrize("changes_only", [False, True], ids=["whole", "changes"])
class TestVector:
    def test_an_answer_waits_for_the_question(self, changes_only):
        """The example every text begins with: p asks, q answers, r hears the answer first."""
        p, q, r = (Vector(node, changes_only=changes_only) for node in range(3))
        question = message(0, 1, p.stamp(1))
        assert ids(q.accept(question)) == [(0, 1)]
        answer = message(1, 1, q.stamp(1))
        assert answer.stamp == {0: 1}
        assert r.accept(answer) == []
        assert r.gauges()["pending"] == 1
        assert ids(r.accept(question)) == [(0, 1), (1, 1)]
        assert r.gauges()["pending"] == 0

    def test_concurrent_messages_do_not_wait(self, changes_only):
        p, q, r = (Vector(node, changes_only=changes_only) for node in range(3))
        one, other = message(0, 1, p.stamp(1)), message(1, 1, q.stamp(1))
        assert ids(r.accept(other)) == [(1, 1)]
        assert ids(r.accept(one)) == [(0, 1)]

    def test_a_chain_is_released_in_causal_order_whatever_the_order_of_arrival(self, changes_only):
        nodes = [Vector(node, changes_only=changes_only) for node in range(4)]
        chain = []
        for node in range(3):
            chain.append(message(node, 1, nodes[node].stamp(1)))
            nodes[node + 1].accept(chain[0])
            for earlier in chain[1:]:
                nodes[node + 1].accept(earlier)
        late = Vector(9, changes_only=changes_only)
        assert late.accept(chain[2]) == [] and late.accept(chain[1]) == []
        assert ids(late.accept(chain[0])) == [(0, 1), (1, 1), (2, 1)]

    def test_a_skip_must_not_deliver_what_it_covers(self, changes_only):
        vector = Vector(0, changes_only=changes_only)
        vector.accept(message(1, 2, {}))
        vector.accept(message(2, 1, {1: 3}))
        released, dropped = vector.skip({1: 3})
        assert (ids(released), ids(dropped)) == ([(2, 1)], [(1, 2)])
        assert vector.progress() == {1: 3, 2: 1}


def test_a_whole_clock_names_every_source_and_changes_only_those_heard_since():
    whole, changes = Vector(0, changes_only=False), Vector(0, changes_only=True)
    for vector in (whole, changes):
        vector.accept(message(1, 1, {}))
        assert vector.stamp(1) == {1: 1}
        vector.accept(message(2, 1, {}))
    assert whole.stamp(2) == {1: 1, 2: 1}
    assert changes.stamp(2) == {2: 1}
    assert changes.stamp(3) == {}


def test_after_a_restore_a_sender_names_all_entries_again():
    before = Vector(0, changes_only=True)
    before.accept(message(1, 1, {}))
    before.stamp(1)
    after = Vector(0, changes_only=True)
    after.restore(before.progress(), before.pending())
    assert after.stamp(2) == {1: 1}
