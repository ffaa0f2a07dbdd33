"""The metrics of the barrier paper (section VI) as queries: DataFrames in, DataFrames out, a row per run.

A *pair* is a message at a node: when it was broadcast, first received, delivered, and expired there. At its own
origin a message is delivered and not received, whatever comes back; one that arrives after its lifetime is not
received either. Times of pairs are nanoseconds, those of results seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from antecast.papers.barrier.experiment import NO_LIFETIME
from antecast.spark import metrics

_PAIR = ["run", "lifetime", "node", "origin", "seq"]
_RUN = ["run", "lifetime"]
_CURVE_POINTS = 200
_DELAY_STEP = 60.0
_LATENCY_STEP = 10.0
"""Seconds of a cell of the scatter plots: millions of points become thousands of cells."""


def labelled(runs: DataFrame) -> DataFrame:
    """Runs of a sweep with their lifetime, as the paper writes it, for the protocol."""
    lifetime = F.regexp_replace(F.get_json_object("protocol", "$.lifetime"), "min$", "'")
    return runs.withColumn("lifetime", F.coalesce(lifetime, F.lit(NO_LIFETIME)))


def pairs(events: DataFrame, runs: DataFrame) -> DataFrame:
    """All pairs of a sweep, from its log and its runs.

    Millions of rows of the log are grouped by numbers and their run alone; what is said once for each run or
    message comes to the groups afterwards.
    """
    named = events.filter(F.col("origin").isNotNull())
    broadcasts = named.filter(F.col("kind") == "broadcast").select(*metrics.MESSAGE, F.col("t").alias("broadcast"))

    def first(kind: str) -> Column:
        return F.min(F.when(F.col("kind") == kind, F.col("t")))

    at_nodes = (
        named.filter(F.col("kind").isin("receive", "deliver", "expire"))
        .groupBy("run", "node", "origin", "seq")
        .agg(
            first("receive").alias("received"),
            first("deliver").alias("delivered"),
            first("expire").alias("expired"),
        )
    )
    minutes = F.try_to_number(F.regexp_extract("lifetime", r"^\d+", 0), F.lit("9999"))
    lifetimes = labelled(runs).select("run", "lifetime", (minutes * 60_000_000_000).alias("limit"))
    in_time = F.coalesce(F.col("received") - F.col("broadcast") <= F.col("limit"), F.lit(True))
    counts = in_time & (F.col("node") != F.col("origin"))
    return (
        at_nodes.join(F.broadcast(broadcasts), metrics.MESSAGE)
        .join(F.broadcast(lifetimes), "run")
        .withColumn("received", F.when(counts, F.col("received")))
        .select(*_PAIR, "received", "delivered", "expired", "broadcast")
    )


def counts(pairs: DataFrame) -> DataFrame:
    """What was broadcast, received, co-delivered and expired in each run, and the two ratios (Tables II and V)."""
    own = F.col("node") == F.col("origin")
    expired = F.col("expired").isNotNull() & F.col("received").isNotNull() & F.col("delivered").isNull()
    return (
        pairs.groupBy(*_RUN)
        .agg(
            F.count_if(own).alias("broadcast"),
            F.count("received").alias("received"),
            F.count("delivered").alias("co-delivered"),
            F.count_if(expired).alias("expired"),
        )
        .withColumn("co-delivery ratio", F.col("co-delivered") / (F.col("broadcast") + F.col("received")))
        .withColumn("expiry ratio", F.try_divide("expired", "received"))
    )


def delays(pairs: DataFrame) -> DataFrame:
    """Transmission delay, co-delivery latency and their sum: min, max, mean, deviation (Tables III and VI)."""
    columns = []
    for name, of in _times().items():
        columns += [
            F.min(of).alias(f"{name}, min"),
            F.max(of).alias(f"{name}, max"),
            F.mean(of).alias(f"{name}, avg"),
            F.stddev_samp(of).alias(f"{name}, stdev"),
        ]
    return pairs.groupBy(*_RUN).agg(*columns)


def _times() -> dict[str, Column]:
    """In seconds; null at a message's own origin, and where it was not received or not delivered."""
    received = F.col("received").isNotNull()
    delay = (F.col("received") - F.col("broadcast")) / 1e9
    latency = (F.col("delivered") - F.col("received")) / 1e9
    age = F.when(received, (F.col("delivered") - F.col("broadcast")) / 1e9)
    return {"tdelay": delay, "ltcy": latency, "codlvdelay": age}


def shares(pairs: DataFrame, within: Sequence[float]) -> DataFrame:
    """The share of receptions, and of co-deliveries, that took so many seconds at most: columns `tdelay 20.0` …"""
    times = _times()
    columns = [
        (F.count_if(times[name] <= limit) / F.count(times[name])).alias(f"{name} {limit}")
        for name in ("tdelay", "ltcy")
        for limit in within
    ]
    return pairs.groupBy(*_RUN).agg(*columns)


def distributions(pairs: DataFrame) -> DataFrame:
    """Cumulated distributions over all runs of a lifetime: `lifetime`, `metric`, `share`, `seconds`."""
    at = [each / _CURVE_POINTS for each in range(_CURVE_POINTS + 1)]
    curves = []
    for name in ("tdelay", "ltcy"):
        quantiles = F.percentile_approx(_times()[name], at, 10_000)
        curves.append(pairs.groupBy("lifetime").agg(quantiles.alias("_at")).withColumn("metric", F.lit(name)))
    point = F.posexplode("_at").alias("_index", "seconds")
    share = (F.col("_index") / _CURVE_POINTS).alias("share")
    points = curves[0].unionByName(curves[1]).select("lifetime", "metric", point)
    return points.select("lifetime", "metric", share, "seconds").orderBy("lifetime", "metric", "share")


