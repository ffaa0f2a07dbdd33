"""Causal order by explicit dependencies: each row has an id, and the ids of the rows that it needs.

    ordered = antecast.spark.causal_order(rows, id="id", needs="needs", key="account", wait="10min")

On a stream this is a stateful operator whose groups keep the rows that wait in Spark's state store; on a finished
table it is a batch job over each group as a whole. `causal_order_group` is the step of one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DatetimeType,
    DayTimeIntervalType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from antecast.core.errors import ConfigurationError
from antecast.core.settings import parse_duration
from antecast.spark.causal_order_group import GiveUp, Late, NeedsGroup, State, Step
from antecast.spark.observe import check_protobuf, choose_store
from antecast.spark.observe_rows import pack_groups, pieces, read_streams, unpack
from antecast.spark.ordered_frames import (
    NOW,
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
    from pyspark.sql import DataFrame

Timers: TypeAlias = Literal["none", "processing"]

ADDED = ("position", "waited", "late", "reason", "missing")
_ORDERED = (NumericType, StringType, BinaryType, BooleanType, DatetimeType, DayTimeIntervalType)
"""Kinds of columns that can say in which order rows arrived."""
_ALL, _EVENT, _NOW = "__group", "__event_time", "__now"


def order_by_needs(
    frame: DataFrame,
    *,
    id: str,  # noqa: A002
    needs: str,
    key: str | Sequence[str] = (),
    wait: str | None = None,
    event: str | None = None,
    timers: Timers = "none",
    most: int = 100_000,
    remember: int = 100_000,
    give_up: GiveUp = "release",
    late: Late = "deliver",
    arrival: str | None = None,
    drains: DataFrame | None = None,
) -> DataFrame:
    """Rows such that each comes after all that it needs, each once, with five columns more.

    | column | |
    |---|---|
    | `position` | its place in the order of its group, from 0; null if it was refused |
    | `waited` | milliseconds that it waited |
    | `late` | whether a row that needs it went before it |
    | `reason` | null, or why the row was refused |
    | `missing` | the ids that it needed and that had not gone before it; null if there were none |

    `id` names the column with a row's own id, `needs` the one with an array of ids; a null array is an empty one.
    `key` says which rows belong to one system; ids are known within a group only. Default: all rows are one group.
    Of rows with the same id all but the first are refused; the last `remember` ids of a group are known.
    A row is given up when it has waited for `wait` (default: never), or when more than `most` rows of its group
    wait; then it is released or quarantined, as `give_up` says. The wait counts in the time of micro-batches while
    the query runs, and a group is looked at when rows of it come; with `timers="processing"` also in silence, but
    then Spark never ends a query with `availableNow`. With `event`, a column of timestamps, it counts from a row's
    own time until the watermark is that far, in silence too.
    `late="refuse"` refuses late rows. `arrival` names a column with the order of arrival, such as an offset;
    without it, rows of one micro-batch count as arrived in an order that their ids decide. `drains` is a stream of
    keys whose groups are to be emptied.
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    _check(frame, {"id": id, "needs": needs, "arrival": arrival, "event": event}, keys)
    for name, value in (("most", most), ("remember", remember)):
        if value < 1:
            raise ConfigurationError(f"expected a whole number above zero, got {value!r}", field=name)
    for name, word, words in (
        ("give_up", give_up, ("release", "quarantine")),
        ("late", late, ("deliver", "refuse")),
        ("timers", timers, ("none", "processing")),
    ):
        if word not in words:
            raise ConfigurationError(f"expected {' or '.join(words)}, got {word!r}", field=name)
    if event is not None and timers != "none":
        raise ConfigurationError("with event time the watermark is the clock; leave timers out", field="timers")
    if not keys:
        keys, frame = (_ALL,), frame.withColumn(_ALL, F.lit(0).cast("long"))
        drains = None if drains is None else drains.withColumn(_ALL, F.lit(0).cast("long"))
    group = NeedsGroup(
        key=keys,
        id=id,
        needs=needs,
        arrival=arrival,
        wait=_milliseconds(wait),
        event=event,
        most=most,
        remember=remember,
        give_up=give_up,
        late=late,
    )
    kinds = (LongType(), LongType(), BooleanType(), StringType(), frame.schema[needs].dataType)
    added = [StructField(name, kind) for name, kind in zip(ADDED, kinds, strict=True)]
    output = StructType([*frame.schema.fields, *added])
    ordered = _stream(frame, group, output, timers, drains) if frame.isStreaming else _table(frame, group, output)
    return ordered.drop(_ALL) if keys == (_ALL,) else ordered


def _milliseconds(wait: str | None) -> int | None:
    if wait is None:
        return None
    try:
        span = parse_duration(wait) // 10**6
    except ValueError as error:
        raise ConfigurationError(str(error), field="wait") from None
    if span < 1:
        raise ConfigurationError(f"expected a millisecond or more, got {wait!r}", field="wait")
    return span


