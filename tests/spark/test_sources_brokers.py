"""Sources that follow brokers, as Spark calls them but without Spark, against real servers on loopback."""

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

from antecast.core.errors import AntecastError
from antecast.spark.sources.kafka import KafkaSource
from antecast.spark.sources.mqtt import MqttSource, Spool
from antecast.spark.sources.nats import NatsSource

sys.path.insert(0, str(Path(__file__).parent))
from brokers import kafka_broker, mqtt_broker, nats_server

POSITIONED = StructType([StructField("position", LongType()), StructField("value", StringType())])


def reader_of(source, **options):
    made = source({name.replace("__", ".").lower(): str(value) for name, value in options.items()})
    return made.streamReader(made.schema())


def rows_between(reader, start, end):
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def nats_address(tmp_path_factory):
    with nats_server(tmp_path_factory.mktemp("jetstream")) as address:
        yield address


def fill(address, stream, subjects, messages, **limits):
    import nats

    async def work():
        client = await nats.connect(address)
        jetstream = client.jetstream()
        await jetstream.add_stream(name=stream, subjects=subjects, **limits)
        for subject, value in messages:
            await jetstream.publish(subject, value, headers={"kind": "test"})
        await client.close()

    asyncio.run(work())


@pytest.mark.parametrize("held", [20_000, 4])
def test_a_stream_is_read_by_ranges_and_a_range_again(nats_address, monkeypatch, held):
    monkeypatch.setattr("antecast.spark.sources.nats.HELD_ROWS", held)
    name, letter = f"A{held}", f"a{held}"
    fill(nats_address, name, [f"{letter}.>"], [(f"{letter}.{n % 2}", b"%d" % n) for n in range(30)])
    reader = reader_of(NatsSource, servers=nats_address, stream=name, startingOffsets="earliest", partitions=3)
    start, end = reader.initialOffset(), reader.newest()
    assert (start["seq"], end["seq"]) == (1, 31)
    assert len(reader.partitions(start, end)) == 3
    whole = rows_between(reader, start, end)
    assert [int(row["value"]) for row in whole] == list(range(30)) == [row["seq"] - 1 for row in whole]
    assert whole[0]["headers"] == [("kind", "test")]
    assert rows_between(reader, {"seq": 5}, {"seq": 9}) == whole[4:8]
    assert rows_between(reader, end, end) == []
    odd = reader_of(NatsSource, servers=nats_address, stream=name, subject=f"{letter}.1")
    assert [row["seq"] for row in rows_between(odd, {"seq": 4}, {"seq": 9})] == [4, 6, 8]
    assert odd.initialOffset() == end  # the latest


def test_large_messages_are_read_in_batches_of_a_sensible_size(nats_address):
    """At once they are more than a server keeps for a client; one batch of them may be more than Arrow takes."""
    fill(nats_address, "LARGE", ["large"], [("large", b"%04d" % n + bytes(990_000)) for n in range(200)])
    reader = reader_of(NatsSource, servers=nats_address, stream="LARGE", startingOffsets="earliest")
    start, end = reader.initialOffset(), reader.newest()
    sizes, seen = [], []
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            sizes.append(batch.nbytes)
            seen += [int(value[:4]) for value in batch["value"].to_pylist()]
    assert seen == list(range(200))
    assert max(sizes) < 40_000_000
    remove(nats_address, "LARGE")


def test_a_header_called_status_is_one_like_others(nats_address):
    """A server tells a client how things are in a header of this name."""
    import nats

    async def publish():
        client = await nats.connect(nats_address)
        for status in ("404", "408", "409", "100"):
            await client.jetstream().publish("status", b"", headers={"Status": status})
        await client.close()

    fill(nats_address, "STATUS", ["status"], [])
    asyncio.run(publish())
    rows = rows_between(reader_of(NatsSource, servers=nats_address, stream="STATUS"), {"seq": 1}, {"seq": 5})
    assert [dict(row["headers"])["Status"] for row in rows] == ["404", "408", "409", "100"]


