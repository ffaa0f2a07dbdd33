"""Metrics of small runs worked out by hand, and of random ones against plain Python."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history import metrics
from antecast.history.measure import measure
from antecast.history.schema import EVENTS, SAMPLES


def events(*rows: tuple[Any, ...], run: str = "a") -> pa.Table:
    """Rows of (node, t, kind, origin, seq, bytes); positions are counted per node."""
    names = ("node", "t", "kind", "origin", "seq", "bytes")
    counts: dict[int, int] = {}
    plain = []
    for row in rows:
        counts[row[0]] = pos = counts.get(row[0], -1) + 1
        plain.append(dict(zip(names, row, strict=True)) | {"run": run, "pos": pos, "peer": None})
    return pa.Table.from_pylist(plain, EVENTS)


RUN = events(
    (1, 100, "broadcast", 1, 1, 10),
    (1, 100, "deliver", 1, 1, 10),
    (1, 101, "send", 1, 1, 25),
    (1, 101, "send", None, None, 7),
    (2, 130, "receive", 1, 1, 25),
    (2, 131, "receive", None, None, 7),
    (2, 150, "deliver", 1, 1, 10),
    (2, 155, "send", 1, 1, 25),
    (1, 160, "receive", 1, 1, 25),
    (2, 170, "receive", 1, 1, 25),
    (3, 180, "broadcast", 3, 1, 4),
    (2, 190, "deliver", 3, 1, 4),
    (2, 195, "deliver", 3, 1, 4),
    (2, 196, "deliver", 9, 9, 4),
)


def test_delivery_latency_is_measured_at_the_first_delivery_of_others_messages() -> None:
    latency = metrics.delivery_latency(RUN)
    assert latency.select(["node", "origin", "seq", "latency"]).to_pylist() == [
        {"node": 2, "origin": 1, "seq": 1, "latency": 50},
        {"node": 2, "origin": 3, "seq": 1, "latency": 10},
    ]
    assert metrics.delivery_latency(RUN, own=True)["latency"].to_pylist() == [0, 50, 10]


def test_reception_latency_is_measured_at_the_first_reception() -> None:
    assert metrics.reception_latency(RUN)["latency"].to_pylist() == [30]
    assert metrics.reception_latency(RUN, own=True)["latency"].to_pylist() == [30, 60]


def test_overhead() -> None:
    cost = metrics.overhead(RUN)
    assert (cost.broadcasts, cost.deliveries, cost.frames) == (2, 5, 3)
    assert (cost.bytes, cost.payload_bytes, cost.control_bytes) == (57, 20, 37)
    assert cost.frames_per_delivery == pytest.approx(3 / 5)
    assert cost.control_bytes_per_broadcast == pytest.approx(37 / 2)


def test_delivery_ratio() -> None:
    assert metrics.delivery_ratio(RUN) == pytest.approx(2 / 4)  # 2 messages, 2 other nodes each
    assert metrics.delivery_ratio(RUN, own=True) == pytest.approx(3 / 6)


def test_runs_are_told_apart() -> None:
    other = events((1, 500, "broadcast", 1, 1, 1), (2, 507, "deliver", 1, 1, 1), run="b")
    both = pa.concat_tables([RUN, other])
    assert metrics.delivery_latency(both)["latency"].to_pylist() == [50, 10, 7]
    assert metrics.delivery_latency(both)["run"].to_pylist() == ["a", "a", "b"]
    assert metrics.delivery_ratio(both) == pytest.approx(3 / 5)
    assert metrics.overhead(both).broadcasts == 3


def test_an_empty_run_has_metrics() -> None:
    empty = EVENTS.empty_table()
    assert len(metrics.delivery_latency(empty)) == 0
    assert metrics.overhead(empty).control_bytes == 0
    assert isnan(metrics.overhead(empty).frames_per_delivery)
    assert isnan(metrics.delivery_ratio(empty))
    assert metrics.summarise(np.array([])).count == 0
    assert isnan(metrics.summarise(np.array([1])).stdev)
    assert len(metrics.gauges(SAMPLES.empty_table())) == 0
    assert len(metrics.gauge_series(SAMPLES.empty_table(), "buffer")) == 0


def test_what_is_received_and_never_delivered_has_its_curve() -> None:
    """Refused at its receiver, say: there is no latency of deliveries to begin the table with."""
    run = events(
        (1, 100, "broadcast", 1, 1, 10),
        (1, 100, "deliver", 1, 1, 10),
        (1, 101, "send", 1, 1, 25),
        (2, 130, "receive", 1, 1, 25),
    )
    assert set(measure(run).latency["what"].to_pylist()) == {"received"}


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2))
def test_statistics_agree_with_the_standard_library(values: list[int]) -> None:
    import statistics

    summary = metrics.summarise(pa.chunked_array([values]))
    assert (summary.count, summary.min, summary.max) == (len(values), min(values), max(values))
    assert summary.mean == pytest.approx(statistics.fmean(values))
    assert summary.stdev == pytest.approx(statistics.stdev(values))
    assert dict(summary.quantiles)[0.5] == pytest.approx(statistics.median(values))


@given(st.lists(st.integers(0, 20), min_size=1), st.integers(2, 10))
def test_a_cdf_rises_to_one(values: list[int], points: int) -> None:
    x, fraction = metrics.cdf(np.array(values))
    for value, part in zip(x, fraction, strict=True):
        assert part == pytest.approx(sum(each <= value for each in values) / len(values))
    thin_x, thin = metrics.cdf(np.array(values), points=points)
    assert len(thin_x) <= max(points, 1)
    assert (thin_x[0], thin_x[-1], thin[-1]) == (min(values), max(values), 1.0)


def samples(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(("run", "node", "t", "gauge", "value"), row, strict=True)) for row in rows], SAMPLES
    )


SAMPLED = samples(
    ("a", 1, 10, "buffer", 4),
    ("a", 2, 10, "buffer", 6),
    ("a", 2, 20, "buffer", 0),
    ("a", 1, 20, "buffer", 2),
    ("a", 1, 10, "clock", 7),
    ("b", 1, 30, "buffer", 9),
    ("b", 1, 20, "buffer", 1),
)


def test_gauges_are_summed_up_by_run() -> None:
    rest = samples(*(tuple(row.values()) for row in SAMPLED.slice(3).to_pylist()))
    chunked = pa.concat_tables([SAMPLED.slice(0, 3), rest])
    for table in (SAMPLED, chunked):
        assert metrics.gauges(table).to_pylist() == [
            {"run": "a", "gauge": "buffer", "max": 6, "mean": 3.0, "last": 1.0},
            {"run": "a", "gauge": "clock", "max": 7, "mean": 7.0, "last": 7.0},
            {"run": "b", "gauge": "buffer", "max": 9, "mean": 5.0, "last": 9.0},
        ]


def test_a_gauge_over_time() -> None:
    assert metrics.gauge_series(SAMPLED, "buffer").to_pylist() == [
        {"run": "a", "t": 10, "min": 4, "mean": 5.0, "max": 6},
        {"run": "a", "t": 20, "min": 0, "mean": 1.0, "max": 2},
        {"run": "b", "t": 20, "min": 1, "mean": 1.0, "max": 1},
        {"run": "b", "t": 30, "min": 9, "mean": 9.0, "max": 9},
    ]
