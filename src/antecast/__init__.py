"""Antecast: causal broadcast for networks that move.

    from antecast import make_scenario, run, audit

    result = run(make_scenario({"nodes": 8, "workload": [{"kind": "poisson", "rate": 1.0}]}))
    print(audit(result))

Names are loaded when they are first used: `import antecast` starts neither Spark nor a compiler.
"""

from antecast.version import __version__

TYPE_CHECKING = False  # type checkers take it for true; `typing` would be most of the time to load this module
if TYPE_CHECKING:
    from typing import Any

    from antecast import observer as observer
    from antecast.api import audit as audit
    from antecast.api import compare as compare
    from antecast.api import report as report
    from antecast.api import reproduce as reproduce
    from antecast.api import run as run
    from antecast.comparison.result import Comparison as Comparison
    from antecast.core import AntecastError as AntecastError
    from antecast.core import ConfigurationError as ConfigurationError
    from antecast.core import InputError as InputError
    from antecast.core import LocalMisuse as LocalMisuse
    from antecast.core import OutputError as OutputError
    from antecast.core import RemoteFault as RemoteFault
    from antecast.history.rows import BrokenLog as BrokenLog
    from antecast.history.verdict import Verdict as Verdict
    from antecast.protocols import register as register
    from antecast.protocols import specification as specification
    from antecast.protocols import specifications as specifications
    from antecast.sim.run import RunResult as RunResult
    from antecast.sim.scenario import Scenario as Scenario
    from antecast.sim.scenario import load_scenario as load_scenario
    from antecast.sim.scenario import make_scenario as make_scenario
    from antecast.spark.sweep import SweepResult as SweepResult
    from antecast.spark.sweep import sweep as sweep

_HOMES = {
    name: home
    for home, names in {
        "antecast.api": ("audit", "compare", "report", "reproduce", "run"),
        "antecast.comparison.result": ("Comparison",),
        "antecast.core": (
            *("AntecastError", "ConfigurationError", "InputError"),
            *("LocalMisuse", "OutputError", "RemoteFault"),
        ),
        "antecast.history.rows": ("BrokenLog",),
        "antecast.history.verdict": ("Verdict",),
        "antecast.protocols": ("register", "specification", "specifications"),
        "antecast.sim.run": ("RunResult",),
        "antecast.sim.scenario": ("Scenario", "load_scenario", "make_scenario"),
        "antecast.spark.sweep": ("SweepResult", "sweep"),
    }.items()
    for name in names
}

_PACKAGES = ("observer",)

__all__ = ["__version__", *_HOMES, *_PACKAGES]


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"antecast.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'antecast' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
