"""`emulate`: a scenario in, processes on loopback, two runs to compare out."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core import AntecastError, ConfigurationError, OutputError
from antecast.emulation.introductions import Introductions
from antecast.emulation.process import Part, play
from antecast.emulation.timetable import Delivered, Step, Timetable, deliveries_of, make_timetable
from antecast.history.log_audit import audit_log
from antecast.history.log_files import Log, open_log
from antecast.history.verdict import Verdict
from antecast.live.overlay.records import SprayOptions
from antecast.live.replay import write_event_log
from antecast.protocols.registry import address
from antecast.sim.scenario import Scenario
from antecast.sim.topology import Spray
from antecast.torture.group import Life, Patience
from antecast.torture.nursery import nursery

MOST_NODES = 200
"""Processes that one machine is asked to run."""
START_SECONDS = 60.0
STOP_SECONDS = 20.0
LOOK = 0.05
"""Seconds between two looks at what was delivered."""
QUIET_SECONDS = 3.0, 10.0
"""Nothing was delivered anywhere for so long: the emulation is over. The scenario's `drain`, in real time, but at
least the first and at most the second."""

Show = Callable[[float, str], None]


class Failed(AntecastError):
    """A node's process could not go on; the text says why."""


@dataclass(frozen=True)
class Emulation:
    """Both runs of a scenario."""

    timetable: Timetable
    folder: Path
    log: Log
    verdict: Verdict
    """On the emulated run."""
    delivered: frozenset[Delivered]
    speed: float
    lateness: float
    """How late the latest step was taken, in real seconds."""
    seconds: float

    @property
    def simulated(self) -> Verdict:
        verdict = self.timetable.simulated.judge().verdict
        assert verdict is not None
        return verdict

    def comparison(self) -> dict[str, Any]:
        """The two runs side by side, ready for JSON."""
        ours, theirs = self.delivered, self.timetable.delivered
        return {
            "scenario": self.timetable.scenario.name,
            "protocol": self.timetable.scenario.specification.name,
            "nodes": self.timetable.nodes,
            "speed": self.speed,
            "seconds": round(self.seconds, 3),
            "lateness": round(self.lateness, 3),
            "steps": len(self.timetable.steps),
            "verdict": {"simulator": self.simulated.outcome, "emulation": self.verdict.outcome},
            "messages": {"simulator": self.simulated.messages, "emulation": self.verdict.messages},
            "deliveries": {
                "simulator": len(theirs),
                "emulation": len(ours),
                "both": len(ours & theirs),
                "only_simulator": len(theirs - ours),
                "only_emulation": len(ours - theirs),
            },
            "same_verdict": self.simulated.outcome == self.verdict.outcome,
            "same_deliveries": ours == theirs,
        }


def emulate(scenario: Scenario, folder: Path, *, speed: float = 60.0, show: Show | None = None) -> Emulation:
    """Run a scenario on processes; the folder gets the journals and event logs of the nodes."""
    if scenario.total_nodes > MOST_NODES:
        problem = f"{scenario.total_nodes} processes are too many for one machine; at most {MOST_NODES}"
        raise ConfigurationError(problem, field="nodes")
    mark = folder / "emulation.json"
    theirs = [name for name in ("journals", "events") if (folder / name).exists()]
    if theirs and not mark.exists():
        problem = f"{folder / theirs[0]} is not of an emulation, and is not overwritten; name another folder"
        raise ConfigurationError(problem, field="--out")
    timetable = make_timetable(scenario)
    for name in ("journals", "events"):
        shutil.rmtree(folder / name, ignore_errors=True)
        try:
            (folder / name).mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}", path=folder) from error
    mark.write_text(
        "{}\n", encoding="utf-8"
    )  # from here on the folder is an emulation's, even if it is interrupted
    stage = _Stage(timetable, folder, speed, nursery(), show or (lambda share, state: None))
    begun = time.monotonic()
    asyncio.run(stage.run())
    seconds = time.monotonic() - begun
    for journal in sorted((folder / "journals").glob("node-*.journal")):
        write_event_log(journal, folder / "events" / f"{journal.stem}.parquet")
    log = open_log([folder / "events"])
    delivered = deliveries_of(pa.concat_tables(pq.read_table(file.path) for file in log.files))
    return Emulation(timetable, folder, log, audit_log(log), delivered, speed, stage.lateness, seconds)


