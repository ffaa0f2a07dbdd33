"""Timers without Spark: real time counts while nothing waits to be read, and idle groups are forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecast.observer import BatchObserver, Policy
from antecast.papers.observer.model import ObserverModel, generate, judge
from antecast.spark.observe_group import GroupObserver, State
from antecast.spark.observe_rows import RowFormat, read_rows
from antecast.spark.observe_timers import Timekeeper

RUN = generate(ObserverModel(epsilon=4, delta=6, nodes=6, messages=3000, seed=3))
COLUMNS = {"r": "r", "c": "c", "counter": "counter", "source": "source", "arrival": "row"}


def group_observer(**options: Any) -> GroupObserver:
    policy = Policy(bounds=RUN.model.bounds, mode="exact", stamps="hybrid")
    rows = RowFormat(policy=policy, key=("g",), columns=COLUMNS, tick=10**6)
    return GroupObserver(BatchObserver(policy=policy), rows, ordered=True, **options)


def table(rows: Any) -> pa.Table:
    columns = {"r": RUN.r, "c": RUN.c, "counter": RUN.counter, "source": RUN.source, "row": np.arange(len(RUN))}
    return pa.table({name: values[rows] for name, values in columns.items()})


class Operator:
    """What Spark does: rows of groups first, then the timers that have expired, once for each micro-batch."""

    def __init__(self, group: GroupObserver, keeper: Timekeeper) -> None:
        self.group, self.settings = group, keeper
        self.states: dict[Any, bytes] = {}
        self.out: dict[Any, list[int]] = {}
        self.late = 0

    def batch(
        self, real: int, rows: dict[Any, Any], ahead: dict[Any, int] | None = None, wrong: Any = None
    ) -> None:
        """Rows of groups, some of which count time from another day; `wrong` is added to the time of each row."""
        keeper = self.settings.of_a_task()
        for key, numbers in rows.items():
            state = State.load(self.states.get(key))
            evidence = keeper.evidence(state.header, real)
            came = table(numbers)
            off = (ahead or {}).get(key, 0) + (0 if wrong is None else wrong[numbers])
            came = came.set_column(0, "r", pa.array(RUN.r[numbers] + off))
            done = self.group.step(state, [read_rows(came, self.group.rows)], evidence=evidence)
            keeper.rows_came(state.header, done.state.header, real)
            self._keep(key, done, keeper, real)
        for key in list(self.states):
            state = State.load(self.states[key])
            if state.header.timer is None or state.header.timer > real:
                continue
            state.header.timer = None
            if keeper.forgotten(state.header, self.group.next_due(state), real):
                del self.states[key]
                continue
            self._keep(key, self.group.step(state, [], until=keeper.passed(state.header, real)), keeper, real)

    def _keep(self, key: Any, done: Any, keeper: Timekeeper, real: int) -> None:
        done.state.header.timer = keeper.next_timer(done.state.header, self.group.next_due(done.state), real)
        self.states[key] = done.state.dump()
        if done.out is not None:
            self.out.setdefault(key, []).extend(done.out.column("row").to_pylist())
            self.late += sum(filter(None, done.out.column("late").to_pylist()))


def test_rows_that_wait_to_be_read_are_not_overtaken_by_real_time() -> None:
    """After an outage: micro-batches of 20 ms worth of rows take a second each, far more than the slack."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 100))
    for number, start in enumerate(range(0, len(RUN), 30)):
        spark.batch(1000 * number, {"g": np.arange(start, min(start + 30, len(RUN)))})
    spark.batch(1000 * 10**6, {})
    assert sorted(spark.out["g"]) == list(range(len(RUN)))
    assert judge(RUN, np.array(spark.out["g"])).pairs == 0
    assert spark.late == 0


def test_a_silent_group_is_not_overtaken_while_another_s_rows_are_read() -> None:
    """One group has rows in every third micro-batch of a backlog only; the other in all of them."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 100))
    for number, start in enumerate(range(0, len(RUN), 30)):
        rows = {"busy": np.arange(start, min(start + 30, len(RUN)))}
        if number % 3 == 0:
            rows["rare"] = rows["busy"]
        spark.batch(1000 * number, rows)
    spark.batch(1000 * 10**6, {})
    assert judge(RUN, np.array(spark.out["rare"])).pairs == 0
    assert spark.late == 0


@pytest.mark.parametrize("ahead", [{}, {"busy": 10**6}, {"rare": 10**6}], ids=str)
def test_groups_that_count_time_from_different_days_do_not_overtake_each_other_s_rows(
    ahead: dict[str, int],
) -> None:
    """The rare group comes first in its micro-batches, before the other's clock has been seen."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 200))
    for number, start in enumerate(range(0, len(RUN), 30)):
        rows = {"busy": np.arange(start, min(start + 30, len(RUN)))}
        if number % 3 == 0:
            rows = {"rare": np.arange(max(0, start - 60), min(start + 30, len(RUN))), **rows}
        spark.batch(1000 * number, rows, ahead)
    spark.batch(1000 * 10**6, {})
    assert judge(RUN, np.array(spark.out["rare"])).pairs == 0
    assert spark.late == 0


