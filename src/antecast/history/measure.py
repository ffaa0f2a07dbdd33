"""The measure of a run: what its log says in numbers, the same for runs, sweeps, comparisons and reports.

Two passes over the rows. The first numbers the messages and counts events by kind. The second adds up what went
over the wire, in steps of time, and keeps the rows of messages: of all of them, or of every k-th (in the order in
which the log's index numbers them) if the rows would be more than `sample_rows`. So counts and bytes are exact
whatever the size, and memory does not grow with the log where a sample is asked for; latencies and the delivery
ratio are then those of the messages of the sample, all nodes included. Nothing is random: the same log gives the
same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isnan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.history import metrics
from antecast.history.messages import MessageIndex
from antecast.history.metrics import Overhead
from antecast.history.names import UNKNOWN
from antecast.history.rows import LongArray, factorise
from antecast.history.schema import EVENTS, KINDS, Kind

SAMPLE_ROWS = 1_000_000
"""Rows of a sample for a report: a second of work, some 60 MB."""

STEPS = 100
"""Steps of time in plots over time."""

CURVE_POINTS = 200
"""Points of a distribution in a plot."""

EVERYONE = 1 << 31
"""More nodes than a log can have."""


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
    """Every k-th message is in the sample; 1 if all are."""
    order: pa.Table
    """Broadcasts and deliveries of the sample, as rows of the log."""
    latencies: LongArray
    """From broadcast to first delivery, at other nodes than the message's own."""
    delivery: metrics.Summary
    """These latencies, summed up."""
    latency: pa.Table
    """`what` (delivered, received), `seconds`, `share`: distributions, thinned."""
    possible: int
    """Deliveries at other nodes than the message's own, if every node delivered every message of the sample."""
    ratios: pa.Table
    """`seconds` (start of a step), `messages` broadcast in the step, and `low`, `mean`, `high` of the share of
    nodes that deliver each."""

    @property
    def elsewhere(self) -> int:
        """Deliveries at other nodes than the message's own, of messages of the sample."""
        return len(self.latencies)

    @property
    def ratio(self) -> float:
        """The share of all possible deliveries that were made; NaN if none was possible."""
        return self.elsewhere / self.possible if self.possible else float("nan")

    @property
    def events(self) -> int:
        return sum(self.counts.values())

    @property
    def has_frames(self) -> bool:
        return bool(self.counts["send"] or self.counts["receive"])


def measure(
    events: pa.Table | Callable[[], Iterable[pa.RecordBatch]],
    *,
    applications: int = EVERYONE,
    sample_rows: int | None = None,
    received: bool = True,
) -> Measures:
    """Measure one run, given as a table or as a way to read its batches anew.

    Nodes from number `applications` on are stations: they have no application, and deliver nothing. Without
    `sample_rows` all messages are looked at. `received=False` leaves out the distribution of receptions, whose
    rows usually far outnumber those of deliveries.
    """
    read = events.to_batches if isinstance(events, pa.Table) else events
    first = _First()
    index = MessageIndex.read(first.watch(read()), timed=True)
    kinds = [Kind.BROADCAST, Kind.DELIVER, *([Kind.RECEIVE] if received else [])]
    sampled = np.isin(np.arange(len(Kind)), kinds)
    counts = dict(zip(KINDS, first.counts.tolist(), strict=True))
    nodes = int((np.flatnonzero(first.seen) < applications).sum())
    rows = int(first.counts[sampled].sum())
    step = 1 if sample_rows is None else max(1, -(-rows // sample_rows))
    sizes = np.zeros(len(index) + 1, np.int64)  # the last entry is for UNKNOWN, which is -1
    for batch in first.broadcasts:
        sizes[_messages(batch, index)] = pc.fill_null(batch.column("bytes"), 0).to_numpy(zero_copy_only=False)
    width = max(1, -(-(first.last + 1) // STEPS))
    wire = np.zeros((4, STEPS), np.int64)
    kept = []
    for batch in read():
        codes = _kinds(batch)
        _add_wire(wire, batch, codes, index, sizes, width)
        some = sampled[codes]
        if step > 1:
            some &= _messages(batch, index) % step == 0
        if applications < len(first.seen):
            some &= (batch.column("node").to_numpy() < applications) | (codes == Kind.BROADCAST)
        kept.append(batch.filter(pa.array(some)))
    sample = pa.Table.from_batches(kept, kept[0].schema if kept else EVENTS)
    latency = metrics.delivery_latency(sample)
    curves = [("delivered", latency["latency"])]
    if received and counts["receive"]:
        curves.append(("received", metrics.reception_latency(sample)["latency"]))
    latencies = latency["latency"].to_numpy()
    return Measures(
        index=index,
        counts=counts,
        nodes=nodes,
        cost=Overhead(
            counts["broadcast"], counts["deliver"], int(wire[2].sum()), int(wire[:2].sum()), int(wire[0].sum())
        ),
        wire=_wire_table(wire, width),
        step=step,
        order=sample.filter(pc.not_equal(sample["kind"], "receive")) if received else sample,
        latencies=latencies,
        delivery=metrics.summarise(latencies),
        latency=_curves(curves),
        possible=len(range(0, len(index), step)) * max(0, nodes - 1),
        ratios=_ratios(latency, index, step, nodes),
    )


class _First:
    """What the first pass notes about the batches."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(KINDS), np.int64)
        self.seen = np.zeros(0, np.bool_)
        self.last = 0
        self.broadcasts: list[pa.RecordBatch] = []

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
        parts.append(
            pa.table({"what": pa.array([what] * len(x), pa.string()), "seconds": x / 1e9, "share": share})
        )
    return pa.concat_tables(parts)


def _ratios(latency: pa.Table, index: MessageIndex, step: int, nodes: int) -> pa.Table:
    """The delivery ratio of the sampled messages, by the time of their broadcast."""
    messages = np.arange(0, len(index), step)
    delivered = np.zeros(len(index), np.int64)
    for batch in latency.to_batches():
        delivered += np.bincount(_messages(batch, index), minlength=len(index))
    empty = pa.table({name: pa.array([], pa.float64()) for name in ("seconds", "messages", "low", "mean", "high")})
    if nodes < 2 or not len(messages):
        return empty
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
    return pa.table({"seconds": (start + there * width) / 1e9, **columns})


def gauges_over_time(samples: Callable[[], Iterable[pa.RecordBatch]]) -> pa.Table:
    """Gauges over time: `gauge`, `seconds` (start of a step), `low`, `mean`, `high` of all nodes in a step."""
    parts = []
    last = max((int(pc.max(batch.column("t")).as_py()) for batch in samples() if len(batch)), default=0)
    width = max(1, -(-(last + 1) // STEPS))
    for batch in samples():
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


def _grouped(rows: pa.Table, aggregates: list[tuple[str, str]]) -> pa.Table:
    return rows.group_by(["gauge", "step"], use_threads=False).aggregate(aggregates)


def known(value: float) -> float | None:
    """A number, or None where there is none."""
    return None if isnan(value) else value
