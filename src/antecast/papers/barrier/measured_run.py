"""One run of the barrier paper's experiments, measured where it was made: the figures of its tables, and an audit.

The same figures as those of `measures`, without Spark and without keeping a log. The search for a radio and the
runs by the published rule want nothing else of their runs.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.history.audit import audit
from antecast.papers.barrier.experiment import NETWORKS, NO_LIFETIME, Radio, Rule, scenario
from antecast.papers.paper import seconds
from antecast.sim import run
from antecast.sim.scenario import make_scenario

Figures: TypeAlias = dict[str, float | None]
"""By the names of the paper's quantities, times in seconds; None where there is nothing to measure."""

OUT_OF_ORDER = "out of causal order"
"""Deliveries that come before one they depend on, as the auditor counts them."""

_MESSAGE = ["origin", "seq"]


def measured(
    network: str, lifetime: str, rule: Rule, contacts: str, presence: str | None, clocks: str = "0s"
) -> Figures:
    """Run one lifetime on one network by a rule for deadlines, measure and audit it."""
    known = {each.name: each for each in NETWORKS}[network]
    return measured_run(
        scenario(known, lifetime, contacts, presence, rule=rule, clocks=clocks), lifetime, audited=True
    )


def measured_run(values: dict[str, Any], lifetime: str, *, audited: bool) -> Figures:
    events = run(make_scenario({**values, "log": {"sample": "0s"}})).events
    found = figures(events, lifetime)
    if audited:
        found[OUT_OF_ORDER] = audit(events, clock="global").tally.early
    return found


def with_radio(values: dict[str, Any], radio: Radio) -> dict[str, Any]:
    """A scenario over another radio."""
    network = values["network"]
    topology = network["topology"] | {"setup": radio.setup}
    return values | {"network": network | {"topology": topology, "bandwidth": radio.bandwidth}}


def figures(events: pa.Table, lifetime: str) -> Figures:
    """What Tables II, III, V and VI say of a run."""
    pairs = _pairs(events)
    own = pairs["node"] == pairs["origin"]
    delay = pairs["received"] - pairs["broadcast"]
    limit = np.inf if lifetime == NO_LIFETIME else 1e9 * seconds(lifetime)
    received = ~own & (delay <= limit)  # NaN, which is not received, is not within it
    delivered = ~np.isnan(pairs["delivered"])
    expired = ~np.isnan(pairs["expired"]) & received & ~delivered
    sums = (int(np.count_nonzero(each)) for each in (own, received, delivered, expired))
    broadcasts, arrived, taken, lapsed = sums
    latency = pairs["delivered"] - pairs["received"]
    found: Figures = {
        "broadcast": broadcasts,
        "received": arrived,
        "co-delivered": taken,
        "co-delivery ratio": taken / (broadcasts + arrived) if broadcasts else None,
        "expired": lapsed,
        "expiry ratio": lapsed / arrived if arrived else None,
    }
    both = received & delivered
    times = {"tdelay": delay[received], "ltcy": latency[both], "codlvdelay": (delay + latency)[both]}
    for name, values in times.items():
        found |= {f"{name}, {measure}": value for measure, value in _spread(values / 1e9).items()}
    return found


def _pairs(events: pa.Table) -> dict[str, NDArray[np.float64]]:
    """Messages at nodes, with the times of their broadcast, first reception, delivery and expiry (NaN if none)."""
    rows = events.select(["node", "t", "kind", *_MESSAGE])
    rows = rows.set_column(2, "kind", pc.cast(rows["kind"], pa.string()))
    rows = rows.filter(pc.is_valid(rows["origin"]))
    first = rows.group_by(["node", *_MESSAGE, "kind"]).aggregate([("t", "min")])
    sent = first.filter(pc.equal(first["kind"], "broadcast")).select([*_MESSAGE, "t_min"])
    wide = sent.rename_columns([*_MESSAGE, "broadcast"])
    at_nodes = first.filter(pc.is_in(first["kind"], pa.array(["receive", "deliver", "expire"])))
    pairs = at_nodes.group_by(["node", *_MESSAGE]).aggregate([]).join(wide, _MESSAGE, join_type="inner")
    for kind, name in (("receive", "received"), ("deliver", "delivered"), ("expire", "expired")):
        times = first.filter(pc.equal(first["kind"], kind)).select(["node", *_MESSAGE, "t_min"])
        pairs = pairs.join(times.rename_columns(["node", *_MESSAGE, name]), ["node", *_MESSAGE])
    return {name: pairs[name].to_numpy().astype(np.float64) for name in pairs.column_names}


def _spread(values: NDArray[np.float64]) -> Figures:
    if not len(values):
        return dict.fromkeys(("min", "max", "avg", "stdev"))
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "avg": float(values.mean()),
        "stdev": float(values.std(ddof=1)) if len(values) > 1 else None,
    }
