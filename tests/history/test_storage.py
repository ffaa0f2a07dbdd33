"""Logs with more events than memory has room for, and checks of windows of messages."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from history_logs import log, rows_of, table, tables
from hypothesis import given
from hypothesis import strategies as st

from antecast.core.errors import OutputError
from antecast.history.audit import audit
from antecast.history.rows import BrokenLog
from antecast.history.storage import EventCounts
from antecast.history.violations import Tally

RELAYED = "1: b1:1\n2: d1:1 b2:1\n3: d2:1 b3:1\n4: d3:1 d1:1"
"""Node 4 has 3:1 before 1:1, which takes two steps to show."""


@given(tables(), st.integers(1, 400))
def test_parts_give_the_same_verdict_and_a_true_witness(events: pa.Table, memory: int) -> None:
    whole, parted = audit(events, pairs=True), audit(events, pairs=True, memory=memory)
    assert (parted.tally, parted.violations, parted.runs) == (whole.tally, whole.violations, whole.runs)
    assert (whole.witness is None) == (parted.witness is None)
    if whole.witness is not None and parted.witness is not None:
        assert len(parted.witness.chain) >= len(whole.witness.chain)


@given(tables())
def test_a_window_shows_what_all_messages_show(events: pa.Table) -> None:
    whole = audit(events, pairs=True)
    with patch("antecast.history.blocks._OVERHEAD", -(2**40)):  # a block for every node
        alone = audit(events, pairs=True)
    with patch("antecast.history.blocks._OVERHEAD", 0), patch("antecast.history.blocks._STARTS", 2**20):
        narrow = audit(events, pairs=True)
    for verdict in (alone, narrow):
        assert (verdict.tally, verdict.violations) == (whole.tally, whole.violations)


def test_a_witness_of_two_steps_is_found_across_parts() -> None:
    for memory in (1, 100, None):
        witness = audit(log(RELAYED), memory=memory).witness
        assert witness is not None
        assert witness.chain == ("1:1", "2:1", "3:1")


def test_a_cycle_is_told_across_parts() -> None:
    with pytest.raises(BrokenLog, match="a cycle of 2 messages: node 2 had 1:1 at position 0"):
        audit(log("1: d2:1 b1:1\n2: d1:1 b2:1"), memory=1)


def test_positions_of_more_than_32_bits_go_through_files() -> None:
    rows = [row | {"pos": row["pos"] + 2**40} for row in rows_of(RELAYED)]
    verdict = audit(table(rows), memory=1)
    assert verdict.tally == Tally(nodes=4, deliveries=4, early=1, late=1)
    assert sorted(verdict.violations["pos"].to_pylist()) == [2**40, 2**40 + 1]


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize("later", ["1: b1:1\n2: d1:1 d1:1", "1: b1:1\n2: d1:1\n3: d1:1", "1: b1:1"])
def test_a_log_that_changes_while_it_is_read_is_refused(memory: int | None, later: str) -> None:
    """Rows that were not counted have no place to go to."""
    passes = iter([log("1: b1:1\n2: d1:1"), log(later)])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from next(passes).to_batches()

    with pytest.raises(BrokenLog, match="changed while it was read"):
        audit(batches, memory=memory)


def test_no_file_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    audit(log(RELAYED), memory=1)
    assert not list(tmp_path.iterdir())
    with pytest.raises(BrokenLog):
        audit(log("1: d2:1 b1:1\n2: d1:1 b2:1"), memory=1)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OutputError, match=r"has no room for: .*No space left"):
        audit(log(RELAYED), memory=1)


def test_parts_are_even_and_in_the_order_of_names() -> None:
    counts = EventCounts()
    list(counts.counting(log("\n".join(f"{node}: b{node}:1 b{node}:2" for node in range(1, 9))).to_batches()))
    assert counts.parts(4)[counts.nodes.names.order()].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(counts.parts(100).tolist()) == {0}


def test_numbers_of_messages_that_32_bits_do_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecast.history.dependencies.MOST_ROWS", 2)
    with pytest.raises(BrokenLog, match="3 messages and 0 joints are more than 2"):
        audit(log(RELAYED))
