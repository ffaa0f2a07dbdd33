"""Histories in tables: what Python programs have."""

import pyarrow as pa
import pytest
from published import ANOMALIES, FORMATS, build

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.registry import importer
from antecast.importers.source import Source
from antecast.kv import HistoryBuilder, check
from antecast.kv.tables import history_of

ROWS = {
    "session": ["a", "a", "b", "b", "c", "c"],
    "txn": [1, 2, 1, 2, 1, 2],
    "kind": ["w", "write", "r", "w", "read", "r"],
    "key": ["x", "x", "x", "y", "y", "x"],
    "value": [1, 2, 2, 1, 1, 1],
}


def test_a_table_is_a_history():
    verdict = check(history_of(pa.table(ROWS)))
    assert list(verdict.counts) == ["conflict-CO"]
    assert verdict.violations["line"].to_pylist() == [6]


def test_columns_have_other_names_and_rows_any_order():
    table = pa.table({**ROWS, "client": ROWS["session"], "pos": [1, 2, 3, 4, 5, 6]}).drop_columns(["session"])
    turned = table.take(pa.array([5, 3, 4, 1, 0, 2]))
    verdict = check(history_of(turned, {"session": "client"}))
    assert list(verdict.counts) == ["conflict-CO"] and verdict.violations["line"].to_pylist() == [1]


def test_a_dictionary_may_have_a_value_twice():
    session = pa.DictionaryArray.from_arrays(pa.array([0, 3, 1, 1, 2, 2], pa.int8()), ["a", "b", "c", "a"])
    table = pa.table({**ROWS, "session": session})
    assert list(check(history_of(table)).counts) == ["conflict-CO"]


def test_a_read_without_a_value_is_unknown():
    table = pa.table({**ROWS, "value": [1, 2, 2, 1, 1, None]})
    assert check(history_of(table)).outcome == "inconclusive"


def test_a_transaction_that_goes_on_after_the_next_has_begun_is_refused():
    table = pa.table({**ROWS, "session": ["a"] * 6, "txn": [1, 1, 2, 2, 1, 3]})
    with pytest.raises(InputError, match="table:5: transaction 1 goes on after another of session a has begun"):
        history_of(table)
    history_of(table.append_column("pos", pa.array([1, 2, 1, 2, 3, 1])))  # positions in each transaction


def test_the_initial_value_and_statuses():
    rows = {
        "session": ["a", "b", "b"],
        "txn": [1, 1, 2],
        "kind": ["w", "r", "r"],
        "key": ["x"] * 3,
        "value": [1, 0, 1],
    }
    assert check(history_of(pa.table(rows), initial=0)).outcome == "kept"
    aborted = pa.table({**rows, "status": ["aborted", "committed", "committed"]})
    assert list(check(history_of(aborted, initial=0)).counts) == ["aborted-read"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": ["w", "w", "r", "w", "r", "cas"]}, "table:6: kind is 'cas'"),
        ({"key": ["x", None, "x", "y", "y", "x"]}, "table:2: key is null"),
        ({"value": [1, None, 2, 1, 1, 1]}, "table:2: a write has no value"),
        ({"status": ["committed", "lost", *["committed"] * 4]}, "table:2: status is 'lost'"),
        ({"status": ["committed", None, *["committed"] * 4]}, "table:2: status is null"),
        ({"pos": [1, 2, None, 4, 5, 6]}, "table:3: pos is null"),
        ({"pos": list("123456")}, "column 'pos' must hold whole numbers or times, not string"),
        ({"initial": ["no"] * 6}, "column 'initial' must hold true or false, not string"),
        (
            {"txn": [1] * 6, "session": ["a"] * 6, "status": ["committed", *["aborted"] * 5]},
            "table:2: a tr.* on row 1",
        ),
    ],
)
def test_a_wrong_row_is_named(change, problem):
    with pytest.raises(InputError, match=problem):
        history_of(pa.table({**ROWS, **change}))


def test_a_missing_column_is_named():
    with pytest.raises(InputError, match="no column 'key'; there are"):
        history_of(pa.table(ROWS).drop_columns(["key"]))
    with pytest.raises(ConfigurationError, match="no such column 'node'"):
        history_of(pa.table(ROWS), {"node": "x"})


@pytest.mark.parametrize("name", ANOMALIES)
def test_operations_of_a_history_are_a_table_that_says_the_same(name, tmp_path):
    history = importer("elle").read(Source(tuple(FORMATS["elle"](ANOMALIES[name], tmp_path))))
    again = history_of(history.operations(), initial="nothing")
    assert check(again).counts == check(history).counts == check(build(ANOMALIES[name])).counts


def test_runs_share_neither_sessions_nor_keys():
    """What one run wrote, another has not read; and each begins with nothing written."""
    twice = pa.table({name: [*values[:5], *values[:5]] for name, values in ROWS.items()})
    runs = twice.append_column("run", pa.array([7] * 5 + [8] * 5))
    verdict = check(history_of(runs))
    assert (verdict.outcome, verdict.sessions) == ("kept", 6)
    rows = {"session": ["a", "b"], "txn": [1, 1], "kind": ["w", "r"], "key": ["x", "x"], "value": [1, 1]}
    across = check(history_of(pa.table({**rows, "number": [1, 2]}), {"run": "number"}))
    assert list(across.counts) == ["thin-air-read"]
    assert across.violations["session"].to_pylist() == ["2/b"]
    with pytest.raises(InputError, match="table:2: run is null"):
        history_of(pa.table({**rows, "run": [1, None]}))


def test_names_that_have_one_text_stay_apart_in_a_table_of_the_history():
    """Such as a keyword and its name, or 1 and "1": what was written under the one is not read under the other."""
    builder = HistoryBuilder()
    for key, value in ((1, 1), ("1", 1), ("1 (str)", 1), (True, "1")):
        builder.begin(len(builder.notes))
        builder.write(key, value)
    builder.begin("reader")
    builder.read("True", "1")
    table = builder.build().operations()
    keys = table["key"].to_pylist()
    assert len(set(keys)) == 5 and keys[0] == "1"
    assert len(set(table["value"].to_pylist())) == 2
    assert list(check(history_of(table)).counts) == list(check(builder.build()).counts) == ["thin-air-read"]


def test_numbers_with_a_point_are_equal_as_numbers_and_nan_is_refused():
    rows = {"session": ["a", "b"], "txn": [1, 1], "kind": ["w", "r"], "key": ["x", "x"]}
    for zeros in ([0.0, -0.0], [-0.0, 0.0]):
        assert check(history_of(pa.table({**rows, "value": zeros}))).outcome == "kept"
    with pytest.raises(InputError, match="table:2: value is NaN"):
        history_of(pa.table({**rows, "value": [1.0, float("nan")]}))
