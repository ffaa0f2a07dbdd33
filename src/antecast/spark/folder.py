"""The folder of a sweep: what lies where, and what may be believed of it at any moment.

    study.json      what the study is, so that another one is not mixed into it
    runs/RUN/       a finished run: events.parquet, samples.parquet, manifest.json, row.json
    failed/RUN.json a run that failed, until it is tried again
    runs.parquet    one row a run, in the order of the grid
    spark.log       what Spark and its workers printed
    .partial/       runs in the making
    .attempts/RUN   a line for each attempt at a run that has not ended yet: its host and process

Rules:
1. A run is made in `.partial` and moved to `runs` by one rename. Whoever finds it there finds all of it,
   whatever was killed, and whoever comes second finds it done.
2. An attempt leaves a line before it starts and takes it away when it ends, well or not. Lines that are
   left count the attempts that were killed.
3. One driver at a time: it holds a lock that the system releases when it dies.

No Spark in here. All processes see the folder under one path: on a cluster it must be on a shared file system.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.history.manifest import git_revision, write_json
from antecast.sim.study import PlannedRun, Study, column_name
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

_BATCH_ROWS = 10_000


class SweepFolder:
    """A sweep on disk."""

    def __init__(self, path: Path | str) -> None:
        # Workers may have another working folder.
        self.path = Path(path).resolve()
        self.runs = self.path / "runs"
        self.table = self.path / "runs.parquet"
        self.log = self.path / "spark.log"
        self._failed = self.path / "failed"
        self._partial = self.path / ".partial"
        self._attempts = self.path / ".attempts"

    # The driver's side.

    @contextmanager
    def claimed(self, study: Study) -> Iterator[None]:
        """Hold the folder for this study: made if it is not there, refused if it is another study's."""
        self.check(study)
        try:
            for folder in (self.runs, self._failed, self._partial, self._attempts):
                folder.mkdir(parents=True, exist_ok=True)
            lock: IO[bytes] = (self.path / ".lock").open("wb")
        except OSError as error:
            raise OutputError(f"cannot create the folder: {error.strerror}", path=self.path) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                problem = f"another sweep is at work in {self.path}; wait for it, or name another folder"
                raise ConfigurationError(problem, field="--out") from None
            write_json(self.path / "study.json", _about(study))
            self._tidy()
            try:
                yield
            finally:
                self._tidy()
                for folder in (self._partial, self._attempts, self._failed):
                    with suppress(OSError):
                        folder.rmdir()  # only if it is empty

    def check(self, study: Study) -> None:
        """Refuse a folder that holds anything but this study."""
        try:
            known = json.loads((self.path / "study.json").read_text(encoding="utf-8"))["study"]
        except (FileNotFoundError, NotADirectoryError):
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                problem = f"{self.path} exists and is not the folder of a sweep; name another"
                raise ConfigurationError(problem, field="--out") from None
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"not readable ({error})", path=self.path / "study.json") from None
        ours = json.loads(json.dumps(study.identity()))
        if different := [key for key in ours if known.get(key) != ours[key]]:
            problem = f"{self.path} holds another study (its {different[0]} is another); name another folder"
            raise ConfigurationError(problem, field="--out")

    def _tidy(self) -> None:
        """Nobody else is at work here: what is left of runs in the making belongs to processes that died."""
        for folder in (self._partial, self._attempts):
            for entry in folder.iterdir() if folder.is_dir() else ():
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink(missing_ok=True)

    def finished(self) -> set[str]:
        return {name for name in _names(self.runs) if not name.startswith(".")}

    def failed(self) -> set[str]:
        return {name.removesuffix(".json") for name in _names(self._failed) if not name.startswith(".")}

    def forget_failure(self, run: str) -> None:
        (self._failed / f"{run}.json").unlink(missing_ok=True)

    def row(self, run: str) -> dict[str, Any] | None:
        """What is known of a run that has ended, well or not."""
        for file in (self.runs / run / "row.json", self._failed / f"{run}.json"):
            try:
                row: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
                return row
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise InputError(f"not readable ({error})", path=file) from None
        return None

    def assemble(self, study: Study, planned: list[PlannedRun]) -> pa.Table:
        """Write `runs.parquet` from the rows of all runs that have ended, in the order of the grid."""
        schema = runs_schema(study)
        partial = self.table.with_name(f".{self.table.name}.partial")
        try:
            with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
                for start in range(0, len(planned), _BATCH_ROWS):
                    writer.write_table(self._rows(study, planned[start : start + _BATCH_ROWS], schema))
            partial.replace(self.table)
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=self.table) from error
        return pq.read_table(self.table)

    def _rows(self, study: Study, planned: list[PlannedRun], schema: pa.Schema) -> pa.Table:
        rows = []
        for each in planned:
            measured = self.row(each.run)
            if measured is not None:
                own = {column_name(field): value for field, value in each.point.items()}
                rows.append({"index": each.index, "run": each.run} | own | measured)
        columns = []
        for field in schema:
            values = [row.get(field.name) for row in rows]
            if pa.types.is_string(field.type):
                values = [each if each is None or isinstance(each, str) else json.dumps(each) for each in values]
            columns.append(pa.array(values, field.type))
        return pa.Table.from_arrays(columns, schema=schema)

    # The side of a task.

    def attempts(self, run: str) -> int:
        """Attempts at a run that started and have not ended."""
        try:
            return (self._attempts / run).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    @contextmanager
    def attempt(self, run: str) -> Iterator[Path]:
        """A folder to make a run in. It is gone afterwards unless the run was published."""
        partial = self._partial / f"{run}-{uuid.uuid4().hex}"
        with (self._attempts / run).open("a", encoding="utf-8") as file:
            file.write(f"{socket.gethostname()} {os.getpid()}\n")
        try:
            yield partial
        finally:
            # Reached by whatever can be caught, but not if the process is killed.
            shutil.rmtree(partial, ignore_errors=True)
            (self._attempts / run).unlink(missing_ok=True)

    def publish(self, partial: Path, run: str) -> None:
        """Make a run visible, whole. A twin that was quicker made the very same run."""
        try:
            partial.rename(self.runs / run)
        except OSError as error:
            if not (self.runs / run).is_dir():
                raise OutputError(f"cannot rename: {error.strerror}", path=partial) from error

    def fail(self, run: str, row: Mapping[str, Any]) -> None:
        write_json(self._failed / f"{run}.json", row)


def _about(study: Study) -> dict[str, Any]:
    """What a sweep is, and what made it."""
    made = {"version": __version__, "revision": git_revision(), "python": platform.python_version()}
    return {"study": study.identity(), **made, "command": sys.argv}


def runs_schema(study: Study) -> pa.Schema:
    """The columns of `runs`: index, run, the fields that vary, seed, and what was measured."""
    fields = [pa.field("index", pa.int64()), pa.field("run", pa.string())]
    fields += [pa.field(column_name(name), _column_type(study.values(name))) for name in study.fields]
    fields += [pa.field("seed", pa.int64())]
    own = {field.name for field in fields}
    if clash := own & MEASURED.keys():
        raise ConfigurationError(f"{clash.pop()!r} cannot vary: `runs` has a column of that name", field="grid")
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in MEASURED.items())])


def _column_type(values: list[Any]) -> pa.DataType:
    """A type that holds all values; tables and mixtures are kept as JSON."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return pa.float64()
    known = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
    return known.get(kinds.pop(), pa.string()) if len(kinds) == 1 else pa.string()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
