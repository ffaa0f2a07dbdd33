"""A log that contradicts itself gets no verdict: the error says where it does."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from history_logs import Row, histories, log, rows_of, table
from hypothesis import given
from hypothesis import strategies as st

from antecast.core.errors import AntecastError
from antecast.history.audit import audit
from antecast.history.oracle import judge
from antecast.history.rows import BrokenLog


def broken(events: pa.Table) -> BrokenLog:
    """The auditor's error; the oracle must refuse the log as well."""
    with pytest.raises(BrokenLog):
        judge(events)
    with pytest.raises(BrokenLog) as caught:
        audit(events)
    assert isinstance(caught.value, AntecastError)
    assert caught.value.exit_code == 2
    copy = pickle.loads(pickle.dumps(caught.value))  # as it comes back from another process
    assert (str(copy), vars(copy)) == (str(caught.value), vars(caught.value))
    return caught.value


def test_two_events_at_one_position() -> None:
    rows = [*rows_of("1: b1:1 b1:2\n2: d1:1"), rows_of("2: d1:2")[0]]
    error = broken(table(rows))
    assert str(error) == "node 2, position 0: two events at one position: delivery of 1:1 and delivery of 1:2"
    assert (error.node, error.pos) == (2, 0)


def test_more_messages_than_there_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecast.history.messages.MOST_MESSAGES", 2)
    assert audit(log("1: b1:1 b1:2\n2: d1:1")).messages == 2
    with pytest.raises(BrokenLog, match="more than 2 messages; audit the log in periods or by runs"):
        audit(log("1: b1:1 b1:2 b1:3\n2: d1:1"))


def test_a_message_broadcast_twice() -> None:
    error = broken(log("1: b1:1 b1:2 b1:1"))
    assert str(error) == "node 1, position 2: broadcasts 1:1 a second time; the first was at position 0"


def test_a_broadcast_of_anothers_message() -> None:
    error = broken(log("1: b1:1\n2: b1:2"))
    assert str(error) == "node 2, position 0: broadcasts 1:2, which is not its own message"
    assert (error.origin, error.seq) == (1, 2)


def test_a_message_delivered_at_its_origin_before_its_broadcast() -> None:
    error = broken(log("1: b1:1 d1:2 b1:2"))
    assert str(error) == "node 1, position 1: delivers its own 1:2 before it broadcasts it at position 2"


def test_a_cycle_is_told_with_positions() -> None:
    error = broken(log("1: d2:1 b1:1\n2: d1:1 b2:1\n3: d1:1 b3:1"))
    text = str(error)
    assert "happened-before has a cycle of 2 messages" in text
    assert "node 1 had 2:1 at position 0 before it broadcast 1:1 at position 1" in text
    assert "node 2 had 1:1 at position 0 before it broadcast 2:1 at position 1" in text


def test_a_long_cycle_is_cut_visibly() -> None:
    text = "\n".join(f"{node}: d{(node + 1) % 20}:1 b{node}:1" for node in range(20))
    assert "and 12 steps more" in str(broken(log(text)))


@given(histories(most=40), st.data())
def test_every_cycle_is_found(rows: list[Row], data: st.DataObject) -> None:
    """Deliveries moved to any place in a history make cycles of all kinds."""
    deliveries = [row for row in rows if row["kind"] == "deliver"]
    for row in deliveries:
        if data.draw(st.integers(0, 3)) == 0:
            row["pos"] = -1 - data.draw(st.integers(0, 5))
    ordered = sorted(rows, key=lambda row: (row["node"], row["pos"]))
    for pos, row in enumerate(ordered):
        row["pos"] = pos
    events = table(ordered)
    try:
        truth = judge(events)
    except BrokenLog:
        broken(events)
    else:
        assert audit(events).tally.early == len(truth.early)


@pytest.mark.parametrize("kind", ["broadcast", "deliver"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("node", None), ("pos", None), ("origin", None), ("seq", None), ("pos", -1), ("seq", -5)],
)
def test_fields_that_are_null_or_negative(kind: str, field: str, value: Any) -> None:
    rows = rows_of("1: b1:1 b1:2\n2: d1:1 d1:2")
    row = next(row for row in rows if row["kind"] == kind)
    row[field] = value
    assert field in str(broken(table(rows)))


def test_nulls_do_not_matter_in_rows_of_other_kinds() -> None:
    rows = rows_of("1: b1:1\n2: d1:1")
    rows.append({"node": 1, "pos": 0, "kind": "up", "origin": None, "seq": None})
    assert audit(table(rows)).outcome == "causal"


def test_a_null_inside_a_dictionary_is_a_null() -> None:
    events = log("1: b1:1\n2: d1:1")
    kind = pa.DictionaryArray.from_arrays([0, 1], ["broadcast", None])
    events = events.set_column(events.schema.get_field_index("kind"), "kind", kind)
    assert str(broken(events)) == "node 2, position 0: kind is null"


def test_a_missing_column_and_a_wrong_type_are_named() -> None:
    with pytest.raises(BrokenLog, match="no column 'seq'"):
        audit(log("1: b1:1").drop_columns(["seq"]))
    events = log("1: b1:1")
    pos = events.schema.get_field_index("pos")
    with pytest.raises(BrokenLog, match="'pos' must hold integers, not double"):
        audit(events.set_column(pos, "pos", pa.array([0.5])))
    with pytest.raises(BrokenLog, match="'pos' holds numbers above"):
        audit(events.set_column(pos, "pos", pa.array([2**63], pa.uint64())))


def test_a_global_clock_needs_times() -> None:
    with pytest.raises(BrokenLog, match="no column 't'"):
        audit(log("1: b1:1"), clock="global")


def test_the_run_is_named() -> None:
    rows = [row | {"run": "a"} for row in rows_of("1: b1:1 b1:1")]
    assert str(broken(table(rows))).startswith("run a, node 1, position 1: ")
