"""The papers' experiments as Spark jobs: sweeps, queries on their logs, and our figures beside the papers'.

    from antecast.papers.reproduce import reproduce
    results = reproduce("barrier", quick=True)

Each paper's `study.py` has one function, `study(job) -> Results`, and a table `OPTIONS`. It asks the job for
sweeps and for maps of pure functions over points, both resumable, and turns the tables they give into findings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecast.core.errors import ConfigurationError
from antecast.papers import STUDIES
from antecast.papers.findings import Results
from antecast.papers.full import quick_notes
from antecast.papers.job import Job, Stage
from antecast.papers.output import write_manifest, write_results
from antecast.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reproduce(
    study: str,
    *,
    out: Path | str | None = None,
    quick: bool = False,
    seeds: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Stage], None] | None = None,
) -> Results:
    """Make a study, or what is missing of it, and write its results into its folder.

    `quick` takes small sizes and few seeds; `seeds` is how many runs each figure is the mean of. `options` are
    those of one study, such as `{"trace": "walkers.tr.gz"}` for `barrier`. The folder is `reproductions/NAME`
    (`NAME-quick`) by default; the same call continues where an interrupted one stopped.
    """
    if study not in STUDIES:
        raise ConfigurationError(f"unknown study {study!r}; choose one of {', '.join(STUDIES)}", field="study")
    folder = default_folder(study, quick=quick) if out is None else Path(out)
    module = import_module(f"antecast.papers.{study}.study")
    unknown = set(options or ()) - set(module.OPTIONS)
    if unknown:
        known = ", ".join(module.OPTIONS) or "none"
        raise ConfigurationError(f"study {study} has no such option; it has: {known}", field=min(unknown))
    folder.mkdir(parents=True, exist_ok=True)
    with spark_session(
        f"antecast reproduce {study}", spark=spark, master=master, log=folder / "spark.log"
    ) as session:
        job = Job(session, study, folder.resolve(), quick, seeds, dict(options or {}), on_progress)
        started = time.monotonic()
        try:
            results: Results = module.study(job)
            if quick and not options:
                results = replace(results, notes=[*results.notes, *quick_notes(results)])
            write_results(results, job.folder)
        finally:
            write_manifest(job, seconds=time.monotonic() - started)
    return results


def default_folder(study: str, *, quick: bool) -> Path:
    return Path("reproductions") / (f"{study}-quick" if quick else study)
