"""What the log of a run says, measured in two passes over its rows with memory that does not grow with them.

The first pass numbers the messages and counts events by kind. The second adds up what went over the wire, in steps
of time, and keeps the rows of a sample of messages: all of them, or every k-th (in the order in which the log's
index numbers them) if the rows would be more than `SAMPLE_ROWS`. So counts and bytes are exact whatever the size;
latencies and the delivery ratio are those of the messages of the sample, all nodes included. There is no chance in
it: the same log gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.history import metrics
from antecast.history.log import BATCH_ROWS, iter_events
from antecast.history.messages import UNKNOWN, MessageIndex
from antecast.history.metrics import Overhead
from antecast.history.rows import LongArray, factorise
from antecast.history.schema import EVENTS, KINDS, Kind

SAMPLE_ROWS = 1_000_000
"""Rows of the sample: a second of work, some 60 MB."""

STEPS = 100
"""Steps of time in plots over time."""

CURVE_POINTS = 200
"""Points of a distribution in a plot."""

_COLUMNS = EVENTS.names
_SAMPLED = np.array([kind in (Kind.BROADCAST, Kind.DELIVER, Kind.RECEIVE) for kind in Kind])


@dataclass(frozen=True, eq=False)
class Measures:
    """A run in numbers. Times are nanoseconds."""

    index: MessageIndex
    counts: dict[str, int]
    """Events by kind."""
    nodes: int
    """Nodes with an application that have a row."""
    cost: Overhead
    wire: pa.Table
    """`seconds` (start of a step), `payload_bytes`, `control_bytes`, `frames`, `deliveries` in the step."""
    step: int
    """Every so many-th message is in the sample; 1 if all are."""
    delivery: metrics.Summary
    """Latencies of deliveries at other nodes than the message's own."""
    latency: pa.Table
    """`what` (delivered, received), `seconds`, `share`: distributions, thinned."""
    ratio: float
    """The part of all (node, message) in which the node delivers the message, the message's own node aside."""
    ratios: pa.Table
    """`seconds` (start of a step), `messages` broadcast in the step, and `low`, `mean`, `high` of the share of
    nodes that deliver each."""

    @property
    def events(self) -> int:
        return sum(self.counts.values())

    @property
    def has_frames(self) -> bool:
        return bool(self.counts["send"] or self.counts["receive"])


