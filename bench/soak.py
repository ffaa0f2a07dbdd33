"""A group of processes under load for as long as you like: memory, journals and queues over time.

    python -m bench.soak [--minutes N] [--protocol NAME] [--rate N] [--keys]

Each member is a process with a journal of its own; together they do what a group meets in its life:

`steady`   two that broadcast, read and acknowledge
`keeper`   reads, and never acknowledges: its journal grows by the deliveries it has to keep, its memory must not
`flapper`  breaks one of its links every few seconds
`comer`    is killed and started again, over and over
`away`     took part once and never comes back; the others go on dialling it
`passing`  one after the other: joins under a new number, says something, leaves for good. Protocols other than
           `pc-broadcast` remember every source for ever, so with them this is growth by design

At the end stands for each member how its memory has changed from the second quarter of the time, when caches are
full, to the last one. Exit code 1 if that of a lasting member has grown by more than 10 % and 4 MB, or if a
message of theirs is missing anywhere.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from bench.table import report

LASTING = {0: "steady", 1: "steady", 2: "keeper", 3: "flapper", 4: "comer", 5: "away"}
SIZE = 100
CUT = 4 << 20
"""Bytes of calls between two snapshots, so that a soak of minutes sees many."""


# One member.


async def take_part(
    role: str, number: int, folder: Path, protocol: str, rate: float, keys: Path | None, end: float
) -> None:
    from antecast.live import Limits, Node
    from antecast.live.control import Control, socket_of
    from antecast.live.links.tcp import Tcp

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    security = None
    if keys is not None:
        from antecast.live.groups import GroupSecurity

        security = GroupSecurity.load(keys, protocol)
    journal = None if role == "passing" else folder / f"{number}.journal"
    place = folder / f"{number}.port"
    before = place.read_text() if place.exists() else "0"
    peers = [each.read_text() for each in folder.glob("?.port") if each != place and int(each.stem) < number]
    tcp = Tcp(listen=f"127.0.0.1:{before.rpartition(':')[2]}", peers=peers)
    limits = Limits(snapshot_every=CUT, history=CUT)
    node = Node(
        number, protocol, journal=journal, durability="normal", limits=limits, transports=[tcp], security=security
    )
    await node.start()
    if role != "passing":
        written = place.with_suffix(".new")
        written.write_text(str(tcp.listen))
        written.replace(place)

    counted = folder / f"{number}.counted"
    counts: dict[str, int] = json.loads(counted.read_text()) if counted.exists() else {"last": 0}
    """Of each source, the deliveries so far: the application's own state, kept in a file."""

    def save() -> None:
        fresh = counted.with_suffix(".new")
        fresh.write_text(json.dumps(counts))
        fresh.replace(counted)

    async def follow() -> None:
        async for each in node.deliveries(after=None if role == "keeper" else counts["last"]):
            if each.number > counts["last"]:
                counts["last"] = each.number
                origin = str(each.origin)
                counts[origin] = counts.get(origin, 0) + 1

    async def keep() -> None:
        while True:
            await asyncio.sleep(0.5)
            save()
            if role != "keeper":
                node.acknowledge(counts["last"])

    async def speak() -> None:
        for n in range(1 << 60):
            if time.time() > end or (role == "passing" and n == 5):
                return
            await node.broadcast(b"%0*d" % (SIZE, n))
            await asyncio.sleep(random.expovariate(rate))

    async def flap() -> None:
        while role == "flapper" and time.time() < end:
            await asyncio.sleep(5 * random.random())
            if node.links:
                random.choice(list(node.links.values())).close("the soak breaks it")

    async with Control(node, socket_of(folder / f"{number}.journal")):
        tasks = [loop.create_task(each()) for each in (follow, keep, flap)]
        await speak()
        if role == "passing":
            with suppress(Exception):
                async with asyncio.timeout(10):
                    await node.leave()
            ended.set()
        await ended.wait()
        await node.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        save()


# All of them.


