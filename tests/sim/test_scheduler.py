"""The scheduler: time order, a fixed rule for ties, and ends that are exact."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.sim.scheduler import BURST, Scheduler


@given(st.lists(st.integers(0, 5)))
def test_events_run_in_time_order_and_ties_in_the_order_they_were_scheduled(times):
    scheduler, seen = Scheduler(), []
    for number, time in enumerate(times):
        scheduler.at(time, seen.append, (time, number))
    assert scheduler.run(until=10) == len(times)
    assert seen == sorted(seen)
    assert scheduler.now == 10


def test_events_at_the_end_run_and_later_ones_wait():
    scheduler, seen = Scheduler(), []
    for time in (9, 10, 11):
        scheduler.at(time, seen.append, time)
    assert scheduler.run(until=10) == 2
    assert seen == [9, 10]
    assert len(scheduler) == 1
    assert scheduler.run(until=20) == 1
    assert seen == [9, 10, 11]


def test_an_event_may_schedule_others_at_its_own_instant():
    scheduler, seen = Scheduler(), []
    scheduler.at(5, lambda _: scheduler.at(5, seen.append, "second"), None)
    scheduler.at(5, seen.append, "first")
    scheduler.run(until=5)
    assert seen == ["first", "second"]


def test_a_run_can_be_stopped_between_bursts_and_taken_up_again():
    scheduler = Scheduler()

    def again(_):
        scheduler.at(scheduler.now + 1, again, None)

    again(None)
    assert scheduler.run(until=10**9, between=lambda: False) == BURST
    assert scheduler.now == BURST
    assert scheduler.run(until=BURST + 10) == 10


@given(st.integers(0, 400), st.integers(1, 40), st.booleans())
def test_a_heap_too_large_is_shelved_and_nothing_else_changes(spread, horizon, stops):
    """Every event schedules others, near and far, at one instant and at many, before and after shelving."""

    def order(limits):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in limits.items():
                patch.setattr(f"antecast.sim.scheduler.{name}", value)
            scheduler, seen, counts = Scheduler(), [], []

            def act(name):
                seen.append((scheduler.now, name))
                if len(seen) < 300:
                    for step in (0, 1 + name % 7, spread * name % 101, -3):
                        scheduler.at(scheduler.now + step, act, 4 * name + step)

            for start in range(20):
                scheduler.at(start * spread % 23, act, start)
            # Stopped between two bursts, and taken up again; then to ends before and behind what is shelved.
            looks = iter([True, not stops])
            counts.append(scheduler.run(until=horizon, between=lambda: next(looks, True)))
            for until in (horizon, 2 * horizon, 10**9):
                counts.append(scheduler.run(until=until))
            return seen, sum(counts), counts[-2:], len(scheduler)

    assert order({"LARGE": 8, "NEXT": 3, "BURST": 16}) == order({"BURST": 16})
