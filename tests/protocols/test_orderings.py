"""The orderings by hand: what is held back, what is released, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import Message
from antecast.protocols.barrier import Barrier
from antecast.protocols.fifo import Fifo
from antecast.protocols.unordered import Unordered
from antecast.protocols.vector import Vector


def causal(node, stamps):
    return Vector(node) if stamps == "whole" else Barrier(node, prune=stamps == "pruned")


def message(origin, seq, stamp=None):
    return Message(origin, seq, b"", stamp)


def accept(ordering, arriving):
    return ordering.accept(arriving, 0).ready


def ids(messages):
    return [(each.origin, each.seq) for each in messages]


class TestUnordered:
    def test_everything_is_delivered_at_once(self):
        assert ids(accept(Unordered(), message(1, 7))) == [(1, 7)]


class TestFifo:
    def test_a_message_waits_for_its_predecessors_and_releases_its_successors(self):
        fifo = Fifo(0)
        assert accept(fifo, message(1, 3)) == []
        assert accept(fifo, message(1, 2)) == []
        assert fifo.gauges()["pending"] == 2
        assert ids(accept(fifo, message(1, 1))) == [(1, 1), (1, 2), (1, 3)]
        assert fifo.progress() == {1: 3}

    def test_sources_do_not_wait_for_each_other(self):
        fifo = Fifo(0)
        accept(fifo, message(1, 2))
        assert ids(accept(fifo, message(2, 1))) == [(2, 1)]

    def test_a_skip_drops_what_lies_behind_it_and_releases_what_follows(self):
        fifo = Fifo(0)
        for seq in (2, 5, 6, 9):
            accept(fifo, message(1, seq))
        released, dropped = fifo.skip({1: 4})
        assert (ids(released), ids(dropped)) == ([(1, 5), (1, 6)], [(1, 2)])
        assert ids(fifo.pending()) == [(1, 9)]


@pytest.mark.parametrize("stamps", ["whole", "changes", "pruned"])
class TestCausal:
    def test_an_answer_waits_for_the_question(self, stamps):
        """The example every text begins with: p asks, q answers, r hears the answer first."""
        p, q, r = (causal(node, stamps) for node in range(3))
        question = message(0, 1, p.stamp(1, 0, None))
        assert ids(accept(q, question)) == [(0, 1)]
        answer = message(1, 1, q.stamp(1, 0, None))
        assert answer.stamp == {0: 1}
        assert accept(r, answer) == []
        assert r.gauges()["pending"] == 1
        assert ids(accept(r, question)) == [(0, 1), (1, 1)]
        assert r.gauges()["pending"] == 0

    def test_concurrent_messages_do_not_wait(self, stamps):
        p, q, r = (causal(node, stamps) for node in range(3))
        one, other = message(0, 1, p.stamp(1, 0, None)), message(1, 1, q.stamp(1, 0, None))
        assert ids(accept(r, other)) == [(1, 1)]
        assert ids(accept(r, one)) == [(0, 1)]

    def test_a_chain_is_released_in_causal_order_whatever_the_order_of_arrival(self, stamps):
        nodes = [causal(node, stamps) for node in range(4)]
        chain = []
        for node in range(3):
            chain.append(message(node, 1, nodes[node].stamp(1, 0, None)))
            accept(nodes[node + 1], chain[0])
            for earlier in chain[1:]:
                accept(nodes[node + 1], earlier)
        late = causal(9, stamps)
        assert accept(late, chain[2]) == [] and accept(late, chain[1]) == []
        assert ids(accept(late, chain[0])) == [(0, 1), (1, 1), (2, 1)]

    def test_a_skip_must_not_deliver_what_it_covers(self, stamps):
        vector = causal(0, stamps)
        accept(vector, message(1, 2, {}))
        accept(vector, message(2, 1, {1: 3}))
        released, dropped = vector.skip({1: 3})
        assert (ids(released), ids(dropped)) == ([(2, 1)], [(1, 2)])
        assert vector.progress() == {1: 3, 2: 1}


def test_a_whole_clock_names_every_source_and_changes_only_those_heard_since():
    whole, changes = causal(0, "whole"), causal(0, "changes")
    for vector in (whole, changes):
        accept(vector, message(1, 1, {}))
        assert vector.stamp(1, 0, None) == {1: 1}
        accept(vector, message(2, 1, {}))
    assert whole.stamp(2, 0, None) == {1: 1, 2: 1}
    assert changes.stamp(2, 0, None) == {2: 1}
    assert changes.stamp(3, 0, None) == {}


def test_a_pruned_stamp_leaves_out_what_another_entry_stands_for():
    changes, pruned = causal(9, "changes"), causal(9, "pruned")
    for vector in (changes, pruned):
        accept(vector, message(0, 1, {}))
        accept(vector, message(1, 1, {0: 1}))
        accept(vector, message(2, 1, {}))
    assert changes.stamp(1, 0, None) == {0: 1, 1: 1, 2: 1}
    assert pruned.stamp(1, 0, None) == {1: 1, 2: 1}


def test_a_newer_message_of_a_source_is_not_pruned_by_a_stamp_that_names_an_older():
    pruned = causal(9, "pruned")
    for each in (message(0, 1, {}), message(0, 2, {}), message(1, 1, {0: 1})):
        accept(pruned, each)
    assert pruned.stamp(1, 0, None) == {0: 2, 1: 1}


def history(sources, stamps, random):
    """Messages of some sources, each of which has heard some of the earlier ones."""
    nodes, sent = [causal(node, stamps) for node in range(sources)], []
    for _ in range(2 * sources):
        source = random.randrange(sources)
        heard = nodes[source].progress()
        news = [each for each in sent if each.seq > heard.get(each.origin, 0)]
        for each in news[: random.randrange(4)]:  # the oldest first, so that none waits
            accept(nodes[source], each)
        seq = heard.get(source, 0) + 1
        sent.append(message(source, seq, nodes[source].stamp(seq, 0, None)))
    return sent


@given(
    st.lists(st.integers(0, 600) | st.integers(0, 2**32 - 1), min_size=2, max_size=48, unique=True),
    st.sampled_from(["whole", "changes", "pruned"]),
    st.randoms(use_true_random=False),
)
def test_the_numbers_of_the_sources_make_no_difference(names, stamps, random):
    """Counts are kept in a list or a map, as the numbers lie: what is delivered, and when, is the same."""
    messages = history(len(names), stamps, random)
    random.shuffle(messages)
    plain, renamed = causal(2**32, stamps), causal(2**32, stamps)
    for index, each in enumerate(messages):
        if each.seq <= plain.progress().get(each.origin, 0):
            continue  # skipped: no dissemination hands it up any more
        twin = message(names[each.origin], each.seq, {names[source]: n for source, n in each.stamp.items()})
        ready = [(names[origin], seq) for origin, seq in ids(accept(plain, each))]
        assert sorted(ready) == sorted(ids(accept(renamed, twin)))
        assert plain.gauges() == renamed.gauges()
        if index % 16 == 15:
            copy = causal(2**32, stamps)
            copy.restore(renamed.snapshot(), renamed.pending())
            renamed = copy
            plain.skip({each.origin: each.seq})
            renamed.skip({twin.origin: twin.seq})
    assert {names[source]: count for source, count in plain.progress().items()} == renamed.progress()
