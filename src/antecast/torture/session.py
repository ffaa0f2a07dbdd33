"""Sessions: a group of nodes, a series of trials on it, and an audit of its event logs at the end.

A session is drawn from (seed, protocol, kind, index) alone, so it can be run again, and a campaign can go on where
it was interrupted.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random
from typing import Any

from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live import faults
from antecast.torture.damage import SmallDisk
from antecast.torture.group import CALM_SECONDS, Group, Plan, Stuck
from antecast.torture.memory import MemoryGroup
from antecast.torture.trials import WEATHER, Tally, Trials, quiet_folder

ROUNDS = 12
"""Trials in a session."""
MEMORY_ROUNDS = 40
"""Trials in a session of nodes in one process."""
BIRTH_POINTS = 12
"""Fault points of a first life that are tried: journals are created in fewer."""
STOP_POINTS = 12
"""Fault points of a clean stop that are tried."""
SECOND = 10**9
STEPS = (-86_400 * SECOND, -3_600 * SECOND, -SECOND, SECOND, 3_600 * SECOND, 86_400 * SECOND)


@dataclass(frozen=True)
class Session:
    """What to do: its kind is `points`, `births`, `stops`, `faults` or `memory`."""

    protocol: str
    kind: str
    index: int
    seed: int
    nodes: int = 3
    points: int = 100
    """Fault points of a life, as they were counted."""
    control: str | None = None
    patience: float = CALM_SECONDS
    rounds: int = ROUNDS
    keys: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.protocol} {self.kind} {self.index}"

    def plan(self, folder: Path, *, events: bool = True) -> Plan:
        return Plan(
            self.protocol,
            folder,
            nodes=self.nodes,
            settings=self.settings,
            control=self.control,
            events=events,
            patience=self.patience,
            keys=self.keys,
        )


@dataclass
class Result:
    tally: Tally
    messages: int
    deliveries: int
    audit: str
    kept: Path | None = None
    """The folder of a session in which something was wrong."""


async def run_session(session: Session, context: ForkServerContext, keep: Path | None = None) -> Result:
    """Run a session in a folder of its own, which is removed if nothing was wrong."""
    if session.kind == "memory":
        return await _run_in_process(session, keep)
    folder = Path(tempfile.mkdtemp(prefix="antecast-torture-", dir=quiet_folder()))
    disk = SmallDisk(folder / "disk") if session.kind == "faults" else None
    plan = session.plan(folder)
    group = Group(plan, context)
    random = Random(f"{session.seed} {session.name}")
    trials = Trials(group, random, disk)
    tally, audit = trials.tally, "not made"
    try:
        try:
            await _KINDS[session.kind](session, trials)
        except Stuck as stuck:
            tally.wrong.append(str(stuck))
        if not tally.wrong:
            await group.stop()
            audit = _audit(folder, group, tally)
    finally:
        await group.close()
        kept = _keep(folder, keep, session) if tally.wrong else None
        if disk is not None:
            disk.close()
        shutil.rmtree(folder, ignore_errors=True)
    return Result(tally, len(group.ledger.accepted), group.ledger.deliveries, audit, kept)


async def _run_in_process(session: Session, keep: Path | None) -> Result:
    """The same, with nodes in this process: only kills and cuts, and many of them."""
    folder = Path(tempfile.mkdtemp(prefix="antecast-torture-", dir=quiet_folder()))
    group, tally, random = MemoryGroup(session.plan(folder)), Tally(), Random(f"{session.seed} {session.name}")
    faults.armed = group.point
    try:
        for number in group.numbers:
            await group.launch(number)
        for _ in range(MEMORY_ROUNDS):
            for _ in range(random.choice((0, 0, 1, 3))):
                group.cut(*random.sample(group.numbers, 2))
                tally.faults["cut in one process"] += 1
            some = random.sample(group.numbers, random.randint(1, session.nodes))
            await group.kill({number: _deaths(random, session.points) for number in some})
            if not await group.calm():
                break
    except Stuck as stuck:
        tally.wrong.append(str(stuck))
    finally:
        await group.close()
        tally.wrong += group.ledger.wrong
        tally.faults["kill in one process"] = len(group.deaths)
        tally.points.update(group.deaths)
        kept = _keep(folder, keep, session) if tally.wrong else None
        shutil.rmtree(folder, ignore_errors=True)
    return Result(tally, len(group.ledger.accepted), group.ledger.deliveries, "ledger only", kept)


def _keep(folder: Path, keep: Path | None, session: Session) -> Path | None:
    """Journals, records and logs, for whoever has to find out what happened."""
    if keep is None:
        return None
    place = keep / session.name.replace(" ", "-").replace(":", "-")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("*.sock", "ballast"))
    return place


def _audit(folder: Path, group: Group, tally: Tally) -> str:
    """The nodes' own event logs, judged by the auditor; they must tell the same story as the records."""
    for number, life in group.lives.items():
        if life.process.exitcode != 0:
            tally.wrong.append(f"node {number} did not stop cleanly: {life.failure or life.process.exitcode}")
    verdict = audit_log(open_log([folder / "events"], clock="local"))
    if verdict.outcome != "causal":
        tally.wrong.append(f"the audit of the event logs says {verdict}")
    elif verdict.tally.deliveries != group.ledger.deliveries:
        counts = f"{verdict.tally.deliveries} deliveries, the applications have {group.ledger.deliveries}"
        tally.wrong.append(f"the event logs have {counts}")
    return str(verdict.outcome)


