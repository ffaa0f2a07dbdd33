"""Brokers in trouble, and options that cannot be right: one line, soon, that names the server or the option."""

import importlib.util
import socket
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from antecast.core.errors import AntecastError
from antecast.spark.sources.kafka import KafkaSource
from antecast.spark.sources.mqtt import MqttSource
from antecast.spark.sources.nats import NatsSource

sys.path.insert(0, str(Path(__file__).parent))
from brokers import kafka_broker, mqtt_broker, nats_server

POSITIONED = StructType([StructField("position", LongType()), StructField("value", StringType())])


def reader_of(source, **options):
    made = source({name.replace("__", ".").lower(): str(value) for name, value in options.items()})
    return made.streamReader(made.schema())


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (NatsSource, {}, "antecast.nats: stream: this option is required, such as .option('stream', 'ORDERS')"),
        (
            NatsSource,
            {"stream": "X", "maxRowsPerTriger": 1},
            "unknown option 'maxrowspertriger'; did you mean 'maxR",
        ),
        (NatsSource, {"stream": "X", "startingOffsets": "now"}, "expected earliest, latest or a sequence number"),
        (NatsSource, {"stream": "X", "startingOffsets": "0"}, "a sequence number, which begin at 1, got '0'"),
        (
            KafkaSource,
            {"subscribe": " , ", "kafka__bootstrap__servers": "127.0.0.1:1"},
            "antecast.kafka: subscribe: this option is required",
        ),
        (
            MqttSource,
            {"topics": "a/#/b", "clientId": "c", "spool": "spool", "port": "1"},
            "antecast.mqtt: topics: expected topics such as sensors/+/heat or sensors/#, got 'a/#/b'",
        ),
        (
            NatsSource,
            {"stream": "X", "servers": "nats://127.0.0.1:1"},
            "nats://127.0.0.1:1: stream X: cannot connect",
        ),
        (KafkaSource, {"subscribe": "t"}, "antecast.kafka: kafka.bootstrap.servers: this option is required"),
        (
            KafkaSource,
            {"subscribe": "t", "kafka__bootstrap__servers": "127.0.0.1:1", "timeout": "2s"},
            "Connect to ipv4#127.0.0.1:1 failed: Connection refused",
        ),
        (MqttSource, {"topics": "t", "clientId": "c"}, "antecast.mqtt: spool: this option is required"),
        (
            MqttSource,
            {"topics": "t", "clientId": "c", "spool": "spool", "port": "1"},
            "antecast.mqtt: 127.0.0.1:1: [Errno 111] Connection refused",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, source, options, said):
    pytest.importorskip({NatsSource: "nats", KafkaSource: "confluent_kafka", MqttSource: "paho.mqtt"}[source])
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    with pytest.raises(AntecastError) as error:
        reader_of(source, **options).initialOffset()
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["position"], {}, "antecast.nats: no column 'value'; the columns are position"),
        (["value"], {}, "antecast.nats: orderBy: no column 'position'; the columns are value"),
        (["position", "value", "headers"], {}, "antecast.nats: the column 'headers' is map<string,bigint>, which"),
        (["position", "value"], {"subject": ""}, "antecast.nats: subject: expected one subject"),
        (
            ["position", "value"],
            {"subject": "a.*"},
            "antecast.nats: subject: expected one subject, without wildcards",
        ),
    ],
)
def test_output_that_cannot_be_written_is_refused_before_it_starts(columns, options, said):
    kinds = {"position": LongType(), "headers": MapType(StringType(), LongType())}
    schema = StructType([StructField(name, kinds.get(name, StringType())) for name in columns])
    with pytest.raises(AntecastError, match=said):
        NatsSource({"subject": "s", **options}).streamWriter(schema, False)


def test_a_partition_of_output_is_one_that_can_be_looked_up():
    """−1 let librdkafka choose one for each row, and a micro-batch that ran again was written twice."""
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "partition": "-1"}
    with pytest.raises(AntecastError, match="partition: expected a whole number from 0 on, got '-1'"):
        KafkaSource(options).streamWriter(POSITIONED, False)


