"""A Spark job in a thread of its own, so that the thread that started it can watch what it does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from antecast.spark.session import cancel_jobs, start_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL = 0.25
"""Seconds between two looks."""


def run_watched(
    spark: SparkSession, description: str, work: Callable[[], None], look: Callable[[], None]
) -> Exception | None:
    """Do work on Spark and look at it now and then, here; the error of the work, if it failed.

    What `look` raises, and an interrupt, cancel the jobs of the work.
    """
    from pyspark import InheritableThread

    failures: list[Exception] = []
    group = f"antecast-{uuid.uuid4().hex}"

    def in_a_group() -> None:
        try:
            start_jobs(spark, group, description)
            work()
        except Exception as error:
            failures.append(error)

    job = InheritableThread(in_a_group, session=spark)
    job.daemon = True
    job.start()
    try:
        while job.is_alive():
            before = time.monotonic()
            look()
            # Large folders take long to list: spend a twentieth of the time on it at the most.
            job.join(max(_POLL, 20 * (time.monotonic() - before)))
    except BaseException:
        cancel_jobs(spark, group)
        job.join(10)  # so that no task is left that writes into an abandoned folder
        raise
    return failures[0] if failures else None
