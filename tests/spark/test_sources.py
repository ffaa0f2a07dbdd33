"""Data sources in a Spark session: registered by name, planned and read by Spark's own workers."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException

import antecast.spark
from antecast import make_scenario, run
from antecast.live import Node
from antecast.live.links.tcp import Tcp
from antecast.spark.audit import audit
from antecast.traces import read, write

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "streams"))
from brokers import kafka_broker, mqtt_broker, nats_server
from orders import history, shuffled

pytestmark = pytest.mark.spark

ONE = "0 CONN 0 1 up\n9 CONN 0 1 down\n13 CONN 2 1 up\n20 CONN 2 1 down\n"


@pytest.fixture(autouse=True)
def registered(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    antecast.spark.register(spark)
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_files_are_read_by_name_by_as_many_queries_as_there_are(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "meeting.txt").write_text(ONE)
    contacts = spark.read.format("antecast.contacts").load(str(tmp_path / "meeting.txt"))
    assert [tuple(row) for row in contacts.collect()] == [
        ("0", "1", 0, 9 * 10**9),
        ("1", "2", 13 * 10**9, 20 * 10**9),
    ]
    late, early = contacts.filter("start > 1000"), contacts.filter("start < 1000")
    assert late.count() == early.count() == 1
    assert contacts.count() == 2  # what other queries of the same DataFrame have left out is here
    assert late.union(early).union(contacts).count() == 4
    write(read(tmp_path / "meeting.txt"), tmp_path / "meeting.parquet")
    both = spark.read.format("antecast.contacts").option("fileColumn", "file").load(str(tmp_path / "meeting.*"))
    assert both.groupBy("file").count().count() == 2
    narrow = spark.read.format("antecast.contacts").schema("`end` long").load(str(tmp_path / "meeting.parquet"))
    assert sorted(row[0] for row in narrow.collect()) == [9 * 10**9, 20 * 10**9]


def test_a_run_is_read_by_name(spark: Any, tmp_path: Path) -> None:
    scenario = make_scenario({"nodes": 3, "duration": "2s", "workload": [{"kind": "periodic", "every": "1s"}]})
    run(scenario, out=tmp_path / "run")
    events = spark.read.format("antecast.log").load(str(tmp_path / "run"))
    assert events.count() == pq.read_metadata(tmp_path / "run" / "events.parquet").num_rows
    assert events.filter("kind = 'deliver' and node = 1").count() == 3 * 2


def test_journals_of_live_nodes_are_read_by_name(spark: Any, tmp_path: Path) -> None:
    async def talk() -> None:
        async with Node(0, "vector", journal=tmp_path / "a.journal", transports=[Tcp(listen="127.0.0.1:0")]) as a:
            address = a.transports[0].listen
            async with Node(1, "vector", journal=tmp_path / "b.journal", transports=[Tcp(peers=[address])]) as b:
                await a.broadcast(b"hello")
                async for message in b.deliveries():
                    await b.broadcast(b"and to you")
                    b.acknowledge(message.number)
                    break
                async for message in a.deliveries():
                    if message.id.origin == 1:
                        break

    asyncio.run(talk())
    (tmp_path / "notes.txt").write_text("no journal")
    reader = spark.read.format("antecast.journal")
    events = reader.option("fileColumn", "file").load(str(tmp_path))
    broadcasts = events.filter("kind = 'broadcast'").orderBy("node").select("node", "origin", "seq", "file")
    assert [tuple(row) for row in broadcasts.collect()] == [
        (0, 0, 1, str(tmp_path / "a.journal")),
        (1, 1, 1, str(tmp_path / "b.journal")),
    ]
    verdict = audit(events)
    assert (verdict.outcome, verdict.messages) == ("causal", 2)
    few = reader.schema("node int, kind string").load(str(tmp_path / "*.journal"))
    assert {row.kind for row in few.collect()} >= {"broadcast", "deliver", "up"}
    with pytest.raises(PySparkException, match=r"notes.txt: not a journal of a live node"):
        reader.load(str(tmp_path / "notes.txt")).collect()


def test_what_is_wrong_reaches_the_user_with_file_and_line(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"antecast.trace: unknown option 'colour'; known are format"):
        spark.read.format("antecast.trace").option("colour", "red").load("x").schema  # noqa: B018
    (tmp_path / "bad.txt").write_text("1 CONN 1 2 up\n2 CON 1 2 up\n3 CONN 1 2 down\n")
    with pytest.raises(
        PySparkException, match=r'bad.txt:2: expected "time CONN a b up\|down", got "2 CON 1 2 up"'
    ):
        spark.read.format("antecast.contacts").load(str(tmp_path / "bad.txt")).collect()


def test_the_page_on_data_sources_works(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Python runs in this session, and prints what the page shows."""
    page = (Path(__file__).parents[2] / "docs" / "data-sources.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark}
    for code, shown in blocks:
        capsys.readouterr()
        exec(compile(code, "data-sources.md", "exec"), names)
        assert capsys.readouterr().out == shown


def check_ordered(found: list[dict[str, Any]]) -> None:
    """All events but the lost one, once, each after what it follows from."""
    right = [event for event in history() if event["id"] != "2-packed"]
    names = [f"{each['account'].split()[1]}-{each['text']}" for each in found]
    assert sorted(names) == sorted(event["id"] for event in right)
    place = {name: number for number, name in enumerate(names)}
    for event in right:
        for need in event["needs"]:
            assert need == "2-packed" or place[need] < place[event["id"]]


def drained(example: Any, read_all: Any, more: list[dict[str, Any]], send: Any, work: Any) -> None:
    """An example ordered in three runs with one checkpoint; between them the lost event comes at last."""
    events = shuffled()
    half = len(events) // 2
    send(events[:half])
    work()
    send(events[half:])
    work()
    waiting = {"2-sent", "2-arrived", "2-returned", "2-refunded"}
    assert len(read_all()) == len(history()) - 1 - len(waiting)
    send(more)
    work()
    found = read_all()
    names = [f"{each['account'].split()[1]}-{each['text']}" for each in found]
    assert set(names[-5:]) == {"2-packed", *waiting}
    check_ordered([each for each, name in zip(found, names, strict=True) if name != "2-packed"])


LOST = [event for event in history() if event["id"] == "2-packed"]


def test_the_example_orders_a_stream_of_a_nats_server(spark: Any, tmp_path: Path) -> None:
    with nats_server(tmp_path / "jetstream") as server:
        example = importlib.import_module("nats_orders")
        drained(
            example,
            lambda: asyncio.run(example.ordered(server)),
            LOST,
            lambda events: asyncio.run(example.publish(server, events)),
            lambda: example.order(spark, server, tmp_path / "checkpoint"),
        )


def test_the_example_orders_topics_of_a_kafka_broker(spark: Any, tmp_path: Path) -> None:
    with kafka_broker() as server:
        example = importlib.import_module("kafka_orders")
        drained(
            example,
            lambda: example.ordered(server),
            LOST,
            lambda events: example.publish(server, events),
            lambda: example.order(spark, server, tmp_path / "checkpoint"),
        )


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
def test_messages_of_an_mqtt_broker_are_read_once(spark: Any, tmp_path: Path) -> None:
    with mqtt_broker() as (port, _):
        import paho.mqtt.publish as publish

        reader = spark.readStream.format("antecast.mqtt").option("port", port).option("topics", "sensors/#")
        reader = (
            reader.option("clientId", "tests").option("spool", str(tmp_path / "spool")).option("quiet", "300ms")
        )
        found: list[bytes] = []

        def keep(frame: Any, _: int) -> None:
            found.extend(bytes(row.value) for row in frame.orderBy("number").collect())

        query = reader.load().writeStream.foreachBatch(keep).trigger(processingTime="100 milliseconds")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for _ in range(200):  # the first trigger connects
                publish.single("sensors/a", b"0", 1, hostname="127.0.0.1", port=port)
                if found:
                    break
                query.processAllAvailable()
            publish.multiple([("sensors/a", b"%d" % n, 1, False) for n in range(1, 6)], "127.0.0.1", port)
            for _ in range(100):
                query.processAllAvailable()
                if found and found[-1] == b"5":
                    break
        finally:
            query.stop()
        assert found[-5:] == [b"1", b"2", b"3", b"4", b"5"]
        assert len(set(found)) == 6
