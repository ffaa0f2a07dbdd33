"""The step of a group, without Spark: rows packed and unpacked, states as bytes, the observer's own decisions."""

from __future__ import annotations

import datetime
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.observer import BatchObserver, Bounds, Observer, Policy, Timestamp
from antecast.observer.policy import FUTURE, NEGATIVE_C, OUT_OF_RANGE, WRONG_LENGTH
from antecast.spark.observe_group import ADDED, DUPLICATE, LATE, GroupObserver, State
from antecast.spark.observe_rows import (
    FAULT,
    INTERNAL,
    SOURCE,
    UNIQUE,
    RowFormat,
    pack,
    read_rows,
    read_stream,
    resolve,
    stamps_of,
    unpack,
    write_stream,
)

SCHEMA = pa.schema(
    [
        ("g", pa.string()),
        ("r", pa.int64()),
        ("c", pa.int32()),
        ("kn", pa.list_(pa.int32())),
        ("source", pa.string()),
        ("n", pa.int64()),
        ("extra", pa.struct([("x", pa.float64()), ("when", pa.timestamp("us", "UTC"))])),
    ]
)
ROLES = {"r": "r", "c": "c", "kn": "kn", "source": "source", "arrival": "n"}


def rows_of(draw: random.Random, size: int, epsilon: int, *, wild: float) -> list[dict[str, Any]]:
    rows, now = [], 1000
    for n in range(size):
        now += draw.choice([0, 0, 1, 2])
        row = {
            "g": draw.choice(["a", "b", None]),
            "r": now - draw.randrange(6),
            "c": draw.randrange(epsilon + 1),
            "kn": [draw.randrange(3) for _ in range(epsilon + 1)],
            "source": draw.choice(["ada", "ben", "cleo"]),
            "n": n,
            "extra": {"x": draw.random(), "when": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)},
        }
        if draw.random() < wild:
            missing = [{"r": None}, {"c": None}, {"kn": None}, {"kn": [None] * (epsilon + 1)}, {"source": None}]
            wrong = [{"kn": [1]}, {"c": -1}, {"c": epsilon + 1}, {"r": 10**9}, {"extra": None}]
            row |= draw.choice([*missing, *wrong])
        rows.append(row)
    return rows


def observer_for(epsilon: int = 2, *, percent: int = 40, ordered: bool = True) -> GroupObserver:
    policy = Policy(bounds=Bounds(epsilon=epsilon, delta=4), percent=percent)
    roles = ROLES if ordered else {role: name for role, name in ROLES.items() if role != "arrival"}
    rows = RowFormat(policy=policy, key=("g",), columns=roles, tick=10**6)
    return GroupObserver(BatchObserver(policy=policy, gap=500, together=not ordered), rows, ordered)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def through_packs(group: GroupObserver, rows: list[dict[str, Any]], cuts: list[int]) -> list[dict[str, Any]]:
    """Batches of rows, packed, stepped through with states that are bytes, flushed, unpacked."""
    states: dict[Any, bytes] = {}
    blobs: list[bytes] = []

    def step(key: Any, tables: list[pa.Table], *, flush: bool = False) -> None:
        done = group.step(State.load(states.get(key)), tables, flush=flush)
        states[key] = done.state.dump()
        blobs.extend([] if done.out is None else [write_stream(done.out)])

    edges = [0, *cuts, len(rows)]
    for start, end in pairwise(edges):
        for batch in table(rows[start:end]).to_batches():
            for packed in pack([batch], group.rows):
                for key, blob in zip(
                    packed.column("g").to_pylist(), packed.column("rows").to_pylist(), strict=True
                ):
                    step(key, [read_stream(blob)])
    for key in list(states):
        step(key, [], flush=True)
        assert State.load(states[key]).waiting == 0
    batch = pa.RecordBatch.from_arrays([pa.array(blobs, pa.binary())], ["rows"])
    return [row for out in unpack([batch], pa.schema([*SCHEMA, *ADDED])) for row in out.to_pylist()]


