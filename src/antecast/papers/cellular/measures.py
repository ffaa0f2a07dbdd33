"""What the paper on mobile hosts and stations measures of a run, from its event log and its samples.

A *frame* is what a radio or a wire carries, the paper's "message sent"; those of radios and of wires are counted
apart. Buffers are means over the nodes of a kind and over the samples taken while hosts broadcast; the first
seconds of the load, in which buffers fill, are left out. Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.history import metrics
from antecast.history.schema import Kind

SECOND = 10**9
WARM_UP = 5
"""Seconds of the load that are left out of means of buffers."""
BUFFERS = ("station_sent_buffer", "station_received_buffer", "host_sent_buffer", "host_received_buffer")
_HANDOFFS = ("station_handoffs", "handoff_listed", "handoff_carried", "handoff_skipped", "handoff_meanwhile")
_CURVE = 100
"""Steps of a distribution."""

Longs = NDArray[np.int64]
Rows = NDArray[np.bool_]
Floats = NDArray[np.float64]


class Log:
    """One run: hosts are the nodes below `hosts`, and broadcast from `start` to `end`."""

    def __init__(
        self, events: pa.Table, samples: pa.Table, hosts: int, headers: int, start: float, end: float
    ) -> None:
        self.hosts, self.headers, self.start, self.end = hosts, headers, start, end
        self.kind = _codes(events, "kind")
        self.node = events["node"].to_numpy().astype(np.int64)
        self.t = events["t"].to_numpy() / SECOND
        self._origin = events["origin"].fill_null(-1).to_numpy()
        self._peer = events["peer"].fill_null(-1).to_numpy()
        self._bytes = events["bytes"].fill_null(0).to_numpy()
        self._gauges = samples["gauge"].to_pandas().astype(str).to_numpy()
        self._sampled = samples["node"].to_numpy(), samples["t"].to_numpy() / SECOND, samples["value"].to_numpy()

    @cached_property
    def sent(self) -> Rows:
        return np.asarray((self.kind == Kind.SEND) & (self._bytes > 0))

    @cached_property
    def wired(self) -> Rows:
        """Frames between stations: whatever a station says to nobody in particular goes over the radio."""
        return np.asarray(self.sent & (self.node >= self.hosts) & (self._peer >= 0))

    @cached_property
    def aired(self) -> Rows:
        return self.sent & ~self.wired

    @cached_property
    def to_cells(self) -> Rows:
        """Application messages from a station to its cell."""
        return np.asarray(self.aired & (self.node >= self.hosts) & (self._origin >= 0))

    def size(self, rows: Rows, *, headers: bool) -> Longs:
        sizes: Longs = self._bytes[rows] + (self.headers if headers else 0)
        return sizes

    def count(self, kind: Kind) -> int:
        return int((self.kind == kind).sum())

    def gauge(self, name: str, *, loaded: bool = False) -> tuple[Longs, Floats, Longs]:
        """(node, t, value) of a gauge's samples, on request only while hosts broadcast."""
        node, t, value = self._sampled
        rows = self._gauges == name
        if loaded:
            rows &= (t >= self.start + WARM_UP) & (t < self.end)
        return node[rows], t[rows], value[rows]

    def last(self, name: str) -> int:
        """The sum of a counter over all nodes, at the end."""
        node, _, value = self.gauge(name)
        return int(sum(dict(zip(node.tolist(), value.tolist(), strict=True)).values()))


def _codes(table: pa.Table, column: str) -> Longs:
    """The codes of a dictionary column, by the words of `Kind`."""
    words = table[column].combine_chunks()
    known = {kind.word: int(kind) for kind in Kind}
    order = np.array([known[word] for word in words.dictionary.to_pylist()], np.int64)
    codes: Longs = order[words.indices.to_numpy()]
    return codes


def traffic(log: Log) -> dict[str, float]:
    """Frames and bytes; those on the air with all headers."""
    broadcasts, deliveries = log.count(Kind.BROADCAST), log.count(Kind.DELIVER)
    frames = int(log.aired.sum())
    octets = int(log.size(log.aired, headers=True).sum())
    loaded = log.aired & (log.t >= log.start) & (log.t < log.end)
    carried = log.size(log.to_cells, headers=False)
    return {
        "broadcasts": broadcasts,
        "deliveries": deliveries,
        "delivered": deliveries / max(1, broadcasts * log.hosts),
        "frames per delivery": frames / max(1, deliveries),
        "with wires": (frames + int(log.wired.sum())) / max(1, deliveries),
        "frames per second": float(loaded.sum()) / (log.end - log.start),
        "bytes per second": float(log.size(loaded, headers=True).sum()) / (log.end - log.start),
        "bytes per delivery": octets / max(1, deliveries),
        "bytes per frame": octets / max(1, frames),
        "message, largest": float(carried.max()) if len(carried) else 0.0,
        "message, mean": float(carried.mean()) if len(carried) else 0.0,
    }


def delay(events: pa.Table) -> dict[str, Any]:
    """From broadcast to delivery, at the message's own host too, of what was delivered."""
    taken = metrics.delivery_latency(events, own=True)["latency"].to_numpy() / SECOND
    shares = np.linspace(0, 1, _CURVE + 1)
    curve = np.quantile(taken, shares)
    found = metrics.summarise(taken, quantiles=(0.5, 0.95))
    return {
        "mean": found.mean,
        "median": found.quantiles[0][1],
        "95 %": found.quantiles[1][1],
        "curve": [[float(x), float(y)] for x, y in zip(curve, shares, strict=True)],
    }


