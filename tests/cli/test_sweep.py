"""`antecast sweep` without Spark, and the one rule for needs that a network does not meet."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecast import sweep
from antecast.core import ConfigurationError
from antecast.spark.folder import SweepFolder

SCENARIO = """
name = "small"
nodes = 4
duration = "1s"
[network]
delay = { kind = "uniform", low = "1ms", high = "300ms" }
[[workload]]
kind = "poisson"
rate = 8.0
"""
STUDY = """
seeds = 2
scenario = "small.toml"
[grid]
protocol.name = ["vector", "r-broadcast"]
"""
UNMET = "needs FIFO links, which"


@pytest.fixture
def antecast(antecast):
    """The command in a folder with a scenario and a study."""
    Path("small.toml").write_text(SCENARIO)
    Path("study.toml").write_text(STUDY)
    return antecast


def test_a_sweep_without_spark_makes_the_same_tables_and_goes_on(antecast, monkeypatch):
    import antecast.spark.sweep as module

    monkeypatch.setattr(module, "spark_session", None)  # whoever starts Spark fails
    code, out, err = antecast("sweep", "study.toml", "--no-spark")
    assert code == 0, err
    assert out.splitlines()[0].split()[:3] == ["protocol.name", "runs", "causal"]
    assert "4 runs in sweeps/study" in out and "report: sweeps/study/report.html" in out and "4 of 4 runs" in err
    made = SweepFolder("sweeps/study").rows()
    code, out, _ = antecast("sweep", "study.toml", "--no-spark", "--seeds", 3, "--json")
    result = json.loads(out)
    assert (code, result["total"], result["resumed"], result["complete"]) == (0, 6, 4, True)
    now = SweepFolder("sweeps/study").rows()
    assert {run: now[run] for run in made} == made and len(now) == 6
    assert pq.read_table("sweeps/study/runs.parquet")["lost_frames"].to_pylist() == [0] * 6


def test_python_can_do_it_too(antecast):
    result = sweep("study.toml", seeds=1, local=True)
    assert (result.total, result.failed) == (2, 0)
    with pytest.raises(ConfigurationError, match="master: cannot be combined"):
        sweep("study.toml", local=True, master="local[1]")


def test_a_master_has_no_use_without_spark(antecast):
    code, _, err = antecast("sweep", "study.toml", "--no-spark", "--master", "local[1]")
    assert (code, err) == (2, "error: --master: cannot be combined with --no-spark\n")


def test_a_run_that_fails_is_told_and_the_others_go_on(antecast):
    Path("a.csv").write_text("t,node\n0,9\n")
    Path("study.toml").write_text(STUDY.replace('"small.toml"', '"traced.toml"'))
    Path("traced.toml").write_text(SCENARIO.replace('"poisson"\nrate = 8.0', '"trace"\nfile = "a.csv"'))
    code, out, err = antecast("sweep", "study.toml", "--no-spark")
    assert code == 1 and "a.csv:2: expected" in err and "4 failed, and the same command tries them again" in out


def test_a_study_and_a_scenario_are_told_apart(antecast):
    for command in ("run", "compare"):
        code, _, err = antecast(command, "study.toml")
        assert (code, err.count("\n")) == (2, 1)
        assert "study.toml: is a study, not a scenario; `antecast sweep` makes its runs" in err
    code, _, err = antecast("sweep", "small.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert "small.toml: is a scenario, not a study; `antecast run` runs it" in err


def test_a_part_of_a_study_is_not_a_field_to_set(antecast):
    Path("study.toml").write_text(
        'scenario = { workload = [{ kind = "poisson", rate = 1.0 }] }\n[grid]\nnodes = [2, 3]\n'
    )
    for field in ("scenario.duration", "seeds", "grid.nodes"):
        code, _, err = antecast("sweep", "study.toml", "--no-spark", "--set", f"{field}=1s")
        assert code == 2 and f"--set: {field} is not a field of a scenario; expected one such as nodes" in err


@pytest.mark.parametrize("command", ["run", "compare", "sweep"])
def test_a_scenario_that_broadcasts_nothing_is_refused(antecast, command):
    Path("small.toml").write_text(SCENARIO.partition("[[workload]]")[0])
    file = "study.toml" if command == "sweep" else "small.toml"
    code, out, err = antecast(command, file)
    assert (code, out) == (2, "")
    assert "workload: nothing is broadcast" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "traced.toml"], "gone.csv: no such file"),
        (
            ["observe", "gone.jsonl", "out", "--epsilon", "1ms", "--delta", "1ms", "--batch"],
            "gone.jsonl: no such file",
        ),
        (
            ["observe", "g*.jsonl", "out", "--epsilon", "1ms", "--delta", "1ms", "--batch"],
            "g*.jsonl: no such file",
        ),
        (["reproduce", "barrier", "--trace", "gone.tr"], "gone.tr: no such file"),
        (["reproduce", "barrier", "--gtfs", "gone.zip"], "gone.zip: no such file"),
        (["contacts", "gone.parquet", "--range", "5", "--engine", "spark"], "gone.parquet: no such file"),
        (["audit", "gone.csv", "--engine", "spark"], "gone.csv: no such file"),
    ],
)
def test_files_are_looked_at_before_spark_starts(antecast, monkeypatch, arguments, words):
    import antecast.spark.session as session

    def started(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "_find_or_start", started)
    Path("traced.toml").write_text('[scenario]\nworkload = [{ kind = "trace", file = "gone.csv" }]\n')
    code, _, err = antecast(*arguments)
    assert code == 2 and words in err and err.count("\n") == 1


# One rule for needs that are not met: who is named runs, and it is said.


def test_a_protocol_that_is_named_runs_everywhere_and_its_unmet_needs_are_said(antecast):
    code, out, err = antecast("run", "small.toml", "--set", "protocol.name=pc-broadcast", "--json")
    assert f"note: pc-broadcast {UNMET} this network does not have" in err
    summary = json.loads(out)
    assert summary["unmet_needs"] == ["FIFO links"] and code == (1 if summary["broken_promises"] else 0)

    Path("study.toml").write_text(STUDY.replace('"r-broadcast"', '"pc-broadcast"'))
    _, out, err = antecast("sweep", "study.toml", "--no-spark", "--json")
    assert f"note: pc-broadcast {UNMET} 2 of 4 runs do not have" in err
    rows = {(row["protocol_name"], row["unmet_needs"]) for row in json.loads(out)["runs"]}
    assert rows == {("vector", ""), ("pc-broadcast", "FIFO links")}

    _, out, err = antecast(
        *("compare", "small.toml", "--no-spark", "--seeds", 1, "--json"),
        *("--protocol", "vector", "--protocol", "pc-broadcast"),
    )
    assert f"note: pc-broadcast {UNMET} this network does not have" in err
    rows = {row["name"]: row for row in json.loads(out)["protocols"]}
    assert rows["pc-broadcast"]["runs"] == 1 and rows["pc-broadcast"]["unmet"] == ["FIFO links"]
    assert rows["pc-broadcast"]["order"] != "guaranteed" and rows["vector"]["order"] == "guaranteed"


def test_settings_without_a_name_are_those_of_the_default_protocol(antecast):
    _, out, err = antecast(
        "run", "small.toml", "--set", "network.loss=0.1", "--set", "protocol.repair=500ms", "--json"
    )
    summary = json.loads(out)
    assert err == "" and (summary["protocol"], summary["unmet_needs"]) == ("vector", [])
    assert (
        json.loads(Path(summary["folder"], "manifest.json").read_text())["scenario"]["protocol"]["repair"]
        == "500ms"
    )


def test_quiet_still_says_that_an_order_was_violated(antecast):
    code, out, err = antecast("run", "small.toml", "-q", "--set", "protocol.name=r-broadcast")
    assert (code, err) == (0, "")
    assert out.startswith("causal order violated by r-broadcast") and out.count("\n") == 1
    assert antecast("run", "small.toml", "-q") == (0, "", "")
