"""The work that all peers do, and what they make of it.

Everything happens on a grid of minutes: contacts begin with a minute and end half a minute after one, messages are
broadcast a quarter past. So nothing depends on which of two events comes first within some seconds, and all who
model epidemic exchange must agree on whom a message reaches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

MINUTE = 60


class Contact(NamedTuple):
    """Two nodes in reach of each other; times in seconds."""

    start: int
    end: int
    a: int
    b: int


class Broadcast(NamedTuple):
    """A message; they are numbered in this order, and no node has two."""

    t: int
    node: int


@dataclass(frozen=True)
class Work:
    nodes: int
    minutes: int
    contacts: list[Contact]
    broadcasts: list[Broadcast]


@dataclass(frozen=True)
class Outcome:
    """What a simulator found, and its cost."""

    arrivals: dict[tuple[int, int], float]
    """When each message came to each node that it reached, its source aside, in seconds."""
    cpu: float
    """Seconds, with what it takes to start."""


@dataclass(frozen=True)
class Difference:
    """How two outcomes differ."""

    only_one: int
    """Messages at nodes that one of them has and the other does not."""
    latest: float
    """The largest difference between two times of arrival, in seconds."""


def make_work(*, nodes: int, contacts: int, messages: int, brief: bool = False, seed: int = 1) -> Work:
    """With `brief`, contacts take half a minute, a node has one at a time, and nobody broadcasts during one."""
    draw = random.Random(seed)
    minutes = 2 * MINUTE
    made: list[Contact] = []
    busy: dict[object, int] = {}
    for start in sorted(draw.randrange(minutes - 5) for _ in range(contacts)):
        a, b = sorted(draw.sample(range(nodes), 2))
        end = start if brief else start + draw.randrange(4)
        taken: list[object] = [a, b] if brief else [(a, b)]  # two nodes have one contact at a time, anyway
        if all(busy.get(each, -1) < start for each in taken):
            busy.update(dict.fromkeys(taken, end))
            made.append(Contact(MINUTE * start, MINUTE * end + MINUTE // 2, a, b))
    senders = draw.sample(range(nodes), messages)
    after = (3 if brief else 1) * MINUTE // 4
    sent = [Broadcast(MINUTE * k + after, node) for k, node in enumerate(senders)]
    return Work(nodes, minutes, made, sent)


def compare(one: Outcome, other: Outcome) -> Difference:
    both = one.arrivals.keys() & other.arrivals.keys()
    latest = max((abs(one.arrivals[each] - other.arrivals[each]) for each in both), default=0.0)
    return Difference(len(one.arrivals.keys() ^ other.arrivals.keys()), latest)
