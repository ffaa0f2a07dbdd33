"""Runs of a sweep, as a task makes them: simulate, audit, measure, and put into a part. No Spark in here either.

Whatever happens inside a run becomes its row: an error, a time or a size that was exceeded. The exception
is the death of the process; the object that the attempt left behind tells the driver of it.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import isnan
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from antecast.core.errors import AntecastError
from antecast.history.audit import audit
from antecast.history.measure import measure
from antecast.history.parts import MERGED_ROWS, TABLES, MadeRun, Spill, write_part
from antecast.history.promises import judge_promises
from antecast.history.rows import COLUMNS
from antecast.history.schema import EVENTS
from antecast.protocols import Guarantee
from antecast.sim.compiled.choice import choose, has_compiled_engine, prepare
from antecast.sim.identity import run_id
from antecast.sim.run import Progress, manifest, run
from antecast.sim.scenario import Scenario
from antecast.sim.study import Study
from antecast.spark.claim import check_claim
from antecast.spark.folder import Batch, SweepFolder, point_columns, varied_schema
from antecast.text.sizes import format_size
from antecast.version import __version__

_PART_SECONDS = 15.0
"""CPU time after which a finished run waits no longer for others to share its part: so much is lost if its worker
is killed."""

Outcome: TypeAlias = Literal["finished", "failed", "set aside"]

_GRACE = 1.0
"""Seconds over the limit after which an alarm stops a run that does not check the clock."""

_ADDRESS_SLACK = 256 << 20
"""Address space beyond the memory allowed: libraries loaded late and stacks reserve more than they use."""


@dataclass(frozen=True)
class Limits:
    """What one run may take."""

    seconds: float | None = None
    memory: int | None = None
    """Bytes, beyond what the worker had before the run."""


class LimitExceeded(AntecastError):
    """A run took more than it may."""


def make_batch(
    study: Study,
    batch: Batch,
    folder: SweepFolder,
    limits: Limits,
    on_end: Callable[[str, Outcome], None] | None = None,
) -> list[Outcome]:
    """Make runs of a study one after the other, and leave them, or the reasons why not, in the folder.

    Runs are put together into parts: one is written when it is full (`history.parts.filling`), at the end, and
    whenever the first of its runs has waited for long.
    A batch that was killed `most_attempts` times is set aside: one of its runs may be what kills its worker.
    """
    before = folder.attempts(batch.name)
    if before >= batch.most_attempts:
        return ["set aside"] * len(batch.runs)
    there = folder.finished() if before else set()
    _warm_up()
    outcomes: list[Outcome] = []
    with folder.attempt(batch), tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        parts = _PartWriter(folder, varied_schema(study))
        try:
            for index, run in batch.runs:
                if run in there:
                    outcomes.append("finished")
                    continue
                made = _make_run(study, index, run, folder, limits, Path(scratch))
                if made is not None:
                    parts.add(made)
                outcomes.append("failed" if made is None else "finished")
                if on_end is not None:
                    on_end(run, outcomes[-1])
        except KeyboardInterrupt:
            parts.flush()
            raise
        parts.flush()
    return outcomes


class _PartWriter:
    """Collects finished runs and writes them as parts."""

    def __init__(self, folder: SweepFolder, columns: pa.Schema) -> None:
        self._folder = folder
        self._columns = columns
        self._held: list[MadeRun] = []
        self._rows = 0
        self._since = 0.0

    def add(self, made: MadeRun) -> None:
        rows = max(made.rows.values())
        if self._rows + rows > MERGED_ROWS:
            self.flush()
        if not self._held:
            self._since = time.process_time()
        self._held.append(made)
        self._rows += rows
        if self._rows >= MERGED_ROWS or time.process_time() - self._since >= _PART_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._held:
            name = write_part(self._folder.store, self._held, self._columns, before_marker=self._check)
            self._folder.parts.expect(name)
            for drop in (drop for each in self._held for drop in each.drops):
                drop()
            self._held, self._rows = [], 0

    def _check(self) -> None:
        if self._folder.token is not None:
            check_claim(self._folder.store, self._folder.token)


def _make_run(
    study: Study, index: int, expected: str, folder: SweepFolder, limits: Limits, scratch: Path
) -> MadeRun | None:
    """One run: simulated, audited, measured. None if it failed; the folder knows why then."""
    _load_engine(study, index)
    started, wall, cpu = datetime.now(UTC), time.perf_counter(), time.process_time()

    def taken() -> dict[str, Any]:
        seconds = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        return {"version": __version__, **seconds, "worker": _worker()}

    events, samples = (Spill(schema, scratch / f"{expected}-{name}") for name, schema in TABLES.items())
    try:
        with _enforced(limits) as within:
            scenario = study.scenario_of(index)
            if (ours := run_id(scenario)) != expected:
                other = f"this worker has other code (version {__version__}): the run is {ours}, not {expected}"
                raise AntecastError(other)
            result = run(scenario, sinks=(events, samples), on_progress=within)
            within(None)
            row = _measure(events, scenario) | {
                "ended_ns": result.ended,
                "steps": result.steps,
                "events": result.logged,
                "dropped_frames": result.dropped,
                "lost_frames": result.lost,
                "unmet_needs": ", ".join(scenario.unmet_needs()),
            }
        point = point_columns(varied_schema(study), study.point(index))
        logs = {"events": events, "samples": samples}
        return MadeRun(
            run=expected,
            point=point,
            row=row | taken(),
            manifest=manifest(result, started),
            logs={name: log.batches for name, log in logs.items()},
            rows={name: log.rows for name, log in logs.items()},
            drops=(events.drop, samples.drop),
        )
    except Exception as error:
        traceback.print_exc(file=sys.stderr)  # into Spark's log
        trace = traceback.format_exception(error)
        folder.fail(expected, {"error": _describe(error, limits), "traceback": trace} | taken())
        return None


@cache
def _warm_up() -> None:
    """What a worker does once, before the first run: neither its time nor its memory is charged to that run.

    Loading the compiler and its kernels takes seconds and a hundred megabytes; two messages that cross call them.
    """
    pa.set_cpu_count(1)  # as many workers as cores: a pool of threads in each would only get in the way
    pa.set_io_thread_count(1)
    kinds = ["broadcast", "broadcast", "deliver", "deliver"]
    columns = [[""] * 4, [0, 1] * 2, [0, 0, 1, 1], [0] * 4, kinds, [0, 1, 1, 0], [1] * 4, [None] * 4, [0] * 4]
    log = pa.table([pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)], EVENTS)
    audit(log, clock="global")
    measure(log)
    # Spark has a worker collect its garbage after every task; what is loaded by now need not be scanned again.
    gc.freeze()


def _load_engine(study: Study, index: int) -> None:
    """Load the compiled engine before a run that needs it, for the same reason."""
    with suppress(AntecastError):  # a scenario that is wrong is told in the run's row
        if any(map(has_compiled_engine, study.protocols)):
            scenario = study.scenario_of(index)
            if choose(scenario).engine == "compiled":
                _prepare(scenario.specification.name)


_prepare = cache(prepare)


def _measure(events: Spill, scenario: Scenario) -> dict[str, Any]:
    """The verdict and the measures of a run. Frames pass in chunks; the order of deliveries is held in memory."""
    measures = measure(events.batches, applications=scenario.total_nodes, received=False)
    verdict = audit(measures.order, clock="global")
    promises = judge_promises(
        scenario.specification.guarantees,
        verdict.tally,
        lambda: events.table(list(COLUMNS)),
        elsewhere=measures.elsewhere,
        latest=scenario.latest_delivery(),
    )
    tally, spread, cost = verdict.tally, measures.delivery, measures.cost
    quantiles = {f"latency_p{100 * fraction:.0f}_ns": value for fraction, value in spread.quantiles}
    row: dict[str, Any] = {
        "verdict": promises.outcome(verdict),
        "promised": Guarantee.CAUSAL in scenario.specification.guarantees,
        "broken": ", ".join(promises.broken),
        "early": tally.early,
        "late": tally.late,
        "duplicates": tally.duplicates,
        "before_broadcast": tally.before_broadcast,
        "unknown": tally.unknown,
        "broadcasts": cost.broadcasts,
        "deliveries": cost.deliveries,
        "delivery_ratio": measures.ratio,
        "latency_min_ns": spread.min,
        "latency_mean_ns": spread.mean,
        "latency_stdev_ns": spread.stdev,
        "latency_max_ns": spread.max,
        **quantiles,
    }
    if scenario.log.events == "all":
        row |= {
            "frames": cost.frames,
            "bytes": cost.bytes,
            "control_bytes": cost.control_bytes,
            "frames_per_delivery": cost.frames_per_delivery,
            "control_bytes_per_broadcast": cost.control_bytes_per_broadcast,
        }
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in row.items()}


def _describe(error: Exception, limits: Limits) -> str:
    """One line: a mistake in the study in its own words, a defect with its kind."""
    if isinstance(error, MemoryError) and limits.memory is not None:
        return f"needed more than {format_size(limits.memory)} of memory"
    line = (str(error).strip().splitlines() or [""])[0]
    return line if isinstance(error, AntecastError) else f"{type(error).__name__}: {line}"


def _worker() -> dict[str, Any]:
    """Where a run was made. Spark's daemon, the parent of a worker, is one per executor."""
    return {"host": socket.gethostname(), "executor": os.getppid(), "pid": os.getpid()}


