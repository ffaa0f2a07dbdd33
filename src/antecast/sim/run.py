"""`run`: a scenario in, a result out. In memory, or into a run folder that others can read.

A run folder holds `events.parquet`, `samples.parquet` and `manifest.json` (the scenario with every
default written out, its seed, the versions, the hashes of its inputs, how the run ended). The event
log is written as the run goes on; memory does not grow with it.
"""

from __future__ import annotations

import gc
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from antecast.core import ConfigurationError, LocalMisuse, OutputError
from antecast.history.log import (
    EventWriter,
    MemorySink,
    ParquetSink,
    SampleWriter,
    Sink,
    read_events,
    read_samples,
)
from antecast.history.manifest import git_revision, write_json
from antecast.history.schema import EVENTS, SAMPLES, SCHEMA_VERSION
from antecast.sim.compiled.choice import Choice, Maker, choose, compiled_engine
from antecast.sim.compiled.engine import OutOfReach
from antecast.sim.engine import Engine
from antecast.sim.identity import code_version, input_hashes, run_id
from antecast.sim.radio.layout import Cells
from antecast.sim.scenario import Scenario
from antecast.version import __version__

if TYPE_CHECKING:
    from antecast.sim.judged import Judged


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    now: int
    horizon: int
    events: int


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult:
    """A finished run: what was asked, what it took, and its logs."""

    scenario: Scenario
    choice: Choice
    """The engine that made it, and why."""
    run: str
    folder: Path | None
    interrupted: bool
    ended: int
    """Simulated time at the end, in nanoseconds."""
    steps: int
    """Events that the scheduler ran."""
    logged: int
    """Rows of the event log."""
    dropped: int
    """Frames that found no room in a send queue."""
    lost: int
    """Frames that a link took and did not deliver: lost by chance, or with the link."""
    refused: int
    """Frames that a protocol refused (`RemoteFault`)."""
    alerts: int
    """Alerts that protocols gave."""
    astray: int
    """Frames that a protocol sent to a peer without a link: a fault of the protocol."""
    troubles: list[str]
    """The first few refusals and alerts, in words."""
    wall: float
    cpu: float
    _events: pa.Table | None = None
    _samples: pa.Table | None = None

    @property
    def events(self) -> pa.Table:
        """The event log as an Arrow table (read from the folder, if there is one)."""
        if self._events is not None:
            return self._events
        assert self.folder is not None
        return read_events(self.folder)

    @property
    def samples(self) -> pa.Table:
        if self._samples is not None:
            return self._samples
        assert self.folder is not None
        return read_samples(self.folder)

    def judge(self, *, audited: bool = True) -> Judged:
        """The run judged and measured: verdict, promises, numbers."""
        from antecast.sim.judged import judge

        return judge(self, audited=audited)

    def summary(self) -> dict[str, Any]:
        """What became of the run, in plain values; times are in seconds."""
        return self.judge().summary()

    def to_pandas(self, table: Literal["events", "samples"] = "events") -> Any:
        """One of its tables, as a pandas DataFrame."""
        if table not in ("events", "samples"):
            raise LocalMisuse(f"table: expected 'events' or 'samples', got {table!r}")
        return (self.events if table == "events" else self.samples).to_pandas()

    def __repr__(self) -> str:
        scenario = self.scenario
        state = "interrupted" if self.interrupted else "complete"
        where = "in memory" if self.folder is None else str(self.folder)
        what = f"{scenario.name!r}, {scenario.specification.name}, {scenario.nodes} nodes, seed {scenario.seed}"
        return f"RunResult({what}: {state}, {self.logged:,} events, {where})"

    def _repr_html_(self) -> str:
        judged = self.judge()
        costs = judged.measures.cost
        numbers = f"{costs.broadcasts:,} broadcasts, {costs.deliveries:,} deliveries"
        return f"<p><b>{escape(str(judged.told))}</b></p><p>{escape(repr(self))}<br>{numbers}</p>"


