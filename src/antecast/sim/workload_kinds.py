"""The kinds of workload that a scenario names: who broadcasts what, and when (`workloads` plays them)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from antecast.core.settings import Duration, FileName, Settings
from antecast.sim.delays import Delay, expand_delay
from antecast.sim.network import Node

LARGEST_PAYLOAD = 1 << 20

PayloadSize: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PAYLOAD)]


class _Workload(Settings, frozen=True, kw_only=True, tag_field="kind"):
    payload: PayloadSize = 64
    """Bytes of application data in a message."""
    lifetime: Duration | None = None
    """How long its messages may travel, instead of the protocol's own; only where it knows lifetimes."""
    senders: list[Node] | None = None
    """The nodes that broadcast. Default: all."""
    start: Duration = Duration(0)
    until: Duration | None = None
    """When it ends. Default: with the scenario's duration."""


class Periodic(_Workload, frozen=True, kw_only=True, tag="periodic"):
    """Every sender broadcasts at a fixed interval, from a random first time within it."""

    every: Duration
    stagger: bool = True
    """Without it all senders broadcast at the same instants."""
    after_arrival: Duration | None = None
    """Instead of both: the first broadcast comes this long after a node appears, each time it does."""

    def __post_init__(self) -> None:
        if not self.every:
            raise ValueError("every is 0s; expected some time between two broadcasts")


class Poisson(_Workload, frozen=True, kw_only=True, tag="poisson"):
    """Every sender broadcasts at random, with a mean rate."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    """Broadcasts per second and sender."""


class Once(_Workload, frozen=True, kw_only=True, tag="once"):
    """Every sender broadcasts once, at a random time after the start."""

    at: Delay


class Broadcast(Settings, frozen=True, kw_only=True):
    t: Duration
    node: Node
    payload: PayloadSize = 64
    lifetime: Duration | None = None


class At(Settings, frozen=True, kw_only=True, tag_field="kind", tag="at"):
    """The broadcasts listed."""

    broadcasts: list[Broadcast]


class Trace(Settings, frozen=True, kw_only=True, tag_field="kind", tag="trace"):
    """Broadcasts read from a CSV file with the columns t (seconds), node and, if wanted, payload."""

    file: FileName


class Chatter(_Workload, frozen=True, kw_only=True, tag="chatter"):
    """Nodes answer what they deliver, inside the delivery or after some time."""

    answers: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    """Mean number of answers that one message provokes, all receivers together. Below 1, so that a
    conversation ends."""
    delay: str | Delay | None = None
    """Time to think. Default: the answer is broadcast from inside the delivery."""

    def __post_init__(self) -> None:
        expand_delay(self, self.delay)


Workload: TypeAlias = Periodic | Poisson | Once | At | Trace | Chatter
