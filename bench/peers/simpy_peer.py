"""The work in SimPy: a process for each contact, and one for each message under way."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import simpy

from bench.peers.ours import DELAY
from bench.peers.work import Broadcast, Contact, Outcome, Work


def simpy_epidemic(work: Work) -> Outcome:
    begun = time.process_time()
    environment = simpy.Environment()
    arrivals: dict[tuple[int, int], float] = {}
    held: list[set[int]] = [set() for _ in range(work.nodes)]
    near: list[dict[int, int]] = [{} for _ in range(work.nodes)]
    """For each node those it is in contact with, and the number of that contact."""

    def travel(message: int, a: int, b: int, contact: int) -> Generator[Any, Any, None]:
        yield environment.timeout(DELAY)
        if near[a].get(b) == contact and message not in held[b]:
            arrivals[message, b] = environment.now
            take(message, b)

    def take(message: int, node: int) -> None:
        held[node].add(message)
        for peer, contact in near[node].items():
            if message not in held[peer]:
                environment.process(travel(message, node, peer, contact))

    def meet(number: int, contact: Contact) -> Generator[Any, Any, None]:
        yield environment.timeout(contact.start)
        near[contact.a][contact.b] = near[contact.b][contact.a] = number
        for a, b in ((contact.a, contact.b), (contact.b, contact.a)):
            for message in sorted(held[a] - held[b]):
                environment.process(travel(message, a, b, number))
        yield environment.timeout(contact.end - contact.start)
        del near[contact.a][contact.b], near[contact.b][contact.a]

    def send(message: int, broadcast: Broadcast) -> Generator[Any, Any, None]:
        yield environment.timeout(broadcast.t)
        take(message, broadcast.node)

    for number, contact in enumerate(work.contacts):
        environment.process(meet(number, contact))
    for message, broadcast in enumerate(work.broadcasts):
        environment.process(send(message, broadcast))
    environment.run()
    return Outcome(arrivals, time.process_time() - begun)
