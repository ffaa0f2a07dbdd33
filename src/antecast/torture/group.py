"""A group of members on loopback: starts them, kills them, starts them again, and waits for calm."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from antecast.core import AntecastError
from antecast.core.guarantees import Guarantee
from antecast.live.groups import new_group
from antecast.protocols.registry import specification
from antecast.torture.ledger import Ledger
from antecast.torture.member import Member, live
from antecast.torture.proxy import Proxy

START_SECONDS = 30.0
CALM_SECONDS = 30.0
LOOK = 0.01


class Stuck(AntecastError):
    """A process did not do within its time what it must; the text says what."""


class Life:
    """A running process, and the pipe to it. Its target is called with what to be and its end of the pipe."""

    def __init__(self, context: ForkServerContext, target: Callable[..., None], member: Any) -> None:
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=target, args=(member, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.port: int | None = None
        self.failure: str | None = None
        self.passed = 0
        self.answers = 0
        """How often it has said what was passed on."""
        self.asked = 0
        """Requests to broadcast that it has not confirmed."""

    def tell(self, *command: Any) -> None:
        try:
            self.pipe.send(command)
        except OSError:
            return  # it died meanwhile
        if command[0] == "broadcast":
            self.asked += command[1]

    def hear(self) -> None:
        """Take in what it has said."""
        try:
            while self.pipe.poll():
                word, value = self.pipe.recv()
                if word == "up":
                    self.port = value
                elif word == "failed":
                    self.failure = value
                elif word == "asked":
                    self.asked -= value
                elif word in ("passed", "stopped"):
                    self.passed = value
                    self.answers += 1
        except (EOFError, OSError):
            pass

    @property
    def dead(self) -> bool:
        return self.process.exitcode is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        pid = self.process.pid
        if pid is not None and not self.dead:
            os.kill(pid, number)

    def bury(self) -> None:
        self.process.join()
        self.hear()
        self.pipe.close()


class Patience:
    """Seconds to wait for processes, of which only those count in which this process was let run too.

    A machine with more work than cores makes everything wait. A node that waits for its turn is not stuck, and
    whoever watches it waits as well: each look counts at most `LOOK` seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left, self._clock = seconds, clock
        self._last = clock()

    def is_over(self) -> bool:
        """Asked several times in a hundredth of a second."""
        now = self._clock()
        self._left -= min(now - self._last, LOOK)
        self._last = now
        return self._left < 0


@dataclass(frozen=True)
class Plan:
    """How a group is set up."""

    protocol: str
    folder: Path
    nodes: int = 3
    settings: Mapping[str, object] | None = None
    control: str | None = None
    events: bool = True
    snapshot_every: int = 3000
    patience: float = CALM_SECONDS
    """Seconds after which what has not arrived is lost."""
    keys: bool = False
    """Whether the nodes have keys: TLS, signed messages, encrypted payloads."""


def keys_of(plan: Plan) -> dict[int, Path]:
    """The file of each node of a group with keys, made here; none without."""
    if not plan.keys:
        return {}
    authority = new_group(plan.folder / "torture.group", "torture", encrypt=True)
    files = {number: plan.folder / f"{number}.node" for number in range(plan.nodes)}
    for number, file in files.items():
        assert authority.invite(f"node-{number}", file).number == number
    return files


