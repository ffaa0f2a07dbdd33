"""A comparison in its folder: a file for each candidate, and the page made again from what is there."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import antecast as library
from antecast.comparison.stored import read_comparison
from antecast.core import InputError

VALUES = {
    "name": "office",
    "nodes": 4,
    "duration": "1s",
    "network": {"delay": {"kind": "uniform", "low": "1ms", "high": "300ms"}},
    "workload": [{"kind": "poisson", "rate": 8.0}],
}


@pytest.fixture
def compared(tmp_path):
    names = ["vector", "r-broadcast", "cellular"]
    return library.compare(VALUES, protocols=names, seeds=2, max_latency="1s", local=True, out=tmp_path / "here")


def test_each_candidate_has_a_file_with_a_row_for_each_run(compared):
    files = sorted((compared.folder / "candidates").iterdir())
    assert [file.name for file in files] == ["r-broadcast.parquet", "vector.parquet"]
    rows = pq.read_table(files[1]).to_pylist()
    assert [row["seed"] for row in rows] == [1, 2]
    vector = next(each for each in compared.standings if each.name == "vector")
    assert sum(row["deliveries"] for row in rows) == vector.deliveries
    assert {"verdict", "latency_p99_ns", "control_bytes", "messages_peak", "gauge_pending_max"} <= rows[0].keys()


def test_what_is_read_back_is_what_was_compared(compared):
    again, origin = read_comparison(compared.folder)
    assert again.standings == compared.standings
    assert again.judgement == compared.judgement
    assert [(each.name, each.lacks) for each in again.excluded] == [("cellular", compared.excluded[0].lacks)]
    assert again.curves.equals(compared.curves)
    assert (again.plain(), again.answers) == (compared.plain(), compared.answers)
    assert origin.command.startswith("antecast compare SCENARIO.toml --protocol vector")


def test_the_report_can_be_made_again(compared, tmp_path):
    before = compared.report.read_text(encoding="utf-8")
    compared.report.unlink()
    assert library.report(compared.folder) == compared.folder / "report.html"
    assert compared.report.read_text(encoding="utf-8") == before
    run = pq.read_table(compared.folder / "runs.parquet")["run"][0].as_py()
    assert library.report(compared.folder, run=run[:8]).parent.name == run


def test_files_of_protocols_that_are_not_compared_any_more_go(compared):
    library.compare(VALUES, protocols=["vector"], seeds=2, local=True, out=compared.folder)
    assert [file.name for file in (compared.folder / "candidates").iterdir()] == ["vector.parquet"]


def test_a_folder_that_cannot_be_read_is_one_line(compared):
    path = compared.folder / "compare.json"
    path.write_text(json.dumps({"scenario": "x"}))
    with pytest.raises(InputError, match="not a comparison that can be read"):
        read_comparison(Path(compared.folder))
