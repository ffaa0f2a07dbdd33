"""Who qualifies and who is recommended, on tables made by hand: each rule decides somewhere."""

from dataclasses import replace

import pytest

from antecast.comparison.demands import Demands, misses, parse_latency, parse_share, parse_violations
from antecast.comparison.judgement import judge
from antecast.comparison.standings import Order, Standing
from antecast.history.confidence import Estimate

MS = 1e6


def around(mean, half):
    return Estimate(mean, mean - half, mean + half, 3)


def stand(name, *, latency=100.0, size=50.0, early=0, promised=True, delivered=1.0, memory=10.0, **more):
    """A protocol with the numbers that matter to a test, of three runs of a thousand deliveries each."""
    values = {
        "name": name,
        "promises": ("causal", "integrity") if promised else ("integrity",),
        "runs": 3,
        "deliveries": 3000,
        "early": early,
        "broken": ("causal",) if early and promised else (),
        "violation_count": Estimate(early / 3),
        "violation_share": Estimate(early / 3000),
        "delivered": Estimate(delivered),
        "latency_p99": Estimate(latency * MS),
        "control_bytes": Estimate(size),
        "messages_peak": Estimate(memory),
    }
    return Standing(**values | more)


LOOSE = stand("loose", latency=40.0, size=10.0, early=30, promised=False)
LUCKY = stand("lucky", latency=50.0, size=10.0, promised=False)
FAST = stand("fast", latency=80.0, size=200.0)
CHEAP = stand("cheap", latency=160.0, size=20.0)


def chosen(*standings, **demands):
    return judge(standings, Demands(**demands)).recommended


def test_a_guarantee_comes_before_luck_and_luck_before_disorder():
    assert chosen(LOOSE, LUCKY, FAST) == "fast"
    assert chosen(LOOSE, LUCKY, FAST, violations=0.0) == "fast"
    assert chosen(LOOSE, LUCKY) == "lucky"
    assert chosen(LOOSE) == "loose"


def test_a_protocol_that_broke_its_promise_is_the_last_to_be_taken():
    liar = stand("liar", latency=1.0, size=1.0, early=1)
    assert liar.order is Order.BROKEN
    assert chosen(liar, LOOSE) == "loose"


def test_a_second_delivery_breaks_the_promise_of_those_who_promise_no_order():
    assert replace(LUCKY, duplicates=1, broken=("integrity",)).order is Order.BROKEN


def test_a_protocol_under_which_nothing_was_delivered_kept_no_order():
    idle = stand("idle", elsewhere=0)
    assert idle.order is Order.UNTRIED and idle.order.rank > LOOSE.order.rank


def test_whoever_allows_violations_gets_the_fastest_within_them():
    assert chosen(LOOSE, LUCKY, FAST, violations=0.02) == "loose"
    assert chosen(LOOSE, LUCKY, FAST, violations=0.009) == "lucky"


def test_violations_can_be_counted_instead_of_shared():
    assert chosen(LOOSE, FAST, violations=10.0, violations_relative=False) == "loose"
    assert chosen(LOOSE, FAST, violations=9.0, violations_relative=False) == "fast"


def test_among_equals_the_lowest_latency_decides():
    assert chosen(FAST, CHEAP) == "fast"


def test_where_only_latency_has_a_limit_the_cheapest_that_is_fast_enough_is_taken():
    assert chosen(FAST, CHEAP, latency=200 * MS) == "cheap"
    assert chosen(FAST, CHEAP, latency=100 * MS) == "fast"
    assert chosen(FAST, CHEAP, latency=200 * MS, bytes=300.0) == "fast"


def test_a_tenth_of_latency_counts_as_nothing_and_more_does_not():
    assert chosen(FAST, stand("near", latency=87.0, size=100.0)) == "near"
    assert chosen(FAST, stand("near", latency=89.0, size=100.0)) == "fast"


def test_memory_decides_between_twins():
    assert chosen(stand("a", memory=11.0), stand("b", memory=10.0)) == "b"


