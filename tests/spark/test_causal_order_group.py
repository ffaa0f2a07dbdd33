"""Order by explicit dependencies, one group, without Spark: what a step promises, cut into any micro-batches."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core.errors import ConfigurationError
from antecast.spark.causal_order_group import (
    CROWD,
    DUPLICATE,
    HOLE,
    ITSELF,
    LATE,
    NEVER,
    NO_ID,
    NeedsGroup,
    State,
)

SCHEMA = pa.schema([("id", pa.int64()), ("needs", pa.list_(pa.int64())), ("at", pa.int64()), ("when", pa.int64())])


def group(**settings):
    plain = {"key": ("k",), "id": "id", "needs": "needs", "arrival": "at", "wait": None, "most": 1000}
    return NeedsGroup(**{**plain, "remember": 1000, "give_up": "release", "late": "deliver", **settings})


def table(rows):
    columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(SCHEMA)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def play(how, steps, *, flush=True):
    """Steps of (real time, rows); the state goes through bytes each time. Every row that left, in order."""
    state, left = State.load(None), []
    for number, (real, rows) in enumerate(steps):
        done = how.step(State.load(state.dump()) if number else state, [table(rows)] if rows else [], real=real)
        state = done.state
        left += done.out.to_pylist() if done.out is not None else []
    if flush:
        done = how.step(State.load(state.dump()), [], flush=True)
        assert done.state.waiting == 0
        left += done.out.to_pylist() if done.out is not None else []
        state = done.state
    return left, state


def row(name, *needs, at=None):
    return (name, list(needs), name if at is None else at, 0)


@st.composite
def histories(draw):
    """Rows with dependencies on earlier ones, shuffled, some repeated, some lost, cut into micro-batches."""
    size = draw(st.integers(1, 14))
    needs = [draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set() for n in range(size)]
    kept = draw(st.permutations(range(size)))[: draw(st.integers(1, size))]
    again = draw(st.lists(st.sampled_from(kept), max_size=4))
    names = draw(st.permutations([*kept, *again]))
    rows = [(name, sorted(needs[name]), place, 0) for place, name in enumerate(names)]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    return needs, rows, [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


@given(histories())
def test_a_row_goes_after_all_that_it_needs_and_what_never_came_is_named(history):
    needs, rows, batches = history
    left, _ = play(group(), [(None, batch) for batch in batches])
    here = {each[0] for each in rows}
    went = [each for each in left if each["reason"] is None]
    assert sorted(each["id"] for each in went) == sorted(here)
    assert [each["position"] for each in went] == list(range(len(went)))
    place = {each["id"]: each["position"] for each in went}
    for each in went:
        assert all(place[need] < place[each["id"]] for need in needs[each["id"]] & here)
        assert set(each["missing"] or ()) == needs[each["id"]] - here
        assert each["late"] is False
    assert [each["reason"] for each in left if each["reason"] is not None] == [DUPLICATE] * (len(rows) - len(here))


@given(histories())
def test_the_order_does_not_depend_on_how_the_stream_is_cut(history):
    _, rows, batches = history
    names = ["id", "position", "missing", "reason"]
    whole, _ = play(group(), [(None, rows)])
    cut, _ = play(group(), [(None, batch) for batch in batches])

    def plain(left):
        return sorted([[each[n] for n in names] for each in left if each["reason"] is None], key=lambda r: r[1])

    assert plain(whole) == plain(cut)


@given(histories())
def test_in_quarantine_nothing_goes_without_what_it_needs(history):
    needs, rows, batches = history
    left, _ = play(group(give_up="quarantine"), [(None, batch) for batch in batches])
    went = {each["id"] for each in left if each["reason"] is None}
    here = {each[0] for each in rows}
    whole = set()
    for name in sorted(here):  # needs point to smaller numbers
        if needs[name] <= whole:
            whole.add(name)
    assert went == whole
    assert {each["id"] for each in left if each["reason"] == NEVER} == here - whole


def test_a_row_is_released_when_its_wait_is_over_and_what_comes_then_is_late():
    left, state = play(
        group(wait=100),
        [(0, [row(2, 1)]), (20, []), (40, []), (60, [row(5)]), (80, []), (100, []), (120, [row(1), row(3, 2)])],
        flush=False,
    )
    found = [(each["id"], each["waited"], each["late"], each["missing"]) for each in left]
    assert found == [(5, 0, False, None), (2, 100, False, [1]), (1, 0, True, None), (3, 0, False, None)]
    assert state.waiting == 0


def test_time_in_which_the_query_did_not_run_hardly_counts():
    """What a row waits for may have come during an outage, and is yet to be read."""
    steps = [(0, [row(2, 1)]), (1_000_000, []), (1_000_010, [row(1)])]
    left, _ = play(group(wait=100), steps, flush=False)
    assert [(each["id"], each["missing"]) for each in left] == [(1, None), (2, None)]


def test_rows_that_are_here_do_not_pass_each_other_when_one_is_given_up():
    """3 came first and needs 2, which waits for 1: when 3 is given up, 2 goes before it."""
    steps = [(0, [row(3, 2)]), (20, []), (40, []), (60, [row(2, 1)]), (80, []), (100, [])]
    left, _ = play(group(wait=100), steps, flush=False)
    assert [(each["id"], each["missing"]) for each in left] == [(2, [1]), (3, None)]


def test_a_circle_is_broken_where_it_was_entered():
    left, _ = play(group(), [(None, [row(1, 2), row(2, 1)])])
    assert [(each["id"], each["missing"], each["late"]) for each in left] == [(2, [1], False), (1, None, True)]


def test_the_rows_that_wait_are_bounded():
    rows = [row(n, 1000) for n in range(10)]
    left, state = play(group(most=4), [(None, rows)], flush=False)
    assert [each["id"] for each in left] == [0, 1, 2, 3, 4, 5]
    assert state.waiting == 4
    left, state = play(group(most=4, give_up="quarantine"), [(None, rows)], flush=False)
    assert [each["reason"] for each in left] == [CROWD] * 6


def test_no_more_rows_are_given_up_than_the_bound_asks_for():
    """The first that is given up takes others along; then there is room for the rest."""
    rows = [row(1, 1000), row(2, 2000), row(3, 1), row(4, 1)]
    left, state = play(group(most=2), [(None, rows)], flush=False)
    assert [each["id"] for each in left] == [1, 3, 4]
    assert state.waiting == 1


def test_the_state_is_bounded_however_long_the_stream():
    how = group(remember=50, most=50)
    sizes = []
    state = State.load(None)
    for batch in range(30):
        rows = [row(n, n - 1, 10**9 + n) for n in range(batch * 40, batch * 40 + 40)]
        state = State.load(how.step(state, [table(rows)]).state.dump())
        sizes.append(len(state.dump()))
    assert max(sizes[10:]) < sizes[9] * 1.05


def test_what_was_quarantined_may_come_again():
    steps = [(0, [row(2, 1)]), *((20 * n, []) for n in range(1, 8)), (200, [row(1)]), (210, [row(2, 1)])]
    left, _ = play(group(wait=100, give_up="quarantine"), steps, flush=False)
    assert [(each["id"], each["reason"]) for each in left] == [(2, NEVER), (1, None), (2, None)]


def test_rows_that_cannot_be_ordered_are_refused_with_a_reason():
    rows = [(None, [], 0, 0), (1, [None], 1, 0), (2, [2], 2, 0), (3, None, 3, 0), (3, [], 4, 0)]
    left, _ = play(group(), [(None, rows)])
    assert [(each["id"], each["reason"]) for each in left] == [
        (3, None),
        (None, NO_ID),
        (1, HOLE),
        (2, ITSELF),
        (3, DUPLICATE),
    ]


def test_late_rows_can_be_refused():
    left, _ = play(group(most=1, late="refuse"), [(None, [row(2, 1), row(3, 9)]), (None, [row(1)])], flush=False)
    assert [(each["id"], each["reason"]) for each in left] == [(2, None), (1, LATE)]


def test_with_event_time_the_watermark_is_the_clock():
    how = group(wait=100, event="when")
    when = pa.array([1_000_000], pa.timestamp("us", "UTC"))  # one second
    rows = table([row(2, 1)]).set_column(3, "when", when)
    waits = how.step(State.load(None), [rows], real=0).state
    assert how.due(waits) == 1100
    assert how.step(waits, [], real=1099).out is None
    assert how.step(waits, [], real=1100).out.to_pylist()[0]["missing"] == [1]


def test_a_row_without_a_time_waits_from_the_first_watermark_on():
    """It began to wait in 1970, and was given up as soon as there was a watermark."""
    how = group(wait=100, event="when")
    rows = table([row(2, 1)]).set_column(3, "when", pa.array([None], pa.timestamp("us", "UTC")))
    waits = how.step(State.load(None), [rows], real=0).state
    waits = how.step(State.load(waits.dump()), [], real=1_000_000).state
    assert how.due(waits) == 100
    assert how.step(waits, [], real=1_000_099).out is None
    assert how.step(waits, [], real=1_000_100).out.to_pylist()[0]["missing"] == [1]


def test_a_state_of_other_settings_is_refused():
    state = group().step(State.load(None), [table([row(1)])]).state
    with pytest.raises(
        ConfigurationError, match="made with id id, needs needs, key k; this query has id id, needs deps"
    ):
        group(needs="deps").step(state, [])


def test_ids_of_another_kind_than_those_of_the_checkpoint_are_refused():
    """They would be equal to none that has gone: each row would wait, and each duplicate pass."""
    state = group().step(State.load(None), [table([row(1)])]).state
    columns = {"id": ["1"], "needs": pa.array([["2"]], pa.list_(pa.string())), "at": [1], "when": [0]}
    said = "the checkpoint has ids that are whole numbers, and 'id' has texts now; cast the column, and 'needs'"
    with pytest.raises(ConfigurationError, match=said):
        group().step(state, [pa.table(columns)])
    wider = table([row(2, 1)]).set_column(0, "id", pa.array([2], pa.int32()))
    assert group().step(State.load(state.dump()), [wider]).out["position"].to_pylist() == [1]


def test_a_row_that_needs_many_that_wait_is_released_in_a_time_that_grows_with_them():
    """It grew with their square: ten minutes for as many rows as may wait by default."""
    from time import process_time

    size = 30_000
    rows = [row(0, *range(1, size)), *(row(n, 10**9) for n in range(1, size))]
    began = process_time()
    left, _ = play(group(most=10**6), [(None, rows)])
    assert process_time() - began < 15
    assert [each["id"] for each in left] == [*range(1, size), 0]
    assert [each["missing"] for each in left[-2:]] == [[10**9], None]


def operator(how, mode):
    """The operator in Spark's own harness for such operators, which needs no session."""
    from pyspark.sql.streaming.tws_tester import TwsTester

    from antecast.spark.causal_order_needs import _Processor

    when = {"eventTimeExtractor": lambda row: 1 << 60} if mode == "EventTime" else {}
    return TwsTester(_Processor(how, timed=mode != "None"), timeMode=mode, **when)


