"""Fault points: places, numbered as a process passes them, at which a test kills it.

Every step of a journal write and every boundary of a frame is a point. With `ANTECAST_FAULT_POINT=7` the process
kills itself (SIGKILL, so nothing is cleaned up) at the seventh point that it passes. With
`ANTECAST_FAULT_TRACE=FILE` it writes the name of each point to a file as it passes it, so that a test knows how
many there are. Without either,
`armed` is None and a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

POINT: Final = "ANTECAST_FAULT_POINT"
TRACE: Final = "ANTECAST_FAULT_TRACE"

armed: Callable[[str], None] | None = None
"""Called at each point with its name; None if nobody waits for one."""


class Points:
    """Counts the points, and kills the process at one of them."""

    def __init__(self, fatal: int | None, trace: Path | None = None) -> None:
        self.passed = 0
        self._fatal = fatal
        self._lock = threading.Lock()  # the event loop and the journal's thread pass points side by side
        self._trace = None if trace is None else os.open(trace, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def __call__(self, name: str) -> None:
        with self._lock:
            self.passed += 1
            if self._trace is not None:
                os.write(self._trace, f"{self.passed} {name}\n".encode())
            if self.passed == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)


def arm_from_environment() -> None:
    """Called once by programs that run a node."""
    global armed
    fatal, trace = os.environ.get(POINT), os.environ.get(TRACE)
    if fatal or trace:
        armed = Points(int(fatal) if fatal else None, Path(trace) if trace else None)


def write_in_steps(packets: list[bytes], write: Callable[[bytes], None], point: Callable[[str], None]) -> None:
    """Each frame on its own, so that a process can be killed at each boundary and in the middle."""
    for packet in packets:
        point("frame begin")
        data = len(packet).to_bytes(4, "big") + packet
        half = len(data) // 2
        write(data[:half])
        point("frame half sent")
        write(data[half:])
        point("frame sent")


def take_in_steps(packets: list[bytes], take: Callable[[bytes], None], point: Callable[[str], None]) -> None:
    """Each frame on its own, so that a process can be killed before and after it."""
    for packet in packets:
        point("frame arrived")
        take(packet)
        point("frame taken")