def test_a_rate_limit_is_kept_and_available_now_ends(nats_address):
    fill(nats_address, "B", ["b"], [("b", b"x")] * 10)
    reader = reader_of(NatsSource, servers=nats_address, stream="B", maxRowsPerTrigger=4)
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert reader.latestOffset({"seq": 1}, ReadMaxRows(4))["seq"] == 5
    assert reader.latestOffset({"seq": 1}, ReadAllAvailable())["seq"] == 11
    reader.prepareForTriggerAvailableNow()
    fill(nats_address, "B", ["b"], [("b", b"more")])
    assert reader.latestOffset({"seq": 9}, ReadMaxRows(4))["seq"] == 11
    assert reader.latestOffset({"seq": 11}, ReadMaxRows(4))["seq"] == 11


def test_messages_that_are_gone_are_an_error_unless_that_is_fine(nats_address):
    fill(nats_address, "C", ["c"], [("c", b"%d" % n) for n in range(8)], max_msgs=3)
    strict = reader_of(NatsSource, servers=nats_address, stream="C")
    with pytest.raises(AntecastError, match="messages from 2 on were asked for, and the first that is left is 6"):
        rows_between(strict, {"seq": 2}, {"seq": 9})
    lenient = reader_of(NatsSource, servers=nats_address, stream="C", failOnDataLoss="false")
    assert [row["seq"] for row in rows_between(lenient, {"seq": 2}, {"seq": 9})] == [6, 7, 8]


def remove(address, stream):
    import nats

    async def work():
        client = await nats.connect(address)
        await client.jetstream().delete_stream(stream)
        await client.close()

    asyncio.run(work())


def test_a_stream_that_was_made_anew_is_an_error_unless_that_is_fine(nats_address):
    """Its numbers begin at 1 again: without a word, the first of them would never be read."""
    fill(nats_address, "E", ["e"], [("e", b"old")] * 8)
    remove(nats_address, "E")
    fill(nats_address, "E", ["e"], [("e", b"new %d" % n) for n in range(3)])
    strict = reader_of(NatsSource, servers=nats_address, stream="E")
    said = "stream E: the checkpoint is at 9, and the next message will be 4: was it deleted and created again"
    with pytest.raises(AntecastError, match=said):
        strict.latestOffset({"seq": 9}, ReadAllAvailable())
    with pytest.raises(AntecastError, match="the checkpoint is at 12, and the next message will be 4"):
        rows_between(strict, {"seq": 9}, {"seq": 12})  # planned before the crash
    lenient = reader_of(NatsSource, servers=nats_address, stream="E", failOnDataLoss="false")
    middle = lenient.latestOffset({"seq": 9}, ReadMaxRows(2))
    end = lenient.latestOffset(middle, ReadMaxRows(2))
    found = rows_between(lenient, {"seq": 9}, middle) + rows_between(lenient, middle, end)
    assert [row["value"] for row in found] == [b"new 0", b"new 1", b"new 2"]


def test_a_stream_that_was_made_anew_is_known_however_long_it_is(nats_address):
    """It has passed the checkpoint already: by numbers alone, what came before would be left out in silence."""
    fill(nats_address, "G", ["g"], [("g", b"old")] * 3)
    strict = reader_of(NatsSource, servers=nats_address, stream="G")
    lenient = reader_of(NatsSource, servers=nats_address, stream="G", failOnDataLoss="false")
    start = strict.newest()
    fill(nats_address, "G", ["g"], [("g", b"old")] * 2)
    planned = strict.newest()
    remove(nats_address, "G")
    fill(nats_address, "G", ["g"], [("g", b"new %d" % n) for n in range(9)])
    said = "the checkpoint is at 4, and the next message will be 10: it was deleted and created again"
    with pytest.raises(AntecastError, match=said):
        strict.latestOffset(start, ReadAllAvailable())
    with pytest.raises(AntecastError, match="it was deleted and created again"):
        rows_between(strict, start, planned)
    middle = lenient.latestOffset(start, ReadMaxRows(5))
    end = lenient.latestOffset(middle, ReadAllAvailable())
    found = rows_between(lenient, start, middle) + rows_between(lenient, middle, end)
    assert [row["value"] for row in found] == [b"new %d" % n for n in range(9)]
    assert strict.latestOffset({"seq": 4}, ReadAllAvailable()) == end  # a checkpoint of an older version


def written(source, **options):
    made = source({name.replace("__", ".").lower(): str(value) for name, value in options.items()})
    return made.streamWriter(POSITIONED, False)


def line(*positions):
    return iter([Row(position=each, value=f"v{each}") for each in positions])


