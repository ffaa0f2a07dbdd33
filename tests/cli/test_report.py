"""`antecast report` as a user meets it, and the reports that other commands leave."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SCENARIO = """
name = "small"
nodes = 4
duration = "1s"
[network]
delay = { kind = "uniform", low = "1ms", high = "300ms" }
[[workload]]
kind = "poisson"
rate = 10.0
[[workload]]
kind = "chatter"
answers = 0.9
"""
LOG = """node,pos,kind,origin,seq
a,1,broadcast,a,1
b,1,deliver,a,1
b,2,broadcast,b,1
c,1,deliver,b,1
c,2,deliver,a,1
"""


@pytest.fixture
def antecast(antecast):
    """The command in a folder with a scenario and a log."""
    Path("small.toml").write_text(SCENARIO)
    Path("log.csv").write_text(LOG)
    return antecast


def test_a_run_leaves_a_report_and_says_where(antecast):
    code, out, _ = antecast("run", "small.toml", "--out", "here")
    assert code == 0 and out.endswith("report: here/report.html\n")
    html = Path("here/report.html").read_text(encoding="utf-8")
    assert "Causal order kept by vector" in html
    assert "<code>antecast run small.toml</code>" in html
    assert pq.read_table("here/report/summary.parquet").num_rows > 10


def test_a_run_can_do_without(antecast):
    antecast("run", "small.toml", "--out", "here")
    code, out, _ = antecast("run", "small.toml", "--out", "here", "--force", "--no-report")
    assert code == 0 and "report" not in out
    assert not Path("here/report.html").exists(), "the report of the run before"


def test_json_names_the_report(antecast):
    _, out, _ = antecast("run", "small.toml", "--out", "here", "--json")
    assert json.loads(out)["report"] == "here/report.html"


def test_a_report_that_cannot_be_written_does_not_spoil_the_run(antecast):
    Path("here/report.html").mkdir(parents=True)
    code, out, err = antecast("run", "small.toml", "--out", "here", "--force")
    assert code == 0 and out.startswith("causal order kept")
    assert err.startswith("no report: here/report.html: cannot write")


def test_an_audit_leaves_a_report_beside_its_verdict(antecast):
    code, out, _ = antecast("audit", "log.csv", "--out", "judged")
    assert code == 1 and out.endswith("report: judged/report.html\n")
    html = Path("judged/report.html").read_text(encoding="utf-8")
    assert "Causal order is violated" in html and "antecast audit log.csv --out judged" in html
    Path("judged/report.html").unlink()
    assert antecast("report", "judged")[:2] == (0, "report: judged/report.html\n")


def test_a_report_can_be_made_again_of_another_message_elsewhere(antecast):
    antecast("run", "small.toml", "--out", "here", "--no-report")
    code, out, _ = antecast("report", "here", "--message", "2.1", "--out", "pages/two.html")
    assert (code, out) == (0, "report: pages/two.html\n")
    assert "Message 2:1 and its causal past" in Path("pages/two.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such folder"),
        (["."], "holds 3 folders with results; name one, such as compared"),
        (
            ["compared", "--message", "2.1"],
            "--message: is an option for runs; compared holds a comparison; name a run",
        ),
        (["log.csv"], "log.csv: is a file; `antecast audit FILE --out FOLDER` makes a report of a log"),
        (["here/events.parquet"], "here/events.parquet: is a file; name its folder, here"),
        (["small.toml"], "small.toml: is a file that says what to run"),
        (["here", "--message", "2.99"], "--message: the log has no broadcast of 2:99"),
        (["here", "--message", "two"], "--message: expected the number of a node and of its message"),
        (["here", "--out", "judged"], "judged: cannot write: it is a folder; name a file"),
        (["here", "--out", ""], ".: cannot write: it is a folder; name a file"),
        (["here", "--run", "abc"], "--run: is an option for sweeps; here holds a run"),
        (["judged", "--message", "2.1"], "--message: is an option for runs; judged holds an audit"),
    ],
)
def test_mistakes_are_one_line(antecast, arguments, words):
    antecast("run", "small.toml", "--out", "here", "--no-report", "--no-audit")
    antecast("audit", "log.csv", "--out", "judged", "--no-report")
    antecast("compare", "small.toml", "--out", "compared", "--no-spark", "--seeds", "1", "--protocol", "vector")
    code, out, err = antecast("report", *arguments)
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1


def test_a_run_of_a_sweep_is_found_by_the_beginning_of_its_name(antecast):
    Path("study.toml").write_text('scenario = "small.toml"\nseeds = 20')
    antecast("sweep", "study.toml", "--out", "s", "--no-report", "--no-spark")
    runs = pq.read_table("s/runs.parquet")["run"].to_pylist()
    first, times = Counter(run[0] for run in runs).most_common(1)[0]  # 20 names share 16 beginnings
    assert antecast("report", "s", "--run", runs[0][:9])[:2] == (0, f"report: s/runs/{runs[0]}/report.html\n")
    assert f"{times} runs begin with '{first}'" in antecast("report", "s", "--run", first)[2]
    assert "no run 'x'" in antecast("report", "s", "--run", "x")[2]
    Path("s/failed").mkdir(exist_ok=True)
    Path("s/failed/fail.json").write_text("{}")
    assert "run fail failed" in antecast("report", "s", "--run", "fail")[2]
    assert "name a run of it with --run" in antecast("report", "s", "--message", "1.1")[2]


def test_a_comparison_s_page_is_made_again(antecast):
    common = ("--out", "compared", "--no-spark", "--seeds", 1, "--protocol", "vector")
    assert antecast("compare", "small.toml", *common)[0] == 0
    before = Path("compared/report.html").read_text(encoding="utf-8")
    Path("compared/report.html").unlink()
    assert antecast("report", "compared")[:2] == (0, "report: compared/report.html\n")
    assert Path("compared/report.html").read_text(encoding="utf-8") == before


def test_a_folder_of_something_else_is_one_line(antecast):
    Path("other").mkdir()
    code, _, err = antecast("report", "other")
    assert code == 2 and "not the folder of a run, a sweep, a comparison, an audit or a reproduction" in err
