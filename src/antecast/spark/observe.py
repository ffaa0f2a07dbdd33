"""Causal order for Spark: rows with timestamps in, the same rows in causal order out.

    from antecast.spark.observe import causal_order

    ordered = causal_order(rows, key="system", epsilon="5ms", delta="100ms", c=60, stamps="hybrid")

On a stream this is a stateful operator (`transformWithState`): each group keeps the rows that wait in Spark's
state store, every row leaves exactly once, and nothing is kept but the rows that wait and a header a group.
On a finished table it is the same observer over each group as a whole. `antecast.observer` says what is decided,
`observe_group` is the step of one group.

Streaming and finished tables agree, row for row, where rows have an order of arrival (`arrival`) and no timers are
set. In the modes that are exact they agree always, but for rows that came too late.

The clock of a group is the largest r it has seen (`clock="rows"`), or the arrival column (`clock="arrival"`). A
group whose rows stop coming would keep its last ones, so timers move its clock on: with `event` to the watermark,
which is the largest r of all groups; with `processing` as real time passes since its last row. No row is ever
dropped for its lateness: the watermark moves timers only.
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
from antecast.spark.observe_group import ADDED, GroupObserver, State
from antecast.spark.observe_rows import RowFormat, pack, read_rows, read_stream, resolve, unpack, write_stream

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

Timers: TypeAlias = Literal["none", "event", "processing"]
Clock: TypeAlias = Literal["rows", "arrival"]
Span: TypeAlias = int | str

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ALL = "__group"
_DAY = 86_400 * 10**9
_EVENT = "__event_time"


def causal_order(
    frame: DataFrame,
    *,
    key: str | Sequence[str] = (),
    epsilon: Span,
    delta: Span,
    c: int = 100,
    mode: Mode = "cbd",
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

    `key` says which rows belong to one system; all do, if nothing is said. `epsilon`, `delta` and `gap` are
    numbers of ticks or texts such as "5ms"; `c` is the percentage of the exact waiting time that is waited.
    `columns` says what the roles r, c, kn, l, counter, before and source are called; r (or l) and arrival are
    whole ticks or timestamps. `arrival` names a column that gives the order of arrival, such as an offset;
    without it the rows of one micro-batch count as arrived in the order of r. `slack` is how much longer timers
    wait, for the way that rows take to Spark. A row whose r leaps by more than `gap` (a day, if not said) waits
    until others confirm it. `fault` names a text column that refuses a row. `drains` is a stream
    of keys whose groups are to be emptied.
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
    policy = read_settings(values, Policy)
    given = dict(columns or {})
    roles = resolve(frame.columns, policy, given, clock=clock, arrival=arrival)
    _check_columns(frame, keys, roles, fault)
    if not keys:
        keys, frame = (_ALL,), frame.withColumn(_ALL, F.lit(0).cast("long"))
        drains = None if drains is None else drains.withColumn(_ALL, F.lit(0).cast("long"))
    rows = RowFormat(policy=policy, key=keys, columns=roles, tick=tick_ns, fault=fault)
    observer = BatchObserver(
        policy=policy,
        clock="given" if clock == "arrival" else "rows",
        gap=max(default_gap(policy), _DAY // tick_ns) if gap is None else _ticks("gap", gap, tick_ns),
        together="arrival" not in roles,
    )
    group = GroupObserver(observer, rows, ordered="arrival" in roles)
    output = StructType([*frame.schema.fields, *_ADDED_FIELDS])
    ordered = (
        _stream(frame, group, output, timers, parse_duration(slack) // 10**6, drains)
        if frame.isStreaming
        else _table(frame, group, output)
    )
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
    taken = [name for name in frame.columns if name in ADDED.names or name.startswith("__")]
    if taken:
        problem = f"the observer adds {', '.join(ADDED.names)} and names with two underscores; rename the column"
        raise ConfigurationError(f"a column is called {taken[0]!r} already; {problem}", field="columns")
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
            raise ConfigurationError(f"expected {right}, got {kind.simpleString()}", field=name)


def _table(frame: DataFrame, group: GroupObserver, output: StructType) -> DataFrame:
    """A finished table: each group at once, and nothing stays behind."""

    def whole(table: pa.Table) -> pa.Table:
        read = read_rows(table, group.rows)
        out = group.step(State.load(None), [read], flush=True).out
        assert out is not None  # a group has rows, and flushed they all leave
        return out

    return frame.groupBy(*group.rows.key).applyInArrow(whole, output)


def _stream(
    frame: DataFrame,
    group: GroupObserver,
    output: StructType,
    timers: Timers,
    slack: int,
    drains: DataFrame | None,
) -> DataFrame:
    spark = frame.sparkSession
    if spark.conf.get(_PROVIDER, "") != ROCKSDB:
        spark.conf.set(_PROVIDER, ROCKSDB)  # the only store that transformWithState works with
    _check_protobuf()
    rows = group.rows
    packed_schema = StructType([*(frame.schema[name] for name in rows.key), StructField("rows", BinaryType())])
    if timers == "event":
        # A clock that is ahead of real time would move the watermark for good: it counts as real time.
        event = F.least(_event_time(frame, rows), F.current_timestamp())
        frame = frame.withColumn(_EVENT, event).withWatermark(_EVENT, "0 seconds")

    def packing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack((batch.select(names) for batch in batches), rows)

    names = [name for name in frame.columns if name != _EVENT]
    packed = frame.mapInArrow(packing, packed_schema)
    if drains is not None:
        nothing = F.lit(None).cast("binary").alias("rows")
        packed = packed.unionByName(drains.select(*rows.key, nothing))
    mode = {"none": "None", "event": "EventTime", "processing": "ProcessingTime"}[timers]
    observed = packed.groupBy(*rows.key).transformWithStateInPandas(
        statefulProcessor=_Processor(group, timers, slack),
        outputStructType=StructType([StructField("rows", BinaryType())]),
        outputMode="Append",
        timeMode=mode,
    )
    schema = pa.schema([(name, pa.null()) for name in output.names])

    def unpacking(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(batches, schema)

    return observed.mapInArrow(unpacking, output)


def _event_time(frame: DataFrame, rows: RowFormat) -> Column:
    name = rows.columns.get("r") or rows.columns["l"]
    if isinstance(frame.schema[name].dataType, IntegralType):
        return F.timestamp_micros((F.col(name) * F.lit(rows.tick) / F.lit(1000)).cast("long"))
    return F.col(name).cast("timestamp")


def _check_protobuf() -> None:
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "ordering a stream takes the package protobuf, which pyspark needs and does not install"
        ) from None


class _Processor(StatefulProcessor):
    """The operator: brings a group's state and its packed rows to `GroupObserver`, and sets timers."""

    def __init__(self, group: GroupObserver, timers: Timers, slack: int) -> None:
        self._group = group
        self._timers = timers
        self._slack = slack

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("group", "waiting long, data binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        blobs: list[bytes | None] = [blob for frame in rows for blob in frame["rows"]]
        tables = [read_stream(blob) for blob in blobs if blob is not None]
        state = self._load()
        until = evidence = None
        if self._timers == "processing":
            now = timerValues.getCurrentProcessingTimeInMs()
            until = evidence = self._passed(state, now)
            state.header.fed = now
        elif self._timers == "event":
            evidence = timerValues.getCurrentWatermarkInMs() * 10**6 // self._group.rows.tick
        yield from self._step(state, tables, until, flush=len(tables) < len(blobs), evidence=evidence)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        state = self._load()
        if state.header.timer != expiredTimerInfo.getExpiryTimeInMs() or state.header.now is None:
            return
        state.header.timer = None
        if self._timers == "event":
            until = (timerValues.getCurrentWatermarkInMs() - self._slack) * 10**6 // self._group.rows.tick
        else:
            until = self._passed(state, timerValues.getCurrentProcessingTimeInMs()) or state.header.now
            state.header.fed = timerValues.getCurrentProcessingTimeInMs() - self._slack
        yield from self._step(state, [], until)

    def _passed(self, state: State, now: int) -> int | None:
        """The group's clock, carried on by the real time since it was last set, less the slack."""
        if state.header.now is None:
            return None
        return state.header.now + max(0, now - state.header.fed - self._slack) * 10**6 // self._group.rows.tick

    def _step(
        self,
        state: State,
        tables: list[pa.Table],
        until: int | None,
        *,
        flush: bool = False,
        evidence: int | None = None,
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        done = self._group.step(state, tables, until=until, flush=flush, evidence=evidence)
        self._set_timer(done.state)
        self._state.update((done.state.waiting, done.state.dump()))
        if done.out is not None:
            yield pd.DataFrame({"rows": [write_stream(done.out)]})

    def _load(self) -> State:
        kept = self._state.get()
        return State.load(None if kept is None else bytes(kept[1]))

    def _set_timer(self, state: State) -> None:
        """One timer a group, for the reading at which the next row can go."""
        if self._timers == "none":
            return
        header, due = state.header, self._group.next_due(state)
        wanted = None
        if due is not None and header.now is not None:
            tick = self._group.rows.tick
            ticks = due if self._timers == "event" else due - header.now
            wanted = -(-ticks * tick // 10**6) + self._slack + 1
            wanted += header.fed if self._timers == "processing" else 0
        if wanted != header.timer:
            if header.timer is not None:
                self._handle.deleteTimer(header.timer)
            if wanted is not None:
                self._handle.registerTimer(wanted)
            header.timer = wanted

    def close(self) -> None:
        pass