def test_limits_are_judged_by_the_upper_end_of_the_interval():
    sure = stand("sure", latency_p99=around(90 * MS, 5 * MS))
    unsure = stand("unsure", latency_p99=around(90 * MS, 15 * MS))
    judgement = judge([sure, unsure], Demands(latency=100 * MS))
    assert judgement.qualified == ("sure",)
    assert "above --max-latency 100ms at the upper end" in judgement.misses["unsure"][0].text
    dear = stand("dear", control_bytes=around(60.0, 5.0))
    assert judge([dear], Demands(bytes=64.0)).qualified == ()
    assert judge([dear], Demands(bytes=65.0)).qualified == ("dear",)
    wild = stand("wild", promised=False, early=3, violation_share=around(0.001, 0.001))
    assert judge([wild], Demands(violations=0.0015)).qualified == ()
    assert judge([wild], Demands(violations=0.002)).qualified == ("wild",)


def test_delivery_is_judged_by_the_lower_end():
    some = stand("some", delivered=0.95)
    some = replace(some, delivered=around(0.95, 0.01))
    assert judge([some], Demands(delivery=0.945)).qualified == ()
    assert judge([some], Demands(delivery=0.94)).qualified == ("some",)


def test_leaving_out_what_is_late_does_not_make_a_protocol_fast():
    forgetful = stand("forgetful", latency=1.0, delivered=0.98)
    judgement = judge([FAST, forgetful], Demands())
    assert judgement.recommended == "fast"
    assert judgement.misses["forgetful"][0].aspect == "delivery"
    assert any("--min-delivery" in reason and "forgetful" in reason for reason in judgement.reasons)
    assert chosen(FAST, forgetful, delivery=0.9) == "forgetful"
    assert chosen(FAST, stand("nearly", latency=1.0, delivered=0.995)) == "nearly"


def test_a_protocol_with_a_failed_run_is_not_judged():
    broken = replace(CHEAP, failed=1, runs=2, error="took longer than 1 s", latency_p99=Estimate(MS))
    judgement = judge([FAST, broken], Demands())
    assert judgement.recommended == "fast"
    assert judgement.misses["cheap"][0].text == "1 of 3 runs failed: took longer than 1 s"


def test_a_protocol_that_delivered_nothing_does_not_qualify():
    silent = stand("silent", latency_p99=None, violation_share=None)
    assert [miss.text for miss in misses(silent, Demands(), [silent])] == ["it delivered nothing"]


def test_the_reason_names_the_order_the_number_that_decided_and_the_cost():
    judgement = judge([FAST, CHEAP, LOOSE], Demands())
    first, second, third, runner_up, relaxed = judgement.reasons
    assert first == "fast guarantees causal order on this network, and the auditor found it kept in all 3 runs."
    assert second == "Of the 2 that guarantee causal order it has the lowest 99th percentile of latency: 80 ms."
    assert "200 control bytes per delivery" in third and "up to 10 messages" in third
    assert runner_up.startswith("Runner-up: cheap (causal order guaranteed), 99th percentile 160 ms (+100 %)")
    assert relaxed.startswith("Tolerating messages out of order, it would be loose (1.00 % of deliveries out of")
    assert judgement.headline.startswith("Take fast: causal order guaranteed, 99th percentile 80 ms")


def test_the_order_that_was_not_promised_is_told_apart():
    assert "but does not promise it" in judge([LUCKY], Demands()).reasons[0]


def test_what_one_would_gain_without_a_limit_is_said():
    judgement = judge([FAST, CHEAP], Demands(bytes=100.0))
    assert judgement.recommended == "cheap"
    assert any(
        reason.startswith("Without --max-bytes 100 it would be fast") and "80 ms (-50 %)" in reason
        for reason in judgement.reasons
    )
    assert "Excluded: fast by --max-bytes 100." in judgement.reasons


def test_a_gain_of_less_than_a_tenth_is_not_worth_a_word():
    def tolerant(size):
        other = stand("other", latency=80.0, size=size, early=30, promised=False)
        return any(reason.startswith("Tolerating") for reason in judge([FAST, other], Demands()).reasons)

    assert tolerant(179.0)
    assert not tolerant(181.0)


