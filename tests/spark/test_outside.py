"""A protocol from outside the tree, in sweeps on Spark: on two executors that have never heard of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from antecast.cli.new import write_package

pytestmark = pytest.mark.spark


def antecast(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", "from antecast.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_a_new_protocol_is_swept_on_a_cluster_and_changed_code_is_swept_anew(
    tmp_path: Path, cluster_logs: None
) -> None:
    package = tmp_path / "my-own"
    write_package("my-own", package)
    work = package / "src"  # where the user stands; executors stand elsewhere
    sweep = [
        *("sweep", "../study.toml", "--out", tmp_path / "swept", "--seeds", "1", "--json"),
        *("--set", "protocol.name=my_own:SPEC", "--set", "duration=2s"),
    ]
    done = antecast(*sweep, "--master", "local-cluster[2,1,1024]", cwd=work)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["runs"]
    assert [(run["error"], run["deliveries"] > 100) for run in first] == [(None, True)] * 3

    file = work / "my_own" / "ordering.py"
    file.write_text(file.read_text().replace("self._delivered[origin] = seq", "self._delivered[origin] = seq + 0"))
    done = antecast(*sweep, "--master", "local[2]", cwd=work)
    assert done.returncode == 0, done.stderr
    second = json.loads(done.stdout)["runs"]
    assert not {run["run"] for run in first} & {run["run"] for run in second}
