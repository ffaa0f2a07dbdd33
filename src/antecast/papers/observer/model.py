"""The simulation model of "Approximate causal observer" (section 5): traffic to observe, and the truth about it.

At each step one of n processes and the observer, chosen at random, moves its clock on by one tick, unless that
would take it more than ε ahead of another: then another is chosen. An ordinary process then sends a message
with a certain probability, to all others and to the observer. Each copy travels for a normal time,
drawn again where it is negative, and is lost where it exceeds δ. Several events may fall into one tick.

Where the paper leaves something open:

- "Send messages to other processes" is read as to all of them. One random receiver gives far fewer
  violations than the paper shows.
- The unit of delay. In the model it is a tick of the sender's clock, as guarantee G2 is stated; the delay is
  rounded up to whole ticks. With `delay_steps` it is so many steps of the simulation instead, of which a tick
  takes n + 1 on average, and a copy comes no later than δ on its sender's clock. Three steps bring the
  figures for physical clocks near the paper's; that is a fit, not evidence.

The truth comes from vector clocks that are kept beside the timestamps, and from nothing else. One pass of a
compiled loop makes the traffic; all draws are those of `streams`, so that a plain reading of the model with the
clocks of `antecast.observer` makes the very same traffic (a test holds them side by side).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from antecast.core.settings import Settings
from antecast.observer import BatchObserver, Bounds, Carried, Policy
from antecast.observer import Stamps as StampColumns
from antecast.observer.policy import Longs
from antecast.papers.observer.kernels import LOST, count_pairs, simulate
from antecast.sim.streams import normal_quantile, stream_key

_DRAWS = 1 << 53


class ObserverModel(Settings, frozen=True, kw_only=True):
    """What is simulated. `mean` and `stdev` are parts of δ: 1/2 and 1/4, or 1/4 and 1/8 in the paper."""

    epsilon: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 10
    """At least 1: with clocks that may not differ, none could move first."""
    delta: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 10
    nodes: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 10
    rate: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1
    """Messages that a process sends per tick, on average."""
    mean: Annotated[float, msgspec.Meta(ge=0)] = 0.5
    stdev: Annotated[float, msgspec.Meta(ge=0)] = 0.25
    messages: Annotated[int, msgspec.Meta(ge=1)] = 5_000
    seed: int = 1
    elements: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Elements of kn that processes keep and send. Default: all ε + 1."""
    delay_steps: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    """The unit of delay in steps. Default: a tick of the sender's clock."""

    def __post_init__(self) -> None:
        if self.mean > 1:
            raise ValueError(f"mean is a part of δ, so at most 1; got {self.mean}")

    @property
    def bounds(self) -> Bounds:
        return Bounds(epsilon=self.epsilon, delta=self.delta)

    @property
    def width(self) -> int:
        return self.epsilon + 1 if self.elements is None else min(self.elements, self.epsilon + 1)


@dataclass(frozen=True, eq=False)
class Traffic:
    """What reached the observer of the `messages` sent, in the order of arrival, and what each depends on."""

    model: ObserverModel
    number: Longs
    """Which message of the run it is, in the order of sending."""
    source: Longs
    seq: Longs
    """Counts the messages of a source, from 1."""
    r: Longs
    c: Longs
    kn: Longs
    counter: Longs
    """The counter of a hybrid logical clock; its l is r + c."""
    before: Longs
    arrived: Longs
    """The observer's clock when it came."""
    vector: Longs
    """How many messages of each source are in the past of a message, itself included."""

    def __len__(self) -> int:
        return len(self.r)

    def stamps(self, policy: Policy) -> StampColumns:
        """The timestamps that a policy asks for."""
        if policy.stamps == "physical":
            return StampColumns.make(self.r, self.source)
        kn = self.counter.reshape(-1, 1) if policy.stamps == "hybrid" else self.kn[:, : policy.width]
        return StampColumns(self.r, self.c, kn, self.before, self.source)


