"""Engines compiled ahead: by a process of its own, while Spark starts and the first study runs.

A study compiles what its runs use before they start, and its workers wait for that. Where several studies follow
each other, the later ones find their engines on disk.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def compiled_ahead(studies: Sequence[str]) -> Iterator[None]:
    """In this block, what all but the first of some studies use is being compiled."""
    later = [name for name in studies[1:] if _warm_up(name) is not None]
    if not later:
        yield
        return
    command = [sys.executable, "-m", "antecast.papers.ahead", *later]
    nothing = subprocess.DEVNULL  # a study whose engine is not there says itself what is wrong
    compiling = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        yield
    finally:
        compiling.terminate()
        compiling.wait()


def _warm_up(study: str) -> Callable[[], None] | None:
    found: Callable[[], None] | None = getattr(import_module(f"antecast.papers.{study}.study"), "warm_up", None)
    return found


def main(studies: Sequence[str]) -> None:
    for name in studies:
        if warm_up := _warm_up(name):
            warm_up()


if __name__ == "__main__":
    main(sys.argv[1:])
