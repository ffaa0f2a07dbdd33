"""The GitHub Action: its step audits the files it is given and leaves what the later steps need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from sound_logs import SPANS, otlp, put, shifted

ROOT = Path(__file__).parents[2]


def step(folder: Path, paths: str, **given: str) -> subprocess.CompletedProcess[str]:
    """The step with its inputs as the action hands them on."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "antecast"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m antecast "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {"PATHS": paths, "OUT": "out dir", "GITHUB_OUTPUT": str(folder / "outputs")} | given
    script = ROOT / "tools" / "audit_action.sh"
    return subprocess.run([script], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_step_fails_on_a_violation_and_annotates_it(tmp_path: Path) -> None:
    put(tmp_path, otlp(shifted(SPANS, "c3", -150_000)), "a trace.json")
    done = step(tmp_path, "\n  a trace.json  \n\n", FAIL_ON="violated")
    assert done.returncode == 1, done.stderr
    assert "::error file=a trace.json,line=3,title=child before parent::" in done.stdout
    out = tmp_path / "out dir"
    assert {"report.html", "verdict.json", "junit.xml", "violations.sarif"} <= {
        file.name for file in out.iterdir()
    }
    assert json.loads((out / "violations.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "outputs").read_text() == "verdict=violated\n"
    assert step(tmp_path, "a trace.json", OPTIONS="--skew 1ms", FORMAT="otlp").returncode == 0


def test_options_of_the_action_are_words_over_several_lines_and_in_quotation_marks(tmp_path: Path) -> None:
    put(tmp_path, 'a says 1 {"a":1}\nb says 2 {"b":1, "a":7}\n', "-odd name.log")
    regex = r"--regex '(?<host>\S+) says (?<event>\d+) (?<clock>.*)'"
    done = step(tmp_path, "-odd name.log", OPTIONS=f"{regex}\n--complete none\n")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "outputs").read_text() == "verdict=inconclusive\n"
    assert step(tmp_path, "-odd name.log", OPTIONS=regex).returncode == 1
    done = step(tmp_path, "-odd name.log", OPTIONS="--regex 'open")
    assert done.returncode == 2 and "a quotation mark is open" in done.stderr


def test_a_verdict_of_a_use_before_is_not_the_verdict_of_what_cannot_be_read(tmp_path: Path) -> None:
    put(tmp_path, otlp(SPANS), "t.json")
    assert step(tmp_path, "t.json").returncode == 0
    (tmp_path / "outputs").unlink()
    assert step(tmp_path, "nowhere.json").returncode == 2
    assert not (tmp_path / "outputs").exists() and not (tmp_path / "out dir" / "violations.sarif").exists()
    done = step(tmp_path, " \n")
    assert done.returncode == 2 and done.stderr.startswith("error: paths: ")


def test_the_action_hands_every_input_to_its_step() -> None:
    action, script = (ROOT / "action.yml").read_text(), (ROOT / "tools" / "audit_action.sh").read_text()
    handed = re.findall(r"^ +([A-Z_]+): \$\{\{ inputs\.([a-z-]+) \}\}", action, re.MULTILINE)
    assert {name for _, name in handed} == {"paths", "format", "fail-on", "options", "out"}
    assert all(f"${name}" in script or f"${{{name}" in script for name, _ in handed)
