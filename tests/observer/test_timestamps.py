"""Timestamps: an event sorts after all that it depends on, in bounded space, whatever the clocks do within ε."""

import random

import pytest
from executions import execute
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import LocalMisuse, MalformedFrame
from antecast.observer import (
    BoundedClock,
    Bounds,
    HybridClock,
    KnowledgeClock,
    Layout,
    Timestamp,
    less,
    published_bits,
    published_key,
    shorten,
)

TEN = Bounds(epsilon=10, delta=10, nodes=10)
bounds_ = st.builds(Bounds, epsilon=st.integers(0, 6), delta=st.integers(0, 8))
seeds = st.integers(0, 1 << 32)
clocks = pytest.mark.parametrize("make", [BoundedClock, HybridClock])


@given(seeds, bounds_)
def test_a_cause_sorts_before_its_effect(seed, bounds):
    run = execute(random.Random(seed), bounds, makers=("bounded", "hybrid", "cured"))
    for one in run.sent:
        for other in run.sent:
            if one.precedes(other):
                for kind in ("bounded", "hybrid"):
                    assert less(one.stamps[kind], one.source, other.stamps[kind], other.source)


@given(seeds, bounds_)
def test_the_short_form_says_what_the_long_one_says(seed, bounds):
    for each in execute(random.Random(seed), bounds, makers=("bounded", "cured")).sent:
        short, long = each.stamps["bounded"], each.stamps["cured"]
        assert shorten(long, bounds).key(each.source) == short.key(each.source)


@given(seeds, bounds_)
def test_the_time_of_a_hybrid_clock_is_r_plus_c(seed, bounds):
    for each in execute(random.Random(seed), bounds).sent:
        bounded, hybrid = each.stamps["bounded"], each.stamps["hybrid"]
        assert (hybrid.r, hybrid.c, hybrid.before) == (bounded.r, bounded.c, bounded.before)
        assert 0 <= bounded.c <= bounds.epsilon


@given(seeds, bounds_)
def test_before_is_the_last_clock_reading_of_an_earlier_send(seed, bounds):
    sent = execute(random.Random(seed), bounds).sent
    for each in sent:
        past = [other.r for other in sent if other.precedes(each)]
        assert each.stamps["hybrid"].before == max(past, default=None)


def smallest_case(rule, bounds):
    """p at clock M sends e; k receives it at clock M − ε; k sends g a tick later. e → g."""
    p, k = KnowledgeClock(bounds, rule=rule), KnowledgeClock(bounds, rule=rule)
    top = 20
    e = p.send(top)
    k.receive(e, top - bounds.epsilon)
    return e, k.send(top - bounds.epsilon + 1)


@pytest.mark.parametrize("epsilon", [2, 5, 10])
def test_the_printed_rule_is_wrong_where_c_is_epsilon_and_the_cured_one_right(epsilon):
    bounds = Bounds(epsilon=epsilon, delta=10)
    e, g = smallest_case("paper", bounds)
    assert published_key(g, 1, bounds) < published_key(e, 0, bounds)
    e, g = smallest_case("cured", bounds)
    assert less(shorten(e, bounds), 0, shorten(g, bounds), 1)


def printed_errors(run):
    return [
        (one, other)
        for one in run.sent
        for other in run.sent
        if one.precedes(other)
        and published_key(one.stamps["paper"], one.source, run.bounds)
        >= published_key(other.stamps["paper"], other.source, run.bounds)
    ]


def test_random_executions_find_the_printed_rule_s_error_too():
    runs = [execute(random.Random(seed), Bounds(epsilon=2, delta=4), makers=("paper",)) for seed in range(20)]
    assert sum(len(printed_errors(run)) for run in runs) > 10


def test_an_idle_process_forgets():
    clock = BoundedClock(Bounds(epsilon=3, delta=5))
    other = BoundedClock(Bounds(epsilon=3, delta=5))
    clock.receive(other.send(7), 5)
    assert clock.send(30) == Timestamp(r=30, c=0, kn=(1, 0, 0, 0), before=7)


