"""Links of compiled engines: those of `sim.links` without a bandwidth, and those of `sim.packet_links` that last.

A link is a row number: one direction between two nodes, up from the start to the end. What a frame meets on its
way is the same as there, draw for draw: processing, a queue per node or per link, a delay, a loss, and order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.core import ConfigurationError
from antecast.core.compiled import compiled, part
from antecast.core.settings import format_duration
from antecast.sim.compiled.draws import Model, Whole, child, delay, delay_model, mix
from antecast.sim.compiled.queue import Longs
from antecast.sim.scenario import Scenario
from antecast.sim.streams import stream_key

SENDER, TO, KIND, PORT, DRAWN, LOSSES, LAST, OWN = range(8)
"""Columns of `Links.of`: the two ends; the row of `Links.models`; what sends its frames; how often it has drawn
delays and losses; when the last frame arrives that was sent over it; a number for the use of the engine."""

_DELAY, _LOSS, _MESSAGE = range(3)
"""Columns of `Links.keys`: the streams of delays and losses, and what those for single messages come from."""

_PROCESSING, _TRANSMISSION, _FIFO, _COUPLED, PACKETS, LOST = range(6)
"""Places in `Links.rules`; the last but one says that links are those of a packet network, the last one counts the
frames lost."""

FAR: Final = 1 << 62
"""Later than the end of every run: what arrives then, or later, never does."""

LONGEST: Final = 1 << 53
"""Of all times that a scenario names: 104 days, in nanoseconds."""

_FIRST_INSTANCE: Final = 1
"""Links that last are the first between their ends."""


class Links(NamedTuple):
    of: Longs
    keys: NDArray[np.uint64]
    models: Model
    """Delays, a row for each kind of link."""
    losses: NDArray[np.uint64]
    """For each kind of link, the largest draw that means a loss; 0 for none."""
    free_at: Longs
    """When each port has sent what waits there: a node's port is its number, then come those of links."""
    rules: Longs


def make_links(scenario: Scenario, ends: Longs) -> Links:
    """The links between pairs of nodes (sender, receiver), each with the rules that the scenario has for it."""
    network, seed, count = scenario.network, scenario.seed, len(ends)
    of = np.zeros((count, 8), np.int64)
    of[:, [SENDER, TO]] = ends
    of[:, PORT] = ends[:, 0]
    if network.queue == "link" and network.transmission:
        of[:, PORT] = scenario.nodes + np.arange(count)
    models = [delay_model(network.delay)]
    losses = [network.loss]
    for index, special in enumerate(network.links):
        field = f"network.links[{index}].delay"
        models.append(models[0] if special.delay is None else delay_model(special.delay, field=field))
        losses.append(network.loss if special.loss is None else special.loss)
        for a, b in ((special.a, special.b), (special.b, special.a))[: 1 + special.both]:
            of[(ends[:, 0] == a) & (ends[:, 1] == b), KIND] = index + 1
    purposes = [np.uint64(stream_key(seed, purpose)) for purpose in ("delay", "loss", "delay of")]
    keys = np.zeros((count, 3), np.uint64)
    _name_streams(keys, of, np.array(purposes, np.uint64))
    transmission = -1 if network.transmission is None else int(network.transmission)
    return Links(
        of=of,
        keys=keys,
        models=np.array(models),
        losses=np.array([max(0, int(loss * 2**64) - 1) for loss in losses], np.uint64),
        free_at=np.zeros(scenario.nodes + count, np.int64),
        rules=np.array(
            [network.processing, transmission, network.fifo, network.delays == "message", network.packets, 0],
            np.int64,
        ),
    )


def check_links(scenario: Scenario, *, bandwidth: bool = False, faults: bool = False) -> None:
    """Refuse networks with links that there is no code for; some engines know bandwidth, and some know faults."""
    network = scenario.network
    if network.bandwidth is not None and not bandwidth:
        raise ConfigurationError("the compiled engine does not support bandwidth", field="network.bandwidth")
    if network.queue_limit is not None:
        raise ConfigurationError(
            "the compiled engine has queues without a limit; leave this out", field="network.queue_limit"
        )
    if network.notice is not None:
        raise ConfigurationError("the compiled engine has both ends notice a link at once", field="network.notice")
    if any(special.bandwidth is not None for special in network.links):
        raise ConfigurationError("the compiled engine does not support bandwidth", field="network.links")
    if scenario.faults and not faults:
        raise ConfigurationError("the compiled engine supports no faults", field="faults")
    for field in ("processing", "transmission"):
        if (getattr(network, field) or 0) > LONGEST:
            limit = format_duration(LONGEST)
            raise ConfigurationError(f"the compiled engine counts up to {limit}", field=f"network.{field}")
    delay_model(network.delay)
    for index, special in enumerate(network.links):
        if special.delay is not None:
            delay_model(special.delay, field=f"network.links[{index}].delay")
    for field in ("duration", "drain"):
        if getattr(scenario, field) > FAR // 4:
            limit = format_duration(FAR // 4)
            raise ConfigurationError(f"the compiled engine counts up to {limit}", field=field)


@compiled
def _name_streams(keys: NDArray[np.uint64], of: Longs, purposes: NDArray[np.uint64]) -> None:
    for link in range(len(keys)):
        for purpose in range(len(purposes)):
            key = child(child(purposes[purpose], of[link, SENDER]), of[link, TO])
            keys[link, purpose] = child(key, _FIRST_INSTANCE)


@part
def launch(links: Links, now: Whole, link: Whole, origin: Whole, seq: Whole) -> Whole:
    """Send a frame whose last message has this name; when it arrives, or -1 if it is lost."""
    row, rules = links.of[link], links.rules
    leaves = now + rules[_PROCESSING]
    if rules[_TRANSMISSION] >= 0:
        port = row[PORT]
        leaves = min(FAR, max(leaves, links.free_at[port]) + rules[_TRANSMISSION])
        links.free_at[port] = leaves
    model = links.models[row[KIND]]
    if rules[_COUPLED]:
        own = child(child(links.keys[link, _MESSAGE], origin), seq)
        arrives = leaves + delay(model, own, 1, now)
    else:
        row[DRAWN] += 1
        arrives = leaves + delay(model, links.keys[link, _DELAY], row[DRAWN], now)
    if links.losses[row[KIND]] > np.uint64(0):
        row[LOSSES] += 1
        if mix(links.keys[link, _LOSS], np.uint64(row[LOSSES])) <= links.losses[row[KIND]]:
            rules[LOST] += 1
            return np.int64(-1)
    arrives = min(arrives, FAR)
    if rules[_FIFO]:
        arrives = max(arrives, row[LAST])
        row[LAST] = arrives
    return arrives
