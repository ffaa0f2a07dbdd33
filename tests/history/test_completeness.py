"""Rows that are missing: what shows it leaves the verdict open, and what was assumed is said."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from antecast.core.errors import ConfigurationError
from antecast.history.log_audit import audit_table

Row = dict[str, Any]


def rows_of(text: str, base: int = 0, run: str | None = None) -> list[Row]:
    """Rows from a line per node, such as `3: b3.1 d1.4 -`; `-` is a row that is missing."""
    rows: list[Row] = []
    for line in text.strip().splitlines():
        node, *events = line.split()
        for pos, event in enumerate(events):
            if event != "-":
                origin, seq = event[1:].split(".")
                kind = {"b": "broadcast", "d": "deliver"}[event[0]]
                row = {"node": node[:-1], "pos": pos + base, "kind": kind, "origin": origin, "seq": int(seq)}
                rows.append(row if run is None else {"run": run} | row)
    return rows


WHOLE = "a: ba.1 ba.2 db.1\nb: da.1 da.2 bb.1\nc: da.1 db.1 da.2"
TRIMMED = "a: ba.1 ba.2 db.1\nb: da.1 - bb.1\nc: da.1 db.1 da.2"
"""Without the delivery on which b.1 depends the log looks causal."""


@pytest.mark.parametrize("base", [0, 1])
def test_a_trimmed_history_that_hides_a_violation_is_not_causal(base: int) -> None:
    assert audit_table(pa.Table.from_pylist(rows_of(WHOLE, base))).outcome == "violated"
    verdict = audit_table(pa.Table.from_pylist(rows_of(TRIMMED, base)))
    assert verdict.outcome == "inconclusive"
    assert f"1 position is missing at 1 node: node b has no {1 + base}" in str(verdict)
    assert "assumed: the log has every broadcast and delivery of its nodes" in str(verdict)
    assert audit_table(pa.Table.from_pylist(rows_of(TRIMMED, base)), dense=()).outcome == "causal"


def test_a_history_that_lost_its_beginning_is_not_causal() -> None:
    verdict = audit_table(pa.Table.from_pylist(rows_of(TRIMMED.replace("b: da.1 -", "b: - -"))))
    assert verdict.outcome == "inconclusive" and "node b has no 0 to 1" in str(verdict)


def test_histories_that_all_lost_their_beginning_are_not_causal() -> None:
    """Rotation cuts every node: no number is missing between others."""
    rows = [row | {"pos": row["pos"] + 1000} for row in rows_of(WHOLE)]
    verdict = audit_table(pa.Table.from_pylist(rows[:6] + rows[8:]))
    assert verdict.outcome == "inconclusive" and "at 3 nodes: node a has no 1 to 999" in str(verdict)


def test_a_short_log_with_a_gap_is_not_causal() -> None:
    verdict = audit_table(pa.Table.from_pylist(rows_of("a: ba.1\nb: da.1 - bb.1\nc: db.1")))
    assert verdict.outcome == "inconclusive" and "node b has no 1" in str(verdict)


def test_positions_that_all_nodes_share_are_not_dense() -> None:
    rows = rows_of("a: ba.1 ba.2\nb: da.1 bb.1\nc: da.1 db.1 da.2")
    for order in (rows, rows[::2] + rows[1::2]):
        shared = [row | {"pos": 100 + number} for number, row in enumerate(order)]
        table = pa.Table.from_pylist(sorted(shared, key=lambda row: row["pos"]))
        assert audit_table(table, dense=["seq"]).outcome == audit_table(table).outcome


def test_numbers_that_a_source_skips_are_noticed() -> None:
    text = "a: ba.1 ba.2 ba.4 ba.5\nb: da.1 da.2 da.4 da.5"
    verdict = audit_table(pa.Table.from_pylist(rows_of(text)))
    assert verdict.outcome == "inconclusive" and "1 broadcast is missing from 1 source: source a has no 3" in str(
        verdict
    )
    assert audit_table(pa.Table.from_pylist(rows_of(text)), dense=["pos"]).outcome == "causal"


def test_numbers_that_are_not_dense_mean_nothing_unless_it_is_said() -> None:
    rows = [row | {"pos": 1000 * row["pos"] + 7, "seq": 50 * row["seq"]} for row in rows_of(TRIMMED)]
    assert audit_table(pa.Table.from_pylist(rows)).outcome == "causal"
    assert audit_table(pa.Table.from_pylist(rows), dense=["pos"]).outcome == "inconclusive"
    with pytest.raises(ConfigurationError, match="expected pos, seq or none, got 'node'"):
        audit_table(pa.Table.from_pylist(rows), dense=["node"])


def test_nodes_that_are_not_known_to_be_complete_leave_the_verdict_open() -> None:
    table = pa.Table.from_pylist(rows_of(WHOLE.replace("c: da.1 db.1 da.2", "c: da.1 da.2 db.1")))
    assert audit_table(table).outcome == "causal"
    assert audit_table(table, complete=["a", "b", "c"]).outcome == "causal"
    verdict = audit_table(table, complete=["a", "c"])
    assert verdict.outcome == "inconclusive" and "1 node (b)" in str(verdict)
    assert "assumed: complete: a, c" in str(verdict)
    trimmed = pa.Table.from_pylist(rows_of(TRIMMED))
    assert audit_table(trimmed, complete=["a", "b", "c"]).outcome == "causal"


def test_violations_stand_whatever_is_missing() -> None:
    table = pa.Table.from_pylist(rows_of(WHOLE.replace("a: ba.1 ba.2 db.1", "a: ba.1 ba.2 - db.1")))
    assert audit_table(table).outcome == "violated"


def test_every_run_has_a_verdict_of_its_own() -> None:
    causal = WHOLE.replace("c: da.1 db.1 da.2", "c: da.1 da.2 db.1")
    unknown = "a: ba.1\nb: da.1 dz.1"
    again = "a: ba.1\nb: da.1 da.1"
    runs = {"fine": causal, "wrong": WHOLE, "open": unknown, "twice": again, "fine too": causal}
    rows = [row for run, text in runs.items() for row in rows_of(text, run=run)]
    for limit in (10_000, 0):  # however few violations are listed
        verdict = audit_table(pa.Table.from_pylist(rows), limit=limit)
        expected = {
            "fine": "causal",
            "wrong": "violated",
            "open": "inconclusive",
            "twice": "violated",
            "fine too": "causal",
        }
        assert verdict.outcomes == expected
        assert sum(tally.deliveries for tally in verdict.runs.values()) == verdict.tally.deliveries
        assert sum(tally.violations for tally in verdict.runs.values()) == verdict.tally.violations
    assert "runs: 2 causal, 2 violated, 1 inconclusive" in str(verdict)
    assert verdict.summary()["runs"]["twice"]["duplicates"] == 1
    alone = audit_table(pa.Table.from_pylist(rows_of(causal)))
    assert alone.runs == {} and alone.outcomes == {}


@pytest.mark.parametrize("word", ["Deliver", "deliver ", "delivered", "DELIVERY"])
def test_rows_of_a_kind_that_looks_like_ours_leave_the_verdict_open(word: str) -> None:
    """Node c delivers in the wrong order, and writes the kind in its own way."""
    rows = rows_of("a: ba.1\nb: da.1 bb.1\nc: db.1 da.1")
    table = pa.Table.from_pylist([row | ({"kind": word} if row["node"] == "c" else {}) for row in rows])
    verdict = audit_table(table)
    assert verdict.outcome == "inconclusive" and repr(word) in verdict.unsettled[0]
    assert audit_table(table, kinds={"broadcast": "broadcast"}).outcome == "inconclusive"
    assert audit_table(table, kinds={"deliver": "deliver"}).outcome == "causal"


def test_words_of_a_dictionary_that_no_row_uses_leave_nothing_open() -> None:
    table = pa.Table.from_pylist(rows_of("a: ba.1\nb: da.1 bb.1\nc: da.1 db.1"))
    words = pa.DictionaryArray.from_arrays(
        [["broadcast", "deliver"].index(kind) for kind in table.column("kind").to_pylist()],
        ["broadcast", "deliver", "Deliver"],
    )
    assert audit_table(table.set_column(2, "kind", words)).outcome == "causal"
