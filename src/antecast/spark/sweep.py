"""Sweeps: a study's runs as Spark tasks, resumable at any point.

Theory of operation. What is finished is what lies in the folder (see `folder`), not what a job returned:
the driver submits the runs that are missing, longest first, and looks at the folder while Spark works. Where there
are many, a task makes a batch of short ones, those that will lie in a file together (`folder.stretches`). A job
that fails is submitted again with what is still missing; the
runs of a batch that was killed get tasks of their own. A run whose worker was killed twice may
be the cause, or may have run beside it, so it is set aside and gets its last attempt alone;
if it is killed again it becomes a row with an error like any other run that failed.

At the end parts that are small, or were interrupted, are merged into files of a healthy size (`history.parts`).

A task gets the study and a few numbers, all small, and makes its scenarios from them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from antecast.core.arguments import (
    check_count,
    check_function,
    check_path,
    check_switch,
    check_text,
    check_texts,
    unexpected,
)
from antecast.core.errors import AntecastError, ConfigurationError, LocalMisuse
from antecast.history.merges import Merge, merge
from antecast.history.store import Store
from antecast.protocols.outside import Packed, unpack
from antecast.protocols.registry import pack
from antecast.sim.compiled.choice import choose, has_compiled_engine, prepare
from antecast.sim.needs import describe_runs
from antecast.sim.study import PlannedRun, Study, load_study, make_study, plan
from antecast.spark.folder import (
    SHARED_ATTEMPTS,
    Batch,
    SweepFolder,
    batches_of,
    describe_lost,
    runs_schema,
)
from antecast.spark.here import make_here
from antecast.spark.notebook import notebook_progress
from antecast.spark.session import job_description, reason, spark_session
from antecast.spark.swept import Sweep, read_sweep
from antecast.spark.task import Limits, make_batch
from antecast.spark.watched import run_watched
from antecast.text.wording import plural
from antecast.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkFailed", "Sweep", "SweepProgress", "SweepResult", "default_folder", "read_sweep", "sweep"]

_MERGES_HERE = 4
"""Fewer merges than this are not worth a job."""


class SparkFailed(AntecastError):
    """Spark could not run the jobs of a sweep; what is finished is kept."""


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep has come."""

    total: int
    """Runs of the study."""
    resumed: int
    """Runs that were finished before."""
    finished: int
    """Runs that this call finished."""
    failed: int
    share: float
    """The share of this call's work that is done, by the expected length of its runs."""
    seconds: float
    """Since the first job was submitted."""

    @property
    def done(self) -> int:
        """Runs that need no more work in this call."""
        return self.resumed + self.finished + self.failed

    @property
    def seconds_left(self) -> float | None:
        return self.seconds * (1 - self.share) / self.share if self.share else None


@dataclass(frozen=True, eq=False, repr=False)
class SweepResult:
    """A sweep that has ended."""

    folder: Path | str
    """A path, or the address in an object store."""
    runs: pa.Table
    """One row per run, in the order of the grid: the contents of `runs.parquet`."""
    total: int
    resumed: int
    """Runs that were finished before."""
    failed: int
    """Runs that ended in an error; the next call tries them again."""
    lost: int = 0
    """Runs that were finished before and that the store had lost; this call has made them again."""

    @property
    def complete(self) -> bool:
        """All runs are there and none failed."""
        return self.runs.num_rows == self.total and not self.failed

    @property
    def missing(self) -> int:
        """Runs that are in no part although nothing failed: the store has lost them since they were made."""
        return self.total - int(self.runs.num_rows)

    @property
    def violated(self) -> int:
        """Runs that broke a promise of their protocol."""
        return int(pc.sum(pc.not_equal(self.runs["broken"], "")).as_py() or 0)

    def summary(self) -> dict[str, Any]:
        """How the sweep ended, in plain values; `to_pandas` has its numbers."""
        return {
            "folder": str(self.folder),
            "runs": self.total,
            "resumed": self.resumed,
            "failed": self.failed,
            "lost": self.lost,
            "missing": self.missing,
            "violated": self.violated,
            "complete": self.complete,
        }

    def to_pandas(self) -> Any:
        """A row for each run, as a pandas DataFrame."""
        return self.runs.to_pandas()

    def __repr__(self) -> str:
        ended = f"{self.failed} failed, {self.violated} broke a promise"
        return f"SweepResult({self.total} runs, {ended}, {self.folder})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().head(20).to_html(index=False)}"


