"""One rule for protocols on networks that do not meet their needs, in runs, sweeps and comparisons.

A protocol that is named runs, wherever it has a role at all. That its needs are not met is said beforehand and
kept with the results. Its promises of safety are judged as everywhere (`history.promises`), and a comparison
does not count order that was kept as order that was guaranteed. A comparison leaves out protocols that nobody
named, and lists them with what would have to change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from antecast.protocols import Need
from antecast.protocols.registry import REMEDIES

if TYPE_CHECKING:
    from antecast.sim.scenario import Scenario
    from antecast.sim.study import PlannedRun


def unmet_words(protocol: str, need: Need) -> str:
    """That a need is not met, and what would meet it."""
    return f"{protocol} needs {need}, which this network does not have; its promises may break ({REMEDIES[need]})"


def describe_unmet(scenario: Scenario) -> list[str]:
    """A sentence for each need that a scenario does not meet."""
    return [unmet_words(scenario.specification.name, need) for need in scenario.unmet_needs()]


def describe_runs(planned: Sequence[PlannedRun]) -> list[str]:
    """The same for the runs of a study, each sentence once, with the number of runs it is true of; and their
    faults that do nothing."""
    remedies = {str(need): text for need, text in REMEDIES.items()}
    lacking = Counter((each.protocol, need) for each in planned for need in each.unmet)
    return [
        f"{name} needs {need}, which {count} of {len(planned)} runs do not have; its promises may break there"
        f" ({remedies[need]})"
        for (name, need), count in lacking.items()
    ] + list(dict.fromkeys(text for each in planned for text in each.remarks))