class _Stage:
    """The processes of an emulation, and the timetable carried out."""

    def __init__(
        self, timetable: Timetable, folder: Path, speed: float, context: ForkServerContext, show: Show
    ) -> None:
        self._timetable, self._folder, self._speed = timetable, folder, speed
        self._context, self._show = context, show
        self._standing_by: dict[int, Life] = {}
        """Processes that wait for the word to begin."""
        self._lives: dict[int, Life] = {}
        self._links: set[tuple[int, int]] = set()
        self._wanted: set[tuple[int, int]] = set()
        """Links that wait until the process of an end listens."""
        self._overlay = _overlay_of(timetable.scenario, speed)
        self._introductions = Introductions()
        self._lives_left = Counter(timetable.present)
        self._lives_left.update(step.node for step in timetable.steps if step.kind in ("join", "recover"))
        self._epoch = 0
        self.lateness = 0.0
        self._counts: dict[int, int] = {}

    async def run(self) -> None:
        timetable = self._timetable
        try:
            self._epoch = time.time_ns()
            for number in sorted(self._lives_left):
                self._stand_by(number)
            for number in sorted(timetable.present):
                self._launch(number)
            await self._up(timetable.present)
            for pair in timetable.links:
                self._link(*pair)
            await asyncio.sleep(0.2 + 0.002 * len(timetable.links))
            if self._overlay is not None:
                await asyncio.sleep(min(10.0, max(1.0, 4 * self._overlay.every)))  # views fill
            start = time.monotonic()
            for place, step in enumerate(timetable.steps):
                due = start + step.t / 1e9 / self._speed
                while (wait := due - time.monotonic()) > 0:
                    self._hear()
                    await asyncio.sleep(min(wait, 0.005))
                self.lateness = max(self.lateness, time.monotonic() - due)
                await self._take(step)
                if place % 20 == 0:
                    self._show(0.9 * place / len(timetable.steps), f"{step.t / 1e9:.0f} s emulated")
            await self._up([number for number, life in self._lives.items() if not life.dead])
            await self._quiet()
            await self._stop()
        finally:
            for life in (*self._lives.values(), *self._standing_by.values()):
                if not life.dead:
                    life.kill(signal.SIGKILL)
                    life.bury()

    # Processes.

    def _launch(self, number: int) -> None:
        life = self._lives[number] = self._standing_by.pop(number)
        life.tell("begin")
        if self._overlay is not None:
            self._introductions.begun(life)

    def _stand_by(self, number: int) -> None:
        """Start a process for the next life of a node, if it has one."""
        if not self._lives_left[number]:
            return
        self._lives_left[number] -= 1
        scenario = self._timetable.scenario
        part = Part(
            number=number,
            protocol=address(scenario.specification),
            members=scenario.nodes,
            journal=self._folder / "journals" / f"node-{number}.journal",
            errors=self._folder / "journals" / f"errors-{number}.txt",
            epoch=self._epoch,
            speed=self._speed,
            settings={name: value for name, value in scenario.protocol.items() if name != "name"},
            overlay=self._overlay,
        )
        self._standing_by[number] = Life(self._context, play, part)

    def _hear(self) -> None:
        """Take in what processes have said, and make the links that waited for it."""
        for life in self._lives.values():
            life.hear()
        for pair in list(self._wanted):
            self._link(*pair)
        self._introductions.make()

    async def _up(self, numbers: Any) -> None:
        patience, waiting = Patience(START_SECONDS), set(numbers)
        while waiting:
            self._hear()
            for number in list(waiting):
                life = self._lives[number]
                if life.port is not None:
                    waiting.discard(number)
                elif life.dead:
                    raise Failed(f"node {number} did not start: {life.failure or life.process.exitcode}")
            if patience.is_over():
                raise Failed(f"nodes {sorted(waiting)} did not start within {START_SECONDS:g} s")
            await asyncio.sleep(0.002)

    async def _take(self, step: Step) -> None:
        node, life = step.node, self._lives.get(step.node)
        if step.kind == "link":
            self._link(node, step.other)
        elif step.kind == "cut":
            self._cut(node, step.other)
        elif step.kind in ("join", "recover"):
            self._launch(node)
        elif life is None or life.dead:
            return
        elif step.kind == "broadcast":
            life.tell("broadcast", step.other)
        elif step.kind == "crash":
            await self._spoken(life)
            life.kill(signal.SIGKILL)
            life.bury()
            self._cut_off(node)
            self._stand_by(node)
        elif step.kind == "leave":
            life.tell("leave")

    def _link(self, a: int, b: int) -> None:
        """The larger number dials."""
        low, high = min(a, b), max(a, b)
        there, dials = self._lives.get(low), self._lives.get(high)
        self._wanted.discard((low, high))
        if there is None or dials is None or there.dead or dials.dead:
            return
        if there.port is None or dials.port is None:
            self._wanted.add((low, high))
            return
        self._links.add((low, high))
        dials.tell("link", low, there.port)

    def _cut(self, a: int, b: int) -> None:
        low, high = min(a, b), max(a, b)
        self._wanted.discard((low, high))
        if (low, high) in self._links:
            self._links.discard((low, high))
            if not self._lives[high].dead:
                self._lives[high].tell("cut", low, self._lives[low].port)

    def _cut_off(self, node: int) -> None:
        for pair in [pair for pair in self._links if node in pair]:
            self._cut(*pair)

    async def _spoken(self, life: Life) -> None:
        """A broadcast that was made before a crash is in the journal by then, as in the simulator."""
        patience = Patience(5.0)
        while life.asked and not life.dead and not patience.is_over():
            self._hear()
            await asyncio.sleep(0.001)

    # The end.

    async def _quiet(self) -> None:
        """Wait until all is delivered that the simulator has, or nothing more comes."""
        least, most = QUIET_SECONDS
        silence = min(most, max(least, self._timetable.scenario.drain / 1e9 / self._speed))
        last, quiet = -1, 0.0
        wanted = len(self._timetable.delivered)
        while quiet < (0.2 if last == wanted else silence):
            now = await self._count()
            quiet = quiet + LOOK if now == last else 0.0
            last = now
            self._show(0.9, f"{now} of {wanted} deliveries")
            await asyncio.sleep(LOOK)

    async def _count(self) -> int:
        """Ask all nodes for their deliveries, and wait for the answers: a busy machine may keep nodes silent."""
        asked = {number: life.answers for number, life in self._lives.items() if not life.dead}
        for number in asked:
            self._lives[number].tell("count")
        patience = Patience(START_SECONDS)
        while asked:
            self._hear()
            for number, before in list(asked.items()):
                life = self._lives[number]
                if life.failure is not None:
                    raise Failed(f"node {number} failed: {life.failure}")
                if life.answers > before or life.dead:
                    self._counts[number] = life.passed
                    del asked[number]
            if patience.is_over():
                raise Failed(f"nodes {sorted(asked)} did not answer within {START_SECONDS:g} s")
            await asyncio.sleep(0.002)
        return sum(self._counts.values())

    async def _stop(self) -> None:
        running = [life for life in self._lives.values() if not life.dead]
        for life in running:
            life.tell("stop")
        patience = Patience(STOP_SECONDS)
        while not all(life.dead for life in running) and not patience.is_over():
            await asyncio.sleep(0.01)


def _overlay_of(scenario: Scenario, speed: float) -> SprayOptions | None:
    """How nodes choose their neighbours, in real seconds; None where the timetable has the links."""
    topology = scenario.network.topology
    if not isinstance(topology, Spray):
        return None
    assert topology.every
    every = topology.every / 1e9 / speed
    return SprayOptions(
        every=every, patience=max(1.0, topology.patience / 1e9 / speed), linger=min(1.0, every / 4)
    )
