"""Causal order for Spark: rows with timestamps in, the same rows in causal order out.

    from antecast.spark.observe import causal_order

    ordered = causal_order(rows, key="system", epsilon="5ms", delta="100ms", c=60, stamps="hybrid")

On a stream this is a stateful operator (`transformWithState`): each group keeps the rows that wait in Spark's
state store, every row leaves exactly once, and nothing is kept but the rows that wait and a header per group.
On a finished table it is the same observer over each group as a whole. `antecast.observer` says what is decided,
`observe_group` is the step of one group.

Streaming and finished tables agree, row for row, where rows have an order of arrival (`arrival`) and no timers are
set. In the modes that are exact they agree always, but for rows that came too late.

The clock of a group is the largest r it has seen (`clock="rows"`), or the arrival column (`clock="arrival"`). A
group whose rows stop coming would keep its last ones, so timers move its clock on: with `event` to the watermark,
which is the largest r of all groups; with `processing` as real time passes in which nothing is waiting to be read
(`observe_timers`). No row is ever dropped for its lateness: the watermark moves timers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from antecast.core.errors import ConfigurationError
from antecast.core.settings import parse_duration, read_settings
from antecast.observer.batch import BatchObserver
from antecast.observer.online import default_gap
from antecast.observer.policy import Mode, Policy
from antecast.observer.policy import Stamps as StampKind
from antecast.spark.observe_group import ADDED, GroupObserver, State, Step
from antecast.spark.observe_rows import (
    OPTIONAL,
    RowFormat,
    pack,
    pieces,
    read_rows,
    read_streams,
    resolve,
    unpack,
    without,
)
from antecast.spark.observe_timers import Timekeeper, Timers
from antecast.spark.ordered_frames import (
    arrow_schema,
    by_groups,
    check_frame,
    column,
    drained,
    fit_for_pandas,
    in_arrow,
    not_ahead,
    nullable,
    packed_schema,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

Clock: TypeAlias = Literal["rows", "arrival"]
Late: TypeAlias = Literal["deliver", "refuse"]
Span: TypeAlias = int | str

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ALL = "__group"
_DAY = 86_400 * 10**9
_EVENT = "__event_time"
_FURTHEST = 9 * 10**18
"""Nanoseconds from 1970: 285 years."""


def causal_order(
    frame: DataFrame,
    *,
    key: str | Sequence[str] = (),
    epsilon: Span,
    delta: Span,
    c: int = 100,
    mode: Mode = "cbd",
    violations: float | None = None,
    stamps: StampKind = "bounded",
    elements: int | None = None,
    nodes: int | None = None,
    events_a_tick: int = 1,
    tick: str = "1ms",
    columns: Mapping[str, str] | None = None,
    arrival: str | None = None,
    clock: Clock = "rows",
    gap: Span | None = None,
    timers: Timers = "none",
    slack: str = "0s",
    late: Late = "deliver",
    unique: str | Sequence[str] = (),
    forget: str | None = None,
    fault: str | None = None,
    drains: DataFrame | None = None,
) -> DataFrame:
    """Rows in causal order, each once, with four columns more.

    | column | |
    |---|---|
    | `position` | its place in the order of its group, from 0; null if it was refused |
    | `waited` | ticks of the group's clock that it waited |
    | `late` | whether it came too late to be put in its place: something that sorts after it went before |
    | `reason` | null, or why the row was refused |

    `key` says which rows belong to one system; default: all do. `epsilon`, `delta` and `gap` are numbers of ticks
    or texts such as "5ms"; `c` is the percentage of the exact waiting time to wait; `violations`, given instead of
    `c`, is the share of violations allowed, by which the wait is chosen (mode `paced`).
    `columns` says what the roles r, c, kn, l, counter, before and source are called, "" for one that no column
    plays; r (or l) and arrival are whole ticks or timestamps.
    `arrival` names a column that gives the order of arrival, such as an offset;
    without it the rows of one micro-batch count as arrived in the order of r. `slack` is the extra time that
    timers wait for rows on their way to Spark. A row whose r jumps by more than ε + δ waits until another source
    confirms it; `gap` (default: a day) is how far ahead a clock that two sources confirmed must be to be set back.
    `late="refuse"` refuses late rows with a reason instead of delivering them. `unique` names columns that
    identify a row: of duplicates all but the first are refused. A group in which nothing waits is
    forgotten after a silence of `forget`, if timers are set. `fault` names a text column with the reason to refuse
    a row.
    `drains` is a stream of keys whose groups are to be emptied.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    tick_ns = parse_duration(tick)
    if tick_ns <= 0:
        raise ConfigurationError(f"expected a length of time above zero, got {tick!r}", field="tick")
    bounds = {
        "epsilon": _ticks("epsilon", epsilon, tick_ns),
        "delta": _ticks("delta", delta, tick_ns),
        "events_a_tick": events_a_tick,
    }
    values: dict[str, Any] = {"bounds": bounds, "mode": mode, "percent": c, "stamps": stamps}
    if nodes is not None:
        bounds["nodes"] = nodes
    if elements is not None:
        values["elements"] = elements
    if violations is not None:
        if mode not in ("cbd", "paced"):
            raise ConfigurationError(f"with a share of violations the mode is 'paced', not {mode!r}", field="mode")
        values |= {"violations": violations, "mode": "paced"}
    policy = read_settings(values, Policy)
    given = dict(columns or {})
    roles = resolve(frame.columns, policy, given, clock=clock, arrival=arrival)
    _check_columns(frame, keys, roles, fault)
    if not keys:
        keys, frame = (_ALL,), frame.withColumn(_ALL, F.lit(0).cast("long"))
        drains = None if drains is None else drains.withColumn(_ALL, F.lit(0).cast("long"))
    same = (unique,) if isinstance(unique, str) else tuple(unique)
    for name in same:
        if name not in frame.columns:
            problem = f"no column {name!r}; the columns are {', '.join(frame.columns)}"
            raise ConfigurationError(problem, field="unique")
    if forget is not None and frame.isStreaming and timers == "none":
        raise ConfigurationError("groups are forgotten by timers; set timers, too", field="forget")
    rows = RowFormat(policy=policy, key=keys, columns=roles, tick=tick_ns, fault=fault, unique=same)
    observer = BatchObserver(
        policy=policy,
        clock="given" if clock == "arrival" else "rows",
        gap=max(default_gap(policy), _DAY // tick_ns) if gap is None else _ticks("gap", gap, tick_ns),
        together="arrival" not in roles,
    )
    group = GroupObserver(observer, rows, ordered="arrival" in roles, quarantine=late == "refuse")
    output = StructType([*frame.schema.fields, *_ADDED_FIELDS])
    keeper = Timekeeper(
        timers=timers,
        tick=tick_ns,
        slack=parse_duration(slack) // 10**6,
        forget=None if forget is None else parse_duration(forget) // 10**6,
    )
    ordered = _stream(frame, group, output, keeper, drains) if frame.isStreaming else _table(frame, group, output)
    return ordered.drop(_ALL) if keys == (_ALL,) else ordered


_ADDED_FIELDS = [
    StructField("position", LongType()),
    StructField("waited", LongType()),
    StructField("late", BooleanType()),
    StructField("reason", StringType()),
]


def _ticks(name: str, span: Span, tick: int) -> int:
    """Ticks, rounded up: a bound must not become smaller."""
    if isinstance(span, int):
        return span
    try:
        return -(-parse_duration(span) // tick)
    except ValueError as error:
        raise ConfigurationError(str(error), field=name) from None


def _check_columns(frame: DataFrame, keys: Sequence[str], roles: Mapping[str, str], fault: str | None) -> None:
    for name in (*keys, *([fault] if fault else [])):
        if name not in frame.columns:
            problem = f"no column {name!r}; the columns are {', '.join(frame.columns)}"
            raise ConfigurationError(problem, field="key" if name in keys else "fault")
    check_frame(frame, keys, ADDED.names)
    for role, name in roles.items():
        kind = frame.schema[name].dataType
        if role == "kn":
            fine = isinstance(kind, ArrayType) and isinstance(kind.elementType, IntegralType)
            right = "an array of whole numbers"
        elif role == "source":
            fine, right = isinstance(kind, IntegralType | StringType), "a whole number or a text"
        elif role in ("c", "counter"):
            fine, right = isinstance(kind, IntegralType), "a whole number"
        else:
            fine = isinstance(kind, IntegralType | TimestampType | TimestampNTZType)
            right = "a whole number of ticks, or a timestamp"
        if not fine:
            problem = f"expected {right}, got {kind.simpleString()}"
            if role in OPTIONAL:
                problem += f"; if it is something else, give the role no column: {without([role])}"
            raise ConfigurationError(problem, field=name)


def _table(frame: DataFrame, group: GroupObserver, output: StructType) -> DataFrame:
    """A finished table: each group at once, and nothing stays behind."""

    def whole(table: pa.Table) -> pa.Table:
        read = read_rows(table, group.rows)
        out = group.step(State.load(None), [read], flush=True).out
        assert out is not None  # a group has rows, and flushed they all leave
        return out

    return by_groups(frame, group.rows.key, whole, output)


def _stream(
    frame: DataFrame,
    group: GroupObserver,
    output: StructType,
    keeper: Timekeeper,
    drains: DataFrame | None,
) -> DataFrame:
    timers = keeper.timers
    choose_store(frame.sparkSession)
    check_protobuf()
    rows = group.rows
    packed_as = packed_schema(frame, rows.key)
    names = list(frame.columns)
    if timers == "event":
        event = not_ahead(_event_time(frame, rows))
        frame = frame.withColumn(_EVENT, event).withWatermark(_EVENT, "0 seconds")

    def packing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in pack((batch.select(names) for batch in batches), rows):
            yield packed.rename_columns(packed_as.names)

    packed = in_arrow(frame, packing, packed_as)
    if drains is not None:
        packed = packed.unionByName(drained(drains, rows.key, frame.schema))
    mode = {"none": "None", "event": "EventTime", "processing": "ProcessingTime"}[timers]
    keys = packed_as.names[: len(rows.key)]
    observed = (
        fit_for_pandas(packed, keys)
        .groupBy(*keys)
        .transformWithStateInPandas(
            statefulProcessor=_Processor(group, keeper),
            outputStructType=StructType([StructField("rows", BinaryType())]),
            outputMode="Append",
            timeMode=mode,
        )
    )
    output = nullable(output)
    schema = arrow_schema(frame, output)

    def unpacking(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(batches, schema)

    return observed.mapInArrow(unpacking, output)


def _event_time(frame: DataFrame, rows: RowFormat) -> Column:
    name = rows.columns.get("r") or rows.columns["l"]
    if isinstance(frame.schema[name].dataType, IntegralType):
        furthest = F.lit(_FURTHEST // rows.tick).cast("long")  # one wild row must not overflow and end the query
        r = F.greatest(-furthest, F.least(column(name).cast("long"), furthest))
        return F.when(column(name).isNotNull(), F.timestamp_micros((r * F.lit(rows.tick) / 1000).cast("long")))
    if isinstance(frame.schema[name].dataType, TimestampNTZType):
        # As the ticks of rows have it: in UTC, whatever the zone of the session.
        return F.concat(column(name).cast("string"), F.lit("Z")).try_cast("timestamp")
    return column(name)


def choose_store(spark: SparkSession) -> None:
    """transformWithState keeps its state in RocksDB. That store is taken where none was chosen; another choice
    stays; Spark's plain store, which cannot do it, is an error and not replaced silently."""
    chosen = spark.conf.getAll.get(_PROVIDER)
    if chosen is None:
        spark.conf.set(_PROVIDER, ROCKSDB)
    elif chosen.endswith("HDFSBackedStateStoreProvider"):
        raise ConfigurationError(f"is {chosen}, which cannot keep this state; set {ROCKSDB}", field=_PROVIDER)


def check_protobuf() -> None:
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "ordering a stream needs the package protobuf, which pyspark does not install"
        ) from None


class _Processor(StatefulProcessor):
    """The operator: brings a group's state and its packed rows to `GroupObserver`, and sets timers."""

    def __init__(self, group: GroupObserver, keeper: Timekeeper) -> None:
        self._group = group
        self._settings = keeper

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("group", "waiting long, data binary")
        self._keeper = self._settings.of_a_task()  # a task is a partition's part of one micro-batch

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        blobs: list[bytes | None] = [blob for frame in rows for blob in frame["rows"]]
        tables = read_streams(blobs)
        state, real = self._load(), self._real(timerValues)
        evidence = self._keeper.evidence(state.header, real)
        done = self._group.step(state, tables, flush=len(tables) < len(blobs), evidence=evidence)
        if tables:
            self._keeper.rows_came(state.header, done.state.header, real)
        yield from self._finish(done, real)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        state, real = self._load(), self._real(timerValues)
        header = state.header
        if header.timer != expiredTimerInfo.getExpiryTimeInMs() or header.now is None:
            return
        header.timer = None
        if self._keeper.forgotten(header, self._group.next_due(state), real):
            self._state.clear()
            return
        yield from self._finish(self._group.step(state, [], until=self._keeper.passed(header, real)), real)

    def _real(self, timerValues: Any) -> int:  # noqa: N803
        """The time that timers go by, in milliseconds."""
        if self._keeper.timers == "processing":
            return int(timerValues.getCurrentProcessingTimeInMs())
        return int(timerValues.getCurrentWatermarkInMs()) if self._keeper.timers == "event" else 0

    def _finish(self, done: Step, real: int) -> Iterator[pd.DataFrame]:
        import pandas as pd

        header = done.state.header
        wanted = self._keeper.next_timer(header, self._group.next_due(done.state), real)
        if wanted != header.timer:
            if header.timer is not None:
                self._handle.deleteTimer(header.timer)
            if wanted is not None:
                self._handle.registerTimer(wanted)
            header.timer = wanted
        self._state.update((done.state.waiting, done.state.dump()))
        for piece in pieces(done.out):
            yield pd.DataFrame({"rows": [piece]})

    def _load(self) -> State:
        kept = self._state.get()
        return State.load(None if kept is None else bytes(kept[1]))

    def close(self) -> None:
        pass
