"""The clock of the rows: one source whose clock is wrong moves it by ε + δ at the most."""

import random
from dataclasses import replace

import numpy as np
import pytest
from executions import execute, violations
from hypothesis import given
from hypothesis import strategies as st

from antecast.observer import BatchObserver, Bounds, Carried, Observer, Policy, Stamps, Timestamp
from antecast.observer.front import ALONE
from antecast.observer.policy import FUTURE
from antecast.papers.observer.model import ObserverModel, generate, judge

HOUR = 3_600_000
DAY = 24 * HOUR
POLICY = Policy(bounds=Bounds(epsilon=5, delta=50), mode="exact", stamps="hybrid")


def hybrid(r):
    return Timestamp(r=r, kn=(0,))


def see(rows, policy=POLICY, **options):
    """Rows as (r, source), received one by one; what came out before the end, and the observer."""
    observer, out = Observer(policy, clock="rows", **options), []
    for item, (r, source) in enumerate(rows):
        out += observer.receive(item, hybrid(r), source)
    return observer, out


@pytest.mark.parametrize("sources", [1, 4])
@pytest.mark.parametrize("at", [0, 1, 500])
def test_one_row_an_hour_ahead_stalls_nobody(sources, at):
    rows = [(1_000_000 + n, n % sources) for n in range(3000)]
    rows[at] = (rows[at][0] + HOUR, rows[at][1])
    observer, out = see(rows, gap=DAY)
    assert observer.now == rows[-1][0]
    assert len(out) > 2900
    assert [each.item for each in out if each.reason] in ([at], [])
    right = [each.item for each in out if not each.reason and each.item > at + 10]
    assert right == sorted(right)


def test_a_clock_that_runs_fast_leads_nobody_away():
    """No leap at all: one source gains a tick on every row, and is believed no further than ε + δ."""
    rows = []
    for n in range(4000):
        rows += [(1_000_000 + n, n % 3), (1_000_000 + 2 * n, 9)]
    observer, out = see(rows, gap=DAY)
    assert observer.now <= 1_004_000 + 55
    honest = [each.item for each in out if not each.reason and each.item % 2 == 0]
    assert len(honest) > 3900
    assert honest == sorted(honest)


def in_batches(run, r, policy, size, *, together):
    """Rows of the model in micro-batches, sorted by r where they arrive together: the order, what was refused, and
    how many were late."""
    observer = BatchObserver(policy=policy, gap=DAY, together=together)
    carried, names, order, refused, late = Carried.nothing(policy), np.zeros(0, np.int64), [], [], 0
    for start in [*range(0, len(run), size), len(run)]:
        rows = np.arange(start, min(start + size, len(run)))
        if together:
            rows = rows[np.argsort(r[rows], kind="stable")]
        stamps = Stamps(r[rows], run.c[rows], run.counter[rows].reshape(-1, 1), run.before[rows], run.source[rows])
        done = observer.observe(carried, stamps, flush=start == len(run))
        names = np.append(names, rows)
        order += names[done.delivered].tolist()
        refused += names[done.refused].tolist()
        late += int(done.late.sum())
        carried, names = done.carried, names[done.kept]
    assert sorted(order + refused) == list(range(len(run)))
    return np.array(order, np.int64), refused, late


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("whose", ["one source", "two sources", "every 20th row", "any row"])
@pytest.mark.parametrize("ahead", [HOUR, 2 * DAY, "either"])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_of_wrong_clocks_are_refused_and_the_rest_is_in_order(together, whose, ahead, seed):
    """Where several sources are wrong, their rows come one right behind the other now and then."""
    run = generate(ObserverModel(epsilon=4, delta=6, nodes=6, messages=3000, seed=seed))
    draw = np.random.default_rng(seed)
    wrong = {
        "one source": run.source == 2,
        "two sources": (run.source == 2) | (run.source == 4),
        "every 20th row": np.arange(len(run)) % 20 == 10,
        "any row": draw.random(len(run)) < 0.05,
    }[whose]
    wrong[0] = False  # a wrong first row sets the clock, which is another test
    r = run.r + np.where(wrong, draw.choice([HOUR, 2 * DAY], len(run)) if ahead == "either" else ahead, 0)
    policy = Policy(bounds=run.model.bounds, mode="exact", stamps="hybrid")
    order, refused, late = in_batches(run, r, policy, 150, together=together)
    right = order[~wrong[order]]
    assert judge(run, right).pairs == 0
    assert len(right) == np.count_nonzero(~wrong)
    assert len(refused) > 0.9 * np.count_nonzero(wrong)
    assert late == 0


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("behind", [HOUR, 50 * 365 * DAY])
@pytest.mark.parametrize("seed", [1, 2])
def test_clocks_that_are_behind_set_nobody_back_while_most_rows_are_right(together, behind, seed):
    """A third of the sources; sorted by r, their rows come first in every micro-batch."""
    run = generate(ObserverModel(epsilon=4, delta=6, nodes=6, messages=3000, seed=seed))
    wrong = run.source % 3 == 2
    wrong[:150] = False
    r = run.r + 60 * 365 * DAY - np.where(wrong, behind, 0)
    policy = Policy(bounds=run.model.bounds, mode="exact", stamps="hybrid")
    run = replace(run, before=run.before + 60 * 365 * DAY - np.where(wrong, behind, 0))
    order, refused, late = in_batches(run, r, policy, 150, together=together)
    assert refused == []
    assert judge(run, order[~wrong[order]]).pairs == 0
    assert late <= np.count_nonzero(wrong)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("behind", [HOUR, 50 * 365 * DAY])