def packed(now, *rows):
    import pandas as pd

    from antecast.spark.observe_rows import write_stream

    return pd.DataFrame({"rows": [write_stream(table(list(rows)))], "antecast_now": [now]})


def left_in(frames):
    from antecast.spark.observe_rows import read_stream

    rows = [] if frames is None or not len(frames) else [read_stream(blob).to_pylist() for blob in frames["rows"]]
    return [(row["id"], row["missing"]) for each in rows for row in each]


def test_without_timers_a_group_is_looked_at_when_its_rows_come():
    tester = operator(group(wait=100), "None")
    assert left_in(tester.testInPandas("k", packed(0, row(2, 1)))) == []
    assert left_in(tester.testInPandas("k", packed(50, row(5)))) == [(5, None)]
    for now in (75, 100, 125):
        tester.testInPandas("k", packed(now, row(now)))
    assert (
        tester.peekValueState("group", "k")[0] == 0
    )  # a step counts 25 ms at most, and the fifth has released it


def test_with_processing_time_a_silent_group_gives_up_in_time():
    tester = operator(group(wait=100), "ProcessingTime")
    tester.setProcessingTime(1000)
    assert left_in(tester.testInPandas("k", packed(0, row(2, 1)))) == []
    found = [(now, left_in(tester.setProcessingTime(now))) for now in range(1005, 1150, 5)]
    given_up = [(now, rows) for now, rows in found if rows]
    assert [rows for _, rows in given_up] == [[(2, [1])]]
    assert 1100 <= given_up[0][0] <= 1120
    assert left_in(tester.setProcessingTime(9000)) == []


