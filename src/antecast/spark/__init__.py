"""Jobs on Spark: sweeps, audits, metrics, contacts, the observer, data sources. Thin: each hands batches to a pure
function.

Only the papers and the command line import this package, so that `import antecast` needs no Java. Even
here pyspark is imported only where a session is at hand: a sweep that is planned or refused starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["causal_order", "register"]


def register(spark: SparkSession) -> list[str]:
    """Make the sources `antecast.trace`, `antecast.log`, `antecast.nats`, … known to a session by name."""
    from antecast.spark.sources.registry import register_all

    return register_all(spark)


def causal_order(frame: DataFrame, **options: Any) -> DataFrame:
    """The rows of a stream or a table in causal order: by the ids that a row needs (`needs=`), or by timestamps.

    `antecast.spark.causal_order_needs.order_by_needs` and `antecast.spark.observe.causal_order`
    say what the options mean.
    """
    if "needs" in options:
        from antecast.spark.causal_order_needs import order_by_needs

        return order_by_needs(frame, **options)
    from antecast.spark.observe import causal_order as order_by_stamps

    return order_by_stamps(frame, **options)
