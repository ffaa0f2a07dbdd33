"""Orders from Kafka, put into causal order by Spark, and back to Kafka in that order, each once; no jar.

    python examples/streams/kafka_orders.py checkpoint [localhost:9092]

Without a server it starts the mock broker of librdkafka, which speaks Kafka's protocol within this process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

import antecast.spark

sys.path.insert(0, str(Path(__file__).parent))
from orders import SCHEMA, shuffled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mock_broker() -> tuple[str, Producer]:
    """A broker that lives as long as the producer."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=10).brokers.values()
    return ",".join(f"{each.host}:{each.port}" for each in brokers), producer


def publish(server: str, events: list[dict[str, Any]]) -> None:
    """What the services do: events of an account go to one of two partitions."""
    producer = Producer({"bootstrap.servers": server})
    for number, event in enumerate(events):
        producer.produce("shop", json.dumps(event).encode(), partition=number % 2)
    producer.flush(10)


def order(spark: SparkSession, server: str, checkpoint: Path, *, rows: int = 10) -> None:
    """Order all that is there, at most so many rows at a time. Stopped or killed, it goes on where it was."""
    from pyspark.sql import functions as F  # noqa: N812

    antecast.spark.register(spark)
    source = spark.readStream.format("antecast.kafka").option("kafka.bootstrap.servers", server)
    source = source.option("subscribe", "shop").option("startingOffsets", "earliest")
    read = source.option("maxRowsPerTrigger", rows).load()
    events = read.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    ordered = antecast.spark.causal_order(events, id="id", needs="needs", key="account", wait="10min")
    value = F.to_json(F.struct("account", "text", "missing")).alias("value")
    written = ordered.filter("reason is null").select("account", "position", "id", value)
    query = written.withColumnRenamed("id", "key").writeStream.format("antecast.kafka")
    query = query.option("kafka.bootstrap.servers", server).option("topic", "shop-ordered")
    query = query.option("orderBy", "account,position").option("checkpointLocation", str(checkpoint))
    query.outputMode("append").trigger(availableNow=True).start().awaitTermination()


def ordered(server: str) -> list[dict[str, Any]]:
    """The ordered events, as any client of Kafka would read them."""
    consumer = Consumer({"bootstrap.servers": server, "group.id": "shop", "auto.offset.reset": "earliest"})
    place = TopicPartition("shop-ordered", 0, 0)
    _, after = consumer.get_watermark_offsets(place, timeout=10)
    consumer.assign([place])
    found: list[dict[str, Any]] = []
    while len(found) < after:
        message = consumer.poll(10)
        if message is None or message.error() is not None:
            raise RuntimeError(f"read {len(found)} of {after} messages")
        found.append(json.loads(message.value() or b"null"))
    consumer.close()
    return found


def main(checkpoint: str, server: str | None = None) -> None:
    from antecast.spark.session import spark_session

    address, broker = (server, None) if server else mock_broker()
    publish(address, shuffled())
    with spark_session("orders") as spark:
        order(spark, address, Path(checkpoint))
    for event in ordered(address):
        print(event["account"], event["text"], *event.get("missing") or ())
    del broker


if __name__ == "__main__":
    main(*sys.argv[1:3])
