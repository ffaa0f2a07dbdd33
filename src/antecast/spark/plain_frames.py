"""DataFrames with the types that the auditor on Spark takes: whole numbers and texts.

Most logs have them. Where one has others (times, numbers with a point, structures), tasks turn its columns into
them with the code that reads files and tables, so that all see the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from antecast.history.histories import Clock
from antecast.history.log_audit import used_columns
from antecast.history.log_columns import BadValue, canonical, form_of, pick, type_at
from antecast.history.rows import BrokenLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARK = "this log is broken: "


def plain_frame(frame: DataFrame, columns: Mapping[str, str], clock: Clock) -> tuple[DataFrame, dict[str, str]]:
    """A frame whose columns the auditor takes, and what it calls them."""
    from pyspark.sql.types import DecimalType, IntegralType, StringType

    def is_plain(name: str) -> bool:
        held = kinds.get(columns.get(name, name))
        return isinstance(held, IntegralType | StringType) or (isinstance(held, DecimalType) and held.scale <= 0)

    kinds = {field.name: field.dataType for field in frame.schema}
    schema = _arrow(frame)
    used = used_columns(schema, columns, clock)
    texts = [
        name
        for name in used
        if name in ("pos", "seq", "t") and isinstance(kinds.get(columns.get(name, name)), StringType)
    ]
    if not texts and all(name == "kind" or is_plain(name) for name in used):
        return frame, dict(columns)
    forms = {name: form_of(name, type_at(schema, ".".join(steps)) or pa.null()) for name, steps in used.items()}
    columns_ = ", ".join(f"{name} {'string' if form == 'text' else 'long'}" for name, form in forms.items())
    return frame.mapInArrow(_Canonical(used), columns_), {}


def _arrow(frame: DataFrame) -> pa.Schema:
    """The columns with the types of Arrow; one that has none there is no column of a log."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in frame.schema:
        try:
            fields.append((field.name, to_arrow_type(field.dataType, timezone="UTC")))
        except PySparkException:
            fields.append((field.name, pa.list_(pa.null())))
    return pa.schema(fields)


@dataclass(frozen=True)
class _Canonical:
    """Batches with the columns in their forms."""

    used: Mapping[str, tuple[str, ...]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = []
            for name, steps in self.used.items():
                try:
                    column = canonical(name, pick(batch, steps))
                except BadValue as error:
                    raise ValueError(f"{_MARK}{error.problem}") from None
                plain = pa.types.is_dictionary(column.type)
                arrays.append(column.cast(pa.string()) if plain else column)
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.used))


def broken_value(error: Exception) -> BrokenLog | None:
    """What a task has said about a value, if that is why Spark failed."""
    found = str(error).rpartition(_MARK)
    return BrokenLog(found[2].splitlines()[0].strip()) if found[1] else None
