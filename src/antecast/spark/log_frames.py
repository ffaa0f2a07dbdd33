"""Logs in files as DataFrames: the same rows that `antecast.history.log_files` reads in batches."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from antecast.history.log_files import Log
from antecast.history.log_formats import Csv, Parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def log_frame(spark: SparkSession, log: Log) -> DataFrame:
    """The rows of a log, under the names that its files have for the columns."""
    alike: dict[str, list[Path]] = {}
    for file, schema in log.files.items():
        used = [schema.field(name) for name in log.columns.values()]
        alike.setdefault(f"{used} {schema.names}", []).append(file)
    frames = [
        _read(spark, log, files).select([f"`{name}`" for name in log.columns.values()]) for files in alike.values()
    ]
    return reduce(lambda first, second: first.unionByName(second), frames)


def _read(spark: SparkSession, log: Log, files: list[Path]) -> DataFrame:
    """Files of one schema, by their own names."""
    places = [f"file://{file.resolve()}" for file in files]
    if isinstance(log.format, Parquet):
        return spark.read.parquet(*places)
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = log.files[files[0]]
    if isinstance(log.format, Csv):
        return spark.read.csv(places, schema=from_arrow_schema(schema), header=True, mode="FAILFAST")
    used = pa.schema([schema.field(name) for name in log.columns.values()])
    return spark.read.json(places, schema=from_arrow_schema(used), mode="FAILFAST")
