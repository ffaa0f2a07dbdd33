"""Calls as a protocol gets them in a restless network, and journals that hold them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random

from antecast.core.settings import plain_settings
from antecast.live.calls import Call, CallKind
from antecast.live.entries import Durability, Identity
from antecast.live.journal import Journal
from antecast.live.machine import Machine
from antecast.protocols import specification
from antecast.testing import Bench

KINDS = {
    "broadcast": CallKind.BROADCAST,
    "receive": CallKind.RECEIVE,
    "link_up": CallKind.LINK_UP,
    "link_down": CallKind.LINK_DOWN,
    "timer": CallKind.TIMER,
}


def restless(name: str, seed: int, steps: int = 80, *, record: bool = False) -> Bench:
    """A network of four in which links come and go, with frames in flight."""
    random = Random(seed)
    bench = Bench(name, nodes=4, seed=seed, record=record, strict=False)
    for a, b in combinations(range(4), 2):
        bench.link(a, b)
    for _ in range(steps):
        a, b = random.sample(range(4), 2)
        step = random.random()
        if step < 0.3:
            bench.broadcast(a, bytes([random.randrange(256)]))
        elif step < 0.36:
            bench.link(a, b)
        elif step < 0.4:
            bench.unlink(a, b)
        elif step < 0.45:
            bench.pass_time(bench.now + random.randrange(10**9))
        else:
            bench.carry(a, b, most=random.randrange(1, 6))
    return bench


def restless_calls(name: str, seed: int) -> list[Call]:
    """The calls of node 0 in a restless network."""
    bench = restless(name, seed, record=True)
    calls = []
    for method, (*arguments, now), _ in bench.calls[0]:
        if method == "broadcast":
            calls.append(Call(KINDS[method], now, -1, arguments[0]))
        elif method == "receive":
            calls.append(Call(KINDS[method], now, arguments[1], bench.nodes[0].codec.encode(arguments[0])))
        elif method == "timer":
            calls.append(Call(KINDS[method], now, -1, arguments[0].encode()))
        else:
            calls.append(Call(KINDS[method], now, arguments[0]))
    return calls


def machine(name: str, number: int = 0) -> Machine:
    spec = specification(name)
    return Machine(spec, number, spec.fit(spec.configure({}), 4))


def identity(name: str = "vector", number: int = 0, **changes: object) -> Identity:
    spec = specification(name)
    settings = plain_settings(spec.fit(spec.configure({}), 4))
    values = {"number": number, "group": "", "protocol": name, "settings": settings, "role": "host", "code": "1"}
    return Identity(**values | changes)


def open_journal(path: Path, name: str = "vector", durability: str = "normal", **changes: object) -> Journal:
    return Journal.open(path, identity(name, **changes), Durability(durability))
