"""When a search ends before it has seen everything."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int, int, int], str | None]
"""Told states, transitions, frontier and depth now and then; a text ends the search, and says why."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a search ends before it has seen everything."""

    states: int | None = None
    memory: int | None = None
    """Bytes, of all processes."""
    seconds: float | None = None
    cpu: float | None = None
    """Seconds of the processor, of all processes: the same search, however busy the machine is."""


@dataclass
class Meter:
    """What the workers of a shared search use, beside this process."""

    cpu: float = 0.0
    busiest: float = 0.0
    """CPU seconds of the busiest of them."""
    memory: int = 0


def stopper(
    limits: Limits,
    progress: Callable[[int, int, int, int], None] | None,
    interrupted: Callable[[], bool],
    meter: Meter,
) -> Progress:
    """Shows the progress, and says when one of the limits is reached."""
    until = None if limits.seconds is None else time.monotonic() + limits.seconds
    spent = None if limits.cpu is None else time.process_time() + limits.cpu

    def stop(states: int, transitions: int, frontier: int, depth: int) -> str | None:
        if progress is not None:
            progress(states, transitions, frontier, depth)
        if interrupted():
            return "interrupted"
        if limits.states is not None and states > limits.states:
            return f"more than {limits.states} states"
        if limits.memory is not None and memory_used() + meter.memory > limits.memory:
            return "memory is used up"
        if until is not None and time.monotonic() > until:
            return f"{limits.seconds:g} s have passed"
        if spent is not None and time.process_time() + meter.cpu > spent:
            return f"{limits.cpu:g} CPU seconds are used up"
        return None

    return stop


def memory_used() -> int:
    """The memory that this process uses, in bytes: where it can be read, what it uses now, so that a search does
    not answer for what was used before it."""
    try:
        pages = int(_IN_USE.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


_IN_USE = Path("/proc/self/statm")
