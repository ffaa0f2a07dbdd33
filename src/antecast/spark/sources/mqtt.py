"""`antecast.mqtt`: messages of MQTT topics, kept in a spool until Spark has done with them.

    reader = spark.readStream.format("antecast.mqtt").option("topics", "sensors/#")
    reader.option("clientId", "spark-1").option("spool", "/var/lib/sensors").load()

MQTT cannot give a message a second time, so one process on the driver's machine subscribes and writes messages
to a spool, an SQLite file. A message is acknowledged after it is on disk. The offset is the number of a message in
the spool; what Spark has committed is removed. So no message is lost, and each one in the spool is taken exactly
once. What cannot be had: a crash between disk and acknowledgement, or a lost acknowledgement, makes the broker
send a message again, and MQTT has no number by which to tell. Let the messages carry an id, and drop duplicates.
"""

from __future__ import annotations

import fcntl
import queue
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructType, TimestampType

from antecast.core.errors import InputError
from antecast.spark.sources.files import check_columns
from antecast.spark.sources.options import Parse, flag, one_of, positive, read_options, required, seconds, words
from antecast.spark.sources.streams import StreamReader, client_missing, in_batches, struct, told

NAME = "antecast.mqtt"
COLUMNS = struct(
    topic=StringType(),
    value=BinaryType(),
    qos=IntegerType(),
    retain=BooleanType(),
    number=LongType(),
    timestamp=TimestampType(),
)


def topics(text: str) -> tuple[str, ...]:
    """Topics and patterns of them. The client would refuse a wrong one in a thread of its own."""
    found = words(text)
    for each in found:
        levels = each.split("/")
        if "#" in "".join(levels[:-1]) or any(set(level) & {"#", "+"} and len(level) > 1 for level in levels):
            raise ValueError(f"expected topics such as sensors/+/heat or sensors/#, got {each!r}")
    return found


READING: Mapping[str, Parse] = {
    "host": str,
    "port": positive,
    "tls": flag,
    "user": str,
    "password": str,
    "clientId": str,
    "topics": topics,
    "qos": one_of("1", "2"),
    "spool": str,
    "spoolRows": positive,
    "maxRowsPerTrigger": positive,
    "timeout": seconds,
    "quiet": seconds,
}
SPOOL_ROWS = 1_000_000


class Spool:
    """Messages on disk, numbered from 1 in the order they came. Numbers are never given twice."""

    def __init__(self, folder: str) -> None:
        self.place = place = Path(folder)
        with told(NAME, str(place), sqlite3.Error, OSError):
            place.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(place / "messages.sqlite", check_same_thread=False, timeout=30)
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.execute(
                "create table if not exists messages (number integer primary key autoincrement,"
                " topic text, value blob, qos int, retain int, micros int)"
            )
        self._lock = threading.Lock()
        self._owned: IO[str] | None = None

    def take_over(self, timeout: float) -> None:
        """Be the only one who fills and empties it: what one query has done with, another may not have read. A
        query that was stopped may need a moment."""
        self._owned = (self.place / "lock").open("w")
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self._owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() >= deadline:
                    problem = "another query uses this spool; give each query a spool and a clientId of its own"
                    raise InputError(problem, path=self.place) from None
                time.sleep(0.05)

    def add(self, messages: list[tuple[Any, ...]]) -> None:
        with self._lock, self._db:
            self._db.executemany(
                "insert into messages (topic, value, qos, retain, micros) values (?, ?, ?, ?, ?)", messages
            )

    def bounds(self) -> tuple[int, int]:
        """The number of the first message that is kept, and the next one to be given."""
        with self._lock:
            after = self._db.execute("select seq from sqlite_sequence where name = 'messages'").fetchone()
            first = self._db.execute("select min(number) from messages").fetchone()[0]
        following = after[0] + 1 if after else 1
        return first or following, following

    def take(self, start: int, end: int) -> list[tuple[Any, ...]]:
        query = "select number, topic, value, qos, retain, micros from messages where number >= ? and number < ?"
        with self._lock:
            return self._db.execute(query + " order by number", (start, end)).fetchall()

    def forget(self, end: int) -> None:
        with self._lock, self._db:
            self._db.execute("delete from messages where number < ?", (end,))

    def close(self) -> None:
        self._db.close()
        if self._owned is not None:
            self._owned.close()