@given(seed=st.integers(0, 1 << 32), percent=st.integers(0, 100), wild=st.sampled_from([0.0, 0.1]))
def test_steps_give_what_the_observer_gives_a_message_at_a_time(seed: int, percent: int, wild: float) -> None:
    draw = random.Random(seed)
    group = observer_for(percent=percent)
    rows = rows_of(draw, draw.randrange(1, 60), 2, wild=wild)
    cuts = sorted(draw.randrange(len(rows) + 1) for _ in range(3))
    got = through_packs(group, rows, cuts)
    assert sorted(each["n"] for each in got) == list(range(len(rows)))
    read = read_rows(table(rows), group.rows)
    sources, faults = stamps_of(read, 3).source.tolist(), read.column(FAULT).to_pylist()
    for key in {row["g"] for row in rows}:
        observer: Observer[int] = Observer(group.observer.policy, clock="rows", gap=500)
        expected = []
        for row, source, fault in zip(rows, sources, faults, strict=True):
            if row["g"] == key and fault is None:
                expected += observer.receive(row["n"], Timestamp(row["r"], row["c"], tuple(row["kn"])), source)
        expected += observer.flush()
        delivered = sorted(
            (row for row in got if row["g"] == key and row["reason"] is None), key=lambda e: e["position"]
        )
        assert [(e["n"], e["position"], e["waited"], e["late"]) for e in delivered] == [
            tuple(each)[:4] for each in expected if each.reason is None
        ]
        refused = {row["n"]: row["reason"] for row in got if row["g"] == key and row["reason"] is not None}
        assert refused == {e.item: e.reason for e in expected if e.reason is not None} | {
            row["n"]: fault
            for row, fault in zip(rows, faults, strict=True)
            if row["g"] == key and fault is not None
        }
    for row in got:  # and nothing happened to what rows carry
        assert {name: row[name] for name in SCHEMA.names} == table([rows[row["n"]]]).to_pylist()[0]


def test_what_is_wrong_with_a_row_is_said() -> None:
    good = {"g": "a", "r": 5, "c": 1, "kn": [0, 0, 0], "source": "ada", "n": 0, "extra": None}
    rows = [
        good,
        good | {"r": None},
        good | {"c": None},
        good | {"kn": None},
        good | {"kn": [0, 0]},
        good | {"kn": [0, None, 0]},
        good | {"c": -1},
        good | {"r": 10**12},
        good | {"n": None},
        good,
    ]
    got = through_packs(observer_for(), rows, [])
    missing = ["r is missing", "c is missing", "kn is missing", "a count of kn is missing", "n is missing"]
    expected = ["None", "None", *missing, WRONG_LENGTH, NEGATIVE_C, FUTURE]
    assert sorted(str(row["reason"]) for row in got) == sorted(expected)


def test_rows_without_an_order_of_arrival_count_as_arrived_by_their_clocks() -> None:
    draw = random.Random(3)
    group = observer_for(percent=100, ordered=False)
    rows = [row | {"g": "a"} for row in rows_of(draw, 80, 2, wild=0)]
    by_clock = through_packs(group, rows, [])
    draw.shuffle(rows)
    rows = [row | {"n": n} for n, row in enumerate(rows)]
    for one, other in zip(by_clock, through_packs(group, rows, []), strict=True):
        assert [one[name] for name in ("r", "c", "kn", "source", "position")] == [
            other[name] for name in ("r", "c", "kn", "source", "position")
        ]


def test_a_state_holds_what_waits_and_no_more() -> None:
    draw = random.Random(5)
    group = observer_for()
    rows = [row | {"g": "a"} for row in rows_of(draw, 6000, 2, wild=0.01)]
    state, sizes = State.load(None), []
    for start in range(0, len(rows), 50):
        state = group.step(
            State.load(state.dump()), [read_rows(table(rows[start : start + 50]), group.rows)]
        ).state
        sizes.append(len(state.dump()))
    assert max(sizes[60:]) < 1.5 * max(sizes[:20])
    assert max(sizes) < 10_000


@pytest.mark.parametrize(
    ("stamps", "names", "used"),
    [
        ("physical", ["r", "text"], {"r"}),
        ("hybrid", ["l", "counter"], {"l", "counter"}),
        ("hybrid", ["r", "l", "counter", "source"], {"r", "l", "counter", "source"}),
        ("hybrid", ["r", "c", "kn"], {"r", "c", "kn"}),
        ("bounded", ["r", "c", "kn", "before", "text"], {"r", "c", "kn", "before"}),
    ],
)
def test_columns_are_found_by_their_names(stamps: Any, names: list[str], used: set[str]) -> None:
    policy = Policy(bounds=Bounds(epsilon=1, delta=1), stamps=stamps)
    assert resolve(names, policy, {}, clock="rows", arrival=None).keys() == used


