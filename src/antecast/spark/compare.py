"""Comparisons as sweeps: the runs of every protocol and seed, measured, and the tables made of them.

A comparison is a sweep whose field is `protocol`, so it resumes and fails run by run like one, in the folder of
one (`spark.folder`). A second pass reads each run's log once more for what only a comparison asks
(`measures.json`, by run). Both passes are Spark tasks, or a loop in this process where Spark's start
would take longer than the runs.

    compare.parquet   a row per protocol, those that cannot run with the reason: every number of the page
    latency.parquet   the curves of latency, of each run and of all seeds together
    compare.json      the judgement, and what the page is made of
    candidates/       a file per protocol, with a row for each of its runs
    report.html       the page
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.comparison.candidates import Candidate
from antecast.comparison.demands import Demands
from antecast.comparison.measures import measure
from antecast.comparison.result import Comparison, assemble
from antecast.comparison.stored import write_candidates
from antecast.core.errors import ConfigurationError, OutputError
from antecast.core.settings import parse_duration
from antecast.history.manifest import applications, write_json
from antecast.sim.study import PlannedRun, Study, plan
from antecast.spark.folder import SweepFolder
from antecast.spark.session import cancel_jobs, reason, spark_session, start_jobs
from antecast.spark.sweep import SparkFailed, SweepProgress, sweep
from antecast.spark.task import Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEASURES = "measures.json"
_POLL = 0.25

Measured: TypeAlias = dict[str, Any]
"""The numbers of a run, or its `error`."""


def compare(
    study: Study,
    candidates: Sequence[Candidate],
    demands: Demands,
    *,
    out: Path | str,
    local: bool = False,
    master: str | None = None,
    limits: Limits | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> Comparison:
    """Make the runs that are missing, measure them, and judge. `study` is the `comparison_study` of the
    candidates.

    With `local` everything happens in this process, without Spark.
    """
    planned, folder = plan(study), SweepFolder(out)
    place = folder.store.local
    if place is None:
        raise ConfigurationError(f"{out}: a comparison needs a folder on a disk; sweeps do not", field="--out")
    make = _make_here if local else _make_on_spark
    measured = make(study, planned, folder, master, limits or Limits(), on_progress)
    rows = _rows(planned, folder, measured)
    result = assemble(study, candidates, demands, rows, folder=place)
    write_candidates(place, rows)
    try:
        pq.write_table(result.table, place / "compare.parquet", compression="zstd")
        pq.write_table(result.curves, place / "latency.parquet", compression="zstd")
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=place) from error
    write_json(place / "compare.json", result.plain())
    return result


# Runs.


def _make_on_spark(
    study: Study,
    planned: list[PlannedRun],
    folder: SweepFolder,
    master: str | None,
    limits: Limits,
    on_progress: Callable[[SweepProgress], None] | None,
) -> dict[str, Measured]:
    """The measures of every run that is there."""
    known = _known_measures(folder)
    if not {each.run for each in planned} - folder.finished() and not _unmeasured(planned, folder, known):
        sweep(study, out=folder.store.url, on_progress=on_progress)  # nothing to do but the table
        return known
    import pyspark  # noqa: F401  # that it is missing is told before anything is written

    with folder.claimed(study):
        pass  # the folder is there now, and ours
    log = Path(folder.store.url) / "spark.log"
    with spark_session(f"antecast compare {study.name}", master=master, log=log) as spark:
        sweep(study, out=folder.store.url, spark=spark, limits=limits, on_progress=on_progress)
        fresh = _measure_on_spark(spark, study.name, _unmeasured(planned, folder, known), folder, log)
    return _keep(folder, known | fresh)


def _measure_on_spark(
    spark: SparkSession, name: str, runs: list[str], folder: SweepFolder, log: Path
) -> dict[str, Measured]:
    """Measure runs, one per task; in a thread of its own, so that this one can take interrupts."""
    from pyspark import InheritableThread

    if not runs:
        return {}
    measured: dict[str, Measured] = {}
    failures: list[Exception] = []
    group = f"antecast-compare-{uuid.uuid4().hex}"

    def work() -> None:
        try:
            start_jobs(spark, group, f"compare {name}: measure {len(runs)} runs")
            jobs = spark.range(0, len(runs), 1, numPartitions=len(runs))
            rows = jobs.mapInArrow(_Measuring(folder, runs), "run string, measured string").collect()
            measured.update({row["run"]: json.loads(row["measured"]) for row in rows})
        except Exception as error:
            failures.append(error)

    job = InheritableThread(work, session=spark)
    job.daemon = True
    job.start()
    try:
        while job.is_alive():
            job.join(_POLL)
    except BaseException:
        cancel_jobs(spark, group)
        job.join(10)
        raise
    if failures:
        why = reason(str(failures[0]))
        raise SparkFailed(f"Spark could not measure the runs: {why} (see {log})") from failures[0]
    return measured


@dataclass(frozen=True)
class _Measuring:
    """What travels to the workers."""

    folder: SweepFolder
    runs: list[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                run = self.runs[position]
                measured = json.dumps(measure_run(self.folder, run))
                yield pa.RecordBatch.from_pydict({"run": [run], "measured": [measured]})


def _make_here(
    study: Study,
    planned: list[PlannedRun],
    folder: SweepFolder,
    master: str | None,
    limits: Limits,
    on_progress: Callable[[SweepProgress], None] | None,
) -> dict[str, Measured]:
    """The same, one run after the other."""
    sweep(study, out=folder.store.url, limits=limits, local=True, on_progress=on_progress)
    known = _known_measures(folder)
    fresh = {run: measure_run(folder, run) for run in _unmeasured(planned, folder, known)}
    return _keep(folder, known | fresh)


def measure_run(folder: SweepFolder, run: str) -> Measured:
    """The numbers of a finished run; its error, if it cannot be measured."""
    try:
        parts = folder.parts if run in folder.parts.of else folder.parts.refresh()
        stored = parts.stored(run)
        assert stored is not None
        manifest = json.loads(stored.manifest)
        scenario = manifest["scenario"]
        return measure(
            parts.read(run, "events", ["run", "node", "pos", "t", "kind", "origin", "seq", "bytes"]),
            parts.read(run, "samples"),
            applications=applications(scenario),
            until=parse_duration(scenario["duration"]),
            units=manifest["gauges"],
        )
    except Exception as error:
        return {"error": f"could not be measured: {type(error).__name__}: {error}"}


def _known_measures(folder: SweepFolder) -> dict[str, Measured]:
    """What was measured before."""
    try:
        known: dict[str, Measured] = json.loads(folder.store.read(_MEASURES))
        return known
    except (FileNotFoundError, ValueError):
        return {}


def _keep(folder: SweepFolder, measured: dict[str, Measured]) -> dict[str, Measured]:
    """Write down what could be measured."""
    good = {run: numbers for run, numbers in measured.items() if "error" not in numbers}
    folder.store.write(_MEASURES, (json.dumps(good) + "\n").encode())
    return measured


def _unmeasured(planned: list[PlannedRun], folder: SweepFolder, known: Mapping[str, Measured]) -> list[str]:
    there = folder.finished() - known.keys()
    return [each.run for each in planned if each.run in there]


def _rows(
    planned: list[PlannedRun], folder: SweepFolder, measured: Mapping[str, Measured]
) -> list[dict[str, Any]]:
    """Every run with all that is known of it; `error` is None if it ended well and was measured."""
    known = folder.rows()
    rows = []
    for each in planned:
        row: dict[str, Any] = {"error": None} | known.get(each.run, {"error": "it was not made"})
        if row["error"] is None:
            row |= measured[each.run]
        rows.append(row | {"seed": each.point["seed"], "protocol": each.point["protocol"]["name"]})
    return rows
