"""Servers of Spark on this machine, as docs/spark.md starts them: for the tests and for `masters.py`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PATIENCE = 600
"""Seconds after which a server will not come any more."""


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server; its address."""
    port = _free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 8,
        "spark.sql.session.timeZone": "UTC",
    }
    words = ["spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    words += ["--master", "local[2,4]", *(f"--conf={name}={value}" for name, value in settings.items())]
    with _started(folder, "connect", *words, "spark-internal") as server:
        _wait(server, port, folder / "connect.log")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core; the master's address."""
    port, page = _free_port(), _free_port()
    address = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        words = ["spark-class", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        master = stack.enter_context(_started(folder, "master", *words, "--webui-port", str(page)))
        _wait(master, port, folder / "master.log")
        for name in ("worker1", "worker2"):
            words = ["spark-class", f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
            words += ["--memory", "1g", "--work-dir", str(folder / name), "--webui-port", str(_free_port())]
            stack.enter_context(_started(folder, name, *words, address))
        yield address


@contextmanager
def _started(folder: Path, name: str, command: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    import pyspark

    home = Path(pyspark.__path__[0])
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [home / "bin" / command, *words], cwd=folder, env=environment, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(log.read_text()[-2000:]) from None
            time.sleep(0.1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
