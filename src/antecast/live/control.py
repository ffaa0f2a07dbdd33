"""A running node's window: a Unix socket beside its journal, through which `antecast status` looks in."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from antecast.core import AntecastError
from antecast.live.node import Node

log = logging.getLogger("antecast.live")

MAX_STATUS = 16 << 20


class NotRunning(AntecastError):
    """No node answers."""


def socket_of(journal: Path) -> Path:
    journal = journal.resolve()  # whatever it is called, there is one window
    return journal.with_name(f"{journal.name}.sock")


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of at most 108 characters for a socket, whatever its folder is called."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class Control:
    """Answers each connection with the node's status as JSON, and closes it."""

    def __init__(self, node: Node, path: Path) -> None:
        self._node, self._path = node, path
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Control:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """The journal is locked, so a socket that is there belongs to a node that is gone. Where there can be
        none, on a file system without sockets for instance, the node does without."""
        listening: socket.socket | None = None
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            with suppress(FileNotFoundError):
                self._path.unlink()
            with _short(self._path) as name:
                listening.bind(name)
            self._path.chmod(0o600)
        except OSError as error:
            if listening is not None:
                listening.close()
            log.warning("%s: nobody can look into this node: %s", self._path, error.strerror or error)
            return
        self._server = await asyncio.start_unix_server(self._answer, sock=listening)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(json.dumps(self._node.status()).encode())
            await writer.drain()
        writer.close()

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                self._path.unlink()


def ask_status(journal: Path, timeout: float = 5.0) -> dict[str, Any]:
    """The status of the node that runs with a journal; raises `NotRunning`."""
    path = socket_of(journal)
    data = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, _short(path) as name:
            asking.settimeout(timeout)
            asking.connect(name)
            while (part := asking.recv(1 << 16)) and len(data) < MAX_STATUS:
                data += part
        status: dict[str, Any] = json.loads(data)
    except (TimeoutError, BlockingIOError):  # the latter if many have asked before
        raise NotRunning(f"{journal}: its node does not answer within {timeout:g} s") from None
    except OSError:
        raise NotRunning(f"{journal}: no node runs with this journal") from None
    except ValueError:
        raise NotRunning(f"{journal}: its node ended before it had answered") from None
    return status
