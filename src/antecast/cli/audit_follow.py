"""`antecast audit --follow`: what is wrong with a log that still grows, as soon as it is certain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecast.cli.console import out
from antecast.core import OutputError

if TYPE_CHECKING:
    from antecast.auditing.foreign import Request

PAUSE = 0.5
"""Seconds between looks."""


def follow_log(
    paths: Sequence[str],
    request: Request,
    *,
    kinds: dict[str, str],
    window: int,
    state: Path | None,
    until_idle: float | None,
    fail_on: Any,
) -> int:
    """Follow until interrupted, or until nothing came for some seconds; the exit code of the verdict."""
    from antecast.auditing.follow import Follower
    from antecast.auditing.gate import exit_code

    if state is not None and not state.parent.is_dir():
        raise OutputError("no such folder", path=state.parent)
    follower = Follower(paths, request, window=window, state=state, kinds=kinds)
    last = time.monotonic()
    seen = -1
    try:
        while True:
            for finding in follower.poll():
                where = (
                    ""
                    if finding.file is None or finding.file in finding.words
                    else f"{finding.file}:{finding.line}: "
                )
                out.print(f"{finding.kind}: {where}{finding.words}", markup=False, soft_wrap=True)
            if follower.result().seen != seen:
                last, seen = time.monotonic(), follower.result().seen
            if until_idle is not None and time.monotonic() - last >= until_idle:
                break
            time.sleep(PAUSE if until_idle is None else min(PAUSE, max(0.01, until_idle / 4)))
    except KeyboardInterrupt:
        pass
    result = follower.result()
    out.print(str(result), markup=False, soft_wrap=True)
    return exit_code(result.outcome, fail_on)
