"""`antecast sweep` on the command line: what it prints, and with what it exits. And the notebook."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from antecast.history.parts import LAYOUT

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIO = """
[scenario]
nodes = 4
duration = "1s"
workload = [{ kind = "poisson", rate = 3.0 }]
network.delay = { kind = "exponential", mean = "60ms" }
"""


def write(text: str, name: str = "study.toml") -> None:
    Path(name).write_text(text)


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("[scenario]\n[grid]\nnodes = 3\n", [], "study.toml: grid.nodes: expected a list of values or a range"),
        (
            "[scenario]\n[zip]\nnodes = [1, 2]\nduration = ['1s']\n",
            [],
            "study.toml: zip: all lists must have one length",
        ),
        ("[scenario]\ngird = 3\n", [], "study.toml: unknown key 'gird'"),
        (
            "[scenario]\n[grid]\nnetwork.loss = [2.0]\n",
            [],
            "study.toml: network.loss: expected a share from 0 to 1, got 2.0",
        ),
        ("[scenario\n", [], "study.toml:1: not valid TOML"),
        ("scenario = 'gone.toml'\n", [], "gone.toml: cannot read"),
        (SCENARIO, ["--set", "network.los=1"], "network: unknown key 'los'"),
        (SCENARIO, ["--run-timeout", "5"], "--run-timeout: expected a duration with its unit"),
        (SCENARIO, ["--run-memory", "lots"], "--run-memory: expected a size with its unit"),
        (SCENARIO, ["--out", "study.toml"], "is a file, and not the folder of a sweep"),
    ],
)
def test_mistakes_exit_with_2_and_one_line(antecast: Any, text: str, arguments: list[str], words: str) -> None:
    write(text)
    code, out, err = antecast("sweep", "study.toml", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_folder_of_another_study_is_refused_before_spark_starts(antecast: Any) -> None:
    write(SCENARIO)
    (Path("taken")).mkdir()
    Path("taken/study.json").write_text(json.dumps({"layout": LAYOUT, "study": {"name": "other"}}))
    code, _, err = antecast("sweep", "study.toml", "--out", "taken")
    assert code == 2
    assert "holds another study" in err


def test_a_dry_run_shows_the_runs_and_makes_none(antecast: Any) -> None:
    write("seeds = 50\n" + SCENARIO + "[grid]\nnetwork.loss = [0, 0.1]\n")
    code, out, err = antecast("sweep", "study.toml", "--dry-run")
    assert code == 0
    assert err.startswith("note: vector needs reliable links, which 50 of 100 runs do not have")
    assert "… and 60 more runs, shown by --json" in out
    assert "100 runs, 0 finished already; about" in out
    assert not Path("sweeps").exists()
    code, out, _ = antecast("sweep", "study.toml", "--dry-run", "--json", "--seeds", "2")
    plan = json.loads(out)
    assert (code, plan["total"], plan["missing"], len(plan["runs"])) == (0, 4, 4, 4)
    second = plan["runs"][1]
    assert (second["network.loss"], second["seed"], second["finished"]) == (0, 2, False)


@pytest.mark.spark
def test_a_sweep_prints_a_table_and_where_everything_is(antecast: Any, spark: Any) -> None:
    write("seeds = 2\n" + SCENARIO + '[grid]\nprotocol.name = ["vector", "fifo"]\n')
    code, out, err = antecast("sweep", "study.toml")
    assert code == 0
    assert "vector" in out
    assert "4 runs in sweeps/study" in out
    assert out.endswith("report: sweeps/study/report.html\n")
    assert "antecast sweep study.toml" in Path("sweeps/study/report.html").read_text(encoding="utf-8")
    assert "sweep study: 0 of 4 runs" in err
    code, out, _ = antecast("sweep", "study.toml", "--json", "--quiet", "--seeds", "3")
    result = json.loads(out)
    assert (code, result["total"], result["resumed"], result["complete"]) == (0, 6, 4, True)
    assert len(result["runs"]) == 6
    code, out, _ = antecast("sweep", "study.toml", "--dry-run", "--seeds", "4")
    assert "8 runs, 6 finished already" in out
    assert "at the pace of the finished runs" in out.replace("\n", " ")


@pytest.mark.spark
def test_failed_runs_are_named_and_exit_with_1(antecast: Any, spark: Any) -> None:
    write(SCENARIO.replace("poisson", "trace").replace("rate = 3.0", "file = 'a.csv'"))
    Path("a.csv").write_text("t,node\n0,9\n")
    code, out, err = antecast("sweep", "study.toml")
    assert code == 1
    assert "failed: seed=1: " in err
    assert "a.csv:2: expected" in err
    assert "1 failed, and the same command tries them again" in out


@pytest.mark.spark
def test_a_broken_promise_exits_with_1(antecast: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from antecast.spark.sweep import SweepResult

    monkeypatch.setattr(SweepResult, "violated", 1)
    write(SCENARIO)
    code, out, _ = antecast("sweep", "study.toml")
    assert code == 1
    assert "1 broke what they promise" in out


@pytest.mark.spark
def test_the_notebook_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "notebook.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "12 runs, 0 failed, 0 broke a promise" in out
    assert "control_bytes_per_broadcast" in out
    assert (tmp_path / "sweeps" / "loss" / "runs.parquet").is_file()
