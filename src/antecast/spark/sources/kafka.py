"""`antecast.kafka`: topics of Kafka through librdkafka, without Spark's Kafka jar, and ordered output into one.

    reader = spark.readStream.format("antecast.kafka").option("kafka.bootstrap.servers", "localhost:9092")
    reader.option("subscribe", "orders").load()

Columns and most options are those of Spark's own source. Options that begin with `kafka.` go to the client as they
are. Offsets of a topic's partitions are in Spark's checkpoint, and nothing is committed to Kafka. Beside each
offset is a mark of the record before it: where that record is another one now, the topic was deleted and created
again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from antecast.core.errors import ConfigurationError, InputError
from antecast.spark.sources.files import check_columns
from antecast.spark.sources.options import (
    Parse,
    flag,
    natural,
    one_of,
    positive,
    read_options,
    required,
    seconds,
    words,
)
from antecast.spark.sources.ordered_writer import BATCH, ROW, Line, Mark, OrderedWriter
from antecast.spark.sources.streams import (
    Range,
    StreamReader,
    anew,
    client_missing,
    in_batches,
    lost,
    struct,
    told,
)

NAME = "antecast.kafka"
COLUMNS = struct(
    key=BinaryType(),
    value=BinaryType(),
    topic=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    timestamp=TimestampType(),
    timestampType=IntegerType(),
    headers=ArrayType(struct(key=StringType(), value=BinaryType())),
)
READING: Mapping[str, Parse] = {
    "subscribe": words,
    "startingOffsets": one_of("earliest", "latest"),
    "maxRowsPerTrigger": positive,
    "failOnDataLoss": flag,
    "timeout": seconds,
}
Place: TypeAlias = tuple[str, str]
"""A topic and the number of a partition, as offsets have it."""

BESIDE = ""
"""No topic: what a checkpoint has beside offsets."""

WRITING: Mapping[str, Parse] = {
    "topic": str,
    "partition": natural,
    "orderBy": words,
    "query": str,
    "timeout": seconds,
    "checkpointLocation": str,
}


class Broker:
    """How to reach the brokers."""

    def __init__(self, options: Mapping[str, str], known: Mapping[str, Parse]) -> None:
        own = {name: text for name, text in options.items() if not name.lower().startswith("kafka.")}
        self.values = read_options(NAME, own, known)
        self.settings: dict[str, Any] = {
            name[len("kafka.") :]: text for name, text in options.items() if name.lower().startswith("kafka.")
        }
        required(NAME, {"kafka.bootstrap.servers": self.settings.get("bootstrap.servers")}, *_SERVERS)
        self.timeout: float = self.values.get("timeout", 10.0)

    @property
    def where(self) -> str:
        return str(self.settings["bootstrap.servers"])

    @contextmanager
    def consumer(self) -> Iterator[Any]:
        """A consumer that commits nothing and tells where a partition ends."""
        client = _client()
        settings = {
            "group.id": "antecast",
            "isolation.level": "read_committed",
            **self.settings,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # never on at another place, and nothing said
        }
        said: list[Any] = []
        with told(NAME, self.where, ConnectionError), _in_words(client, said):
            consumer = client.Consumer({**settings, "error_cb": said.append}, logger=_silent())
            try:
                yield consumer
            except client.KafkaException:
                consumer.poll(0)  # what went wrong before, of which the exception knows nothing
                raise
            finally:
                consumer.close()

    def some(self, consumer: Any, where: str) -> list[Any]:
        """The next messages, or an error if none come in time. The client waits for as many as are asked for, so
        it is asked in short turns."""
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            if messages := consumer.consume(1000, timeout=0.05):
                return list(messages)
        raise InputError(f"nothing came for {self.timeout:g} s", path=f"{NAME}: {where}")


_SERVERS = ("kafka.bootstrap.servers", "localhost:9092")


def _client() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise client_missing(NAME, "confluent-kafka", "kafka") from None
    return confluent_kafka


@contextmanager
def _in_words(client: Any, said: Sequence[Any] = ()) -> Iterator[None]:
    """What went wrong, and why as far as librdkafka has noticed: that all brokers are down is no reason."""
    try:
        yield
    except client.KafkaException as error:
        why = [each.str() for each in said if each.name() != "_ALL_BROKERS_DOWN"]
        raise ConnectionError(": ".join([error.args[0].str(), *why[:1]])) from None


def _silent() -> Any:
    """Trouble is raised where something is asked for; librdkafka would also print it."""
    import logging

    logger = logging.getLogger("antecast.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class KafkaSource(DataSource):
    """Topics as a stream of rows, and as a place for ordered output."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return COLUMNS

    def streamReader(self, schema: StructType) -> KafkaReader:  # noqa: N802
        check_columns(NAME, schema, COLUMNS)
        return KafkaReader(schema, Broker(self.options, READING))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return KafkaWriter(schema, Broker(self.options, WRITING))