def _check(frame: DataFrame, roles: dict[str, str | None], keys: Sequence[str]) -> None:
    """The columns are there, have types that can be used, and leave room for those that are added."""
    named = [*((role, name) for role, name in roles.items() if name is not None), *(("key", key) for key in keys)]
    for role, name in named:
        if name not in frame.columns:
            problem = f"no column {name!r}; the columns are {', '.join(frame.columns)}"
            raise ConfigurationError(problem, field=role)
    check_frame(frame, keys, ADDED)
    own, listed = frame.schema[str(roles["id"])].dataType, frame.schema[str(roles["needs"])].dataType
    if _kind(own) is None:
        problem = f"expected a text, a whole number or binary data, got {own.simpleString()}"
        raise ConfigurationError(problem, field=roles["id"])
    if not isinstance(listed, ArrayType) or _kind(listed.elementType) != _kind(own):
        problem = f"expected an array of ids, which are {own.simpleString()}, got {listed.simpleString()}"
        raise ConfigurationError(problem, field=roles["needs"])
    if roles["arrival"] is not None and not isinstance(frame.schema[roles["arrival"]].dataType, _ORDERED):
        got = frame.schema[roles["arrival"]].dataType.simpleString()
        raise ConfigurationError(f"expected values that have an order, got {got}", field=roles["arrival"])
    if roles["event"] is not None and not isinstance(frame.schema[roles["event"]].dataType, TimestampType):
        got = frame.schema[roles["event"]].dataType.simpleString()
        raise ConfigurationError(f"expected a timestamp, got {got}", field=roles["event"])


def _kind(kind: DataType) -> str | None:
    if isinstance(kind, IntegralType):
        return "number"
    return "text" if isinstance(kind, StringType) else "binary" if isinstance(kind, BinaryType) else None


def _table(frame: DataFrame, group: NeedsGroup, output: StructType) -> DataFrame:
    """A finished table: each group at once, and nothing stays behind."""

    def whole(table: pa.Table) -> pa.Table:
        out = group.step(State.load(None), [table], flush=True).out
        assert out is not None  # a group has rows, and flushed they all leave
        return out

    return by_groups(frame, group.key, whole, output)


def _stream(
    frame: DataFrame, group: NeedsGroup, output: StructType, timers: Timers, drains: DataFrame | None
) -> DataFrame:
    choose_store(frame.sparkSession)
    check_protobuf()
    names = list(frame.columns)
    packed_as = packed_schema(frame, group.key, **{NOW: LongType()})
    # The time of the micro-batch, the same if it runs again, comes along with the rows.
    now = F.unix_millis(F.current_timestamp())
    frame = frame.withColumn(_NOW, now)
    if group.event is not None:
        frame = frame.withColumn(_EVENT, not_ahead(column(group.event))).withWatermark(_EVENT, "0 seconds")

    def packing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                rows = batch.select(names)
                packed = pack_groups(rows, pa.Table.from_batches([rows]), group.key)
                packed = packed.append_column(NOW, pa.repeat(batch.column(_NOW)[0], len(packed)))
                yield packed.rename_columns(packed_as.names)

    packed = in_arrow(frame, packing, packed_as)
    if drains is not None:
        packed = packed.unionByName(drained(drains, group.key, frame.schema, now.alias(NOW)))
    keys = packed_as.names[: len(group.key)]
    ordered = (
        fit_for_pandas(packed, keys)
        .groupBy(*keys)
        .transformWithStateInPandas(
            statefulProcessor=_Processor(group, timed=timers == "processing" or group.event is not None),
            outputStructType=StructType([StructField("rows", BinaryType())]),
            outputMode="Append",
            timeMode={"none": "None", "processing": "ProcessingTime"}[timers]
            if group.event is None
            else "EventTime",
        )
    )
    output = nullable(output)
    schema = arrow_schema(frame, output)

    def unpacking(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpack(batches, schema)

    return ordered.mapInArrow(unpacking, output)


class _Processor(StatefulProcessor):
    """The operator: brings a group's state and its packed rows to `NeedsGroup`, and sets timers."""

    def __init__(self, group: NeedsGroup, *, timed: bool) -> None:
        self._group = group
        self._timed = timed

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("group", "waiting long, data binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        frames = list(rows)
        blobs: list[bytes | None] = [blob for frame in frames for blob in frame["rows"]]
        tables = read_streams(blobs)
        real = self._real(timerValues) if self._timed else int(frames[0][NOW].iloc[0])
        done = self._group.step(self._load(), tables, real=real, flush=len(tables) < len(blobs))
        yield from self._finish(done)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        state = self._load()
        if state.header.timer != expiredTimerInfo.getExpiryTimeInMs():
            return
        state.header.timer = None
        yield from self._finish(self._group.step(state, [], real=self._real(timerValues)))

    def _real(self, timerValues: Any) -> int:  # noqa: N803
        """The time that timers go by, in milliseconds."""
        if self._group.event is None:
            return int(timerValues.getCurrentProcessingTimeInMs())
        return int(timerValues.getCurrentWatermarkInMs())

    def _finish(self, done: Step) -> Iterator[pd.DataFrame]:
        import pandas as pd

        header, due = done.state.header, self._group.due(done.state)
        wanted = None
        if self._timed and due is not None and header.real is not None and self._group.wait is not None:
            # Of real time a step counts a quarter of the wait at most, so the timer is set no further than that.
            step = due if self._group.event is not None else min(due, max(1, self._group.wait // 4))
            wanted = header.real + max(1, step)
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
