"""`antecast run` as a user meets it: a process, its output and its exit code."""

import html
import json
import os
import resource
import signal
import subprocess
import sys
import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from commands import antecast, antecast_process

from antecast.cli import run
from antecast.history.log import read_events

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

ENDLESS = """
nodes = 16
duration = "10000h"
[[workload]]
kind = "poisson"
rate = 10.0
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def assert_one_line_of_error(done, *words):
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_a_causal_protocol_ends_well(scenario, tmp_path):
    done = antecast("run", scenario, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("causal order kept by vector")
    latest = tmp_path / "runs" / "latest"
    files = ["events.parquet", "manifest.json", "report", "report.html", "samples.parquet"]
    assert sorted(path.name for path in latest.iterdir()) == files
    manifest = json.loads((latest / "manifest.json").read_text())
    assert manifest["status"] == "complete" and manifest["scenario"]["nodes"] == 4


def test_a_protocol_that_promises_nothing_is_reported_and_not_blamed(scenario, tmp_path):
    done = antecast("run", scenario, "--set", "protocol.name=r-broadcast", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "violated" and summary["counts"]["early"] > 0
    assert "before" in summary["witness"]


def test_a_broken_promise_ends_with_1(scenario, tmp_path):
    """A protocol that claims causal order and does not keep it, registered for the purpose."""
    code = (
        "from dataclasses import replace; from antecast.protocols import *; "
        "register(replace(specification('r-broadcast'), name='liar', guarantees=frozenset(Guarantee))); "
        "from antecast.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "run", str(scenario), "--set", "protocol.name=liar"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "causal order violated by liar, a broken promise (causal, fifo)" in " ".join(done.stdout.split())


def test_the_seed_can_be_chosen_and_the_folder_too(scenario, tmp_path):
    done = antecast("run", scenario, "--seed", 7, "--out", "here", "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert summary["seed"] == 7 and summary["folder"] == "here"
    assert len(read_events(tmp_path / "here")) == summary["events"]


def test_quiet_says_nothing(scenario, tmp_path):
    done = antecast("run", scenario, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("protocol.name=vektor", ["small.toml: protocol.name: unknown protocol 'vektor'; did you mean 'vector'?"]),
        ("netwerk.loss=1", ["small.toml: unknown key 'netwerk'; did you mean 'network'?"]),
        ("network.delay=-1ms", ["small.toml: network: delay: expected a duration of zero or more"]),
        ("network.loss=lots", ["small.toml: network.loss: expected a number, got text"]),
    ],
)
def test_a_wrong_setting_is_one_line(scenario, tmp_path, change, words):
    assert_one_line_of_error(antecast("run", scenario, "--set", change, cwd=tmp_path), *words)
    assert not (tmp_path / "runs").exists()


def test_a_syntax_error_names_its_line(scenario, tmp_path):
    scenario.write_text(SCENARIO + "\nnodes = = 3\n")
    assert_one_line_of_error(antecast("run", scenario, cwd=tmp_path), "small.toml:14: not valid TOML")


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert_one_line_of_error(
        antecast("run", "absent.toml", cwd=tmp_path), "absent.toml: cannot read: No such file"
    )


def test_a_run_folder_that_exists_is_not_written_over(scenario, tmp_path):
    assert antecast("run", scenario, "--out", "here", cwd=tmp_path).returncode == 0
    before = (tmp_path / "here" / "events.parquet").read_bytes()
    again = antecast("run", scenario, "--out", "here", "--seed", 2, cwd=tmp_path)
    assert_one_line_of_error(again, "--out: the run folder here exists already", "--force")
    assert (tmp_path / "here" / "events.parquet").read_bytes() == before
    assert antecast("run", scenario, "--out", "here", "--seed", 2, "--force", cwd=tmp_path).returncode == 0


def test_runs_that_begin_in_the_same_second_have_a_folder_each(start_process, scenario, tmp_path):
    """Each takes its name before it makes its run: two that saw the name free wrote into one folder."""
    command = [sys.executable, "-m", "antecast", "run", scenario, "--json", "--no-report"]
    started = [
        start_process([*command, "--seed", str(seed)], cwd=tmp_path, stdout=subprocess.PIPE) for seed in range(4)
    ]
    summaries = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert len({summary["folder"] for summary in summaries}) == 4
    for summary in summaries:
        manifest = json.loads((tmp_path / summary["folder"] / "manifest.json").read_text())
        assert manifest["run"] == summary["run"] and manifest["events"] == summary["events"]


def test_a_name_once_taken_is_not_given_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stopped = datetime(2026, 1, 1)
    monkeypatch.setattr(run, "datetime", SimpleNamespace(now=lambda: stopped))
    names = []
    for _ in range(3):
        with run._claimed(None, "a b.c") as folder:
            assert folder.is_dir()
            names.append(folder.name)
    assert names == ["20260101-000000-a-b.c", "20260101-000000-a-b.c-2", "20260101-000000-a-b.c-3"]


def test_a_run_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt), run._claimed(None, "mine"):
        raise KeyboardInterrupt
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_file_where_the_folder_should_be_is_refused(scenario, tmp_path):
    (tmp_path / "taken").write_text("mine")
    assert_one_line_of_error(antecast("run", scenario, "--out", "taken", cwd=tmp_path), "taken is a file")
    assert (tmp_path / "taken").read_text() == "mine"


def test_no_room_to_write_is_one_line(scenario, tmp_path):
    """A limit on the size of files stands for a full disk: the system refuses the write in the same way."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    arguments = ["--set", "workload.0.rate=500", "--out", "here"]
    done = antecast_process("run", scenario, *arguments, cwd=tmp_path, preexec_fn=small_files)
    assert_one_line_of_error(done, "here/events.parquet: cannot write: File too large")


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="needs /dev/full")
def test_a_full_device_is_one_line(scenario, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / ".events.parquet.partial").symlink_to("/dev/full")
    done = antecast("run", scenario, "--out", "here", "--force", cwd=tmp_path)
    assert_one_line_of_error(done, "here/events.parquet: cannot write: No space left on device")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_readable_log_and_says_so(start_process, tmp_path, number):
    (tmp_path / "endless.toml").write_text(ENDLESS)
    command = [sys.executable, "-m", "antecast", "run", "endless.toml", "--out", "here"]
    process = start_process(command, cwd=tmp_path)
    partial = tmp_path / "here" / ".events.parquet.partial"
    deadline = time.monotonic() + 60
    while not (partial.exists() and partial.stat().st_size > 1000):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted at" in err and "kept in here" in " ".join(err.split())
    assert out.startswith("causal order kept by vector")
    assert len(read_events(tmp_path / "here")) > 10_000
    assert json.loads((tmp_path / "here" / "manifest.json").read_text())["status"] == "interrupted"


