"""The folder of a sweep, on this disk or in an object store: what lies where, and what can be relied on.

    study.json      what the study is, so that another one is not mixed into it, and the layout
    runs.parquet    one row per run, in the order of the grid
    events/, samples/, parts/   the runs themselves (`history.parts`)
    failed/RUN.json a run that failed, until it is tried again
    runs/RUN/       a run taken out of its part for a report
    spark.log       what Spark and its workers printed
    .claims/        who is at work here (`spark.claim`)
    .attempts/      an object for each batch of runs that a task is at

Rules:
1. A run is there when its part is. Nothing is renamed, so this holds on any store (`history.store`).
2. A batch leaves an object before it starts and takes it away when it ends, well or not. Those that are left tell
   which batches were killed.
3. One driver at a time.
4. A run that a task has written must be seen in the store, and a part must be seen before what it was made of is
   taken away. A listing that comes late is waited for; a store that has lost what it took is named.

No Spark in here.
"""

from __future__ import annotations

import io
import json
import os
import platform
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.history.manifest import git_revision
from antecast.history.merges import Merge, plan_merges
from antecast.history.parts import LAYOUT, TABLES, Parts, list_parts
from antecast.history.store import Store
from antecast.sim.study import PlannedRun, Study, column_name
from antecast.spark.claim import Claim, claimed
from antecast.text.wording import plural
from antecast.version import __version__

MEASURED: Mapping[str, pa.DataType] = {
    "version": pa.string(),
    "wall_seconds": pa.float64(),
    "cpu_seconds": pa.float64(),
    "verdict": pa.string(),
    "promised": pa.bool_(),
    "broken": pa.string(),
    "unmet_needs": pa.string(),
    "early": pa.int64(),
    "late": pa.int64(),
    "duplicates": pa.int64(),
    "before_broadcast": pa.int64(),
    "unknown": pa.int64(),
    "ended_ns": pa.int64(),
    "steps": pa.int64(),
    "events": pa.int64(),
    "broadcasts": pa.int64(),
    "deliveries": pa.int64(),
    "delivery_ratio": pa.float64(),
    "frames": pa.int64(),
    "dropped_frames": pa.int64(),
    "lost_frames": pa.int64(),
    "bytes": pa.int64(),
    "control_bytes": pa.int64(),
    "frames_per_delivery": pa.float64(),
    "control_bytes_per_broadcast": pa.float64(),
    "latency_min_ns": pa.float64(),
    "latency_mean_ns": pa.float64(),
    "latency_stdev_ns": pa.float64(),
    "latency_p5_ns": pa.float64(),
    "latency_p25_ns": pa.float64(),
    "latency_p50_ns": pa.float64(),
    "latency_p75_ns": pa.float64(),
    "latency_p95_ns": pa.float64(),
    "latency_p99_ns": pa.float64(),
    "latency_max_ns": pa.float64(),
    "error": pa.string(),
}
"""The columns of `runs` after index, run, the varied fields and the seed; `docs/sweeps.md` explains them."""


SHARED_ATTEMPTS = 2
"""Attempts at a run among others before it is set aside; it has one more, alone."""

_FEW_TASKS = 200
_RUNS_PER_TASK = 64
_LEAST_STEPS = 400_000
"""Steps worth a task of several runs: a second or two."""

_SETTLING = (0.2, 0.5, 1, 2, 4, 8, 16)
"""Seconds between looks for what was written and is not listed."""

_BEFORE = (".lock", ".claims")
"""What is there before `study.json` is."""


@dataclass(frozen=True)
class Batch:
    """Runs that one task makes: index and name of each."""

    runs: tuple[tuple[int, str], ...]
    most_attempts: int = 1
    """A batch that was killed as often is left to the driver."""

    @property
    def name(self) -> str:
        """A run that is alone gives its batch its name."""
        return self.runs[0][1] if len(self.runs) == 1 else f"{self.runs[0][1]}+{len(self.runs) - 1}"


def batches_of(planned: Sequence[PlannedRun], runs: Collection[str]) -> list[Batch]:
    """Some of the runs of a study in batches of those that lie together, those with most work first."""
    found = [[each for each in stretch if each.run in runs] for stretch in stretches(planned)]
    found.sort(key=lambda batch: -sum(1 + each.steps for each in batch))
    return [
        Batch(tuple((each.index, each.run) for each in batch), SHARED_ATTEMPTS if len(batch) == 1 else 1)
        for batch in found
        if batch
    ]