def run(
    scenario: Scenario,
    *,
    out: Path | str | None = None,
    replace: bool = False,
    sinks: tuple[Sink, Sink] | None = None,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> RunResult:
    """Simulate a scenario.

    Without `out` the logs stay in memory; with it they are written to that folder, which must not
    exist yet unless `replace` is set. `sinks` for events and samples take them in place of both, and begin anew
    after `abandon`; the result has no tables then. `on_progress` is called now and then; when it returns False
    the run ends early, with everything so far kept and marked as interrupted. A run that fails leaves
    no half folder behind.
    """
    scenario.check()
    choice = choose(scenario)
    is_new = out is not None and not Path(out).exists()
    folder = None if out is None else new_folder(Path(out), replace=replace)
    started = datetime.now(UTC)
    try:
        try:
            result = _made(scenario, choice, folder, sinks, on_progress)
        except OutOfReach as error:
            if scenario.engine == "compiled":
                raise ConfigurationError(f'{error.problem}; set engine to "auto"', field=error.field) from None
            result = _made(scenario, Choice("reference", str(error)), folder, sinks, on_progress)
    except BaseException:
        if is_new and folder is not None:
            with suppress(OSError):
                folder.rmdir()
        raise
    if folder is not None:
        write_json(folder / "manifest.json", manifest(result, started))
    return result


def _made(
    scenario: Scenario,
    choice: Choice,
    folder: Path | None,
    sinks: tuple[Sink, Sink] | None,
    on_progress: Callable[[Progress], bool | None] | None,
) -> RunResult:
    """A run by the chosen engine. One that fails leaves no log behind."""
    name = run_id(scenario)
    if sinks is not None:
        pass
    elif folder is None:
        sinks = MemorySink(EVENTS), MemorySink(SAMPLES)
    else:
        sinks = (
            ParquetSink(folder / "events.parquet", EVENTS),
            ParquetSink(folder / "samples.parquet", SAMPLES),
        )
    events, samples = EventWriter(name, sinks[0]), SampleWriter(name, sinks[1])
    wall, cpu = time.perf_counter(), time.process_time()
    interrupted = False

    def between() -> bool:
        nonlocal interrupted
        if on_progress is not None:
            progress = Progress(engine.now, scenario.horizon, events.rows)
            interrupted = on_progress(progress) is False
        return not interrupted

    try:
        with _without_collector():
            make: Maker = compiled_engine(scenario) if choice.engine == "compiled" else make_engine
            engine = make(scenario, events, samples)
            steps = engine.run(between)
        events.close()
        samples.close()
    except BaseException as error:
        for sink in sinks:
            sink.abandon()
        if isinstance(error, MemoryError) and choice.engine == "compiled":
            raise OutOfReach("nodes", f"its arrays do not fit into memory: {error}") from None
        raise
    tables: dict[str, Any] = {}
    if isinstance(sinks[0], MemorySink) and isinstance(sinks[1], MemorySink):
        tables = {"_events": sinks[0].table(), "_samples": sinks[1].table()}
    return RunResult(
        scenario=scenario,
        choice=choice,
        run=name,
        folder=folder,
        interrupted=interrupted,
        ended=engine.now,
        steps=steps,
        logged=events.rows,
        dropped=engine.dropped,
        lost=engine.lost,
        refused=engine.troubles.refused,
        alerts=engine.troubles.alerts,
        astray=engine.troubles.astray,
        troubles=engine.troubles.examples,
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu,
        **tables,
    )


def make_engine(scenario: Scenario, events: EventWriter, samples: SampleWriter) -> Engine:
    """The reference engine for a scenario's kind of network."""
    if isinstance(scenario.network.topology, Cells):
        from antecast.sim.radio.engine import CellEngine

        return CellEngine(scenario, events, samples)
    return Engine(scenario, events, samples)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Leave garbage to reference counts for a while: a run makes no cycles as it goes, and walking the
    messages that nodes keep, again and again, takes a quarter of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def new_folder(path: Path, *, replace: bool) -> Path:
    """Make the folder of a run; one that is not empty is only used if `replace` is set."""
    try:
        if path.exists() and not path.is_dir():
            raise ConfigurationError(f"{path} is a file; name a folder that does not exist yet", field="--out")
        if path.is_dir() and any(path.iterdir()) and not replace:
            problem = f"the run folder {path} exists already; name another, or use --force to write over it"
            raise ConfigurationError(problem, field="--out")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder: {error.strerror}", path=path) from error
    return path


def manifest(result: RunResult, started: datetime) -> dict[str, Any]:
    """Everything needed to know what a run was and to make it again."""
    return {
        "run": result.run,
        "status": "interrupted" if result.interrupted else "complete",
        "scenario": result.scenario.plain(),
        "seed": result.scenario.seed,
        "engine": result.choice.engine,
        "engine_reason": result.choice.why,
        "promised": sorted(result.scenario.specification.guarantees),
        "latest_delivery_ns": result.scenario.latest_delivery(),
        "inputs": input_hashes(result.scenario),
        "gauges": {name: str(unit) for name, unit in result.scenario.specification.gauges.items()},
        "version": __version__,
        "code": code_version(),
        "revision": git_revision(),
        "schema": SCHEMA_VERSION,
        "python": platform.python_version(),
        "command": sys.argv,
        "started": started.isoformat(timespec="seconds"),
        "wall_seconds": round(result.wall, 3),
        "cpu_seconds": round(result.cpu, 3),
        "ended_ns": result.ended,
        "trace_origin_ns": result.scenario.trace_origin()[0],
        "notes": result.scenario.notes(),
        "steps": result.steps,
        "events": result.logged,
        "dropped_frames": result.dropped,
        "lost_frames": result.lost,
        "refused_frames": result.refused,
        "alerts": result.alerts,
        "astray_frames": result.astray,
        "troubles": result.troubles,
    }