# The kinds of sessions.


async def _begin(trials: Trials) -> None:
    await trials.group.start()
    trials.group.broadcast(2)
    await trials.settle()


async def _points(session: Session, trials: Trials) -> None:
    """Every point in turn, from a calm moment and from birth; each node has a share of them."""
    await _begin(trials)
    total, first = session.points, session.index * session.rounds
    for turn in range(first, min(first + session.rounds, -(-total // session.nodes))):
        places = [turn * session.nodes + number + 1 for number in trials.group.numbers]
        await trials.kill({number: (place, place) for number, place in enumerate(places)})
        if not await trials.settle():
            return


async def _births(session: Session, trials: Trials) -> None:
    """Killed in their first life, while their journals are made."""
    group = trials.group
    first = session.index * session.nodes + 1
    traces = {number: trials.trace(number) for number in group.numbers}
    await group.start({number: (first + number, traces[number]) for number in group.numbers})
    await group.until(lambda: all(life.dead or life.port is not None for life in group.lives.values()), 20.0)
    group.broadcast(1)
    while (
        not await group.calm()
    ):  # a point may be reached late, such as the meeting of a neighbour that died first
        dead = [number for number in traces if group.lives[number].dead]
        if not dead:
            break
        for number in dead:
            trials.died(number, traces.pop(number))
            group.launch(number)
        await group.all_up()
    trials.tally.from_birth.clear()
    group.broadcast(1)
    await trials.settle()


async def _stops(session: Session, trials: Trials) -> None:
    """Killed while they stop cleanly."""
    await _begin(trials)
    for point in range(1, STOP_POINTS + 1):
        number = (point + session.index) % session.nodes
        trials.group.broadcast(1)
        await trials.kill_at_stop(number, point)
        if not await trials.settle():
            return


async def _faults(session: Session, trials: Trials) -> None:
    """Whatever comes, several at a time."""
    await _begin(trials)
    for _ in range(session.rounds):
        await _any_trial(session, trials)
        if not await trials.settle():
            return


async def _any_trial(session: Session, trials: Trials) -> None:
    random, numbers = trials.random, list(trials.group.numbers)
    target, draw = random.choice(numbers), random.random()
    if draw < 0.55:
        for kind in random.sample(WEATHER, random.randint(0, 2)):
            await trials.weather(kind)
        some = random.sample(numbers, random.randint(1, len(numbers)))
        await trials.kill({each: _deaths(random, session.points) for each in some})
    elif draw < 0.7:
        for kind in random.sample(WEATHER, random.randint(1, 3)):
            await trials.weather(kind, hold=random.choice((0.02, 0.1, 1.0 if kind == "half-open" else 0.1)))
    elif draw < 0.78:
        await trials.pause(target, random.choice((0.05, 0.2, 1.0)))
    elif draw < 0.86:
        await trials.clock(target, random.choice(STEPS), restart=random.random() < 0.5)
    elif draw < 0.9:
        await trials.full_disk(random.choice((4096, 20_000, 100_000)))
    else:
        await trials.damaged(target)


def _deaths(random: Random, points: int) -> list[int]:
    """Where a member is killed: once while it runs, then up to five times in a row as it recovers."""
    again = random.choice((0, 1, 2, 5))
    return [random.randint(1, points), *(random.randint(1, random.choice((12, 40, points))) for _ in range(again))]


_KINDS: dict[str, Callable[[Session, Trials], Any]] = {
    "points": _points,
    "births": _births,
    "stops": _stops,
    "faults": _faults,
}


async def count_points(session: Session, context: ForkServerContext) -> int:
    """How many fault points a life passes, from its start to calm, with the work that trials give it."""
    folder = Path(tempfile.mkdtemp(prefix="antecast-torture-", dir=quiet_folder()))
    group = Group(session.plan(folder, events=False), context)
    most = 0
    try:
        await group.start()
        for number in group.numbers:
            group.broadcast(2)
            await group.calm()
            await group.kill(number)
            trace = folder / f"count-{number}"
            group.launch(number, trace=trace)
            await group.all_up()
            group.broadcast(2)
            await group.calm()
            await asyncio.sleep(0.05)
            most = max(most, trace.read_bytes().count(b"\n"))
    finally:
        await group.close()
        shutil.rmtree(folder, ignore_errors=True)
    return most
