"""Random executions that keep the two guarantees, and what an observer sees of them.

Clocks stay within ε of each other and reach exactly ε; a message arrives within δ on its sender's clock, exactly δ
included, or is lost. Everything else is as wild as it can be: any number of events in a tick, messages to some or
to all, local events. Vector clocks are kept beside the timestamps: they are the truth.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from antecast.observer import BoundedClock, Bounds, HybridClock, KnowledgeClock, Timestamp

MAKERS: dict[str, Callable[[Bounds], Any]] = {
    "bounded": BoundedClock,
    "hybrid": HybridClock,
    "cured": KnowledgeClock,
    "paper": lambda bounds: KnowledgeClock(bounds, rule="paper"),
}


@dataclass(eq=False)
class Sent:
    """One message, by all the clocks of its sender."""

    source: int
    seq: int
    r: int
    stamps: Mapping[str, Timestamp]
    vector: tuple[int, ...]
    travels: dict[int, int] = field(default_factory=dict)
    """To whom it is on its way, and the reading of its sender's clock at which it must be there."""

    def precedes(self, other: Sent) -> bool:
        return self is not other and other.vector[self.source] >= self.seq


@dataclass
class Execution:
    bounds: Bounds
    sent: list[Sent] = field(default_factory=list)
    seen: list[tuple[int, Sent | None, tuple[int, ...]]] = field(default_factory=list)
    """What the observer went through: its clock, what arrived (None: its clock moved), the clocks of all."""
    offsets: set[int] = field(default_factory=set)
    """rt − r of every receipt."""
    events: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How many events a process had at a reading of its clock."""

    @property
    def arrived(self) -> list[Sent]:
        return [each for _, each, _ in self.seen if each is not None]


def execute(
    draw: random.Random,
    bounds: Bounds,
    *,
    nodes: int = 4,
    steps: int = 200,
    makers: tuple[str, ...] = ("bounded", "hybrid"),
    corrupt: Callable[[int, list[dict[str, Any]], list[Sent]], None] | None = None,
) -> Execution:
    """Run; `corrupt` is called at each step with the clocks of all processes and the messages on their way."""
    run = Execution(bounds)
    observer = nodes
    clocks = [0] * (nodes + 1)
    stampers = [{name: MAKERS[name](bounds) for name in makers} for _ in range(nodes)]
    vectors = [[0] * nodes for _ in range(nodes)]
    moving: list[Sent] = []

    def arrive(message: Sent, node: int) -> None:
        del message.travels[node]
        run.offsets.add(clocks[node] - message.r)
        if node == observer:
            run.seen.append((clocks[observer], message, tuple(clocks)))
            return
        run.events[node, clocks[node]] += 1
        for name, stamper in stampers[node].items():
            stamper.receive(message.stamps[name], clocks[node])
        vectors[node][:] = map(max, vectors[node], message.vector)

    def tick(node: int) -> None:
        together = range(nodes + 1) if bounds.epsilon == 0 else [node]
        if bounds.epsilon and clocks[node] + 1 - min(clocks) > bounds.epsilon:
            return
        for message in moving:
            if message.source in together:
                for target in [
                    each for each, latest in message.travels.items() if latest <= clocks[message.source]
                ]:
                    arrive(message, target)
        for each in together:
            clocks[each] += 1
        if observer in together:
            run.seen.append((clocks[observer], None, tuple(clocks)))

    def send(node: int) -> None:
        run.events[node, clocks[node]] += 1
        vectors[node][node] += 1
        stamps = {name: stamper.send(clocks[node]) for name, stamper in stampers[node].items()}
        message = Sent(node, vectors[node][node], clocks[node], stamps, tuple(vectors[node]))
        run.sent.append(message)
        targets = [each for each in range(nodes + 1) if each != node and draw.random() < 0.8]
        message.travels.update(
            {each: clocks[node] + draw.choice([0, bounds.delta // 2, bounds.delta]) for each in targets}
        )
        moving.append(message)

    for step in range(steps):
        if corrupt is not None:
            corrupt(step, stampers, moving)
        what = draw.random()
        if what < 0.5:
            # Mostly one is pushed ahead as far as it goes: clocks at both ends of ε are the hard case.
            node = draw.choice([draw.randrange(nodes + 1), step // 20 % (nodes + 1)])
            tick(node)
        elif what < 0.65:
            send(draw.randrange(nodes))
        elif what < 0.7:
            node = draw.randrange(nodes)
            run.events[node, clocks[node]] += 1
            for stamper in stampers[node].values():
                stamper.local(clocks[node])
        elif moving:
            message = draw.choice(moving)
            if message.travels:
                arrive(message, draw.choice(sorted(message.travels)))
        moving = [each for each in moving if each.travels]
    while moving:  # the end: clocks go on until all is there
        for node in range(nodes + 1):
            tick(node)
        moving = [each for each in moving if each.travels]
    return run


def violations(order: list[Sent]) -> list[tuple[Sent, Sent]]:
    """Pairs delivered in the wrong order."""
    return [(late, early) for at, late in enumerate(order) for early in order[:at] if late.precedes(early)]