@given(seeds, bounds_)
def test_counts_stay_within_their_bounds(seed, bounds):
    run = execute(random.Random(seed), bounds, nodes=4)
    most = max(run.events.values(), default=1)
    limits = Bounds(epsilon=bounds.epsilon, delta=bounds.delta, nodes=4, events_a_tick=most)
    for each in run.sent:
        assert max(each.stamps["bounded"].kn) <= limits.most
        assert each.stamps["hybrid"].kn[0] <= limits.most_hybrid


@given(seeds, bounds_)
def test_receivers_can_tell_r_from_its_remainder(seed, bounds):
    run = execute(random.Random(seed), bounds)
    bounds = Bounds(epsilon=bounds.epsilon, delta=bounds.delta, nodes=4, events_a_tick=200)
    assert all(-bounds.epsilon <= each <= bounds.delta + bounds.epsilon for each in run.offsets)
    for kind, layout in (("bounded", Layout.short(bounds, before=True)), ("hybrid", Layout.hybrid(bounds))):
        for now, each, _ in run.seen:
            if each is not None:
                read = layout.decode(layout.encode(each.stamps[kind]), now)
                assert (read.r, read.c, read.kn) == (
                    each.stamps[kind].r,
                    each.stamps[kind].c,
                    each.stamps[kind].kn,
                )


def test_both_ends_of_the_range_of_r_are_reached_so_no_smaller_modulus_will_do():
    bounds, met = Bounds(epsilon=2, delta=3), set()
    for seed in range(200):
        met |= execute(random.Random(seed), bounds).offsets
    assert (min(met), max(met)) == (-2, 5)
    assert len(met) == bounds.modulus
    published = bounds.epsilon + bounds.delta + 1
    assert {each % published for each in met} < set(range(bounds.modulus))


def test_sizes_in_bits():
    sizes = [Layout.whole(TEN).bits, Layout.short(TEN).bits, Layout.short(TEN, elements=2).bits]
    assert [published_bits(TEN), *sizes, Layout.hybrid(TEN).bits] == [89, 93, 53, 17, 16]


def test_the_paper_s_example_of_two_elements_in_four_bytes():
    layout = Layout.short(TEN, elements=2, aligned=True)
    stamp = Timestamp(r=123_456, c=9, kn=(10, 3))
    assert layout.size == 4
    assert layout.decode(layout.encode(stamp), now=123_460) == stamp
    assert Layout.short(TEN, elements=2).size == 3
    assert Layout.hybrid(TEN).size == 2


@given(st.binary(min_size=7, max_size=7), st.integers(0, 10**12))
@example(b"\xff" * 7, 0)
def test_any_bytes_are_a_valid_stamp_or_refused(data, now):
    layout = Layout.short(TEN)
    try:
        stamp = layout.decode(data, now)
    except MalformedFrame:
        return
    assert now - 20 <= stamp.r <= now + 10
    assert layout.encode(stamp) == data


def test_what_does_not_fit_is_told():
    with pytest.raises(LocalMisuse, match="has 11, expected 0 to 10"):
        Layout.short(TEN, elements=1).encode(Timestamp(r=1, kn=(11,)))
    with pytest.raises(LocalMisuse, match="takes 2 elements, got 1"):
        Layout.short(TEN, elements=2).encode(Timestamp(r=1, kn=(1,)))
    with pytest.raises(LocalMisuse, match="needs the number of processes"):
        Layout.short(Bounds(epsilon=1, delta=1))
    with pytest.raises(MalformedFrame, match="of 3 bytes, got 2"):
        Layout.short(TEN, elements=2).decode(b"ab", 0)
    with pytest.raises(LocalMisuse, match="elements must be 0 to 11"):
        BoundedClock(TEN, elements=12)


def test_more_events_in_a_tick_than_promised_are_refused():
    clock = BoundedClock(Bounds(epsilon=2, delta=2, nodes=3, events_a_tick=2))
    clock.local(5)
    clock.send(5)
    with pytest.raises(LocalMisuse, match="more than 2 events in one tick"):
        clock.send(5)