def test_with_event_time_a_silent_group_gives_up_with_the_watermark():
    how = group(wait=100, event="when")
    tester = operator(how, "EventTime")
    import pandas as pd

    from antecast.spark.observe_rows import write_stream

    rows = table([row(2, 1)]).set_column(3, "when", pa.array([1_000_000], pa.timestamp("us", "UTC")))
    assert (
        left_in(tester.testInPandas("k", pd.DataFrame({"rows": [write_stream(rows)], "antecast_now": [0]}))) == []
    )
    assert left_in(tester.setWatermark(1099)) == []
    assert left_in(tester.setWatermark(1101)) == [(2, [1])]


def test_of_rows_whose_arrival_is_not_a_number_the_ids_decide_whatever_their_order_in_the_batch():
    """Before: they compared as neither earlier nor later, and spoiled the order of the others too."""
    nan = float("nan")
    rows = [(0, 3.0), (1, nan), (2, 1.0), (3, None), (4, nan), (5, 2.0)]
    found = set()
    for turn in range(len(rows)):
        turned = rows[turn:] + rows[:turn]
        columns = {"id": [name for name, _ in turned], "at": pa.array([at for _, at in turned], pa.float64())}
        columns["needs"] = pa.array([[] for _ in turned], pa.list_(pa.int64()))
        out = group().step(State.load(None), [pa.table(columns)]).out
        found.add(tuple(out["id"].to_pylist()))
    assert len(found) == 1 and next(iter(found))[:3] == (2, 5, 0)


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.duration("us"), pa.date32()])
def test_rows_may_have_arrived_in_any_year(kind):
    most = 30 if kind == pa.date32() else 62
    values = [1 << most, 0, None, -(1 << most), 86_400]
    columns = {
        "id": list(range(5)),
        "needs": pa.array([[]] * 5, pa.list_(pa.int64())),
        "at": pa.array(values, kind),
    }
    assert group().step(State.load(None), [pa.table(columns)]).out["id"].to_pylist() == [3, 1, 4, 0, 2]


