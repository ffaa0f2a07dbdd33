"""Runs of scenarios, and the experiments of papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecast.api.given import PathLike
from antecast.core.arguments import (
    check_count,
    check_function,
    check_path,
    check_switch,
    check_text,
    check_texts,
    unexpected,
)
from antecast.core.errors import LocalMisuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecast.papers.findings import Results
    from antecast.papers.job import Stage
    from antecast.sim.run import Progress, RunResult
    from antecast.sim.scenario import Scenario


def as_scenario(
    scenario: Scenario | Mapping[str, Any] | PathLike, *, overrides: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """A scenario from whatever names one: a TOML file, plain values, or a scenario made before."""
    import msgspec

    from antecast.sim.scenario import Scenario, load_scenario, make_scenario, override

    check_texts("overrides", overrides, "network.loss=0.1")
    check_count("seed", seed, least=0)
    changes = [*overrides, *(() if seed is None else [f"seed={seed}"])]
    if isinstance(scenario, Scenario):
        if overrides:
            raise LocalMisuse("overrides go into a scenario when it is made: make_scenario or load_scenario")
        return scenario if seed is None else msgspec.structs.replace(scenario, seed=seed)
    if isinstance(scenario, Mapping):
        return make_scenario(override(dict(scenario), changes))
    if isinstance(scenario, Path | str):
        check_path("scenario", scenario)
        return load_scenario(scenario, changes)
    raise unexpected("scenario", scenario, "a Scenario, the path of a TOML file, or a mapping of its values")


def run(
    scenario: Scenario | Mapping[str, Any] | PathLike,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    out: PathLike | None = None,
    replace: bool = False,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> RunResult:
    """Simulate a scenario: a TOML file, plain values, or a `Scenario`.

    `overrides` are texts such as `"network.loss=0.1"`. Without `out` the logs stay in memory; with it they are
    written to that folder, which must not hold anything yet unless `replace` is set. `on_progress` is called now
    and then; when it returns False the run ends early, with everything so far kept and marked as interrupted.
    """
    from antecast.sim.run import run as simulate

    loaded = as_scenario(scenario, overrides=overrides, seed=seed)
    check_path("out", out)
    check_switch(replace=replace)
    check_function(on_progress=on_progress)
    return simulate(loaded, out=out, replace=replace, on_progress=on_progress)


def reproduce(
    study: str,
    *,
    out: PathLike | None = None,
    quick: bool = False,
    seeds: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Stage], None] | None = None,
) -> Results:
    """Make the experiments of a paper on Spark and set our figures beside theirs.

    `study` is barrier, cellular, observer, preventive or vcube. `quick` takes small sizes and few seeds. `options`
    are those of one study, such as `{"trace": "walkers.tr.gz"}` for barrier. The folder is `reproductions/STUDY`
    (`STUDY-quick`) by default; the same call goes on where an interrupted one stopped. `report` makes the page.
    """
    from antecast.papers.reproduce import reproduce as make

    check_text(study=study, master=master)
    check_count("seeds", seeds, least=1)
    check_path("out", out)
    check_switch(quick=quick)
    if not isinstance(options, Mapping | None):
        raise unexpected("options", options, 'a mapping, such as {"trace": "walkers.tr.gz"}')
    check_function(on_progress=on_progress)
    return make(
        study,
        out=out,
        quick=quick,
        seeds=seeds,
        spark=spark,
        master=master,
        options=options,
        on_progress=on_progress,
    )