class Group:
    """Members 0 to n - 1, each two joined by a road on which the larger number dials."""

    def __init__(self, plan: Plan, context: ForkServerContext) -> None:
        self.plan, self._context = plan, context
        self.proxy = Proxy(secured=plan.keys)
        folder = plan.folder
        self.numbers = range(plan.nodes)
        (folder / "disk").mkdir(parents=True, exist_ok=True)
        promises = specification(plan.protocol).guarantees
        self.ledger = Ledger(
            {number: folder / f"record-{number}.jsonl" for number in self.numbers},
            causal=Guarantee.CAUSAL in promises,
            fifo=Guarantee.FIFO in promises,
            may_give_up=bool(plan.settings),
        )
        self.lives: dict[int, Life] = {}
        self._members: dict[int, Member] = {}

    async def start(self, armed: Mapping[int, tuple[int, Path]] | None = None) -> None:
        plan, keys = self.plan, keys_of(self.plan)
        for number in self.numbers:
            ports = [await self.proxy.open(number, other) for other in range(number)]
            self._members[number] = Member(
                number=number,
                protocol=plan.protocol,
                members=plan.nodes,
                journal=plan.folder / "disk" / f"node-{number}.journal",
                record=plan.folder / f"record-{number}.jsonl",
                events=plan.folder / "events" if plan.events else None,
                errors=plan.folder / f"errors-{number}.txt",
                peers=tuple(f"127.0.0.1:{port}" for port in ports),
                settings=dict(plan.settings or {}),
                keys=keys.get(number),
                control=plan.control,
                snapshot_every=plan.snapshot_every,
            )
        for number in self.numbers:
            point, trace = (armed or {}).get(number, (None, None))
            self.launch(number, point=point, trace=trace)
        await self.all_up(set(self.numbers) - set(armed or {}))

    def journal(self, number: int) -> Path:
        return self._members[number].journal

    # One member.

    def launch(self, number: int, *, point: int | None = None, trace: Path | None = None) -> Life:
        """Begin a life. It counts as up once it says where it listens."""
        self.proxy.ports.pop(number, None)
        member = replace(self._members[number], point=point, trace=trace)
        life = self.lives[number] = Life(self._context, live, member)
        return life

    def set_clock(self, number: int, step: int) -> None:
        """Set the time of day of a member's machine, for this life and those that follow."""
        member = self._members[number]
        self._members[number] = replace(member, shift=member.shift + step)
        self.lives[number].tell("clock", step)

    def hear(self) -> None:
        for number, life in self.lives.items():
            life.hear()
            if life.port is not None and not life.dead:
                self.proxy.ports[number] = life.port
            else:
                self.proxy.ports.pop(number, None)

    async def until(self, condition: Any, seconds: float) -> bool:
        """Wait for something; False if it does not happen in time."""
        patience = Patience(seconds)
        while True:
            self.hear()
            if condition():
                return True
            if patience.is_over():
                return False
            await asyncio.sleep(0.004)

    async def all_up(self, numbers: Any = None) -> None:
        wanted = self.numbers if numbers is None else numbers

        def done() -> bool:
            return all(self.lives[n].port is not None or self.lives[n].dead for n in wanted)

        if not await self.until(done, START_SECONDS):
            late = [n for n in wanted if self.lives[n].port is None]
            raise Stuck(f"nodes {late} did not start within {START_SECONDS:g} s")

    async def ended(self, number: int, seconds: float) -> bool:
        """Whether a life has ended, after waiting for it."""
        life = self.lives[number]
        if not await self.until(lambda: life.dead, seconds):
            return False
        life.bury()
        self.proxy.ports.pop(number, None)
        return True

    async def kill(self, number: int) -> None:
        self.lives[number].kill()
        await self.ended(number, START_SECONDS)

    # All of them.

    def broadcast(self, count: int, numbers: Any = None) -> None:
        for number in self.numbers if numbers is None else numbers:
            self.lives[number].tell("broadcast", count)

    async def calm(self) -> bool:
        """Wait until all that was said is heard everywhere. False if that does not come about, or one has died."""
        ledger = self.ledger

        def quiet() -> bool:
            if any(life.dead for life in self.lives.values()):
                return True
            if any(life.port is None or life.asked for life in self.lives.values()):
                return False
            ledger.read()
            return bool(ledger.wrong) or not (ledger.speaking() or ledger.missing())

        done = await self.until(quiet, self.plan.patience)
        self.ledger.read()
        return done and not any(life.dead for life in self.lives.values())

    async def stop(self) -> None:
        """Stop all members cleanly; those that do not stop are killed."""
        for life in self.lives.values():
            life.tell("stop")
        for number in self.lives:
            if not await self.ended(number, 10.0):
                await self.kill(number)
        self.ledger.read()

    async def close(self) -> None:
        for number, life in self.lives.items():
            if not life.dead:
                life.kill(signal.SIGCONT)
                await self.kill(number)
        self.proxy.close()
