"""What is not known: indeterminate transactions, reads without a result, values written twice, missing parts."""

import pytest
from published import ABORTED, ANOMALIES, INDETERMINATE, OK, X, Y, build, r, t, w

from antecast.kv import INITIAL, LEVELS, UNKNOWN, HistoryBuilder, Options, check

SESSION = LEVELS[:4]


def outcomes(transactions, **options):
    return check(build(transactions), Options(**options)).levels


def test_nothing_judged_is_no_verdict():
    for transactions in ([], [t(0)], [t(0, w(X, 1), status=ABORTED), t(0)]):
        verdict = check(build(transactions))
        assert verdict.outcome == "inconclusive" and verdict.exit_code == 3
        assert "nothing was judged" in verdict.missing[0]


def test_an_indeterminate_transaction_that_was_read_from_committed():
    doubtful = [t(0, w(X, 1), w(Y, 1), status=INDETERMINATE), t(1, r(X, 1))]
    verdict = check(build(doubtful))
    assert verdict.outcome == "kept"
    assert "indeterminate transactions (1)" in verdict.assumptions[1]
    # It counts whole: its other write is in the past as well.
    assert outcomes([*doubtful, t(1, r(Y, 0))])["CC"] == "violated"


def test_an_indeterminate_transaction_that_nobody_read_adds_nothing():
    assert outcomes([t(0, w(X, 1)), t(0, w(X, 2), status=INDETERMINATE), t(0, r(X, 1))])["CM"] == "kept"


def test_a_value_that_an_indeterminate_transaction_wrote_too_may_be_its_own():
    """Either writer explains the read; neither commits because its twin was read."""
    lost = {"status": INDETERMINATE}
    before = [t(0, w(X, 2), **lost), t(1, r(X, 2), w(X, 2))]
    assert set(outcomes(before).values()) == {"kept"}
    twins = [
        t(0, w(X, 1), status=INDETERMINATE),
        t(0, r(X, 0)),
        t(1, w(X, 1), status=INDETERMINATE),
        t(2, r(X, 1)),
    ]
    assert set(outcomes(twins).values()) == {"kept"}
    neither = [
        t(0, w(X, 1), status=INDETERMINATE),
        t(0, r(X, 0)),
        t(2, r(X, 1)),
        t(2, w(Y, 1)),
        t(0, r(Y, 1)),
        t(0, r(X, 0)),
    ]
    assert outcomes(neither)["CC"] == "violated"


def test_reads_of_transactions_that_did_not_commit_count_for_nothing():
    assert set(outcomes([t(0, w(X, 1)), t(1, r(X, 7), status=ABORTED)]).values()) == {"kept"}


def with_unknown(value):
    builder = HistoryBuilder()
    builder.begin(0)
    builder.write("x", 1)
    builder.begin(0)
    builder.read("x", value)
    builder.begin(1)
    builder.read("x", UNKNOWN, line=3)
    return builder.build()


def test_a_read_without_a_result_leaves_the_verdict_open():
    verdict = check(with_unknown(1))
    assert set(verdict.levels.values()) == {"inconclusive"} and verdict.exit_code == 3
    assert verdict.missing == ("reads without a result: 1 (history:3); log what they returned",)


def test_a_violation_stands_whatever_else_is_unknown():
    verdict = check(with_unknown(INITIAL))
    assert verdict.levels["read-your-writes"] == verdict.levels["CC"] == "violated"
    assert verdict.levels["monotonic-reads"] == "inconclusive"


def test_a_value_written_twice_is_read_from_either():
    """Some choice of writers explains it, so it is kept: the second session cannot tell them apart."""
    twice = [t(0, w(X, 1)), t(0, w(X, 2)), t(1, w(X, 1)), t(2, r(X, 2)), t(2, r(X, 1))]
    assert set(outcomes(twice).values()) == {"kept"}


def test_a_value_written_twice_that_no_choice_explains_is_a_violation():
    twice = [t(0, w(X, 1)), t(0, w(X, 1)), t(0, w(X, 2)), t(1, r(X, 2)), t(1, r(X, 1))]
    assert outcomes(twice)["monotonic-reads"] == outcomes(twice)["CC"] == "violated"


def test_too_many_choices_leave_the_verdict_open():
    """No choice that is tried explains the last read, and not all are tried."""
    twice = [t(0, w(X, 1)), t(0, w(X, 1)), t(0, w(X, 2)), t(1, r(X, 2)), *[t(1, r(X, 1))] * 3]
    verdict = check(build(twice), Options(choices=2))
    assert verdict.levels["CC"] == "inconclusive"
    assert "write each value once per key" in verdict.missing[0]


def test_a_likely_choice_is_enough_to_keep_a_level():
    many = [each for n in range(30) for each in (t(0, w(X, 1)), t(0, r(X, 1)))]
    assert set(outcomes(many, choices=4).values()) == {"kept"}


def test_a_value_that_is_also_the_initial_one_may_mean_either():
    builder = HistoryBuilder()
    builder.begin(0)
    builder.write("x", 5)
    builder.begin(0)
    builder.write("x", 0)
    builder.begin(0)
    builder.read("x", 0)
    assert check(builder.build(initial=0)).outcome == "kept"


def test_in_a_history_with_gaps_a_read_of_nobodys_write_is_one():
    transactions = [t(0, w(X, 1)), t(1, r(Y, 7)), t(1, r(X, 1))]
    assert outcomes(transactions)["CC"] == "violated"
    verdict = check(build(transactions), Options(complete=False))
    assert set(verdict.levels.values()) == {"inconclusive"}
    assert "log all writers" in verdict.missing[0]


def test_gaps_hide_no_violation():
    transactions = [t(1, r(Y, 7)), *ANOMALIES["conflict-CO"]]
    assert outcomes(transactions, complete=False)["CC"] == "violated"


def test_session_guarantees_stay_open_where_a_read_has_no_writer():
    levels = outcomes([t(0, w(X, 1)), t(1, r(Y, 7))])
    assert {levels[each] for each in SESSION} == {"inconclusive"}


def test_the_outcome_is_that_of_the_levels_asked_for():
    history = build(ANOMALIES["conflict-AO"])
    assert check(history).exit_code == 1
    assert check(history, Options(require=("CC", "CM"))).exit_code == 0


def test_violations_are_listed_up_to_a_limit_and_all_are_counted():
    many = [each for n in range(1, 21) for each in (t(0, w(X, n), status=OK), t(1, r(Y, n)))]
    verdict = check(build(many), Options(limit=5))
    assert verdict.counts == {"thin-air-read": 20} and len(verdict.violations) == 5
    assert "5 violations are listed, 15 are not" in str(verdict)


@pytest.mark.parametrize("name", ANOMALIES)
def test_a_verdict_says_what_it_found_in_every_form(name):
    verdict = check(build(ANOMALIES[name]))
    assert verdict.summary()["verdict"] == "violated"
    assert verdict.summary()["counts"] == dict(verdict.counts)
    assert "violated" in verdict._repr_html_() and "violated" in repr(verdict)


def test_true_is_not_one():
    builder = HistoryBuilder()
    builder.begin("a")
    builder.write("x", 1)
    builder.begin("b")
    builder.read("x", True)
    assert check(builder.build()).counts == {"thin-air-read": 1}