@contextmanager
def silent():
    """Something that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        yield server.getsockname()[1]


def test_a_server_of_nats_in_trouble_is_told_in_plain_words(tmp_path):
    pytest.importorskip("nats")

    def said(what, **options):
        with pytest.raises(AntecastError) as error:
            what(NatsSource(options | {"timeout": "1s"}))
        assert "\n" not in str(error.value) and options["servers"] in str(error.value)
        return str(error.value)

    def read(source):
        return source.streamReader(source.schema()).initialOffset()

    def write(source):
        writer = source.streamWriter(POSITIONED, False)
        return writer.publish(0, [])

    with silent() as port:
        assert said(read, servers=f"nats://127.0.0.1:{port}", stream="X").endswith("stream X: no answer in 1 s")
    with nats_server(tmp_path / "kept") as address:
        assert said(read, servers=address, stream="X").endswith("stream X: stream not found")
        words = "subject s: no stream of the server keeps this subject; make one"
        assert said(write, servers=address, subject="s").endswith(words)
    with nats_server(None) as address:
        words = "the server keeps no streams: JetStream is not turned on there"
        assert said(read, servers=address, stream="X").endswith(words)


def test_a_sequence_number_to_start_from_that_is_not_there_yet_is_told(tmp_path):
    """It was said to be the checkpoint's, and the stream to be another one."""
    import asyncio

    import nats

    async def make(address):
        client = await nats.connect(address)
        await client.jetstream().add_stream(name="X", subjects=["x"])
        await client.close()

    with nats_server(tmp_path) as address:
        asyncio.run(make(address))
        reader = reader_of(NatsSource, servers=address, stream="X", startingOffsets=7)
        with pytest.raises(AntecastError, match="stream X: startingOffsets is 7, and the next message will be 1"):
            reader.initialOffset()


@pytest.mark.parametrize(
    ("source", "module", "options", "said"),
    [
        (NatsSource, "nats", {"stream": "X"}, r"the package nats-py is missing; pip install .antecast\[nats\]"),
        (
            KafkaSource,
            "confluent_kafka",
            {"subscribe": "t", "kafka__bootstrap__servers": "127.0.0.1:1"},
            r"the package confluent-kafka is missing; pip install .antecast\[kafka\]",
        ),
        (
            MqttSource,
            "paho.mqtt.client",
            {"topics": "t", "clientId": "c", "spool": "spool"},
            r"the package paho-mqtt is missing; pip install .antecast\[mqtt\]",
        ),
    ],
)
def test_a_client_that_is_not_installed_is_named(tmp_path, monkeypatch, source, module, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(AntecastError, match=said):
        reader_of(source, **options).initialOffset()


def test_credentials_of_nats_need_a_package_that_is_named(tmp_path):
    if importlib.util.find_spec("nkeys") is not None:
        pytest.skip("nkeys is installed")
    (tmp_path / "user.creds").write_text("")
    options = {"servers": "nats://127.0.0.1:1", "stream": "X", "credentials": tmp_path / "user.creds"}
    with pytest.raises(AntecastError, match=r"the package nkeys is missing; pip install .antecast\[nats\]"):
        reader_of(NatsSource, **options).initialOffset()


def test_what_kafka_refuses_is_told_in_its_words():
    """They came as the inside of an object of the client, and without the reason."""
    with kafka_broker() as address:
        options = {"kafka__bootstrap__servers": address, "subscribe": "t", "timeout": "2s"}
        with pytest.raises(AntecastError) as error:
            reader_of(KafkaSource, **options, kafka__nonsense="1").initialOffset()
        assert str(error.value) == f'antecast.kafka: {address}: No such configuration property: "nonsense"'
        with pytest.raises(
            AntecastError, match=r"Failed to get metadata: .*: ssl://127.*(handshake|Disconnected)"
        ):
            reader_of(KafkaSource, **options, kafka__security__protocol="SSL").initialOffset()


def test_a_spool_belongs_to_one_query(tmp_path):
    """What the other had done with was gone before this one had read it."""
    with mqtt_broker() as (port, _):
        options = {"port": port, "topics": "t/#", "spool": tmp_path / "spool", "timeout": "300ms"}
        first = reader_of(MqttSource, **options, clientId="one")
        assert first.initialOffset() == {"number": 1}
        second = reader_of(MqttSource, **options, clientId="two")
        with pytest.raises(
            AntecastError, match="spool: another query uses this spool; give each query a spool and"
        ):
            second.initialOffset()
        first.stop()
        assert second.initialOffset() == {"number": 1}
        second.stop()
        nobody = reader_of(MqttSource, **options | {"port": 1}, clientId="one")
        for _ in range(2):  # and one that could not begin does not keep it
            with pytest.raises(AntecastError, match="Connection refused"):
                nobody.initialOffset()


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_partitions_take_turns_where_there_are_fewer_rows_than_partitions(rows):
    """The first ones are never empty; each of the others is read all the same."""
    reader = reader_of(KafkaSource, subscribe="t", kafka__bootstrap__servers="127.0.0.1:1", maxRowsPerTrigger=rows)
    numbers = [str(each) for each in range(6)]
    start = {"t": dict.fromkeys(numbers, 0)}
    end = {"t": dict.fromkeys(numbers, 3)}
    for _ in range(40):
        for busy in numbers[:rows]:
            end["t"][busy] = start["t"][busy] + 50
        taken = reader.limited(start, end, rows)
        assert [*taken["t"]] == numbers
        assert sum(taken["t"].values()) - sum(start["t"].values()) == rows
        start = taken
    assert all(start["t"][each] == 3 for each in numbers[rows:])
