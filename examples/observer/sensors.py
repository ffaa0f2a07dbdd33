"""Sensors that follow an object through a field, and a log of what they tell each other.

    python examples/observer/sensors.py sightings.jsonl
    antecast observe sightings.jsonl ordered --checkpoint state --stamps hybrid --epsilon 20ms --delta 300ms \\
        --arrival line

Eight sensors, tasks of one asyncio program, each with a clock that is off by up to 10 ms. The one that sees the
object tells the others; one of those who hear of it sees it next, and tells in turn. Copies of all messages go to
a log, by paths of their own: effects overtake their causes there. Every message carries the timestamp of a hybrid
logical clock, which is all that `antecast observe` needs to put the log into causal order.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import IO, Any

import msgspec

from antecast.observer import Bounds, HybridClock, Timestamp

BOUNDS = Bounds(epsilon=20, delta=300)  # ticks are milliseconds
SENSORS = 8
SIGHTINGS = 60
LONGEST = 0.08
"""Seconds that a message takes at most; the rest of δ is for a busy machine."""


class Sensor:
    def __init__(self, name: str, offset: int, field: Field) -> None:
        self.name = name
        self.offset = offset
        self.field = field
        self.clock = HybridClock(BOUNDS)
        self.seen = 0

    def now(self) -> int:
        """This sensor's own idea of the time."""
        return time.time_ns() // 10**6 + self.offset

    def tell(self, because: str | None) -> None:
        """Send a sighting to all other sensors, and a copy to the log."""
        self.seen += 1
        sighting = {
            "source": self.name,
            "id": f"{self.name}:{self.seen}",
            "because": because,
            **msgspec.to_builtins(self.clock.send(self.now())),
        }
        self.field.spread(sighting, self)

    async def hear(self, sighting: dict[str, Any]) -> None:
        self.clock.receive(msgspec.convert(sighting, Timestamp), self.now())  # takes the fields it knows
        if self.field.next_to(sighting) is self:
            await asyncio.sleep(random.uniform(0, 0.01))
            self.tell(sighting["id"])


class Field:
    """Carries messages, each copy with a delay of its own."""

    def __init__(self, log: IO[str]) -> None:
        self.log = log
        self.lines = 0
        self.told = 0
        self.on_their_way: set[asyncio.Task[None]] = set()
        self.sensors = [Sensor(f"s{n}", random.randint(-10, 10), self) for n in range(SENSORS)]

    def next_to(self, sighting: dict[str, Any]) -> Sensor | None:
        """Who sees the object next, or None when it has left the field."""
        if self.told >= SIGHTINGS:
            return None
        others = [each for each in self.sensors if each.name != sighting["source"]]
        return random.Random(sighting["id"]).choice(others)

    def spread(self, sighting: dict[str, Any], sender: Sensor) -> None:
        self.told += 1
        for sensor in self.sensors:
            if sensor is not sender:
                self._start(self._carry(sighting, sensor))
        self._start(self._write(sighting))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.on_their_way.add(task)
        task.add_done_callback(self.on_their_way.discard)

    async def _carry(self, sighting: dict[str, Any], to: Sensor) -> None:
        await asyncio.sleep(random.uniform(0, LONGEST / 4))
        await to.hear(sighting)

    async def _write(self, sighting: dict[str, Any]) -> None:
        await asyncio.sleep(random.uniform(0, LONGEST))
        self.lines += 1
        self.log.write(json.dumps({**sighting, "line": self.lines}) + "\n")


async def main(path: Path) -> None:
    random.seed(7)
    with path.open("w", encoding="utf-8") as log:
        field = Field(log)
        for sensor in field.sensors[:2]:  # two objects enter
            sensor.tell(None)
        while field.on_their_way:
            await asyncio.wait(set(field.on_their_way))
    print(f"{field.lines} sightings in {path}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
