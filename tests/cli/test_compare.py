"""`antecast compare` on the command line, without Spark: what it prints and writes, and with what it exits."""

import json
import re
import signal
import sys
import time
from functools import partial

import pyarrow.parquet as pq
import pytest

from antecast.sim.run import run
from antecast.sim.scenario import load_scenario

SCENARIO = """
name = "small office"
nodes = 4
duration = "1s"
[protocol]
name = "vector"
[network]
delay = { kind = "uniform", low = "1ms", high = "300ms" }
[[workload]]
kind = "poisson"
rate = 8.0
"""


@pytest.fixture
def antecast(antecast, tmp_path):
    """`antecast compare` in a folder with a scenario."""
    (tmp_path / "office.toml").write_text(SCENARIO)
    return partial(antecast, "compare")


def quick(antecast, *more):
    return antecast(
        "office.toml", "--no-spark", "--seeds", 2, "--protocol", "vector", "--protocol", "r-broadcast", *more
    )


def test_a_comparison_ends_in_a_table_a_recommendation_and_a_report(antecast, tmp_path):
    code, out, err = antecast("office.toml", "--no-spark", "--seeds", "1")
    assert code == 0, err
    assert re.search(r"→ \S+ +guaranteed", out)
    assert re.search(r"r-broadcast +violated", out)
    assert "pc-broadcast, pc-broadcast-paper need links that keep the order of their frames" in " ".join(
        out.split()
    )
    assert "Take " in out and "Runner-up: " in out
    folder = tmp_path / "comparisons" / "small-office"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Which protocol for small office?" in page and "All were offered the very same broadcasts" in page
    table = pq.read_table(folder / "compare.parquet").to_pylist()
    assert {row["name"] for row in table if row["recommended"]} == {re.search(r"Take ([\w-]+):", out)[1]}
    assert all(row["lacks"] for row in table if row["runs"] is None)
    curve = pq.read_table(folder / "latency.parquet").to_pylist()
    assert {row["protocol"] for row in curve} == {row["name"] for row in table if row["runs"]}
    assert json.loads((folder / "compare.json").read_text())["same_broadcasts"] is True


def test_limits_decide_and_finished_runs_are_not_made_again(antecast, tmp_path):
    code, out, _ = quick(antecast, "--json")
    first = json.loads(out)
    assert (code, first["recommended"], first["seeds"]) == (0, "vector", [1, 2])
    parts = tmp_path / "comparisons" / "small-office" / "parts"
    made = {file.name: file.stat().st_mtime_ns for file in parts.iterdir()}
    code, out, err = quick(antecast, "--max-violations", "100%")
    assert (code, len(made)) == (0, 1)
    assert "Take r-broadcast: " in out and "4 of 4 runs" in err
    assert {file.name: file.stat().st_mtime_ns for file in parts.iterdir()} == made


def test_when_none_qualifies_the_exit_code_says_so(antecast):
    code, out, _ = quick(antecast, "--max-latency", "1ms", "--max-violations", "0")
    assert code == 1
    assert "No protocol meets all limits." in out
    assert "Excluded: r-broadcast by --max-violations 0; vector and r-broadcast by --max-latency 1ms" in " ".join(
        out.split()
    )


def test_a_run_that_takes_too_long_is_told_and_tried_again(antecast):
    code, _, err = quick(antecast, "--run-timeout", "1us")
    assert code == 1
    assert "2 of 2 runs failed: took longer than 1e-06 s" in err
    assert quick(antecast)[0] == 0


def test_settings_can_be_given_and_the_network_changed(antecast):
    _, out, _ = quick(antecast, "--set", "network.loss=0.1", "--with", "vector.repair=50ms", "--json")
    settings = {row["name"]: row["settings"] for row in json.loads(out)["protocols"]}
    assert settings == {"vector": "repair=50ms", "r-broadcast": "repair=100ms (so that it bears this network)"}