class Subscriber:
    """Follows the broker: what comes is put on disk, and then acknowledged."""

    def __init__(self, values: Mapping[str, Any], spool: Spool) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError:
            raise client_missing(NAME, "paho-mqtt", "mqtt") from None
        self._spool, self._most = spool, values.get("spoolRows", SPOOL_ROWS)
        self._came: queue.Queue[Any] = queue.Queue()
        self._answered, self._refused = threading.Event(), ""
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self.last = time.monotonic()
        """When a message came last."""
        topics, qos = values["topics"], int(values.get("qos", "1"))
        host, port = values.get("host", "127.0.0.1"), values.get("port", 8883 if values.get("tls") else 1883)
        where, timeout = f"{host}:{port}", values.get("timeout", 10.0)
        client = Client(CallbackAPIVersion.VERSION2, values["clientId"], clean_session=False, manual_ack=True)
        if "user" in values:
            client.username_pw_set(values["user"], values.get("password"))
        if values.get("tls"):
            client.tls_set()

        def connected(client: Any, _: Any, __: Any, code: Any, ___: Any) -> None:
            if code.is_failure:
                self._refused = str(code)
                self._answered.set()
            else:
                client.subscribe([(topic, qos) for topic in topics])

        def subscribed(_: Any, __: Any, ___: Any, codes: Any, ____: Any) -> None:
            failed = [topic for topic, code in zip(topics, codes, strict=False) if code.is_failure]
            self._refused = f"the broker refused the topic {failed[0]}" if failed else ""
            self._answered.set()

        def came(_: Any, __: Any, message: Any) -> None:
            self.last = time.monotonic()
            self._came.put(message)

        client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, came
        self._client = client
        with told(NAME, where, OSError, ValueError):
            client.connect(host, port, keepalive=30)
        client.loop_start()
        self._writer = threading.Thread(target=self._keep, daemon=True)
        self._writer.start()
        if not self._answered.wait(timeout) or self._refused:
            self.stop()
            raise InputError(self._refused or f"no answer in {timeout:g} s", path=f"{NAME}: {where}")

    def check(self) -> None:
        """Raise if messages could not be put on disk: nobody does it any more, and the broker keeps them."""
        if self._failure is not None:
            said = " ".join(str(self._failure).split())
            raise InputError(f"messages cannot be kept: {said}", path=self._spool.place)

    def _keep(self) -> None:
        try:
            self._keep_all()
        except (sqlite3.Error, OSError) as error:
            self._failure = error

    def _keep_all(self) -> None:
        while not self._stopping.is_set():
            try:
                messages = [self._came.get(timeout=0.2)]
            except queue.Empty:
                continue
            while not self._came.empty() and len(messages) < 1000:
                messages.append(self._came.get())
            first, after = self._spool.bounds()
            while after - first >= self._most and not self._stopping.is_set():
                time.sleep(0.05)  # the broker keeps what is not acknowledged, and sends no more than its window
                first, after = self._spool.bounds()
            now = time.time_ns() // 1000
            self._spool.add([(each.topic, each.payload, each.qos, each.retain, now) for each in messages])
            for each in messages:
                self._client.ack(each.mid, each.qos)

    def stop(self) -> None:
        """What is on disk is acknowledged first."""
        self._stopping.set()
        if self._writer.is_alive():
            self._writer.join(5)
        self._client.disconnect()
        self._client.loop_stop()


class Messages(InputPartition):
    """The messages of a micro-batch themselves: tasks need not see the spool."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows


class MqttSource(DataSource):
    """Topics as a stream of rows."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return COLUMNS

    def streamReader(self, schema: StructType) -> MqttReader:  # noqa: N802
        check_columns(NAME, schema, COLUMNS)
        return MqttReader(schema, read_options(NAME, self.options, READING))


class MqttReader(StreamReader):
    def __init__(self, schema: StructType, values: Mapping[str, Any]) -> None:
        super().__init__(schema, values.get("maxRowsPerTrigger"))
        for name, example in (("topics", "sensors/#"), ("clientId", "spark-1"), ("spool", "/var/lib/sensors")):
            required(NAME, values, name, example)
        self.values = dict(values)
        self._spool: Spool | None = None
        self._subscriber: Subscriber | None = None

    @property
    def spool(self) -> Spool:
        """The spool, and someone who fills it."""
        if self._spool is None:
            spool = Spool(self.values["spool"])
            try:
                spool.take_over(self.values.get("timeout", 10.0))
                self._subscriber = Subscriber(self.values, spool)
            except BaseException:
                spool.close()
                raise
            self._spool = spool
        return self._spool

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"number": self.spool.bounds()[0]}

    def newest(self) -> dict[str, Any]:
        after = self.spool.bounds()[1]
        if self._subscriber is not None:
            self._subscriber.check()
        return {"number": after}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now: what the broker has kept for this client has come when it is quiet for a while."""
        quiet = self.values.get("quiet", 1.0)
        self.spool.bounds()
        assert self._subscriber is not None
        self._subscriber.last = time.monotonic()
        while time.monotonic() - self._subscriber.last < quiet:
            time.sleep(quiet / 10)
        self.until = self.newest()

    def check(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        if end["number"] < start["number"]:
            raise self._of_another(start["number"])

    def _of_another(self, asked: int) -> InputError:
        first, after = self.spool.bounds()
        there = f"the messages {first} to {after - 1}" if first < after else f"none, and the next one is {after}"
        problem = f"messages from {asked} on were asked for, and the spool has {there}"
        place = self.values["spool"]
        return InputError(f"{problem}; is it the one that this checkpoint was made with?", path=place)

    def limited(self, start: dict[str, Any], end: dict[str, Any], rows: int) -> dict[str, Any]:
        return {"number": max(start["number"], min(end["number"], start["number"] + rows))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        low, high = start["number"], end["number"]
        first, after = self.spool.bounds()
        if high > low and (low < first or high > after):
            raise self._of_another(low)
        return [Messages(self.spool.take(low, high))] if high > low else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Messages)
        return in_batches(self, map(_row, partition.rows))

    def commit(self, end: dict[str, Any]) -> None:
        self.spool.forget(end["number"])

    def stop(self) -> None:
        if self._subscriber is not None:
            self._subscriber.stop()
        if self._spool is not None:
            self._spool.close()


def _row(message: tuple[Any, ...]) -> dict[str, Any]:
    number, topic, value, qos, retain, micros = message
    when = datetime.fromtimestamp(micros / 1e6, UTC)
    return {
        "number": number,
        "topic": topic,
        "value": value,
        "qos": qos,
        "retain": bool(retain),
        "timestamp": when,
    }
