"""A comparison on Spark is the comparison of one process, number for number, and goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from antecast.comparison.candidates import Candidate, base_scenario, comparison_study, find_candidates
from antecast.comparison.demands import Demands
from antecast.sim.study import Study
from antecast.spark.compare import compare, measure_run
from antecast.spark.folder import SweepFolder

pytestmark = pytest.mark.spark


def prepared(seeds: int = 1) -> tuple[Study, list[Candidate]]:
    values = {
        "nodes": 4,
        "duration": "1s",
        "network": {"delay": {"kind": "exponential", "mean": "60ms"}},
        "workload": [{"kind": "poisson", "rate": 4.0}],
    }
    candidates = find_candidates(base_scenario(values, Path()), chosen=["vector", "fifo", "cellular"])
    return comparison_study(values, candidates, name="small", folder=Path(), seeds=seeds), candidates


def test_spark_and_one_process_find_the_same(spark: Any, tmp_path: Path) -> None:
    demands = Demands(violations=0.5)
    here = compare(*prepared(), demands, out=tmp_path / "here", local=True)
    there = compare(*prepared(), demands, out=tmp_path / "there")
    assert there.table.equals(here.table) and there.curves.equals(here.curves)
    assert there.judgement == here.judgement
    assert [each.name for each in there.excluded] == ["cellular"]
    # More seeds later: what is there stays, and what was not measured is measured.
    measures = tmp_path / "there" / "measures.json"
    before, rows = json.loads(measures.read_text()), SweepFolder(tmp_path / "there").rows()
    measures.write_text(json.dumps(dict(list(before.items())[1:])))
    more = compare(*prepared(seeds=2), demands, out=tmp_path / "there")
    assert {run: json.loads(measures.read_text())[run] for run in before} == before
    assert {run: SweepFolder(tmp_path / "there").rows()[run] for run in rows} == rows
    assert [each.runs for each in more.standings] == [2, 2]
    assert pq.read_table(tmp_path / "there" / "compare.parquet").equals(more.table)
    assert (
        json.loads((tmp_path / "there" / "compare.json").read_text())["recommended"] == more.judgement.recommended
    )


def test_a_log_that_cannot_be_read_is_an_error_of_its_run(tmp_path: Path) -> None:
    study, candidates = prepared()
    compare(study, candidates, Demands(), out=tmp_path, local=True)
    (tmp_path / "measures.json").unlink()
    for file in (tmp_path / "events").iterdir():
        file.write_bytes(b"x" * file.stat().st_size)  # of another size it would count as lost, and be made again
    folder = SweepFolder(tmp_path)
    for run in folder.finished():
        assert measure_run(folder, run)["error"].startswith("could not be measured: ArrowInvalid: ")
    result = compare(study, candidates, Demands(), out=tmp_path, local=True)
    assert [(each.runs, each.failed) for each in result.standings] == [(0, 1), (0, 1)]
