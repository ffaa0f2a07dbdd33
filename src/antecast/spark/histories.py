"""Key-value histories in files, judged on Spark: tasks read the files, `antecast.spark.kv` judges them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from antecast.auditing.foreign import ForeignLog
from antecast.core.errors import AntecastError, ConfigurationError
from antecast.history.log_formats import FORMATS
from antecast.kv import KvVerdict, Options
from antecast.spark.kv import check
from antecast.spark.log_audit import is_sparks
from antecast.spark.session import reason, spark_session
from antecast.spark.sources.foreign import NAME, ForeignSource
from antecast.spark.sweep import SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INITIAL = "\0"
"""Stands for the initial state: no text of a log has it."""

ZERO = {"plume": "0"}
"""Formats in which a value that can be written stands for it, too."""


def check_on_spark(
    log: ForeignLog, options: Options, master: str | None, on_progress: Callable[[str], None] | None
) -> KvVerdict:
    """The verdict on a history in files."""
    note = on_progress or (lambda text: None)
    note(f"starting Spark to audit {len(log.source.files)} files of {log.importer.NAME}")
    try:
        with spark_session("antecast audit", master=master) as spark:
            rows = _read(spark, log).persist()  # the files are read once
            try:
                if len(log.source.files) > 1 and log.importer.NAME in FORMATS and goes_on(rows):
                    log.read()  # refuses it, with its line
                initial = ZERO.get(log.importer.NAME, INITIAL)
                return check(operations(rows, initial), options, initial=initial, on_progress=note)
            finally:
                rows.unpersist()
    except Exception as error:
        if isinstance(error, AntecastError) or not is_sparks(error):
            raise
        log.read()  # what is malformed says so here, with its line
        raise SparkFailed(f"Spark could not audit the log: {reason(str(error))}") from error


def goes_on(rows: DataFrame) -> bool:
    """Whether a transaction goes on after its session has begun another. In one file the reader has seen to it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    before = F.lag("txn").over(Window.partitionBy("session").orderBy("pos"))
    begun = rows.withColumn("begins", ~F.col("txn").eqNullSafe(before)).filter("begins")
    return not begun.groupBy("session", "txn").count().filter("count > 1").isEmpty()


def _read(spark: SparkSession, log: ForeignLog) -> DataFrame:
    spark.dataSource.register(ForeignSource)
    reader = spark.read.format(NAME).option("format", log.importer.NAME)
    reader = reader.option("maxLineBytes", str(log.request.max_line)).option("model", log.model)
    if log.request.columns:
        reader = reader.option("columns", ",".join(f"{name}={path}" for name, path in log.request.columns.items()))
    return reader.option("paths", json.dumps([str(file) for file in log.source.files])).load()


def operations(rows: DataFrame, initial: str = INITIAL) -> DataFrame:
    """Operations of `antecast.foreign` as `antecast.spark.kv` takes them: transactions have numbers."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    if not rows.filter("kind IN ('append', 'observe')").isEmpty():
        problem = "histories of lists are judged in one process: --engine local"
        raise ConfigurationError(problem, field="--engine")
    first = F.min("pos").over(Window.partitionBy("session", "txn"))
    number = F.dense_rank().over(Window.partitionBy("session").orderBy("first")) - 1
    value = F.when(F.col("initial"), F.lit(initial)).otherwise(F.col("value"))
    rows = rows.withColumn("first", first).withColumn("txn", number).withColumn("value", value)
    return rows.drop("first", "initial")