@pytest.mark.parametrize("clock", ["ahead", "fast"])
@pytest.mark.parametrize("took", [1000, 60_000])
def test_real_time_does_not_vouch_for_a_wrong_clock_while_rows_wait_to_be_read(clock: str, took: int) -> None:
    """Micro-batches take much longer than what they bring. One source is ahead by less than that."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 100))
    first = 60
    wrong = np.where(RUN.source == 3, 800 if clock == "ahead" else 5 * (RUN.r - RUN.r[first]), 0)
    wrong[:first] = 0
    for number, start in enumerate(range(0, len(RUN), 30)):
        spark.batch(took * number, {"g": np.arange(start, min(start + 30, len(RUN)))}, wrong=wrong)
    right = [row for row in spark.out["g"] if wrong[row] == 0]
    assert len(right) > 2000
    keys = [(int(RUN.r[row] + RUN.c[row]), int(RUN.counter[row])) for row in right]
    assert keys == sorted(keys)


def test_after_a_silence_the_next_quiet_micro_batch_believes_what_came() -> None:
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 20))
    spark.batch(0, {"g": np.arange(30)})
    spark.batch(200, {})
    assert len(spark.out["g"]) == 30
    spark.batch(3_600_000, {"g": np.arange(30, 32)}, {"g": 3_600_000})
    spark.batch(3_600_100, {})
    spark.batch(3_600_300, {})
    assert len(spark.out["g"]) == 32
    assert spark.late == 0


def test_a_silent_group_goes_on_at_the_pace_of_real_time_where_nothing_waits() -> None:
    """Another group has rows in every micro-batch, no later than they were sent."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 20))
    spark.batch(int(RUN.r[0]), {"busy": np.arange(1), "silent": np.arange(1)})
    for start in range(1, 300):
        spark.batch(int(RUN.arrived[start]), {"busy": np.arange(start, start + 1)})
        if "silent" in spark.out:
            break
    assert RUN.arrived[start] - RUN.r[0] <= 4 + 2 * 6 + 20 + 20


@given(data=st.data())
@settings(max_examples=max(10, settings().max_examples // 4))
def test_no_division_into_micro_batches_lets_real_time_overtake_rows(data: st.DataObject) -> None:
    """Of any size, as slow as they like, with outages between them; a second group has rows in some of them."""
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, data.draw(st.sampled_from([0, 20, 100]))))
    start, real = 0, 0
    while start < 200:
        size, took = data.draw(st.integers(5, 60)), data.draw(st.sampled_from([1, 30, 1000, 60_000]))
        rows = {"busy": np.arange(start, min(start + size, 200))}
        if data.draw(st.booleans()):
            rows["rare"] = rows["busy"]
        spark.batch(real, rows)
        start, real = start + size, real + took
    spark.batch(real + 10**9, {})
    assert sorted(spark.out["busy"]) == list(range(200))
    for order in spark.out.values():
        assert judge(RUN, np.array(order)).pairs == 0


def test_real_time_counts_while_nothing_comes() -> None:
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 100))
    spark.batch(0, {"g": np.arange(30)})
    assert len(spark.out["g"]) < 30
    spark.batch(50, {})
    assert len(spark.out["g"]) < 30
    spark.batch(200, {})
    spark.batch(400, {})
    assert sorted(spark.out["g"]) == list(range(30))


def test_a_group_that_has_fallen_silent_is_emptied_though_others_go_on() -> None:
    spark = Operator(group_observer(), Timekeeper("processing", 10**6, 20))
    spark.batch(0, {"silent": np.arange(30), "busy": np.arange(30)})
    for number, start in enumerate(range(30, 600, 30)):
        spark.batch(30 * (number + 1), {"busy": np.arange(start, start + 30)})
    assert sorted(spark.out["silent"]) == list(range(30))


@pytest.mark.parametrize("timers", ["processing", "event"])
def test_a_group_that_was_silent_for_long_is_forgotten(timers: Any) -> None:
    spark = Operator(group_observer(), Timekeeper(timers, 10**6, 0, forget=10_000))
    spark.batch(0, {"g": np.arange(30)})
    for real in range(200, 3000, 200):
        spark.batch(real, {})
    assert len(spark.out["g"]) == 30
    assert spark.states
    spark.batch(20_000, {})
    assert not spark.states