@pytest.mark.parametrize("seed", [1, 3, 5])
def test_a_clock_that_is_behind_and_speaks_first_has_nobody_refused(together, behind, seed):
    """One source of six, whose rows come again and again between those of the others."""
    run = generate(ObserverModel(epsilon=4, delta=6, nodes=6, messages=3000, seed=seed))
    wrong = run.source == run.source[0]
    r = run.r + 60 * 365 * DAY - np.where(wrong, behind, 0)
    policy = Policy(bounds=run.model.bounds, mode="exact", stamps="hybrid")
    run = replace(run, before=run.before + 60 * 365 * DAY - np.where(wrong, behind, 0))
    order, refused, _ = in_batches(run, r, policy, 1 if together else 150, together=together)
    assert not any(wrong[row] for row in refused)
    assert len(refused) <= 5
    right = [row for row in order if not wrong[row]]
    assert len(right) + len(refused) == int((~wrong).sum())


def test_most_rows_set_back_a_clock_that_two_wrong_sources_have_made():
    rows = [(DAY * 9 + n, n % 2) for n in range(4)] + [(1000 + n, 2 + n % 3) for n in range(40)]
    observer, _ = see(rows, gap=DAY)
    assert observer.now == rows[-1][0]


def test_another_source_confirms_a_leap_and_the_same_one_does_not():
    rows = [(1000 + n, n % 2) for n in range(20)]
    observer, _ = see([*rows, *[(9000 + n, 0) for n in range(50)]])
    assert observer.now == 1019
    observer.receive("other", hybrid(9040), 1)
    assert observer.now == 9049
    assert [each.reason for each in observer.flush() if each.reason] == []


@pytest.mark.parametrize(("leap", "rows"), [(60, 2), (32 * 55, 3), (HOUR, 13)])
def test_the_further_a_leap_the_more_rows_it_takes(leap, rows):
    """And a row that was in time before the leap refutes those before it."""
    before = [(1000 + n, n % 2) for n in range(20)]
    after = [(1019 + leap + n, n % 2) for n in range(20)]
    for count in range(20):
        observer, _ = see([*before, *after[:count]])
        assert (observer.now > 1019 + leap - 1) == (count >= rows), count
    observer, out = see([*before, *after[: rows - 1], (1010, 1), after[-1]])
    assert observer.now == 1019
    assert sorted(each.item for each in out if each.reason) == list(range(20, 19 + rows))