def test_what_leaves_does_not_depend_on_the_order_in_which_a_shuffle_brings_rows():
    """Of two rows with one id the first counts: another one in a second try, and rows would be lost or repeated
    where a sink has kept what left in the first."""
    rows = [[row(1, 9, at=0)], [row(1, at=0)], [row(2, 1, at=0)]]
    found = set()
    for turn in ((0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        import pandas as pd

        tester = operator(group(), "None")
        frame = pd.concat([packed(0, *rows[each]) for each in turn])
        left = left_in(tester.testInPandas("k", frame))
        found.add((str(left), tester.peekValueState("group", "k")))
    assert len(found) == 1


def test_rows_leave_in_pieces_of_a_sensible_size(monkeypatch):
    """All in one value, they could be more than a value may have: 2 GiB."""
    from antecast.spark import observe_rows

    monkeypatch.setattr(observe_rows, "PIECE", 1000)
    tester = operator(group(), "None")
    frames = tester.testInPandas("k", packed(0, *(row(n) for n in range(500))))
    assert [name for name, _ in left_in(frames)] == list(range(500))
    assert len(frames) > 10
    assert max(map(len, frames["rows"])) < 3000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_ids_may_have_bytes_that_are_no_utf_8(kind):
    """As a text, Spark takes any bytes: one such id in a million ended the query for good."""
    columns = {
        "id": pa.array([b"\xffA", b"\xfeA", b"A"]).cast(kind, safe=False),
        "needs": pa.array([[b"\xfeA", b"\xfd"], [b"A"], []], pa.list_(pa.binary())).cast(
            pa.list_(kind), safe=False
        ),
        "at": [1, 2, 3],
    }
    out = group().step(State.load(None), [pa.table(columns)], flush=True).out
    assert out["id"].cast(pa.binary()).to_pylist() == [b"A", b"\xfeA", b"\xffA"]
    assert out["missing"].cast(pa.list_(pa.binary())).to_pylist() == [None, None, [b"\xfd"]]
