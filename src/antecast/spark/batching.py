"""Arrow batches as Spark hands them to a task, in groups that are worth the work."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa


def groups(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """The same batches, with at least so many rows to a group; the last group may have fewer."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += len(batch)
        if count >= rows:
            yield held
            held, count = [], 0
    if count:
        yield held


@cache
def settle_in() -> None:
    """Once per worker: hide what is loaded by now, the compiler above all, from the garbage collector.

    Spark has a worker collect its garbage after every task, and to look at all that takes longer than most tasks.
    """
    gc.freeze()
