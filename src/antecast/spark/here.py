"""The runs of a sweep one after the other in this process: for small studies, or where there is no Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from antecast.sim.study import PlannedRun, Study
from antecast.spark.folder import SweepFolder, batches_of
from antecast.spark.task import Limits, Outcome, make_batch
from antecast.text.wording import plural

if TYPE_CHECKING:
    from antecast.spark.sweep import SweepProgress


def make_here(
    study: Study,
    folder: SweepFolder,
    limits: Limits,
    planned: Sequence[PlannedRun],
    missing: Sequence[PlannedRun],
    say: Callable[[SweepProgress], None],
) -> None:
    """Make the missing runs, and report progress before the first and after each."""
    from antecast.spark.sweep import SweepProgress

    started = time.monotonic()
    work = sum(1 + each.steps for each in missing)
    finished = failed = done = 0

    def report() -> None:
        say(
            SweepProgress(
                total=len(planned),
                resumed=len(planned) - len(missing),
                finished=finished,
                failed=failed,
                share=done / work if work else 1.0,
                seconds=time.monotonic() - started,
            )
        )

    steps = {each.run: each.steps for each in missing}
    written: set[str] = set()

    def ended(run: str, outcome: Outcome) -> None:
        nonlocal finished, failed, done
        if outcome == "finished":
            written.add(run)
        finished, failed = finished + (outcome == "finished"), failed + (outcome != "finished")
        done += 1 + steps[run]
        folder.check_claim()
        report()

    report()
    for batch in batches_of(planned, steps):
        make_batch(study, batch, folder, limits, ended)
    if lost := folder.settle(written):
        raise folder.not_kept(f"{plural(len(lost), 'run')}, such as {min(lost)},")