def measure(folder: Path, *, applications: int, sample_rows: int = SAMPLE_ROWS) -> Measures:
    """Measure the run in a folder. Nodes from number `applications` on are stations and have no application."""
    first = _First()
    index = MessageIndex.read(first.watch(iter_events(folder, _COLUMNS)), timed=True)
    counts = dict(zip(KINDS, first.counts.tolist(), strict=True))
    nodes = int((np.flatnonzero(first.seen) < applications).sum())
    step = max(1, -(-int(first.counts[_SAMPLED].sum()) // sample_rows))
    sizes = np.zeros(len(index) + 1, np.int64)  # the last entry is for UNKNOWN, which is -1
    for batch in first.broadcasts:
        sizes[_messages(batch, index)] = pc.fill_null(batch.column("bytes"), 0).to_numpy(zero_copy_only=False)
    width = max(1, -(-(first.last + 1) // STEPS))
    wire = np.zeros((4, STEPS), np.int64)
    kept = []
    for batch in iter_events(folder, _COLUMNS):
        codes = _kinds(batch)
        _add_wire(wire, batch, codes, index, sizes, width)
        some = _SAMPLED[codes]
        if step > 1:
            some &= _messages(batch, index) % step == 0
        if applications < len(first.seen):
            some &= batch.column("node").to_numpy() < applications
        kept.append(batch.filter(pa.array(some)))
    sample = pa.Table.from_batches(kept, EVENTS)
    latency = metrics.delivery_latency(sample)
    curves = [("delivered", latency["latency"])]
    if counts["receive"]:
        curves.append(("received", metrics.reception_latency(sample)["latency"]))
    ratio, ratios = _ratios(latency, index, step, nodes)
    return Measures(
        index=index,
        counts=counts,
        nodes=nodes,
        cost=Overhead(
            counts["broadcast"], counts["deliver"], int(wire[2].sum()), int(wire[:2].sum()), int(wire[0].sum())
        ),
        wire=_wire_table(wire, width),
        step=step,
        delivery=metrics.summarise(latency["latency"]),
        latency=_curves(curves),
        ratio=ratio,
        ratios=ratios,
    )


class _First:
    """What the first pass notes of the batches that go by."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(KINDS), np.int64)
        self.seen = np.zeros(0, np.bool_)
        self.last = 0
        self.broadcasts: list[pa.RecordBatch] = []

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            codes, node = _kinds(batch), batch.column("node").to_numpy()
            self.counts += np.bincount(codes, minlength=len(KINDS))
            if len(node):
                if node.max() >= len(self.seen):
                    self.seen = np.concatenate((self.seen, np.zeros(node.max() + 1 - len(self.seen), np.bool_)))
                self.seen[node] = True
                self.last = max(self.last, int(pc.max(batch.column("t")).as_py()))
            self.broadcasts.append(batch.filter(pa.array(codes == Kind.BROADCAST)))
            yield batch


def _kinds(batch: pa.RecordBatch) -> LongArray:
    """The code of each row's kind, whatever dictionary the batch has."""
    codes, words = factorise(batch.column("kind"))
    return np.array([KINDS.index(str(word)) for word in words], np.int64)[codes]


def _messages(batch: pa.RecordBatch, index: MessageIndex) -> LongArray:
    """The number of each row's message; UNKNOWN where it has none."""
    found = np.full(len(batch), UNKNOWN, np.int64)
    there = np.flatnonzero(batch.column("origin").is_valid().to_numpy(zero_copy_only=False))
    rows = batch.take(pa.array(there))
    origin = index.nodes.encode(rows.column("run"), rows.column("origin"))
    found[there] = index.find(origin, rows.column("seq").to_numpy(zero_copy_only=False))
    return found


def _add_wire(
    wire: LongArray, batch: pa.RecordBatch, codes: LongArray, index: MessageIndex, sizes: LongArray, width: int
) -> None:
    """Payload bytes, other bytes, frames and deliveries of each step of time."""
    place = batch.column("t").to_numpy() // width
    sent = np.flatnonzero(codes == Kind.SEND)
    if len(sent):
        rows = batch.take(pa.array(sent))
        total = pc.fill_null(rows.column("bytes"), 0).to_numpy(zero_copy_only=False)
        whole = pc.fill_null(pc.not_equal(rows.column("bytes"), 0), True).to_numpy(zero_copy_only=False)
        payload = sizes[_messages(rows, index)]
        for row, values in enumerate((payload, total - payload, whole)):
            np.add.at(wire[row], place[sent], values.astype(np.int64))
    wire[3] += np.bincount(place[codes == Kind.DELIVER], minlength=STEPS)


def _wire_table(wire: LongArray, width: int) -> pa.Table:
    used = int(np.flatnonzero(wire.any(axis=0)).max(initial=-1)) + 1
    names = ("payload_bytes", "control_bytes", "frames", "deliveries")
    columns = {name: wire[row, :used] for row, name in enumerate(names)}
    return pa.table({"seconds": np.arange(used) * width / 1e9, **columns})


def _curves(columns: list[tuple[str, pa.ChunkedArray]]) -> pa.Table:
    parts = []
    for what, values in columns:
        x, share = metrics.cdf(values, points=CURVE_POINTS)
        parts.append(pa.table({"what": [what] * len(x), "seconds": x / 1e9, "share": share}))
    return pa.concat_tables(parts)


def _ratios(latency: pa.Table, index: MessageIndex, step: int, nodes: int) -> tuple[float, pa.Table]:
    """The delivery ratio of the sampled messages, in all and by the time of their broadcast."""
    messages = np.arange(0, len(index), step)
    delivered = np.zeros(len(index), np.int64)
    for batch in latency.to_batches():
        delivered += np.bincount(_messages(batch, index), minlength=len(index))
    empty = pa.table({name: pa.array([], pa.float64()) for name in ("seconds", "messages", "low", "mean", "high")})
    if nodes < 2 or not len(messages):
        return float("nan"), empty
    assert index.t is not None  # read with times
    share, t = delivered[messages] / (nodes - 1), index.t[messages]
    start = int(t.min())
    width = max(1, -(-(int(t.max()) - start + 1) // STEPS))
    place = (t - start) // width
    low, high = np.full(STEPS, np.inf), np.full(STEPS, -np.inf)
    np.minimum.at(low, place, share)
    np.maximum.at(high, place, share)
    count = np.bincount(place, minlength=STEPS)
    there = np.flatnonzero(count)
    mean = np.bincount(place, weights=share, minlength=STEPS)[there] / count[there]
    columns = {"messages": count[there].astype(np.float64), "low": low[there], "mean": mean, "high": high[there]}
    return float(share.mean()), pa.table({"seconds": (start + there * width) / 1e9, **columns})


def gauges(folder: Path) -> pa.Table:
    """Gauges over time: `gauge`, `seconds` (start of a step), `low`, `mean`, `high` of all nodes in a step."""
    parts = []
    last = max(
        (int(pc.max(batch.column("t")).as_py()) for batch in _samples(folder, ["t"]) if len(batch)), default=0
    )
    width = max(1, -(-(last + 1) // STEPS))
    for batch in _samples(folder, ["t", "gauge", "value"]):
        codes, words = factorise(batch.column("gauge"))
        place = pa.array(batch.column("t").to_numpy() // width)
        named = pa.array([str(word) for word in words]).take(pa.array(codes))
        rows = pa.table({"gauge": named, "step": place, "value": batch.column("value")})
        parts.append(_grouped(rows, [("value", "min"), ("value", "max"), ("value", "sum"), ("value", "count")]))
    if not parts:
        return pa.table({name: pa.array([], pa.float64()) for name in ("gauge", "seconds", "low", "mean", "high")})
    whole = [("value_min", "min"), ("value_max", "max"), ("value_sum", "sum"), ("value_count", "sum")]
    rows = _grouped(pa.concat_tables(parts), whole).sort_by([("gauge", "ascending"), ("step", "ascending")])
    return pa.table(
        {
            "gauge": rows["gauge"],
            "seconds": rows["step"].to_numpy() * width / 1e9,
            "low": rows["value_min_min"],
            "mean": rows["value_sum_sum"].to_numpy() / rows["value_count_sum"].to_numpy(),
            "high": rows["value_max_max"],
        }
    )


def _samples(folder: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from pq.ParquetFile(folder / "samples.parquet").iter_batches(batch_size=BATCH_ROWS, columns=columns)
    except FileNotFoundError:
        return  # logs from elsewhere may have none
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"not a readable Parquet file ({error})", path=folder / "samples.parquet") from None


def _grouped(rows: pa.Table, aggregates: list[tuple[str, str]]) -> pa.Table:
    return rows.group_by(["gauge", "step"], use_threads=False).aggregate(aggregates)


def known(value: float) -> float | None:
    """A number, or None where there is none."""
    return None if isnan(value) else value
