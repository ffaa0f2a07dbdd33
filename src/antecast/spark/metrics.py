"""Metrics of many runs on Spark: DataFrames in, DataFrames out, for jobs and for notebooks.

The functions mirror those of `antecast.history.metrics` and agree with them on the same log. `by` names the
columns that make a group: `run` for each run, the columns of a study's fields for each of its points. A
field may be named as in the study (`network.loss`) or as the column it became (`network_loss`); every run must
fall into one group. Results have a row per group (times quantiles, gauges or points of a curve): nothing that is
collected grows with the number of deliveries. Times and latencies are nanoseconds.

    sweep = read_sweep(spark, "sweeps/loss")
    latency = metrics.delivery_latency(sweep.events)
    metrics.summarise(latency, "latency", by=["network.loss"]).show()
    metrics.over_seeds(sweep.runs, ["latency_p95_ns"], by=["network.loss"]).show()
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from antecast.history.confidence import t_expansion, t_quantile
from antecast.history.metrics import QUANTILES
from antecast.history.schema import EVENTS
from antecast.sim.study import column_name

MESSAGE = ["run", "origin", "seq"]
"""What names a message."""

_EXACT_DEGREES = 100
"""Degrees of freedom up to which the quantiles of t are computed one by one; beyond, a series is as exact."""


def counts(events: DataFrame, *, by: str | Sequence[str] = "run") -> DataFrame:
    """Events of each kind and the bytes they stand for: columns `kind`, `events`, `bytes`."""
    groups = _columns(by)
    return events.groupBy(*groups, "kind").agg(
        F.count("*").alias("events"), F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes")
    )


def delivery_latency(events: DataFrame, *, own: bool = False) -> DataFrame:
    """A row for the first delivery of each message at each node; `latency` is the time since its broadcast.

    Deliveries at the message's own origin are left out unless `own`. Columns beyond those of the log, such as
    the fields of a study, stay.
    """
    return _latency(events, "deliver", own)


def reception_latency(events: DataFrame, *, own: bool = False) -> DataFrame:
    """The same for the first time a node received each message, whenever it could deliver it."""
    return _latency(events, "receive", own)


def _latency(events: DataFrame, kind: str, own: bool) -> DataFrame:
    beside = [name for name in events.columns if name not in EVENTS.names]
    sent = events.filter(F.col("kind") == "broadcast").select(*MESSAGE, F.col("t").alias("_sent"))
    got = events.filter(F.col("kind") == kind)
    if not own:
        got = got.filter(F.col("node") != F.col("origin"))
    first = got.groupBy(*MESSAGE, "node", *beside).agg(F.min_by("t", "pos").alias("t"))
    return first.join(sent, MESSAGE).select(
        "run", "node", "origin", "seq", "t", (F.col("t") - F.col("_sent")).alias("latency"), *beside
    )


def fifo_order(events: DataFrame, *, by: str | Sequence[str] = "run") -> DataFrame:
    """How well the order of each source was kept: `deliveries` (the first of each message at each node), and how
    many of them were `overtaken`: by a message that their source broadcast later. FIFO order promises none.

    The order of a source's messages is that of its broadcasts, whatever their numbers.
    """
    beside = [name for name in _columns(by) if name not in EVENTS.names]
    sent = events.filter(F.col("kind") == "broadcast").select(*MESSAGE, F.col("pos").alias("_sent"))
    got = (
        events.filter(F.col("kind") == "deliver").groupBy(*MESSAGE, "node", *beside).agg(F.min("pos").alias("pos"))
    )
    earlier = Window.partitionBy("run", "node", "origin").orderBy("pos").rowsBetween(Window.unboundedPreceding, -1)
    newest = F.max("_sent").over(earlier)
    judged = got.join(sent, MESSAGE).withColumn("_overtaken", F.coalesce(newest > F.col("_sent"), F.lit(False)))
    return judged.groupBy(*_columns(by)).agg(
        F.count("*").alias("deliveries"), F.count_if(F.col("_overtaken")).alias("overtaken")
    )


def summarise(
    rows: DataFrame,
    value: str,
    *,
    by: str | Sequence[str] = "run",
    quantiles: Sequence[float] = QUANTILES,
    exact: bool = True,
) -> DataFrame:
    """Count, min, max, mean, standard deviation (of a sample) and quantiles `p5`, `p50`, … of a column.

    Exact quantiles lie between two observations by linear interpolation, and a task counts the distinct values
    of its group in memory; without `exact` they are observations near them, from a sketch of fixed size.
    """
    of = F.col(column_name(value))
    at = [float(quantile) for quantile in quantiles]
    quantile = F.percentile(of, at) if exact else F.percentile_approx(of, at, 10_000)
    summary = rows.groupBy(*_columns(by)).agg(
        F.count(of).alias("count"),
        F.min(of).alias("min"),
        F.max(of).alias("max"),
        F.mean(of).alias("mean"),
        F.stddev_samp(of).alias("stdev"),
        quantile.alias("_quantiles"),
    )
    named = {f"p{100 * each:.6g}".replace(".", "_"): F.col("_quantiles")[i] for i, each in enumerate(at)}
    return summary.withColumns(named).drop("_quantiles")


def cdf(rows: DataFrame, value: str, *, by: str | Sequence[str] = "run", points: int = 200) -> DataFrame:
    """The distribution of a column: distinct values ascending, and the `fraction` that is not larger.

    Each group's curve is thinned to at most about `points` points, evenly by rank; the ends stay.
    """
    groups, of = _columns(by), column_name(value)
    distinct = rows.filter(F.col(of).isNotNull()).groupBy(*groups, of).agg(F.count("*").alias("_rows"))
    ranked = _ranked(distinct, groups, of) if groups else _ranked_in_buckets(distinct, of)
    rank, last = F.col("_rank"), F.col("_last")
    # Rank r stays if it is the rounded place of some point k: the nearest k is the only candidate.
    k = F.bround(rank * (points - 1) / last)
    kept = ranked.filter((last < points) | (F.bround(k * last / (points - 1)) == rank))
    return kept.select(*groups, of, "fraction")


def _ranked(distinct: DataFrame, groups: list[str], of: str) -> DataFrame:
    """Each value with the `fraction` of rows up to it, its rank, and the last rank of its group."""
    ordered, whole = Window.partitionBy(*groups).orderBy(of), Window.partitionBy(*groups)
    return distinct.withColumns(
        {
            "fraction": F.sum("_rows").over(ordered) / F.sum("_rows").over(whole),
            "_rank": F.row_number().over(ordered) - 1,
            "_last": F.count("*").over(whole) - 1,
        }
    )


def _ranked_in_buckets(distinct: DataFrame, of: str) -> DataFrame:
    """The same for one group of all rows, without a sort of all in one partition.

    Values are ranked within buckets, some thousand intervals that grow with the values, and a small table says
    how much lies below each bucket.
    """
    number = F.col(of).cast("double")
    bucketed = distinct.withColumn("_bucket", F.signum(number) * F.floor(F.log2(1 + F.abs(number)) * 16))
    sizes = bucketed.groupBy("_bucket").agg(F.sum("_rows").alias("_n"), F.count("*").alias("_values"))
    below, whole = Window.orderBy("_bucket").rowsBetween(Window.unboundedPreceding, -1), Window.partitionBy()
    offsets = sizes.select(
        "_bucket",
        F.coalesce(F.sum("_n").over(below), F.lit(0)).alias("_rows_below"),
        F.coalesce(F.sum("_values").over(below), F.lit(0)).alias("_values_below"),
        F.sum("_n").over(whole).alias("_all"),
        (F.sum("_values").over(whole) - 1).alias("_last"),
    )
    within = Window.partitionBy("_bucket").orderBy(of)
    return bucketed.join(F.broadcast(offsets), "_bucket").withColumns(
        {
            "fraction": (F.col("_rows_below") + F.sum("_rows").over(within)) / F.col("_all"),
            "_rank": F.col("_values_below") + F.row_number().over(within) - 1,
        }
    )


def delivery_ratio(events: DataFrame, *, by: str | Sequence[str] = "run", own: bool = False) -> DataFrame:
    """The share of all pairs (node, message) that were delivered: `delivered`, `expected`, `ratio`.

    The nodes of a run are all that have a row; those that come and go count for every message.
    """
    groups = _columns(by)
    a_run = list(dict.fromkeys(["run", *groups]))
    expected = events.groupBy(*a_run).agg(
        F.count_distinct("node").alias("_nodes"),
        F.count_if(F.col("kind") == "broadcast").alias("_messages"),
    )
    expected = expected.select(
        *a_run, (F.col("_messages") * (F.col("_nodes") - (0 if own else 1))).alias("_expected")
    )
    delivered = delivery_latency(events, own=own).groupBy("run").agg(F.count("*").alias("_delivered"))
    return (
        expected.join(delivered, "run", "left")
        .groupBy(*groups)
        .agg(
            F.coalesce(F.sum("_delivered"), F.lit(0)).alias("delivered"),
            F.sum("_expected").alias("expected"),
        )
        .withColumn("ratio", _ratio("delivered", "expected"))
    )


def overhead(events: DataFrame, *, by: str | Sequence[str] = "run") -> DataFrame:
    """What runs cost on the wire: frames and bytes sent, and how much of them is control information.

    Columns `broadcasts`, `deliveries`, `frames`, `bytes`, `payload_bytes`, `control_bytes`,
    `frames_per_delivery`, `control_bytes_per_broadcast`. A row with 0 bytes is one more message in the frame of
    the row before it. A frame whose message has no broadcast in the log, or
    that carries none, is control information.
    """
    groups = _columns(by)
    a_run = list(dict.fromkeys(["run", *groups]))
    kind = F.col("kind")
    sent = events.filter(kind == "send")
    totals = events.groupBy(*a_run).agg(
        F.count_if(kind == "broadcast").alias("broadcasts"),
        F.count_if(kind == "deliver").alias("deliveries"),
        F.count_if((kind == "send") & (F.coalesce(F.col("bytes"), F.lit(1)) != 0)).alias("frames"),
        F.coalesce(F.sum(F.when(kind == "send", F.col("bytes"))), F.lit(0)).alias("bytes"),
    )
    messages = events.filter(kind == "broadcast").select(*MESSAGE, F.col("bytes").alias("_payload"))
    copies = sent.groupBy(*MESSAGE).agg(F.count("*").alias("_copies"))
    payload = (
        copies.join(messages, MESSAGE)
        .groupBy("run")
        .agg(F.sum(F.col("_copies") * F.col("_payload")).alias("_payload"))
    )
    own = ("broadcasts", "deliveries", "frames", "bytes")
    return (
        totals.join(payload, "run", "left")
        .groupBy(*groups)
        .agg(
            *(F.sum(name).alias(name) for name in own),
            F.coalesce(F.sum("_payload"), F.lit(0)).alias("payload_bytes"),
        )
        .withColumn("control_bytes", F.col("bytes") - F.col("payload_bytes"))
        .withColumn("frames_per_delivery", _ratio("frames", "deliveries"))
        .withColumn("control_bytes_per_broadcast", _ratio("control_bytes", "broadcasts"))
    )


def gauges(samples: DataFrame, *, by: str | Sequence[str] = "run") -> DataFrame:
    """For each gauge: the largest sample, the mean of all, the mean of the nodes' last ones."""
    groups = [*_columns(by), "gauge"]
    a_node = list(dict.fromkeys(["run", *groups, "node"]))
    nodes = samples.groupBy(*a_node).agg(
        F.max("value").alias("_max"),
        F.sum("value").alias("_sum"),
        F.count("*").alias("_count"),
        F.max_by("value", "t").alias("_last"),
    )
    return nodes.groupBy(*groups).agg(
        F.max("_max").alias("max"),
        (F.sum("_sum") / F.sum("_count")).alias("mean"),
        F.mean("_last").alias("last"),
    )


