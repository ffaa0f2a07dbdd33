"""Rows on their way to Python and back: columns may be called anything, and return with the types Spark expects.

PySpark looks columns up by name on the way to Python, where a dot means a field of a structure, and the state
store takes plain names of keys only. So rows travel with numbers for names, and keys with plain names; Arrow
tables have the names that the user gave.

Keys of a stateful operator pass through pandas, where a column of numbers with a null in it becomes one of floats:
Spark then takes several groups for one. So keys that pandas would change are replaced by others that say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from antecast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NOW = "antecast_now"  # Spark renames columns that begin with an underscore on their way to the operator
_TAKEN = ("rows", NOW)
_CASE = "spark.sql.caseSensitive"
_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"

Steps = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def column(name: str) -> Column:
    """A column by its name, as it is."""
    return F.col("`" + name.replace("`", "``") + "`")


def check_frame(frame: DataFrame, keys: Sequence[str], added: Sequence[str]) -> None:
    """Refuse a frame whose columns cannot be told apart, or keys by which a stream cannot be grouped."""
    alike = str if frame.sparkSession.conf.get(_CASE) == "true" else str.lower
    taken = [name for name in frame.columns if alike(name) in added or name.startswith("__")]
    if taken:
        problem = f"{', '.join(added)} and names with two underscores are added; rename the column"
        raise ConfigurationError(f"a column is called {taken[0]!r} already; {problem}", field="columns")
    twice = [name for name in frame.columns if frame.columns.count(name) > 1]
    if twice:
        raise ConfigurationError(f"two columns are called {twice[0]!r}; rename one", field="columns")
    for field in frame.schema:
        try:
            to_arrow_schema(StructType([field]), timezone="UTC")
        except (PySparkTypeError, ValueError):
            problem = f"{field.name!r} is {field.dataType.simpleString()}, which Spark cannot hand to Python"
            problem += "; cast it to a text, or drop it"
            raise ConfigurationError(problem, field="columns") from None
    for name in keys if frame.isStreaming else ():
        kind = frame.schema[name].dataType
        if isinstance(kind, ArrayType | MapType | StructType | VariantType):
            problem = f"{name!r} is {kind.simpleString()}; name columns of single values, such as fields of it"
            raise ConfigurationError(problem, field="key")


def in_arrow(frame: DataFrame, step: Steps, output: StructType) -> DataFrame:
    """`mapInArrow` for columns of any name."""
    names = list(frame.columns)

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(batch.rename_columns(names) for batch in batches)

    return _numbered(frame).mapInArrow(named, output)


def by_groups(
    frame: DataFrame, key: Sequence[str], step: Callable[[pa.Table], pa.Table], output: StructType
) -> DataFrame:
    """`applyInArrow` for columns of any name; texts and timestamps become what Spark expects in this session."""
    names = list(frame.columns)
    target = arrow_schema(frame, output)

    def named(table: pa.Table) -> pa.Table:
        return step(table.rename_columns(names)).select(target.names).cast(target)

    return _numbered(frame).groupBy(*(_place(names.index(name)) for name in key)).applyInArrow(named, output)


def arrow_schema(frame: DataFrame, output: StructType) -> pa.Schema:
    """The types that Spark expects back in this session."""
    large = frame.sparkSession.conf.get(_LARGE) == "true"
    return to_arrow_schema(output, timezone="UTC", prefers_large_types=large)


def nullable(output: StructType) -> StructType:
    """The columns of a stream: of a row that waited while a column was added, that one is null."""
    return StructType([StructField(each.name, each.dataType, True, each.metadata) for each in output])


def _numbered(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(_place(place) for place in range(len(frame.columns))))


def _place(place: int) -> str:
    return f"column{place}"


def plain_names(key: Sequence[str]) -> list[str]:
    """Names for keys that a state store takes: their own, if they are plain.

    >>> plain_names(["account", "shop.id", "Rows"])
    ['account', 'key1', 'key2']
    """
    fine = [
        name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in _TAKEN else ""
        for name in key
    ]
    taken = {name.lower() for name in fine}
    return [name or _free(place, taken) for place, name in enumerate(fine)]


def _free(place: int, taken: set[str]) -> str:
    name = f"key{place}"
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def packed_schema(frame: DataFrame, key: Sequence[str], **more: DataType) -> StructType:
    """The schema of packed rows: plain names of keys, the rows of a group as bytes, and more columns."""
    fields = [
        StructField(plain, frame.schema[name].dataType) for name, plain in zip(key, plain_names(key), strict=True)
    ]
    rest = [StructField(name, kind) for name, kind in more.items()]
    return StructType([*fields, StructField("rows", BinaryType()), *rest])


def fit_for_pandas(packed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Packed rows with keys that pandas leaves as they are. Equal keys stay equal, and others do not become so."""
    return packed.withColumns({name: _fit_for_pandas(name, packed.schema[name].dataType) for name in keys})


