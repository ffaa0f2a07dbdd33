"""A deterministic simulator: the same scenario and seed make the same run, event by event."""

from antecast.sim.run import RunResult, run
from antecast.sim.scenario import Scenario, load_scenario

__all__ = ["RunResult", "Scenario", "load_scenario", "run"]
