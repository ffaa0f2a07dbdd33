"""Ordered output into a log of a broker: every row once and in order, whatever fails in between.

Tasks hand their rows to the driver, which puts those of a micro-batch in order and publishes them one after the
other. Each message says of which micro-batch it is and the how-manieth row, so the log itself tells how far it has
come: a micro-batch that Spark runs again goes on behind the last row that is there. No window of duplicates to
outlive, no transaction to recover. The rows of a micro-batch are in the driver's memory: limit the rate of the
source.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegralType, MapType, StringType, StructType

from antecast.core.errors import ConfigurationError, InputError

BATCH, ROW = "Antecast-Batch", "Antecast-Row"
"""Headers of a message: the query and its micro-batch; the row and a digest of it."""


@dataclass(frozen=True)
class Line:
    """A message to be."""

    order: tuple[Any, ...]
    value: bytes
    key: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        whole = repr((self.order, self.key, self.value, sorted(self.headers.items())))
        return hashlib.blake2b(whole.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Mark:
    """What the last message of a log says of itself."""

    query: str
    batch: int
    row: int
    digest: str

    @classmethod
    def read(cls, headers: Mapping[str, str]) -> Mark | None:
        query, _, batch = headers.get(BATCH, "").rpartition(" ")
        row, _, digest = headers.get(ROW, "").partition(" ")
        return cls(query, int(batch), int(row), digest) if batch.isdecimal() and row.isdecimal() else None


class Rows(WriterCommitMessage):
    """The rows of a task."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines


class OrderedWriter(DataSourceStreamWriter):
    """Writes the columns `value`, `key` and `headers`, as far as they are there, in the order of `orderBy`."""

    source: ClassVar[str]

    def __init__(self, schema: StructType, values: Mapping[str, Any], *, place: str) -> None:
        self.place = place
        self.query: str = values.get("query", place)
        self.order: tuple[str, ...] = values.get("orderBy") or ("position",)
        there = {each.name: each.dataType for each in schema.fields}
        kinds = {"value": BinaryType | StringType, "key": BinaryType | StringType, "headers": MapType}
        for name in ("value", *self.order):
            if name not in there:
                problem = f"no column {name!r}; the columns are {', '.join(there)}"
                raise ConfigurationError(problem, source=self.source, field="orderBy" if name != "value" else None)
        for name, kind in {**kinds, **dict.fromkeys(self.order, IntegralType | StringType)}.items():
            fits = name not in there or isinstance(there[name], kind)
            if not fits or (name == "headers" and name in there and not _are_texts(there[name])):
                problem = f"the column {name!r} is {there[name].simpleString()}, which cannot be written"
                raise ConfigurationError(problem, source=self.source)

    def write(self, iterator: Iterator[Any]) -> Rows:
        lines = []
        for row in iterator:
            values = row.asDict()
            order = tuple(values[name] for name in self.order)
            if None in order or values["value"] is None:
                problem = f"{' or '.join((*self.order, 'value'))} is null; rows that were refused have no position"
                raise InputError(f'{problem}: filter them with "reason is null"', path=self.source)
            headers = self.headers(values.get("headers") or {})
            lines.append(Line(order, _bytes(values["value"]) or b"", _bytes(values.get("key")), headers))
        return Rows(lines)

    def headers(self, given: Mapping[str, str | None]) -> dict[str, str]:
        """The headers of a row as they can be written."""
        if None in given.values():
            name = next(name for name, text in given.items() if text is None)
            raise InputError(f"the header {name!r} is null, and a header is a text", path=self.source)
        return {name: text for name, text in given.items() if text is not None}

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        lines = [line for each in messages if isinstance(each, Rows) for line in each.lines]
        lines.sort(key=lambda line: (line.order, line.key or b"", line.value))
        if lines:
            self.publish(batchId, lines)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing was published: that is done when all tasks have ended well."""

    @abstractmethod
    def publish(self, batch: int, lines: list[Line]) -> None: ...

    def resume(self, mark: Mark | None, batch: int, lines: list[Line]) -> int:
        """The first row that is not there yet. The last message must be of this query and fit these rows."""
        if mark is None or mark.query != self.query or mark.batch < batch:
            return 0
        fits = mark.batch == batch and mark.row < len(lines) and lines[mark.row].digest == mark.digest
        if not fits:
            problem = (
                f"the last message is row {mark.row} of micro-batch {mark.batch} of {mark.query!r}, which does not"
                f" fit micro-batch {batch} of this query; if its checkpoint is new, set .option('query', NAME)"
            )
            raise InputError(problem, path=f"{self.source}: {self.place}")
        return mark.row + 1


def _are_texts(kind: DataType) -> bool:
    return isinstance(kind, MapType) and {type(kind.keyType), type(kind.valueType)} == {StringType}


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else None if value is None else bytes(value)
