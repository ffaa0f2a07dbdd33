"""A run that has been judged and measured: the auditor's verdict, what became of the promises, the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecast.history import metrics
from antecast.history.audit import audit
from antecast.history.log import iter_events
from antecast.history.measure import Measures, measure
from antecast.history.promises import Promises, Told, judge_promises, tell
from antecast.history.rows import COLUMNS
from antecast.history.verdict import Verdict

if TYPE_CHECKING:
    from antecast.sim.run import RunResult


@dataclass(frozen=True)
class Judged:
    """What is known about a run; without an audit, only its numbers."""

    result: RunResult
    measures: Measures
    verdict: Verdict | None
    promises: Promises | None

    @property
    def told(self) -> Told | None:
        """What became of causal order, in a sentence."""
        if self.verdict is None or self.promises is None:
            return None
        return tell(self.result.scenario.specification.name, self.promises, self.verdict)

    def summary(self) -> dict[str, Any]:
        """The run in numbers, ready for JSON. Times are in seconds."""
        result, verdict = self.result, self.verdict
        scenario, latency, costs = result.scenario, self.measures.delivery, self.measures.cost
        frames = scenario.log.events == "all"
        return {
            "run": result.run,
            "scenario": scenario.name,
            "protocol": scenario.specification.name,
            "seed": scenario.seed,
            "nodes": len(scenario.members),
            "engine": result.choice.engine,
            "engine_reason": result.choice.why,
            "status": "interrupted" if result.interrupted else "complete",
            "verdict": self.promises.outcome(verdict) if verdict and self.promises else None,
            "promised": sorted(scenario.specification.guarantees),
            "broken_promises": self.promises.broken if self.promises else [],
            "unmet_needs": scenario.unmet_needs(),
            "counts": None if verdict is None else verdict.counts,
            "witness": None if verdict is None or verdict.witness is None else str(verdict.witness),
            "broadcasts": costs.broadcasts,
            "deliveries": costs.deliveries,
            "delivery_ratio": _number(self.measures.ratio),
            "latency": {"mean": _seconds(latency.mean), "max": _seconds(latency.max)}
            | {f"p{fraction * 100:g}": _seconds(value) for fraction, value in latency.quantiles},
            "frames_per_delivery": _number(costs.frames_per_delivery) if frames else None,
            "control_bytes_per_broadcast": _number(costs.control_bytes_per_broadcast) if frames else None,
            "gauges": {
                row["gauge"]: {"mean": row["mean"], "max": row["max"]}
                for row in metrics.gauges(result.samples).to_pylist()
            },
            "trace_origin": scenario.trace_origin()[0] / 1e9,
            "notes": scenario.notes(),
            "dropped_frames": result.dropped,
            "lost_frames": result.lost,
            "refused_frames": result.refused,
            "alerts": result.alerts,
            "astray_frames": result.astray,
            "troubles": result.troubles,
            "events": result.logged,
            "simulated": _seconds(result.ended),
            "wall": round(result.wall, 3),
            "folder": None if result.folder is None else str(result.folder),
        }


def judge(result: RunResult, *, audited: bool = True) -> Judged:
    """Measure a run and, unless told not to, audit it and judge its promises."""

    def events(columns: list[str] | None = None) -> Iterable[pa.RecordBatch]:
        if result.folder is not None:
            return iter_events(result.folder, columns)
        table = result.events if columns is None else result.events.select(columns)
        batches: list[pa.RecordBatch] = table.to_batches()
        return batches

    measures = measure(events, applications=result.scenario.total_nodes, received=False)
    if not audited:
        return Judged(result, measures, None, None)
    verdict = audit(lambda: events(list(COLUMNS)), clock="global")
    promises = judge_promises(
        result.scenario.specification.guarantees,
        verdict.tally,
        lambda: result.events,
        elsewhere=measures.elsewhere,
        latest=result.scenario.latest_delivery(),
    )
    return Judged(result, measures, verdict, promises)


def _number(value: float) -> float | None:
    return value if value == value else None  # JSON has no NaN


def _seconds(ns: float) -> float | None:
    return ns / 1e9 if ns == ns else None
