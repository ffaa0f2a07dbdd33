"""Comparisons as sweeps: the runs of every protocol and seed, measured, and the tables made of them.

A comparison is a sweep whose field is `protocol`, so it resumes as one, fails run by run as one and lies in the
folder of one (`spark.folder`). A second pass reads each run's log once more for what only a comparison asks
(`compare.json` beside the run's row). Both passes are Spark tasks, or a loop in this process where Spark's start
would take longer than the runs.

    compare.parquet   a row a protocol, those that cannot run with the reason: every number of the page
    latency.parquet   the curves of latency, of each run and of all seeds together
    compare.json      the judgement, and what the page is made of
    candidates/       a file for each protocol, with a row for each of its runs
    report.html       the page
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.comparison.candidates import Candidate
from antecast.comparison.demands import Demands
from antecast.comparison.measures import measure
from antecast.comparison.result import Comparison, assemble
from antecast.comparison.stored import write_candidates
from antecast.core.errors import OutputError
from antecast.core.settings import parse_duration
from antecast.history.log import read_events, read_samples
from antecast.history.manifest import write_json
from antecast.sim.study import PlannedRun, Study, plan
from antecast.spark.folder import SweepFolder
from antecast.spark.session import cancel_jobs, reason, spark_session, start_jobs
from antecast.spark.sweep import SparkFailed, SweepProgress, sweep
from antecast.spark.task import Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEASURES = "compare.json"
_POLL = 0.25


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
    make = _make_here if local else _make_on_spark
    errors = make(study, planned, folder, master, limits or Limits(), on_progress)
    rows = _rows(planned, folder, errors)
    result = assemble(study, candidates, demands, rows, folder=folder.path)
    write_candidates(folder.path, rows)
    try:
        pq.write_table(result.table, folder.path / "compare.parquet", compression="zstd")
        pq.write_table(result.curves, folder.path / "latency.parquet", compression="zstd")
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=folder.path) from error
    write_json(folder.path / "compare.json", result.plain())
    return result


# Runs.


def _make_on_spark(
    study: Study,
    planned: list[PlannedRun],
    folder: SweepFolder,
    master: str | None,
    limits: Limits,
    on_progress: Callable[[SweepProgress], None] | None,
) -> dict[str, str]:
    """Errors of the measurement by run; those of the runs are in their rows."""
    runs = {each.run for each in planned}
    if not runs - folder.finished() and not _unmeasured(planned, folder):
        sweep(study, out=folder.path, on_progress=on_progress)  # nothing to do but the table
        return {}
    with folder.claimed(study):
        pass  # the folder is there now, and ours
    with spark_session(f"antecast compare {study.name}", master=master, log=folder.log) as spark:
        sweep(study, out=folder.path, spark=spark, limits=limits, on_progress=on_progress)
        return _measure_on_spark(spark, study.name, _unmeasured(planned, folder), folder)


def _measure_on_spark(spark: SparkSession, name: str, runs: list[str], folder: SweepFolder) -> dict[str, str]:
    """Measure runs, a task each; in a thread of its own, so that this one can take interrupts."""
    from pyspark import InheritableThread

    if not runs:
        return {}
    errors: dict[str, str] = {}
    failures: list[Exception] = []
    group = f"antecast-compare-{uuid.uuid4().hex}"

    def work() -> None:
        try:
            start_jobs(spark, group, f"compare {name}: measure {len(runs)} runs")
            jobs = spark.range(0, len(runs), 1, numPartitions=len(runs))
            rows = jobs.mapInArrow(_Measuring(folder.runs, runs), "run string, error string").collect()
            errors.update({row["run"]: row["error"] for row in rows if row["error"]})
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
        raise SparkFailed(f"Spark could not measure the runs: {why} (see {folder.log})") from failures[0]
    return errors


@dataclass(frozen=True)
class _Measuring:
    """What travels to the workers."""

    folder: Path
    runs: list[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                run = self.runs[position]
                yield pa.RecordBatch.from_pydict({"run": [run], "error": [measure_run(self.folder / run)]})


def _make_here(
    study: Study,
    planned: list[PlannedRun],
    folder: SweepFolder,
    master: str | None,
    limits: Limits,
    on_progress: Callable[[SweepProgress], None] | None,
) -> dict[str, str]:
    """The same, one run after the other."""
    sweep(study, out=folder.path, limits=limits, local=True, on_progress=on_progress)
    measured = {run: measure_run(folder.runs / run) for run in _unmeasured(planned, folder)}
    return {run: error for run, error in measured.items() if error}


def measure_run(folder: Path) -> str:
    """Measure a finished run and leave the numbers beside its row; the error, if that is not possible."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        scenario = manifest["scenario"]
        joining = [fault["node"] + 1 for fault in scenario["faults"] if fault["kind"] == "join"]
        numbers = measure(
            read_events(folder, ["run", "node", "pos", "t", "kind", "origin", "seq", "bytes"]),
            read_samples(folder),
            applications=max([scenario["nodes"], *joining]),
            until=parse_duration(scenario["duration"]),
            units=manifest["gauges"],
        )
        write_json(folder / _MEASURES, numbers)
    except Exception as error:
        return f"could not be measured: {type(error).__name__}: {error}"
    return ""


def _unmeasured(planned: list[PlannedRun], folder: SweepFolder) -> list[str]:
    there = folder.finished()
    return [
        each.run for each in planned if each.run in there and not (folder.runs / each.run / _MEASURES).is_file()
    ]


def _rows(planned: list[PlannedRun], folder: SweepFolder, errors: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every run with all that is known of it; `error` is None if it ended well and was measured."""
    rows = []
    for each in planned:
        row: dict[str, Any] = {"error": "it was not made"} if (known := folder.row(each.run)) is None else known
        row = {"error": errors.get(each.run)} | row | {"seed": each.point["seed"]}
        row["protocol"] = each.point["protocol"]["name"]
        if row["error"] is None:
            row |= json.loads((folder.runs / each.run / _MEASURES).read_text(encoding="utf-8"))
        rows.append(row)
    return rows
