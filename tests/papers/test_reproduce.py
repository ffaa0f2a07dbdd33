"""Studies on Spark: points that are made once, figures that agree with a plain computation, and clear refusals."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from antecast.core import ConfigurationError
from antecast.papers import job
from antecast.papers.barrier.measured_run import measured
from antecast.papers.findings import Mark
from antecast.papers.job import Job, StudyFailed
from antecast.papers.reproduce import reproduce

pytestmark = pytest.mark.spark

# Workers that are there already do not know the tests as modules: what is defined here travels by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def square(x: int, log: str) -> dict[str, int]:
    with Path(log).open("a") as file:
        file.write(f"{x}\n")
    return {"squared": x * x}


def fails_at_two(x: int, log: str) -> dict[str, int]:
    if x == 2:
        raise ValueError("two is too much")
    return square(x, log)


def test_points_of_a_map_are_made_once(spark, tmp_path):
    said = []
    work = Job(spark, "demo", tmp_path, quick=True, seeds=None, on_progress=said.append)
    log = str(tmp_path / "log")
    points = [{"x": x, "log": log} for x in range(4)]
    table = work.map("squares", square, points[:3])
    assert table["squared"].to_pylist() == [0, 1, 4]
    assert work.map("squares", square, points)["squared"].to_pylist() == [0, 1, 4, 9]
    assert sorted(Path(log).read_text().split()) == ["0", "1", "2", "3"]
    assert [stage.text for stage in said if stage.text.endswith("points")][-1] == "4 of 4 points"


def test_a_point_that_fails_says_which_and_the_others_are_kept(spark, tmp_path):
    work = Job(spark, "demo", tmp_path, quick=True, seeds=None)
    log = str(tmp_path / "log")
    points = [{"x": x, "log": log} for x in (1, 2, 3)]
    with pytest.raises(StudyFailed, match=r"1 points .*x=2.* two is too much"):
        work.map("squares", fails_at_two, points)
    with pytest.raises(StudyFailed):
        work.map("squares", fails_at_two, points)
    assert sorted(Path(log).read_text().split()) == ["1", "3"]


def test_a_changed_program_makes_its_points_anew(tmp_path):
    """Also where what has changed only measures runs, in a file beside the function."""
    found = {}
    exec(compile("def point(x):\n    return measure(x)\n", tmp_path / "study.py", "exec"), found)
    names = []
    for text in ("def measure(x): return x", "def measure(x): return -x", "def measure(x): return x"):
        (tmp_path / "measures.py").write_text(text)
        job._measuring.cache_clear()
        names.append(job._identity(found["point"], {"x": 1}))
    assert names[0] == names[2] != names[1]


@pytest.fixture
def walkers(tmp_path):
    """Five nodes in a row that stand in reach of their neighbours, and one that walks along them."""
    second = 10**9
    rows = [(f"s{n}", 0, 1200 * second, 40.0 * n, 0.0, 40.0 * n, 0.0) for n in range(5)]
    rows += [("walker", 60 * second, 900 * second, -80.0, 10.0, 300.0, 10.0)]
    table = pa.table(
        dict(zip(("node", "t0", "t1", "x0", "y0", "x1", "y1"), map(list, zip(*rows, strict=True)), strict=True))
    )
    file = tmp_path / "walkers.parquet"
    pq.write_table(table, file)
    return file


def test_the_figures_of_a_trace_agree_with_its_logs(spark, tmp_path, walkers):
    results = reproduce("barrier", out=tmp_path / "out", spark=spark, options={"trace": str(walkers)})
    numbers = [each for each in results.findings if each.unit != "statement"]
    assert {each.mark for each in numbers} == {Mark.OURS_ONLY}
    found = {(each.item, each.quantity, each.setting): each.ours for each in numbers}

    runs = pq.read_table(tmp_path / "out" / "pedestrians" / "runs.parquet").to_pylist()
    run = next(row["run"] for row in runs if '"5min"' in row["protocol"])
    events = pq.read_table(tmp_path / "out" / "pedestrians" / "events", filters=[("run", "=", run)]).to_pylist()
    sent, received, delivered = {}, {}, defaultdict(int)
    for event in events:
        message = event["origin"], event["seq"]
        if event["kind"] == "broadcast":
            sent[message] = event["t"]
        elif event["kind"] == "receive" and event["origin"] is not None:
            received.setdefault((event["node"], *message), event["t"])
        elif event["kind"] == "deliver":
            delivered[(event["node"], *message)] = event["t"]
    assert len(received) > 50
    delays = [(t - sent[key[1:]]) / 1e9 for key, t in received.items()]
    latencies = [(delivered[key] - t) / 1e9 for key, t in received.items() if key in delivered]
    assert found["Table V", "broadcast", "5'"] == len(sent)
    assert found["Table V", "received", "5'"] == len(received)
    assert found["Table V", "co-delivered", "5'"] == len(delivered)
    assert found["Table VI", "tdelay, avg", "5'"] == pytest.approx(fmean(delays))
    assert found["Table VI", "tdelay, max", "5'"] == pytest.approx(max(delays))
    assert found["Table VI", "ltcy, avg", "5'"] == pytest.approx(fmean(latencies))
    assert found["Table IV", "nodes", ""] == 6
    assert found["Table IV", "nodes at once", ""] == 6
    assert found["Table IV", "activity, min", ""] == 840

    networks = tmp_path / "out" / "networks"
    files = [str(networks / f"trace-{what}.parquet") for what in ("contacts", "presence")]
    plain = measured("pedestrians", "5'", "safe", *files)
    for quantity, value in plain.items():
        item = "Table VI" if ", " in quantity else "Table V"
        assert found[item, quantity, "5'"] == pytest.approx(value), quantity
    published = measured("pedestrians", "5'", "paper", *files)
    for lifetime in ("20'", "15'", "10'", "5'"):
        assert found["Table V", "out of causal order", lifetime] == 0
        assert found["Table V", "co-delivered", f"{lifetime} published"] > 50
    assert found["Table V", "co-delivered", "5' published"] == published["co-delivered"]
    assert found["Table VI", "ltcy, max", "5' published"] == pytest.approx(published["ltcy, max"])
    for setting in ("5', clocks ±2\"", "5' published, clocks ±2\""):
        assert found["Table V", "out of causal order", setting] >= 0
    assert any("75kb/s" in note and "`published`" not in note for note in results.notes)

    for name in (
        "findings.parquet",
        "findings.csv",
        "results.md",
        "figures/fig-9.parquet",
        "figures/fig-10.parquet",
    ):
        assert (tmp_path / "out" / name).is_file()
    curve = pq.read_table(tmp_path / "out" / "figures" / "fig-10.parquet").to_pylist()
    last = [row for row in curve if row["lifetime"] == "5'" and row["metric"] == "tdelay"][-1]
    assert last["seconds"] == pytest.approx(max(delays))


@pytest.mark.parametrize(
    ("study", "options", "problem"),
    [
        ("barrels", {}, "unknown study 'barrels'; choose one of barrier"),
        ("barrier", {"date": "2026-03-21"}, "goes with a feed or a trace"),
        ("barrier", {"bus": 1}, "no such option"),
    ],
)
def test_what_a_study_cannot_do_is_refused(spark, tmp_path, study, options, problem):
    with pytest.raises(ConfigurationError, match=problem):
        reproduce(study, out=tmp_path / "out", spark=spark, options=options)