def scatter(pairs: DataFrame) -> DataFrame:
    """Latency against delay as counts of cells: `lifetime`, `tdelay`, `ltcy` (lower edges), `pairs`."""
    times = _times()
    both = pairs.filter(times["ltcy"].isNotNull())
    delay = (F.floor(times["tdelay"] / _DELAY_STEP) * _DELAY_STEP).alias("tdelay")
    latency = (F.floor(times["ltcy"] / _LATENCY_STEP) * _LATENCY_STEP).alias("ltcy")
    cells = both.groupBy("lifetime", delay, latency).agg(F.count("*").alias("pairs"))
    return cells.orderBy("lifetime", "tdelay", "ltcy")


def stays(pairs: DataFrame, presence: DataFrame, shortest: float, longest: float) -> DataFrame:
    """What nodes with a stay of such a length received and co-delivered on average (Fig. 11).

    `presence` has the numbers of nodes, as the runs have, beside the run they belong to.
    """
    length = F.sum((F.col("end") - F.col("start")) / 1e9)
    near = (
        presence.groupBy("run", "node")
        .agg(length.alias("_stay"))
        .filter(F.col("_stay").between(shortest, longest))
    )
    nodes = pairs.groupBy(*_RUN, "node").agg(
        F.count("received").alias("_received"), F.count("delivered").alias("_delivered")
    )
    return (
        nodes.join(F.broadcast(near), ["run", "node"])
        .groupBy(*_RUN)
        .agg(F.mean("_received").alias("received"), F.mean("_delivered").alias("co-delivered"))
    )


def movement(presence: DataFrame, contacts: DataFrame) -> DataFrame:
    """The statistics of networks (Tables I and IV), a row for each `place`."""
    each = presence.groupBy("place", "node").agg(F.sum((F.col("end") - F.col("start")) / 1e9).alias("activity"))
    activity = each.groupBy("place").agg(F.count("*").alias("nodes"), *_spread("activity"))
    whole = presence.groupBy("place").agg(((F.max("end") - F.min("start")) / 1e9).alias("duration"))
    times = contacts.withColumn("contact time", (F.col("end") - F.col("start")) / 1e9)
    met = times.groupBy("place").agg(F.count("*").alias("contacts"), *_spread("contact time"))
    # One comes, one goes: who leaves at an instant leaves before another comes.
    steps = presence.select("place", F.col("start").alias("t"), F.lit(1).alias("step")).unionAll(
        presence.select("place", F.col("end").alias("t"), F.lit(-1).alias("step"))
    )
    running = F.sum("step").over(
        Window.partitionBy("place").orderBy("t", "step").rowsBetween(Window.unboundedPreceding, 0)
    )
    at_once = steps.withColumn("_there", running).groupBy("place").agg(F.max("_there").alias("nodes at once"))
    return whole.join(activity, "place").join(at_once, "place").join(met, "place")


def _spread(column: str) -> list[Column]:
    of = F.col(column)
    return [
        F.min(of).alias(f"{column}, min"),
        F.max(of).alias(f"{column}, max"),
        F.mean(of).alias(f"{column}, avg"),
        F.stddev_samp(of).alias(f"{column}, stdev"),
    ]


def registries(samples: DataFrame, node: int) -> DataFrame:
    """The registries of one node over time, in the first run of each lifetime: Figs 6 and 11."""
    own = samples.filter(F.col("node") == node)
    first = own.groupBy("lifetime").agg(F.min("run").alias("run"))
    shown = own.join(F.broadcast(first), ["lifetime", "run"]).filter(
        F.col("gauge").isin("clock", "barrier", "pending")
    )
    return shown.select("lifetime", "gauge", (F.col("t") / 1e9).alias("t"), "value").orderBy(
        "lifetime", "gauge", "t"
    )


def shapes(samples: DataFrame) -> DataFrame:
    """How registries rise and fall, over all nodes of a run: a row per lifetime, run and gauge.

    `largest`, `drops` (samples below the one before), `late` over `early` (the mean of the last third of a
    node's stay over that of its second third), `peak` (where in a stay the largest value comes, as a share; in
    the mean over nodes, weighted by that value).
    Nodes with fewer than 12 samples are left out of the last two.
    """
    history = Window.partitionBy("run", "gauge", "node").orderBy("t")
    whole = Window.partitionBy("run", "gauge", "node")
    span = F.max("t").over(whole) - F.min("t").over(whole)
    rows = (
        samples.withColumn("_before", F.lag("value").over(history))
        .withColumn("_place", F.when(span > 0, (F.col("t") - F.min("t").over(whole)) / span))
        .withColumn("_samples", F.count("*").over(whole))
    )
    long = F.col("_samples") >= 12
    second = long & F.col("_place").between(1 / 3, 2 / 3)
    third = long & (F.col("_place") > 2 / 3)
    nodes = rows.groupBy(*_RUN, "gauge", "node").agg(
        F.max("value").alias("_largest"),
        F.count_if(F.col("value") < F.col("_before")).alias("_drops"),
        F.mean(F.when(second, F.col("value"))).alias("_early"),
        F.mean(F.when(third, F.col("value"))).alias("_late"),
        F.max_by(F.when(long, F.col("_place")), "value").alias("_peak"),
    )
    return nodes.groupBy(*_RUN, "gauge").agg(
        F.max("_largest").alias("largest"),
        F.sum("_drops").alias("drops"),
        F.try_divide(F.sum("_late"), F.sum("_early")).alias("growth"),
        F.try_divide(F.sum(F.col("_peak") * F.col("_largest")), F.sum("_largest")).alias("peak"),
        F.count("*").alias("nodes"),
    )
