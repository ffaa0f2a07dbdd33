"""Workloads for compiled engines: who broadcasts when, and who answers (`sim.workloads`).

The reference schedules the broadcasts of a sender one by one: the next when the last has been made. Between
events of one instant the order of scheduling decides, so the plan keeps these chains instead of a sorted list.
What is listed one by one (`at`, `trace`) is scheduled at the start, as chains of one. A chain that began with the
arrival of its node ends with an event at which nothing is broadcast.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import part
from antecast.sim.compiled.draws import Model, Whole, delay, delay_model, draws, mix
from antecast.sim.compiled.links import FAR
from antecast.sim.compiled.queue import Ints, Longs
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream, stream_key
from antecast.sim.workload_kinds import At, Chatter, Once, Periodic, Poisson, Trace
from antecast.sim.workloads import broadcast_times, origin_of, read_broadcasts

_Chain: TypeAlias = tuple[int, int, int | None, Iterable[int]]
"""A sender, the size of its payloads, the lifetime of its messages, and its times."""

IDLE = -1
"""Instead of the size of a payload: nothing is broadcast."""


class Plan(NamedTuple):
    """Broadcasts known before the run, each by its place in the plan."""

    at: Longs
    node: Ints
    payload: Ints
    lifetime: Longs
    """Of its message, or -1 for the protocol's own."""
    following: Ints
    """The broadcast that is scheduled when this one has been made; -1 for none."""
    first: Ints
    """Those that are scheduled at the start, in this order."""


class Chat(NamedTuple):
    """Answers to deliveries, a row for each workload of this kind."""

    start: Longs
    until: Longs
    payload: Longs
    lifetime: Longs
    below: NDArray[np.uint64]
    """A draw below this means an answer."""
    inside: NDArray[np.bool_]
    """Whether the answer comes from inside the delivery; otherwise after a delay."""
    models: Model
    senders: NDArray[np.bool_]
    """Whether a node answers; a column for each node."""
    keys: NDArray[np.uint64]
    drawn: Longs


def check_workload(scenario: Scenario, *, lifetimes: bool = False) -> None:
    """Refuse lifetimes, which the reference refuses, too, unless the protocol knows them."""
    for field, _ in () if lifetimes else scenario.lifetimes():
        raise ConfigurationError("the compiled engine supports no lifetimes", field=field)
    for index, workload in enumerate(scenario.workload):
        if isinstance(workload, Chatter) and workload.delay is not None:
            delay_model(workload.delay, field=f"workload[{index}].delay")


def plan_broadcasts(scenario: Scenario, left_out: Container[int] = ()) -> Plan:
    """All broadcasts up to the scenario's horizon, and the first after it of each chain, which is never made;
    without those of some workloads."""
    at: list[int] = []
    node: list[int] = []
    payload: list[int] = []
    lifetime: list[int] = []
    following: list[int] = []
    first: list[int] = []
    for sender, size, lives, times in _chains(scenario, left_out):
        before = -1
        for t in times:
            if before < 0:
                first.append(len(at))
            else:
                following[before] = len(at)
            before = len(at)
            at.append(min(t if t >= 0 else -t - 1, FAR))
            node.append(sender)
            payload.append(size if t >= 0 else IDLE)
            lifetime.append(-1 if lives is None else lives)
            following.append(-1)
            if at[-1] > scenario.horizon:
                break
    nodes, payloads, then, started = (np.array(column, np.int32) for column in (node, payload, following, first))
    return Plan(np.array(at, np.int64), nodes, payloads, np.array(lifetime, np.int64), then, started)


def _chains(scenario: Scenario, left_out: Container[int]) -> Iterator[_Chain]:
    on_arrival: list[Periodic] = []
    for index, workload in enumerate(scenario.workload):
        if index in left_out:
            continue
        match workload:
            case Periodic(after_arrival=int()):
                on_arrival.append(workload)
            case Periodic() | Poisson() | Once():
                until = scenario.duration if workload.until is None else workload.until
                for node in range(scenario.nodes) if workload.senders is None else workload.senders:
                    stream = Stream(scenario.seed, "workload", index, node)
                    yield node, workload.payload, workload.lifetime, broadcast_times(workload, until, stream)
            case At(broadcasts=broadcasts):
                yield from ((each.node, each.payload, each.lifetime, (each.t,)) for each in broadcasts)
            case Trace(file=file):
                rows = list(read_broadcasts(Path(file), scenario.nodes))
                origin = origin_of(scenario, [t for t, _, _ in rows])
                yield from ((node, payload, None, (t - origin,)) for t, node, payload in rows)
    for node in range(scenario.nodes):
        for workload in on_arrival:
            if workload.senders is None or node in workload.senders:
                yield node, workload.payload, workload.lifetime, _since_arrival(workload, scenario)


def _since_arrival(workload: Periodic, scenario: Scenario) -> Iterator[int]:
    """Of a node that is there from the start; the last time, at which nothing is broadcast, as -1 less the
    time."""
    assert workload.after_arrival is not None
    until = scenario.duration if workload.until is None else workload.until
    t = int(workload.after_arrival)
    while workload.start <= t < until:
        yield t
        t += max(1, workload.every)
    yield -t - 1


def make_chat(scenario: Scenario) -> Chat:
    chatters = [(i, each) for i, each in enumerate(scenario.workload) if isinstance(each, Chatter)]
    nodes, rows = scenario.nodes, len(chatters)
    senders = np.ones((rows, nodes), np.bool_)
    models = np.zeros((rows, 6))
    keys = np.zeros((rows, nodes), np.uint64)
    for row, (index, each) in enumerate(chatters):
        if each.senders is not None:
            senders[row] = False
            senders[row, each.senders] = True
        if each.delay is not None:
            models[row] = delay_model(each.delay)
        keys[row] = [stream_key(scenario.seed, "answer", index, node) for node in range(nodes)]
    return Chat(
        start=np.array([min(each.start, FAR) for _, each in chatters], np.int64),
        until=np.array(
            [scenario.duration if each.until is None else min(each.until, FAR) for _, each in chatters], np.int64
        ),
        payload=np.array([each.payload for _, each in chatters], np.int64),
        lifetime=np.array([-1 if each.lifetime is None else each.lifetime for _, each in chatters], np.int64),
        below=np.array([int(each.answers / max(1, nodes - 1) * 2**64) for _, each in chatters], np.uint64),
        inside=np.array([each.delay is None for _, each in chatters], np.bool_),
        models=models,
        senders=senders,
        keys=keys,
        drawn=np.zeros((rows, nodes), np.int64),
    )


@part
def answers(chat: Chat, row: Whole, node: Whole, now: Whole) -> bool:
    """Whether a node answers a delivery."""
    if not (chat.start[row] <= now <= chat.until[row] and chat.senders[row, node]):
        return False
    chat.drawn[row, node] += 1
    return bool(mix(np.uint64(chat.keys[row, node]), np.uint64(chat.drawn[row, node])) < chat.below[row])


@part
def thinking_time(chat: Chat, row: Whole, node: Whole, now: Whole) -> Whole:
    """How long it takes to answer."""
    if draws(chat.models[row]):
        chat.drawn[row, node] += 1
    return delay(chat.models[row], chat.keys[row, node], chat.drawn[row, node], now)
