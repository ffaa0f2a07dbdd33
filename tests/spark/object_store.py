"""An S3-compatible server on this machine, and a proxy in front of it that refuses what a test wants refused."""

from __future__ import annotations

import http.client
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server of its own."""
    pytest.importorskip("moto.server", reason="the S3 server of the tests is moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, env=os.environ | CREDENTIALS, **quiet)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                request(f"127.0.0.1:{port}", "GET", "/")
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, "the server does not start"
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def request(
    host: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, path, body, headers or {})
    return connection.getresponse()


@contextmanager
def proxy(address: str, status: int, code: str, rule: str) -> Iterator[str]:
    """The address of a proxy that answers some requests in the server's place, by one of the RULES.

    It is a process of its own: a client may hold the lock of this interpreter while it waits for an answer.
    """
    command = [sys.executable, __file__, address.removeprefix("http://"), str(status), code, rule]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def refused(address: str) -> int:
    """How many requests a proxy has refused."""
    return int(request(address.removeprefix("http://"), "GET", "/-refused").read())


RULES: dict[str, Callable[[int, str], bool]] = {
    # Long enough, now and then, to outlast what the client of S3 tries by itself.
    "now and then": lambda number, _: number % 40 in range(20, 27),
    "writes": lambda _, method: method in ("PUT", "POST"),
    "always": lambda _, __: True,
    # None is refused, but the answer takes longer than the 3 s that Arrow waits by default.
    "slowly": lambda _, __: bool(time.sleep(3.5)),
}


def serve(target: str, status: int, code: str, refuse: Callable[[int, str], bool]) -> None:
    numbers, count = itertools.count(), [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.body()
            if self.path == "/-refused":
                answer = 200, str(count[0]).encode(), {}
            elif refuse(next(numbers), self.command):
                count[0] += 1
                content = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
                answer = status, content, {"Content-Type": "application/xml"}
            else:
                own = ("transfer-encoding", "content-length", "expect")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
                passed = request(target, self.command, self.path, body, headers)
                answer = passed.status, passed.read(), dict(passed.getheaders())
            self.answer(*answer)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(pieces)

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], RULES[sys.argv[4]])
