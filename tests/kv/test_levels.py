"""Each level on histories that it alone, or with those above it, forbids."""

import pytest
from published import ANOMALIES, CONVERGES_NOT, MEMORY, SHIFTING, A, X, Y, build, r, t, w

from antecast.kv import LEVELS, check
from antecast.kv.anomalies import ANOMALIES as KNOWN
from antecast.kv.oracle import judge


def violated(transactions):
    return {level for level, outcome in check(build(transactions)).levels.items() if outcome == "violated"}


@pytest.mark.parametrize("name", [*ANOMALIES, *MEMORY])
def test_an_anomaly_is_named_and_nothing_else(name):
    verdict = check(build({**ANOMALIES, **MEMORY}[name]))
    assert list(verdict.counts) == [name]
    assert verdict.outcome == "violated"
    assert verdict.levels[KNOWN[name].level] == "violated"
    assert verdict.violations["anomaly"].to_pylist()[0] == name
    (witness,) = verdict.witnesses
    assert witness.anomaly == name


def test_the_fourteen_are_those_of_the_literature():
    assert [KNOWN[name].letter for name in ANOMALIES] == list("abcdefghijklmn")


def test_convergence_and_causal_consistency_are_told_apart():
    assert violated(CONVERGES_NOT) == {"CCv", "read-atomic"}  # session order counts in read atomic
    assert violated(ANOMALIES["conflict-AO"]) == {"CCv"}


def test_convergence_and_causal_memory_are_told_apart():
    assert violated(SHIFTING) == {"CM"}
    assert "CM" not in violated(CONVERGES_NOT)


@pytest.mark.parametrize(
    ("level", "history"),
    [
        ("read-your-writes", [t(0, w(X, 1)), t(1, w(X, 2)), t(1, r(X, 2)), t(0, r(X, 0))]),
        ("read-your-writes", [t(0, w(X, 1)), t(0, w(X, 2)), t(0, r(X, 1))]),
        ("monotonic-reads", [t(0, w(X, 1)), t(0, w(X, 2)), t(1, r(X, 2)), t(1, r(X, 1))]),
        ("monotonic-reads", [t(0, w(X, 1)), t(1, r(X, 1)), t(1, r(X, 0))]),
        ("monotonic-reads", [t(0, w(X, 1)), t(1, r(X, 1), r(X, 0))]),
        ("monotonic-reads", [t(0, w(X, 1), w(X, 2)), t(1, r(X, 1), r(X, 0))]),
        ("monotonic-reads", [t(0, w(X, 1), w(X, 2)), t(1, r(X, 2)), t(1, r(X, 1))]),
        ("monotonic-reads", [t(0, w(X, 1), w(X, 2)), t(1, r(X, 2), r(X, 1))]),
        ("read-your-writes", [t(0, w(X, 1), w(X, 2)), t(0, r(X, 1))]),
        ("monotonic-writes", [t(0, w(X, 1)), t(0, w(Y, 1)), t(1, r(Y, 1), r(X, 0))]),
        ("writes-follow-reads", [t(0, w(X, 1)), t(1, r(X, 1)), t(1, w(Y, 1)), t(2, r(Y, 1), r(X, 0))]),
        ("writes-follow-reads", [t(0, w(X, 1)), t(1, r(X, 1), w(Y, 1)), t(2, r(Y, 1), r(X, 0))]),
    ],
)
def test_a_session_guarantee_is_broken_alone(level, history):
    sessions = LEVELS[:4]
    assert violated(history) & set(sessions) == {level}
    assert {"CC", "CCv", "CM"} <= violated(history)


@pytest.mark.parametrize("name", [*ANOMALIES, *MEMORY])
def test_the_oracle_agrees_on_published_anomalies(name):
    transactions = {**ANOMALIES, **MEMORY}[name]
    if name != "aborted-read":  # to the oracle a thin-air read
        assert violated(transactions) == judge(build(transactions))


def test_a_transaction_may_be_torn_though_each_of_its_reads_is_right():
    """Two transactions write both keys; a reader has one key from each. No order of the two explains it."""
    found = violated(ANOMALIES["fractured-read-AO"])
    assert {"CC", "CCv", "CM", "read-atomic"} <= found and "read-committed" not in found


def test_words_and_diagram_name_the_line_of_every_operation():
    verdict = check(build(ANOMALIES["conflict-CO"]))
    assert len(verdict.witness.ops) == 6
    text = str(verdict)
    for line in range(1, 7):
        assert f" @{line}" in text
    assert "this is a circle" in text and "read 1=1 (history:6)" in text
    assert [event.label.split()[0] for event in verdict.witness.events] == ["T1", "T2", "T3", "T4", "T5", "T6"]
    assert verdict.witness.arrows == ((1, 2), (3, 4), (0, 5))


def test_a_kept_history_has_nothing_to_show():
    verdict = check(build([t(0, w(X, 1)), t(1, r(X, 1)), t(1, w(A, 1)), t(0, r(A, 1))]))
    assert set(verdict.levels.values()) == {"kept"}
    assert verdict.outcome == "kept" and verdict.exit_code == 0
    assert verdict.witness is None and len(verdict.violations) == 0
