"""The cellular study on Spark, at a small size: what the map makes is what the plain function makes."""

import pyarrow.parquet as pq
import pytest

import antecast.papers.cellular.study as job_module
from antecast.papers.cellular import judgement
from antecast.papers.cellular.experiment import CALM, evaluate
from antecast.papers.cellular.judgement import CELLULAR
from antecast.papers.layout import figure_file
from antecast.papers.paper import load_paper
from antecast.papers.reproduce import reproduce

pytestmark = pytest.mark.spark


def test_the_study_is_what_the_plain_functions_find(spark, tmp_path, monkeypatch):
    for name in ("SECONDS", "QUICK_SECONDS"):
        monkeypatch.setattr(job_module, name, 37)  # two seconds more than it takes to tell what stays
    for module in (job_module, judgement):  # two short faults are enough
        monkeypatch.setattr(module, "OUTSTANDING", 25)
        monkeypatch.setattr(module, "ACKNOWLEDGEMENTS", {False: "the paper's acknowledgements"})
    monkeypatch.setattr(job_module, "QUICK_FAULTS", 2)
    monkeypatch.setattr(job_module, "SIZES", (14, 28))
    results = reproduce("cellular", out=tmp_path / "out", quick=True, seeds=1, spark=spark)
    paper = load_paper("cellular")
    found = {(each.item, each.quantity, each.setting): each for each in results.findings}
    plain = evaluate(CELLULAR, CALM, 37, 1)
    assert found["Fig. 6", "messages sent per delivery", CELLULAR].ours == plain["traffic"]["frames per delivery"]
    assert found["Fig. 6", "delivery delay", CELLULAR].ours == plain["delay"]["mean"]
    assert {(each.item, each.quantity) for each in results.findings} == {
        (item, name) for item, of in paper.items.items() for name in of.quantities
    }
    # What must come out in a run of any length.
    for key in (
        ("Fig. 6", "data sent", ""),
        ("Heavy load", "sustained", "35/s"),
        ("Fig. 8", "backlog", ""),
        ("Fig. 8", "everything is delivered", ""),
    ):
        assert found[key].mark == "agrees", found[key]
    for item, of in paper.items.items():
        if of.chart is None:
            continue
        table = pq.read_table(tmp_path / "out" / "figures" / f"{figure_file(item)}.parquet")
        chart = of.chart
        columns = {chart.x, chart.y, chart.series, chart.facet, chart.low, chart.high} - {""}
        assert len(table) > 3
        assert columns <= set(table.column_names)
        assert not chart.y_log or min(table[chart.y].to_pylist()) > 0