def check_writer(writer, read):
    """A micro-batch that is committed again, wholly or in part, is not repeated, and another one is refused."""
    parts = [writer.write(line(3, 1)), writer.write(line(2))]
    writer.publish(0, sorted(parts[0].lines, key=lambda each: each.order)[:1])  # died behind its first row
    assert read() == ["v1"]
    writer.commit(parts, 0)
    writer.commit(parts, 0)
    assert read() == ["v1", "v2", "v3"]
    writer.commit([None, writer.write(iter(()))], 1)
    writer.commit([writer.write(line(4))], 2)
    assert read() == ["v1", "v2", "v3", "v4"]
    with pytest.raises(AntecastError, match=r"the last message is row 0 of micro-batch 2 of .*'query'"):
        writer.commit(parts, 0)
    with pytest.raises(AntecastError, match="does not fit micro-batch 2"):
        writer.commit([writer.write(line(5))], 2)
    with pytest.raises(AntecastError, match='filter them with "reason is null"'):
        writer.write(line(None))


def test_ordered_output_into_nats_is_there_once(nats_address):
    fill(nats_address, "D", ["d"], [])
    reader = reader_of(NatsSource, servers=nats_address, stream="D")
    writer = written(NatsSource, servers=nats_address, subject="d")
    check_writer(
        writer, lambda: [row["value"].decode() for row in rows_between(reader, {"seq": 1}, reader.newest())]
    )


def test_headers_that_are_for_a_server_are_not_handed_on(nats_address):
    """Before: a server took a row for the message that it was made of, if that had an id, and the query ended."""
    fill(nats_address, "H", ["h", "h.ordered"], [])
    writer = written(NatsSource, servers=nats_address, subject="h.ordered")
    headers = {
        "Nats-Msg-Id": "7",
        "Nats-Expected-Last-Sequence": "99",
        "nats-rollup": "all",
        "colour": "red, blue",
    }
    writer.commit([writer.write(iter([Row(position=n, value="v", headers=headers) for n in range(3)]))], 0)
    rows = rows_between(reader_of(NatsSource, servers=nats_address, stream="H"), {"seq": 1}, {"seq": 4})
    found = [dict(row["headers"]) for row in rows]
    assert [each["colour"] for each in found] == ["red, blue"] * 3
    assert not [each for each in found if "Nats-Msg-Id" in each or "nats-rollup" in each]


@pytest.mark.parametrize(
    ("source", "headers", "said"),
    [
        (NatsSource, {"a": None}, "antecast.nats: the header 'a' is null, and a header is a text"),
        (KafkaSource, {"a": "b", "c": None}, "antecast.kafka: the header 'c' is null"),
        (NatsSource, {"a": "b\r\nNats-Rollup: all"}, "antecast.nats: the header 'a' with the value"),
        (NatsSource, {"a:b": "c"}, "antecast.nats: the header 'a:b' with the value 'c' has characters"),
    ],
)
def test_headers_that_cannot_be_written_are_refused(source, headers, said):
    options = {"subject": "s", "servers": "nats://127.0.0.1:1"}
    if source is KafkaSource:
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
    writer = source(options).streamWriter(POSITIONED, False)
    with pytest.raises(AntecastError) as error:
        writer.write(iter([Row(position=1, value="v", headers=headers)]))
    assert str(error.value).startswith(said)


@pytest.fixture(scope="module")
def kafka_address():
    with kafka_broker() as address:
        yield address


def produce(address, topic, count, partitions=2):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address})
    for n in range(count):
        producer.produce(topic, b"%d" % n, b"key", partition=n % partitions, headers=[("kind", b"test")])
    assert producer.flush(10) == 0


def test_topics_are_read_by_partitions_and_ranges(kafka_address):
    produce(kafka_address, "a", 20)
    options = {"kafka__bootstrap__servers": kafka_address, "subscribe": "a", "startingOffsets": "earliest"}
    reader = reader_of(KafkaSource, **options)
    start, end = reader.initialOffset(), reader.newest()
    assert {number: end["a"][number] - start["a"][number] for number in ("0", "1")} == {"0": 10, "1": 10}
    rows = rows_between(reader, start, end)
    assert sorted(int(row["value"]) for row in rows) == list(range(20))
    assert (rows[0]["key"], rows[0]["headers"]) == (b"key", [{"key": "kind", "value": b"test"}])
    middle = rows_between(reader, {"a": {"0": 3, "1": 10}}, {"a": {"0": 6, "1": 10}})
    assert [row["offset"] for row in middle] == [3, 4, 5]