WRONG = [
    Timestamp(r=100, c=-1, kn=(0,) * 4),
    Timestamp(r=100, c=4, kn=(0,) * 4),
    Timestamp(r=104, c=0, kn=(0,) * 4),
    Timestamp(r=101, c=3, kn=(0,) * 4),
    Timestamp(r=100, c=0, kn=(0,) * 3),
    Timestamp(r=100, c=0, kn=(0, -1, 0, 0)),
    Timestamp(r=100, c=0, kn=(10, 0, 0, 0)),
    Timestamp(r=100, c=0, kn=(0,) * 4, before=101),
]


@pytest.mark.parametrize("stamp", WRONG)
def test_a_stamp_that_cannot_be_teaches_nothing(stamp):
    bounds = Bounds(epsilon=3, delta=5, nodes=9)
    clock, same = BoundedClock(bounds), BoundedClock(bounds)
    assert not clock.receive(stamp, 100)
    same.local(100)
    assert clock.refused == 1
    assert clock.send(101) == same.send(101)


@clocks
@given(latest=st.integers(-100, 10**6), count=st.integers(-5, 500), before=st.integers(-100, 10**6))
def test_a_corrupted_clock_is_right_again_once_clocks_have_moved_on_by_epsilon(make, latest, count, before):
    bounds = Bounds(epsilon=3, delta=5, nodes=4, events_a_tick=5)
    clock, right = make(bounds), make(bounds)
    clock._latest, clock._before = latest, before
    if make is BoundedClock:
        clock._counts = [count] * 4
    else:
        clock._counter = count
    for now in range(100, 100 + 2 * (bounds.epsilon + 1)):
        clock.local(now)
        right.local(now)
    stamp, expected = clock.send(200), right.send(200)
    assert (stamp.r, stamp.c, stamp.kn) == (expected.r, expected.c, expected.kn)
    assert stamp.before is None or stamp.before <= 200


@clocks
@pytest.mark.parametrize("nodes", [None, 3])
@given(data=st.data(), seed=seeds)
def test_a_source_s_own_order_survives_any_clock(make, nodes, data, seed):
    """The clock is set back by anything, there are more events in a tick than promised, others say what they like:
    what the source sends sorts in the order in which it was sent, within the bounds that others hold it to."""
    draw = random.Random(seed)
    bounds = Bounds(epsilon=3, delta=5, nodes=nodes, events_a_tick=2)
    width, most = (4, bounds.most) if make is BoundedClock else (1, bounds.most_hybrid)
    clock, now, last = make(bounds), 1000, None
    for _ in range(60):
        now += draw.choice([0, 0, 0, 1, 2, 5, -1, -4, -50, 60])
        try:
            if draw.random() < 0.4:
                kn = tuple(draw.randrange(9 if most is None else most + 1) for _ in range(width))
                clock.receive(Timestamp(now + draw.randrange(-5, 5), draw.randrange(4), kn), now)
                continue
            stamp = clock.send(now)
        except LocalMisuse:
            continue
        assert 0 <= stamp.c <= bounds.epsilon
        assert stamp.r >= now
        assert most is None or max(stamp.kn) <= most
        assert last is None or last.key(0) < stamp.key(0)
        last = stamp
    assert clock.resets == 0


@clocks
def test_a_clock_that_is_set_back_is_counted_and_can_be_reset(make):
    clock = make(Bounds(epsilon=2, delta=5))
    before = clock.send(1000)
    after = clock.send(10)
    assert less(before, 0, after, 0)
    assert (after.r, after.c, clock.forced, clock.resets) == (998, 2, 1, 0)
    clock.reset(11)
    assert clock.send(11).latest == 11


def test_a_hybrid_clock_with_more_events_in_a_tick_than_promised_keeps_its_order():
    bounds = Bounds(epsilon=1, delta=2, nodes=2)
    clock = HybridClock(bounds)
    stamps = [clock.send(50) for _ in range(20)]
    assert [each.key(0) for each in stamps] == sorted(each.key(0) for each in stamps)
    assert max(each.kn[0] for each in stamps) <= bounds.most_hybrid
    assert clock.forced > 0
