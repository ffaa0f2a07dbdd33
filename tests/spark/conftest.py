"""The studies that tests of this folder sweep, a killer of their workers, and a cluster that the tests share."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def study_values() -> dict[str, Any]:
    """Six runs of a few milliseconds; FIFO order breaks causal order now and then and never promised it."""
    return {
        "name": "small",
        "scenario": {
            "nodes": 5,
            "duration": "2s",
            "workload": [{"kind": "poisson", "rate": 3.0}],
            "network": {"delay": {"kind": "exponential", "mean": "60ms"}},
        },
        "grid": {"protocol.name": ["vector", "fifo"]},
        "seeds": 3,
    }


@pytest.fixture
def killer() -> Iterator[Callable[[Path, str, int], threading.Thread]]:
    """Starts a thread that kills the worker of a run as soon as an attempt at it shows, so many times."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def start(folder: Path, run: str, times: int) -> threading.Thread:
        def kill() -> None:
            seen, known = 0, set[Path]()
            while seen < times and not stop.is_set():
                for file in set((folder / ".attempts").glob(f"{run}.*.json")) - known:
                    known.add(file)
                    seen += 1
                    os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
                time.sleep(0.01)

        threads.append(threading.Thread(target=kill, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    stop.set()
    for thread in threads:
        thread.join(5)


_CLUSTER = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from antecast.cli import main
from antecast.spark.session import start_session

def antecast(folder, *arguments):
    os.chdir(folder)
    sys.argv = ["antecast", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), err.getvalue()

spark = start_session("cluster", master="local-cluster[2,1,1024]", log=Path("spark.log").resolve())
for line in sys.stdin:
    code, arguments = json.loads(line)
    names = {"spark": spark, "antecast": antecast, "arguments": arguments}
    exec(code, names)
    print(json.dumps(names["result"]), flush=True)
spark.stop()
"""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Two executors on this machine, driven by a process of their own: it runs code, and says what `result` is.

    The code finds the session as `spark`, what comes with it as `arguments`, and `antecast(folder, …)`, which runs
    the command in that folder: exit code, standard output, standard error. Three JVMs start for it, so all tests
    share it.
    """
    import pyspark

    # Executors keep their logs inside Spark's own installation.
    work = Path(pyspark.__path__[0]) / "work"
    before = set(work.glob("*"))
    folder = tmp_path_factory.mktemp("cluster")
    errors = (folder / "errors").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _CLUSTER],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None

    def run(code: str, *arguments: object) -> Any:
        process.stdin.write(json.dumps([code, [str(each) for each in arguments]]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, (folder / "errors").read_text()[-2000:]
        return json.loads(answer)

    yield run
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    errors.close()
    for each in set(work.glob("*")) - before:
        shutil.rmtree(each, ignore_errors=True)