class KafkaReader(StreamReader):
    def __init__(self, schema: StructType, broker: Broker) -> None:
        values = broker.values
        super().__init__(schema, values.get("maxRowsPerTrigger"))
        self.broker = broker
        self.topics: tuple[str, ...] = required(NAME, values, "subscribe", "orders")
        self.begin: str = values.get("startingOffsets", "latest")
        self.strict: bool = values.get("failOnDataLoss", True)

    def _offsets(self, side: int) -> dict[str, Any]:
        """The first (0) or next (1) offset of each partition of each topic."""
        client = _client()
        found: dict[str, dict[str, int]] = {}
        with self.broker.consumer() as consumer:
            for topic in self.topics:
                there = consumer.list_topics(topic, timeout=self.broker.timeout).topics[topic]
                if there.error is not None:
                    raise InputError(there.error.str(), path=f"{NAME}: {self.broker.where}: topic {topic}")
                found[topic] = {}
                for number in sorted(there.partitions):
                    place = client.TopicPartition(topic, number)
                    bounds = consumer.get_watermark_offsets(place, timeout=self.broker.timeout)
                    found[topic][str(number)] = bounds[side]
        return found

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        known = _marks(start)
        there = self._marked({place: _flat(start)[place] for place in known if place[0] in self.topics})
        remade = sorted(place for place, mark in there.items() if mark != known[place])
        for topic, number in remade if self.strict else ():
            low, made = _flat(start)[topic, number], "since the record before that is another"
            raise anew(NAME, self._where(topic, number), low, low, made)
        start = _unmarked(start, remade)
        end = super().latestOffset(start, limit)
        moved = {place: high for place, high in _flat(end).items() if high and high != _flat(start).get(place)}
        marks = {place: mark for place, mark in known.items() if place in _flat(start)} | self._marked(moved)
        return end | {
            BESIDE: {
                "marks": [[*place, mark] for place, mark in sorted(marks.items())],
                "anew": [*map(list, remade)],
            }
        }

    def _marked(self, places: Mapping[Place, int]) -> dict[Place, str]:
        """Marks of the records before some offsets, where they are still there."""
        client, found, left = _client(), dict[Place, str](), set(places)
        if not left:
            return found
        with self.broker.consumer() as consumer:
            consumer.assign([client.TopicPartition(*_typed(place), places[place] - 1) for place in left])
            deadline = time.monotonic() + self.broker.timeout
            while left and time.monotonic() < deadline:
                for message in consumer.consume(len(left), timeout=0.05):
                    place = message.topic(), str(message.partition())
                    if place in left and message.error() is None and message.offset() == places[place] - 1:
                        found[place] = _mark(message)
                    left.discard(place)  # or it has been removed, or is no record of a client
        return found

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # As `latestOffset` says it: to Spark, other words are another offset.
        return self._offsets(0 if self.begin == "earliest" else 1) | {BESIDE: {"marks": [], "anew": []}}

    def newest(self) -> dict[str, Any]:
        return self._offsets(1)

    def check(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        for topic in end if self.strict else ():
            for number, low in start.get(topic, {}).items():
                if end[topic].get(number, 0) < low:
                    raise anew(NAME, self._where(topic, number), low, end[topic].get(number, 0))

    def limited(self, start: dict[str, Any], end: dict[str, Any], rows: int) -> dict[str, Any]:
        """Every partition gets its share of the rows; where there are fewer of these, partitions take turns."""
        begin = _begin(start, end)
        left = {place: high - begin[place] for place, high in _flat(end).items()}
        total, budget, shares = sum(left.values()), rows, left
        if total > rows:
            first = sum(begin[place] for place in left) % len(left)  # further on by as many as were taken
            shares = {}
            for place in [*left][first:] + [*left][:first]:
                shares[place] = min(left[place], max(1, left[place] * rows // total), budget)
                budget -= shares[place]
        limited: dict[str, Any] = {topic: dict(numbers) for topic, numbers in start.items() if topic not in end}
        for topic, number in left:  # always in one order: to Spark, another order would be another offset
            limited.setdefault(topic, {})[number] = begin[topic, number] + shares[topic, number]
        return limited

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin = _begin(start, end)
        return [
            Range(begin[topic, number], high, (topic, int(number)))
            for (topic, number), high in _flat(end).items()
            if high > begin[topic, number]
        ]

    def _where(self, topic: str, number: Any) -> str:
        return f"{self.broker.where}: topic {topic}, partition {number}"

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return in_batches(self, self._take(partition))

    def _take(self, part: Range) -> Iterator[dict[str, Any]]:
        client = _client()
        topic, number = part.log
        where = self._where(topic, number)
        with self.broker.consumer() as consumer:
            place = client.TopicPartition(topic, number, part.start)
            first, after = consumer.get_watermark_offsets(place, timeout=self.broker.timeout)
            if first > part.start and self.strict:
                raise lost(NAME, where, part.start, first)
            if after < part.end and self.strict:
                raise anew(NAME, where, part.end, after)
            if max(first, part.start) >= min(after, part.end):
                return
            consumer.assign([client.TopicPartition(topic, number, max(first, part.start))])
            while True:
                for message in self.broker.some(consumer, f"{where}: offset {part.end} is not reached"):
                    error = message.error()
                    if error is not None and error.code() == client.KafkaError._PARTITION_EOF:
                        return
                    if error is not None:
                        raise InputError(error.str(), path=f"{NAME}: {where}")
                    if message.offset() >= part.end:
                        return
                    yield _row(message)
                    if message.offset() == part.end - 1:
                        return


def _flat(offsets: dict[str, Any]) -> dict[Place, int]:
    return {
        (topic, number): each
        for topic, numbers in offsets.items()
        if topic != BESIDE
        for number, each in numbers.items()
    }


def _typed(place: Place) -> tuple[str, int]:
    return place[0], int(place[1])


def _marks(offsets: dict[str, Any]) -> dict[Place, str]:
    return {(topic, number): mark for topic, number, mark in offsets.get(BESIDE, {}).get("marks", [])}


def _mark(message: Any) -> str:
    """What tells a record from another at the same offset."""
    body = repr((message.timestamp(), message.key(), message.value(), message.headers()))
    return blake2b(body.encode(), digest_size=8).hexdigest()


def _unmarked(start: dict[str, Any], remade: Collection[Place]) -> dict[str, Any]:
    """Offsets alone, without those of partitions that were made anew."""
    return {
        topic: {number: low for number, low in numbers.items() if (topic, number) not in remade}
        for topic, numbers in start.items()
        if topic != BESIDE
    }


def _begin(start: dict[str, Any], end: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Where to go on in each partition: one that is new, or was made anew, begins at its beginning."""
    start = _unmarked(start, [(topic, number) for topic, number in end.get(BESIDE, {}).get("anew", [])])
    return {
        (topic, number): low if (low := start.get(topic, {}).get(number, 0)) <= high else 0
        for (topic, number), high in _flat(end).items()
    }


def _row(message: Any) -> dict[str, Any]:
    kind, when = message.timestamp()
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": datetime.fromtimestamp(when / 1000, UTC) if kind else None,
        "timestampType": kind - 1,
        "headers": [{"key": key, "value": value} for key, value in message.headers() or ()],
    }


class KafkaWriter(OrderedWriter):
    """Ordered output into one partition of a topic, which nobody else writes to."""

    source = NAME

    def __init__(self, schema: StructType, broker: Broker) -> None:
        values = broker.values
        topic: str = required(NAME, values, "topic", "orders-ordered")
        super().__init__(schema, values, place=topic)
        self.broker, self.topic = broker, topic
        self.partition: int = values.get("partition", 0)
        self._where = f"{broker.where}: topic {topic}"

    def publish(self, batch: int, lines: list[Line]) -> None:
        client = _client()
        first = self.resume(self._last(), batch, lines)
        failed: list[Any] = []

        def told_of(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        with told(NAME, self._where, ConnectionError, BufferError), _in_words(client):
            # A row that fails for good must be the last: one behind it would count as if all before were there.
            whole = {"enable.idempotence": True, "enable.gapless.guarantee": True}
            producer = client.Producer({**self.broker.settings, **whole}, logger=_silent())
            for row in range(first, len(lines)):
                line = lines[row]
                marks = {BATCH: f"{self.query} {batch}", ROW: f"{row} {line.digest}"}
                headers = [(name, text.encode()) for name, text in {**line.headers, **marks}.items()]
                while len(producer) >= 10_000:
                    producer.poll(0.1)
                producer.produce(
                    self.topic,
                    line.value,
                    line.key,
                    partition=self.partition,
                    headers=headers,
                    on_delivery=told_of,
                )
            left = producer.flush(self.broker.timeout)
        if failed or left:
            said = (
                failed[0].str()
                if failed
                else f"{left} messages were not acknowledged in {self.broker.timeout:g} s"
            )
            raise InputError(said, path=f"{NAME}: {self._where}")

    def _last(self) -> Mark | None:
        """What the last message of the partition says of itself."""
        client = _client()
        with self.broker.consumer() as consumer:
            there = consumer.list_topics(self.topic, timeout=self.broker.timeout).topics[self.topic]
            if self.partition not in there.partitions:
                return None  # made by the first message, or refused with it
            place = client.TopicPartition(self.topic, self.partition)
            first, after = consumer.get_watermark_offsets(place, timeout=self.broker.timeout)
            for back in (1, 100):  # the last offsets may be marks of transactions, not messages
                if after <= first:
                    return None
                consumer.assign([client.TopicPartition(self.topic, self.partition, max(first, after - back))])
                last = None
                while True:
                    messages = self.broker.some(consumer, self._where)
                    fine = [each for each in messages if each.error() is None]
                    last = fine[-1] if fine else last
                    if len(fine) < len(messages) or (last is not None and last.offset() >= after - 1):
                        break
                if last is not None:
                    return Mark.read({name: (value or b"").decode() for name, value in last.headers() or ()})
        raise ConfigurationError("no message among the last 100 offsets", source=NAME, field=self.topic)
