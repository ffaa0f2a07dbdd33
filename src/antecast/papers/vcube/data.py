"""The runs of the VCube study, what is read from one of them, and the points of its figures.

A row is a point of a map beside what its run gave (`antecast.papers.vcube.measures.summary`): `with` aggregation,
`without`, and `pairs`. A `Value` reads one number from a row, or None where a run has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from antecast.history.confidence import Estimate
from antecast.papers.vcube.experiment import MODELS, PAYLOAD

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]
Value: TypeAlias = Callable[[Row], float | None]

LARGE, ONE = 1024, 256
"""The sizes of most of the paper's single figures."""
RATES = (0.01, 0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3, 0.5)
"""Messages per unit of time. A root of 128 nodes has 7 children, so it sends no more than a seventh."""


@dataclass(frozen=True)
class Data:
    sizes: tuple[int, ...]
    compared: Rows
    variants: Rows

    def runs(self, nodes: int, model: str) -> Rows:
        return [row for row in self.compared if row["nodes"] == nodes and row["model"] == model]

    def single(self, nodes: int) -> Rows:
        return [row for row in self.variants if row["nodes"] == nodes and row["name"] == "vcube-single"]

    def small(self) -> Rows:
        return [row for row in self.variants if row["payload"] != PAYLOAD]


def of(part: str, name: str) -> Value:
    """A number of the run."""

    def value(row: Row) -> float | None:
        found: float | None = row[part].get(name)
        return found

    return value


def ratio(above: Value, below: Value) -> Value:
    """One value over another; none where the other is nothing."""

    def value(row: Row) -> float | None:
        over, under = above(row), below(row)
        return over / under if over is not None and under else None

    return value


def within(part: str, histogram: str, low: int, high: int | None = None) -> Value:
    """How many entries of a histogram lie between two values, both included."""
    return lambda row: sum(row[part][histogram][low : None if high is None else high + 1])


def last(part: str, histogram: str) -> Value:
    """The largest value of a histogram."""
    return lambda row: len(row[part][histogram]) - 1


def mean(runs: Rows, part: str, name: str) -> float:
    return Estimate.of(row[part][name] for row in runs).mean


def histogram_mean(histograms: Sequence[Sequence[int]]) -> float:
    """
    >>> histogram_mean([[0, 1, 1], [0, 0, 2]])
    1.75
    """
    total = sum(map(sum, histograms))
    return sum(value * count for each in histograms for value, count in enumerate(each)) / max(1, total)


# The points of the figures.


def load_curves(loads: Rows) -> pa.Table:
    rows = []
    for trees, name in (("one", "vcube-single"), ("one per source", "vcube")):
        for rate in RATES:
            found = Estimate.of(row["latency"] for row in loads if row["name"] == name and row["rate"] == rate)
            rows.append({"trees": trees, "rate": rate, "latency": found.mean} | _ends(found))
    return pa.Table.from_pylist(rows)


def _ends(found: Estimate) -> dict[str, float]:
    return {
        "low": found.mean if found.low is None else found.low,
        "high": found.mean if found.high is None else found.high,
    }


def curves(data: Data) -> dict[str, pa.Table]:
    """The points of each figure that has any."""
    points = {
        "Fig. 6": _dependency_points(data),
        "Fig. 7": _latency_points(data),
        "Fig. 8": _pair_points(data),
        "Fig. 9": _buffer_points(data),
        "Fig. 10": _packet_points(data),
        "Fig. 11": _tree_points(data),
    }
    tables = {item: pa.Table.from_pylist(list(rows)) for item, rows in points.items()}
    return {item: table for item, table in tables.items() if len(table)}


def _dependency_points(data: Data) -> Iterator[Row]:
    for model in MODELS:
        counts = [row["with"]["dependencies"] for row in data.runs(ONE, model)]
        total = sum(map(sum, counts))
        for value in range(max(map(len, counts), default=0)):
            share = sum(each[value] for each in counts if value < len(each)) / total
            yield {"model": model, "dependencies": value, "share": share}


def _latency_points(data: Data) -> Iterator[Row]:
    for model in MODELS:
        for name in ("reception", "delivery"):
            for part, words in (("with", "with aggregation"), ("without", "without")):
                for size in data.sizes:
                    latency = mean(data.runs(size, model), part, name)
                    yield {"model": model, "latency of": f"{name}, {words}", "nodes": size, "latency": latency}


def _pair_points(data: Data) -> Iterator[Row]:
    for model in MODELS:
        for name in ("reception", "delivery"):
            for column, words in ((name, "with aggregation"), (f"{name}, plain", "without")):
                for size in data.sizes:
                    found = [row["pairs"][column] for row in data.runs(size, model) if row["pairs"]["packets"]]
                    if found:
                        latency = Estimate.of(found).mean
                        yield {"model": model, "latency of": f"{name}, {words}", "nodes": size, "latency": latency}


def _buffer_points(data: Data) -> Iterator[Row]:
    runs = data.runs(LARGE, "calibrated")
    for part in ("with", "without"):
        longest = max((len(row[part]["buffered"]) for row in runs), default=0)
        for low in range(0, longest, 25):
            nodes = sum(sum(row[part]["buffered"][low : low + 25]) for row in runs) / len(runs)
            yield {"aggregation": part, "buffered": str(low + 24), "nodes": nodes}


def _packet_points(data: Data) -> Iterator[Row]:
    for payload, runs in (("50 bytes", data.runs(LARGE, "calibrated")), ("5 bytes", data.small())):
        counts = [row["with"]["most aggregated"] for row in runs]
        for value in range(1, max(map(len, counts), default=0)):
            nodes = sum(each[value] for each in counts if value < len(each)) / len(counts)
            yield {"payload": payload, "messages": str(value), "nodes": nodes}


def _tree_points(data: Data) -> Iterator[Row]:
    for name in ("aggregated messages", "delayed messages"):
        for trees in ("one per source", "one"):
            for size in data.sizes:
                runs = data.runs(size, "calibrated") if trees == "one per source" else data.single(size)
                messages = mean(runs, "with", name)
                if messages > 0:  # the axis is logarithmic
                    yield {"kind": f"{name}, trees: {trees}", "nodes": size, "messages": messages}
