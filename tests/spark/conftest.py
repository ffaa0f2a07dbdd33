"""The studies that tests of this folder sweep, and a killer of their workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
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


@pytest.fixture
def cluster_logs() -> Iterator[None]:
    """Executors of a local cluster keep their logs inside Spark's own installation: take them away again."""
    import pyspark

    work = Path(pyspark.__path__[0]) / "work"
    before = set(work.glob("*"))
    yield
    for folder in set(work.glob("*")) - before:
        shutil.rmtree(folder, ignore_errors=True)
