"""Studies: one scenario, the fields that vary, and the runs that this makes. No I/O but reading files.

    name = "loss"                       # default: the file's own name
    scenario = "campus.toml"            # or a table [scenario]
    seeds = 10                          # 1 to 10; or a list; or a range

    [grid]                              # every combination
    network.loss = { start = 0, stop = 0.3, step = 0.1 }
    protocol.name = ["vector", "fifo"]

    [zip]                               # first with first, second with second
    nodes = [8, 16, 32]
    duration = ["40s", "20s", "10s"]

Theory of operation. Every field of `grid` is an axis, all of `zip` together are one more, the seeds are
the last. A run is a point of the product of the axes, and points are numbered with the last axis
fastest, so a number is all that it takes to name a run, to build its scenario on another machine, and
to put the rows of a study into one order.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.settings import Settings, format_duration, parse_duration, read_settings
from antecast.sim.contact_plan import load_plan
from antecast.sim.identity import run_id
from antecast.sim.radio.layout import Cells
from antecast.sim.scenario import Scenario, make_scenario, override, read_toml, resolve_files
from antecast.sim.sense import idle, remarks
from antecast.sim.topology import Complete, Contacts, Explicit, Grid, Random, Ring, Spray, Star, Topology, Tree
from antecast.sim.workload_kinds import At, Once, Periodic, Poisson, Trace

MAX_RUNS = 100_000
"""A run is a task, a folder and a row: beyond this the driver and the file system become the bottleneck."""

Number: TypeAlias = int | float | str
Seed: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Range(Settings, frozen=True, kw_only=True):
    """`start`, `start + step`, … up to and including `stop`; whole numbers, decimals or durations."""

    start: Number
    stop: Number
    step: Number

    def values(self) -> list[Number]:
        """Decimals count in decimals: the third of 0.1, 0.2, … is 0.3 and not 0.30000000000000004.

        >>> Range(start=0.1, stop=0.3, step=0.1).values()
        [0.1, 0.2, 0.3]
        >>> Range(start="10ms", stop="40ms", step="15ms").values()
        ['10ms', '25ms', '40ms']
        """
        ends = (self.start, self.stop, self.step)
        durations = any(isinstance(end, str) for end in ends)
        if not durations and not all(math.isfinite(float(end)) for end in ends):
            raise ValueError("a range has finite ends")
        # The text of a float is the shortest decimal that means it: the one that was written.
        start, stop, step = (Decimal(parse_duration(end) if durations else str(end)) for end in ends)
        if step == 0 or (stop - start) / step < 0:
            raise ValueError(f"a step of {self.step} does not lead from {self.start} to {self.stop}")
        count = int((stop - start) / step) + 1
        if count > MAX_RUNS:
            raise ValueError(f"{count} values are more than the {MAX_RUNS} runs a study may have")
        exact = [start + position * step for position in range(count)]
        if durations:
            return [format_duration(int(value)) for value in exact]
        whole = all(isinstance(end, int) for end in ends)
        return [int(value) if whole else float(value) for value in exact]


class _StudyFile(Settings, frozen=True, kw_only=True):
    """What a study's TOML may say."""

    scenario: str | dict[str, Any]
    name: Annotated[str, msgspec.Meta(max_length=100, pattern=r"^\w[\w .-]*$")] | None = None
    grid: dict[str, Any] | None = None
    zip: dict[str, Any] | None = None
    seeds: Annotated[int, msgspec.Meta(ge=1, le=MAX_RUNS)] | list[Seed] | Range | None = None


