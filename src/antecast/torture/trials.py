"""Trials: what is done to a group, and what must be true afterwards.

Every trial ends the same way: good weather, all members up, calm, and a look at the ledger. What a trial does is
drawn from a seed by `campaign`; when exactly the processes feel it is up to the machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from antecast.torture.damage import Copy, SmallDisk, damage
from antecast.torture.group import Group, Patience, Stuck
from antecast.torture.member import GONE_WRONG

WEATHER = ("delay", "reorder", "throttle", "half-open", "cut", "cut in a frame")
DEATH_SECONDS = 30.0


@dataclass
class Tally:
    """What was done, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    """Kills by the name of the fault point."""
    from_calm: set[int] = field(default_factory=set)
    """Points at which a member was killed, counted from a calm moment of its life."""
    from_birth: set[int] = field(default_factory=set)
    """Points counted from the start of a process that recovers."""
    refused: Counter[str] = field(default_factory=Counter)
    """Damaged journals, by what their node said."""
    wrong: list[str] = field(default_factory=list)


class Trials:
    """Hurts one group."""

    def __init__(self, group: Group, random: Random, disk: SmallDisk | None = None) -> None:
        self.group, self.random, self.disk = group, random, disk
        self.tally = Tally()
        self._traces = 0
        self._full = False
        """Whether the disk was full in this trial."""

    # Deaths.

    def trace(self, number: int) -> Path:
        self._traces += 1
        return self.group.plan.folder / f"trace-{number}-{self._traces}"

    def died(self, number: int, trace: Path) -> int | None:
        """Note how a life has ended; the point at which it was killed, if it was."""
        life = self.group.lives[number]
        life.bury()
        if life.process.exitcode != -signal.SIGKILL:
            reason = life.failure or f"exit code {life.process.exitcode}"
            self.tally.wrong.append(f"node {number} ended by itself: {reason}")
            return None
        last = trace.read_text(encoding="ascii").splitlines()[-1]
        trace.unlink()
        point, _, name = last.partition(" ")
        self.tally.points[name] += 1
        self.tally.faults["kill"] += 1
        return int(point)

    async def kill(self, plan: Mapping[int, Sequence[int | None]]) -> None:
        """Kill members at a point counted from now, then, as they recover, at points counted from their starts."""
        group = self.group
        left: dict[int, list[tuple[str, int]]] = {
            number: [("birth" if place else "calm", point) for place, point in enumerate(points) if point]
            for number, points in plan.items()
        }
        traces: dict[int, Path] = {}
        for number, stages in left.items():
            if stages and stages[0][0] == "calm":
                traces[number] = self.trace(number)
                group.lives[number].tell("arm", stages[0][1], traces[number])
            elif stages:
                await group.kill(number)
                traces[number] = self.trace(number)
                group.launch(number, point=stages[0][1], trace=traces[number])
        group.broadcast(2)
        patience, nudge = Patience(DEATH_SECONDS), time.monotonic() + 0.1
        while any(left.values()):
            group.hear()
            for number in [each for each, stages in left.items() if stages and group.lives[each].dead]:
                (kind, _), *rest = left[number]
                left[number] = rest
                reached = self.died(number, traces[number])
                if reached is not None:
                    (self.tally.from_calm if kind == "calm" else self.tally.from_birth).add(reached)
                if rest:
                    traces[number] = self.trace(number)
                    group.launch(number, point=rest[0][1], trace=traces[number])
                else:
                    group.launch(number)
            if time.monotonic() > nudge:
                nudge = time.monotonic() + 0.05
                group.broadcast(1, [each for each, life in group.lives.items() if life.port and not life.dead])
            if patience.is_over():
                late = {each: (*stages[0], group.lives[each].port) for each, stages in left.items() if stages}
                raise Stuck(f"nodes did not reach their points (kind, point, port): {late}")
            await asyncio.sleep(0.002)

    async def kill_at_stop(self, number: int, point: int) -> bool:
        """Kill a member while it stops cleanly; False if it stopped before it came to the point."""
        group = self.group
        trace = self.trace(number)
        life = group.lives[number]
        life.tell("arm", point, trace)
        life.tell("stop")
        if not await group.until(lambda: life.dead, 20.0):
            raise Stuck(f"node {number} does not stop")
        killed = life.process.exitcode == -signal.SIGKILL
        if killed:
            self.died(number, trace)
        else:
            life.bury()
            if life.process.exitcode != 0:
                reason = life.failure or f"exit code {life.process.exitcode}"
                self.tally.wrong.append(f"node {number} did not stop cleanly: {reason}")
        group.launch(number)
        return killed

    async def pause(self, number: int, seconds: float) -> None:
        """Stop a process as a whole and let it go on: time has passed that it did not see."""
        group = self.group
        self.tally.faults["stop and go"] += 1
        group.lives[number].kill(signal.SIGSTOP)
        group.broadcast(2, [each for each in group.numbers if each != number])
        await group.until(lambda: False, seconds)
        group.lives[number].kill(signal.SIGCONT)

    async def clock(self, number: int, step: int, *, restart: bool) -> None:
        """Set the time of day, back or forth, of a node that runs or between two lives."""
        self.tally.faults["clock step"] += 1
        if restart:
            await self.group.kill(number)
        self.group.set_clock(number, step)
        if restart:
            self.group.launch(number)
            await self.group.all_up()
        self.group.broadcast(2)

    # The network.

    async def weather(self, kind: str, *, hold: float = 0.0) -> None:
        """Bad weather on some roads, for a while or, with 0, until the end of the trial."""
        group, random = self.group, self.random
        self.tally.faults[kind] += 1
        roads = list(group.proxy.roads.values())
        some = random.sample(roads, random.randint(1, len(roads)))
        for road in some:
            if kind == "delay":
                road.weather.delay = random.uniform(0.005, 0.1)
            elif kind == "throttle":
                road.weather.rate = random.uniform(2_000, 50_000)
            elif kind == "half-open":
                road.weather.silent = True
            elif kind == "cut":
                road.cut()
            elif kind == "cut in a frame":
                road.cut(in_frame=True)
        if kind == "reorder":
            for place, road in enumerate(roads):
                road.weather.delay = (place % 3) * 0.05 + random.uniform(0, 0.02)
        group.broadcast(2)
        if hold:
            await group.until(lambda: False, hold)

    # Disks.

    async def full_disk(self, room: int) -> None:
        """No room for the journals: nodes say so and stop, and nothing of what they could not write has left."""
        group = self.group
        self._full = True
        if self.disk is not None and self.disk.mounted:
            self.disk.fill(room)
        else:
            for number, life in group.lives.items():
                life.tell("limit", group.journal(number).stat().st_size + room)
        end = time.monotonic() + 10.0
        while time.monotonic() < end and not any(life.dead for life in group.lives.values()):
            group.broadcast(4, [each for each, life in group.lives.items() if not life.dead])
            await group.until(lambda: False, 0.05)
        await group.until(lambda: False, 0.1)
        if self.disk is not None:
            self.disk.empty()
        for number, life in list(group.lives.items()):
            if life.dead:
                life.bury()
                self.tally.faults["full disk"] += 1
                if life.process.exitcode != GONE_WRONG:
                    self.tally.wrong.append(f"node {number} on a full disk: exit code {life.process.exitcode}")
                group.launch(number)
            elif self.disk is None or not self.disk.mounted:
                await group.kill(number)  # lifts its limit
                group.launch(number)

    async def damaged(self, number: int) -> None:
        """Damage the journal of a node between two lives. It is refused, or it makes no difference."""
        group = self.group
        await group.kill(number)
        path = group.journal(number)
        copy = Copy(path)
        done = damage(path, self.random)
        self.tally.faults["damaged journal"] += 1
        for road in group.proxy.of(number):  # nobody hears of it before it has read everything
            road.weather.closed = True
            road.cut()
        life = group.launch(number)
        if not await group.until(lambda: life.port is not None or life.dead, 20.0):
            self.tally.wrong.append(f"node {number} hangs with a damaged journal ({done})")
            await group.kill(number)
        else:
            await group.until(lambda: life.dead, 0.15)
        if life.dead:
            life.bury()
            failure = life.failure or ""
            if not failure.startswith("JournalError") or "\n" in failure:
                text = failure or f"exit code {life.process.exitcode}"
                self.tally.wrong.append(
                    f"node {number} did not refuse a damaged journal in words ({done}): {text}"
                )
            self.tally.refused[_in_short(failure)] += 1
            copy.restore()
            group.launch(number)
        else:
            self.tally.refused["(made no difference)"] += 1
        for road in group.proxy.of(number):
            road.weather.closed = False
        group.broadcast(1)

    # The end of each trial.

    def _start_again(self) -> bool:
        """Members that a full disk has ended a little later than others; whoever else has ended is wrong."""
        dead = [number for number, life in self.group.lives.items() if life.dead]
        for number in dead:
            life = self.group.lives[number]
            life.bury()
            if self._full and life.failure is not None and "disk is full" in life.failure:
                self.tally.faults["full disk"] += 1
                self.group.launch(number)
            else:
                reason = life.failure or f"exit code {life.process.exitcode}"
                self.tally.wrong.append(f"node {number} ended by itself: {reason}")
        return bool(dead) and not self.tally.wrong

    async def settle(self) -> bool:
        """Good weather, calm, and nothing wrong."""
        group = self.group
        group.proxy.clear()
        calm = False
        while not calm:
            await group.all_up()
            calm = await group.calm()
            if not calm and not self._start_again():
                break
        self._full = False
        if not calm and not self.tally.wrong:
            group.ledger.report_missing()
            if not group.ledger.wrong:
                self.tally.wrong.append(f"no calm: nodes {sorted(group.ledger.speaking())} still speak")
        self.tally.wrong += group.ledger.wrong
        group.ledger.wrong.clear()
        return not self.tally.wrong


def _in_short(text: str) -> str:
    """A refusal without the numbers and paths in it."""
    words = text.partition(".journal: ")[2] or text
    return "".join("N" if each.isdigit() else each for each in words).replace("NN", "N").replace("NN", "N")[:90]


def quiet_folder() -> Path | None:
    """Where files cost no disk writes, if there is such a place."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else None