def stretches(planned: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """Runs that a task makes one after the other, and that lie in a file together: neighbours of the grid.

    A run has a task of its own as long as there are few. Of many, short ones make up stretches of about the same
    work, enough of it to be worth a task and a file, and no more of them than many.
    """
    if len(planned) <= _FEW_TASKS:
        return [[each] for each in planned]
    tasks = max(_FEW_TASKS, len(planned) // _RUNS_PER_TASK)
    share = max(_LEAST_STEPS, sum(1 + each.steps for each in planned) / tasks)
    found: list[list[PlannedRun]] = [[]]
    work = 0.0
    for each in planned:
        if work + each.steps > share and found[-1]:
            found.append([])
            work = 0
        found[-1].append(each)
        work += 1 + each.steps
    return found


class SweepFolder:
    """A sweep in its store. It travels to the workers, too."""

    def __init__(self, place: Path | str | Store) -> None:
        self.store = Store(place)
        self.path: Path | str = self.store.local or self.store.url
        self.token: str | None = None
        """The driver's claim, which its tasks look at."""
        self.parts = Parts(self.store)
        self.lost: dict[str, str] = {}
        """Runs that were finished before the folder was claimed, and that the store has lost; what is wrong."""
        self._claim: Claim | None = None

    def __getstate__(self) -> tuple[Store, str | None]:
        return self.store, self.token

    def __setstate__(self, state: tuple[Store, str | None]) -> None:
        self.__init__(state[0])  # type: ignore[misc]
        self.token = state[1]

    # The driver's side.

    @contextmanager
    def claimed(self, study: Study) -> Iterator[None]:
        """Hold the folder for this study: made if it is not there, refused if it is another study's."""
        self.check(study)
        if self.store.local is not None:
            try:
                self.store.local.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot create the folder: {error.strerror}", path=self.path) from error
        with claimed(self.store) as claim:
            self.token, self._claim = claim.token, claim
            about = json.dumps(_about(study), indent=2) + "\n"
            self.store.write("study.json", about.encode())
            self.lost = self.lost_runs()
            self._tidy()
            try:
                yield
            finally:
                self.token = self._claim = None
                if claim.stands:
                    self._tidy()
                    for folder in (".attempts", "failed", "events", "samples", "parts"):
                        self.store.remove_if_empty(folder)

    def check_claim(self) -> None:
        """Raise if the folder may be another driver's by now."""
        if self._claim is not None:
            self._claim.check()

    def check(self, study: Study) -> None:
        """Refuse a folder that holds anything but this study."""
        place = self.store.where("study.json")
        if self.store.local is None:
            self.store.list("")  # a store that refuses to list says why; one that refuses to look does not
        elif self.store.local.is_file():
            problem = f"{self.store.where()} is a file, and not the folder of a sweep; name another"
            raise ConfigurationError(problem, field="--out")
        try:
            about = json.loads(self.store.read("study.json"))
            known = about["study"]
        except FileNotFoundError:
            if not self.store.is_empty(but=_BEFORE):  # who was killed early left these
                problem = f"{self.store.where()} exists and is not the folder of a sweep; name another"
                raise ConfigurationError(problem, field="--out") from None
            return
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"not readable ({error})", path=place) from None
        if (layout := about.get("layout", 1)) != LAYOUT:
            made = f"a sweep of layout {layout}, made by version {about.get('version')}"
            problem = (
                f"{self.store.where()} holds {made}; this version writes layout {LAYOUT}: name another folder"
            )
            raise ConfigurationError(problem, field="--out")
        ours = json.loads(json.dumps(study.identity()))
        if different := [key for key in ours if known.get(key) != ours[key]]:
            where = self.store.where()
            problem = f"{where} holds another study (its {different[0]} is another); name another folder"
            raise ConfigurationError(problem, field="--out")

    def _tidy(self) -> None:
        """Nobody else is at work here: attempts are of processes that died, and so are tables without a marker.

        A task that outlived its driver may be at work all the same. Tables are listed before the markers, so those
        of a part that is finished meanwhile stay; a marker that comes even later has lost its tables, and says
        nothing.
        """
        tables = {table: list_parts(self.store, table) for table in TABLES}
        parts = self.parts.refresh()
        for table, names in tables.items():
            self.store.delete(*(f"{table}/{name}.parquet" for name in names if name not in parts.found))
        self.store.delete(*(f"parts/{name}.parquet" for name in parts.damaged))
        self.store.delete(*(f".attempts/{name}" for name in self.store.list(".attempts")))

    def finished(self) -> set[str]:
        return set(self.parts.refresh().of)

    def lost_runs(self) -> dict[str, str]:
        """Runs that were finished once, by a marker or by the table of all, and are not there; what is wrong."""
        lost = self.parts.refresh().lost()
        try:
            columns = ["run", "error"]
            known = pq.read_table(pa.BufferReader(self.store.read("runs.parquet")), columns=columns).to_pylist()
        except (FileNotFoundError, KeyError, ValueError, pa.ArrowException):
            known = []
        gone = f"its part in {self.store.where('events')} is lost"
        return {
            each["run"]: lost.get(each["run"], gone)
            for each in known
            if each["error"] is None and each["run"] not in self.parts.of
        } | lost

    def planned(self) -> int | None:
        """How many runs the study had when it was last called; None if that is not known."""
        try:
            about = json.loads(self.store.read("study.json"))
        except (FileNotFoundError, ValueError):
            return None
        runs = about.get("runs") if isinstance(about, dict) else None
        return runs if isinstance(runs, int) else None

    def settle(self, runs: Collection[str]) -> set[str]:
        """Runs that tasks say they have written and that the store does not show, however long one waits."""
        missing: set[str] = set()

        def seen() -> bool:
            nonlocal missing
            missing = set(runs) - self.parts.refresh().of.keys()
            return not missing

        self._wait_for(seen)
        return missing

    def not_kept(self, what: str) -> OutputError:
        """The error for a store that does not show what was written to it."""
        problem = (
            f"the store took {what} and does not show it: it has lost it, or lists it late. "
            "What it shows is kept; the same command continues"
        )
        return OutputError(problem, path=self.store.where())

    def _wait_for(self, seen: Callable[[], bool]) -> bool:
        for pause in _SETTLING:
            if seen():
                return True
            time.sleep(pause)
        return seen()

    def failed(self) -> set[str]:
        return {name.removesuffix(".json") for name in self.store.list("failed")}

    def forget_failures(self, runs: set[str]) -> None:
        self.store.delete(*(f"failed/{run}.json" for run in self.failed() & runs))

    def row(self, run: str) -> dict[str, Any] | None:
        """What is known of a run that has ended, well or not."""
        if (stored := self.parts.refresh().stored(run)) is not None:
            row: dict[str, Any] = json.loads(stored.row)
            return row
        return self._failure(run)

    def _failure(self, run: str) -> dict[str, Any] | None:
        try:
            row: dict[str, Any] = json.loads(self.store.read(f"failed/{run}.json"))
            return row
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"not readable ({error})", path=self.store.where(f"failed/{run}.json")) from None

    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of all runs that have ended."""
        failed = {run: row for run in self.failed() if (row := self._failure(run)) is not None}
        return failed | self.parts.refresh().rows()

    def assemble(self, study: Study, planned: list[PlannedRun]) -> pa.Table:
        """Write `runs.parquet` from the rows of all runs that have ended, in the order of the grid."""
        schema, known = runs_schema(study), self.rows()
        rows = [
            {"index": each.index, "run": each.run} | columns_of(study, each) | known[each.run]
            for each in planned
            if each.run in known
        ]
        table = pa.table([pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema)
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd")
        self.store.write("runs.parquet", sink.getvalue())
        return table

    def merges(self, study: Study, planned: Sequence[PlannedRun]) -> list[Merge]:
        """The parts that should be there, see `plan_merges`."""
        points = {each.run: columns_of(study, each) for each in planned}
        together = [[each.run for each in runs] for runs in stretches(planned)]
        return plan_merges(self.parts.refresh(), points, varied_schema(study), together)

    def drop_parts(self, keep: set[str]) -> None:
        """Take away the parts whose runs all lie in others; markers last, so that nothing is left without one.

        Those that stay must be seen first: what a part was made of is all there is until then.
        """
        self.parts.expect(*keep)
        if not self._wait_for(lambda: keep <= self.parts.refresh().found.keys()):
            unseen = min(keep - self.parts.found.keys())
            raise self.not_kept(self.parts.damaged.get(unseen, f"events/{unseen}.parquet"))
        gone = self.parts.refresh().found.keys() - keep
        for table in (*TABLES, "parts"):
            self.store.delete(*(f"{table}/{name}.parquet" for name in gone))

    def killed(self) -> Counter[str]:
        """How often a run was in a batch that did not end; while a job runs, this counts what it is at."""
        counts: Counter[str] = Counter()
        for name in self.store.list(".attempts"):
            try:
                counts.update(json.loads(self.store.read(f".attempts/{name}"))["runs"])
            except FileNotFoundError:
                continue
        return counts

    # The side of a task.

    def attempts(self, batch: str) -> int:
        """Attempts at a batch that started and have not ended."""
        return sum(name.rpartition(".")[0].rpartition(".")[0] == batch for name in self.store.list(".attempts"))

    @contextmanager
    def attempt(self, batch: Batch) -> Iterator[None]:
        """Say that a batch is being made, until it has ended."""
        name = f".attempts/{batch.name}.{uuid.uuid4().hex}.json"
        who = {"host": socket.gethostname(), "pid": os.getpid(), "runs": [run for _, run in batch.runs]}
        self.store.write(name, json.dumps(who).encode())
        try:
            yield
        finally:
            self.store.delete(name)  # not reached if the process is killed

    def fail(self, run: str, row: Mapping[str, Any]) -> None:
        self.store.write(f"failed/{run}.json", (json.dumps(row, indent=2) + "\n").encode())


def describe_lost(runs: Sequence[str], wrong: Mapping[str, str]) -> str:
    """Runs that a store has lost, in words.

    >>> describe_lost(["3f", "4a"], {"3f": "lab/events/1.parquet is lost"})
    '2 runs were finished and are not there any more, such as 3f: lab/events/1.parquet is lost'
    """
    were = "was finished and is" if len(runs) == 1 else "were finished and are"
    return f"{plural(len(runs), 'run')} {were} not there any more, such as {runs[0]}: {wrong[runs[0]]}"


def _about(study: Study) -> dict[str, Any]:
    """What a sweep is, and what made it."""
    made = {"version": __version__, "revision": git_revision(), "python": platform.python_version()}
    return {"layout": LAYOUT, "study": study.identity(), "runs": len(study), **made, "command": sys.argv}


def runs_schema(study: Study) -> pa.Schema:
    """The columns of `runs`: index, run, the fields that vary, seed, and what was measured."""
    fields = [pa.field("index", pa.int64()), pa.field("run", pa.string())]
    fields += [pa.field(column_name(name), _column_type(study.values(name))) for name in study.fields]
    fields += [pa.field("seed", pa.int64())]
    own = {field.name for field in fields}
    if clash := own & MEASURED.keys():
        raise ConfigurationError(f"{clash.pop()!r} cannot vary: `runs` has a column of that name", field="grid")
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in MEASURED.items())])


def varied_schema(study: Study) -> pa.Schema:
    """The columns of the fields that vary, and the seed."""
    schema = runs_schema(study)
    return pa.schema(list(schema)[2 : schema.get_field_index("seed") + 1])


def columns_of(study: Study, planned: PlannedRun) -> dict[str, Any]:
    """A run's values of these columns."""
    return point_columns(varied_schema(study), planned.point)


def point_columns(columns: pa.Schema, point: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a point as columns take them; tables and mixtures are JSON."""
    values = {column_name(field): value for field, value in point.items()}
    as_text = {field.name for field in columns if pa.types.is_string(field.type)}
    return {
        name: json.dumps(value) if name in as_text and not isinstance(value, str) else value
        for name, value in values.items()
    }


def _column_type(values: list[Any]) -> pa.DataType:
    """A type that holds all values; tables and mixtures are kept as JSON."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return pa.float64()
    known = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return known.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()
