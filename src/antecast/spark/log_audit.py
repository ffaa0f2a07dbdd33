"""Logs in files judged on Spark, with what is wrong said as one process says it: the file and the line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from antecast.core.errors import AntecastError
from antecast.history.log_audit import may_be_dense
from antecast.history.log_files import Log
from antecast.history.rows import BrokenLog
from antecast.history.verdict import Verdict
from antecast.spark.audit import audit
from antecast.spark.completeness import frame_completeness
from antecast.spark.log_frames import log_frame
from antecast.spark.session import reason, spark_session
from antecast.spark.sweep import SparkFailed


def audit_log_on_spark(
    log: Log,
    *,
    dense: Any = None,
    complete: Any = None,
    master: str | None = None,
    on_progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Verdict:
    """The verdict of `antecast.history.log_audit.audit_log`, made by Spark."""
    note = on_progress or (lambda text: None)
    files = f"{len(log.files)} files" if len(log.files) > 1 else str(log.files[0].path)
    note(f"starting Spark to audit {files}")
    try:
        with spark_session("antecast audit", master=master) as spark:
            frame = log_frame(spark, log)
            verdict = audit(frame, clock=log.clock, on_progress=note, **options)
            found = frame_completeness(
                frame, look=may_be_dense(log), dense=dense, complete=complete, named=log.kinds
            )
    except BrokenLog as error:
        raise log.place(error) from None
    except Exception as error:
        if isinstance(error, AntecastError) or not is_sparks(error):
            raise
        if isinstance(error, ConnectionError | EOFError):
            raise SparkFailed(f"Spark went away while it audited the log: {error}") from error
        for _ in log.batches():
            pass  # a malformed row says so here, with its number
        raise SparkFailed(f"Spark could not audit the log: {reason(str(error))}") from error
    log.check_kinds(verdict.messages, verdict.tally.deliveries)
    return replace(verdict, assumed=found.assumed, unsettled=found.unsettled)


def is_sparks(error: Exception) -> bool:
    """Whether Spark failed, or is gone."""
    return type(error).__module__.startswith(("pyspark.", "py4j.")) or isinstance(
        error, ConnectionError | EOFError
    )
