"""Torture in one process, for volume: nodes with journals and links in memory, and crashes that cost milliseconds.

A crash at a fault point is a copy of the node's files, taken at that very point: it is what a killed process would
leave. The old node is cut off from everything, and a new one starts from the copy. What the old one still had in
memory is lost with it. The applications and the ledger are those of real processes.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from antecast.core.guarantees import Guarantee
from antecast.live import faults
from antecast.live.links.memory import MemoryLink
from antecast.live.pacing import Limits
from antecast.protocols.registry import specification
from antecast.torture.application import Application, TellingNode
from antecast.torture.damage import files_of
from antecast.torture.group import Plan, Stuck, keys_of
from antecast.torture.ledger import Ledger
from antecast.torture.member import security_of

_WRITES = ("commit", "snapshot", "acknowledge", "remember")


class _Record(Application):
    """An application that writes nothing any more once its node has crashed."""

    dead = False

    def _put(self, *lines: list[Any]) -> None:
        if not self.dead:
            super()._put(*lines)


class _Link(MemoryLink):
    """A link with fault points at the boundaries of frames."""

    life: MemoryLife

    def write(self, packets: list[bytes]) -> None:
        for packet in packets:
            self.life.passes("frame begin")
            if not self.life.over:
                super().write([packet])
                self.life.passes("frame sent")

    def _arrive(self) -> None:
        self.life.passes("frame arrived")
        if not self.life.over:
            super()._arrive()
            self.life.passes("frame taken")


class MemoryLife:
    """One life of a node."""

    def __init__(self, group: MemoryGroup, number: int, fatal: int | None) -> None:
        self.group, self.number, self.fatal = group, number, fatal
        self.passed = 0
        self.writing = threading.RLock()
        """Held during a write of the journal: a copy of the files shows one instant."""
        self.up = False
        self.over = False
        """Whether nothing it does counts any more."""
        self.dead = False
        """Whether what it leaves behind is complete."""
        self.failure: str | None = None
        self.point = ""
        self.journal = group.place(number)
        self.tasks: list[asyncio.Task[None]] = []
        plan = group.plan
        limits = Limits(snapshot_every=plan.snapshot_every, history=2 * plan.snapshot_every)
        self.node = TellingNode(
            number,
            plan.protocol,
            record=group.record(number),
            settings=plan.settings,
            members=plan.nodes,
            journal=self.journal,
            durability="normal",
            security=security_of(group.keys.get(number), plan.protocol),
            limits=limits,
        )
        self.application: _Record | None = None

    async def start(self) -> None:
        """Start from what the last life has left; may end at a fault point on the way."""
        try:
            with self.group.acting(self):
                await self.node.start()
        except SystemExit:
            return
        journal = self.node.engine.journal
        for name in _WRITES:
            setattr(journal, name, self._marked(getattr(journal, name)))
        self.application = _Record(self.node, self.group.record(self.number))
        for work in (self.application.speak(), self.application.listen()):
            task = asyncio.ensure_future(work)
            task.add_done_callback(self._ended)
            self.tasks.append(task)
        self.up = not self.over

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self.over:
            self.failure = repr(task.exception())

    def _marked(self, write: Callable[..., None]) -> Callable[..., None]:
        """A write of the journal during which fault points are this life's."""

        def marked(*values: Any, **named: Any) -> None:
            with self.writing, self.group.acting(self):
                write(*values, **named)

        return marked

    def passes(self, name: str) -> None:
        """At a fault point of the event loop's: nothing is raised, the life just ends."""
        if not self.over and self._counts():
            self._die(name)

    def writes(self, name: str) -> None:
        """At a fault point of the journal's."""
        if self.over or self._counts():
            if not self.over:
                self._die(name)
            raise SystemExit  # ends the journal's thread, and nobody reports it

    def _counts(self) -> bool:
        with self.group.lock:
            self.passed += 1
            return self.passed == self.fatal

    def _die(self, name: str) -> None:
        with self.writing:
            self.over, self.up, self.point = True, False, name
            if self.application is not None:
                self.application.dead = True
            self.group.keep(self)
            self.dead = True

    def abandon(self) -> None:
        """Cut the old node off; its links end at the other end too."""
        for task in self.tasks:
            task.cancel()
        engine = self.node._engine
        if engine is not None:
            engine.stopped = True
            for link in list(engine.links.values()):
                link.close("crashed")
            engine._writer._jobs.put(None)