def test_a_role_that_is_given_no_column_is_not_played() -> None:
    policy = Policy(bounds=Bounds(epsilon=1, delta=1))
    names = ["r", "c", "kn", "before", "source"]
    used = resolve(names, policy, {"before": "", "source": ""}, clock="rows", arrival=None)
    assert used == {"r": "r", "c": "c", "kn": "kn"}
    assert resolve(names[:3], policy, {"source": ""}, clock="rows", arrival=None) == used


@pytest.mark.parametrize(
    ("names", "given", "arrival", "words"),
    [
        (["r", "kn"], {}, None, "no column 'c', which bounded timestamps need; the columns are r, kn"),
        (["r", "c", "kn"], {"r": "time"}, None, "no column 'time'"),
        (["r", "c", "kn"], {"q": "r"}, None, "unknown role 'q'"),
        (["r", "c", "kn"], {"c": ""}, None, "no column 'c', which bounded timestamps need"),
        (["r", "c", "kn"], {}, "offset", "no column 'offset'"),
    ],
)
def test_columns_that_are_missing_are_told(names: Any, given: Any, arrival: Any, words: str) -> None:
    policy = Policy(bounds=Bounds(epsilon=1, delta=1))
    with pytest.raises(ConfigurationError, match=words):
        resolve(names, policy, given, clock="rows", arrival=arrival)


def test_a_hybrid_clock_without_physical_time_will_do() -> None:
    """l and a counter, as databases have them; timestamps become ticks."""
    policy = Policy(bounds=Bounds(epsilon=2, delta=4), stamps="hybrid")
    rows = RowFormat(policy=policy, key=(), columns={"l": "l", "counter": "counter"}, tick=10**6)
    times = pa.array([1_700_000_000_123_456, 1_700_000_000_124_000], pa.timestamp("us", "UTC"))
    stamps = stamps_of(read_rows(pa.table({"l": times, "counter": [3, 4]}), rows), 1)
    assert stamps.r.tolist() == [1_700_000_000_123, 1_700_000_000_124]
    assert stamps.c.tolist() == [0, 0]
    assert stamps.kn.tolist() == [[3], [4]]
    assert not np.intersect1d(stamps.before, [0]).size


def test_internal_columns_stay_inside() -> None:
    got = through_packs(observer_for(), rows_of(random.Random(1), 20, 2, wild=0.2), [7])
    assert not {name for row in got for name in row} & set(INTERNAL)


