"""What a benchmark and all of its processes cost: Python, Java and workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SAMPLE_SECONDS = 0.05


_watching = 0.0
"""CPU time of threads that watched, which is no part of what they watched."""


def cpu_seconds() -> float:
    """CPU time of this process and all below it: on a busy machine the clock on the wall says nothing."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(entry.name)
            parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(spent[pid] for pid in ours) / os.sysconf("SC_CLK_TCK") - _watching


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """The largest resident sizes, in MB, of this process, of the JVM and of a Python worker.

    `own` is what this process holds without pages of files, which the system takes back as it needs them.
    """
    peak = {"driver JVM MB": 0.0, "driver Python MB": 0.0, "own MB": 0.0, "worker MB": 0.0}
    done = threading.Event()

    def watch() -> None:
        global _watching
        before = 0.0
        while not done.wait(SAMPLE_SECONDS):
            for name, size in _resident().items():
                peak[name] = max(peak[name], size)
            spent = time.thread_time()
            _watching, before = _watching + spent - before, spent

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _resident() -> dict[str, float]:
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    sizes: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it ended while we looked
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(entry.name)] = int(fields[1])
            names[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
            sizes[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGESIZE") / 1e6
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    workers = [sizes[pid] for pid in ours - {os.getpid()} if "java" not in names[pid]]
    return {
        "driver JVM MB": max((sizes[pid] for pid in ours if "java" in names[pid]), default=0.0),
        "driver Python MB": sizes[os.getpid()],
        "own MB": _own(),
        "worker MB": max(workers, default=0.0),
    }


def _own() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon")), 0.0)
