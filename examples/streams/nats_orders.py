"""Orders from a NATS server, put into causal order by Spark, and back to NATS in that order, each once.

    nats-server -js &
    python examples/streams/nats_orders.py nats://127.0.0.1:4222 checkpoint

The stream SHOP keeps `shop.events`, where the services publish, and `shop.ordered`, which this program writes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats

import antecast.spark

sys.path.insert(0, str(Path(__file__).parent))
from orders import SCHEMA, shuffled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


async def publish(server: str, events: list[dict[str, Any]]) -> None:
    """What the services do."""
    client = await nats.connect(server)
    jetstream = client.jetstream()
    await jetstream.add_stream(name="SHOP", subjects=["shop.>"])
    for event in events:
        await jetstream.publish("shop.events", json.dumps(event).encode())
    await client.close()


def order(spark: SparkSession, server: str, checkpoint: Path, *, rows: int = 10) -> None:
    """Order all that is there, at most so many rows at a time. Stopped or killed, it goes on where it was."""
    from pyspark.sql import functions as F  # noqa: N812

    antecast.spark.register(spark)
    source = spark.readStream.format("antecast.nats").option("servers", server).option("stream", "SHOP")
    source = source.option("subject", "shop.events").option("startingOffsets", "earliest")
    read = source.option("maxRowsPerTrigger", rows).load()
    events = read.select("seq", F.from_json(F.col("value").cast("string"), SCHEMA).alias("event"))
    ordered = antecast.spark.causal_order(
        events.select("seq", "event.*"), id="id", needs="needs", key="account", arrival="seq", wait="10min"
    )
    value = F.to_json(F.struct("account", "text", "missing")).alias("value")
    written = ordered.filter("reason is null").select("account", "position", value).writeStream
    written = written.format("antecast.nats").option("servers", server).option("subject", "shop.ordered")
    written = written.option("orderBy", "account,position").option("checkpointLocation", str(checkpoint))
    written.outputMode("append").trigger(availableNow=True).start().awaitTermination()


async def ordered(server: str) -> list[dict[str, Any]]:
    """The ordered events, as any client of NATS would read them."""
    client = await nats.connect(server)
    jetstream = client.jetstream()
    found = await jetstream.pull_subscribe("shop.ordered", stream="SHOP")
    count = (await found.consumer_info()).num_pending or 0
    events: list[dict[str, Any]] = []
    while len(events) < count:
        events += [json.loads(message.data) for message in await found.fetch(count - len(events))]
    await client.close()
    return events


def main(server: str, checkpoint: str) -> None:
    from antecast.spark.session import spark_session

    asyncio.run(publish(server, shuffled()))
    with spark_session("orders") as spark:
        order(spark, server, Path(checkpoint))
    for event in asyncio.run(ordered(server)):
        print(event["account"], event["text"], *event.get("missing") or ())


if __name__ == "__main__":
    main(*sys.argv[1:3])
