"""The queue of the compiled engines gives events in the order of the reference's scheduler, wherever they lie."""

from heapq import heappop, heappush

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from antecast.sim.compiled import queue
from antecast.sim.compiled.links import FAR

steps = st.lists(
    st.one_of(
        st.integers(1, 200),  # so many events are taken
        st.lists(  # these are scheduled, so much later than the last one that was taken
            st.one_of(
                st.integers(0, 3),
                st.integers(0, 5000),
                st.integers(0, 1 << 30),
                st.sampled_from([63, 64, 65, 4095, 4096, 1 << 18, (1 << 24) - 1, 1 << 61, FAR - 1]),
            ),
            max_size=40,
        ),
        st.tuples(st.integers(1, 300), st.sampled_from([0, 1, 7, 1000, 1 << 26])),  # so many, so far apart
    ),
    max_size=40,
)


@given(st.integers(0, 1 << 40), steps, st.sampled_from([(4, 8), (16, 64), (1 << 12, 1 << 14)]))
def test_events_come_by_time_and_by_the_order_of_scheduling(begin, steps, limits):
    made, model, now, sequence = queue.make_queue(8, 2), [], begin, 0
    reached = set()

    def take():
        nonlocal made
        while (state := queue.ready(made)) == queue.SHORT:
            made = queue.with_room(made, 1)
        assert (state == queue.EMPTY) == (not model)
        if not model:
            return now
        time, number = heappop(model)
        assert made.heap[0, 0] == time
        slot = queue.remove_first(made)
        assert made.what[slot].tolist() == [number, -number]
        reached.add(bool(made.at[queue.NEAR] < made.at[queue.SIZE]))
        return time

    with pytest.MonkeyPatch.context() as patch:
        for name, limit in zip(("PORTION", "MANY"), limits, strict=True):
            patch.setattr(queue, name, limit)
        for step in steps:
            if isinstance(step, int):
                for _ in range(step):
                    now = take()
                continue
            delays = step if isinstance(step, list) else [step[1] * each for each in range(step[0])]
            for delay in delays:
                if queue.room_in(made) < 1:
                    made = queue.with_room(made, 1)
                time, sequence = min(now + delay, FAR), sequence + 1
                queue.schedule(made, time, sequence, -sequence)
                heappush(model, (time, sequence))
        assert made.at[queue.SIZE] == len(model)
        while model:
            now = take()
    assert made.at[queue.NEAR] == made.at[queue.SIZE] == 0
    event(f"some far ahead: {True in reached}, all near: {False in reached}")


def test_many_events_of_one_instant_keep_their_order():
    made = queue.with_room(queue.make_queue(8, 2), 5000)
    for each in range(5000):
        queue.schedule(made, 10**9 if each % 2 else 10**12, each, 0)
    found = []
    while (state := queue.ready(made)) != queue.EMPTY:
        if state == queue.SHORT:
            made = queue.with_room(made, 1)
            continue
        found.append(int(made.what[queue.remove_first(made), 0]))
    assert found == [*range(1, 5000, 2), *range(0, 5000, 2)]