def test_help_lists_the_commands(tmp_path):
    done = antecast("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("run", "protocols", "doctor"):
        assert command in done.stdout


@pytest.mark.parametrize("arguments", [["run"], ["fly"], ["run", "x.toml", "--sideways"]])
def test_wrong_usage_ends_with_2(tmp_path, arguments):
    done = antecast(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_protocols_and_doctor_speak_json(tmp_path):
    listed = json.loads(antecast("protocols", "--json", cwd=tmp_path).stdout)
    assert {"r-broadcast", "fifo", "vector", "vector-changes"} <= {each["name"] for each in listed}
    found = json.loads(antecast("doctor", "--json", cwd=tmp_path).stdout)
    assert {"Python", "Java", "pyspark"} <= {each["what"] for each in found["findings"]}


def test_a_missing_java_is_found_and_its_cure_told(tmp_path):
    done = antecast_process("doctor", cwd=tmp_path, env=os.environ | {"JAVA_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "not found" in done.stdout and "openjdk-17" in done.stdout


def test_notes_on_a_trace_and_on_clocks_are_shown_and_a_run_without_deliveries_is_no_success(tmp_path):
    trace = "1246255230 CONN 0 1 up\n1246255230 CONN 0 1 down\n1246255240 CONN 1 2 up\n1246255260 CONN 1 2 down\n"
    (tmp_path / "trace.one").write_text(trace)
    path = tmp_path / "far.toml"
    path.write_text(
        'protocol = { name = "delta", lifetime = "5s", clock_bound = "1s" }\n'
        'network = { topology = { kind = "contacts", file = "trace.one" } }\n'
        'clocks = { offset = "2s" }\n'
        'workload = [{ kind = "at", broadcasts = [{ t = "1s", node = 0 }] }]\n'
    )
    done = antecast("run", path, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "delta needs clocks within clock_bound" in done.stderr
    assert "note: trace.one: 1 contact without length kept as 1 ns" in done.stderr
    assert "note: trace.one: time 0 of the run is 1246255230 s in the trace" in done.stderr
    assert done.stdout.startswith("nothing to judge")


VCUBE = """
name = "cube"
nodes = 8
duration = "1s"
[protocol]
name = "vcube"
diagnosis = 0
[[workload]]
kind = "poisson"
rate = 3.0
"""


def test_either_engine_can_be_asked_for_and_makes_the_same_run(tmp_path):
    path = tmp_path / "cube.toml"
    path.write_text(VCUBE)
    logs = []
    for engine in ("reference", "compiled"):
        done = antecast("run", path, "--engine", engine, "--no-report", "--out", engine, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"{engine} (asked for)" in done.stdout
        manifest = json.loads((tmp_path / engine / "manifest.json").read_text())
        assert (manifest["engine"], manifest["engine_reason"]) == (engine, "asked for")
        logs.append((tmp_path / engine / "events.parquet").read_bytes())
    assert logs[0] == logs[1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([], "the run is short: about"),
        (
            ["--set", "protocol.diagnosis=1s"],
            "protocol.diagnosis: the compiled engine runs VCube without diagnosis",
        ),
        (["--set", 'protocol={name = "fifo"}'], "there is no compiled one for fifo"),
    ],
)
def test_auto_says_why_it_took_the_reference(tmp_path, changes, why):
    path = tmp_path / "cube.toml"
    path.write_text(VCUBE)
    done = antecast("run", path, *changes, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"reference ({why}" in " ".join(done.stdout.split())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    reason = html.escape(f"reference ({manifest['engine_reason']})", quote=False)
    assert reason in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_an_engine_that_does_not_support_the_scenario_is_refused(scenario, tmp_path):
    done = antecast("run", scenario, "--engine", "compiled", cwd=tmp_path)
    assert_one_line_of_error(done, "protocol.name", "no compiled engine for vector", 'set engine to "auto"')
    assert not (tmp_path / "runs").exists()