def test_a_topic_that_was_made_anew_is_an_error_unless_that_is_fine(kafka_address):
    produce(kafka_address, "again", 6, partitions=2)
    options = {"kafka__bootstrap__servers": kafka_address, "subscribe": "again"}
    strict, lenient = (reader_of(KafkaSource, **options, failOnDataLoss=word) for word in ("true", "false"))
    before = {"again": {number: each + 9 * (number == "1") for number, each in strict.newest()["again"].items()}}
    said = "topic again, partition 1: the checkpoint is at 12, and the next message will be 3"
    with pytest.raises(AntecastError, match=said):
        strict.latestOffset(before, ReadAllAvailable())
    planned = {"again": {**before["again"], "1": 15}}
    with pytest.raises(AntecastError, match="the checkpoint is at 15, and the next message will be 3"):
        rows_between(strict, before, planned)
    end = lenient.latestOffset(before, ReadAllAvailable())
    assert [(row["partition"], row["offset"]) for row in rows_between(lenient, before, end)] == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert rows_between(lenient, before, planned) == []


def test_a_topic_that_was_made_anew_is_known_however_long_it_is(kafka_address):
    produce(kafka_address, "longer", 8, partitions=2)
    options = {"kafka__bootstrap__servers": kafka_address, "subscribe": "longer", "startingOffsets": "earliest"}
    strict, lenient = (reader_of(KafkaSource, **options, failOnDataLoss=word) for word in ("true", "false"))
    read = strict.latestOffset(strict.initialOffset(), ReadMaxRows(4))
    assert json.loads(json.dumps(read)) == read
    assert len(rows_between(strict, strict.initialOffset(), read)) == 4
    whole = strict.latestOffset(read, ReadAllAvailable())
    assert sorted(int(row["value"]) for row in rows_between(strict, read, whole)) == [4, 5, 6, 7]
    assert strict.latestOffset(whole, ReadAllAvailable()) == whole, "nothing new"
    late = reader_of(KafkaSource, **options | {"startingOffsets": "latest"})
    assert late.latestOffset(late.initialOffset(), ReadAllAvailable()) == late.initialOffset(), "nothing yet"
    old = {
        **read,
        "": {**read[""], "marks": [["longer", "0", read[""]["marks"][0][2]], ["longer", "1", "another"]]},
    }
    said = (
        "topic longer, partition 1: .* it was deleted and created again, since the record before that is another"
    )
    with pytest.raises(AntecastError, match=said):
        strict.latestOffset(old, ReadAllAvailable())
    end = lenient.latestOffset(old, ReadAllAvailable())
    assert sorted(int(row["value"]) for row in rows_between(lenient, old, end)) == [1, 3, 4, 5, 6, 7]
    shorter = {
        "longer": {"0": 9, "1": 2},
        "": {"marks": [["longer", "0", "of a record that is gone"]], "anew": []},
    }
    with pytest.raises(AntecastError, match="the checkpoint is at 9, and the next message will be 4"):
        strict.latestOffset(shorter, ReadAllAvailable())
    unmarked = {"longer": read["longer"]}  # as versions before this one wrote it
    assert strict.latestOffset(unmarked, ReadAllAvailable())["longer"] == whole["longer"]


def test_a_topic_that_is_followed_no_more_may_be_made_anew(kafka_address):
    for topic in ("kept", "left"):
        produce(kafka_address, topic, 4, partitions=1)
    options = {"kafka__bootstrap__servers": kafka_address, "startingOffsets": "earliest"}
    both, one = (reader_of(KafkaSource, **options, subscribe=topics) for topics in ("kept,left", "kept"))
    end = both.latestOffset(both.initialOffset(), ReadAllAvailable())
    end[""]["marks"] = [
        [topic, number, mark + "x" * (topic == "left")] for topic, number, mark in end[""]["marks"]
    ]
    with pytest.raises(AntecastError, match="topic left, partition 0: the checkpoint is at 4"):
        both.latestOffset(end, ReadAllAvailable())
    produce(kafka_address, "kept", 2, partitions=1)
    after = one.latestOffset(end, ReadAllAvailable())
    assert [row["offset"] for row in rows_between(one, end, after)] == [4, 5]
    assert after["left"] == end["left"]


