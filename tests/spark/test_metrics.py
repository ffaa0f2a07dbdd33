"""Metrics on Spark agree with `antecast.history.metrics` on the same log, and with arithmetic by hand."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from antecast.history import metrics as pure
from antecast.history.confidence import t_quantile
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three runs in one log: with losses, a crash and repair there is something of everything in it."""
    values = {
        "nodes": 6,
        "duration": "3s",
        "drain": "4s",
        "workload": [{"kind": "poisson", "rate": 4.0, "payload": 100}],
        "network": {"loss": 0.2, "delay": {"kind": "exponential", "mean": "50ms"}},
        "protocol": {"name": "vector", "repair": "300ms"},
        "faults": [{"kind": "crash", "at": "1s", "node": 2}, {"kind": "leave", "at": "2s", "node": 4}],
    }
    results = [run(make_scenario(values | {"seed": seed})) for seed in (1, 2, 3)]
    return {
        "events": pa.concat_tables([each.events for each in results]).unify_dictionaries(),
        "samples": pa.concat_tables([each.samples for each in results]).unify_dictionaries(),
        "runs": [each.run for each in results],
    }


@pytest.fixture(scope="module")
def tables(spark: Any, logs: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same as DataFrames, read from Parquet as a sweep's would be, with a field beside the events."""
    import pyarrow.parquet as pq
    from pyspark.sql import functions as F  # noqa: N812

    folder: Path = tmp_path_factory.mktemp("logs")
    for name in ("events", "samples"):
        pq.write_table(logs[name], folder / f"{name}.parquet")
    field = F.when(F.col("run") == logs["runs"][2], "late").otherwise("early").alias("network_kind")
    return {
        name: spark.read.parquet(str(folder / f"{name}.parquet")).select("*", field)
        for name in ("events", "samples")
    }


def of_run(table: pa.Table, run: str) -> pa.Table:
    return table.filter(np.array(table["run"].to_pylist()) == run)


def rows(frame: Any, *keys: str) -> dict[Any, dict[str, Any]]:
    """Rows by their keys."""
    found = {tuple(row[key] for key in keys): row.asDict() for row in frame.collect()}
    return {key[0] if len(key) == 1 else key: row for key, row in found.items()}


@pytest.mark.parametrize("own", [False, True])
def test_latencies_are_the_same_row_by_row(tables: Any, logs: Any, own: bool) -> None:
    from antecast.spark import metrics

    for ours, theirs in (
        (metrics.delivery_latency, pure.delivery_latency),
        (metrics.reception_latency, pure.reception_latency),
    ):
        columns = ["run", "node", "origin", "seq", "t", "latency"]
        found = ours(tables["events"], own=own)
        assert found.columns == [*columns, "network_kind"]
        expected = theirs(logs["events"], own=own).select(columns).to_pylist()
        assert sorted(tuple(row[name] for name in columns) for row in found.collect()) == sorted(
            tuple(row.values()) for row in expected
        )


def test_summaries_are_the_same(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    latency = metrics.delivery_latency(tables["events"])
    found = rows(metrics.summarise(latency, "latency"), "run")
    for run_id in logs["runs"]:
        expected = pure.summarise(pure.delivery_latency(of_run(logs["events"], run_id))["latency"])
        row = found[run_id]
        assert row["count"] == expected.count
        assert [row["min"], row["max"], row["mean"]] == pytest.approx([expected.min, expected.max, expected.mean])
        assert row["stdev"] == pytest.approx(expected.stdev)
        names = ["p5", "p25", "p50", "p75", "p95", "p99"]
        assert [row[name] for name in names] == pytest.approx([value for _, value in expected.quantiles])


def test_groups_of_runs_are_summarised_together_and_sketches_come_near(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    latency = metrics.delivery_latency(tables["events"])
    near = rows(
        metrics.summarise(latency, "latency", by=["network.kind"], quantiles=[0.5, 0.999], exact=False),
        "network_kind",
    )
    both = np.concatenate(
        [pure.delivery_latency(of_run(logs["events"], each))["latency"].to_numpy() for each in logs["runs"][:2]]
    )
    assert near["early"]["count"] == len(both)
    assert near["early"]["p50"] == pytest.approx(np.median(both), rel=0.02)
    assert near["early"]["p99_9"] <= both.max()


@pytest.mark.parametrize("points", [7, 50, 100_000])
def test_curves_are_the_same_and_no_longer_than_asked(tables: Any, logs: Any, points: int) -> None:
    from antecast.spark import metrics

    curve = metrics.cdf(metrics.delivery_latency(tables["events"]), "latency", points=points)
    for run_id in logs["runs"][:1]:
        found = sorted((row["latency"], row["fraction"]) for row in curve.filter(curve.run == run_id).collect())
        latency = pure.delivery_latency(of_run(logs["events"], run_id))["latency"]
        x, fraction = pure.cdf(latency, points=points)
        assert [each[0] for each in found] == x.tolist()
        assert [each[1] for each in found] == pytest.approx(fraction.tolist())


@pytest.mark.parametrize("points", [7, 100_000])
def test_a_curve_of_everything_is_ranked_in_many_partitions(spark: Any, points: int) -> None:
    """Values of both signs, zero, ties and fractions; before, all rows were sorted in one partition."""
    from antecast.spark import metrics

    draw = np.random.default_rng(5)
    values = np.concatenate(
        [draw.lognormal(8, 4, 300).round(1), -draw.lognormal(2, 2, 60), [0, 0, 0, 1e300, -0.25]]
    )
    table = spark.createDataFrame([(float(each),) for each in values], "v double")
    curve = metrics.cdf(table, "v", by=[], points=points)
    x, fraction = pure.cdf(values, points=points)
    found = sorted((row["v"], row["fraction"]) for row in curve.collect())
    assert [each[0] for each in found] == x.tolist()
    assert [each[1] for each in found] == pytest.approx(fraction.tolist())
    ranks = metrics._ranked_in_buckets(table.groupBy("v").count().withColumnRenamed("count", "_rows"), "v")
    assert ranks.select("_bucket").distinct().count() > 100


def test_ratios_and_overhead_are_the_same_for_runs_and_for_all_together(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    ratios = rows(metrics.delivery_ratio(tables["events"]), "run")
    costs = rows(metrics.overhead(tables["events"]), "run")
    together = metrics.overhead(tables["events"], by=[]).collect()[0]
    for run_id in [*logs["runs"], None]:
        log = logs["events"] if run_id is None else of_run(logs["events"], run_id)
        expected = pure.overhead(log)
        found = together if run_id is None else costs[run_id]
        for name in ("broadcasts", "deliveries", "frames", "bytes", "payload_bytes", "control_bytes"):
            assert found[name] == getattr(expected, name)
        assert found["frames_per_delivery"] == pytest.approx(expected.frames_per_delivery)
        assert found["control_bytes_per_broadcast"] == pytest.approx(expected.control_bytes_per_broadcast)
        if run_id is not None:
            assert ratios[run_id]["ratio"] == pytest.approx(pure.delivery_ratio(log))
    (ratio,) = metrics.delivery_ratio(tables["events"], by=[]).collect()
    assert ratio["ratio"] == pytest.approx(pure.delivery_ratio(logs["events"]))
    assert ratio["ratio"] < 1


def test_counts_are_those_of_the_log(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    found = rows(metrics.counts(tables["events"]), "run", "kind")
    assert sum(row["events"] for row in found.values()) == len(logs["events"])
    log = of_run(logs["events"], logs["runs"][0]).to_pylist()
    sent = [row["bytes"] for row in log if row["kind"] == "send"]
    assert found[logs["runs"][0], "send"]["events"] == len(sent)
    assert found[logs["runs"][0], "send"]["bytes"] == sum(sent)
    assert found[logs["runs"][0], "crash"]["bytes"] == 0


def test_gauges_are_the_same(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    found = rows(metrics.gauges(tables["samples"]), "run", "gauge")
    expected = pure.gauges(logs["samples"]).to_pylist()
    assert len(found) == len(expected)
    for row in expected:
        assert found[row["run"], row["gauge"]] == pytest.approx(row)


def test_series_of_gauges_are_the_same_and_can_be_put_into_steps(tables: Any, logs: Any) -> None:
    from antecast.spark import metrics

    gauge = logs["samples"]["gauge"][0].as_py()
    found = rows(metrics.gauge_series(tables["samples"], gauge), "run", "t")
    expected = pure.gauge_series(logs["samples"], gauge).to_pylist()
    assert len(found) == len(expected)
    for row in expected:
        assert found[row["run"], row["t"]] == pytest.approx(row | {"gauge": gauge})
    stepped = metrics.gauge_series(tables["samples"], gauge, by=[], every=10**9).collect()
    assert {row["t"] % 10**9 for row in stepped} == {0}
    assert len(stepped) < len(expected)


def test_means_over_seeds_have_a_confidence_interval(spark: Any) -> None:
    from antecast.spark import metrics

    values = {
        0.0: [3.0, 5.0, 4.0, 8.0],
        0.1: [7.0],
        0.2: [1.0, None, 3.0],
        0.3: [float(i % 7) for i in range(150)],
    }
    runs = spark.createDataFrame(
        [(loss, seed, value, 2) for loss, group in values.items() for seed, value in enumerate(group)],
        "network_loss double, seed long, latency_p95_ns double, frames long",
    )
    found = rows(
        metrics.over_seeds(runs, ["latency_p95_ns", "frames"], by="network.loss"), "network_loss", "metric"
    )
    for loss, group in values.items():
        given = [value for value in group if value is not None]
        row = found[loss, "latency_p95_ns"]
        assert (row["n"], row["mean"]) == (len(given), pytest.approx(mean(given)))
        if len(given) > 1:
            half = t_quantile(0.975, len(given) - 1) * stdev(given) / len(given) ** 0.5
            assert [row["low"], row["high"]] == pytest.approx([mean(given) - half, mean(given) + half])
    assert found[0.1, "latency_p95_ns"]["low"] is None
    assert found[0.0, "frames"]["mean"] == found[0.0, "frames"]["low"] == 2.0
    narrow = rows(metrics.over_seeds(runs, "latency_p95_ns", by="network.loss", confidence=0.5), "network_loss")
    assert narrow[0.0]["low"] > found[0.0, "latency_p95_ns"]["low"]


def test_the_order_of_sources_is_judged_as_the_check_of_one_log_does(spark: Any, logs: Any, tables: Any) -> None:
    from antecast.history.checks import fifo_order
    from antecast.spark import metrics

    kept = {row["run"]: row["overtaken"] for row in metrics.fifo_order(tables["events"]).collect()}
    assert kept == dict.fromkeys(logs["runs"], 0)
    values = {
        "nodes": 5,
        "duration": "3s",
        "workload": [{"kind": "poisson", "rate": 5.0}],
        "network": {"delay": {"kind": "exponential", "mean": "200ms"}},
        "protocol": {"name": "r-broadcast"},
    }
    events = [run(make_scenario(values | {"seed": seed})).events for seed in (1, 2)]
    frame = spark.createDataFrame(pa.concat_tables(events).unify_dictionaries())
    found = {row["run"]: (row["overtaken"], row["deliveries"]) for row in metrics.fifo_order(frame).collect()}
    for each in events:
        name = each["run"][0].as_py()
        broken = fifo_order(each).count
        assert broken > 0 and found[name] == (broken, each["kind"].to_pylist().count("deliver"))
    (together,) = metrics.fifo_order(frame, by=[]).collect()
    assert together["overtaken"] == sum(overtaken for overtaken, _ in found.values())
