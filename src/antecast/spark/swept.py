"""The tables of a sweep for Spark: its events, samples and runs as DataFrames."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.history.parts import TABLES
from antecast.history.store import Store
from antecast.spark.folder import MEASURED, SweepFolder, describe_lost
from antecast.text.wording import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Sweep:
    """The tables of a sweep as DataFrames; events and samples have their run's fields and seed beside them."""

    events: DataFrame
    samples: DataFrame
    runs: DataFrame
    parameters: tuple[str, ...]
    """The columns of the fields that vary."""
    lost: tuple[str, ...] = ()
    """Runs that `runs` has, as finished, and whose events and samples the store has lost."""


def read_sweep(spark: SparkSession, folder: Path | str) -> Sweep:
    """The tables of a sweep for a Spark session, whose workers must reach its folder.

    A warning says which runs are missing: not made yet, or lost by the store. The others can be read.

    A folder on a disk is read by Spark, which skips what a filter on `run` or on a field that varies leaves out.
    One in an object store is read by Arrow in the workers, so that Spark needs no jar for it.
    """
    place = SweepFolder(folder)
    where = place.store.where("runs.parquet")
    try:
        table = pq.read_table(pa.BufferReader(place.store.read("runs.parquet")))
        table.select(["run", "seed", "error"])
    except FileNotFoundError:
        raise InputError("no such file; a sweep that has ended has one", path=where) from None
    except (KeyError, ValueError, pa.ArrowException) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"not the table of a sweep ({why}); the same command renews it", path=where) from None
    parts = place.parts.refresh()
    if parts.overlap:
        problem = "runs lie in several parts, since a sweep was killed; the same command puts it right"
        raise InputError(problem, path=place.store.where())
    wrong = place.lost_runs()
    lost = [run for run in table["run"].to_pylist() if run in wrong]
    told = [describe_lost(lost, wrong)] if lost else []
    if (unmade := (place.planned() or 0) - table.num_rows) > 0:
        told.append(f"{plural(unmade, 'run')} of the study {'is' if unmade == 1 else 'are'} not made yet")
    if told:
        warnings.warn(f"{place.store.where()}: {'; '.join(told)}. The command makes them", stacklevel=2)
    names = [name for name in table.column_names if name not in ("index", "run", *MEASURED)]
    runs = spark.createDataFrame(table)
    # Runs that the table does not know were made by other code, or by a study that has changed since.
    strangers = not parts.of.keys() <= set(table["run"].to_pylist())

    def logs(name: str) -> DataFrame:
        schema = pa.schema([*map(_plain, TABLES[name]), *(table.schema.field(each) for each in names)])
        found = _read_tables(spark, place, name, schema)
        return found.join(runs.select("run"), "run", "left_semi") if strangers else found

    return Sweep(logs("events"), logs("samples"), runs, tuple(names[:-1]), tuple(lost))


def _read_tables(spark: SparkSession, place: SweepFolder, name: str, schema: pa.Schema) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    files = [f"{name}/{part}.parquet" for part in place.parts.found]
    if place.store.local is not None and files:
        paths = [str(place.store.local / file) for file in files]
        return spark.read.schema(from_arrow_schema(schema)).parquet(*paths)
    tasks = spark.range(0, len(files), 1, numPartitions=max(1, len(files)))
    return tasks.mapInArrow(_Reading(place.store, files, schema), from_arrow_schema(schema))


@dataclass(frozen=True)
class _Reading:
    """What travels to the workers to read tables from an object store."""

    store: Store
    files: list[str]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                yield from self._read(self.files[position])

    def _read(self, name: str) -> Iterator[pa.RecordBatch]:
        try:
            with self.store.open(name) as file:
                for each in pq.ParquetFile(file).iter_batches(1 << 16, columns=self.schema.names):
                    yield from pa.Table.from_batches([each]).cast(self.schema).to_batches()
        except (OSError, pa.ArrowException) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"cannot be read ({why})", path=self.store.where(name)) from error


def _plain(field: pa.Field) -> pa.Field:
    kind = pa.string() if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, kind)