@dataclass(frozen=True)
class Axis:
    """Fields that vary together, and their values: one row per step along the axis."""

    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study with everything resolved: small, plain, and the same on every machine."""

    name: str
    scenario: dict[str, Any]
    """The values that all runs share."""
    axes: tuple[Axis, ...]
    """The seeds are the last."""
    folder: Path
    """Files that the scenario names are found relative to it; absolute, since workers may be elsewhere."""
    source: str | None = None

    def __len__(self) -> int:
        return math.prod(len(axis.rows) for axis in self.axes)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that vary, the seed aside."""
        return tuple(field for axis in self.axes[:-1] for field in axis.fields)

    def values(self, field: str) -> list[Any]:
        """All values that a field takes."""
        axis = next(axis for axis in self.axes if field in axis.fields)
        return [row[axis.fields.index(field)] for row in axis.rows]

    def point(self, index: int) -> dict[str, Any]:
        """What the run of this number has of its own: its fields that vary, and its seed."""
        point: dict[str, Any] = {}
        for axis in reversed(self.axes):
            index, row = divmod(index, len(axis.rows))
            point = dict(zip(axis.fields, axis.rows[row], strict=True)) | point
        return point

    def scenario_of(self, index: int) -> Scenario:
        """The scenario of the run of this number."""
        point = self.point(index)
        values = copy.deepcopy(self.scenario)
        try:
            override(values, [f"{field}={_toml(value)}" for field, value in point.items()])
            resolve_files(values, self.folder)
            return make_scenario(values)
        except ConfigurationError as error:
            own = {field: value for field, value in point.items() if field != "seed"}
            where = f" (in the run with {describe(own)})" if own else ""
            field = None if error.field == "--set" else error.field
            raise ConfigurationError(error.problem + where, field=field, source=self.source) from None

    @property
    def protocols(self) -> list[str]:
        """The names of all protocols in it."""
        given = [self.scenario.get("protocol")]
        for field in ("protocol", "protocol.name"):
            given += self.values(field) if field in self.fields else []
        names = (each.get("name") if isinstance(each, Mapping) else each for each in given)
        return sorted({name for name in names if isinstance(name, str)})

    def identity(self) -> dict[str, Any]:
        """What makes two studies the same: values and seeds may be added, the rest may not change."""
        shared = {key: value for key, value in self.scenario.items() if key not in ("name", "seed", "engine")}
        return {"name": self.name, "scenario": shared, "fields": sorted(self.fields)}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study, before it is made."""

    index: int
    run: str
    point: dict[str, Any]
    steps: int
    """Expected events of the scheduler: what the run will cost, relative to others."""
    protocol: str = ""
    unmet: tuple[str, ...] = ()
    """What its protocol needs and its network does not have."""
    remarks: tuple[str, ...] = ()
    """Which of its faults do nothing."""


def plan(study: Study) -> list[PlannedRun]:
    """All runs in the order of the grid, each of them checked, and the files that they read looked at."""
    planned: dict[str, PlannedRun] = {}
    seen: set[str] = set()
    for index in range(len(study)):
        scenario = study.scenario_of(index)
        _check_run(study, index, scenario, seen)
        each = PlannedRun(
            index,
            run_id(scenario),
            study.point(index),
            expected_steps(scenario),
            scenario.specification.name,
            tuple(map(str, scenario.unmet_needs())),
            tuple(remarks(scenario)),
        )
        if same := planned.get(each.run):
            problem = f"two runs are the same: {describe(same.point)} and {describe(each.point)}"
            raise ConfigurationError(problem, source=study.source)
        planned[each.run] = each
    return list(planned.values())


def _check_run(study: Study, index: int, scenario: Scenario, seen: set[str]) -> None:
    """Refuse a run that would broadcast nothing, or that reads a file which is not there."""
    if nothing := idle(scenario):
        own = {field: value for field, value in study.point(index).items() if field != "seed"}
        where = f" (in the run with {describe(own)})" if own else ""
        raise ConfigurationError(nothing[1] + where, field=nothing[0], source=study.source)
    for file in scenario.files():
        if file not in seen and not Path(file).exists():
            raise InputError("no such file", path=file)
        seen.add(file)


def load_study(path: Path | str, *, overrides: Sequence[str] = (), seeds: int | None = None) -> Study:
    """Read a study from a TOML file. Overrides are of the form `network.loss=0.1` and change the scenario."""
    path = Path(path)
    values = {"name": path.stem} | read_toml(path)
    return make_study(values, folder=path.parent, source=str(path), overrides=overrides, seeds=seeds)


def make_study(
    values: Mapping[str, Any],
    *,
    folder: Path | str = ".",
    source: str | None = None,
    overrides: Sequence[str] = (),
    seeds: int | None = None,
) -> Study:
    """A checked study from plain values; files are found relative to `folder`."""
    folder = Path(folder)
    try:
        if "scenario" not in values and set(values) & set(Scenario.__struct_fields__) - {"name"}:
            problem = "is a scenario, not a study; `antecast run` runs it, and a study names it: scenario ="
            raise ConfigurationError(f'{problem} "{Path(source).name if source else "FILE.toml"}"')
        file = read_settings(values, _StudyFile)
        if isinstance(file.scenario, str):
            scenario = read_toml(folder / file.scenario)
            folder = (folder / file.scenario).parent
        else:
            scenario = copy.deepcopy(file.scenario)
        axes = [Axis((field,), tuple((each,) for each in v)) for field, v in _varied(file.grid, "grid")]
        if lockstep := _varied(file.zip, "zip"):
            lengths = {field: len(each) for field, each in lockstep}
            if len(set(lengths.values())) > 1:
                counts = ", ".join(f"{field} has {length}" for field, length in lengths.items())
                raise ConfigurationError(f"all lists must have one length; {counts}", field="zip")
            rows = tuple(zip(*(each for _, each in lockstep), strict=True))
            axes.append(Axis(tuple(lengths), rows))
        axes.append(_seeds(file.seeds if seeds is None else seeds, scenario))
        override(scenario, overrides)
        study = Study(
            name=file.name or "study", scenario=scenario, axes=tuple(axes), folder=folder.resolve(), source=source
        )
        _check(study, overrides)
    except ConfigurationError as error:
        raise ConfigurationError(error.problem, field=error.field, source=source) from None
    return study


def _check(study: Study, overrides: Sequence[str]) -> None:
    """Refuse fields that conflict, and studies that are too large."""
    columns: dict[str, str] = {}
    for field in study.fields:
        if field == "seed":
            raise ConfigurationError("seeds are given by the key `seeds` of the study", field="seed")
        if columns.setdefault(column_name(field), field) != field or study.fields.count(field) > 1:
            raise ConfigurationError("varies twice", field=field)
        for other in study.fields:
            if other.startswith(f"{field}."):
                raise ConfigurationError(f"varies as a whole, so {other} cannot vary too", field=field)
        for text in overrides:
            if text.partition("=")[0].strip() == field:
                raise ConfigurationError(f"{field} is varied by the study; change it there", field="--set")
    if len(study) > MAX_RUNS:
        raise ConfigurationError(f"{len(study)} runs are more than the {MAX_RUNS} a study may have")


def _varied(table: dict[str, Any] | None, name: str) -> list[tuple[str, list[Any]]]:
    """The fields of `grid` or `zip` with their values; `a.b` may be written as a path or as a table."""
    if table is None:
        return []
    if not table:
        raise ConfigurationError("is empty; name a field that varies, or leave it out", field=name)
    found: list[tuple[str, list[Any]]] = []
    for key, value in table.items():
        field = f"{name}.{key}"
        if isinstance(value, dict) and not _is_range(value):
            found += [(f"{key}.{rest}", values) for rest, values in _varied(value, field)]
            continue
        if isinstance(value, dict):
            value = _range_values(read_settings(value, Range, path=field), field)
        if not isinstance(value, list):
            expected = "expected a list of values or a range { start, stop, step }"
            raise ConfigurationError(f"{expected}, got {value!r}", field=field)
        if not value:
            raise ConfigurationError("is an empty list; name at least one value", field=field)
        try:
            json.dumps(value)
        except TypeError:
            raise ConfigurationError("a scenario has no dates or times", field=field) from None
        found.append((key, value))
    return found


def _is_range(table: dict[str, Any]) -> bool:
    """A range, and not a table of fields that happen to be called `start` or `stop`."""
    own = {"start", "stop", "step"} & table.keys()
    return bool(own) and not any(isinstance(value, list | dict) for value in table.values())


def _range_values(given: Range, field: str) -> list[Number]:
    try:
        return given.values()
    except ValueError as error:
        raise ConfigurationError(str(error), field=field) from None


def _seeds(given: int | list[int] | Range | None, scenario: dict[str, Any]) -> Axis:
    if isinstance(given, Range):
        seeds: Sequence[Any] = _range_values(given, "seeds")
        if not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
            raise ConfigurationError("expected whole numbers from 0 on", field="seeds")
    elif isinstance(given, int):
        if given > MAX_RUNS:
            raise ConfigurationError(f"got {given:,}; a study has at most {MAX_RUNS:,} runs", field="seeds")
        seeds = range(1, given + 1)
    else:
        seeds = [scenario.get("seed", 1)] if given is None else given
    if not seeds:
        raise ConfigurationError("is an empty list; name at least one seed", field="seeds")
    return Axis(("seed",), tuple((seed,) for seed in seeds))


def _toml(value: Any) -> str:
    """A value in the notation that `override` reads."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(each) for each in value)}]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def expected_steps(scenario: Scenario) -> int:
    """How many events the scheduler will run, roughly: good enough to tell long runs from short ones.

    A flooded message crosses every link both ways, except where a node got it first; a meeting is a link that
    comes and goes, and a frame from either side. What a protocol does on its own (repair, beacons) is not
    counted, nor are faults.
    """
    nodes, broadcasts = scenario.nodes, expected_broadcasts(scenario)
    topology = scenario.network.topology
    frames = max(1, 2 * link_count(topology, nodes) - (nodes - 1))
    meetings = len(load_plan(topology).contacts) if isinstance(topology, Contacts) else 0
    every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
    samples = scenario.duration / every if every else 0
    return round(broadcasts * (1 + frames) + 4 * meetings + samples * nodes)


