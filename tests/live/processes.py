"""Live nodes as processes, for tests: started, killed at fault points, started again."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LIMIT = 30.0
"""Seconds that anything may take; a busy machine is slow."""


class Process:
    """One `antecast node`, with its lines read as they come."""

    def __init__(
        self, folder: Path, number: int, *options: str, fault: int | None = None, **environment: str
    ) -> None:
        self.number = number
        command = [sys.executable, "-m", "antecast", "node", "--number", str(number)]
        command += ["--journal", str(folder / f"{number}.journal"), "--json", *options]
        environment = {**os.environ, **environment}
        if fault is not None:
            environment["ANTECAST_FAULT_POINT"] = str(fault)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
        )
        self.delivered: list[dict[str, Any]] = []
        self.said: list[str] = []
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        for stream, take in ((self.process.stdout, self._deliver), (self.process.stderr, self.said.append)):
            threading.Thread(target=self._follow, args=(stream, take), daemon=True).start()

    def _deliver(self, line: str) -> None:
        self.delivered.append(json.loads(line))

    def _follow(self, stream: Any, take: Any) -> None:
        for line in stream:
            take(line.rstrip("\n"))
            self._news.put(None)
        self._news.put(None)

    def until(self, condition: Any) -> None:
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, f"node {self.number}: {self.said} {self.delivered}"
            with suppress(queue.Empty):
                self._news.get(timeout=0.05)

    @property
    def payloads(self) -> list[str]:
        return [row["payload"] for row in self.delivered]

    def address(self) -> str:
        """Where it listens."""
        found: list[str] = []

        def listening() -> bool:
            found[:] = [match[1] for line in self.said if (match := re.search(r"listens on (\S+)$", line))]
            return bool(found) or self.process.poll() is not None

        self.until(listening)
        assert found, self.said
        return found[0]

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it may be dead by now
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()

    def ended(self) -> int:
        return self.process.wait(LIMIT)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
