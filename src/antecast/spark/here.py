"""The runs of a sweep one after the other in this process: for small studies, or where there is no Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from antecast.sim.study import PlannedRun, Study
from antecast.spark.folder import SweepFolder
from antecast.spark.task import Limits, make_run

if TYPE_CHECKING:
    from antecast.spark.sweep import SweepProgress


def make_here(
    study: Study,
    folder: SweepFolder,
    limits: Limits,
    missing: Sequence[PlannedRun],
    say: Callable[[SweepProgress], None],
    *,
    total: int,
) -> None:
    """Make runs that are missing, and say how far it is before the first and after each."""
    from antecast.spark.sweep import SweepProgress

    started = time.monotonic()
    work = sum(1 + each.steps for each in missing)
    finished = failed = done = 0

    def report() -> None:
        say(
            SweepProgress(
                total=total,
                resumed=total - len(missing),
                finished=finished,
                failed=failed,
                share=done / work if work else 1.0,
                seconds=time.monotonic() - started,
            )
        )

    report()
    for each in missing:
        outcome = make_run(study, each.index, each.run, folder, limits, most_attempts=1)
        finished, failed = finished + (outcome == "finished"), failed + (outcome != "finished")
        done += 1 + each.steps
        report()