def test_quiet_says_the_recommendation_and_where_the_report_is(antecast):
    code, out, err = quick(antecast, "--quiet", "--out", "here")
    assert (code, err) == (0, "")
    assert out.startswith("Take vector:") and "report: here/report.html" in out
    assert "violated" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-violations", "0.01"], "--max-violations: expected a share such as 0.1%, or a whole number"),
        (["--max-latency", "200"], "--max-latency: expected a duration with its unit"),
        (["--max-latency", "0s"], "--max-latency: expected a duration above zero"),
        (["--min-delivery", "1.5"], "--min-delivery: expected a share from 0% to 100%"),
        (["--protocol", "vektor"], "--protocol: unknown protocol 'vektor'; did you mean 'vector'?"),
        (["--protocol", "cellular"], "no protocol can run on this network: cellular needs stations and cells"),
        (["--with", "delta=1"], "--with: expected PROTOCOL.SETTING=VALUE"),
        (["--with", "delta.lifetme=1s"], "--with delta: unknown key 'lifetme'; did you mean 'lifetime'?"),
        (["--set", "network.los=0.1"], "office.toml: network: unknown key 'los'"),
        (["--master", "local[1]", "--no-spark"], "--master: cannot be combined"),
        (["--run-timeout", "soon"], "--run-timeout: expected a duration"),
        (["--out", "."], "--out: "),
    ],
)
def test_mistakes_are_one_line(antecast, arguments, words):
    code, out, err = antecast("office.toml", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and words in err and err.count("\n") == 1


def test_a_folder_of_another_network_is_refused(antecast):
    assert quick(antecast)[0] == 0
    code, _, err = quick(antecast, "--set", "nodes=5")
    assert code == 2 and "holds another study (its scenario is another); name another folder" in err


def test_an_interrupt_keeps_what_is_finished(antecast, start_process, tmp_path):
    # The reference needs no compiling, which takes minutes on a busy machine where nothing is compiled yet.
    endless = 'engine = "reference"\n' + SCENARIO.replace('"1s"', '"10000h"')
    (tmp_path / "endless.toml").write_text(endless)
    command = [sys.executable, "-m", "antecast", "compare", "endless.toml", "--no-spark", "--out", "cut"]
    process = start_process(command, cwd=tmp_path)
    attempts = tmp_path / "cut" / ".attempts"
    deadline = time.monotonic() + 120
    while not (attempts.is_dir() and any(attempts.iterdir())):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command continues" in err
    assert not (tmp_path / "cut" / "events").exists() and not attempts.exists()


def test_a_missing_scenario_is_one_line(antecast):
    code, _, err = antecast("gone.toml", "--no-spark")
    assert code == 2 and "gone.toml: cannot read" in err


def test_both_charts_are_drawn_with_names_and_limits(antecast, tmp_path):
    """How they look in a browser is tested with the reports."""
    limits = ("--max-latency", "1s", "--max-bytes", "90", "--out", "drawn")
    assert quick(antecast, *limits)[0] == 0
    page = (tmp_path / "drawn" / "report.html").read_text(encoding="utf-8")
    wide = re.findall(r'<svg class="drawn for-wide".*', page)
    assert len(wide) == 2 and wide[0].count('class="dot') == 2
    for text in ("vector, recommended", "--max-latency 1s", "--max-bytes 90"):
        assert f">{text}</text>" in wide[0]


def test_a_node_that_comes_back_under_a_new_number_counts_as_in_a_run(antecast, tmp_path):
    reborn = '[[faults]]\nkind = "rebirth"\nat = "400ms"\nnode = 1\nnumber = 6\n'
    (tmp_path / "office.toml").write_text(SCENARIO + reborn)
    _, out, _ = antecast("office.toml", "--no-spark", "--seeds", 1, "--protocol", "vector", "--json")
    (compared,) = json.loads(out)["protocols"]
    result = run(load_scenario(tmp_path / "office.toml")).judge().summary()
    assert (compared["deliveries"], compared["delivered"]) == (result["deliveries"], result["delivery_ratio"])
    assert result["nodes"] == 5, "number 5 is nobody's"
