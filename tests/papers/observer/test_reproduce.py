"""The observer's study on Spark, at a small size: what the map makes is what the plain functions make."""

import pyarrow.parquet as pq
import pytest

import antecast.papers.observer.study as job_module
from antecast.papers.findings import Mark
from antecast.papers.observer.experiment import DELAYS, PERCENTS, TICK, TRADED, UNITS, USUAL, Seen, observed, point
from antecast.papers.observer.judgement import largest
from antecast.papers.paper import load_paper
from antecast.papers.reproduce import reproduce

pytestmark = pytest.mark.spark


def test_the_study_is_what_the_plain_functions_find(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(job_module, "QUICK", 300)
    results = reproduce("observer", out=tmp_path / "out", quick=True, seeds=2, spark=spark)

    runs = [point(USUAL, TRADED, messages=300, seed=seed) for seed in (1, 2)]
    seen = Seen.collect([{**run, **observed(**run)} for run in runs])
    found = {(each.item, each.quantity, each.setting): each for each in results.findings}
    row = found["Trade-off", "CBD, δ/4", "violations at 40 %"]
    assert row.ours == seen[TICK].mean("CBD", 40, "δ/4", USUAL)
    assert row.mark is Mark.OURS_ONLY
    most = largest(seen[TICK], "DPC1", [USUAL], percents=[100])
    assert found["Fig. 6", "DPC1 and DPC2 at 100 %: most", TICK].ours == most.mean
    assert found["Fig. 6", "DPC1 and DPC2 at 100 %: most", TICK].runs == 2
    assert found["Fig. 6", "bytes with two elements", ""].mark is Mark.AGREES

    paper = load_paper("observer")
    for item, of in paper.items.items():
        settings = {name: [key for key in found if key[:2] == (item, name)] for name in of.quantities}
        assert all(settings.values()), (item, settings)

    folder = tmp_path / "out" / "figures"
    assert {file.stem for file in folder.iterdir()} == {*(f"fig-{number}" for number in range(2, 8)), "trade-off"}
    curves = pq.read_table(folder / "fig-2.parquet").to_pylist()
    assert len(curves) == len(UNITS) * len(DELAYS) * 2 * 4 * len(PERCENTS)
    same = next(
        each
        for each in curves
        if (each["panel"], each["series"], each["percent"]) == (f"(d) CBD, δ/4, {TICK}", "ε = 10", 40)
    )
    assert same["violations"] == pytest.approx(100 * row.ours)
    assert 0 <= same["low"] <= same["violations"] <= same["high"]
    page = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert "which is a fit and no evidence" in page
