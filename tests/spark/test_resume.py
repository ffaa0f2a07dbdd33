"""`antecast sweep` as people run it: killed and interrupted in a process of its own, and on two executors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.spark.folder import SweepFolder
from antecast.spark.sweep import SweepResult, sweep

pytestmark = pytest.mark.spark

STUDY = """
seeds = 2
[scenario]
nodes = 8
duration = "1s"
workload = [{ kind = "poisson", rate = 8.0 }]
network.delay = { kind = "exponential", mean = "40ms" }
[grid]
protocol.name = ["vector", "fifo"]
duration = ["12s", "2s", "1s"]
"""
TIMES = ["wall_seconds", "cpu_seconds"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("study") / "orders.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture(scope="module")
def undisturbed(spark: Any, study: Path, tmp_path_factory: pytest.TempPathFactory) -> SweepResult:
    """The sweep as it should be, made in this process."""
    result = sweep(study, out=tmp_path_factory.mktemp("undisturbed"), spark=spark)
    assert result.complete
    return result


@pytest.fixture
def start(start_process: Any) -> Iterator[Any]:
    """Starts the command; whatever is left of it at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from antecast.cli import main; main()", "sweep", *map(str, arguments)]
        process: subprocess.Popen[str] = start_process(command)
        started.append(process)
        return process

    yield start
    for process in started:
        kill_family(process)


def children(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    found: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(status.parent.name)
            found += [child, *children(child)]
    return found


def kill_family(process: subprocess.Popen[str]) -> None:
    """Kill the driver, then its JVM and workers."""
    family = children(process.pid) if process.poll() is None else []
    for pid in [process.pid, *family] if process.poll() is None else []:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


PATIENCE = 900
"""Seconds after which something has gone wrong, however busy the machine is."""


def wait_for_runs(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    """Until so many runs are finished."""
    deadline = time.monotonic() + PATIENCE
    while len(SweepFolder(folder).finished()) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_same(one: Path, other: Path) -> None:
    """The same runs, byte by byte, and the same table but for the times it took."""
    tables = [pq.read_table(folder / "runs.parquet").drop(TIMES) for folder in (one, other)]
    assert tables[0] == tables[1]
    for name in ("events", "samples"):
        files = [{file.name: file.read_bytes() for file in (folder / name).iterdir()} for folder in (one, other)]
        assert files[0] == files[1]


@pytest.mark.jvm("starts an embedded Spark")
def test_a_driver_killed_in_the_middle_is_resumed_to_the_same_result(
    undisturbed: SweepResult, study: Path, start: Any, antecast: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "disturbed"
    process = start(study, "--out", folder)
    wait_for_runs(process, folder, 1)
    kill_family(process)
    process.communicate()
    kept = SweepFolder(folder).rows()
    assert 1 <= len(kept) < undisturbed.total
    assert not (folder / "runs.parquet").exists()

    code, out, err = antecast("sweep", study, "--out", folder, "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out)["resumed"] == len(kept)
    assert {run: row for run, row in SweepFolder(folder).rows().items() if run in kept} == kept
    assert_same(folder, undisturbed.folder)
    assert {path.name for path in folder.iterdir()} == {
        *(
            ".lock",
            "events",
            "parts",
            "report",
            "report.html",
            "runs.parquet",
            "samples",
            "spark.log",
            "study.json",
        )
    }


@pytest.mark.jvm("starts an embedded Spark")
def test_an_interrupt_exits_with_130_and_says_what_is_kept(study: Path, start: Any, tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    process = start(study, "--out", folder, "--set", "drain=1s")
    wait_for_runs(process, folder, 1)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    finished = len(SweepFolder(folder).finished())
    assert (process.returncode, out) == (130, "")
    assert f"interrupted; {finished} finished runs are kept" in err.replace("\n", " ")
    assert "Traceback" not in err
    assert pq.read_table(folder / "runs.parquet").num_rows == finished


@pytest.mark.jvm("starts a cluster of its own")
def test_two_executors_make_the_same_sweep_as_local_mode(
    undisturbed: SweepResult, study: Path, cluster: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "cluster"
    code, out, err = cluster("result = antecast(*arguments)", tmp_path, "sweep", study, "--out", folder, "--json")
    assert code == 0, (err, out)
    assert_same(folder, undisturbed.folder)
    rows = pa.Table.from_pylist(json.loads(out)["runs"], undisturbed.runs.schema)
    assert rows.drop(TIMES) == undisturbed.runs.drop(TIMES)
    workers = [row["worker"] for row in SweepFolder(folder).rows().values()]
    assert len({worker["executor"] for worker in workers}) == 2
    assert "Traceback" not in err
    assert "WARN" not in err
