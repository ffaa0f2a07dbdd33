"""Witnesses are real and have the fewest operations of all, shown by trying every part of small histories."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from published import ANOMALIES, MEMORY, build
from small_histories import every_history, histories, told

from antecast.kv import LEVELS, check
from antecast.kv.anomalies import ANOMALIES as KNOWN
from antecast.kv.oracle import judge
from antecast.kv.resolve import resolve


def part_of(history, ops):
    """The history of some operations; reads of writes that are left out are left out, too."""
    writer = resolve(history).writer
    mask = np.zeros(len(history), bool)
    mask[list(ops)] = True
    mask &= (writer < 0) | mask[writer]
    return history.subset(mask, history.value)


def fewest(history, level):
    """The size of the smallest part that violates a level, by trying all of them with the oracle."""
    for size in range(1, len(history) + 1):
        if any(level in judge(part_of(history, ops)) for ops in combinations(range(len(history)), size)):
            return size
    return None


def assert_smallest(history):
    verdict = check(history)
    violated = judge(history)
    assert bool(verdict.witnesses) == bool(violated & {"CC", "CCv", "CM", "read-committed", "read-atomic"})
    for witness in verdict.witnesses:
        assert set(witness.levels) == judge(part_of(history, witness.ops)), told(history)
        level = KNOWN[witness.anomaly].level
        assert level in witness.levels
        assert len(witness.ops) == fewest(history, level), f"{told(history)}: {witness}"


def test_of_every_small_history():
    for size in (1, 2, 3):
        for history in every_history(size, transactional=True):
            assert_smallest(history)


@settings(max_examples=15)
@given(histories(txns=5, sessions=3, most=2, keys=2, faults=True).filter(lambda history: 4 <= len(history) <= 8))
def test_of_larger_ones(history):
    assert_smallest(history)


def test_of_published_anomalies():
    for name, transactions in {**ANOMALIES, **MEMORY}.items():
        history = build(transactions)
        (witness,) = check(history).witnesses
        if name != "aborted-read":  # the oracle does not know aborted transactions
            assert len(witness.ops) == fewest(history, KNOWN[name].level)


def test_a_witness_is_found_in_a_crowd():
    """Among hundreds of sound transactions, the six operations that show it."""
    noise = [(9 + n % 5, 0, (("w", 100 + n, n + 1), ("r", 100 + n, n + 1))) for n in range(300)]
    history = build([*noise, *ANOMALIES["conflict-CO"]])
    verdict = check(history)
    assert {level for level in LEVELS if verdict.levels[level] == "violated"} == {"CC", "CCv", "CM"}
    (witness,) = verdict.witnesses
    assert len(witness.ops) == 6
    assert min(witness.ops) >= 600


def test_witnesses_hold_no_operation_too_many():
    """Reads and writes of the same transactions that have nothing to do with it are left out."""
    history = build(
        [
            (0, 0, (("w", 1, 1), ("w", 5, 1))),
            (0, 0, (("w", 6, 1), ("w", 1, 2))),
            (1, 0, (("r", 1, 2), ("w", 7, 1))),
            (1, 0, (("r", 8, 0), ("r", 1, 1))),
        ]
    )
    (witness,) = check(history).witnesses
    shown = [history.describe(op) for op in witness.ops]
    assert shown == ["write 1=1", "write 1=2", "read 1=2", "read 1=1"]
