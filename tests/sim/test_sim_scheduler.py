"""The scheduler: time order, a fixed rule for ties, and ends that are exact."""

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