def step_all(group: GroupObserver, parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    state, out = State.load(None), []
    for part in parts:
        done = group.step(State.load(state.dump()), [read_rows(table(part), group.rows)] if part else [])
        state = done.state
        out += [] if done.out is None else done.out.to_pylist()
    done = group.step(State.load(state.dump()), [], flush=True)
    return out + ([] if done.out is None else done.out.to_pylist())


def plain(n: int, r: int, **more: Any) -> dict[str, Any]:
    source = "ada" if n % 2 else "ben"
    return {"g": "a", "r": r, "c": 0, "kn": [0, 0, 0], "source": source, "n": n, "extra": None} | more


@pytest.mark.parametrize("behind", [300, 10**12])
def test_rows_of_clocks_that_are_behind_do_not_begin_a_stream(behind: int) -> None:
    """Two of five sources; sorted by r, their rows are the first of the first micro-batch and of all others."""
    group = observer_for(percent=100, ordered=False)
    rows = [plain(n, 2 * 10**12 + n - behind * (n % 5 > 2), source=f"s{n % 5}") for n in range(400)]
    out = step_all(group, [rows[start : start + 40] for start in range(0, 400, 40)])
    assert [each["reason"] for each in out if each["reason"]] == []
    right = [each["n"] for each in out if each["n"] % 5 < 3]
    assert right == [n for n in range(400) if n % 5 < 3]


def test_columns_may_be_added_and_dropped_while_rows_wait() -> None:
    group = observer_for()
    first = group.step(State.load(None), [read_rows(table([plain(n, 100 + n) for n in range(5)]), group.rows)])
    assert first.state.waiting
    wider = table([plain(n, 100 + n) for n in range(5, 30)]).drop_columns(["extra"])
    wider = wider.append_column("colour", pa.array(["red"] * 25))
    done = group.step(State.load(first.state.dump()), [read_rows(wider, group.rows)], flush=True)
    out = ([] if first.out is None else first.out.to_pylist()) + done.out.to_pylist()
    assert [row["n"] for row in out] == list(range(30))
    assert {row.get("colour") for row in out} == {None, "red"}
    names = pa.schema(
        [("n", pa.int64()), ("colour", pa.string()), ("size", pa.float64()), ("reason", pa.string())]
    )
    blobs = pa.array([write_stream(each.out) for each in (first, done) if each.out is not None], pa.binary())
    unpacked = pa.Table.from_batches(list(unpack([pa.RecordBatch.from_arrays([blobs], ["rows"])], names)))
    assert unpacked.schema.names == names.names
    assert unpacked.column("size").null_count == 30


def test_a_column_that_has_changed_its_kind_is_told() -> None:
    group = observer_for()
    first = group.step(State.load(None), [read_rows(table([plain(n, 100 + n) for n in range(5)]), group.rows)])
    other = table([plain(5, 105)]).drop_columns(["extra"]).append_column("extra", pa.array(["text"]))
    with pytest.raises(ConfigurationError, match="columns may be added, but not change their type"):
        group.step(State.load(first.state.dump()), [read_rows(other, group.rows)])


def unpacked(blobs: list[pa.Table], schema: pa.Schema) -> pa.Table:
    packed = pa.array([write_stream(each) for each in blobs], pa.binary())
    table = pa.Table.from_batches(list(unpack([pa.RecordBatch.from_arrays([packed], ["rows"])], schema)))
    assert table.schema.types == schema.types
    return table


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (pa.array([1], pa.int32()), pa.int64(), 1),
        (pa.array([1], pa.int64()), pa.int32(), 1),
        (pa.array([1], pa.int64()), pa.float64(), 1.0),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.string()), ("a", pa.int64())]), {"b": None, "a": 1}),
        (pa.array([{"a": 1, "b": 2}]), pa.struct([("a", pa.int64())]), {"a": 1}),
        (
            pa.array([[{"a": 1}]]),
            pa.list_(pa.struct([("x", pa.int8()), ("a", pa.int64())])),
            [{"x": None, "a": 1}],
        ),
    ],
    ids=str,
)
def test_rows_that_waited_leave_with_the_types_that_columns_have_now(
    before: pa.Array, after: pa.DataType, value: Any
) -> None:
    """Alone, as when a timer lets them go, and beside rows of other groups, which came with the new type."""
    schema = pa.schema([("v", after), pa.field("new", pa.int64(), nullable=False)])
    old = pa.table({"v": before})
    assert unpacked([old], schema).to_pylist() == [{"v": value, "new": None}]
    both = unpacked([schema.empty_table(), old, schema.empty_table(), old], schema)
    assert both.to_pylist() == [{"v": value, "new": None}] * 2


@pytest.mark.parametrize("value", [2**40, "text"])
def test_rows_that_waited_and_do_not_fit_the_type_that_a_column_has_now_are_told(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="columns may be added, but not change their type"):
        unpacked([pa.table({"v": [value]})], pa.schema([("v", pa.int32())]))


def test_a_state_of_other_settings_is_refused() -> None:
    group = observer_for(2)
    state = group.step(State.load(None), [read_rows(table([plain(0, 100)]), group.rows)]).state.dump()
    group.step(State.load(state), [])
    policy = group.observer.policy
    hybrid = Policy(bounds=policy.bounds, stamps="hybrid")
    others = [
        observer_for(3),
        GroupObserver(BatchObserver(policy=hybrid), group.rows, True),
        GroupObserver(BatchObserver(policy=policy, clock="given"), group.rows, True),
        GroupObserver(group.observer, RowFormat(policy=policy, key=("h",), columns=ROLES, tick=10**6), True),
        GroupObserver(group.observer, RowFormat(policy=policy, key=("g",), columns=ROLES, tick=10**3), True),
    ]
    for other in others:
        with pytest.raises(ConfigurationError, match=r"was made with stamps bounded of 3 .* epsilon 2, .* key g;"):
            other.step(State.load(state), [])


