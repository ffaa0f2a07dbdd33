# %% [markdown]
# # A study on Spark
# What does causal order cost when links lose frames? This notebook makes the runs of `studies/loss.toml` and
# looks at them with Spark. Run it as a script, or cell by cell in an editor that knows `# %%`.
# It needs nothing but this machine; with `SPARK_REMOTE` set, or with a session of your own active, the same
# cells run on a cluster.

# %%
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from antecast.spark import metrics
from antecast.spark.session import job_description, spark_session
from antecast.spark.sweep import read_sweep, sweep

STUDY = Path(__file__).parent / "studies" / "loss.toml"
POINT = ["protocol.name", "network.loss"]


def main() -> None:
    with spark_session("loss study") as spark:
        # %% Make the runs. What is finished is kept: the second time this returns at once.
        result = sweep(STUDY, spark=spark)
        print(f"{result.total} runs, {result.failed} failed, {result.violated} broke a promise")

        # %% The tables of all runs, with the fields that vary beside every event.
        study = read_sweep(spark, result.folder)
        study.events.printSchema()

        # %% How long does a message take? Means over seeds, with 95 % confidence intervals.
        with job_description(spark, "latency over seeds"):
            latency = metrics.over_seeds(study.runs, ["latency_mean_ns", "latency_p95_ns"], by=POINT)
            latency.orderBy("metric", "protocol_name", "network_loss").show(truncate=False)

        # %% The whole distribution, thinned to a few points of its curve.
        with job_description(spark, "distribution of latency"):
            deliveries = metrics.delivery_latency(study.events)
            curve = metrics.cdf(deliveries, "latency", by=POINT, points=5)
            curve.orderBy("protocol_name", "network_loss", "latency").show()

        # %% What does the order cost on the wire?
        with job_description(spark, "overhead"):
            metrics.overhead(study.events, by=POINT).select(
                "protocol_name", "network_loss", "frames_per_delivery", "control_bytes_per_broadcast"
            ).orderBy("protocol_name", "network_loss").show()

        # %% Messages that wait for others, over time: where frames are lost, order makes others wait.
        with job_description(spark, "waiting messages"):
            waiting = metrics.gauge_series(study.samples, "pending", by=["network.loss"], every=10**9)
            waiting.filter(F.col("t") < 5 * 10**9).orderBy("network_loss", "t").show()

        # %% Plain Spark does the rest: the runs in which FIFO order was not enough.
        study.runs.filter("verdict = 'violated'").select("protocol_name", "network_loss", "seed", "early").show()


# %%
if __name__ == "__main__":
    main()
