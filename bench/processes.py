"""What a benchmark and all of its processes cost: Python, Java and workers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

SAMPLE_SECONDS = 0.05


_INTERVAL = 0.1
"""Seconds between looks at the processes: so much of a process that ended may be missing."""

_watching = 0.0
"""CPU time of threads that watched, which is no part of what they watched."""


class _Account:
    """CPU time of this process and of all that were ever below it.

    A process counts its children once it has waited for them. The daemon that forks Spark's Python workers ignores
    them when they end, so the time of a worker is lost with it; here it is what was last seen.
    """

    def __init__(self) -> None:
        self._spent: dict[tuple[int, int], int] = {}
        """Clock ticks by process number and start, since numbers are given again."""
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        global _watching
        before = 0.0
        while True:
            self.look()
            spent = time.thread_time()
            _watching, before = _watching + spent - before, spent
            time.sleep(_INTERVAL)

    def look(self) -> float:
        with self._lock:
            parents: dict[tuple[int, int], int] = {}
            ticks: dict[tuple[int, int], int] = {}
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    except OSError:
                        continue  # it ended while we looked
                    process = int(entry.name), int(fields[19])
                    parents[process], ticks[process] = int(fields[1]), sum(map(int, fields[11:13]))
            ours = {os.getpid()} | {pid for pid, start in parents.keys() & self._spent.keys()}
            while more := {pid for (pid, _), parent in parents.items() if parent in ours} - ours:
                ours |= more
            self._spent |= {process: each for process, each in ticks.items() if process[0] in ours}
            return sum(self._spent.values()) / os.sysconf("SC_CLK_TCK")


_account = cache(_Account)


def cpu_seconds() -> float:
    """CPU time of this process and all below it: on a busy machine the clock on the wall says nothing.

    From the first call on, it includes those that have ended.
    """
    return _account().look() - _watching


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
                text, program = (entry / "stat").read_text(), (entry / "exe").readlink().name
            except OSError:
                continue  # it ended while we looked
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(entry.name)] = int(fields[1])
            names[int(entry.name)] = program  # a child that Java has just forked is Java still, and as large
            sizes[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGESIZE") / 1e6
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    workers = [sizes[pid] for pid in ours - {os.getpid()} if names[pid] != "java"]
    return {
        "driver JVM MB": max((sizes[pid] for pid in ours if names[pid] == "java"), default=0.0),
        "driver Python MB": sizes[os.getpid()],
        "own MB": _own(),
        "worker MB": max(workers, default=0.0),
    }


def _own() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("RssAnon")), 0.0)
