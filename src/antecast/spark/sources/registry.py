"""The sources by name, and how a session gets to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecast.spark.sources.files import FileSource
from antecast.spark.sources.foreign import ForeignSource
from antecast.spark.sources.gtfs import GtfsSource
from antecast.spark.sources.kafka import KafkaSource
from antecast.spark.sources.lines import LinesSource
from antecast.spark.sources.logs import LogSource
from antecast.spark.sources.mqtt import MqttSource
from antecast.spark.sources.nats import NatsSource
from antecast.spark.sources.traces import ContactsSource, TraceSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

FILES: tuple[type[FileSource], ...] = (TraceSource, ContactsSource, GtfsSource, LogSource, ForeignSource)
STREAMS: tuple[type[DataSource], ...] = (NatsSource, KafkaSource, MqttSource, LinesSource)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_all(spark: SparkSession) -> list[str]:
    """Make all sources known to a session; returns their names.

    Spark hands filters to Python sources only if a setting says so, which is off unless someone has set it. It is
    switched on where nobody has decided: it changes nothing for sources that take no filters.
    """
    if PUSHDOWN not in spark.conf.getAll:
        spark.conf.set(PUSHDOWN, "true")
    pushes = spark.conf.get(PUSHDOWN) == "true"
    for source in FILES:
        # A class of its own, shipped whole to the workers, carries the decision along.
        spark.dataSource.register(type(source.__name__, (source,), {"pushes": pushes}))
    for stream in STREAMS:
        spark.dataSource.register(stream)
    return [source.name() for source in (*FILES, *STREAMS)]
