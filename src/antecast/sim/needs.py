"""One rule for protocols on networks that do not meet their needs, in runs, sweeps and comparisons.

A protocol that is named runs, wherever it has a role at all. That its needs are not met is said beforehand and kept
with the results. Its promises of safety are judged as everywhere (`history.promises`), and a comparison does not
count order that was kept as order that was guaranteed. A comparison leaves out protocols that nobody named, and
lists them with what would have to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from antecast.protocols.registry import REMEDIES

if TYPE_CHECKING:
    from antecast.sim.scenario import Scenario


def describe_unmet(scenario: Scenario) -> list[str]:
    """A sentence for each need that is not met."""
    name = scenario.specification.name
    return [
        f"{name} needs {need}, which this network does not have; its promises may break ({REMEDIES[need]})"
        for need in scenario.unmet_needs()
    ]


def describe_unmet_runs(scenarios: Iterable[Scenario]) -> list[str]:
    """The same for the runs of a study, each sentence once, with the number of runs it is true of."""
    lacking: dict[tuple[str, str], int] = {}
    remedies: Mapping[str, str] = {str(need): text for need, text in REMEDIES.items()}
    total = 0
    for scenario in scenarios:
        total += 1
        for need in scenario.unmet_needs():
            key = scenario.specification.name, str(need)
            lacking[key] = lacking.get(key, 0) + 1
    return [
        f"{name} needs {need}, which {count} of {total} runs do not have; its promises may break there"
        f" ({remedies[need]})"
        for (name, need), count in lacking.items()
    ]
