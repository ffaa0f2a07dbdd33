"""Logs that still grow, followed by a stream of Spark: tasks read the lines, the driver judges its window.

The place is kept by the follower's own state file, as without Spark: the stream begins where the window began.
What was judged before is read again and said no more. Needs a session with its driver in this process.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from antecast.auditing.findings import Finding
from antecast.auditing.follow import Follower
from antecast.core.errors import AntecastError, ConfigurationError
from antecast.spark.session import is_connect, reason, spark_session
from antecast.spark.sources.lines import NAME, LinesSource, offset_of
from antecast.spark.sweep import SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIGGER = "500 milliseconds"
_LOOK = 0.2


def follow_on_spark(
    follower: Follower,
    say: Callable[[Sequence[Finding]], None] = lambda _: None,
    *,
    master: str | None = None,
    spark: SparkSession | None = None,
    until_idle: float | None = None,
) -> None:
    """Hand the lines of a stream to a follower, and what it finds to `say`, until interrupted or idle.

    A follower that has a `say` of its own needs none here.
    """
    failed: list[Exception] = []

    def take(frame: DataFrame, _: int) -> None:
        try:
            table = frame.orderBy("tail", "place").toArrow()
            for found in follower.take(table.to_pylist()):
                say(found)
        except Exception as error:  # Spark would tell it as the text of a text
            failed.append(error)
            raise

    with (
        spark_session("antecast audit --follow", spark=spark, master=master) as session,
        tempfile.TemporaryDirectory(prefix="antecast-follow-") as checkpoint,
    ):
        if is_connect(session):
            problem = "following needs a Spark whose driver is here; an sc:// server has its own"
            raise ConfigurationError(problem, field="--master")
        session.dataSource.register(LinesSource)
        tails = follower.tails
        start = json.dumps(offset_of(tails.all, tails.count))
        lines = session.readStream.format(NAME).option("paths", json.dumps([str(path) for path in tails.paths]))
        lines = lines.option("startingOffsets", start).option("maxLineBytes", str(tails.max_line))
        writer = lines.load().writeStream.foreachBatch(take).trigger(processingTime=TRIGGER)
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            _wait(query, follower, until_idle)
        except Exception as error:
            told = next((each for each in failed if isinstance(each, AntecastError)), None)
            if told is not None:
                raise told from None
            raise SparkFailed(f"Spark could not follow the log: {reason(str(error))}") from error
        finally:
            query.stop()


def _wait(query: Any, follower: Follower, until_idle: float | None) -> None:
    last, seen = time.monotonic(), -1
    while query.isActive:
        if query.awaitTermination(_LOOK):
            return
        if follower.result().seen != seen:
            last, seen = time.monotonic(), follower.result().seen
        # What begins, or is being read, is not idle, however long it takes.
        if query.lastProgress is None or query.status["isDataAvailable"]:
            last = time.monotonic()
        elif query.status["isTriggerActive"]:
            last = max(last, time.monotonic() - (until_idle or 0) / 2)
        if until_idle is not None and time.monotonic() - last >= until_idle:
            return
    if query.exception() is not None:
        raise query.exception()