def test_when_none_qualifies_each_limit_names_whom_it_excludes_and_the_nearest_is_named():
    judgement = judge([FAST, CHEAP, LOOSE], Demands(latency=70 * MS, bytes=60.0, violations=0.0))
    assert judgement.recommended is None and judgement.qualified == ()
    assert judgement.headline == "No protocol meets all limits."
    assert judgement.reasons[0] == (
        "Excluded: loose by --max-violations 0%; fast and cheap by --max-latency 70ms; fast by --max-bytes 60."
    )
    assert judgement.nearest == "cheap"  # one miss by a factor; fast misses two, loose by infinitely much
    assert judgement.reasons[1].startswith("Nearest is cheap: 99th percentile of latency, 160 ms")


def test_one_large_miss_is_nearer_than_two_small_ones():
    small = stand("small", latency=71.0, size=61.0)
    assert judge([small, CHEAP], Demands(latency=70 * MS, bytes=60.0)).nearest == "cheap"
    assert judge([small, CHEAP], Demands(latency=70 * MS)).nearest == "small"


def test_when_all_runs_failed_nothing_is_near():
    judgement = judge([replace(FAST, failed=3, runs=0, error="no space")], Demands())
    assert judgement.recommended is None and judgement.nearest is None
    assert "no space" in judgement.reasons[0]


def test_a_demand_is_written_as_it_was_given():
    demands = Demands(
        violations=parse_violations("0.123456%")[0], latency=parse_latency("1.2345s"), bytes=1234567.0
    )
    assert [demands.option(aspect) for aspect in demands.stated] == [
        "--max-violations 0.123456%",
        "--max-latency 1234.5ms",
        "--max-bytes 1234567",
    ]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *((parse_violations, text) for text in ("0.001", "-1", "101%", "a%", "%", "", "nan%")),
        *((parse_share, text) for text in ("0.9", "120%", "-1%", "many")),
        *((parse_latency, text) for text in ("0s", "-1s", "200", "soon")),
    ],
)
def test_nonsense_is_refused_with_an_example(parse, text):
    with pytest.raises(ValueError, match="expected"):
        parse(text)


def test_the_runner_up_keeps_what_was_asked_for():
    """One that delivers out of order is no second choice for whoever wants order, however fast it is."""
    assert judge([LOOSE, FAST], Demands()).runner_up is None
    assert judge([LOOSE, FAST, CHEAP], Demands()).runner_up == "cheap"
    assert judge([LOOSE, LUCKY, FAST], Demands()).runner_up == "lucky"
    assert judge([LOOSE, FAST], Demands(violations=0.02)).runner_up == "fast"
    assert judge([LOOSE, LUCKY], Demands(violations=0.02)).runner_up == "lucky"
    liar = stand("liar", latency=1.0, size=1.0, early=1)
    assert judge([liar, FAST], Demands()).runner_up is None


def test_the_nearest_keeps_what_was_asked_for():
    """Both miss the limit; the one that is nearer delivers out of order."""
    judged = judge([LOOSE, FAST], Demands(latency=30 * MS))
    assert (judged.recommended, judged.nearest) == (None, "fast")
    assert judge([LOOSE, FAST], Demands(latency=30 * MS, violations=0.02)).nearest == "loose"
    none = judge([LOOSE], Demands(latency=30 * MS))
    assert none.nearest is None and "None of them kept causal order, so none is near." in none.reasons


def test_giving_up_a_limit_is_not_advised_where_it_gains_no_order():
    judged = judge([LOOSE, CHEAP], Demands(latency=200 * MS, bytes=30.0))
    assert judged.recommended == "cheap"
    assert not any(reason.startswith("Without --max") for reason in judged.reasons)


def test_order_that_was_kept_on_a_network_that_lacks_what_it_needs_is_not_guaranteed():
    lacking = replace(FAST, unmet=("FIFO links",))
    assert lacking.order is Order.KEPT
    assert chosen(lacking, CHEAP) == "cheap"
    reasons = judge([lacking], Demands()).reasons
    assert any("needs FIFO links, which this network does not have" in reason for reason in reasons)
