"""Antecast: causal broadcast for networks that move.

    from antecast import make_scenario, run, audit

    result = run(make_scenario({"nodes": 8, "workload": [{"kind": "poisson", "rate": 1.0}]}))
    print(audit(result))

Names are loaded when they are first used: `import antecast` starts neither Spark nor a compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from antecast.version import __version__

if TYPE_CHECKING:
    from antecast import observer as observer
    from antecast.api import audit as audit
    from antecast.core import AntecastError as AntecastError
    from antecast.history.verdict import Verdict as Verdict
    from antecast.sim.run import RunResult as RunResult
    from antecast.sim.run import run as run
    from antecast.sim.scenario import Scenario as Scenario
    from antecast.sim.scenario import load_scenario as load_scenario
    from antecast.sim.scenario import make_scenario as make_scenario
    from antecast.spark.sweep import sweep as sweep

_HOMES = {
    "AntecastError": "antecast.core",
    "RunResult": "antecast.sim.run",
    "Scenario": "antecast.sim.scenario",
    "Verdict": "antecast.history.verdict",
    "audit": "antecast.api",
    "load_scenario": "antecast.sim.scenario",
    "make_scenario": "antecast.sim.scenario",
    "run": "antecast.sim.run",
    "sweep": "antecast.spark.sweep",
}

_PACKAGES = ("observer",)

__all__ = ["__version__", *_HOMES, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"antecast.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'antecast' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
