"""What a study works with: sweeps of scenarios, maps of functions over points, and progress.

Both are resumable by the same rule as sweeps: what is finished is what lies in the folder. A point of a map is
named by a hash of the function, the point and the code, so a changed point or a changed program makes it anew.
"""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import antecast
from antecast.core.errors import AntecastError, OutputError
from antecast.history.manifest import write_json
from antecast.sim.compiled.choice import prepare
from antecast.sim.identity import code_version, digest_of
from antecast.sim.study import describe, make_study
from antecast.spark.sweep import Sweep, SweepProgress, read_sweep, sweep
from antecast.spark.watched import run_watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Point: TypeAlias = Mapping[str, Any]
Experiment: TypeAlias = Callable[..., Mapping[str, Any]]
"""A pure function of a point's values, at the top of a module so that workers find it; plain values come out."""


@dataclass(frozen=True)
class Stage:
    """How far a study has come."""

    name: str
    share: float
    """Of this stage, from 0 to 1."""
    text: str


class StudyFailed(AntecastError):
    """Runs of a study failed, so its figures cannot be made; what is finished is kept."""


@dataclass(frozen=True)
class Job:
    spark: SparkSession
    study: str
    folder: Path
    quick: bool
    seeds: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    on_progress: Callable[[Stage], None] | None = None

    def say(self, name: str, share: float, text: str) -> None:
        if self.on_progress is not None:
            self.on_progress(Stage(name, share, text))

    def runs(self, *, quick: int, full: int) -> int:
        """How many seeds to take: the user's number, or the study's own for the size."""
        return self.seeds or (quick if self.quick else full)

    def sweep(self, values: Mapping[str, Any]) -> Sweep:
        """Make a sweep in a folder of its own, and read its tables. `values` are those of a study's TOML."""
        study = make_study(values)
        stage = f"{self.study}: {study.name}"

        def progress(at: SweepProgress) -> None:
            self.say(stage, at.share, f"{at.resumed + at.finished} of {at.total} runs")

        folder = self.folder / study.name
        result = sweep(study, out=folder, spark=self.spark, on_progress=progress)
        if result.failed:
            rows = [row for row in result.runs.to_pylist() if row["error"] is not None]
            raise StudyFailed(f"{len(rows)} of {result.total} runs of {stage} failed; first: {rows[0]['error']}")
        if result.violated:
            raise StudyFailed(f"{result.violated} runs of {stage} broke an order they promise; see {folder}")
        self.say(stage, 1.0, "runs are there; making figures")
        return read_sweep(self.spark, folder)

    def map(
        self,
        name: str,
        function: Experiment,
        points: Sequence[Point],
        *,
        engines: Sequence[str] = (),
        smallest: Point | None = None,
    ) -> pa.Table:
        """The function's values at all points, beside the points themselves; one Spark task per point.

        What is compiled when it is first used is compiled here, before the tasks start, and not by each worker:
        `engines` are protocols whose compiled engines the function uses, `smallest` a point at which it uses all
        its other kernels.
        """
        folder = self.folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot create the folder: {error.strerror}", path=folder) from error
        files = [folder / f"{_identity(function, point)}.json" for point in points]
        missing = [index for index, file in enumerate(files) if not file.is_file()]
        stage = f"{self.study}: {name}"
        if missing:
            for protocol in engines:
                prepare(protocol, lambda text: self.say(stage, 0.0, text))
            if smallest is not None:
                function(**smallest)
            work = _Work(function, [(dict(points[index]), files[index]) for index in missing])
            self._submit(stage, work, [points[index] for index in missing], len(points))
        found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        self.say(stage, 1.0, "points are there; making figures")
        return pa.Table.from_pylist([{**point, **row} for point, row in zip(points, found, strict=True)])

    def _submit(self, stage: str, work: _Work, points: Sequence[Point], total: int) -> None:
        """One job with a task per point; how far it is shows in the folder."""
        rows: list[Any] = []

        def submit() -> None:
            parts = self.spark.range(0, len(points), 1, numPartitions=len(points))
            rows.extend(parts.mapInArrow(work, "index long, error string").collect())

        def look() -> None:
            done = total - len(points) + sum(file.is_file() for _, file in work.points)
            self.say(stage, done / total, f"{done} of {total} points")

        problem = run_watched(self.spark, f"{stage}: {len(points)} points", submit, look)
        if problem is not None:
            raise problem
        look()
        failures = [(row["index"], row["error"]) for row in rows if row["error"] is not None]
        if failures:
            index, error = failures[0]
            where = describe(points[index])
            raise StudyFailed(f"{len(failures)} points of {stage} failed; first ({where}): {error}")


def _identity(function: Experiment, point: Point) -> str:
    folder = Path(inspect.getfile(function)).parent
    what = [f"{function.__module__}.{function.__qualname__}", point, code_version(), _measuring(folder)]
    return blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=8).hexdigest()


_TELLING = frozenset({"judgement.py", "statements.py", "study.py", "stories.py"})
"""Modules beside the function that say what its values mean: a change in them makes nothing anew."""


@cache
def _measuring(folder: Path) -> list[str]:
    """Digests of the code that measures: the modules beside the function, the metrics of logs, the observers."""
    package = Path(antecast.__file__).parent
    beside = [file for file in folder.glob("*.py") if file.name not in _TELLING]
    shared = [file for name in ("history", "observer") for file in (package / name).glob("*.py")]
    return [digest_of(beside, folder), digest_of(shared, package)]


@dataclass(frozen=True)
class _Work:
    """What travels to the workers."""

    function: Experiment
    points: list[tuple[dict[str, Any], Path]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict(
                    {"index": pa.array([index], pa.int64()), "error": pa.array([self._make(index)], pa.string())}
                )

    def _make(self, index: int) -> str | None:
        """Make one point; its error becomes a value, since an exception would fail all of the job."""
        point, file = self.points[index]
        try:
            write_json(file, self.function(**point))
        except Exception as error:
            traceback.print_exc()  # into Spark's log
            return f"{type(error).__name__}: {error}"
        return None
