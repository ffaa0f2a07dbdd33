"""A protocol from outside the tree, in sweeps on Spark: on two executors that have never heard of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antecast.cli.new import write_package

pytestmark = pytest.mark.spark


@pytest.mark.jvm("starts a cluster of its own")
def test_a_new_protocol_is_swept_on_a_cluster_and_changed_code_is_swept_anew(
    tmp_path: Path, cluster: Callable[..., Any]
) -> None:
    package = tmp_path / "my-own"
    write_package("my-own", package)
    work = package / "src"  # where the user stands; executors stand elsewhere
    sweep = [
        *("sweep", "../study.toml", "--out", str(tmp_path / "swept"), "--seeds", "1", "--json"),
        *("--set", "protocol.name=my_own:SPEC", "--set", "duration=2s"),
    ]
    code, out, err = cluster("result = antecast(*arguments)", work, *sweep)
    assert code == 0, err
    first = json.loads(out)["runs"]
    assert [(run["error"], run["deliveries"] > 100) for run in first] == [(None, True)] * 3

    file = work / "my_own" / "ordering.py"
    file.write_text(file.read_text().replace("self._delivered[origin] = seq", "self._delivered[origin] = seq + 0"))
    command = [sys.executable, "-P", "-m", "antecast", *sweep, "--no-spark"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    second = json.loads(done.stdout)["runs"]
    assert not {run["run"] for run in first} & {run["run"] for run in second}