class MemoryGroup:
    """Nodes in one process, each two linked."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.numbers = range(plan.nodes)
        self.lock = threading.Lock()
        self._acting = threading.local()
        self._copies = dict.fromkeys(self.numbers, 0)
        promises = specification(plan.protocol).guarantees
        self.ledger = Ledger(
            {number: self.record(number) for number in self.numbers},
            causal=Guarantee.CAUSAL in promises,
            fifo=Guarantee.FIFO in promises,
            may_give_up=bool(plan.settings),
        )
        self.lives: dict[int, MemoryLife] = {}
        self.deaths: list[str] = []
        for number in self.numbers:
            self.place(number).parent.mkdir(parents=True)
        self.keys = keys_of(plan)

    def record(self, number: int) -> Path:
        return self.plan.folder / f"record-{number}.jsonl"

    def place(self, number: int) -> Path:
        """The journal of the present life; each life has a folder of its own."""
        return self.plan.folder / f"{number}-{self._copies[number]}" / "node.journal"

    def keep(self, life: MemoryLife) -> None:
        """What a killed process would leave behind now."""
        old = self.place(life.number)
        self._copies[life.number] += 1
        new = self.place(life.number)
        new.parent.mkdir()
        for path in files_of(old):
            if not path.name.endswith("-shm"):
                shutil.copyfile(path, new.parent / path.name)
        self.deaths.append(life.point)

    # Fault points find out whose they are.

    def acting(self, life: MemoryLife) -> _Acting:
        return _Acting(self._acting, life)

    def point(self, name: str) -> None:
        life: MemoryLife | None = getattr(self._acting, "life", None)
        if life is not None:
            life.writes(name)

    # Lives.

    async def launch(self, number: int, fatal: int | None = None) -> None:
        life = self.lives[number] = MemoryLife(self, number, fatal)
        await life.start()
        for other in self.lives.values():
            if other is not life and life.up and other.up:
                self._connect(life, other)

    def _connect(self, a: MemoryLife, b: MemoryLife) -> None:
        one, two = _Link(a.node, b.number), _Link(b.node, a.number)
        one.other, two.other, one.life, two.life = two, one, a, b
        a.node.link_up(one)
        b.node.link_up(two)

    def cut(self, a: int, b: int) -> None:
        """Cut a link, which comes back at once as a new one."""
        one, two = self.lives[a], self.lives[b]
        if one.up and two.up:
            link = one.node.links.get(b)
            if link is not None:
                link.close("cut")
            self._connect(one, two)

    def broadcast(self, count: int) -> None:
        for life in self.lives.values():
            if life.up and life.application is not None:
                life.application.ask(count)

    async def kill(self, plan: dict[int, Sequence[int]]) -> None:
        """Kill nodes at points: the first counted from now, the others each from the start of a life."""
        left = {number: list(points) for number, points in plan.items()}
        for number in left:
            life = self.lives[number]
            life.passed, life.fatal = 0, left[number].pop(0)
        self.broadcast(2)
        for _ in range(20_000):
            for number, rest in left.items():
                life = self.lives[number]
                if life.dead:
                    life.abandon()
                    await self.launch(number, rest.pop(0) if rest else None)
            if not any(life.fatal is not None for life in self.lives.values()):
                return
            if not self._busy():
                self.broadcast(1)
            await asyncio.sleep(0.0005)
        raise Stuck("nodes in one process did not reach their points")

    def _busy(self) -> bool:
        self.ledger.read()
        return bool(self.ledger.speaking()) and not any(life.dead for life in self.lives.values())

    async def calm(self) -> bool:
        end = asyncio.get_running_loop().time() + self.plan.patience
        while asyncio.get_running_loop().time() < end:
            self.ledger.read()
            failed = [
                f"node {n} ended by itself: {life.failure}" for n, life in self.lives.items() if life.failure
            ]
            if failed or self.ledger.wrong:
                self.ledger.wrong += failed
                return False
            if not (self.ledger.speaking() or self.ledger.missing()):
                return True
            await asyncio.sleep(0.001)
        self.ledger.report_missing()
        return False

    async def close(self) -> None:
        for life in self.lives.values():
            life.over = True
            life.abandon()
        faults.armed = None


class _Acting:
    """While it lasts, fault points in this thread are those of one life."""

    def __init__(self, place: threading.local, life: MemoryLife) -> None:
        self._place, self._life = place, life

    def __enter__(self) -> None:
        self._before = getattr(self._place, "life", None)
        self._place.life = self._life

    def __exit__(self, *_: object) -> None:
        self._place.life = self._before
