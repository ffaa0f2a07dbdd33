"""One node of an emulation, as an operating-system process.

It waits for the word to begin: starting a process takes longer than the timetable may allow.
Its clock counts emulated time: all processes agree on when it began, and on how much faster it runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from antecast.core import AntecastError
from antecast.live.links.options import TcpOptions
from antecast.live.links.tcp import Address, Tcp
from antecast.live.machine import Clock
from antecast.live.node import Node
from antecast.live.overlay.records import SprayOptions
from antecast.live.overlay.transport import Spray

OPTIONS = TcpOptions(retry_least=0.01, retry_most=0.2)


@dataclass(frozen=True)
class Part:
    """Which node a process plays."""

    number: int
    protocol: str
    members: int
    journal: Path
    errors: Path
    epoch: int
    """The time of day at which emulated time began, in nanoseconds."""
    speed: float
    settings: Mapping[str, object] = field(default_factory=dict)
    overlay: SprayOptions | None = None
    """How it chooses its neighbours, where it does."""


def play(part: Part, pipe: Connection) -> None:
    """The target of a node's process."""
    errors = os.open(part.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, sys.stderr.fileno())
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.recv()
    except EOFError:
        return
    asyncio.run(_play(part, pipe))


async def _play(part: Part, pipe: Connection) -> None:
    def emulated() -> int:
        return int((time.time_ns() - part.epoch) * part.speed)

    transport = Tcp(listen="127.0.0.1:0", options=OPTIONS)
    overlay = None if part.overlay is None else Spray(transport, options=part.overlay)
    node = Node(
        part.number,
        part.protocol,
        settings=part.settings,
        members=part.members,
        journal=part.journal,
        durability="normal",
        transports=[transport, *([] if overlay is None else [overlay])],
        clock=partial(Clock, elapsed=emulated, of_day=emulated, rate=part.speed),
    )
    try:
        await node.start()
        assert transport.listen is not None
        ended = asyncio.Event()
        actor = _Actor(node, transport, overlay, pipe, ended)
        asyncio.get_running_loop().add_reader(pipe.fileno(), actor.obey)
        pipe.send(("up", transport.listen.port))
        tasks = [asyncio.ensure_future(each) for each in (actor.speak(), actor.listen(), ended.wait())]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done:
            task.result()
        await node.stop()
        pipe.send(("stopped", actor.number))
    except AntecastError as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
        os._exit(3)


class _Actor:
    """Does as it is told, and counts what it was delivered."""

    def __init__(
        self, node: Node, transport: Tcp, overlay: Spray | None, pipe: Connection, ended: asyncio.Event
    ) -> None:
        self._node, self._transport, self._overlay, self._pipe, self._ended = node, transport, overlay, pipe, ended
        self._work: asyncio.Queue[int] = asyncio.Queue()
        self.number = 0
        """Of the last delivery."""

    def obey(self) -> None:
        try:
            verb, *values = self._pipe.recv()
        except EOFError:  # whoever started this process is gone
            os._exit(0)
        if verb == "broadcast":
            self._work.put_nowait(values[0])
        elif verb == "link":
            self._transport.dial(Address("127.0.0.1", values[1]))
        elif verb == "meet" and self._overlay is not None:
            self._overlay.add_contact(Address("127.0.0.1", values[0]))
        elif verb == "cut":
            peer, port = values
            self._transport.forget(Address("127.0.0.1", port))
            link = self._node.links.get(peer)
            if link is not None:
                link.close("cut by the timetable")
        elif verb == "count":
            self._pipe.send(("passed", self.number))
        elif verb == "stop":
            self._begin(self._stop())
        elif verb == "leave":
            self._begin(self._leave())

    async def _leave(self) -> None:
        try:
            await self._work.join()
            async with asyncio.timeout(5.0):
                await self._node.leave()
        except (AntecastError, TimeoutError):
            pass  # a protocol without goodbyes: its node just goes
        self._ended.set()

    async def _stop(self) -> None:
        await self._work.join()
        self._ended.set()

    def _begin(self, ending: Coroutine[Any, Any, None]) -> None:
        self._ending = asyncio.ensure_future(ending)

    async def speak(self) -> None:
        while True:
            size = await self._work.get()
            await self._node.broadcast(bytes(size))
            self._pipe.send(("asked", size))
            self._work.task_done()

    async def listen(self) -> None:
        async for each in self._node.deliveries():
            self.number = each.number
            if each.number % 64 == 0:
                self._node.acknowledge(each.number)
