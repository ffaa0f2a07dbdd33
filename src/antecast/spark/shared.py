"""What all tasks of a stage need, handed over once and not with every task.

A classic session on a cluster has broadcast variables. Where the workers are on the driver's machine, a file does
the same without a copy: all of them map its arrays into their memory, and the JVM, whose memory holds a broadcast
variable whole, never sees them.

Spark Connect has no broadcast variables, and what travels inside a task is copied again
and again at the server, which allows 128 MB of it. So there the value becomes a file of the session: the client
sends it in small pieces, an executor fetches it once, and a worker loads it once, whatever the number of tasks.
These files go when the session ends.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
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

_ALIGNED = 64
"""Where arrays start in a file: at multiples of so many bytes."""

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


@dataclass(frozen=True)
class Mapped(Generic[T]):
    """A value in a file of this machine: what was pickled, with its arrays as they lie in memory behind it."""

    path: str
    bounds: tuple[tuple[int, int], ...]
    """Where the pickled object starts and ends, and then each array."""

    @property
    def value(self) -> T:
        return cast("T", _map(self.path, self.bounds))


@lru_cache(maxsize=_LOADED)
def _map(path: str, bounds: tuple[tuple[int, int], ...]) -> object:
    with Path(path).open("rb") as file:
        # Private, so that arrays can be written to, and kernels need not be compiled for others that cannot.
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    body, *arrays = (whole[start:end] for start, end in bounds)
    return pickle.loads(body, buffers=arrays)


def _write(value: object, path: Path) -> Mapped[Any]:
    arrays: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    bounds = []
    with path.open("wb") as file:
        for piece in (memoryview(body), *(each.raw() for each in arrays)):
            file.seek(-file.tell() % _ALIGNED, 1)
            bounds.append((file.tell(), file.tell() + len(piece)))
            file.write(piece)
    return Mapped(str(path), tuple(bounds))


@lru_cache(maxsize=_LOADED)
def _load(name: str) -> object:
    from pyspark import SparkFiles

    with Path(SparkFiles.get(name)).open("rb") as file:
        return pickle.load(file)


@contextmanager
def hand_out(spark: SparkSession, value: V) -> Iterator[Shared[V]]:
    """Hand a value to the tasks of the jobs that are started in this block."""
    if not is_connect(spark) and re.fullmatch(r"local(\[.*\])?", str(spark.conf.get("spark.master"))):
        # Where Spark puts what is too large for memory.
        place = os.environ.get("SPARK_LOCAL_DIRS") or spark.conf.get("spark.local.dir", None) or None
        with tempfile.TemporaryDirectory(prefix="antecast-", dir=place and place.split(",")[0]) as folder:
            yield _write(value, Path(folder) / "shared")
        return
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
