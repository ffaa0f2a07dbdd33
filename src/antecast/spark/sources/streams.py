"""What sources that follow a broker share: rate limits, `availableNow`, and what a broker's trouble is called.

Spark keeps offsets in its checkpoint, and asks for the same range again after a crash. So a source delivers every
message exactly once as far as the broker can give a range a second time. The reader is made anew in every task:
nothing is connected before it is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import DataType, StructField, StructType

from antecast.core.errors import AntecastError, ConfigurationError, InputError

BATCH_ROWS, BATCH_BYTES = 4096, 32 << 20
"""Where a batch for Spark ends. A column of one cannot have more than 2 GiB."""


def struct(**columns: DataType) -> StructType:
    """Columns by name. Spark reads schemas in SQL notation only where there is a session, which workers lack."""
    return StructType([StructField(name, kind) for name, kind in columns.items()])


class Range(InputPartition):
    """A range of one log of the broker: `start` included, `end` not."""

    def __init__(self, start: int, end: int, log: Any = None) -> None:
        self.start, self.end, self.log = start, end, log


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader with a rate limit; subclasses say what there is and how to take part of it."""

    def __init__(self, schema: StructType, most: int | None) -> None:
        self.target = to_arrow_schema(schema, timezone="UTC")
        self.most = most
        self.until: dict[str, Any] | None = None
        """Where to stop, if the query ends with what was there when it began."""

    @abstractmethod
    def newest(self) -> dict[str, Any]:
        """The offset behind the last message."""

    @abstractmethod
    def limited(self, start: dict[str, Any], end: dict[str, Any], rows: int) -> dict[str, Any]:
        """An offset that is at most so many rows after the start, and not beyond the end."""

    def check(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        """Refuse to go on in a log that ends before its start: it is not the one that the checkpoint speaks of."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self.most is None else ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.until = self.newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        end = self.newest() if self.until is None else self.until
        self.check(start, end)
        return self.limited(start, end, limit.max_rows if isinstance(limit, ReadMaxRows) else 1 << 62)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return self.newest()

    def batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Rows as Spark expects them, of the columns that are asked for."""
        columns = [pa.array([row[field.name] for row in rows], field.type) for field in self.target]
        return pa.RecordBatch.from_arrays(columns, schema=self.target)


def in_batches(reader: StreamReader, rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    held: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row["value"] or b"")
        if len(held) == BATCH_ROWS or size >= BATCH_BYTES:
            yield reader.batch(held)
            held, size = [], 0
    if held:
        yield reader.batch(held)


@contextmanager
def told(source: str, where: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Say in one line which broker had trouble, and which."""
    try:
        yield
    except AntecastError:
        raise
    except kinds as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(said, path=f"{source}: {where}") from None


def client_missing(source: str, package: str, extra: str) -> ConfigurationError:
    """What to say where a broker's client is not installed."""
    problem = f'the package {package} is missing; pip install "antecast[{extra}]" on driver and workers'
    return ConfigurationError(problem, source=source)


def lost(source: str, where: str, start: int, first: int) -> InputError:
    """Messages that Spark has not read are gone."""
    problem = (
        f"messages from {start} on were asked for, and the first that is left is {first}:"
        " the broker has removed some that were not read; .option('failOnDataLoss', 'false') goes on without them"
    )
    return InputError(problem, path=f"{source}: {where}")


def anew(source: str, where: str, start: int, end: int, made: str | None = None) -> InputError:
    """The broker's log is not the one in which Spark is at `start`: it ends before, or is known to be younger."""
    why = (
        "was it deleted and created again?"
        if end < start or not made
        else f"it was deleted and created again, {made}."
    )
    problem = (
        f"the checkpoint is at {start}, and the next message will be {end}: {why} Start"
        " with a new checkpoint, or take all that is there with .option('failOnDataLoss', 'false')"
    )
    return InputError(problem, path=f"{source}: {where}")
