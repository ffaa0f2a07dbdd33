"""A tortured node as an operating-system process.

Processes are forked from a server that has loaded everything already (`multiprocessing`'s forkserver), so a
restart takes milliseconds. Over its pipe a member says ("up", port), ("failed", text) or ("refused", text), and is
told what to do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from antecast.core import AntecastError
from antecast.live import faults
from antecast.live.groups import GroupSecurity
from antecast.live.links.options import TcpOptions
from antecast.live.links.tcp import Tcp
from antecast.live.machine import Clock
from antecast.live.node import Node
from antecast.live.pacing import Limits
from antecast.live.security import Security
from antecast.torture.application import Application, TellingNode
from antecast.torture.controls import CONTROLS

QUICK = TcpOptions(
    heartbeat=0.2, silence=0.8, greeting=1.0, proof=0.1, retry_least=0.01, retry_most=0.1
)  # fmt: skip
"""Impatient links: what is broken is noticed soon."""

GONE_WRONG = 3
"""The exit code of a member that could not go on and said why."""


@dataclass(frozen=True)
class Member:
    """One life of a node."""

    number: int
    protocol: str
    members: int
    journal: Path
    record: Path
    events: Path | None
    errors: Path
    peers: tuple[str, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    keys: Path | None = None
    point: int | None = None
    """The fault point at which it dies."""
    trace: Path | None = None
    """Where it writes the names of the points it passes."""
    shift: int = 0
    """Nanoseconds by which its time of day is wrong."""
    snapshot_every: int = 3000
    control: str | None = None
    """A rule that it breaks, to see that the ledger notices."""


class _DayClock:
    """The time of day of a machine whose clock is set now and then."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def __call__(self) -> int:
        return time.time_ns() + self.shift


def live(member: Member, pipe: Connection) -> None:
    """The life of a member; the target of its process."""
    errors = os.open(member.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(errors, sys.stderr.fileno())
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if member.point is not None or member.trace is not None:
        faults.armed = faults.Points(member.point, member.trace)
    if member.control is not None:
        CONTROLS[member.control]()
    asyncio.run(_live(member, pipe, _DayClock(member.shift)))


async def _live(member: Member, pipe: Connection, clock: _DayClock) -> None:
    transport = Tcp(listen="127.0.0.1:0", peers=member.peers, options=QUICK)
    node = TellingNode(
        member.number,
        member.protocol,
        record=member.record,
        settings=member.settings,
        members=member.members,
        journal=member.journal,
        durability="normal",
        transports=[transport],
        security=security_of(member.keys, member.protocol),
        events=member.events,
        limits=Limits(snapshot_every=member.snapshot_every, history=2 * member.snapshot_every),
        clock=partial(Clock, of_day=clock),
    )
    try:
        await node.start()
        assert transport.listen is not None
        application = Application(node, member.record)
        ended = asyncio.Event()
        _obey(pipe, application, clock, ended, node)
        pipe.send(("up", transport.listen.port))
        tasks = [asyncio.ensure_future(each) for each in (application.speak(), application.listen(), ended.wait())]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done:
            task.result()
        await node.stop()
        passed = faults.armed.passed if isinstance(faults.armed, faults.Points) else 0
        pipe.send(("stopped", passed))
    except AntecastError as error:
        pipe.send(("failed", f"{type(error).__name__}: {error}"))
        os._exit(GONE_WRONG)


def security_of(keys: Path | None, protocol: str) -> Security | None:
    return None if keys is None else GroupSecurity.load(keys, protocol)


def _obey(pipe: Connection, application: Application, clock: _DayClock, ended: asyncio.Event, node: Node) -> None:
    loop = asyncio.get_running_loop()

    def command() -> None:
        try:
            verb, *values = pipe.recv()
        except EOFError:  # whoever started this process is gone
            os._exit(0)
        if verb == "broadcast":
            application.ask(values[0])
            pipe.send(("asked", values[0]))
        elif verb == "arm":
            faults.armed = faults.Points(*values)
        elif verb == "clock":
            clock.shift += values[0]
        elif verb == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (values[0], resource.RLIM_INFINITY))
        elif verb == "passed":
            pipe.send(("passed", getattr(faults.armed, "passed", 0)))
        elif verb == "status":
            pipe.send(("status", _plain(node.status())))
        elif verb == "stop":
            ended.set()

    loop.add_reader(pipe.fileno(), command)


def _plain(status: dict[str, Any]) -> dict[str, Any]:
    return {name: status[name] for name in ("journal", "deliveries", "links", "counters")}