# Limits.


@contextmanager
def _enforced(limits: Limits) -> Iterator[Callable[[Progress | None], bool]]:
    """A check of clock and memory for the run to call now and then, and two guards for when it does not."""
    ends = None if limits.seconds is None else time.monotonic() + limits.seconds
    before = _pages()[1] if limits.memory is not None else 0

    def within(_: Progress | None) -> bool:
        if ends is not None and time.monotonic() > ends:
            raise LimitExceeded(f"took longer than {limits.seconds:g} s")
        if limits.memory is not None and _pages()[1] - before > limits.memory:
            raise LimitExceeded(f"needed more than {format_size(limits.memory)} of memory")
        return True

    with _alarm(limits.seconds), _address_space(limits.memory):
        yield within


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    """Raise in a run that never checks the clock; this reaches only the main thread."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise LimitExceeded(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    # Again and again: where Python swallows exceptions, as in a finaliser, one could be lost.
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE, _GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _address_space(memory: int | None) -> Iterator[None]:
    """Make allocations fail that would go far beyond the limit between two checks."""
    if memory is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _pages()[0] + memory + _ADDRESS_SLACK
    ceiling = min(limit for limit in (soft, hard, wanted) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _pages() -> tuple[int, int]:
    """Bytes of address space and of memory that this process has."""
    size, resident = Path("/proc/self/statm").read_bytes().split()[:2]
    page = resource.getpagesize()
    return int(size) * page, int(resident) * page