def sweep(
    study: Study | Mapping[str, Any] | Path | str,
    *,
    out: Path | str | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    seeds: int | None = None,
    overrides: Sequence[str] = (),
    limits: Limits | None = None,
    local: bool = False,
    on_progress: Callable[[SweepProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> SweepResult:
    """Make the runs of a study that are missing from its folder, and the table of all.

    The study is a TOML file or its values. The folder is `sweeps/NAME` by default, or an address such as
    `s3://bucket/loss`; on a cluster all machines must reach it, and have Antecast. A run that fails is a row with
    its error, and is tried again by the next call. An interrupt stops the jobs, keeps what is finished, and is
    raised again. `on_progress` is called a few times per second, whether anything has changed or not; in a
    notebook, a line below the cell shows progress by default. With `local` the runs are made one after the other
    in this process, without Spark. `on_note` is told, before anything starts, where a network
    does not meet a protocol's needs, and when an engine is being compiled.
    """
    check_path("out", out)
    check_text(master=master)
    check_switch(local=local)
    check_function(on_progress=on_progress, on_note=on_note)
    if not isinstance(limits, Limits | None):
        raise unexpected("limits", limits, "Limits")
    if local and (master is not None or spark is not None):
        raise ConfigurationError("cannot be combined with a local sweep", field="master")
    study = as_study(study, overrides=overrides, seeds=seeds)
    planned = plan(study)
    if on_note is not None:
        for text in describe_runs(planned):
            on_note(text)
    runs_schema(study)  # refuses clashes before anything starts
    on_progress = on_progress or notebook_progress(study.name)
    folder = SweepFolder(default_folder(study) if out is None else out)
    if not local and spark is None and {each.run for each in planned} - folder.finished():
        import pyspark  # noqa: F401  # that it is missing is told before anything is written
    with folder.claimed(study):
        there = folder.finished()
        missing = sorted((each for each in planned if each.run not in there), key=lambda each: -each.steps)
        folder.forget_failures({each.run for each in missing})
        lost = [each.run for each in missing if each.run in folder.lost]
        if lost and on_note is not None:
            on_note(f"{describe_lost(lost, folder.lost)}; made again")
        for protocol in _compiled(study, missing):
            prepare(protocol, on_note)  # once, for all workers
        try:
            if local:
                say = on_progress or (lambda _: None)
                make_here(study, folder, limits or Limits(), planned, missing, say)
            elif missing:
                with (
                    _log_of(folder) as log,
                    spark_session(f"antecast sweep {study.name}", spark=spark, master=master, log=log) as session,
                ):
                    _Driver(session, study, folder, limits or Limits(), planned, missing, on_progress).run()
                    _merge(folder, study, planned, session)
            _merge(folder, study, planned, None)
        finally:
            runs = folder.assemble(study, planned)
    failed = runs.num_rows - runs["error"].null_count
    return SweepResult(folder.path, runs, len(planned), len(planned) - len(missing), failed, len(lost))


@contextmanager
def _log_of(folder: SweepFolder) -> Iterator[Path]:
    """A file for what Spark prints: in the folder, or copied there at the end."""
    if folder.store.local is not None:
        yield folder.store.local / "spark.log"
        return
    with tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        log = Path(scratch) / "spark.log"
        try:
            yield log
        finally:
            if log.is_file():
                folder.store.upload("spark.log", log)


def _merge(folder: SweepFolder, study: Study, planned: list[PlannedRun], spark: SparkSession | None) -> None:
    """Merge what lies in small parts, here or on Spark if that is worth a job."""
    wanted = folder.merges(study, planned)
    there = folder.parts.found.keys()
    missing = [each for each in wanted if each.name not in there]
    if spark is not None:
        if len(missing) < _MERGES_HERE:
            return  # done here, a moment later
        with job_description(spark, f"sweep {study.name}: merge into {len(missing)} files"):
            tasks = spark.range(0, len(missing), 1, numPartitions=len(missing))
            try:
                tasks.mapInArrow(_Merging(folder.store, missing), "name string").collect()
            except Exception:
                return  # done here, a moment later, or it is said here why not
    else:
        for each in missing:
            folder.check_claim()
            merge(folder.store, each)
    if missing or len(there) > len(wanted):
        folder.drop_parts({each.name for each in wanted})


@dataclass(frozen=True)
class _Merging:
    """What travels to the workers to merge parts."""

    store: Store
    merges: list[Merge]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"name": [merge(self.store, self.merges[position])]})


def _compiled(study: Study, runs: Sequence[PlannedRun]) -> list[str]:
    """The protocols of these runs that a compiled engine runs in one of them."""
    likely = (study.scenario_of(each.index) for each in runs if has_compiled_engine(each.protocol))
    return sorted({each.specification.name for each in likely if choose(each).engine == "compiled"})


def as_study(
    study: Study | Mapping[str, Any] | Path | str, *, overrides: Sequence[str] = (), seeds: int | None = None
) -> Study:
    """A study from whatever names one."""
    check_texts("overrides", overrides, "network.loss=0.1")
    check_count("seeds", seeds, least=1)
    if isinstance(study, Study):
        if overrides or seeds is not None:
            raise LocalMisuse("overrides and seeds go into a study when it is made: make_study or load_study")
        return study
    if isinstance(study, Mapping):
        return make_study(study, overrides=overrides, seeds=seeds)
    if isinstance(study, Path | str):
        check_path("study", study)
        return load_study(study, overrides=overrides, seeds=seeds)
    raise unexpected("study", study, "a Study, the path of a TOML file, or a mapping of its values")


def default_folder(study: Study) -> Path:
    return Path("sweeps") / study.name


class _Driver:
    """One call of `sweep`, while its jobs run."""

    def __init__(
        self,
        spark: SparkSession,
        study: Study,
        folder: SweepFolder,
        limits: Limits,
        planned: list[PlannedRun],
        missing: list[PlannedRun],
        on_progress: Callable[[SweepProgress], None] | None,
    ) -> None:
        self._spark = spark
        self._study = study
        self._folder = folder
        self._limits = limits
        self._planned = planned
        self._missing = missing
        self._on_progress = on_progress
        self._started = time.monotonic()
        self._written: set[str] = set()
        """Runs that tasks say are in a part."""

    def run(self) -> None:
        """Submit until every run has ended, well or not, or only those are left that kill their workers."""
        self._report()
        while left := self._unfinished():
            killed = self._folder.killed()
            before = len(left), killed.total()
            error = self._submit(
                [
                    *(Batch(((each.index, each.run),), SHARED_ATTEMPTS) for each in left if killed[each.run] == 1),
                    *batches_of(self._planned, {each.run for each in left if not killed[each.run]}),
                ]
            )
            left, killed = self._unfinished(), self._folder.killed()
            if (len(left), killed.total()) == before:
                if lost := self._folder.settle(self._written) & {each.run for each in left}:
                    raise self._folder.not_kept(f"{plural(len(lost), 'run')}, such as {min(lost)},")
                # No run ended and none was killed: it is not the runs that fail.
                why = "the job did nothing" if error is None else reason(str(error))
                raise SparkFailed(
                    f"Spark could not run the sweep: {why} (see {self._folder.store.where('spark.log')})"
                ) from error
            if all(killed[each.run] >= SHARED_ATTEMPTS for each in left):
                break
        for each in self._unfinished():
            tried = self._folder.attempts(each.run)
            self._submit([Batch(((each.index, each.run),), tried + 1)])
            if each in self._unfinished():
                killed = self._folder.killed()
                problem = (
                    f"its worker was killed {killed[each.run]} times, at last with nothing else running; "
                    "out of memory?"
                )
                self._folder.fail(each.run, {"error": problem, "version": __version__})
        self._report()

    def _unfinished(self) -> list[PlannedRun]:
        ended = self._folder.finished() | self._folder.failed()
        return [each for each in self._missing if each.run not in ended]

    def _submit(self, batches: list[Batch]) -> Exception | None:
        """Run one job with a task per batch to its end; the error, if it failed."""
        runs = sum(len(batch.runs) for batch in batches)
        tasks = _Tasks(self._study, pack(self._study.protocols), self._folder, self._limits, batches)

        def work() -> None:
            jobs = self._spark.range(0, len(batches), 1, numPartitions=len(batches))
            ended = jobs.mapInArrow(tasks, "run string, outcome string").collect()
            self._written.update(row["run"] for row in ended if row["outcome"] == "finished")

        def look() -> None:
            self._folder.check_claim()
            self._report()

        error = run_watched(self._spark, f"sweep {self._study.name}: {runs} runs", work, look)
        self._folder.settle(self._written)  # what is lost all the same is made again
        return error

    def _report(self) -> None:
        if self._on_progress is None:
            return
        finished, failed = self._folder.finished(), self._folder.failed()
        work = sum(1 + each.steps for each in self._missing)
        done = sum(1 + each.steps for each in self._missing if each.run in finished or each.run in failed)
        self._on_progress(
            SweepProgress(
                total=len(self._planned),
                resumed=len(self._planned) - len(self._missing),
                finished=sum(each.run in finished for each in self._missing),
                failed=sum(each.run in failed for each in self._missing),
                share=done / work,
                seconds=time.monotonic() - self._started,
            )
        )


@dataclass(frozen=True)
class _Tasks:
    """What travels to the workers: everything that a task needs, for every task of a job."""

    study: Study
    protocols: Packed
    """The code of those that are not Antecast's own."""
    folder: SweepFolder
    limits: Limits
    batches: list[Batch]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unpack(self.protocols)
        for rows in batches:
            for position in rows.column(0).to_pylist():
                batch = self.batches[position]
                outcomes = make_batch(self.study, batch, self.folder, self.limits)
                yield pa.RecordBatch.from_pydict({"run": [run for _, run in batch.runs], "outcome": outcomes})