def loss(log: Log) -> float:
    """The share of receptions that were lost, of all radios."""
    missed, received = log.last("radio_missed"), log.last("radio_received")
    return missed / max(1, missed + received)


def buffers(log: Log) -> dict[str, dict[str, float]]:
    """Each kind of buffer: mean, 75 % and largest, how much it goes up and down, and whether it grows.

    `swing` is what lies between 5 % and 95 % of a node's samples, as a mean over nodes; `growth` the mean of the
    last third of the load over that of the third before it.
    """
    found = {}
    for name in BUFFERS:
        node, t, value = log.gauge(name, loaded=True)
        third = (log.end - log.start - WARM_UP) / 3
        late = value[t >= log.end - third]
        before = value[(t < log.end - third) & (t >= log.end - 2 * third)]
        swings = [float(np.ptp(np.quantile(value[node == each], (0.05, 0.95)))) for each in np.unique(node)]
        found[name] = {
            "mean": float(value.mean()),
            "75 %": float(np.quantile(value, 0.75)),
            "largest": float(value.max()),
            "swing": float(np.mean(swings)),
            "growth": float(late.mean() / max(before.mean(), 1e-9)),
        }
    return found


def handoffs(log: Log) -> dict[str, float]:
    """How many, and what was listed, carried, stepped over and received meanwhile in one, as means; all zero where
    stations do not count."""
    count, listed, carried, skipped, meanwhile = map(log.last, _HANDOFFS)
    longest = log.gauge("handoff_longest")[2]
    each = max(1, count)
    numbered = log.count(Kind.BROADCAST) * len(np.unique(log.gauge("station_hosts")[0]))
    return {
        "count": count,
        "listed": listed / each,
        "carried": carried / each,
        "skipped": skipped / each,
        "meanwhile": meanwhile / each,
        "longest": float(longest.max()) if len(longest) else 0.0,
        "skipped a message": skipped / max(1, numbered),
    }


def series(log: Log) -> dict[str, Any]:
    """The run second by second: buffers, bytes sent, frames per delivery up to then, and each station's buffer."""
    edges = np.arange(0, int(log.end) + 1)
    steps = edges[1:]

    def by_second(name: str, node: int | None = None) -> list[float]:
        where, t, value = log.gauge(name)
        rows = t < log.end if node is None else (t < log.end) & (where == node)
        at = t[rows].astype(np.int64)
        total = np.bincount(at, value[rows], minlength=len(steps))
        count = np.bincount(at, minlength=len(steps))
        mean: list[float] = np.round(total[: len(steps)] / np.maximum(1, count[: len(steps)]), 3).tolist()
        return mean

    frames, _ = np.histogram(log.t[log.aired], edges)
    delivered, _ = np.histogram(log.t[log.kind == Kind.DELIVER], edges)
    octets, _ = np.histogram(log.t[log.aired], edges, weights=log.size(log.aired, headers=True))
    loaded = steps > log.start
    ratio = np.cumsum(frames * loaded) / np.maximum(1, np.cumsum(delivered))
    stations = np.unique(log.gauge("station_sent_buffer")[0])
    return {
        "station": by_second("station_sent_buffer"),
        "host": by_second("host_received_buffer"),
        "bytes": octets.tolist(),
        "ratio": np.round(ratio, 4).tolist(),
        "stations": [by_second("station_sent_buffer", int(node)) for node in stations],
    }


def backlog(log: Log, station: int, at: float, lasts: float) -> dict[str, float | None]:
    """What a fault does to its station's buffer: the peak, how many seconds after the recovery it is back at what
    is usual (twice its median), and the largest buffer of the other stations meanwhile."""
    node, t, value = log.gauge("station_sent_buffer")
    own = node == log.hosts + station
    until = at + lasts
    usual = 2 * float(np.median(value[own & (t >= log.start + WARM_UP) & (t < log.end)]))
    near = (t >= at) & (t <= until + 1)
    after = t[own & (t > until) & (value <= usual)]
    return {
        "lasts": lasts,
        "peak": float(value[own & near].max()),
        "back": float(after.min() - until) if len(after) else None,
        "others": float(value[~own & near].max()),
        "usual": usual / 2,
    }


def aftermath(log: Log, station: int, at: float, until: float) -> dict[str, Any]:
    """What a fault leaves behind: what its station and the fullest of the others kept at most before it and, on
    average, in the last ten seconds of the run; what the station keeps, second by second after the recovery."""
    node, t, value = log.gauge("station_sent_buffer")
    own = node == log.hosts + station
    before, late = (t >= log.start + WARM_UP) & (t < at), (t >= log.end - 10) & (t < log.end)
    others = [each for each in np.unique(node) if each != log.hosts + station]
    steps = np.arange(int(until), int(log.end))
    return {
        "peak": float(value[own & (t >= at) & (t <= until + 1)].max()),
        "before": float(value[own & before].max()),
        "after": float(value[own & late].mean()),
        "others before": float(value[~own & before].max()),
        "others after": max(float(value[(node == each) & late].mean()) for each in others),
        "series": [float(value[own & (t >= step) & (t < step + 1)].mean()) for step in steps],
    }


def leaves(value: Any) -> int:
    """How many plain values something holds.

    >>> leaves({"a": 1, "b": [2, (3, 4)], "c": set()})
    4
    """
    if isinstance(value, Mapping):
        return sum(map(leaves, value.values()))
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return sum(map(leaves, value))
    return 1
