"""The engine against the oracle: every small history, and random larger ones.

`--soak` takes every history of up to six operations, in transactions of every size, and tries all causal orders
for more of them.
"""

import random

import pytest
from hypothesis import given
from published import MEMORY, build
from small_histories import every_history, histories, nearby, told

from antecast.kv.engine import analyse
from antecast.kv.oracle import judge
from antecast.kv.resolve import resolve


def assert_same(history):
    """What both say."""
    engine, oracle = analyse(resolve(history)).violated, judge(history)
    assert engine == oracle, f"{told(history)}: engine only {engine - oracle}, oracle only {oracle - engine}"
    return oracle


def some_of(size, request, *, transactional, shares):
    """All histories of a size, or a share of them that is always the same; those without a share need --soak."""
    if request.config.getoption("--soak"):
        return every_history(size, transactional=transactional)
    if size not in shares:
        pytest.skip("needs --soak")
    chance = random.Random(size)
    return every_history(size, transactional=transactional, keep=lambda: chance.random() < shares[size])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_every_history_of_single_operations(size, request):
    for history in some_of(size, request, transactional=False, shares={1: 1, 2: 1, 3: 1, 4: 1, 5: 0.3}):
        assert_same(history)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_every_history_of_transactions(size, request):
    for history in some_of(size, request, transactional=True, shares={2: 1, 3: 1, 4: 0.3}):
        assert_same(history)


def test_a_larger_causal_order_explains_nothing_more(request):
    """The oracle takes the least causal order; here it tries all of them."""
    soak = request.config.getoption("--soak")
    for size in (1, 2, 3, 4) if soak else (1, 2, 3):
        for history in every_history(size, transactional=False):
            assert judge(history) == judge(history, every_order=True), told(history)


@given(histories(txns=7, sessions=3, most=1, keys=2))
def test_registers(history):
    assert_same(history)


@given(histories(txns=6, sessions=3, most=3, keys=3))
def test_transactions(history):
    assert_same(history)


@given(histories(txns=6, sessions=4, most=3, keys=2, faults=True))
def test_transactions_with_wrong_reads(history):
    assert_same(history)


@given(histories(txns=9, sessions=2, most=1, keys=1, faults=True))
def test_two_sessions_and_one_key(history):
    assert_same(history)


@pytest.mark.parametrize("name", MEMORY)
def test_around_histories_that_break_causal_memory_alone(name, request):
    """Some of these need every step of the fixpoint; a few hundred are enough to see that it is there."""
    chance = random.Random(name)
    alone = 0
    for _ in range(5000 if request.config.getoption("--soak") else 200):
        alone += assert_same(build(nearby(MEMORY[name], chance))) == {"CM"}
    assert alone >= 20
