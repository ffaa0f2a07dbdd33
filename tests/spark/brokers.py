"""Brokers for the tests: a NATS server and an MQTT broker on loopback, and librdkafka's mock of Kafka."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")


@contextmanager
def nats_server(folder: Path | None) -> Iterator[str]:
    """A NATS server with JetStream, unless there is no folder for it: its address."""
    command = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if command is None or importlib.util.find_spec("nats") is None:
        pytest.skip("needs nats-py and nats-server")
    port = free_port()
    words = [command, "-a", "127.0.0.1", "-p", str(port)]
    words += [] if folder is None else ["-js", "-sd", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def kafka_broker() -> Iterator[str]:
    """The mock broker of librdkafka: its address."""
    client = pytest.importorskip("confluent_kafka")
    producer = client.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    brokers = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    del producer


@contextmanager
def mqtt_broker() -> Iterator[tuple[int, bool]]:
    """An MQTT broker: its port, and whether it keeps messages for clients that are away, as MQTT demands."""
    pytest.importorskip("paho.mqtt")
    with mosquitto() as port:
        if port is not None:
            yield port, True
            return
    with amqtt_broker() as port:
        yield port, False


@contextmanager
def mosquitto() -> Iterator[int | None]:
    """A mosquitto server: its port; None where it is not installed."""
    command = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if command is None:
        yield None
        return
    port = free_port()
    process = subprocess.Popen([command, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def amqtt_broker() -> Iterator[int]:
    """An MQTT broker in a thread of this process: its port."""
    amqtt = pytest.importorskip("amqtt.broker")
    port, loop = free_port(), asyncio.new_event_loop()
    settings: dict[str, Any] = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }
    started: list[Any] = []

    async def serve() -> None:
        started.append(amqtt.Broker(settings))
        await started[0].start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(serve(), loop).result(20)
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(started[0].shutdown(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
