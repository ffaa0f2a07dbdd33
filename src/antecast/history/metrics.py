"""Metrics of a run: latency, overhead, delivery ratio and buffers, from tables with the schemas of the log.

Pure functions over whole columns. A table may hold several runs: messages and nodes are told apart by run.
Latencies compare times of different nodes, so `t` must be one clock for all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import nan

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.history.messages import MessageIndex
from antecast.history.names import UNKNOWN, Nodes
from antecast.history.rows import IntArray, LongArray, rereadable

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True)
class Summary:
    """Statistics of some values; NaN where there are too few values to define one."""

    count: int
    min: float = nan
    max: float = nan
    mean: float = nan
    stdev: float = nan
    """Of a sample: the sum of squares is divided by count - 1."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """(fraction, value), values between two observations by linear interpolation."""


@dataclass(frozen=True)
class Overhead:
    """What a run cost on the wire."""

    broadcasts: int
    deliveries: int
    frames: int
    """Frames sent."""
    bytes: int
    """Bytes of all frames sent."""
    payload_bytes: int
    """Application data inside them."""

    @property
    def control_bytes(self) -> int:
        """All that is not payload; a frame that carries no message is control information only."""
        return self.bytes - self.payload_bytes

    @property
    def frames_per_delivery(self) -> float:
        return _ratio(self.frames, self.deliveries)

    @property
    def control_bytes_per_broadcast(self) -> float:
        return _ratio(self.control_bytes, self.broadcasts)


def delivery_latency(events: pa.Table, *, own: bool = False) -> pa.Table:
    """A row for the first delivery of each message at each node; `latency` is the time since its broadcast.

    Deliveries at the message's own origin are left out unless `own`; so are those of unknown messages.
    """
    return _latency(events, "deliver", own)


def reception_latency(events: pa.Table, *, own: bool = False) -> pa.Table:
    """The same for the first time a node received each message, whenever it could deliver it."""
    return _latency(events, "receive", own)


def summarise(values: pa.ChunkedArray | NDArray[np.number], quantiles: tuple[float, ...] = QUANTILES) -> Summary:
    """Statistics of a column or an array.

    >>> summarise(np.array([1, 2, 3, 4]), quantiles=(0.5,))
    Summary(count=4, min=1.0, max=4.0, mean=2.5, stdev=1.2909944487358056, quantiles=((0.5, 2.5),))
    """
    data = np.asarray(values, np.float64)
    if not len(data):
        return Summary(0)
    return Summary(
        count=len(data),
        min=float(data.min()),
        max=float(data.max()),
        mean=float(data.mean()),
        stdev=float(data.std(ddof=1)) if len(data) > 1 else nan,
        quantiles=tuple(zip(quantiles, np.quantile(data, quantiles).tolist(), strict=True)),
    )


def cdf(
    values: pa.ChunkedArray | NDArray[np.number], *, points: int | None = None
) -> tuple[NDArray[np.number], NDArray[np.float64]]:
    """The distinct values in ascending order, and the fraction of all that is not larger than each.

    `points` thins the curve to about as many points for a plot; the ends stay.

    >>> x, fraction = cdf(np.array([2, 1, 2, 5]))
    >>> x.tolist(), fraction.tolist()
    ([1, 2, 5], [0.25, 0.75, 1.0])
    """
    data = np.asarray(values)
    x, counts = np.unique(data, return_counts=True)
    fraction = np.cumsum(counts) / max(1, len(data))
    if points is not None and len(x) > points:
        keep = np.unique(np.linspace(0, len(x) - 1, points).round().astype(np.int64))
        x, fraction = x[keep], fraction[keep]
    return x, fraction


def delivery_ratio(events: pa.Table, *, own: bool = False) -> float:
    """The share of all pairs (node, message) that were delivered; nodes are all that have a row.

    Nodes that come and go count for every message of their run.
    """
    nodes = Nodes()
    for batch in events.to_batches():
        nodes.encode(batch.column("run"), batch.column("node"), add=True)
    size = Counter(name.run for name in nodes.names)
    index = MessageIndex.read(rereadable(events)())
    sizes = np.array([size[name.run] for name in index.nodes.names], np.int64)
    expected = int((sizes[index.origin] - (0 if own else 1)).sum())
    return _ratio(len(delivery_latency(events, own=own)), expected)


def overhead(events: pa.Table) -> Overhead:
    """Count the frames and bytes of all `send` rows; a frame's payload is that of the messages it carries.

    A row with 0 bytes is one more message in the frame of the row before it. A frame whose message has no
    broadcast in the log counts as control information.
    """
    index = MessageIndex.read(rereadable(events)())
    broadcast, sent = _of_kind(events, "broadcast"), _of_kind(events, "send")
    sizes = np.zeros(len(index) + 1, np.int64)  # the last entry is for UNKNOWN, which is -1
    sizes[_messages(broadcast, index)] = _filled(broadcast, "bytes")
    carrying = sent.filter(pc.and_(sent["origin"].is_valid(), sent["seq"].is_valid()))
    return Overhead(
        broadcasts=len(broadcast),
        deliveries=len(_of_kind(events, "deliver")),
        frames=int(pc.sum(pc.fill_null(pc.not_equal(sent["bytes"], 0), True)).as_py() or 0),
        bytes=int(_filled(sent, "bytes").sum()),
        payload_bytes=int(sizes[_messages(carrying, index)].sum()),
    )


def gauges(samples: pa.Table) -> pa.Table:
    """For each run and gauge: the largest sample, the mean of all, the mean of the nodes' last ones."""
    samples = _plain(samples).sort_by([("run", "ascending"), ("gauge", "ascending"), ("t", "ascending")])
    keys = ["run", "gauge"]
    overall = samples.group_by(keys, use_threads=False).aggregate([("value", "max"), ("value", "mean")])
    last = samples.group_by([*keys, "node"], use_threads=False).aggregate([("value", "last")])
    last = last.group_by(keys, use_threads=False).aggregate([("value_last", "mean")])
    order = [(name, "ascending") for name in keys]  # the two groupings may come in different orders
    overall, last = overall.sort_by(order), last.sort_by(order)
    return pa.table(
        {
            "run": overall["run"],
            "gauge": overall["gauge"],
            "max": overall["value_max"],
            "mean": overall["value_mean"],
            "last": last["value_last_mean"],
        }
    )