@dataclass(frozen=True, eq=False)
class Observation:
    """An order of delivery, as rows of the traffic, and how long the messages took."""

    order: Longs
    waited: Longs
    """Ticks at the observer, for each in this order."""
    delay: Longs
    """Ticks from r to delivery on the observer's clock, for each in this order."""


@dataclass(frozen=True)
class Violations:
    """Shares of the messages delivered."""

    backward: float
    """Delivered after a message that depends on them."""
    forward: float
    """Delivered before a message they depend on."""
    pairs: int
    """Pairs of messages in the wrong order."""

    @property
    def rate(self) -> float:
        """The paper's measure: the mean of both shares."""
        return (self.backward + self.forward) / 2


def generate(model: ObserverModel) -> Traffic:
    """Simulate."""
    out = simulate(
        model.nodes,
        model.epsilon,
        model.delta,
        model.rate,
        model.messages,
        model.width,
        delay_table(model),
        model.delay_steps is not None,
        np.array([stream_key(model.seed, each) for each in ("process", "send", "delay")], np.uint64),
    )
    source, seq, r, c, kn, counter, before, arrived, rank, vector = out
    here = np.flatnonzero(arrived != LOST)
    here = here[np.argsort(rank[here])]
    columns = (each[here] for each in (source, seq, r, c, kn, counter, before, arrived, vector))
    return Traffic(model, here, *columns)


def observe(traffic: Traffic, policy: Policy) -> Observation:
    """Let an observer with a clock of its own, awake at every tick, order the traffic."""
    observer = BatchObserver(policy=policy, clock="given", every_tick=True)
    done = observer.observe(Carried.nothing(policy), traffic.stamps(policy), readings=traffic.arrived, flush=True)
    delay = traffic.arrived[done.delivered] + done.waited - traffic.r[done.delivered]
    return Observation(done.delivered, done.waited, delay)


def judge(traffic: Traffic, order: Longs) -> Violations:
    """How far an order of delivery is from causal order, by the vector clocks."""
    source, seq, vector = traffic.source[order], traffic.seq[order], traffic.vector[order]
    places = np.arange(len(order))
    known = np.maximum.accumulate(vector, axis=0)
    backward = np.zeros(len(order), bool)
    backward[1:] = known[places[:-1], source[1:]] >= seq[1:]
    last = np.full((vector.shape[1], int(vector.max(initial=0)) + 1), -1)
    last[source, seq] = places
    last = np.maximum.accumulate(last, axis=1)
    after = last[np.arange(vector.shape[1]), vector]  # for each message and source, where the past ends
    forward = after.max(axis=1, initial=-1) > places
    return Violations(
        float(backward.mean()) if len(order) else 0.0,
        float(forward.mean()) if len(order) else 0.0,
        int(count_pairs(source, seq, vector, np.flatnonzero(forward))),
    )


def delay_table(model: ObserverModel) -> Longs:
    """Delays as a table of draws: entry k is the smallest draw whose delay is above k − 1 units.

    A draw below entry 0 is of a negative delay; one from the last entry on means that the message is lost.
    A unit is a tick, or a step with `delay_steps`; the bound of the table is δ in either.
    """
    scale = model.delay_steps or 1
    mean, stdev = model.mean * model.delta, model.stdev * model.delta

    def delay(draw: int) -> float:
        return mean + stdev * normal_quantile((draw + 0.5) / _DRAWS)

    def first(above: float, *, or_equal: bool) -> int:
        low, high = 0, _DRAWS
        while low < high:
            middle = (low + high) // 2
            value = delay(middle)
            if value > above or (or_equal and value >= above):
                high = middle
            else:
                low = middle + 1
        return low

    table = [first(0.0, or_equal=True)]
    table += [first(units / scale, or_equal=False) for units in range(model.delta * scale + 1)]
    return np.array(table, np.int64)
