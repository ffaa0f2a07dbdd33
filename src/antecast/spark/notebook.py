"""Progress of a sweep in a notebook: one line below the cell, which is written over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antecast.spark.sweep import SweepProgress

_SECONDS = 0.5
"""Between two changes of the line."""


def notebook_progress(name: str) -> Callable[[SweepProgress], None] | None:
    """What shows the progress of a sweep where this is the kernel of a notebook; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")  # a kernel has loaded it
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    line: Any = display(HTML(""), display_id=True)
    due = 0.0

    def show(at: SweepProgress) -> None:
        nonlocal due
        if time.monotonic() < due and at.done < at.total:
            return
        due = time.monotonic() + _SECONDS
        failed = f", {at.failed} failed" if at.failed else ""
        text = f"sweep {name}: {at.resumed + at.finished} of {at.total} runs{failed}"
        line.update(HTML(f'<progress max="1" value="{at.share:.3f}"></progress> {text}'))

    return show