def gauge_series(samples: pa.Table, gauge: str) -> pa.Table:
    """One gauge over time: run, t, and the smallest, mean and largest value among the nodes sampled at t."""
    samples = _plain(samples)
    samples = samples.filter(pc.equal(samples["gauge"], gauge))
    series = samples.group_by(["run", "t"], use_threads=False).aggregate(
        [("value", "min"), ("value", "mean"), ("value", "max")]
    )
    return series.rename_columns(["run", "t", "min", "mean", "max"]).sort_by(
        [("run", "ascending"), ("t", "ascending")]
    )


def _latency(events: pa.Table, kind: str, own: bool) -> pa.Table:
    index = MessageIndex.read(rereadable(events)(), timed=True)
    assert index.t is not None  # read with times
    rows = _of_kind(events, kind)
    rows = rows.filter(pc.and_(rows["origin"].is_valid(), rows["seq"].is_valid()))
    message = _messages(rows, index)
    nodes = index.nodes.copy()
    node = nodes.encode(rows["run"].combine_chunks(), rows["node"].combine_chunks(), add=True)
    wanted = message != UNKNOWN
    if not own:
        wanted &= index.origin[message] != node
    (some,) = np.nonzero(wanted)
    some = some[np.lexsort((rows["pos"].to_numpy()[some], message[some], node[some]))]
    again = (np.diff(message[some]) == 0) & (np.diff(node[some]) == 0)
    some = np.sort(np.delete(some, np.flatnonzero(again) + 1))
    latency = rows["t"].to_numpy()[some] - index.t[message[some]]
    return (
        rows.take(some).select(["run", "node", "origin", "seq", "t"]).append_column("latency", pa.array(latency))
    )


def _of_kind(events: pa.Table, kind: str) -> pa.Table:
    return events.filter(pc.equal(events["kind"], kind)).unify_dictionaries()


def _messages(rows: pa.Table, index: MessageIndex) -> IntArray:
    origin = index.nodes.encode(rows["run"].combine_chunks(), rows["origin"].combine_chunks())
    return index.find(origin, rows["seq"].to_numpy())


def _filled(rows: pa.Table, column: str) -> LongArray:
    filled: LongArray = pc.fill_null(rows[column], 0).to_numpy()
    return filled


def _plain(samples: pa.Table) -> pa.Table:
    """Names as plain strings: Arrow cannot group by dictionaries that differ between chunks."""
    for name in ("run", "gauge"):
        place = samples.schema.get_field_index(name)
        samples = samples.set_column(place, name, samples[name].cast(pa.string()))
    return samples


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else nan
