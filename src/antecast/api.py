"""`audit`, the one call of the public interface that takes several kinds of thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from antecast.history.verdict import Verdict
    from antecast.sim.run import RunResult


def audit(events: RunResult | pa.Table | DataFrame | Path | str, **options: Any) -> Verdict:
    """Judge the causal order of a log.

    A Spark DataFrame is judged on Spark; a run, an Arrow table, or the path of a run folder or of an
    event log in Parquet in this process. Options are those of `antecast.history.audit.audit` (such as
    `pairs=True`) and `antecast.spark.audit.audit`.
    """
    from antecast.history import audit as kernel
    from antecast.history.log import iter_events
    from antecast.sim.run import RunResult

    if type(events).__module__.startswith("pyspark."):
        from antecast.spark.audit import audit as audit_on_spark

        return audit_on_spark(cast("DataFrame", events), **options)
    if isinstance(events, RunResult):
        return kernel.audit(events.events, **{"clock": "global"} | options)
    if isinstance(events, Path | str):
        path = events
        return kernel.audit(lambda: iter_events(path), **options)
    return kernel.audit(events, **options)