def expected_broadcasts(scenario: Scenario) -> float:
    """How many messages will be broadcast, roughly."""
    nodes, seconds = scenario.nodes, scenario.duration / 10**9
    broadcasts, answers = 0.0, 0.0
    for workload in scenario.workload:
        if isinstance(workload, Periodic | Poisson):
            until = scenario.duration if workload.until is None else workload.until
            span = max(0, until - workload.start) / 10**9
            rate = workload.rate if isinstance(workload, Poisson) else 10**9 / max(1, workload.every)
            senders = len(scenario.members) if workload.senders is None else len(workload.senders)
            broadcasts += senders * rate * span
        elif isinstance(workload, Once):
            broadcasts += len(scenario.members) if workload.senders is None else len(workload.senders)
        elif isinstance(workload, At):
            broadcasts += len(workload.broadcasts)
        elif isinstance(workload, Trace):
            broadcasts += nodes * seconds  # without reading it: one per second and node
        else:
            answers += workload.answers
    return broadcasts / (1 - min(answers, 0.99))


def link_count(topology: Topology, nodes: int) -> int:
    """Links of a topology, without making them."""
    match topology:
        case Complete():
            return nodes * (nodes - 1) // 2
        case Ring(reach=reach):
            return nodes * min(reach, nodes // 2)
        case Grid(width=width):
            return max(0, 2 * nodes - width - -(-nodes // width))
        case Random(degree=degree):
            return min(nodes * degree // 2, nodes * (nodes - 1) // 2)
        case Explicit(links=links):
            return len(links)
        case Spray(arcs=arcs):
            return round(nodes * (math.log(nodes) if arcs is None else arcs))
        case Star() | Tree() | Contacts() | Cells():  # at contacts, every node is given a message about once
            return nodes - 1


def column_name(field: str) -> str:
    """The column of a field in `runs`: without dots, which Spark SQL takes for parts of a struct.

    >>> column_name("network.loss")
    'network_loss'
    """
    return field.replace(".", "_").replace("-", "_")


def describe(point: Mapping[str, Any]) -> str:
    """A point in words, such as `network.loss=0.1 seed=3`."""
    return " ".join(
        f"{field}={value if isinstance(value, str) else json.dumps(value)}" for field, value in point.items()
    )