@pytest.mark.parametrize("gained", [("source",), ("before",), ("before", "source")])
def test_a_state_of_rows_without_a_column_that_would_be_a_part_of_their_timestamps_says_how_to_go_on(
    gained: tuple[str, ...],
) -> None:
    policy = Policy(bounds=Bounds(epsilon=2, delta=5))
    observer = BatchObserver(policy=policy)

    def group_of(names: list[str], given: dict[str, str]) -> GroupObserver:
        roles = resolve(names, policy, given, clock="rows", arrival=None)
        return GroupObserver(observer, RowFormat(policy=policy, key=("g",), columns=roles, tick=10**6), False)

    old = table([plain(0, 100)]).select(["g", "r", "c", "kn"])
    new = table([plain(1, 101)]).drop_columns(["source", "n"])
    for name in gained:
        new = new.append_column(name, pa.array([7]))
    first = group_of(old.column_names, {})
    state = first.step(State.load(None), [read_rows(old, first.rows)]).state.dump()
    second = group_of(new.column_names, {})
    way = r", ".join(f'"{role}": ""' for role in sorted(gained, reverse=True))
    with pytest.raises(ConfigurationError, match=rf"as a part of the timestamps: columns={{{way}}} \(--map "):
        second.step(State.load(state), [read_rows(new, second.rows)])
    without = group_of(new.column_names, dict.fromkeys(gained, ""))
    out = without.step(State.load(state), [read_rows(new, without.rows)], flush=True).out
    assert out is not None
    assert [out.column(name).to_pylist() for name in ("r", *gained)] == [[100, 101], *[[None, 7]] * len(gained)]


def test_a_state_whose_rows_other_bounds_of_counts_would_refuse_is_refused() -> None:
    """They were taken already: their stamps would count as corrupted, and be put right."""

    def of(nodes: int | None) -> GroupObserver:
        policy = Policy(bounds=Bounds(epsilon=2, delta=4, nodes=nodes))
        rows = RowFormat(policy=policy, key=("g",), columns=ROLES, tick=10**6)
        return GroupObserver(BatchObserver(policy=policy, gap=500), rows, ordered=True)

    state = of(10).step(State.load(None), [read_rows(table([plain(0, 100)]), of(10).rows)]).state
    of(10).step(State.load(state.dump()), [])
    for other, words in ((1, "at most 1"), (None, "any size")):
        with pytest.raises(ConfigurationError, match=rf"made with counts of at most 10 .* has {words}; use those"):
            of(other).step(State.load(state.dump()), [])
    state.header.counts = None  # of a version that did not note it
    assert of(10).step(State.load(state.dump()), []).state.header.counts == 10


ENDS = (-(1 << 63), -(1 << 62) - 1, (1 << 62) + 1, (1 << 63) - 1)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_rows_at_the_ends_of_all_numbers_are_refused_and_hold_up_nobody(ordered: bool, first: bool) -> None:
    """What is computed with such times would leave 64 bits, and come back at the other end."""
    group = observer_for(percent=100, ordered=ordered)
    rows = [plain(n, 100 + n) for n in range(60)]
    wild = [plain(1000 + n, r, c=n % 2) for n, r in enumerate(ENDS)]
    parts = [wild, rows] if first else [rows[:30] + wild, rows[30:]]
    out = step_all(group, parts)
    assert [row["n"] for row in out if not row["reason"]] == list(range(60))
    assert not any(row["late"] for row in out)
    assert {row["reason"] for row in out if row["n"] >= 1000} == {OUT_OF_RANGE}


