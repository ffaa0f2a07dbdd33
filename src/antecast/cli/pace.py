"""How far several studies have come, and how long they still take.

A study does not know beforehand how long its stages take, so it is told: `_QUICK` has the seconds of each stage at
the small size, measured in one sitting on two idle cores. Only their proportions count; the pace is that of this
machine. A stage that was finished before costs nothing and is left out. Where nothing is known (the papers' sizes,
other seeds), the time left is that of the stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from antecast.cli.progress import stretch

if TYPE_CHECKING:
    from antecast.papers.job import Stage

_QUICK = {
    "barrier": {"networks": 2.0, "buses": 40.0, "pedestrians": 111.0},
    "cellular": {"still": 20.0, "walking": 7.0, "faults": 6.0, "footprint": 2.0},
    "observer": {"runs": 9.0, "overhead": 1.0},
    "preventive": {"overlay": 1.0, "large": 1.0, "costs": 1.0},
    "vcube": {"compare": 10.0, "variants": 3.0, "load": 7.0},
}

_TELLING = 0.02
"""The part of the work before which a pace says nothing yet."""


class Pace:
    """Turns the stages of studies into a share of all their work, and words for it."""

    def __init__(
        self, studies: Sequence[str], *, known: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._studies = studies
        self._left = {
            f"{study}: {stage}": seconds
            for study in studies
            for stage, seconds in (_QUICK.get(study, {}) if known else {}).items()
        }
        self._done = 0.0
        self._clock = clock
        self._started = clock()
        self._stage = ""
        self._stage_started = self._started

    def at(self, stage: Stage) -> tuple[float, str]:
        """The share of all work that is done, and how things stand, with the time left."""
        if stage.name != self._stage:
            self._finish(self._stage)
            self._stage, self._stage_started = stage.name, self._clock()
            if stage.share == 1.0:  # it was there before
                self._left.pop(stage.name, None)
        weight = self._left.get(stage.name, 0.0)
        done, all_of_it = self._done + weight * stage.share, self._done + sum(self._left.values())
        place = ""
        if len(self._studies) > 1:
            number = self._studies.index(stage.name.partition(":")[0]) + 1
            place = f"study {number} of {len(self._studies)}, "
        if not all_of_it:
            return stage.share, place + _words(stage.text, self._clock() - self._stage_started, stage.share)
        share = done / all_of_it
        return share, place + _words(stage.text, self._clock() - self._started, share)

    def end(self, study: str) -> None:
        """A study has ended, whatever stages it had."""
        self._finish(self._stage)
        for name in [name for name in self._left if name.startswith(f"{study}: ")]:
            del self._left[name]

    def _finish(self, stage: str) -> None:
        self._done += self._left.pop(stage, 0.0)


def _words(text: str, seconds: float, share: float) -> str:
    if not _TELLING <= share < 1:
        return text
    return f"{text}, about {stretch(seconds * (1 - share) / share)} left"