def test_the_last_source_that_still_speaks_is_believed_in_the_end():
    rows = [(1000 + n, n % 2) for n in range(20)]
    observer, out = see([*rows, *[(9000 + n, 0) for n in range(3 * ALONE)]])
    assert observer.now == 9000 + 3 * ALONE - 1
    assert not any(each.reason or each.late for each in out)


def test_what_a_timer_confirms_goes_at_its_own_time():
    """Doubted rows that another clock has passed are not held until it moves again."""
    observer, _ = see([(100, 0), (300, 0), (400, 0)])
    assert [each.item for each in observer.advance(400)] == [0, 1]
    assert observer.next_due() == 400 + 55 + 1


def test_rows_that_are_far_apart_wait_for_the_next_of_another_source():
    observer, out = see([(1000 * n, n % 2) for n in range(20)])
    assert [each.item for each in out] == list(range(18))
    assert [(each.item, each.reason) for each in observer.flush()] == [(18, None), (19, None)]


def test_a_last_row_that_nothing_confirms_is_delivered_unless_it_is_beyond_the_gap():
    rows = [(1000 + n, n % 2) for n in range(20)]
    for r, reason in ((1019 + HOUR, None), (1019 + 2 * DAY, FUTURE)):
        observer, _ = see([*rows, (r, 0)], gap=DAY)
        assert [each.reason for each in observer.flush() if each.item == 20] == [reason]


def test_a_first_row_from_the_future_is_found_out_by_two_others():
    rows = [(1000 + HOUR, 7), *[(1000 + n, n % 3) for n in range(300)]]
    observer, out = see(rows, gap=DAY)
    assert observer.now == 1299
    assert len(out) > 230


def test_rows_that_are_late_do_not_set_the_clock_back():
    """Two sources bring up what they had kept for an hour: flagged, and the clock stays where it is."""
    rows = [(HOUR + n, n % 3) for n in range(200)]
    rows += [(n, n % 2) for n in range(50)]
    rows += [(HOUR + 200 + n, n % 3) for n in range(200)]
    observer, out = see(rows, gap=DAY)
    assert (observer.now, observer.resets) == (HOUR + 399, 0)
    assert {each.item for each in out if each.late} == set(range(200, 250))


@pytest.mark.parametrize("mode", ["exact", "cbd"])
@given(seed=st.integers(0, 1 << 32), ahead=st.integers(1, 10**6), share=st.sampled_from([0.05, 0.3, 1.0]))
def test_whatever_one_source_says_the_others_are_in_order(mode, seed, ahead, share):
    """Any execution that keeps the guarantees, but for one process whose rows lie about the time. What it makes of
    the others' order is bounded: their own rows, exactly stamped, are neither refused nor out of order while they
    go on to tell the time."""
    draw = random.Random(seed)
    bounds = Bounds(epsilon=3, delta=4)
    run = execute(draw, bounds, steps=400)
    observer, out = Observer(Policy(bounds=bounds, mode=mode, stamps="hybrid"), clock="rows", gap=10**7), []
    lied = set()
    for message in run.arrived:
        stamp = message.stamps["hybrid"]
        if message.source == 0 and draw.random() < share:
            lied.add(id(message))
            stamp = Timestamp(stamp.r + ahead, stamp.c, stamp.kn, stamp.before)
        out += observer.receive(message, stamp, message.source)
    out += observer.flush()
    assert len(out) == len(run.arrived)
    first = next((n for n, each in enumerate(run.arrived) if id(each) not in lied), 0)
    if first < 1:  # a wrong first row sets the clock, which is another test
        right = [each for each in out if id(each.item) not in lied]
        assert [each.reason for each in right if each.reason] == []
        if ahead > 10 * bounds.longest:
            assert not violations([each.item for each in right])
