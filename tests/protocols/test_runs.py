"""Runs of message numbers against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from antecast.protocols.runs import Runs, check, common, messages, minus

MESSAGES = st.tuples(st.integers(0, 2), st.integers(1, 12))


def runs_of(members):
    runs = Runs()
    for message in members:
        runs.add(*message)
    return runs


@given(st.lists(st.tuples(st.booleans(), MESSAGES)))
def test_runs_hold_what_a_set_holds(steps):
    runs, model = Runs(), set()
    for adds, message in steps:
        if adds:
            assert runs.add(*message) == (message not in model)
            model.add(message)
        else:
            runs.discard(*message)
            model.discard(message)
        check(runs.spans, 0)
        assert sorted(messages(runs.spans)) == sorted(model)
    for origin in range(3):
        for seq in range(1, 14):
            assert ((origin, seq) in runs) == ((origin, seq) in model)


@given(st.sets(MESSAGES), st.sets(MESSAGES))
def test_differences_and_intersections_are_those_of_sets(some, others):
    a, b = runs_of(some).spans, runs_of(others).spans
    for result, expected in ((minus(a, b), some - others), (common(a, b), some & others)):
        check(result, 0)
        assert set(messages(result)) == expected


@given(st.permutations(sorted({(0, seq) for seq in range(1, 9)})))
def test_one_set_has_one_form(order):
    assert runs_of(order).spans == {0: (1, 9)}