def gauge_series(
    samples: DataFrame, gauge: str | None = None, *, by: str | Sequence[str] = "run", every: int = 1
) -> DataFrame:
    """Gauges over time: `gauge`, `t`, and the smallest, mean and largest value among nodes (and runs of a group).

    `every` puts times into steps of so many nanoseconds, for runs that were not sampled at the same instants.
    """
    wanted = samples if gauge is None else samples.filter(F.col("gauge") == gauge)
    step = (F.col("t") - F.col("t") % every).alias("t")
    return wanted.groupBy(*_columns(by), "gauge", step).agg(
        F.min("value").alias("min"), F.mean("value").alias("mean"), F.max("value").alias("max")
    )


def over_seeds(
    runs: DataFrame, values: str | Sequence[str], *, by: str | Sequence[str], confidence: float = 0.95
) -> DataFrame:
    """Means over the runs of a group with confidence intervals: `metric`, `n`, `mean`, `stdev`, `low`, `high`.

    Runs with different seeds are independent, so the mean of n of them is t-distributed with n - 1 degrees of
    freedom. Runs that failed, or have no value, do not count; a group of one run has no interval.
    """
    groups = _columns(by)
    metrics = _columns(values)
    doubles = runs.select(*groups, *(F.col(name).cast("double").alias(name) for name in metrics))
    table = doubles.unpivot((*groups,), (*metrics,), "metric", "_value").groupBy(*groups, "metric")
    means = table.agg(
        F.count("_value").alias("n"), F.mean("_value").alias("mean"), F.stddev_samp("_value").alias("stdev")
    )
    half = _student(F.col("n") - 1, (1 + confidence) / 2) * F.col("stdev") / F.sqrt("n")
    return means.withColumns({"low": F.col("mean") - half, "high": F.col("mean") + half})


def _student(degrees: Column, probability: float) -> Column:
    """The quantile of t for a column of degrees of freedom; null below 1."""
    exact = F.array(*(F.lit(t_quantile(probability, each)) for each in range(1, _EXACT_DEGREES + 1)))
    series = F.lit(0.0)
    for coefficient in reversed(t_expansion(probability)):
        series = F.lit(coefficient) + series / degrees
    small = F.get(exact, (degrees - 1).cast("int"))
    return F.when(degrees > _EXACT_DEGREES, series).when(degrees >= 1, small)


def _columns(names: str | Sequence[str]) -> list[str]:
    return [column_name(name) for name in ([names] if isinstance(names, str) else names)]


def _ratio(part: str, whole: str) -> Column:
    return F.when(F.col(whole) > 0, F.col(part) / F.col(whole))
