"""The sources by name, and how a session gets to know them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecast.spark.sources.files import FileSource
from antecast.spark.sources.foreign import ForeignSource
from antecast.spark.sources.gtfs import GtfsSource
from antecast.spark.sources.journals import JournalSource
from antecast.spark.sources.kafka import KafkaSource
from antecast.spark.sources.lines import LinesSource
from antecast.spark.sources.logs import LogSource
from antecast.spark.sources.mqtt import MqttSource
from antecast.spark.sources.nats import NatsSource
from antecast.spark.sources.traces import ContactsSource, TraceSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

FILES: tuple[type[FileSource], ...] = (
    TraceSource,
    ContactsSource,
    GtfsSource,
    LogSource,
    JournalSource,
    ForeignSource,
)
STREAMS: tuple[type[DataSource], ...] = (NatsSource, KafkaSource, MqttSource, LinesSource)


def register_all(spark: SparkSession) -> list[str]:
    """Make all sources known to a session; returns their names."""
    for source in (*FILES, *STREAMS):
        spark.dataSource.register(source)
    return [source.name() for source in (*FILES, *STREAMS)]