def _fit_for_pandas(name: str, kind: DataType) -> Column:
    key = column(name)
    if isinstance(kind, StringType):
        said = (
            f"a key in {name!r} has bytes that are no UTF-8, which pandas cannot take; make_valid_utf8 mends them"
        )
        wrong = F.raise_error(F.lit(said)).cast(kind)
        return F.when(~F.is_valid_utf8(key), wrong).otherwise(key)
    if isinstance(kind, BinaryType | BooleanType | DateType | DecimalType):
        return key
    if isinstance(kind, IntegerType | LongType):
        # These are the keys of most streams: the type stays, so that their checkpoints are still good.
        least = -(1 << 31) if isinstance(kind, IntegerType) else -(1 << 63)
        said = f"the key {least} is not told from a missing one; turn the column into a text"
        taken = F.when(key == F.lit(least), F.raise_error(F.lit(said)).cast(kind))
        return taken.otherwise(F.coalesce(key, F.lit(least).cast(kind)))
    if isinstance(kind, TimestampType):
        return F.unix_micros(key).cast("string")  # as a text of its own it would depend on the time zone
    if isinstance(kind, FractionalType):
        key = key + F.lit(0).cast(kind)  # −0 is 0
    return key.cast("string")


def keys_of_state(kept: DataFrame, key: Sequence[str], schema: StructType) -> DataFrame:
    """The keys of groups as rows have them, of those that the state store has, and the other columns."""
    plain = plain_names(key)
    keys = [_as_before(place, schema[name].dataType).alias(name) for name, place in zip(key, plain, strict=True)]
    return kept.select(*keys, *(column(each) for each in kept.columns if each not in plain))


def _as_before(name: str, kind: DataType) -> Column:
    """What `_fit_for_pandas` has made of a key is made the key again."""
    key = column(name)
    if isinstance(kind, IntegerType | LongType):
        return F.when(key != F.lit(-(1 << 31) if isinstance(kind, IntegerType) else -(1 << 63)), key)
    return F.timestamp_micros(key.cast("long")) if isinstance(kind, TimestampType) else key.cast(kind)


def drained(drains: DataFrame, key: Sequence[str], schema: StructType, *more: Column) -> DataFrame:
    """Keys whose groups are to be emptied, as packed rows without rows."""
    keys = []
    for name, plain in zip(key, plain_names(key), strict=True):
        if name not in drains.columns:
            problem = f"no column {name!r}; the columns are {', '.join(drains.columns)}"
            raise ConfigurationError(problem, field="drains")
        kind, own = schema[name].dataType, drains.schema[name].dataType
        if own != kind and not (isinstance(own, IntegralType) and isinstance(kind, IntegralType)):
            problem = f"the column {name!r} is {own.simpleString()}, and the key is {kind.simpleString()}"
            raise ConfigurationError(problem, field="drains")
        keys.append(column(name).cast(kind).alias(plain))
    return drains.select(*keys, F.lit(None).cast("binary").alias("rows"), *more)


def not_ahead(event: Column) -> Column:
    """A time for the watermark. A clock ahead of real time would move it for good, so it counts as real time; a
    row without a time does not move it."""
    return F.when(event.isNotNull(), F.least(event, F.current_timestamp()))
