"""What all tasks of a stage need, handed over once and not with every task.

A classic session has broadcast variables. Spark Connect has none, and what travels inside a task is copied again
and again at the server, which allows 128 MB of it. So there the value becomes a file of the session: the client
sends it in small pieces, an executor fetches it once, and a worker loads it once, whatever the number of tasks.
These files go when the session ends.
"""

from __future__ import annotations

import pickle
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from antecast.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = 1 << 16
"""Bytes that are not worth a file."""

_LOADED = 2
"""Values that a worker keeps: the tasks of a stage use two."""

T = TypeVar("T", covariant=True)
V = TypeVar("V")


class Shared(Protocol[T]):
    """What all tasks of a stage are given: a broadcast variable, the value itself, or a file that has it."""

    @property
    def value(self) -> T: ...


@dataclass(frozen=True)
class Carried(Generic[T]):
    """A small value, which travels with the task."""

    value: T


@dataclass(frozen=True)
class InFile(Generic[T]):
    """A value in a file of the session."""

    name: str

    @property
    def value(self) -> T:
        return cast("T", _load(self.name))


@lru_cache(maxsize=_LOADED)
def _load(name: str) -> object:
    from pyspark import SparkFiles

    with Path(SparkFiles.get(name)).open("rb") as file:
        return pickle.load(file)


@contextmanager
def hand_out(spark: SparkSession, value: V) -> Iterator[Shared[V]]:
    """Hand a value to the tasks of the jobs that are started in this block."""
    if not is_connect(spark):
        broadcast: Any = spark.sparkContext.broadcast(value)
        try:
            yield broadcast
        finally:
            broadcast.destroy()
        return
    body = pickle.dumps(value, protocol=5)
    if len(body) <= _SMALL:
        yield Carried(value)
        return
    with tempfile.TemporaryDirectory(prefix="antecast-") as folder:
        file = Path(folder) / f"antecast-{uuid.uuid4().hex}.pickle"
        file.write_bytes(body)
        del body
        spark.addArtifacts(str(file), file=True)
    yield InFile(file.name)
