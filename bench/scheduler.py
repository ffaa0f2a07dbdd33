"""The scheduler against a bare `heapq` loop with a callback, and against SimPy's timeouts.

All three keep 64 chains of events going, each event scheduling the next of its chain. Rounds
alternate, so that a noisy machine disturbs all alike; the best round of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any

import simpy

from antecast.sim.scheduler import Scheduler
from bench.table import report

EVENTS = 500_000
CHAINS = 64
ROUNDS = 5


def bare() -> None:
    heap: list[tuple[int, int, Callable[[int], None], int]] = []
    number = count().__next__
    left = EVENTS

    def event(interval: int) -> None:
        nonlocal left
        if left:
            left -= 1
            heappush(heap, (now + interval, number(), event, interval))

    for chain in range(CHAINS):
        heappush(heap, (chain, number(), event, 100 + chain))
    while heap:
        now, _, callback, argument = heappop(heap)
        callback(argument)


def antecast() -> None:
    scheduler = Scheduler()
    at = scheduler.at
    left = EVENTS

    def event(interval: int) -> None:
        nonlocal left
        if left:
            left -= 1
            at(scheduler.now + interval, event, interval)

    for chain in range(CHAINS):
        at(chain, event, 100 + chain)
    scheduler.run(until=1 << 60)


def simpy_timeouts(chains: int = CHAINS) -> None:
    environment = simpy.Environment()
    left = EVENTS

    def chain(interval: int) -> Generator[Any, Any, None]:
        nonlocal left
        while left:
            left -= 1
            yield environment.timeout(interval)

    for number in range(chains):
        environment.process(chain(100 + number * 7919 % chains))
    environment.run()


def main() -> None:
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for contestant in (bare, antecast, simpy_timeouts):
            begin = time.process_time()
            contestant()
            rate = EVENTS / (time.process_time() - begin)
            best[contestant.__name__] = max(rate, best.get(contestant.__name__, 0.0))
    rows = [
        {"scheduler": name, "events per CPU second": rate, "against bare heapq": rate / best["bare"]}
        for name, rate in best.items()
    ]
    report("scheduler", "Scheduling events", rows, note="Goal: antecast at least 0.8 of the bare loop.")


if __name__ == "__main__":
    main()
