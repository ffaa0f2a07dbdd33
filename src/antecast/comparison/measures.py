"""What a comparison needs to know about a run beyond its row in `runs`: from the run's log, as plain values.

Memory is what the protocols' own gauges say, in two sums for each node and sample. *Messages* are those a node
keeps: waiting for their turn, stored to pass on or to repair, buffered for a link or a host; one that waits and
is stored counts for both. *Entries* are numbers: of clocks, barriers, known sources, received out of turn, known
hosts. The table of what was received in order, N counters at most, is no gauge and not counted. The largest sum
is that of the whole run; means are over the time in which applications broadcast, since some protocols run
longer than others.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from hashlib import blake2b
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.audit import audit
from antecast.history.measure import measure as measure_log
from antecast.history.metrics import gauges

CURVE_STEPS = 200
"""Points of a latency curve: every half per cent of the deliveries that could have been made."""

_MOST_COMPARISONS = 2 * 10**9
"""Pairs are counted up to this size, which takes seconds; beyond, it could take hours."""


def measure(
    events: pa.Table, samples: pa.Table, *, applications: int, until: int, units: Mapping[str, str]
) -> dict[str, Any]:
    """The numbers of one run, in which applications broadcast `until` some time.

    Nodes from `applications` on are stations, which deliver nothing. `units` says what each of the protocol's
    gauges counts (`Specification.gauges`); those not named are no memory.
    """
    found = measure_log(events, applications=applications, received=False)
    order, possible = found.order, found.possible
    offered = order.filter(pc.equal(order["kind"], "broadcast")).select(["t", "node", "bytes"])
    return {
        "pairs": _pairs(order),
        "possible": possible,
        "missing": possible - found.elsewhere,
        "offered": len(offered),
        "offered_digest": digest(offered),
        "memory": {
            unit: _memory(samples, {name for name, counted in units.items() if counted == unit}, until)
            for unit in ("messages", "entries")
        },
        "gauges": {row["gauge"]: [row["mean"], row["max"]] for row in gauges(samples).to_pylist()},
        "curve": _curve(np.sort(found.latencies), possible),
    }


def digest(offered: pa.Table) -> str:
    """A hash of who broadcast how much when: equal exactly if the broadcasts are."""
    offered = offered.sort_by([("t", "ascending"), ("node", "ascending"), ("bytes", "ascending")])
    columns = (np.ascontiguousarray(column.to_numpy(), np.int64) for column in offered.columns)
    return blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).hexdigest()


def _pairs(order: pa.Table) -> int | None:
    """Pairs in the wrong order, at all nodes; None where there are too many to count."""
    tally = audit(order, clock="global", limit=0).tally
    suspects = min(tally.late, order.num_rows)
    if tally.early * suspects > _MOST_COMPARISONS:
        return None
    return audit(order, clock="global", pairs=True, limit=0).pairs if tally.early else 0


def _memory(samples: pa.Table, names: Set[str], until: int) -> dict[str, float] | None:
    """Mean over nodes and time, and the largest, of the sum of some gauges; None if no node has any."""
    gauge = samples["gauge"].cast(pa.string())
    some = samples.filter(pc.is_in(gauge, pa.array(sorted(names), pa.string()))).select(["node", "t", "value"])
    if not some.num_rows:
        return None
    sums = some.group_by(["node", "t"], use_threads=False).aggregate([("value", "sum")])
    busy = sums.filter(pc.less_equal(sums["t"], until))
    return {"mean": pc.mean(busy["value_sum"]).as_py(), "peak": pc.max(sums["value_sum"]).as_py()}


def _curve(latency: np.ndarray[Any, np.dtype[np.int64]], possible: int) -> list[int]:
    """After how long each step of all possible deliveries had been made; it ends where the run's deliveries do."""
    places = (ceil(step * possible / CURVE_STEPS) for step in range(1, CURVE_STEPS + 1))
    return [int(latency[place - 1]) for place in places if place <= len(latency)]