def test_ordered_output_into_kafka_is_there_once(kafka_address):
    produce(kafka_address, "out", 0)
    options = {"kafka__bootstrap__servers": kafka_address}
    writer = written(KafkaSource, **options, topic="out")
    reader = reader_of(KafkaSource, **options, subscribe="out")
    check_writer(
        writer,
        lambda: [row["value"].decode() for row in rows_between(reader, {"out": {"0": 0}}, reader.newest())],
    )


@given(
    starts=st.lists(st.integers(0, 20), min_size=1, max_size=5),
    more=st.lists(st.integers(0, 30), min_size=5, max_size=5),
    rows=st.integers(1, 40),
)
def test_a_limit_is_shared_among_partitions_and_all_is_read_in_the_end(starts, more, rows):
    reader = reader_of(KafkaSource, kafka__bootstrap__servers="nowhere:1", subscribe="t")
    at = {"t": {str(n): start for n, start in enumerate(starts)}}
    end = {"t": {str(n): start + extra for n, (start, extra) in enumerate(zip(starts, more, strict=False))}}
    for _ in range(200):
        if at == end:
            break
        following = reader.limited(at, end, rows)
        taken = [following["t"][n] - at["t"][n] for n in end["t"]]
        assert all(each >= 0 for each in taken)
        assert 0 < sum(taken) <= rows
        at = following
    assert at == end


def test_mqtt_messages_are_in_the_spool_before_they_are_acknowledged(tmp_path):
    with mqtt_broker() as (port, keeps):
        import paho.mqtt.publish as publish

        options = {"port": port, "clientId": "one", "topics": "sensors/#", "spool": tmp_path / "spool"}

        def send(*values):
            publish.multiple([("sensors/a", value, 1, False) for value in values], "127.0.0.1", port)

        reader = reader_of(MqttSource, **options, quiet="200ms")
        start = reader.initialOffset()
        send("1", "2", "3")
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset(start, ReadMaxRows(2))
        assert [row["value"] for row in rows_between(reader, start, end)] == [b"1", b"2"]
        reader.stop()
        if keeps:
            send("4")
        again = reader_of(MqttSource, **options, quiet="200ms")
        assert again.initialOffset() == start
        if not keeps:
            send("4")
        again.prepareForTriggerAvailableNow()
        last = again.latestOffset(end, ReadAllAvailable())
        assert [row["value"] for row in rows_between(again, end, last)] == [b"3", b"4"]
        assert [row["value"] for row in rows_between(again, start, end)] == [b"1", b"2"]
        again.commit(end)
        with pytest.raises(AntecastError, match="is it the one that this checkpoint was made with"):
            again.partitions(start, end)
        again.stop()
        other = reader_of(MqttSource, **options | {"spool": tmp_path / "other", "clientId": "two"})
        with pytest.raises(AntecastError, match="from 3 on were asked for, and the spool has none"):
            other.latestOffset(end, ReadAllAvailable())
        other.stop()


def test_a_spool_that_takes_no_more_ends_the_query(tmp_path, monkeypatch):
    """As when the disk is full: without a word, the query would go on, and no message would ever come."""

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with mqtt_broker() as (port, _):
        import paho.mqtt.publish as publish

        options = {"port": port, "topics": "t/#", "clientId": "full", "spool": tmp_path / "spool"}
        reader = reader_of(MqttSource, **options)
        try:
            assert reader.newest() == {"number": 1}
            monkeypatch.setattr(reader.spool, "add", full)
            publish.single("t/1", b"x", 1, False, "127.0.0.1", port)
            deadline = time.monotonic() + 60
            with pytest.raises(AntecastError, match="spool: messages cannot be kept: database or disk is full"):
                while time.monotonic() < deadline:
                    reader.newest()
                    time.sleep(0.02)
        finally:
            reader.stop()


def test_a_spool_gives_no_number_twice(tmp_path):
    spool = Spool(str(tmp_path))
    spool.add([("t", b"1", 1, 0, 0), ("t", b"2", 1, 0, 0)])
    spool.forget(3)
    spool.close()
    spool = Spool(str(tmp_path))
    assert spool.bounds() == (3, 3)
    spool.add([("t", b"3", 1, 0, 0)])
    assert [row[:3] for row in spool.take(1, 9)] == [(3, "t", b"3")]
