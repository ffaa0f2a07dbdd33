"""Filters that Spark hands down: rows that cannot pass are left out before they travel to the JVM.

Every filter is handed back, so Spark judges each row again and the answer never depends on this module. What is
dropped here is only what certainly fails: comparisons of whole numbers, equality of texts. Row groups of Parquet
are skipped by their statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark_filters

_COMPARE = {
    spark_filters.EqualTo: "equal",
    spark_filters.GreaterThan: "greater",
    spark_filters.GreaterThanOrEqual: "greater_equal",
    spark_filters.LessThan: "less",
    spark_filters.LessThanOrEqual: "less_equal",
}


class Filters:
    """The filters on columns of a schema that can be used; the others are not kept."""

    def __init__(self, filters: Iterable[Any] = (), schema: pa.Schema | None = None) -> None:
        self._kept: list[tuple[str, str, list[Any]]] = []
        for each in filters:
            name, operation, values = _plain(each)
            if schema is not None and name in schema.names and _usable(schema.field(name).type, operation, values):
                self._kept.append((name, operation, values))

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for name, _, _ in self._kept))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that may pass."""
        for name, operation, values in self._kept:
            column = batch.column(name)
            if operation == "in":
                mask = pc.is_in(column, pa.array(values, column.type))
            else:
                mask = getattr(pc, operation)(column, pa.scalar(values[0], column.type))
            batch = batch.filter(mask)
        return batch

    def may_be_in(self, group: Any) -> bool:
        """Whether rows that pass can be in a row group, by its statistics."""
        for place in range(group.num_columns):
            column = group.column(place)
            found = column.statistics
            if found is None or not found.has_min_max:
                continue
            for name, operation, values in self._kept:
                if name == column.path_in_schema and not _overlaps(operation, values, found.min, found.max):
                    return False
        return True


def _plain(each: Any) -> tuple[str, str, list[Any]]:
    name = each.attribute[0] if len(getattr(each, "attribute", ())) == 1 else ""
    if isinstance(each, spark_filters.In):
        return name, "in", list(each.value)
    operation = _COMPARE.get(type(each), "")
    return name, operation, [each.value] if operation else []


def _usable(kind: pa.DataType, operation: str, values: Sequence[Any]) -> bool:
    if not operation or any(value is None for value in values):
        return False
    if pa.types.is_integer(kind):
        limit = 1 << (kind.bit_width - 1)
        return all(type(value) is int and -limit <= value < limit for value in values)
    return (
        pa.types.is_string(kind)
        and operation in ("equal", "in")
        and all(isinstance(value, str) for value in values)
    )


def _overlaps(operation: str, values: Sequence[Any], low: Any, high: Any) -> bool:
    match operation:
        case "greater":
            return bool(high > values[0])
        case "greater_equal":
            return bool(high >= values[0])
        case "less":
            return bool(low < values[0])
        case "less_equal":
            return bool(low <= values[0])
        case _:
            return any(low <= value <= high for value in values)