def test_timestamps_that_stand_for_the_end_of_all_time_do_not_wrap_around() -> None:
    policy = Policy(bounds=Bounds(epsilon=2, delta=4), stamps="physical")
    times = ["2026-01-01T00:00:00.000001", "9999-12-31", "0001-01-01"]
    column = pa.array(np.array(times, "datetime64[us]"))
    for tick, first in ((10**6, 1767225600000), (10**3, 1767225600000001), (1500, 1767225600000001000 // 1500)):
        rows = RowFormat(policy=policy, key=("g",), columns={"r": "r"}, tick=tick)
        read = read_rows(pa.table({"r": column}), rows)
        assert read.column("__r")[0].as_py() == first
        assert read.column("__r")[1].as_py() > first > 0 > read.column("__r")[2].as_py()
    read = read_rows(pa.table({"r": column}), RowFormat(policy=policy, key=("g",), columns={"r": "r"}, tick=1))
    assert read.column("__fault").to_pylist() == [None, *["r is out of range"] * 2]


def test_late_rows_can_be_kept_apart() -> None:
    group = replace(observer_for(percent=100), quarantine=True)
    rows = [plain(n, 100 + n) for n in range(40)] + [plain(40, 105)] + [plain(41 + n, 140 + n) for n in range(20)]
    out = step_all(group, [rows[:35], rows[35:50], rows[50:]])
    assert [(row["n"], row["reason"], row["position"]) for row in out if row["reason"]] == [(40, LATE, None)]
    assert [row["position"] for row in out if not row["reason"]] == list(range(60))


def test_duplicates_are_removed_by_their_key_within_a_step_and_across_steps() -> None:
    group = observer_for()
    group = replace(group, rows=msgspec.structs.replace(group.rows, unique=("source", "n")))
    rows = [plain(n, 100 + n) for n in range(60)]
    parts = [rows[:20] + rows[5:10], rows[15:40], rows[38:60]]
    out = step_all(group, parts)
    assert [row["n"] for row in out if not row["reason"]] == list(range(60))
    assert sorted(row["n"] for row in out if row["reason"]) == [*range(5, 10), *range(15, 20), 38, 39]
    assert {row["reason"] for row in out if row["reason"]} == {DUPLICATE}
    # What was refused is not there: it may come again, mended.
    wrong = {**plain(60, 160), "c": -1}
    out = step_all(group, [rows, [wrong], [plain(60, 160)], [{**plain(61, 161), "c": -1}, plain(61, 161)]])
    assert [row["n"] for row in out if not row["reason"]] == list(range(62))
    assert [row["reason"] for row in out if row["reason"]] == [NEGATIVE_C] * 2
    out = step_all(group, [rows, [{**rows[59], "c": -1}], [rows[59]]])
    assert sorted(row["reason"] for row in out if row["reason"]) == sorted([NEGATIVE_C, DUPLICATE])
    state = State.load(None)
    for n in range(0, 3000, 50):
        more = [plain(n + each, 100 + n + each) for each in range(50)] + [plain(9_000 + n, 10**9 + n)]
        state = group.step(State.load(state.dump()), [read_rows(table(more), group.rows)]).state
    assert len(state.seen) < 100


def test_duplicates_are_known_by_times_of_any_year_and_of_any_session() -> None:
    group = observer_for()
    group = replace(group, rows=msgspec.structs.replace(group.rows, unique=("at",)))
    years = [0, 1 << 60, -(1 << 60), 1_767_225_600_000_000]
    state, reasons = State.load(None), []
    for first, zone in enumerate(["UTC", "Europe/Paris", "UTC"]):
        rows = table([plain(n, 100 + n) for n in range(first, 4)])
        rows = rows.append_column("at", pa.array(years[first:], pa.timestamp("us", zone)))
        done = group.step(State.load(state.dump()), [read_stream(write_stream(read_rows(rows, group.rows)))])
        state = done.state
        reasons += done.out["reason"].to_pylist() if done.out is not None else []
    assert [reason for reason in reasons if reason] == [DUPLICATE] * 5


def test_sources_and_keys_may_have_bytes_that_are_no_utf_8() -> None:
    """As a text, Spark takes any bytes: one such row ended the query for good."""
    texts = [b"\xffA", b"\xfeA", b"A", b"\xffA"]
    columns = {"r": [1, 1, 1, 1], "source": pa.array(texts).cast(pa.string(), safe=False)}
    policy = Policy(bounds=Bounds(epsilon=1, delta=1), stamps="physical")
    rows = RowFormat(policy=policy, key=(), columns={name: name for name in columns}, tick=1, unique=("source",))
    read = read_rows(pa.table(columns), rows)
    for name in (SOURCE, UNIQUE):
        first, *others, again = read[name].to_pylist()
        assert first == again and len({first, *others}) == 3


def test_times_within_columns_are_in_utc_when_rows_are_read_again() -> None:
    here, there = (pa.timestamp("us", zone) for zone in ("Europe/Paris", "UTC"))

    def table_of(kind: pa.DataType) -> pa.Table:
        kinds = [kind, pa.list_(kind), pa.large_list(kind), pa.map_(kind, kind), pa.struct([("a", kind)])]
        values = [7, [7, None], [7], [(7, None)], {"a": 7}]
        columns = [pa.array([value, None], each) for value, each in zip(values, kinds, strict=True)]
        return pa.table([*columns, pa.array([1, 2])], names=list("abcdef"))

    assert read_stream(write_stream(table_of(here))).equals(table_of(there))