class Soak:
    def __init__(
        self, folder: Path, protocol: str, rate: float, minutes: float, passing: float, *, keys: bool
    ) -> None:
        self.folder, self.protocol, self.rate, self.passing = folder, protocol, rate, passing
        self.began = time.time()
        self.end = self.began + 60 * minutes
        """Nothing is said after that."""
        self.members: dict[int, subprocess.Popen[bytes]] = {}
        self.samples: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
        """Seconds, MB of memory, MB of journal."""
        self.starts = self.passed = 0
        self.authority: Any = None
        if keys:
            from antecast.live.groups import new_group

            self.authority = new_group(folder / "soak.group", "soak")

    def start(self, role: str, number: int) -> None:
        command = [sys.executable, "-m", "bench.soak", "--role", role, "--number", str(number)]
        command += ["--folder", str(self.folder), "--protocol", self.protocol, "--rate", str(self.rate)]
        command += ["--end", str(self.end)]
        if self.authority is not None:
            file = self.folder / f"{number}.node"
            if not file.exists():
                self.authority.invite(f"n{number}", file)
            command += ["--file", str(file)]
        log = (self.folder / f"{number}.log").open("ab")
        self.members[number] = subprocess.Popen(command, stderr=log, cwd=Path(__file__).parents[1])
        self.starts += 1

    def sample(self, now: float) -> None:
        for number in LASTING:
            member = self.members.get(number)
            if member is None or member.poll() is not None:
                continue
            with suppress(OSError, StopIteration, ValueError):
                lines = Path(f"/proc/{member.pid}/status").read_text().splitlines()
                memory = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e3
                journal = sum(each.stat().st_size for each in self.folder.glob(f"{number}.journal*")) / 1e6
                self.samples[number].append((now - self.began, memory, journal))

    def run(self) -> None:
        for number, role in LASTING.items():
            self.start(role, number)
            time.sleep(2)
        while not self.heard(0).get("5"):
            time.sleep(0.5)
        self.members[5].kill()  # for good
        self.began = time.time()
        next_kill, next_passing, next_sample = (time.time() + each for each in (20.0, 5.0, 1.0))
        passing = 6
        while time.time() < self.end:
            time.sleep(0.2)
            now = time.time()
            if now > next_sample:
                self.sample(now)
                next_sample = now + max(1.0, (self.end - self.began) / 400)
            if now > next_kill:
                self.members[4].kill()
                self.members[4].wait()
                self.start("comer", 4)
                next_kill = now + 10 + 20 * random.random()
            if (
                self.passing
                and now > next_passing
                and (passing == 6 or self.members[passing - 1].poll() is not None)
            ):
                self.start("passing", passing)
                passing += 1
                next_passing = now + self.passing
        self.passed = passing - 6
        self.calm()

    def calm(self) -> None:
        """Wait until all that last have the same, then stop them."""
        until = time.time() + 600
        while time.time() < until:
            time.sleep(1)
            if len({json.dumps(self.heard(number), sort_keys=True) for number in range(5)}) == 1:
                break
        for member in self.members.values():
            if member.poll() is None:
                member.terminate()
        for member in self.members.values():
            member.wait(600)

    def heard(self, number: int) -> dict[str, int]:
        """How many messages a member has of each that lasts."""
        with suppress(OSError, ValueError):
            counts = json.loads((self.folder / f"{number}.counted").read_text())
            return {
                origin: count for origin, count in counts.items() if origin != "last" and int(origin) in LASTING
            }
        return {}


def growth(samples: list[tuple[float, float, float]], column: int) -> tuple[float, float]:
    """The median of the second quarter of the time, and of the last one."""
    last = samples[-1][0]
    second = [each[column] for each in samples if last / 4 <= each[0] < last / 2]
    fourth = [each[column] for each in samples if each[0] >= 3 * last / 4]
    return median(second), median(fourth)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--protocol", default="vector")
    parser.add_argument("--rate", type=float, default=40, help="messages per second and member")
    parser.add_argument("--keys", action="store_true", help="with TLS and signatures")
    parser.add_argument(
        "--passing",
        type=float,
        help="seconds between two of them; 0: nobody passes by. Default: 5 with pc-broadcast, else 0",
    )
    parser.add_argument("--keep", type=Path, help="keep the folder here")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role is not None:
        part = (given.role, given.number, given.folder, given.protocol, given.rate, given.file, given.end)
        asyncio.run(take_part(*part))
        return 0
    folder = given.keep or Path(tempfile.mkdtemp(prefix="bench-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    passing = given.passing if given.passing is not None else 5.0 * (given.protocol == "pc-broadcast")
    soak = Soak(folder, given.protocol, given.rate, given.minutes, passing, keys=given.keys)
    try:
        soak.run()
        heard = {number: soak.heard(number) for number in range(5)}
        rows, failed = [], False
        for number, samples in sorted(soak.samples.items()):
            if number == 5 or len(samples) < 8:
                continue
            memory, journal = growth(samples, 1), growth(samples, 2)
            grown = memory[1] > 1.1 * memory[0] and memory[1] > memory[0] + 4
            complete = heard[number] == heard[0] and len(heard[0]) == 6
            failed |= grown or not complete
            rows.append(
                {
                    "member": f"{number} {LASTING[number]}",
                    "memory, 2nd quarter, MB": memory[0],
                    "memory, 4th quarter, MB": memory[1],
                    "most, MB": max(each[1] for each in samples),
                    "journal, 2nd quarter, MB": journal[0],
                    "journal, 4th quarter, MB": journal[1],
                    "deliveries": sum(heard[number].values()),
                    "complete": "yes" if complete else "no",
                    "grows": "yes" if grown else "no",
                }
            )
        title = f"{given.protocol}: {given.minutes:g} minutes, {soak.starts} starts, {soak.passed} passed by"
        part = given.protocol + "_keys" * given.keys
        report("soak", title, rows, part=part, note="Goal: memory flat, every message everywhere.")
        return int(failed)
    finally:
        for member in soak.members.values():
            if member.poll() is None:
                member.kill()
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1] / "src"))
    sys.exit(main())
